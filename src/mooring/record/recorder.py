"""The recorder: an observer that writes down everything that its scheduler hears and does.

On the scheduler's path it only appends to a list. ``Immediately`` writes a full list at once, in the same thread:
right for simulations and stories, whose record must not depend on how quick a thread is. A live scheduler's record is
written by a thread of its own: see :mod:`mooring.record.background`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Sequence
from typing import BinaryIO, Self

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.config.wire import to_wire
from mooring.engine.decision import Decision
from mooring.errors import UsageError
from mooring.framework.runtime import Profile
from mooring.framework.status import CODE_NAMES, Code
from mooring.observe.observer import Observed, SchedulerObserver
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.record import entries
from mooring.record.blocks import FORMAT
from mooring.record.redaction import Redaction
from mooring.record.state import state_of
from mooring.record.writer import Item, Sink, State, Writer
from mooring.state.change_log import EVERYTHING
from mooring.version import __version__

BATCH = 2048
KEYFRAME_EVERY = 20_000  # entries, or twice the number of objects if that is more


class Immediately:
    """Writes what was gathered at once."""

    def __init__(self, sink: Sink, redact: Redaction | None = None) -> None:
        self._sink = sink
        self._redact = redact
        self._writer: Writer | None = None

    def begin(self, header: entries.Header) -> None:
        self._writer = Writer(self._sink, header, redact=self._redact)

    def take(self, times: list[float], items: list[Item | State]) -> None:
        """Write these, and empty the lists."""
        assert self._writer is not None, "begin first"
        self._writer.write(times, items)
        times.clear()
        items.clear()

    def close(self, time: float) -> None:
        """Say that the record is complete. A sink that is no file is left open: its owner reads it."""
        if self._writer is not None:
            self._writer.close(time)
        if isinstance(self._sink, io.BufferedWriter):
            self._sink.close()


class Recorder(SchedulerObserver):
    """Give it to one scheduler. ``close`` when that has ended."""

    def __init__(
        self,
        output: Immediately,
        *,
        source: str = "scheduler",
        is_redacted: bool = True,
        keyframe_every: int = KEYFRAME_EVERY,
    ) -> None:
        self._output = output
        self._source = source
        self._is_redacted = is_redacted
        self._keyframe_every = keyframe_every
        self._times: list[float] = []  # of the items; two lists make no tuples
        self._items: list[Item | State] = []
        self._scheduler: Observed | None = None
        self._now: Callable[[], float] = lambda: 0.0
        self._since_keyframe = 0
        self._next_keyframe = 0
        self._nominations_seen = 0
        self.attempts = 0

    @classmethod
    def to_file(cls, path: str | os.PathLike[str], *, source: str = "scheduler", is_redacted: bool = True) -> Self:
        """Record into a new file, readable for its owner only."""
        return cls(Immediately(create(path)), source=source, is_redacted=is_redacted)

    @classmethod
    def to_sink(cls, sink: Sink, *, source: str = "scheduler", is_redacted: bool = True) -> Self:
        """Record into anything that takes bytes."""
        return cls(Immediately(sink), source=source, is_redacted=is_redacted)

    def note(self, text: str, kind: str = "note") -> None:
        """Set a marker."""
        self._add(entries.Note(text, kind))

    def close(self) -> None:
        """Write what is left."""
        if self._scheduler is not None:
            self._output.take(self._times, self._items)
        self._output.close(self._now())

    # ---- what an observer hears ----------------------------------------------------------------------------------

    def configured(self, scheduler: Observed) -> None:
        configuration = to_wire(scheduler.config, redact=True)
        if self._scheduler is scheduler:
            self._add(entries.Configured(configuration))
            return
        assert self._scheduler is None, "one recorder for each scheduler"
        self._scheduler = scheduler
        self._now = scheduler.clock.now
        scheduler.drawn = []
        features = scheduler.features
        self._output.begin(
            entries.Header(
                format=FORMAT,
                mooring=__version__,
                kubernetes=str(features.version),
                source=self._source,
                started=self._now(),
                gates=features.changed(),
                configuration=configuration,
                is_redacted=self._is_redacted,
            )
        )
        self._keyframe()

    def put(self, obj: Object) -> None:
        self._before_input()
        self._add(obj)

    def delete(self, obj: Object) -> None:
        self._before_input()
        self._add(entries.Deleted(type(obj).__name__, obj.key, obj.metadata.uid))

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: Decision, seconds: float) -> None:
        self._note_nominations()
        self.attempts += 1
        pod = info.pod_info.pod
        node = decision.node or ""
        self._add(
            entries.Attempt(
                self.attempts,
                pod.key,
                pod.metadata.uid,
                profile.scheduler_name,
                decision.outcome.value,
                node,
                "" if node else decision.message,
                info.attempts,
                decision.num_nodes,
                decision.evaluated_nodes,
                decision.feasible_nodes,
                seconds,
                decision.nominated_node,
                tuple(victim.pod.key for victim in decision.victims) if decision.victims else (),
                () if node else tuple(sorted(decision.unschedulable_plugins | decision.pending_plugins)),
                decision.start,
                decision.hint,
                self._picks(),
            )
        )

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        self._add(entries.Bound(info.key, info.uid, node_name, info.attempts, seconds))

    def binding_failed(self, info: QueuedPodInfo, message: str) -> None:
        self._add(entries.BindingFailed(info.key, info.uid, message))

    def failed(self, info: QueuedPodInfo, profile: Profile, reason: str, message: str, seconds: float) -> None:
        self._picks()
        self._add(entries.Failed(info.key, info.uid, reason, message))

    def waiting(self, info: QueuedPodInfo, node_name: str, plugins: Sequence[str]) -> None:
        self._add(entries.Waiting(info.key, info.uid, node_name, tuple(plugins)))

    def waited(self, info: QueuedPodInfo, code: Code, seconds: float) -> None:
        self._add(entries.Waited(info.key, info.uid, CODE_NAMES.get(code, code.name)))

    def evicted(self, preemptor: Pod, victim: Pod, node_name: str) -> None:
        self._add(entries.Evicted(victim.key, victim.uid, node_name, preemptor.key))

    def moved(self, info: QueuedPodInfo, place: str, event: str, cause: Object | None) -> None:
        named = "" if cause is None else f"{type(cause).__name__}/{cause.key}"
        self._add(entries.Moved(info.key, info.uid, place, event, named))

    # ---- gathering -----------------------------------------------------------------------------------------------

    def _add(self, item: Item) -> None:
        self._times.append(self._now())
        self._items.append(item)
        if len(self._items) >= BATCH and self._scheduler is not None:
            self._since_keyframe += len(self._items)
            self._output.take(self._times, self._items)

    def _before_input(self) -> None:
        """Everything that was decided is carried out now: a good time to look at the whole."""
        self._note_nominations()
        if self._since_keyframe >= self._next_keyframe:
            self._keyframe()

    def _picks(self) -> tuple[int, ...]:
        """The random numbers of this attempt."""
        assert self._scheduler is not None
        drawn = self._scheduler.drawn
        if not drawn:
            return ()
        found = tuple(drawn)
        drawn.clear()
        return found

    def _note_nominations(self) -> None:
        """Say which nodes' nominated pods are others than at the attempt before."""
        assert self._scheduler is not None
        nominator = self._scheduler.queue.nominator
        if nominator.log.end == self._nominations_seen:
            return
        changes = nominator.log.since(self._nominations_seen)
        self._nominations_seen = nominator.log.end
        names: Iterable[str] = nominator.nominated_nodes() if changes is EVERYTHING else dict.fromkeys(changes)
        for name in names:
            uids = tuple(info.uid for info in nominator.nominated_pods(name))
            self._add(entries.Nominated(name, uids))

    def _keyframe(self) -> None:
        assert self._scheduler is not None
        state = state_of(self._scheduler)
        self._nominations_seen = self._scheduler.queue.nominator.log.end
        self._since_keyframe = 0
        self._next_keyframe = max(self._keyframe_every, 2 * len(state.items))
        self._times.append(self._now())
        self._items.append(state)


def create(path: str | os.PathLike[str]) -> BinaryIO:
    """A new file for its owner only: it names pods of every namespace. One of that name is replaced."""
    try:
        file = open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
        os.fchmod(file.fileno(), 0o600)  # also if it was there before
        return file
    except OSError as error:
        raise UsageError(f"{os.fspath(path)}: {error.strerror or error}") from None
