"""The search for the state that a scheduler decided from, among the moments around the one at which it was seen.

A scheduler decides first and binds afterwards, several pods at a time, and its watch is not ours. Not everything is
possible, though:

- It decided at some moment while the pod was waiting. What was seen before that moment it knew, and of what was seen
  later it knew only what it had done itself: the pods that it had placed or nominated.
- It places one pod after another, and bindings are seen nearly in this order. So of what it was seen to do after that
  moment it had done the first few: all that was seen before the outcome, or a few more or fewer.
- A pod that it had placed, but that was deleted before it was bound or could not be bound, held room on a node that
  nobody can see.
- Nodes, volumes and the rest come by other watches. What we saw late, versions tell; what it saw late, nobody does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.api.core import Pod
from mooring.shadow.judge import Judge
from mooring.shadow.scene import Change, Scene
from mooring.shadow.verdict import AGREE, Happened, Moment

ALL = 1 << 30
FEWER = (0, 1, 2, 3, 4, 6, 8, 12, 16)  # of its own doings that were not yet seen by then
MORE = 8  # of its own doings that were seen only after the outcome
MAX_UNSEEN = 3  # pods that never came to a node
LATE_S = 1.0  # that the scheduler's other watches may be behind that of pods
MAX_MOMENTS = 80  # of one walk
MAX_TRIES, MIN_TRIES, NODES_TRIED = 600, 24, 60_000  # decisions for one search: fewer in large clusters


@dataclass(frozen=True, slots=True)
class Found:
    """A state in which the decision is the one that happened."""

    moment: Moment
    scene: Scene
    assumed: tuple[str, ...]


class Window:
    """Looks for a state from which the judge decides as it happened.

    ``scene`` is right before the outcome was seen, ``before`` are changes that led there, the last one first, and
    ``after`` those that followed, without the outcome itself.
    """

    def __init__(
        self,
        judge: Judge,
        scene: Scene,
        happened: Happened,
        before: Sequence[Change],
        after: Sequence[Change],
        *,
        waiting: int = 0,
    ) -> None:
        """``waiting`` decisions are still to be looked at: the more they are, the sooner the search gives up."""
        self._judge, self._scene, self._happened = judge, scene, happened
        self._before = [change for change in before if change.time >= happened.since]
        late = [change for change in before if change.matters and not change.is_pod]
        self._heard_late = [change for change in late if change.time >= happened.since - LATE_S]
        new = {change.new.uid for change in after if change.old is None and isinstance(change.new, Pod)}
        self._done_later = [change for change in after if change.is_own and _uid(change) not in new][:MORE]
        self._told_late = [
            change for change in after if change.matters and not change.is_pod and change.version < happened.version
        ]
        self._never_placed = [
            change for change in (*self._before, *after) if change.may_have_held_room and _uid(change) not in new
        ]
        nodes = max(1, len(scene.state.nodes()))
        self._tries = max(MIN_TRIES, min(MAX_TRIES, NODES_TRIED // nodes) // (1 + waiting // 10))

    def search(self) -> Found | None:
        """The likeliest states first."""
        return (
            self._walk_back(ALL)
            or self._walk_on(self._done_later, Moment.REORDERED)
            or self._one_more()
            or self._walk_on(self._told_late, Moment.LATER)
            or self._without_the_late()
            or next(filter(None, (self._walk_back(done) for done in FEWER)), None)
            or next(filter(None, (self._walk_back(ALL, more) for more in range(1, len(self._done_later) + 1))), None)
            or next(filter(None, (self._walk_back(ALL, 0, late) for late in range(1, len(self._heard_late) + 1))), None)
            or next(filter(None, (self._with_unseen(more) for more in range(len(self._done_later) + 1))), None)
        )

    def _walk_back(self, done: int, more: int = 0, late: int = 0) -> Found | None:
        """From one moment to the one before it; the first one that agrees is taken.

        Of what it was seen to do since that moment the scheduler had ``done`` so much already, and so much ``more`` of
        what was seen after the outcome. It had not heard of the last ``late`` changes of nodes and other objects.
        """
        fork = self._scene.fork()
        there = self._judge.on(fork)
        counted: deque[Change] = deque()  # the last one first
        unknown = [f"{change.text}: already" for change in self._done_later[:more]]
        unknown += [f"{change.text}: not yet" for change in self._heard_late[:late]]
        for change in self._done_later[:more]:
            fork.do(change)
        for change in self._heard_late[:late]:
            fork.undo(change)
        for change in self._before:
            if change.is_own:
                counted.append(change)
                if len(counted) <= done:
                    continue
                change = counted.popleft()
            fork.undo(change)
            if change.matters:
                unknown.append(f"{change.text}: not yet")
                if self._agrees(there):
                    moment = Moment.EARLIER if done == ALL and not more else Moment.REORDERED
                    return Found(moment, fork, tuple(unknown))
            if not self._tries or len(unknown) >= MAX_MOMENTS:
                break
        return None

    def _walk_on(self, changes: Sequence[Change], moment: Moment) -> Found | None:
        """With more and more of what was seen only afterwards."""
        fork = self._scene.fork()
        there = self._judge.on(fork)
        known: list[str] = []
        for change in changes:
            fork.do(change)
            known.append(f"{change.text}: already")
            if self._agrees(there):
                return Found(moment, fork, tuple(known))
            if not self._tries:
                break
        return None

    def _without_the_late(self) -> Found | None:
        """Without the last changes of nodes and other objects, which come by watches of their own."""
        fork = self._scene.fork()
        there = self._judge.on(fork)
        unknown: list[str] = []
        for change in self._heard_late:
            fork.undo(change)
            unknown.append(f"{change.text}: not yet")
            if self._agrees(there):
                return Found(Moment.EARLIER, fork, tuple(unknown))
            if not self._tries:
                break
        return None

    def _one_more(self) -> Found | None:
        """With a single pod that came to its node later, or without a single one that came before."""
        for change in self._done_later[1:]:
            fork = self._scene.fork()
            fork.do(change)
            if self._agrees(self._judge.on(fork)):
                return Found(Moment.REORDERED, fork, (f"{change.text}: already",))
        for change in [change for change in self._before if change.is_own][:MORE]:
            fork = self._scene.fork()
            fork.undo(change)
            if self._agrees(self._judge.on(fork)):
                return Found(Moment.REORDERED, fork, (f"{change.text}: not yet",))
        return None

    def _with_unseen(self, more: int) -> Found | None:
        """With pods that never came to a node on the nodes that look better than the outcome, and ``more`` of what the
        scheduler was seen to do after the outcome: a burst of pods, of which one could not be bound."""
        if not self._never_placed or not self._tries:
            return None
        fork = self._scene.fork()
        there = self._judge.on(fork)
        for change in self._done_later[:more]:
            fork.do(change)
        known = [f"{change.text}: already" for change in self._done_later[:more]]
        held: list[str] = []
        for change in self._never_placed:
            self._tries = max(0, self._tries - 1)
            decision, agreement = there.compare(self._happened)
            if held and agreement in AGREE:
                return Found(Moment.REORDERED, fork, (*known, *held))
            pod = change.old
            assert isinstance(pod, Pod)
            if decision.node is None or len(held) >= MAX_UNSEEN or fork.state.pod(pod.uid) is not None:
                continue
            fork.state.assume(fork.state.info(pod), decision.node)
            held.append(f"Pod {pod.key}, which was never bound, held room on {decision.node}")
        return Found(Moment.REORDERED, fork, (*known, *held)) if held and self._agrees(there) else None

    def _agrees(self, judge: Judge) -> bool:
        self._tries = max(0, self._tries - 1)
        return judge.compare(self._happened)[1] in AGREE


def _uid(change: Change) -> str:
    thing = change.new or change.old
    assert thing is not None
    return thing.uid
