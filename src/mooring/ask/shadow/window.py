"""The search for the state that a scheduler decided from, among the moments around the observed outcome.

A scheduler decides first and binds afterwards, several pods at a time, and its watch is not ours. Not everything is
possible, though:

- It decided at some moment while the pod was pending. It knew what was seen before that moment, and of what was seen
  later only its own actions: the pods that it had placed or nominated.
- It places one pod after another, and bindings are seen nearly in this order. So of the actions that were seen after
  that moment it had done the first few: all that was seen before the outcome, or a few more or fewer.
- A pod that it had placed, but that was deleted before it was bound or could not be bound, held room on a node
  invisibly.
- Nodes, volumes and the rest arrive by other watches, and there is no order between watches: while it was behind with
  pods it may have known every node, or the other way round. Resource versions say what we saw late; what it saw late is
  unknown.

So there are three directions: the moment in the order of pods, how far the other watches were ahead or behind, and
which of its own actions it had done. All states within reach are tried, the nearest ones first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from mooring.api.core import Pod
from mooring.ask.shadow.judge import AGREE, Agreement, DecidedAt, Happened, Judge
from mooring.ask.shadow.scene import Scene, SceneChange
from mooring.core.engine.decision import ScheduleResult

ALL = 1 << 30
SINCE = (0, 1, 2, 3, 4, 6, 8, 12, 16)  # its own actions since a moment
MORE = 8  # its own actions observed after the outcome although done before, or the other way round
MAX_UNSEEN = 3  # pods that never got a node
LATE_S = 1.0  # delay of the scheduler's other watches relative to that of pods
REACHES = (1, 2, 3, 4, 6, 8, 12, 16, 24)
STEPS = 4  # changes of pods count as much as one change of another kind
MAX_TRIES, MIN_TRIES, NODES_TRIED = 2_000, 24, 60_000  # decisions per search: fewer in large clusters


@dataclass(frozen=True, slots=True)
class Found:
    """A state in which the decision is the observed one."""

    moment: DecidedAt
    scene: Scene
    happened: Happened  # with the pod as it was then
    assumed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Direction:
    """A direction of the search.

    At the moment of a walk, the scheduler's other watches were a number of changes ``ahead`` of ours, or behind. Of its
    own actions it had not done the last few that were seen by the outcome, and had done a few ``more``; or it had
    ``done`` a number since the moment.
    """

    ahead: int
    fewer: int = 0
    more: int = 0
    done: int = ALL

    @property
    def distance(self) -> int:
        """Distance: its actions come in bursts; overtaking in both directions is rarer."""
        own = (self.fewer + self.more + 1) // 2 + 2 * bool(self.fewer and self.more)
        return abs(self.ahead) + own + (0 if self.done == ALL else 1 + self.done // 2)


class _Place:
    """A state near the outcome: a fork of the scene there, with some changes undone and others already applied."""

    def __init__(self, judge: Judge, scene: Scene, happened: Happened) -> None:
        self.scene = scene.fork()
        self.happened = happened  # with the pod as it was then
        self._judge = judge.on(self.scene)
        self.moved: dict[SceneChange, str] = {}  # its differences from the scene at the outcome

    def do(self, change: SceneChange) -> None:
        self.scene.do(change)
        self._move(change, "already")

    def undo(self, change: SceneChange) -> None:
        self.scene.undo(change)
        self._move(change, "not yet")

    def _move(self, change: SceneChange, how: str) -> None:
        if self.moved.pop(change, how) == how and change.matters:
            self.moved[change] = how

    def follow(self, change: SceneChange) -> None:
        """Move the decided pod to its version before a change: its nomination is included once observed."""
        if isinstance(change.old, Pod) and not change.old.spec.node_name:
            self.happened = replace(self.happened, pod=change.old)

    def hold_room(self, pod: Pod, node: str) -> None:
        self._judge.hold_room(pod, node)

    def compare(self) -> tuple[ScheduleResult, Agreement]:
        return self._judge.compare(self.happened)

    @property
    def assumed(self) -> tuple[str, ...]:
        return tuple(f"{change.text}: {how}" for change, how in self.moved.items())


class Window:
    """Searches for a state in which the judge's decision is the observed one.

    ``scene`` is right before the outcome was observed, ``before`` are changes that led there, the last one first, and
    ``after`` those that followed, without the outcome itself.
    """

    def __init__(
        self,
        judge: Judge,
        scene: Scene,
        happened: Happened,
        before: Sequence[SceneChange],
        after: Sequence[SceneChange],
        *,
        waiting: int = 0,
    ) -> None:
        """``waiting`` decisions are still to be searched: the more, the earlier the search gives up."""
        self._judge, self._scene, self._happened = judge, scene, happened
        self._before = [change for change in before if change.time >= happened.since]
        own = happened.pod.uid
        self._done = [change for change in self._before if change.is_own and _uid(change) != own][:MORE]
        new = {change.new.uid for change in after if change.old is None and isinstance(change.new, Pod)}
        self._done_later = [change for change in after if change.is_own and _uid(change) not in new][:MORE]
        late = [change for change in before if change.matters and not change.is_pod]
        heard = [change for change in late if change.time >= happened.since - LATE_S]
        told_late = [
            change for change in after if change.matters and not change.is_pod and change.version < happened.version
        ]
        self._others = [*reversed(heard), *told_late]  # what comes by other watches, in the order in which we saw it
        self._seen = len(heard)  # of those, by the outcome
        self._never_placed = [
            change for change in (*self._before, *after) if change.may_have_held_room and _uid(change) not in new
        ]
        nodes = max(1, len(scene.state.nodes()))
        self._tries = max(MIN_TRIES, min(MAX_TRIES, NODES_TRIED // nodes) // (1 + waiting // 10))
        self._tries_unseen = self._tries
        self._tried: set[tuple[frozenset[SceneChange], str]] = {(frozenset(), happened.pod.metadata.resource_version)}

    def search(self) -> Iterator[Found | None]:
        """Search farther and farther from the outcome, in all directions in turn; yield None after each walk without a
        result.
        """
        others = range(-self._seen, len(self._others) + 1)
        fewer, more = range(len(self._done) + 1), range(len(self._done_later) + 1)
        ways = [_Direction(ahead, *own) for ahead in others for own in product(fewer, more)]
        ways += [_Direction(ahead, done=done) for ahead in others for done in SINCE]
        ways.sort(key=lambda way: way.distance)
        for reach in REACHES:
            for way in ways:
                if way.distance > reach:
                    break
                yield self._walk_back(way, STEPS * (reach - way.distance))
            if reach == REACHES[0]:
                yield from (self._swap_one(ahead) for ahead in others)
        yield from (self._with_unseen(way) for way in ways if way.done == ALL and not way.fewer)

    def _begin(self, way: _Direction) -> _Place:
        place = _Place(self._judge, self._scene, self._happened)
        for change in self._done_later[: way.more]:
            place.do(change)
        for change in self._done[: way.fewer]:
            place.undo(change)
        self._move_others(place, self._seen, self._seen + way.ahead)
        return place

    def _move_others(self, place: _Place, start: int, end: int) -> None:
        """Move from one number of known changes of nodes and other objects to another."""
        for change in self._others[start:end]:
            place.do(change)
        for change in reversed(self._others[max(0, end) : start]):
            place.undo(change)

    def _walk_back(self, way: _Direction, steps: int) -> Found | None:
        """Walk back in ``steps`` from one moment to the previous one, up to the first agreement."""
        if not self._tries:
            return None
        place = self._begin(way)
        if self._agrees(place):
            return self._found(place)
        seen, not_done = self._seen, {_uid(change) for change in self._done[: way.fewer]}
        counted: deque[SceneChange] = deque()  # the last one first
        for change in self._before:
            if not self._tries or not steps:
                break
            if _uid(change) == self._happened.pod.uid:
                place.follow(change)
                continue
            if change.is_pod and _uid(change) in not_done:
                continue
            if change.is_own:
                counted.append(change)
                if len(counted) <= way.done:
                    continue
                place.undo(counted.popleft())
            elif change.is_pod:
                place.undo(change)
            elif change.matters:
                self._move_others(place, max(0, seen + way.ahead), seen - 1 + way.ahead)
                seen -= 1
            steps -= change.matters
            if self._agrees(place):
                return self._found(place)
        return None

    def _swap_one(self, ahead: int) -> Found | None:
        """Try a single pod that got its node later, or without a single earlier one."""
        for later, changes in ((True, self._done_later[1:]), (False, self._done[1:])):
            for change in changes:
                place = self._begin(_Direction(ahead))
                (place.do if later else place.undo)(change)
                if self._agrees(place):
                    return self._found(place)
        return None

    def _with_unseen(self, way: _Direction) -> Found | None:
        """Try pods that never got a node on the nodes that look better than the outcome: in a burst of pods one binding
        may fail.
        """
        if not self._never_placed or not self._tries_unseen:
            return None
        place = self._begin(way)
        held: list[str] = []
        for change in self._never_placed:
            self._tries_unseen = max(0, self._tries_unseen - 1)
            decision, agreement = place.compare()
            if held and agreement in AGREE:
                break
            pod = change.old
            assert isinstance(pod, Pod)
            if decision.node is None or len(held) >= MAX_UNSEEN or place.scene.state.pod(pod.uid) is not None:
                continue
            place.hold_room(pod, decision.node)
            held.append(f"Pod {pod.key}, which was never bound, held room on {decision.node}")
        agrees = held and place.compare()[1] in AGREE
        return Found(DecidedAt.REORDERED, place.scene, place.happened, (*place.assumed, *held)) if agrees else None

    def _agrees(self, place: _Place) -> bool:
        """Decide and compare, without repeating earlier tries."""
        key = frozenset(place.moved), place.happened.pod.metadata.resource_version
        if key in self._tried or not self._tries:
            return False
        self._tried.add(key)
        self._tries -= 1
        return place.compare()[1] in AGREE

    def _found(self, place: _Place) -> Found:
        own = any(change.is_own for change in place.moved)
        later = "already" in place.moved.values()
        moment = DecidedAt.REORDERED if own else DecidedAt.LATER if later else DecidedAt.EARLIER
        return Found(moment, place.scene, place.happened, place.assumed)


def _uid(change: SceneChange) -> str:
    thing = change.new or change.old
    assert thing is not None
    return thing.uid
