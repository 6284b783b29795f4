"""The recorder: an observer that records everything that its scheduler receives and does.

In the scheduler's path it only appends to a list. ``Immediately`` writes a full list in the same thread: right for
simulations and stories, whose record must not depend on the speed of a thread. A live scheduler's record is written by
its own thread: see :mod:`mooring.record.background`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, Self

from mooring.api.core import Pod
from mooring.api.errors import MooringError
from mooring.api.meta import Object
from mooring.api.version import __version__
from mooring.core.config.wire import to_wire
from mooring.core.engine.decision import ScheduleResult
from mooring.core.engine.pod_groups import GroupDecision
from mooring.core.framework.extender import ExtenderAnswer
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import CODE_NAMES, Code
from mooring.core.queue.events import RESTORED
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.sharing import EVERYTHING, ChangeLog
from mooring.live.logs import get_logger
from mooring.live.observer import Observed, SchedulerObserver
from mooring.record import entries
from mooring.record.entries import SCHEDULED, Attempt, Bound, Moved, Redaction
from mooring.record.files import FORMAT, WholeWrites, create
from mooring.record.scheduler_state import size_of_state, state_of, written
from mooring.record.writer import Item, RecordWriter, Sink

log = get_logger("mooring.record")

BATCH = 2048
KEYFRAME_EVERY = 20_000  # entries, or twice the number of objects if that is more


class RecordOutput(Protocol):
    """Output of a recorder's entries."""

    @property
    def is_full(self) -> bool:
        """Report whether entries are to be dropped for now."""

    @property
    def wants_state(self) -> bool:
        """Report whether the whole state is needed, though it is not due."""

    def begin(self, header: entries.Header) -> None: ...

    def take(self, times: list[float], items: list[Item]) -> None: ...

    def take_state(self, time: float, items: list[Item]) -> None: ...

    def go_on(self) -> float:
        """Do deferred work, and return after how many seconds to check again."""

    def close(self, time: float) -> None: ...


class Immediately:
    """Writes collected entries immediately."""

    is_full = wants_state = False

    def __init__(self, sink: Sink, redact: Redaction | None = None) -> None:
        self._sink = sink
        self._redact = redact
        self._writer: RecordWriter | None = None

    def begin(self, header: entries.Header) -> None:
        self._writer = RecordWriter(self._sink, header, redact=self._redact)

    def take(self, times: list[float], items: list[Item]) -> None:
        assert self._writer is not None, "begin first"
        self._writer.write(times, items)

    def take_state(self, time: float, items: list[Item]) -> None:
        assert self._writer is not None, "begin first"
        self._writer.write_state(time, items)

    def go_on(self) -> float:
        """Nothing is ever deferred."""
        return math.inf

    def flush(self) -> None:
        """Make everything taken so far readable."""
        if self._writer is not None:
            self._writer.flush()

    @property
    def size(self) -> int:
        """Number of written bytes."""
        return 0 if self._writer is None else self._writer.size

    def close(self, time: float) -> None:
        """Mark the record as complete. A sink other than a file is left open: its owner reads it."""
        try:
            if self._writer is not None:
                self._writer.close(time)
        finally:
            if isinstance(self._sink, WholeWrites):
                self._sink.close()


class WhileItCan(Immediately):
    """Writes until that fails, on a full disk for example. The cluster continues; ``close`` fails in the end."""

    failure: MooringError | None = None

    def begin(self, header: entries.Header) -> None:
        self._try(lambda: super(WhileItCan, self).begin(header))

    def take(self, times: list[float], items: list[Item]) -> None:
        self._try(lambda: super(WhileItCan, self).take(times, items))

    def take_state(self, time: float, items: list[Item]) -> None:
        self._try(lambda: super(WhileItCan, self).take_state(time, items))

    def flush(self) -> None:
        self._try(super().flush)

    def close(self, time: float) -> None:
        if self.failure is not None:
            self._writer = None  # only the sink is closed
        super().close(time)
        if self.failure is not None:
            raise self.failure

    def _try(self, write: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        try:
            write()
        except MooringError as error:
            self.failure = error
            log.error(str(error), "The record cannot be written; it ends here, and the cluster continues")


class Recorder(SchedulerObserver):
    """Observer of one scheduler. Call ``close`` when that has ended."""

    def __init__(
        self,
        output: RecordOutput,
        *,
        source: str = "scheduler",
        is_redacted: bool = True,
        keyframe_every: int = KEYFRAME_EVERY,
        batch: int = BATCH,
    ) -> None:
        self._output = output
        self._source = source
        self._is_redacted = is_redacted
        self._keyframe_every = keyframe_every
        self._batch = batch
        self._begin_batch()
        self._missing = 0  # entries dropped since the output was full
        self._scheduler: Observed | None = None
        self._reconfigured: entries.Configured | None = None  # since the beginning
        self._annotations: set[str] = set()  # read by plugins
        self._nominations: ChangeLog[str] = ChangeLog()  # the scheduler's
        self._drawn: list[int] = []  # random numbers since the last attempt
        self._sorted: dict[frozenset[str], tuple[str, ...]] = {}  # plugins that rejected pods together
        self._heard: list[ExtenderAnswer] = []  # extender answers since the last attempt
        self._now: Callable[[], float] = lambda: 0.0
        self._since_keyframe = 0
        self._next_keyframe = 0
        self._num_in_keyframe = 0  # entries of the last one
        self._is_state_due = False  # computed when entries are handed over
        self._nominations_seen = 0
        self.attempts = 0

    @classmethod
    def to_file(
        cls,
        path: str | os.PathLike[str],
        *,
        source: str = "scheduler",
        is_redacted: bool = True,
        inputs: Iterable[str] = (),
        output: type[Immediately] = Immediately,
    ) -> Self:
        """Record into a new file, readable for its owner only; ``inputs`` are records that it must not replace."""
        return cls(output(WholeWrites(create(path, inputs))), source=source, is_redacted=is_redacted)

    def note(self, text: str, kind: str = "note") -> None:
        """Add a marker."""
        self._add(entries.Note(text, kind))

    def close(self) -> None:
        """Write the rest."""
        self.hand_over()
        if self._missing and not self._output.is_full:
            self._output.take([self._now()], [entries.Gap(self._missing)])
        self._output.close(self._now())

    def _begin_batch(self) -> None:
        self._times: list[float] = []  # of the items; two lists need no tuples
        self._items: list[Item] = []
        self._at, self._note = self._times.append, self._items.append

    def hand_over(self) -> None:
        """Pass the collected entries to the output, or drop them if it is full."""
        if not self._items or self._scheduler is None:
            return
        times, items = self._times, self._items
        self._begin_batch()
        self._since_keyframe += len(items)
        if self._missing or self._output.is_full:
            self._missing += len(items)
        else:
            self._output.take(times, items)
        self._is_state_due = self._is_keyframe_due() or bool(self._missing) or self._output.wants_state

    def _is_keyframe_due(self) -> bool:
        """Report whether a keyframe now would halve what a reader must replay.

        A reader starts at a keyframe and replays what follows. A keyframe costs as much as the existing objects, so
        none is written while pods only arrive: each takes as much room in the keyframe as in its entry.
        """
        if self._since_keyframe < self._next_keyframe or self._scheduler is None:
            return False
        return self._num_in_keyframe + self._since_keyframe >= 2 * size_of_state(self._scheduler)

    def go_on(self) -> float:
        """Hand the collected entries to the output and let it do its due work; look again after this many seconds."""
        self.hand_over()
        return self._output.go_on()

    # ---- methods of an observer ---------------------------------------------------------------------------------

    def configured(self, scheduler: Observed) -> None:
        configuration = to_wire(scheduler.config, redact=True)
        if self._scheduler is scheduler:
            annotations = _annotations(scheduler)
            self._reconfigured = entries.Configured(configuration, _extenders(scheduler), annotations)
            self._add(self._reconfigured)
            if self._is_redacted:
                self._tell_again(set(annotations) - self._annotations)
            self._annotations = set(annotations)
            return
        assert self._scheduler is None, "one recorder for each scheduler"
        self._scheduler = scheduler
        self._annotations = set(_annotations(scheduler))
        self._nominations = scheduler.queue.nominator.log
        self._now = _never_back(scheduler.clock.now)
        scheduler.drawn.append(self._drawn)
        scheduler.heard.append(self._heard)
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
                annotations=_annotations(scheduler),
                extenders=_extenders(scheduler),
            )
        )
        self._keyframe()

    # These methods run for every pod, so they append without calling helpers, which would be half of the cost. A full
    # batch is handed over at the next input or attempt. A keyframe is taken only before an input: between an attempt
    # and its effects, the scheduler's state is half changed, and would contradict later entries.

    def put(self, obj: Object) -> None:
        if self._is_state_due or self._nominations.end != self._nominations_seen:
            self._before_input()
        self._at(self._now())
        self._note(obj)
        if len(self._items) >= self._batch:
            self.hand_over()

    def delete(self, obj: Object) -> None:
        if self._is_state_due or self._nominations.end != self._nominations_seen:
            self._before_input()
        self._add(entries.Deleted(type(obj).__name__, obj.key, obj.metadata.uid))

    def wants_detail(self) -> bool:
        """Begin an attempt: earlier random numbers do not belong to it."""
        if self._drawn:
            self._drawn.clear()
        if self._heard:
            self._heard.clear()
        return False

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: ScheduleResult, seconds: float) -> None:
        if self._nominations.end != self._nominations_seen:
            self._note_nominations()
        self.attempts += 1
        node, scores = decision.node, decision.scores
        self._at(self._now())
        self._note(
            Attempt(
                self.attempts,
                info.key,
                info.pod_info.pod.metadata.uid,
                profile.scheduler_name,
                SCHEDULED if node else decision.outcome.value,
                node or "",
                "" if node else decision.message,
                info.attempts,
                decision.num_nodes,
                decision.evaluated_nodes,
                decision.feasible_nodes,
                seconds,
                decision.nominated_node,
                tuple(victim.pod.key for victim in decision.victims) if decision.victims else (),
                () if node else self._sorted.get(decision.rejectors) or self._sort(decision.rejectors),
                decision.start,
                decision.hint,
                self._picks() if self._drawn else (),
                None if scores is None else scores.best,
                self._answers() if self._heard else (),
            )
        )
        if len(self._items) >= self._batch:
            self.hand_over()

    def _sort(self, plugins: frozenset[str]) -> tuple[str, ...]:
        found = self._sorted[plugins] = tuple(sorted(plugins))
        return found

    def group_decided(
        self, pods: Sequence[QueuedPodInfo], profile: Profile, decision: GroupDecision, seconds: float
    ) -> None:
        if self._nominations.end != self._nominations_seen:
            self._note_nominations()
        self._heard.clear()  # not recorded for groups
        decisions = decision.decisions
        self._add(
            entries.GroupAttempt(
                decision.info.key,
                profile.scheduler_name,
                self.attempts + 1,
                tuple(info.uid for info in pods),
                decision.message,
                tuple(victim.pod.key for victim in decision.victims),
                decisions[0].start if decisions else 0,
                tuple(each.hint for each in decisions) if any(each.hint for each in decisions) else (),
                self._picks(),
            )
        )

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        self._at(self._now())
        self._note(Bound(info.key, info.pod_info.pod.metadata.uid, node_name, info.attempts, seconds))

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
        if event == RESTORED:
            self._restored(info, place)
            return
        pod = info.pod_info.pod
        if cause is pod:
            named = f"Pod/{info.key}"
        else:
            named = "" if cause is None else f"{type(cause).__name__}/{cause.key}"
        self._at(self._now())
        self._note(Moved(info.key, pod.metadata.uid, place, event, named))

    def _restored(self, info: QueuedPodInfo, place: str) -> None:
        """Record a pod that arrives with a history from another record."""
        assert self._scheduler is not None
        ago_s = self._scheduler.clock.now() - self._scheduler.clock.monotonic()
        since, added = ago_s + info.timestamp, ago_s + info.added_timestamp
        plugins = tuple(sorted(info.rejectors))
        self._add(
            entries.Queued(info.key, info.uid, place, info.attempts, since, added, RESTORED, "", info.message, plugins)
        )

    # ---- collecting --------------------------------------------------------------------------------------------

    def _add(self, item: Item) -> None:
        self._at(self._now())
        self._note(item)
        if len(self._items) >= self._batch:
            self.hand_over()

    def _before_input(self) -> None:
        """Prepare an input: all decisions are carried out now, so the scheduler's state agrees with the entries."""
        if self._nominations.end != self._nominations_seen:
            self._note_nominations()
        if self._is_state_due:
            self._keyframe()

    def _tell_again(self, annotations: set[str]) -> None:
        """Repeat objects with annotations that were left out until now, because no plugin read them."""
        assert self._scheduler is not None
        for item in state_of(self._scheduler) if annotations else ():
            if isinstance(item, Object) and not annotations.isdisjoint(item.metadata.annotations):
                self._add(item)

    def _picks(self) -> tuple[int, ...]:
        """Return the random numbers of this attempt."""
        found = tuple(self._drawn)
        self._drawn.clear()
        return found

    def _answers(self) -> tuple[entries.Answered, ...] | None:
        """Return the extender answers of this attempt."""
        found = written(self._heard)
        self._heard.clear()
        return found

    def _note_nominations(self) -> None:
        """Record nodes whose nominated pods have changed since the previous attempt."""
        assert self._scheduler is not None
        nominator = self._scheduler.queue.nominator
        changes = nominator.log.since(self._nominations_seen)
        self._nominations_seen = nominator.log.end
        names: Iterable[str] = nominator.nominated_nodes() if changes is EVERYTHING else dict.fromkeys(changes)
        for name in filter(None, names):  # nominations to no node do not count, and there may be thousands
            uids = tuple(info.uid for info in nominator.nominated_pods(name))
            self._add(entries.Nominated(name, uids))

    def _keyframe(self) -> None:
        """Write the whole state; after a gap, with the number of dropped entries."""
        self.hand_over()
        if self._output.is_full:
            return
        if self._missing:
            self._output.take([self._now()], [entries.Gap(self._missing)])
            self._missing = 0
        assert self._scheduler is not None
        state = state_of(self._scheduler)
        if self._reconfigured is not None:  # a reader that starts here has not seen it
            state.insert(0, self._reconfigured)
        self._nominations_seen = self._scheduler.queue.nominator.log.end
        self._since_keyframe = 0
        self._num_in_keyframe = len(state)
        self._next_keyframe = max(self._keyframe_every, 2 * len(state))
        self._is_state_due = False
        self._output.take_state(self._now(), state)


def _never_back(now: Callable[[], float]) -> Callable[[], float]:
    """Return a clock that never decreases when the wall clock is set back: moments of a record are ordered."""
    last = ahead_s = 0.0

    def steady() -> float:
        nonlocal last, ahead_s
        time = now() + ahead_s
        if time < last:
            ahead_s += last - time
            time = last
        last = time
        return time

    return steady


def _extenders(scheduler: Observed) -> tuple[entries.ExtenderVerbs, ...]:
    """Return the scheduler's extenders, and their verbs."""
    return tuple(
        entries.ExtenderVerbs(
            each.name,
            tuple(
                verb
                for verb, is_asked in (
                    ("filter", each.is_filter),
                    ("prioritize", each.is_prioritizer),
                    ("preempt", each.supports_preemption),
                )
                if is_asked
            ),
            each.is_ignorable,
        )
        for each in scheduler.extenders
    )


def _annotations(scheduler: Observed) -> tuple[str, ...]:
    """Return what the scheduler's plugins declare to read."""
    plugins = (plugin for profile in scheduler.profiles.values() for plugin in profile.plugins.values())
    return tuple(sorted({name for plugin in plugins for name in plugin.traits.annotations}))
