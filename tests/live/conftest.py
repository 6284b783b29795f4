"""A scheduler with everything around it made of paper."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.core import Pod
from mooring.core.config.features import DEFAULT_FEATURES
from mooring.core.config.load import config_from_dict
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.state.pod_info import PodInfo
from mooring.live.context import SchedulerOptions
from mooring.live.events import InvolvedObject
from mooring.live.observer import SchedulerObserver
from mooring.live.scheduler import Scheduler


class PaperWriter:
    """Notes what would be sent. ``failures`` are raised instead, by verb and pod; ``gates`` are waited for first."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.patches: list[dict[str, Any]] = []
        self.failures: dict[tuple[str, str], Exception] = {}
        self.gates: dict[tuple[str, str], asyncio.Event] = {}

    async def _send(self, verb: str, name: str, *detail: str) -> None:
        gate = self.gates.get((verb, name))
        if gate is not None:
            await gate.wait()
        failure = self.failures.get((verb, name))
        if failure is not None:
            raise failure
        self.sent.append((verb, ":".join((name, *detail))))

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        await self._send("bind", pod.pod.name, node_name)

    async def patch_pod_status(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        await self._send("patch", name)
        self.patches.append(patch)

    async def patch_pod_group_status(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        await self._send("patch group", name)
        self.patches.append(patch)

    async def delete_pod(self, pod: Pod) -> None:
        await self._send("delete", pod.name)


class PaperRecorder:
    """Notes events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.observers: Iterable[Callable[[InvolvedObject, str, str], None]] = ()

    def record(self, regarding: InvolvedObject, *, reason: str, note: str, **more: Any) -> None:
        self.events.append((regarding.name, reason, note))
        for tell in self.observers:
            tell(regarding, reason, note)


class Heard(SchedulerObserver):
    """Records the names of events, with the pod."""

    def __init__(self) -> None:
        self.story: list[str] = []

    def decided(self, info, profile, decision, seconds) -> None:
        self.story.append(f"decided {info.key}: {decision.outcome.value}")

    def waiting(self, info, node_name, plugins) -> None:
        self.story.append(f"waiting {info.key} on {node_name} for {', '.join(plugins)}")

    def waited(self, info, code, seconds) -> None:
        self.story.append(f"waited {info.key}: {code.name}")

    def binding(self, info) -> None:
        self.story.append(f"binding {info.key}")

    def bound(self, info, profile, node_name, seconds) -> None:
        self.story.append(f"bound {info.key} to {node_name}")

    def binding_failed(self, info, message) -> None:
        self.story.append(f"binding failed {info.key}: {message}")

    def binding_ended(self, info) -> None:
        self.story.append(f"binding ended {info.key}")

    def failed(self, info, profile, reason, message, seconds) -> None:
        self.story.append(f"failed {info.key}: {reason}")

    def preempting(self, room) -> None:
        self.story.append(f"preempting for {room.preemptor.key} on {room.node_name}: {room.victims}")

    def evicted(self, preemptor, victim, node_name) -> None:
        self.story.append(f"evicted {victim.key} for {preemptor.key}")

    def preempted(self, room, seconds, is_done, in_background) -> None:
        self.story.append(f"preempted for {room.preemptor.key}")

    def event(self, regarding, reason, note) -> None:
        self.story.append(f"event {regarding.name}: {reason}")


class Stage:
    """A scheduler, its paper surroundings, and a clock that only a test moves."""

    def __init__(self, config: Mapping[str, Any] | None = None, plugins: Iterable[type] = (), **options: Any) -> None:
        registry = in_tree_registry()
        for plugin in plugins:
            registry.register(plugin)
        if plugins and config is None:
            enabled = {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in plugins]}}
            config = {"profiles": [{"schedulerName": "default-scheduler", "plugins": enabled}]}
        self.clock = VirtualClock(1_000.0)
        self.writer, self.recorder, self.heard = PaperWriter(), PaperRecorder(), Heard()
        observers = (self.heard, *options.pop("observers", ()))
        options = {"clock": self.clock, "rng": random.Random(0), "registry": registry, **options}
        self.scheduler = Scheduler(
            config_from_dict(config, options.get("features", DEFAULT_FEATURES)),
            lambda pods: self.writer,
            self.recorder,
            SchedulerOptions(observers=observers, **options),
        )

    def put(self, *objects: Any) -> None:
        for obj in objects:
            self.scheduler.put(obj)

    async def go(self) -> None:
        """Try every pod that is ready, and let what follows happen."""
        while (info := self.scheduler.queue.pop()) is not None:
            self.scheduler.schedule_one(info)
            await settle()
        await settle()

    def where(self, name: str) -> str:
        """The part of the queue in which a pod waits."""
        found = [pod.queue for pod in self.scheduler.queue.pending_pods() if pod.name == name]
        return found[0] if found else ""


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def make_stage() -> Callable[..., Stage]:
    return Stage
