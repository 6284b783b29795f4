"""Coscheduling on a cluster: the pods of a PodGroup are bound together or not at all."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.e2e

CONFIG = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
            "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 1}}],
        }
    ]
}
GANG = {"labels": {"scheduling.x-k8s.io/pod-group": "gang"}}


async def group(world, minimum: int) -> None:
    await world.create("PodGroup", {"metadata": {"name": "gang"}, "spec": {"minMember": minimum}})


async def on_nodes(world) -> list[str | None]:
    return [pod["spec"].get("nodeName") for pod in await world.list("Pod")]


async def test_all_are_bound_once_the_last_one_has_come(world):
    await world.node("a", cpu="4")
    async with world.scheduler(CONFIG):
        await group(world, 3)
        for name in ("p1", "p2"):
            await world.pod(name, **GANG)
        await world.pod("loner")
        assert await world.bound("loner") == "a"
        assert (await on_nodes(world)).count(None) == 2, "two of three are held back"
        await world.pod("p3", **GANG)
        assert [await world.bound(name) for name in ("p1", "p2", "p3")] == ["a", "a", "a"]


async def test_none_is_bound_where_one_has_no_room(world):
    await world.node("a", cpu="2")
    async with world.scheduler(CONFIG):
        await group(world, 3)
        for name in ("p1", "p2", "p3"):
            await world.pod(name, **GANG)
        for name in ("p1", "p2", "p3"):
            await world.condition(name, reason="Unschedulable")
        assert await on_nodes(world) == [None, None, None]
        await world.node("b", cpu="2")
        assert {await world.bound(name) for name in ("p1", "p2", "p3")} == {"a", "b"}


async def test_members_wait_for_their_group(world):
    await world.node("a")
    async with world.scheduler(CONFIG):
        await world.pod("p1", **GANG)
        await world.pod("loner")
        assert await world.bound("loner") == "a"
        assert (await on_nodes(world)).count(None) == 1
        await group(world, 1)
        assert await world.bound("p1") == "a"
