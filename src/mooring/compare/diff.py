"""Diff: the same pods under two schedulers, one pod after another, and what differs.

Both sides start with the same cluster and get the same pods in the same order. A node that is as good as the other
side's is no difference: the second side takes the first one's. So random ties neither show nor spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mooring.api.core import Pod
from mooring.api.times import parse_time
from mooring.compare.cause import FOLLOWS, Cause, cause_of
from mooring.compare.sides import Side, goal, is_as_good, unbatched
from mooring.compare.sums import Sum, sum_of
from mooring.engine.decision import Decision as EngineDecision
from mooring.errors import InputError, ParseError
from mooring.explanation.decision import Decision
from mooring.explanation.why import as_new
from mooring.surface.scheduler import Scheduler

Which = Literal["pending", "all"]
Asked = Literal["pending", "all", "run", "record"]
_MIRROR = "kubernetes.io/config.mirror"  # of a static pod, which no scheduler places


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that has another node in the end, or has one on one side only; None: it waits, or was evicted."""

    pod: str
    before: str | None
    after: str | None
    cause: Cause

    def to_dict(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "from": self.before,
            "to": self.after,
            "because": self.cause.text,
            "plugin": self.cause.plugin,
            "follows": self.cause.follows,
        }


@dataclass(slots=True)
class Difference:
    """What differs between two schedulers. It is true if something does."""

    asked: Asked
    pods: int  # how many were compared; of a record, how many attempts
    moved: list[Move] = field(default_factory=list)
    equally_good: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # pod -> the node it has, the one it need not
    messages: dict[str, tuple[str, str]] = field(default_factory=dict)  # of pods that wait on both sides
    first: tuple[Decision, Decision] | None = None  # both decisions about the first pod that moved
    sums: tuple[Sum, Sum] = (Sum(0, 0, 0, 0), Sum(0, 0, 0, 0))
    left_out: dict[str, int] = field(default_factory=dict)  # scheduler name -> pods that are not compared

    def __bool__(self) -> bool:
        return bool(self.moved)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        return {
            "asked": self.asked,
            "pods": self.pods,
            "moved": [move.to_dict() for move in self.moved],
            "first": None if self.first is None else {"before": _dict(self.first[0]), "after": _dict(self.first[1])},
            "equallyGood": [{"pod": pod, "nodes": list(nodes)} for pod, nodes in self.equally_good.items()],
            "messages": [{"pod": pod, "from": old, "to": new} for pod, (old, new) in self.messages.items()],
            "sums": {"before": self.sums[0].to_dict(), "after": self.sums[1].to_dict()},
            "leftOut": self.left_out,
        }

    def __repr__(self) -> str:
        from mooring.compare.rendering import text  # which draws differences, and knows them therefore

        return text(self)


def diff(before: Scheduler | str | Path, after: Scheduler | str | Path, pods: Which = "pending") -> Difference:
    """Compare where two schedulers of one cluster send its pods, or what became of pods in two records.

    The cluster stays as it is. Records are files, such as ``mooring.simulate(…, record="run.mrec")`` writes.

    ``"pending"`` pods go one after another by priority, then by age; ``"all"`` pods are placed anew, in the order of
    their creation, into the empty cluster. Preemption is carried out. What does not fit is tried again as long as
    something changes.
    """
    if isinstance(before, str | Path) and isinstance(after, str | Path):
        from mooring.compare.runs import diff_runs  # which builds on differences
        from mooring.record.reader import Record

        with Record.open(before) as one, Record.open(after) as two:
            return diff_runs(one, two)
    if not isinstance(before, Scheduler) or not isinstance(after, Scheduler):
        raise InputError("diff: expected two schedulers, or two records")
    if before.cluster is not after.cluster:
        raise InputError("diff: the two schedulers have different clusters; expected two schedulers of one cluster")
    if pods not in ("pending", "all"):
        raise InputError(f"diff: pods: found {pods!r}, expected 'pending' or 'all'")
    walk = _Walk(before, after, pods)
    walk.run()
    return walk.found()


class _Walk:
    """The way of all pods through both schedulers."""

    def __init__(self, before: Scheduler, after: Scheduler, asked: Which) -> None:
        cluster = before.cluster
        candidates = cluster.pending if asked == "pending" else [*cluster.pods, *cluster.pending]
        known = {*before.profiles} & {*after.profiles}
        mine = [
            pod for pod in candidates if pod.spec.scheduler_name in known and _MIRROR not in pod.metadata.annotations
        ]
        self._order: Sequence[Pod] = _by_creation(mine) if asked == "all" else _by_priority(mine)
        running = [pod for pod in mine if pod.spec.node_name]
        self._one, self._two = Side(before, cluster, running), Side(after, cluster, running)
        self._after = after
        self._crossed: Scheduler | None = None
        self._causes: dict[str, Cause] = {}
        self._equal: dict[str, tuple[str, str]] = {}
        self._first: tuple[Decision, Decision] | None = None
        self._asked: Which = asked
        self._left_out: dict[str, int] = {}
        for pod in candidates:
            name = pod.spec.scheduler_name
            if name not in known:
                self._left_out[name] = self._left_out.get(name, 0) + 1

    # ---- the walk ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        queue = list(self._order)
        while queue:
            again: dict[str, Pod] = {}
            has_moved = False
            for pod in queue:
                places = self._places(pod)
                again.update({victim.key: victim for victim in self._step(pod)})
                has_moved |= places != self._places(pod)
            if not has_moved:
                return
            waiting = [pod for pod in queue if None in self._places(pod)]
            queue = list({pod.key: pod for pod in (*waiting, *again.values())}.values())

    def _places(self, pod: Pod) -> tuple[str | None, str | None]:
        return self._one.node_of(pod.key), self._two.node_of(pod.key)

    def _step(self, pod: Pod) -> list[Pod]:
        """Decide about a pod on both sides, note why they differ, and let it go where they send it."""
        here, there = self._places(pod)
        old = self._one.decide(pod) if here is None else None
        new = self._two.decide(pod) if there is None else None
        here = goal(old) if old is not None else here
        node = new.node if new is not None else None
        if new is not None and node is not None and node != here and is_as_good(new, here):
            assert here is not None
            self._equal[pod.key] = (here, node)
            node = here
        if old is not None and new is not None and here != (node or goal(new)) and pod.key not in self._causes:
            self._causes[pod.key] = self._cause(pod, old)
        again: list[Pod] = []
        if old is not None:
            again += self._one.settle(pod, old, old.node)
        if new is not None:
            again += self._two.settle(pod, new, node)
        return again

    def _cause(self, pod: Pod, old: EngineDecision) -> Cause:
        """Why: in the same cluster where there is a difference, otherwise because of the moves before."""
        if not self._causes:
            one, two = self._one.scheduler.built.decide(pod), self._two.scheduler.built.decide(pod)
            self._first = _shown(self._one.scheduler, one), _shown(self._two.scheduler, two)
            return cause_of(one, two)
        if self._crossed is None:
            self._crossed = unbatched(self._after.on(self._one.cluster))
        crossed = self._crossed.built.decide(pod)
        if goal(crossed) == goal(old) or is_as_good(crossed, goal(old)):
            return FOLLOWS
        return cause_of(self._one.scheduler.built.decide(pod), crossed)

    # ---- what was found ----------------------------------------------------------------------------------------

    def found(self) -> Difference:
        one, two = self._one, self._two
        keys = dict.fromkeys([*(pod.key for pod in self._order), *one.evicted, *two.evicted])
        ends = {key: (one.node_of(key), two.node_of(key)) for key in keys}
        moved = [Move(key, *nodes, self._why(key)) for key, nodes in ends.items() if nodes[0] != nodes[1]]
        messages = {
            key: (one.waits[key], two.waits[key])
            for key in keys
            if key in one.waits and key in two.waits and one.waits[key] != two.waits[key]
        }
        return Difference(
            self._asked,
            len(self._order),
            moved,
            {key: nodes for key, nodes in self._equal.items() if ends[key][0] == ends[key][1]},
            messages,
            self._first if moved else None,
            (self._sum(one), self._sum(two)),
            self._left_out,
        )

    def _why(self, key: str) -> Cause:
        one, two = self._one.evicted.get(key), self._two.evicted.get(key)
        if key in self._causes:
            return self._causes[key]
        if two and not one:
            return Cause(f"evicted for {two}", "DefaultPreemption")
        if one and not two:
            return Cause(f"no longer evicted for {one}", "DefaultPreemption")
        return FOLLOWS

    def _sum(self, side: Side) -> Sum:
        placed = sum(side.node_of(pod.key) is not None for pod in self._order)
        return sum_of(side.cluster, placed=placed, waiting=len(side.waits), evicted=len(side.evicted))


def _shown(scheduler: Scheduler, decided: EngineDecision) -> Decision:
    profile = scheduler.built.profile_of(decided.pod.pod)
    decision = Decision(decided, profile.scheduler_name, scheduler.cluster.state)
    _ = decision.scores, decision.refusals  # now: the columns behind them change with the cluster
    return decision


def _by_priority(pods: Iterable[Pod]) -> list[Pod]:
    """As kube-scheduler's queue sorts them."""
    return sorted(pods, key=lambda pod: (-(pod.spec.priority or 0), _created(pod)))


def _by_creation(pods: Iterable[Pod]) -> list[Pod]:
    """As if each were new; those of one second in the order of their names."""
    return sorted((as_new(pod) for pod in pods), key=lambda pod: (_created(pod), pod.key))


def _created(pod: Pod) -> float:
    try:
        return parse_time(pod.metadata.creation_timestamp or "")
    except ParseError:
        return 0.0


def _dict(decision: Decision) -> dict[str, Any]:
    keys = ("node", "message", "scores", "groups", "nominatedNode", "victims")
    whole = decision.to_dict()
    return {"pod": whole["pod"], **{key: whole[key] for key in keys}}
