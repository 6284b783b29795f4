"""Pod groups of many pods: the event loop is not blocked, and each further pod costs the same."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from mooring.core.config.features import Features
from mooring.core.config.versions import V1_37
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.plugins.gang_scheduling import GangScheduling
from mooring.core.queue.events import InFlight
from mooring.live import scheduling_loop
from mooring.live.observer import SchedulerObserver
from mooring.live.waiting_pods import WaitingPodsMap
from mooring.testing import make_node, make_pod, make_pod_group

FEATURES = Features(V1_37, GenericWorkload=True)
MANY = 60


class Waits:
    """A filter that comes back once the event loop has had a turn."""

    name = "Waits"
    turned = threading.Event()
    asked: asyncio.Event
    loop: asyncio.AbstractEventLoop

    def __init__(self, args: Any, handle: Any) -> None:
        pass

    def pre_filter(self, state: Any, pod: Any, nodes: Any) -> Status:
        self.loop.call_soon_threadsafe(self.asked.set)
        assert self.turned.wait(60), "the event loop is blocked"
        return SUCCESS


class Bound(SchedulerObserver):
    """Waits for all pods of the group."""

    def __init__(self) -> None:
        self.left, self.are_bound = MANY, asyncio.Event()

    def bound(self, *pod: Any) -> None:
        self.left -= 1
        if not self.left:
            self.are_bound.set()


def arrive(stage: Any, *, gang: int = MANY) -> None:
    stage.put(make_node("a", cpu="64", pods=110), make_pod_group("g", gang=gang))
    stage.put(*(make_pod(f"p{i}", cpu="100m", group="g") for i in range(MANY)))


async def test_the_event_loop_continues_while_a_large_group_is_decided(make_stage, monkeypatch) -> None:
    monkeypatch.setattr(scheduling_loop, "THREAD_PODS", MANY - 1)
    Waits.turned.clear()
    Waits.loop, Waits.asked = asyncio.get_running_loop(), asyncio.Event()
    everybody = Bound()
    stage = make_stage(plugins=(Waits,), features=FEATURES, observers=(everybody,))
    arrive(stage)
    running = asyncio.create_task(stage.scheduler.run())
    await Waits.asked.wait()
    stage.put(late := make_pod("late"))  # waits until the decision is made
    assert stage.scheduler.queue.get(late.key) is None
    Waits.turned.set()
    await everybody.are_bound.wait()
    running.cancel()
    assert {name.partition(":")[2] for verb, name in stage.writer.sent if verb == "bind"} == {"a"}


async def test_each_further_pod_of_a_gang_costs_the_same(make_stage, monkeypatch) -> None:
    calls: Counter[str] = Counter()

    def count(cls: type, name: str) -> None:
        usual = getattr(cls, name)

        def counted(*arguments: Any) -> Any:
            calls[name] += 1
            return usual(*arguments)

        monkeypatch.setattr(cls, name, counted)

    count(GangScheduling, "pre_enqueue")
    count(InFlight, "note")
    stage = make_stage(features=FEATURES)
    arrive(stage)
    await stage.go()
    assert len([name for verb, name in stage.writer.sent if verb == "bind"]) == MANY
    assert calls["pre_enqueue"] <= 6 * MANY  # MANY * MANY / 2 if all are asked for each that comes
    assert calls["note"] <= 6 * MANY


async def test_each_pod_after_the_first_of_a_gang_asks_only_about_waiting_ones(make_stage, monkeypatch) -> None:
    asked: Counter[str] = Counter()
    of_group, get = WaitingPodsMap.of_group, WaitingPodsMap.get

    def count_group(self: WaitingPodsMap, key: str) -> Any:
        found = of_group(self, key)
        asked["pods"] += len(found)
        return found

    def count_one(self: WaitingPodsMap, uid: str) -> Any:
        asked["pods"] += 1
        return get(self, uid)

    monkeypatch.setattr(WaitingPodsMap, "of_group", count_group)
    monkeypatch.setattr(WaitingPodsMap, "get", count_one)
    stage = make_stage(features=FEATURES)
    arrive(stage, gang=2)
    await stage.go()
    assert len([name for verb, name in stage.writer.sent if verb == "bind"]) == MANY
    assert asked["pods"] <= 3 * MANY  # MANY * MANY / 2 if each asks about all members with a node
