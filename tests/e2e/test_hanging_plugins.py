"""A plugin that hangs costs its pod, not the process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

import pytest

from mooring import sdk
from mooring.api.clock import VirtualClock
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.framework.registry import Registry
from mooring.core.framework.status import SUCCESS
from mooring.live.context import SchedulerOptions
from mooring.live.time_limits import TimeLimits

pytestmark = pytest.mark.e2e

NEVER = threading.Event()
CLOCK = VirtualClock()  # only a plugin that hangs moves it, so that nothing else can take too long


hung: set[str] = set()


def hang_if_asked(pod: sdk.Pod, where: str) -> None:
    """Hang once for a pod labelled ``hangs: <where>``, by waiting for what never happens or by spinning."""
    if pod.metadata.labels.get("hangs") == where and pod.uid not in hung:
        hung.add(pod.uid)
        CLOCK.advance(60.0)
        while pod.metadata.labels.get("how") == "spins":
            pass
        NEVER.wait()


class HangsInFilter(sdk.NodeFilter):
    name = "HangsInFilter"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        hang_if_asked(pod, "filter")
        return sdk.SUCCESS


class HangsInReserve:
    name: ClassVar[str] = "HangsInReserve"

    def __init__(self, args, handle):
        pass

    def reserve(self, state, pod, node_name):
        hang_if_asked(pod.pod, "reserve")
        return SUCCESS

    def unreserve(self, state, pod, node_name):
        pass


UNREACHABLE = {"urlPrefix": "http://127.0.0.1:1/", "filterVerb": "filter", "ignorable": True}
"""An extender that never answers: decisions are then made in a thread of their own."""


def settings(
    plugin: type, *, extenders: list[dict[str, Any]], **limits: float
) -> tuple[dict[str, Any], SchedulerOptions]:
    registry: Registry = in_tree_registry()
    registry.register(plugin)
    plugins = {"multiPoint": {"enabled": [{"name": plugin.name}]}}
    config = {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}], "extenders": extenders}
    return config, SchedulerOptions(registry=registry, limits=TimeLimits(CLOCK, poll_s=0.01), **limits)


BY_EXTENDERS = pytest.mark.parametrize(
    "extenders",
    [pytest.param([], id="in the loop's thread"), pytest.param([UNREACHABLE], id="in a thread beside extenders")],
)


@BY_EXTENDERS
@pytest.mark.parametrize(("plugin", "where"), [(HangsInFilter, "filter"), (HangsInReserve, "reserve")])
async def test_a_plugin_that_spins_costs_its_pod_an_attempt(world, plugin, where, extenders):
    config, options = settings(plugin, extenders=extenders, plugin_timeout_s=10.0)
    await world.node("a")
    async with world.scheduler(config, options):
        await world.pod("hangs", labels={"hangs": where, "how": "spins"})
        condition = await world.condition("hangs", reason="SchedulerError")
        assert f"{plugin.name}.{where} did not come back within 10s" in condition["message"]
        await world.pod("ordinary")
        assert await world.bound("ordinary") == "a"


@BY_EXTENDERS
async def test_a_plugin_that_waits_for_ever_costs_its_pod_an_attempt(world, extenders):
    config, options = settings(HangsInFilter, extenders=extenders, plugin_timeout_s=0.0, attempt_timeout_s=15.0)
    await world.node("a")
    async with world.scheduler(config, options) as live:
        await world.pod("hangs", labels={"hangs": "filter", "how": "waits"})
        if extenders:  # a wait in a thread cannot be ended: the thread is left behind a moment later
            await world.until("the attempt is interrupted", lambda: later(options.limits))
        condition = await world.condition("hangs", reason="SchedulerError")
        assert "the attempt to find a node did not end within 15s" in condition["message"]
        await world.pod("ordinary")
        assert await world.bound("ordinary") == "a"
        assert b'mooring_timeouts_total{what="attempt"} 1\n' in live.scheduler.meters.render()


async def test_a_hanging_plugin_and_a_hanging_extender_cost_only_their_pods(world):
    """The extender takes requests and never answers; the plugin spins while a decision waits in its thread."""
    taken: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda reader, writer: taken.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    silent = {**UNREACHABLE, "urlPrefix": f"http://127.0.0.1:{port}/", "httpTimeout": "200ms"}
    config, options = settings(HangsInFilter, extenders=[silent], plugin_timeout_s=10.0, attempt_timeout_s=15.0)
    await world.node("a")
    try:
        async with world.scheduler(config, options):
            await world.pod("before")
            await world.pod("hangs", labels={"hangs": "filter", "how": "spins"})
            await world.pod("after")
            condition = await world.condition("hangs", reason="SchedulerError")
            assert "HangsInFilter.filter did not come back within 10s" in condition["message"]
            assert [await world.bound(name) for name in ("before", "after")] == ["a", "a"]
        assert taken, "the extender was asked"
    finally:
        for writer in taken:
            writer.close()
        server.close()


async def later(limits: TimeLimits) -> bool:
    """Let a moment pass on the clock of the limits, once something has been interrupted."""
    is_interrupted = any(limit.interrupted_at is not None for limit in limits._running)
    if is_interrupted:
        CLOCK.advance(5.0)
    return is_interrupted
