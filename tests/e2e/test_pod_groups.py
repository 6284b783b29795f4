"""Pod groups of Kubernetes 1.37 on a cluster, and clusters that are older."""

from __future__ import annotations

import logging

import pytest

from mooring.controlplane.serving.faults import FaultRule
from mooring.core.config.features import Features
from mooring.core.config.versions import V1_37
from mooring.live.context import SchedulerOptions
from mooring.live.informers import consequences

pytestmark = pytest.mark.e2e

MEMBER = {"schedulingGroup": {"podGroupName": "train"}}


def options() -> SchedulerOptions:
    return SchedulerOptions(features=Features(V1_37, GenericWorkload=True))


async def group(world, minimum: int) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    await world.create("Group", {"kind": "PodGroup", "metadata": {"name": "train"}, "spec": spec})


async def scheduled(world, status: str) -> dict:
    async def look():
        found = await world.get("Group", "train")
        conditions = found.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["status"] == status), None)

    return await world.until(f"PodGroupInitiallyScheduled is {status}", look)


async def test_a_gang_is_bound_as_a_whole_with_its_condition(world):
    await world.node("a", cpu="1")
    async with world.scheduler(options=options()):
        await group(world, 2)
        for name in ("one", "two"):
            await world.pod(name, **MEMBER)
        condition = await scheduled(world, "False")
        assert condition["type"] == "PodGroupInitiallyScheduled" and condition["reason"] == "Unschedulable"
        assert condition["message"].startswith("minCount (2) cannot be satisfied: 1 scheduled, 0 remaining")
        await world.node("b", cpu="1")
        assert {await world.bound(name) for name in ("one", "two")} == {"a", "b"}
        assert (await scheduled(world, "True"))["reason"] == "Scheduled"


async def test_an_api_server_without_some_kinds_is_served_all_the_same(world, caplog):
    """As one of 1.34 to 1.36 is, or one with a group switched off: pods without such things are bound."""
    caplog.set_level(logging.INFO, "mooring.live")
    for path in ("/podgroups", "/devicetaintrules", "/csistoragecapacities", "/resource.k8s.io/"):
        world.faults.add(FaultRule("error", "GET", path, times=1_000, code=404))
    await world.node("a")
    async with world.scheduler(options=options()) as live:
        await world.pod("plain")
        await world.pod("member", **MEMBER)
        assert await world.bound("plain") == "a"
        assert "podgroups.scheduling.k8s.io" in live.informers.not_served()
        (waiting,) = live.scheduler.queue.pending_pods()
        assert (waiting.name, waiting.queue) == ("member", "incomplete")
    lines = [record.getMessage() for record in caplog.records if "does not serve all kinds" in record.getMessage()]
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("kinds", "want"),
    [
        pytest.param(
            ["resourceclaims.resource.k8s.io", "csidrivers.storage.k8s.io"],
            "csidrivers.storage.k8s.io; resourceclaims.resource.k8s.io (pods with resource claims stay pending)",
            id="what follows is said where something does",
        ),
        pytest.param(
            ["podgroups.scheduling.k8s.io"],
            "podgroups.scheduling.k8s.io (pods with a schedulingGroup stay pending)",
            id="groups",
        ),
    ],
)
def test_the_log_line_about_missing_kinds(kinds, want):
    assert consequences(kinds) == want
