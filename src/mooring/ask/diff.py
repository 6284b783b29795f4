"""Diff: places the same pods under two schedulers, one after another, and reports the differences.

Both sides start with the same cluster and get the same pods in the same order. An equally good node is no difference:
the second side takes the first one's. So random ties neither appear nor spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.core import Pod, recreated_pod
from mooring.api.errors import InputError, ParseError
from mooring.api.tables import print_more, print_notes, print_table, printed, printed_html
from mooring.api.text import count_of
from mooring.api.times import parse_time
from mooring.api.well_known import MIRROR
from mooring.ask.scheduler import Scheduler
from mooring.ask.sides import FOLLOWS, DifferenceCause, Side, cause_of, goal, is_as_good, unbatched
from mooring.core.cluster import Cluster
from mooring.core.config.versions import CHANGES
from mooring.core.engine.decision import ScheduleResult as EngineDecision
from mooring.core.explain.decision import Decision
from mooring.core.explain.why import draw_scores
from mooring.core.session import Configuration

# --------------------------------------------------------------------------------------------------------------------
# A placement in numbers: utilisation, its balance, and the pending pods.

_NAMED = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Sum:
    """Result of one side."""

    placed: int
    waiting: int
    evicted: int
    nodes_in_use: int
    use: dict[str, float] = field(default_factory=dict)  # requested / allocatable of all nodes, by resource
    spread: dict[str, float] = field(default_factory=dict)  # standard deviation of that share between nodes
    measures: dict[str, float] = field(default_factory=dict)  # of a run: waiting times, attempts, use over time …

    def to_dict(self) -> dict[str, Any]:
        return {
            "placed": self.placed,
            "waiting": self.waiting,
            "evicted": self.evicted,
            "nodesInUse": self.nodes_in_use,
            "use": {name: round(share, 4) for name, share in self.use.items()},
            "spread": {name: round(share, 4) for name, share in self.spread.items()},
            "measures": {name: round(value, 6) for name, value in self.measures.items()},
        }


def sum_of(cluster: Cluster, *, placed: int, waiting: int, evicted: int) -> Sum:
    """Return the numbers of a cluster. Resources other than CPU and memory count where pods request them."""
    rows = cluster.state.nodes()
    use: dict[str, float] = {}
    spread: dict[str, float] = {}
    for name in (*_NAMED, *(each for each in cluster.state.table.resources if each not in _NAMED)):
        requested, allocatable = rows.requested(name), rows.allocatable(name)
        has = allocatable > 0
        if has.any() and (name in _NAMED or requested.any()):
            use[name] = float(requested.sum() / allocatable.sum())
            spread[name] = float(np.std(requested[has] / allocatable[has]))
    in_use = int(np.count_nonzero(rows.pod_count))
    return Sum(placed, waiting, evicted, in_use, use, spread)


MOST_TRACED = 10  # pods whose moves are traced back to a change between two versions
DECIDES = ("filters", "scores", "devices")  # what such a change is about, if it can move a pod
Which = Literal["pending", "all"]
Asked = Literal["pending", "all", "run", "record"]


@dataclass(frozen=True, slots=True)
class PodMove:
    """A pod with another node in the end, or with a node on one side only; None: it is pending, or was evicted."""

    pod: str
    before: str | None
    after: str | None
    cause: DifferenceCause

    def to_dict(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "from": self.before,
            "to": self.after,
            "because": self.cause.text,
            "plugin": self.cause.plugin,
            "follows": self.cause.follows,
            "changes": list(self.cause.changes),
        }


@dataclass(slots=True)
class Difference:
    """Differences between two schedulers. It is true if there are any."""

    asked: Asked
    pods: int  # number of compared pods; of a record, of attempts
    moved: list[PodMove] = field(default_factory=list)
    equally_good: dict[str, tuple[str, str]] = field(
        default_factory=dict
    )  # pod -> its node, and the equally good other one
    messages: dict[str, tuple[str, str]] = field(default_factory=dict)  # of pods pending on both sides
    first: tuple[Decision, Decision] | None = None  # both decisions about the first pod that moved
    sums: tuple[Sum, Sum] = (Sum(0, 0, 0, 0), Sum(0, 0, 0, 0))
    left_out: dict[str, int] = field(default_factory=dict)  # scheduler name -> pods that are not compared

    def __bool__(self) -> bool:
        return bool(self.moved)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
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
        return text(self)

    def _repr_html_(self) -> str:
        return printed_html(lambda to: draw(to, self))


def diff(
    before: Scheduler | Cluster | str | Path,
    after: Scheduler | str | Path | None = None,
    pods: Which = "pending",
    *,
    configs: tuple[Configuration, Configuration] = (None, None),
    versions: tuple[str | None, str | None] = (None, None),
) -> Difference:
    """Compare the placement of pods by two schedulers of one cluster, or in two records.

    For a cluster, two ``configs`` or two ``versions`` of Kubernetes, such as ``("1.36", "1.37")``, are compared. The
    cluster stays as it is. Records are files, such as ``mooring.simulate(…, record="run.mrec")`` writes.

    ``"pending"`` pods are placed by priority, then by age; ``"all"`` pods are placed again, in the order of their
    creation, into the empty cluster. Preemption is carried out. Pods that do not fit are tried again as long as
    something changes.
    """
    if isinstance(before, str | Path) and isinstance(after, str | Path):
        from mooring.ask.runs import diff_runs  # which imports this module
        from mooring.record.reader import Record

        with Record.open(before) as one, Record.open(after) as two:
            return diff_runs(one, two)
    if isinstance(before, Cluster) and after is None:
        for name, pair in (("configs", configs), ("versions", versions)):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise InputError(f"diff: {name}: found {pair!r}; expected two to compare")
        before, after = (
            Scheduler(before, config, kubernetes_version=version)
            for config, version in zip(configs, versions, strict=True)
        )
    if not isinstance(before, Scheduler) or not isinstance(after, Scheduler):
        raise InputError("diff: expected two schedulers, two records, or a cluster and two configs or versions")
    if before.cluster is not after.cluster:
        raise InputError("diff: the two schedulers have different clusters; expected two schedulers of one cluster")
    if pods not in ("pending", "all"):
        raise InputError(f"diff: pods: found {pods!r}, expected 'pending' or 'all'")
    walk = _Walk(before, after, pods)
    walk.run()
    return walk.found()


class _Walk:
    """Passes all pods through both schedulers."""

    def __init__(self, before: Scheduler, after: Scheduler, asked: Which) -> None:
        cluster = before.cluster
        candidates = cluster.pending if asked == "pending" else [*cluster.pods, *cluster.pending]
        known = {*before.profiles} & {*after.profiles}
        mine = [
            pod for pod in candidates if pod.spec.scheduler_name in known and MIRROR not in pod.metadata.annotations
        ]
        self._order: Sequence[Pod] = _by_creation(mine) if asked == "all" else _by_priority(mine)
        running = [pod for pod in mine if pod.spec.node_name]
        self._one, self._two = Side(before, cluster, running), Side(after, cluster, running)
        self._after = after
        self._crossed: Scheduler | None = None
        self._causes: dict[str, DifferenceCause] = {}
        self._versions = before.session.features.version, after.session.features.version
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
        """Decide about a pod on both sides, note the cause of a difference, and commit both decisions."""
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

    def _cause(self, pod: Pod, old: EngineDecision) -> DifferenceCause:
        """Return the cause: in the same cluster if there is a difference, otherwise the moves before."""
        if not self._causes:
            one, two = self._one.scheduler.session.decide(pod), self._two.scheduler.session.decide(pod)
            self._first = _shown(self._one.scheduler, one), _shown(self._two.scheduler, two)
            return replace(cause_of(one, two), changes=self._changes_behind(pod, old))
        if self._crossed is None:
            self._crossed = unbatched(self._after.on(self._one.cluster))
        crossed = self._crossed.session.decide(pod)
        if goal(crossed) == goal(old) or is_as_good(crossed, goal(old)):
            return FOLLOWS
        found = cause_of(self._one.scheduler.session.decide(pod), crossed)
        return replace(found, changes=self._changes_behind(pod, old))

    def _changes_behind(self, pod: Pod, old: EngineDecision) -> tuple[str, ...]:
        """Between two versions: the changes of which each must be undone for the pod to be placed as before."""
        before, after = self._versions
        if before is after or len(self._causes) >= MOST_TRACED:
            return ()
        wanted, behind = goal(old), []
        for name in sorted(after.changes - before.changes):
            if CHANGES[name].about in DECIDES:
                # A fork for each: a version also says how pods are counted in the cluster.
                lacking = unbatched(self._after.on(self._one.cluster.fork()).without_change(name))
                found = lacking.session.decide(pod)
                if goal(found) == wanted or is_as_good(found, wanted):
                    behind.append(name)
        return tuple(behind)

    # ---- the result ---------------------------------------------------------------------------------------------

    def found(self) -> Difference:
        one, two = self._one, self._two
        keys = dict.fromkeys([*(pod.key for pod in self._order), *one.evicted, *two.evicted])
        ends = {key: (one.node_of(key), two.node_of(key)) for key in keys}
        moved = [PodMove(key, *nodes, self._why(key)) for key, nodes in ends.items() if nodes[0] != nodes[1]]
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

    def _why(self, key: str) -> DifferenceCause:
        one, two = self._one.evicted.get(key), self._two.evicted.get(key)
        if key in self._causes:
            return self._causes[key]
        if two and not one:
            return DifferenceCause(f"evicted for {two}", "DefaultPreemption")
        if one and not two:
            return DifferenceCause(f"no longer evicted for {one}", "DefaultPreemption")
        return FOLLOWS

    def _sum(self, side: Side) -> Sum:
        placed = sum(side.node_of(pod.key) is not None for pod in self._order)
        return sum_of(side.cluster, placed=placed, waiting=len(side.waits), evicted=len(side.evicted))


def _shown(scheduler: Scheduler, decided: EngineDecision) -> Decision:
    profile = scheduler.session.profile_for(decided.pod.pod)
    decision = Decision(decided, profile.scheduler_name, scheduler.cluster.state)
    _ = decision.scores, decision.refusals  # before the columns behind them change
    return decision


def _by_priority(pods: Iterable[Pod]) -> list[Pod]:
    """Sort like kube-scheduler's queue."""
    return sorted(pods, key=lambda pod: (-(pod.spec.priority or 0), _created(pod)))


def _by_creation(pods: Iterable[Pod]) -> list[Pod]:
    """Sort by creation; those of one second by name."""
    return sorted((recreated_pod(pod) for pod in pods), key=lambda pod: (_created(pod), pod.key))


def _created(pod: Pod) -> float:
    try:
        return parse_time(pod.metadata.creation_timestamp or "")
    except ParseError:
        return 0.0


def _dict(decision: Decision) -> dict[str, Any]:
    keys = ("node", "message", "scores", "groups", "nominatedNode", "victims")
    whole = decision.to_dict()
    return {"pod": whole["pod"], **{key: whole[key] for key in keys}}


# --------------------------------------------------------------------------------------------------------------------
# Rendering of a difference, on a terminal and as text.

NOWHERE = "-"


def _because(cause: DifferenceCause) -> str:
    return f"{cause.text} ({', '.join(cause.changes)})" if cause.changes else cause.text


_SHOWN = ("wait", "pendingMean", "attempts", "preemptions", "allocated.")  # of the measures of a run


def draw(to: Console, found: Difference, names: Sequence[str] = ("before", "after"), top: int = 20) -> None:
    """Print which pods moved and why, the first difference with both score tables, and the sums."""
    asked_about = {
        "pending": count_of(found.pods, "pending pod"),
        "all": f"{count_of(found.pods, 'pod')} placed again",
        "run": f"{count_of(found.pods, 'pod')} of two runs",
        "record": f"{count_of(found.pods, 'recorded attempt')}, each in its moment",
    }
    asked = f"{asked_about[found.asked]}, under {names[0]} and under {names[1]}"
    if not found.moved:
        to.print(f"[green]No pod moves[/green]: {escape(asked)}.")
    else:
        to.print(f"[red]{count_of(len(found.moved), 'pod')} moved[/red]: {escape(asked)}.")
        to.print()
        rows = [
            (Text(move.pod), Text(move.before or NOWHERE), Text(move.after or NOWHERE), Text(_because(move.cause)))
            for move in found.moved[:top]
        ]
        print_table(to, ["POD", "FROM", "TO", "BECAUSE"], rows)
        print_more(to, len(found.moved), top)
    _draw_first(to, found, names)
    _draw_notes(to, found)
    to.print()
    _draw_sums(to, found.sums, names, "attempts" if found.asked == "record" else "pods")


def text(found: Difference) -> str:
    """Return the text without colours."""
    return printed(lambda to: draw(to, found))


def _draw_first(to: Console, found: Difference, names: Sequence[str]) -> None:
    if found.first is None:
        return
    to.print()
    to.print(f"[bold]The first difference[/bold] is {escape(found.first[0].pod)}:")
    for decision, name in zip(found.first, names, strict=True):
        to.print()
        to.print(f"{escape(name)}: {escape(_outcome(decision))}")
        if decision.scores:
            draw_scores(to, decision.scores[:5])


def _outcome(decision: Decision) -> str:
    if decision.node:
        return f"{decision.node}, one of {count_of(decision.feasible_nodes, 'node')} that can take it"
    victims = ", ".join(victim.pod for victim in decision.victims)
    return f"{decision.nominated_node}, after evicting {victims}" if victims else decision.message


def _draw_notes(to: Console, found: Difference) -> None:
    notes = []
    if found.equally_good:
        few = ", ".join(list(found.equally_good)[:3])
        notes.append(
            f"{count_of(len(found.equally_good), 'pod')} could go to another node that is equally good ({few}); "
            "that is no difference"
        )
    if found.messages:
        pod, (old, new) = next(iter(found.messages.items()))
        many = count_of(len(found.messages), "pod")
        notes.append(f"{many} still waiting, with other words: {pod} says {new!r} instead of {old!r}")
    if found.left_out:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(found.left_out.items()))
        notes.append(f"pods of schedulers that have no profile on both sides stay where they are: {names}")
    print_notes(to, notes)


def _draw_sums(to: Console, sums: tuple[Sum, Sum], names: Sequence[str], what: str) -> None:
    rows: list[tuple[str, str, str]] = [
        (f"{what} placed", str(sums[0].placed), str(sums[1].placed)),
        (f"{what} waiting", str(sums[0].waiting), str(sums[1].waiting)),
    ]
    if sums[0].use:
        rows.append(("pods evicted", str(sums[0].evicted), str(sums[1].evicted)))
        rows.append(("nodes in use", str(sums[0].nodes_in_use), str(sums[1].nodes_in_use)))
    for title, tables in (("use of {}", [s.use for s in sums]), ("uneven use of {}", [s.spread for s in sums])):
        for name in dict.fromkeys([*tables[0], *tables[1]]):
            cells = [f"{table[name]:.1%}" if name in table else NOWHERE for table in tables]
            rows.append((title.format(name), cells[0], cells[1]))
    for name in dict.fromkeys([*sums[0].measures, *sums[1].measures]):
        if name.startswith(_SHOWN) and "." not in name.removeprefix("allocated."):
            cells = [f"{each.measures[name]:.4g}" if name in each.measures else NOWHERE for each in sums]
            rows.append((name, cells[0], cells[1]))
    print_table(to, ["SUM", *names], rows)
