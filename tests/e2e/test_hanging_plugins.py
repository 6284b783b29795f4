"""A plugin that hangs costs its pod, not the process."""

from __future__ import annotations

import time
from typing import ClassVar

import pytest

from mooring import sdk
from mooring.framework.registry import Registry
from mooring.framework.status import SUCCESS
from mooring.plugins.in_tree import in_tree_registry
from mooring.scheduler.scheduler import Options

pytestmark = pytest.mark.e2e


class Sleepy(sdk.NodeFilter):
    """Never comes back for pods labelled ``sleepy: filter``."""

    name = "Sleepy"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        while pod.metadata.labels.get("sleepy") == "filter":
            time.sleep(0.01)
        return sdk.SUCCESS


class Loop:
    """Spins in Reserve for pods labelled ``sleepy: reserve``."""

    name: ClassVar[str] = "Loop"

    def __init__(self, args, handle):
        pass

    def reserve(self, state, pod, node_name):
        while pod.pod.metadata.labels.get("sleepy") == "reserve":
            pass
        return SUCCESS

    def unreserve(self, state, pod, node_name):
        pass


@pytest.mark.parametrize(("plugin", "where"), [(Sleepy, "filter"), (Loop, "reserve")], ids=["in filter", "in reserve"])
async def test_the_pod_gets_an_error_and_the_others_are_bound(world, plugin, where):
    registry: Registry = in_tree_registry()
    registry.register(plugin)
    plugins = {"multiPoint": {"enabled": [{"name": plugin.name}]}}
    config = {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}
    await world.node("a")
    async with world.scheduler(config, Options(registry=registry, plugin_timeout_s=0.2)):
        await world.pod("hangs", labels={"sleepy": where})
        condition = await world.condition("hangs", reason="SchedulerError")
        assert f"{plugin.name}.{where} did not come back within 200ms" in condition["message"]
        await world.pod("ordinary")
        assert await world.bound("ordinary") == "a"
