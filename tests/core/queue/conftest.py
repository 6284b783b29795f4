"""Builders for queue tests: pods, plugins that gate or listen, and a queue on a virtual clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.core import Pod, PodSpec
from mooring.api.meta import ObjectMeta
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.queue.profile import PluginHint, QueueProfile, QueueRecorder
from mooring.core.queue.scheduling_queue import QueueOptions, SchedulingQueue
from mooring.core.state.pod_info import PodInfo, PodInterner

INTERNER = PodInterner()


def make_pod(name: str, *, priority: int | None = None, uid: str = "", nominated: str = "", **meta: object) -> Pod:
    pod = Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=uid or f"uid-{name}", resource_version="1", **meta),  # type: ignore[arg-type]
        spec=PodSpec(scheduler_name="default-scheduler", priority=priority),
    )
    pod.status.nominated_node_name = nominated
    return pod


def make_info(name: str, **kwargs: object) -> PodInfo:
    return INTERNER.info(make_pod(name, **kwargs))  # type: ignore[arg-type]


@dataclass
class Gate:
    """A PreEnqueue plugin that holds back the pods in ``closed_for``, and remembers whom it was asked about."""

    name: str
    closed_for: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    def pre_enqueue(self, pod: Pod) -> Status:
        self.asked.append(pod.metadata.name)
        return Status.unresolvable(f"{self.name} is closed") if pod.metadata.name in self.closed_for else SUCCESS


class Meter(QueueRecorder):
    """A recorder that keeps its calls."""

    wants_hint_durations = True

    def __init__(self) -> None:
        self.incoming: Counter[tuple[str, str]] = Counter()
        self.unschedulable: Counter[tuple[str, str]] = Counter()
        self.in_flight: Counter[str] = Counter()
        self.hints: Counter[tuple[str, str, str]] = Counter()

    def incoming_pod(self, queue: str, event: str) -> None:
        self.incoming[queue, event] += 1

    def unschedulable_pods(self, plugin: str, profile: str, change: int) -> None:
        self.unschedulable[plugin, profile] += change

    def in_flight_events(self, event: str, change: int) -> None:
        self.in_flight[event] += change

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        self.hints[plugin, event, hint] += 1


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(start=1_000.2)


@pytest.fixture
def meter() -> Meter:
    return Meter()


@pytest.fixture
def pod() -> Callable[..., Pod]:
    return make_pod


@pytest.fixture
def info() -> Callable[..., PodInfo]:
    return make_info


@pytest.fixture
def gate() -> Callable[..., Gate]:
    return Gate


@pytest.fixture
def make_queue(clock: VirtualClock, meter: Meter) -> Callable[..., SchedulingQueue]:
    def make(
        *hints: PluginHint, gates: Sequence[Gate] = (), options: QueueOptions | None = None, **kwargs: object
    ) -> SchedulingQueue:
        profile = QueueProfile("default-scheduler", pre_enqueue=tuple(gates), hints=hints)
        return SchedulingQueue([profile], clock, options=options, recorder=meter, **kwargs)  # type: ignore[arg-type]

    return make
