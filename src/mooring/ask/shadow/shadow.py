"""The shadow: receives objects as an informer's listener, and judges each decision of the cluster's own scheduler.

The present state is kept as a scheduler keeps it, with a log of the last changes. A decision is repeated right before
its outcome is processed. Most agree immediately. The others wait until the following changes have been seen as well;
then the moment of the decision is searched.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.well_known import MIRROR
from mooring.ask.shadow.judge import (
    AGREE,
    CONFIGURATION,
    EXTENDER,
    SAMPLING,
    DecidedAt,
    Happened,
    Judge,
    ShadowVerdict,
    verdict_of,
)
from mooring.ask.shadow.scene import (
    UNKNOWN_VERSION,
    UNSCHEDULABLE,
    OwnWrites,
    Scene,
    SceneChange,
    change_of,
    refusal_of,
    version_of,
)
from mooring.ask.shadow.summary import Summary
from mooring.ask.shadow.window import LATE_S, Window

MAX_LOG = 4_000  # changes
SETTLE_CHANGES = 1_000  # later changes to be seen before the search for the moment of a decision
SETTLE_S = 2.0  # or this long has passed
MAX_OPEN = 1_000  # decisions that wait for the search
PAPERWORK_S = 1.0  # maximum delay of the condition of a refusal
MAX_AGE_S = 30.0  # of changes that a scheduler may not have seen

UNSEEN = "was not seen waiting"
LISTED = "the watch was interrupted"
GROUP = "is a member of a pod group"
BROKEN = "its scheduler reports an error"
HURRIED = "too much happened at once"


@dataclass(frozen=True, slots=True)
class _Open:
    """A decision whose moment is still to be found."""

    happened: Happened
    number: int  # of the change that reported it


class Shadow:
    """Receives objects like an informer's listener, and the passing of time with :meth:`settle`.

    ``is_synced`` is set once all first lists have arrived: earlier objects are not compared.
    """

    def __init__(
        self,
        scene: Scene,
        theirs: Judge,
        ours: Judge | None,
        names: Sequence[str],
        now: Callable[[], float],
        *,
        tell: Callable[[ShadowVerdict], None] = lambda verdict: None,
    ) -> None:
        """``theirs`` has the configuration of the cluster's scheduler, ``ours`` a different one to compare, if any.

        Pods of the schedulers with these ``names`` are compared.
        """
        self._scene, self._theirs, self._ours = scene, theirs, ours
        self._names = frozenset(names)
        self._now = now
        self._tell = tell
        self._own = OwnWrites()
        self._log: deque[SceneChange] = deque(maxlen=MAX_LOG)
        self._end = 0  # the number of the next change
        self._listed_at = -math.inf  # a list has no order, so the log begins after it
        self._waiting: dict[str, float] = {}  # uid -> since when the pod is pending as it is now
        self._open: deque[_Open] = deque()
        self._search: Iterator[None] = iter(())  # for the moment of the oldest waiting decision
        self.is_synced = False
        self.is_listing: Callable[[], bool] = lambda: False  # whether objects come from a list, which has no order
        self.summary = Summary()

    # ---- from the informer -----------------------------------------------------------------------------------------

    def put(self, obj: Object) -> None:
        self._take(None, obj)

    def update(self, old: Object, new: Object) -> None:
        self._take(old, new)

    def delete(self, obj: Object) -> None:
        self._take(obj, None)

    def _take(self, old: Object | None, new: Object | None) -> None:
        now = self._now()
        before = self._own.known(old)
        if isinstance(new, Pod) and self.is_synced and not new.is_finished:
            self._watch_pod(now, old if isinstance(old, Pod) else None, new)
        elif isinstance(old, Pod) and new is None:
            self._waiting.pop(old.uid, None)
        self._own.note(old, new)
        change = change_of(now, before, self._own.known(new))
        self._scene.do(change)
        if not self.is_synced:
            self._log.clear()
        elif self.is_listing():
            self._log.clear()
            self._listed_at = now
        else:
            self._log.append(change)
        self._end += 1

    # ---- the scheduler's decisions --------------------------------------------------------------------------------

    def _watch_pod(self, now: float, old: Pod | None, new: Pod) -> None:
        happened = self._bound(now, old, new) if new.spec.node_name else self._refused(now, old, new)
        if happened is None:
            return
        said = refusal_of(new)
        if new.spec.scheduler_name not in self._names:
            self.summary.pass_over(new.spec.scheduler_name)
        elif old is None:
            self.summary.leave_out(UNSEEN)
        elif self.is_listing():
            self.summary.leave_out(LISTED)
        elif new.spec.scheduling_group is not None:
            self.summary.leave_out(GROUP)
        elif not happened.node and said is not None and said.reason != UNSCHEDULABLE:
            self.summary.leave_out(BROKEN)
        else:
            self._judge(happened)

    def _bound(self, now: float, old: Pod | None, new: Pod) -> Happened | None:
        since = self._waiting.pop(new.uid, 0.0)
        if (old is not None and old.spec.node_name) or MIRROR in new.metadata.annotations:
            return None
        return Happened(now, since, self._own.version_of(old or new), new.spec.node_name, version=version_of(new))

    def _refused(self, now: float, old: Pod | None, new: Pod) -> Happened | None:
        """Return a new refusal: one whose message was not in the condition before."""
        since = self._waiting.setdefault(new.uid, now)
        said, before = refusal_of(new), None if old is None else refusal_of(old)
        if old is not None and old.spec.scheduling_gates != new.spec.scheduling_gates:
            self._waiting[new.uid] = now
        elif said != before:  # the next attempt may be over before the condition of this one is seen
            self._waiting[new.uid] = max(since, now - PAPERWORK_S)
        if old is None or said is None or said == before:
            return None
        return Happened(now, since, old, "", said.message, new.status.nominated_node_name, version_of(new))

    # ---- verdicts ------------------------------------------------------------------------------------------------

    def _judge(self, happened: Happened) -> None:
        """Decide in the present state; disagreements are searched later."""
        scene = self._own.undone(self._scene, happened.pod, happened.node)
        theirs = self._theirs if scene is self._scene else self._theirs.on(scene)
        decision, agreement = theirs.compare(happened)
        if agreement not in AGREE:
            self._open.append(_Open(happened, self._end))
        elif self._ours is None:
            self._give(verdict_of(decision, agreement, happened))
        else:
            self._give_at(scene, happened, DecidedAt.EXACT, ())

    def settle(self, *, is_over: bool = False, for_s: float = math.inf) -> bool:
        """Give the verdicts that need not wait longer; all of them if it ``is_over``.

        A search can take seconds, in which no events are processed. So it stops after ``for_s``, and continues at the
        next call; the result reports whether there is more to do. At the end, the rest is not compared.
        """
        until = self._now() + for_s
        while True:
            for _ in self._search:
                if self._now() >= until:
                    break
            else:
                if self._open and (is_over or self._is_due(self._open[0])):
                    self._search = self._look_again(self._open.popleft())
                    continue
                return False
            if not is_over:
                return True
            self._search = iter(())
            self.summary.leave_out(HURRIED, 1 + len(self._open))
            self._open.clear()

    def _is_due(self, asked: _Open) -> bool:
        is_old = self._now() - asked.happened.time >= SETTLE_S or self._end - asked.number >= SETTLE_CHANGES
        return is_old or len(self._open) > MAX_OPEN

    def _look_again(self, asked: _Open) -> Iterator[None]:
        """Search for a verdict, step by step."""
        happened, log = asked.happened, self._log
        position = len(log) - (self._end - asked.number)  # of the change that reported it; negative: no longer there
        if position < 0 or len(self._open) > MAX_OPEN:
            is_listed = self._listed_at >= happened.since - LATE_S
            self.summary.leave_out(LISTED if is_listed else HURRIED)
            return
        scene = self._scene.fork()
        later = list(islice(log, position, None))
        for change in reversed(later):
            scene.undo(change)
        scene = self._own.undone(scene, happened.pod, happened.node)
        decision, agreement = self._theirs.on(scene).compare(happened, detail=True)
        cause = ""
        if agreement not in AGREE:
            since = happened.time - MAX_AGE_S
            before = [change for change in reversed(list(islice(log, position))) if change.time >= since]
            if happened.node and self._theirs.sampling_explains(scene, happened.pod, decision, happened.node):
                cause = SAMPLING
            else:
                window = Window(self._theirs, scene, happened, before, later[1:], waiting=len(self._open))
                for found in window.search():
                    if found is not None:
                        self._give_at(found.scene, found.happened, found.moment, found.assumed)
                        return
                    yield
            if not cause and self._listed_at >= happened.since - LATE_S:
                self.summary.leave_out(LISTED)  # the moment may not have been observed
                return
            if not cause and self._theirs.asks_extenders(happened.pod):
                cause = EXTENDER
        self._give_at(scene, happened, DecidedAt.EXACT, (), cause, is_clear=agreement in AGREE or cause == SAMPLING)

    def _give_at(
        self,
        scene: Scene,
        happened: Happened,
        moment: DecidedAt,
        assumed: tuple[str, ...],
        cause: str = "",
        *,
        is_clear: bool = True,
    ) -> None:
        """Give the verdict in a scene. A compared configuration decides in the scene in which the cluster's own
        explains the outcome: ``is_clear`` says whether there is one.
        """
        asked = self._theirs if self._ours is None else self._ours
        there = asked if scene is self._scene else asked.on(scene)
        decision, agreement = there.compare(happened, detail=True)
        if self._ours is not None and is_clear and cause != SAMPLING:
            cause = CONFIGURATION
        self._give(verdict_of(decision, agreement, happened, moment, assumed, cause))

    def _give(self, verdict: ShadowVerdict) -> None:
        self.summary.count(verdict)
        self._tell(verdict)


# --------------------------------------------------------------------------------------------------------------------
# Changes of several watches, sorted into the order in which they were made.
#
# Watches have no common order. What has accumulated in their connections, because this process was busy or stopped, is
# read one watch after the other: all pods of the last seconds, then all nodes. Resource versions have one order for all
# kinds, so changes are delayed briefly and sorted.

HOLD_S = 0.25


class InOrder:
    """Sorts changes between an informer and a shadow. :meth:`pass_on` must be called regularly."""

    def __init__(self, watcher: Shadow, now: Callable[[], float]) -> None:
        self._watcher, self._now = watcher, now
        self._held: list[tuple[int, int, float, Object | None, Object | None]] = []  # by version, then by arrival
        self._count = 0
        self._newest = 0

    @property
    def is_synced(self) -> bool:
        return self._watcher.is_synced

    @is_synced.setter
    def is_synced(self, is_synced: bool) -> None:
        self._watcher.is_synced = is_synced

    def put(self, obj: Object) -> None:
        self._hear(None, obj)

    def update(self, old: Object, new: Object) -> None:
        self._hear(old, new)

    def delete(self, obj: Object) -> None:
        self._hear(obj, None)

    def _hear(self, old: Object | None, new: Object | None) -> None:
        if not self._watcher.is_synced or self._watcher.is_listing():
            self.pass_on(is_all=True)
            self._tell(old, new)
            return
        version = version_of(new or old)
        if version == UNKNOWN_VERSION:
            version = self._newest
        self._newest = max(self._newest, version)
        self._count += 1
        heapq.heappush(self._held, (version, self._count, self._now(), old, new))
        self.pass_on()

    def pass_on(self, *, is_all: bool = False) -> None:
        """Pass on changes that were delayed long enough."""
        held, before = self._held, self._now() - HOLD_S
        while held and (is_all or held[0][2] <= before):
            *_, old, new = heapq.heappop(held)
            self._tell(old, new)

    def _tell(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            assert old is not None
            self._watcher.delete(old)
        elif old is None:
            self._watcher.put(new)
        else:
            self._watcher.update(old, new)
