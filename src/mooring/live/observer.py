"""Observers of a scheduler: metrics, the decision log and the narration of scenarios.

The scheduler calls them in its own thread, at the moment at which something happens. They change nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, BinaryIO, Protocol

import msgspec

from mooring.api.clock import Clock, SystemClock
from mooring.api.core import Pod
from mooring.api.errors import MooringError, UsageError
from mooring.api.meta import Object
from mooring.api.times import format_micro_time
from mooring.core.config.features import Features
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.framework.cycle_state import place_of
from mooring.core.framework.extender import ExtenderAnswer, ExtenderClient
from mooring.core.framework.handle import WaitingPods
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import Code
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.state.cluster import ClusterState
from mooring.live.events import InvolvedObject
from mooring.live.logs import get_logger

log = get_logger("mooring.live.observer")


class Room(msgspec.Struct, frozen=True):
    """Room made by evicting pods, for a pod on a node or for a group, which its first pod represents."""

    preemptor: Pod
    kind: str  # pod or podgroup
    node_name: str
    victims: int
    pdb_violations: int = 0
    disruptions: int = 0


class Observed(Protocol):
    """View of the scheduler for its observers."""

    config: KubeSchedulerConfiguration
    cluster: ClusterState
    queue: SchedulingQueue
    pods: dict[str, Pod]
    heard: list[list[ExtenderAnswer]]  # extender answers, for each observer that added its own list
    drawn: list[list[int]]  # random numbers, for each observer that added its own list, which it empties

    @property
    def waiting_pods(self) -> WaitingPods: ...

    @property
    def extenders(self) -> Sequence[ExtenderClient]: ...

    @property
    def profiles(self) -> dict[str, Profile]: ...

    @property
    def features(self) -> Features: ...

    @property
    def clock(self) -> Clock: ...


class SchedulerObserver:
    """Base class of observers: override the methods you need. A method must be quick."""

    def configured(self, scheduler: Observed) -> None:
        """The scheduler was assembled, or its configuration was reloaded."""

    def put(self, obj: Object) -> None:
        """An object is new or has changed. Observers are called before the scheduler processes it."""

    def delete(self, obj: Object) -> None:
        """An object was deleted. Observers are called before the scheduler removes it."""

    def wants_detail(self) -> bool:
        """Report whether a decision should keep its scores by plugin for ``decided``. Called before each decision."""
        return False

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        """A decision was made. It has no effects yet."""

    def group_decided(
        self, pods: Sequence[QueuedPodInfo], profile: Profile, decision: GroupDecision, seconds: float
    ) -> None:
        """A decision about a pod group was made within ``seconds``. ``decided`` follows for each of its pods."""

    def waiting(self, info: QueuedPodInfo, node_name: str, plugins: Sequence[str]) -> None:
        """A pod holds its node and waits for these Permit plugins."""

    def waited(self, info: QueuedPodInfo, code: Code, seconds: float) -> None:
        """A pod no longer waits for Permit plugins."""

    def binding(self, info: QueuedPodInfo) -> None:
        """A pod's binding cycle begins."""

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        """A pod is bound; ``seconds`` have passed since its attempt began."""

    def binding_failed(self, info: QueuedPodInfo, message: str) -> None:
        """A pod with a node could not be bound; ``failed`` follows."""

    def binding_ended(self, info: QueuedPodInfo) -> None:
        """A pod's binding cycle has ended, successfully or not."""

    def failed(self, info: QueuedPodInfo, profile: Profile, reason: str, message: str, seconds: float) -> None:
        """An attempt failed ``seconds`` after it began; ``reason`` is ``Unschedulable`` or ``SchedulerError``."""

    def preempting(self, room: Room) -> None:
        """Victims are about to be evicted."""

    def evicted(self, preemptor: Pod, victim: Pod, node_name: str) -> None:
        """A victim was deleted, or cancelled while it waited to be bound."""

    def preempted(self, room: Room, seconds: float, is_done: bool, in_background: bool) -> None:
        """Evictions ended ``seconds`` after they began; ``is_done`` is false after an error."""

    def event(self, regarding: InvolvedObject, reason: str, note: str) -> None:
        """An Event is being written about an object."""

    def moved(self, info: QueuedPodInfo, place: str, event: str, cause: Object | None) -> None:
        """A pod has entered a part of the queue because of an event; ``cause`` is the object of that event, if any."""


class Observers:
    """Several observers as one: each event goes to those that implement its method.

    An exception of an observer is logged, and the other observers receive the event. Only a MooringError, which is
    meant for the user, propagates: a simulation ends when its record cannot be written.
    """

    def __init__(self, observers: Iterable[SchedulerObserver] = ()) -> None:
        each = tuple(observers)

        def hearing(name: str) -> tuple[Callable[..., Any], ...]:
            silent = getattr(SchedulerObserver, name)
            return tuple(_guarded(getattr(one, name)) for one in each if getattr(type(one), name) is not silent)

        self.configured = hearing("configured")
        self.put = hearing("put")
        self.delete = hearing("delete")
        self._asking = hearing("wants_detail")
        self.decided = hearing("decided")
        self.group_decided = hearing("group_decided")
        self.waiting = hearing("waiting")
        self.waited = hearing("waited")
        self.binding = hearing("binding")
        self.bound = hearing("bound")
        self.binding_failed = hearing("binding_failed")
        self.binding_ended = hearing("binding_ended")
        self.failed = hearing("failed")
        self.preempting = hearing("preempting")
        self.evicted = hearing("evicted")
        self.preempted = hearing("preempted")
        self.event = hearing("event")
        self.moved = hearing("moved")

    @property
    def asks_for_detail(self) -> bool:
        """Whether an observer is to be asked before each decision."""
        return bool(self._asking)

    def wants_detail(self) -> bool:
        """Ask all observers, even after the first yes: an observer may remember its answer."""
        wanted = False
        for ask in self._asking:
            wanted |= bool(ask())
        return wanted


def _guarded(tell: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an observer's method so that its exceptions are logged."""
    has_failed = False

    @wraps(tell)
    def told(*event: Any) -> Any:
        nonlocal has_failed
        try:
            return tell(*event)
        except MooringError:
            raise
        except Exception as error:
            if not has_failed:
                text = f"{type(error).__name__}: {error}{place_of(error, {tell.__module__})}"
                log.error(text, "An observer raised; the scheduler continues", method=tell.__qualname__)
            has_failed = True
            return None

    return told


# --------------------------------------------------------------------------------------------------------------------
# The decision log: one JSON line per decision, sampled, written in the background, rotated by size.
#
# ``record`` encodes and returns; a task writes the buffer twice a second. When the disk is slower than the scheduler
# the buffer fills, and further decisions are dropped and counted: the log never blocks the scheduler.

FLUSH_S = 0.5


class DecisionLog:
    """A file of decisions and its rotated predecessors: ``FILE``, ``FILE.1`` (newer) … ``FILE.n`` (oldest)."""

    def __init__(
        self,
        path: str,
        *,
        sample_rate: float = 1.0,
        max_bytes: int = 100 << 20,
        backups: int = 3,
        buffer_bytes: int = 8 << 20,
        rng: random.Random | None = None,
    ) -> None:
        if not 0 <= sample_rate <= 1:
            raise UsageError(f"--decision-log-sample: {sample_rate}; it should be between 0 and 1")
        self._path = path
        self._sample_rate = sample_rate
        self._max_bytes = max_bytes
        self._backups = backups
        self._buffer_bytes = buffer_bytes
        self._rng = rng or random.Random()
        self._encode = msgspec.json.Encoder().encode
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._task: asyncio.Task[None] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._not_taken = 0  # counted by the scheduler's thread
        self._not_written = 0  # counted by the thread that writes
        self.written = 0
        try:
            self._file: BinaryIO | None = _open(path)
        except OSError as error:
            raise UsageError(f"--decision-log {path}: {error.strerror or error}") from None

    def is_sampled(self) -> bool:
        """Decide at random whether to log; ask before building an expensive entry."""
        return self._sample_rate >= 1 or self._rng.random() < self._sample_rate

    def record(self, entry: object) -> None:
        """Buffer a sampled entry: anything that msgspec can encode."""
        if self._buffered >= self._buffer_bytes:
            self._not_taken += 1
            return
        line = self._encode(entry)
        self._buffer.append(line)
        self._buffered += len(line) + 1

    @property
    def dropped(self) -> int:
        """Number of dropped decisions."""
        return self._not_taken + self._not_written

    def start(self) -> None:
        """Begin writing in the background."""
        self._task = asyncio.create_task(self._run(), name="decision log")

    async def close(self) -> None:
        """Write the buffer and close the file."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._writing is not None:
            # A writing thread cannot be cancelled: its lines come first.
            await asyncio.wait([self._writing])
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Close the file without writing the buffer."""
        if self._file is not None:
            file, self._file = self._file, None
            with contextlib.suppress(OSError):  # the disk is full, which was reported already
                file.close()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            lines = self._take()
            if lines:
                self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, lines))
                await asyncio.shield(self._writing)

    def flush(self) -> None:
        """Write the buffer now."""
        lines = self._take()
        if lines:
            self._write(lines)

    def _take(self) -> list[bytes]:
        lines, self._buffer = self._buffer, []
        self._buffered = 0
        return lines

    def _write(self, lines: list[bytes]) -> None:
        for line in lines:
            try:
                if self._file is None:
                    raise OSError("closed")
                if self._file.tell() + len(line) + 1 > self._max_bytes and self._file.tell() > 0:
                    self._rotate()
                self._file.write(line + b"\n")
                self.written += 1
            except OSError as error:
                self._not_written += 1
                if self._not_written == 1:
                    log.error(error.strerror or error, "Decisions were dropped from the decision log", path=self._path)
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.flush()

    def _rotate(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        for number in range(self._backups - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        if self._backups > 0:
            os.replace(self._path, f"{self._path}.1")
        else:
            os.truncate(self._path, 0)
        self._file = _open(self._path)


def _open(path: str) -> BinaryIO:
    """Open the log readable by its owner only: it names pods of every namespace."""
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))


# --------------------------------------------------------------------------------------------------------------------
# The decision log's observer: writes a sample of the decisions to the log.

MAX_NODES = 5
"""How many nodes' scores and reasons a line holds; the best first."""


class LoggedDecisions(SchedulerObserver):
    """Writes a sample of the decisions to a log."""

    def __init__(self, log: DecisionLog, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._is_sampled = False  # of the current decision

    def wants_detail(self) -> bool:
        self._is_sampled = self._log.is_sampled()
        return self._is_sampled

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        if self._is_sampled:
            self._log.record(log_entry(decision, profile, info.attempts, self._clock.now(), seconds))


def log_entry(decision: ScheduleResult, profile: Profile, attempt: int, now: float, seconds: float) -> dict[str, Any]:
    """Return the decision as plain data of bounded size, whatever the size of the cluster."""
    pod = decision.pod.pod
    entry: dict[str, Any] = {
        "time": format_micro_time(now),
        "pod": pod.key,
        "uid": pod.uid,
        "profile": profile.scheduler_name,
        "attempt": attempt,
        "outcome": decision.outcome.value,
        "microseconds": round(seconds * 1e6),
        "nodes": decision.num_nodes,
        "evaluatedNodes": decision.evaluated_nodes,
        "feasibleNodes": decision.feasible_nodes,
    }
    if decision.outcome is Outcome.SCHEDULED:
        entry["node"] = decision.node
        entry["scores"] = _best_scores(decision)
        return entry
    entry |= {
        "reason": decision.reason,
        "message": decision.message,
        "plugins": sorted(decision.unschedulable_plugins | decision.pending_plugins),
    }
    if decision.nominated_node:
        entry["nominatedNode"] = decision.nominated_node
    if decision.victims:
        entry["victims"] = [victim.pod.key for victim in decision.victims]
    return entry


def _best_scores(decision: ScheduleResult) -> list[dict[str, Any]]:
    scores = decision.scores
    if scores is None:
        return []
    best = (-scores.totals).argsort(kind="stable")[:MAX_NODES].tolist()
    infos = scores.nodes.infos
    return [
        {
            "node": infos[i].name,
            "total": int(scores.totals[i]),
            "plugins": {plugin: int(column[i]) for plugin, column in scores.by_plugin.items()},
        }
        for i in best
    ]
