"""Pods are bound, or told why not: the scheduler over real HTTP and TLS."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.e2e


async def test_pods_are_bound_and_say_so(world):
    await world.node("a")
    async with world.scheduler():
        for i in range(3):
            await world.pod(f"web-{i}")
        assert {await world.bound(f"web-{i}") for i in range(3)} == {"a"}
        (event,) = await world.events("web-0", "Scheduled")
    assert event["note"] == "Successfully assigned default/web-0 to a"
    assert (event["type"], event["action"], event["reportingController"]) == ("Normal", "Binding", "default-scheduler")


async def test_a_pod_that_fits_nowhere_says_why_and_is_bound_when_a_label_appears(world):
    await world.node("a")
    async with world.scheduler():
        await world.pod("picky", nodeSelector={"disk": "ssd"})
        condition = await world.condition("picky", reason="Unschedulable")
        assert condition["message"] == (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to "
            "deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        (event,) = await world.events("picky", "FailedScheduling")
        assert event["note"] == condition["message"]
        await world.patch("Node", "a", {"metadata": {"labels": {"disk": "ssd"}}})
        assert await world.bound("picky") == "a"
