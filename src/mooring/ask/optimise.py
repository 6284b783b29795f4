"""A better placement, and the moves that lead to it: the solver proposes, the engine decides.

```
problem ─▶ program ─▶ solution ─▶ replay, move by move, through every filter ─▶ plan
              ▲                                │
              └──────── cut: this was refused ─┘
```

The objective is lexicographic: more pods placed, those of the highest priority first; then what was asked for (fewer
nodes, lower cost, more even use); then fewer moves. No step of it is given up for a later one. Large clusters are
divided into parts, and each part is solved by itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.core import recreated_pod
from mooring.api.errors import InputError
from mooring.api.tables import print_more, print_notes, print_table, printed, printed_html
from mooring.api.text import count_of, first_of, hint
from mooring.ask.copies import stays_with_node
from mooring.ask.drill import coming_back
from mooring.ask.moves import BIND, EVICT, Move, MoveReplay, Prices, Step, bound, movable_pods, price_of
from mooring.ask.placement_problem import Counts, PlacementProblem, cheapest_nodes, read_problem
from mooring.ask.placement_program import Cut, Goal, Literal, PlacementSolution, Program
from mooring.ask.scheduler import Scheduler
from mooring.ask.wanted import in_queue_order, waiting_pods
from mooring.core.cluster import Cluster
from mooring.core.session import Configuration, PluginReference, Session
from mooring.core.state.cluster import group_of
from mooring.core.state.pod_info import PodInfo

PENDING, NODES, COST, SPREAD = "pending", "nodes", "cost", "spread"
OBJECTIVES = (NODES, COST, SPREAD, PENDING)
MAX_CELLS = 1_000  # groups times nodes of one program; more are divided into parts
MAX_EXACT_CUT = 400  # cells of a cut that forbids one whole placement
TIME_LIMIT_S = 60.0
Progress = Callable[[str, int, int], None]
"""What was found so far, and how many of how many seconds are over."""


@dataclass(frozen=True, slots=True)
class PlacementMeasures:
    """A cluster in figures, as the objective counts them."""

    placed: dict[int, int]  # pods on nodes by priority, without those that belong to their node
    pending: int
    nodes: int  # in use: by a pod that does not belong to it
    cost: float  # of the nodes in use
    peak: float  # the largest share of CPU or memory that is requested on one node, in percent

    def to_dict(self) -> dict[str, Any]:
        return {
            "placed": {str(priority): count for priority, count in sorted(self.placed.items(), reverse=True)},
            "pending": self.pending,
            "nodes": self.nodes,
            "cost": self.cost,
            "peakPercent": self.peak,
        }


@dataclass(slots=True)
class Optimisation:
    """Steps to a better placement. Printed, it reads as ``mooring optimise`` shows it."""

    objective: str
    before: PlacementMeasures
    after: PlacementMeasures
    steps: list[Step] = field(default_factory=list)
    bound: float | None = None  # no placement has fewer nodes, a lower cost or a lower peak
    is_optimal: bool = False
    unplaced: dict[str, str] = field(default_factory=dict)  # pods that still wait, and why
    evicted: list[str] = field(default_factory=list)  # pods that lose their place to more important ones
    stay: dict[str, str] = field(default_factory=dict)  # pods that cannot be moved, and why
    free_nodes: list[str] = field(default_factory=list)  # nodes that no pod uses any more
    notes: list[str] = field(default_factory=list)

    @property
    def is_better(self) -> bool:
        """Report whether there is something to do."""
        return bool(self.steps)

    @property
    def moves(self) -> list[tuple[str, str, str]]:
        """Pod, old node (empty for one that waited) and new node, in the order of the binds."""
        source = {step.pod: step.node for step in self.steps if step.action == EVICT}
        return [(step.pod, source.get(step.pod, ""), step.node) for step in self.steps if step.action == BIND]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        return {
            "objective": self.objective,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "steps": [{"action": step.action, "pod": step.pod, "node": step.node} for step in self.steps],
            "bound": self.bound,
            "isOptimal": self.is_optimal,
            "unplaced": [{"pod": pod, "message": message} for pod, message in self.unplaced.items()],
            "evicted": self.evicted,
            "stay": self.stay,
            "freeNodes": self.free_nodes,
            "notes": self.notes,
        }

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return printed_html(lambda to: draw(to, self))


def optimise(
    cluster: Cluster,
    objective: str = NODES,
    *,
    prices: Prices = None,
    preempt: bool = False,
    max_moves: int | None = None,
    delete_emptydir_data: bool = False,
    time_limit_s: float = TIME_LIMIT_S,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Optimisation:
    """Find a better placement and the steps to it. The cluster stays as it is.

    ``objective`` is what counts after the number of placed pods: "nodes", "cost" (by ``prices``), "spread", or
    "pending" for nothing else. With ``preempt`` pods may lose their place to pods of a higher priority.
    """
    scheduler = Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version)
    return optimise_with(
        scheduler,
        objective,
        prices=prices,
        preempt=preempt,
        max_moves=max_moves,
        delete_emptydir_data=delete_emptydir_data,
        time_limit_s=time_limit_s,
    )


def optimise_with(
    scheduler: Scheduler,
    objective: str = NODES,
    *,
    prices: Prices = None,
    preempt: bool = False,
    max_moves: int | None = None,
    delete_emptydir_data: bool = False,
    time_limit_s: float = TIME_LIMIT_S,
    progress: Progress = lambda text, done, total: None,
) -> Optimisation:
    """The same, asked of a scheduler and its cluster. Ctrl-C ends the search with the best plan so far."""
    if objective not in OBJECTIVES:
        raise InputError(f"objective: found {objective!r}; {hint(objective, OBJECTIVES)}")
    if (prices is not None) != (objective == COST):
        raise InputError("prices belong to the objective cost, and cost needs prices")
    session = scheduler.session.fork()
    price = price_of(prices, session)
    pending = in_queue_order(session, waiting_pods(scheduler.cluster, session))
    waiting = [pod for pod in pending if not group_of(pod.pod)]  # a group is placed as a whole, or not at all
    movable, stay = movable_pods(session, delete_emptydir_data=delete_emptydir_data)
    search = PlacementSearch(session, objective, price, preempt, max_moves, progress)
    deadline = time.monotonic() + time_limit_s
    found = search.run(movable, waiting, deadline)
    found.stay = stay
    if len(waiting) < len(pending):
        left_out = count_of(len(pending) - len(waiting), "pending pod")
        found.notes.append(f"{left_out} of pod groups left out: a group is placed as a whole")
    return found


# ---- searching -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reached:
    """A state of the cluster that a list of steps leads to."""

    session: Session
    steps: list[Step]
    measures: PlacementMeasures


class _Interrupted(Exception):
    """Ctrl-C while the solver ran; its best placement until then has been replayed."""

    def __init__(self, best: _Reached) -> None:
        self.best = best


class PlacementSearch:
    """Solves, replays, and forbids what was refused, until a solution is accepted or the time is over."""

    def __init__(
        self,
        base: Session,
        objective: str,
        price: Callable[[str], float],
        preempt: bool = False,
        max_moves: int | None = None,
        progress: Progress = lambda text, done, total: None,
    ) -> None:
        self._base = base
        self._objective = objective
        self._price = price
        self._preempt = preempt
        self._max_moves = max_moves
        self._progress = progress
        self._notes: list[str] = []
        self._bound: float | None = None
        self._is_optimal = True
        self._began = self._ends = 0.0

    def run(self, movable: list[PodInfo], waiting: list[PodInfo], deadline: float) -> Optimisation:
        pods = [*movable, *waiting]
        before = measures(self._base, waiting, self._price)
        best = _Reached(self._base, [], before)
        self._began, self._ends = time.monotonic(), deadline
        self._tell(best)
        try:
            parts = self._parts(movable, waiting)
            for number, (mine, theirs, rows) in enumerate(parts):
                left = max(0.0, deadline - time.monotonic()) / (len(parts) - number)
                best = self._solve_part(best, mine, theirs, rows, time.monotonic() + left, len(parts) == 1)
            if len(parts) > 1 and self._objective in (NODES, COST):
                self._bound = self._bound_of_parts(best, movable, waiting)
        except (KeyboardInterrupt, _Interrupted) as interruption:
            if isinstance(interruption, _Interrupted):
                best = interruption.best
            self._is_optimal = False
            self._notes.append("the search was interrupted: this is the best plan that was found until then")
        return self._answer(best, before, pods, waiting)

    def _parts(
        self, movable: list[PodInfo], waiting: list[PodInfo]
    ) -> list[tuple[list[PodInfo], list[PodInfo], list[str] | None]]:
        """Nodes with their pods, divided so that each part's program is small and looks like the whole (as in POP)."""
        names = [info.name for info in self._base.state.nodes().infos]
        groups = len({(pod.shape.id, pod.cls.id, pod.priority) for pod in (*movable, *waiting)})
        number = -(-groups * len(names) // MAX_CELLS)
        if number <= 1:
            return [(movable, waiting, None)]
        self._is_optimal = False
        rows = self._base.state.nodes()
        use = {info.name: float(rows.requested("cpu")[i]) for i, info in enumerate(rows.infos)}
        order = sorted(names, key=lambda name: (-use[name], name))
        part_of = {name: i % number for i, name in enumerate(order)}  # full and empty nodes in each part
        self._notes.append(
            f"solved in {number} parts of about {-(-len(names) // number)} nodes; moves stay inside a part"
        )
        return [
            (
                [pod for pod in movable if part_of[pod.pod.spec.node_name] == i],
                waiting[i::number],
                [name for name in names if part_of[name] == i],
            )
            for i in range(number)
        ]

    def _solve_part(
        self,
        best: _Reached,
        movable: list[PodInfo],
        waiting: list[PodInfo],
        rows: list[str] | None,
        deadline: float,
        is_whole: bool,
    ) -> _Reached:
        problem = read_problem(best.session.fork(), movable, waiting, self._price)
        if rows is not None:
            mine = np.array([name in set(rows) for name in problem.names])
            problem.allowed &= mine
        start = best
        cuts: list[Cut] = []
        while time.monotonic() < deadline or not cuts:
            program, goals = self._program(problem, cuts)
            solution = program.solve(goals, deadline)
            if solution is None:
                break
            self._note_bound(solution, problem, is_whole and not cuts)
            moves = list(self._moves(problem, solution.counts))
            replay = MoveReplay(start.session.fork())
            is_done = replay.run(moves)
            holds = is_done and _holds(replay.session, moves)
            if holds or not is_done:
                reached = self._reached(start, replay, waiting)
                best = max(best, reached, key=lambda each: self._rank(each.measures, len(each.steps)))
            self._tell(best)
            if program.was_interrupted:
                raise _Interrupted(best)
            if holds:
                self._is_optimal = self._is_optimal and solution.is_solved
                return best
            new = list(self._cuts(problem, solution.counts, replay))
            if not new:
                break
            cuts += new
        self._is_optimal = False
        return best

    def _tell(self, best: _Reached) -> None:
        done = time.monotonic() - self._began
        self._progress(self._figure(best.measures), round(done), round(self._ends - self._began))

    def _program(self, problem: PlacementProblem, cuts: Iterable[Cut]) -> tuple[Program, list[Goal]]:
        program = Program(problem, keeps_running=not self._preempt)
        for cut in cuts:
            program.forbid(cut)
        priorities = sorted({group.like.priority for group in problem.groups}, reverse=True)
        has_waiting = {group.like.priority for group in problem.groups if group.waiting}
        goals = [program.placed(priority) for priority in priorities if self._preempt or priority in has_waiting]
        if self._objective in (NODES, COST):
            goals.append(program.nodes())
        elif self._objective == SPREAD:
            goals.append(program.peak())
        goals.append(program.moves(self._max_moves))
        return program, goals

    def _note_bound(self, solution: PlacementSolution, problem: PlacementProblem, is_whole: bool) -> None:
        """A bound of the first program holds for the cluster; those after it have cuts, and are as good."""
        if not is_whole:
            return
        if self._objective in (NODES, COST) and "nodes" in solution.bounds:
            held = float(problem.price[problem.is_held].sum())
            found = solution.bounds["nodes"] + held
            self._bound = round(float(np.ceil(found - 1e-6)) if self._objective == NODES else found, 6)
        elif self._objective == SPREAD and "peak" in solution.bounds:
            self._bound = round(solution.bounds["peak"] / 10, 2)

    def _bound_of_parts(self, best: _Reached, movable: list[PodInfo], waiting: list[PodInfo]) -> float:
        """What the nodes for these pods cost at least, wherever they are: equal nodes are one kind, pods can be cut."""
        placed = [pod for pod in waiting if best.session.state.pod(pod.uid) is not None]
        problem = read_problem(self._base.fork(), movable, placed, self._price)
        found = cheapest_nodes(problem)
        return float(np.ceil(found - 1e-6)) if self._objective == NODES else round(found, 6)

    def _moves(self, problem: PlacementProblem, counts: Counts) -> Iterable[Move]:
        """Which pod goes where: as many of each group as possible stay."""
        for g, group in enumerate(problem.groups):
            places = Counter({problem.names[row]: int(counts[g, row]) for row in np.flatnonzero(counts[g]).tolist()})
            leaving: list[PodInfo] = []
            for pod in group.running:
                if places[pod.pod.spec.node_name] > 0:
                    places[pod.pod.spec.node_name] -= 1
                else:
                    leaving.append(pod)
            free = list(places.elements())
            for pod in (*leaving, *group.waiting):
                target = free.pop(0) if free else ""
                if target or pod.pod.spec.node_name:
                    yield Move(pod, pod.pod.spec.node_name, target)

    def _reached(self, start: _Reached, replay: MoveReplay, waiting: list[PodInfo]) -> _Reached:
        """The result of the steps so far, without those that leave a pod without a node."""
        session, steps = replay.session, replay.steps
        if replay.safe < len(steps) or replay.left:
            steps = steps[: replay.safe]
            session = _repeat(start.session, steps, waiting)
        everyone = [pod for pod in waiting if session.state.pod(pod.uid) is None]
        return _Reached(session, [*start.steps, *steps], measures(session, everyone, self._price))

    def _rank(self, found: PlacementMeasures, steps: int) -> tuple[Any, ...]:
        """Larger is better, in the order of the objective."""
        by_priority = tuple(count for _, count in sorted(found.placed.items(), reverse=True))
        then = {NODES: found.nodes, COST: found.cost, SPREAD: found.peak, PENDING: 0}[self._objective]
        return (*by_priority, -then, -steps)

    def _figure(self, found: PlacementMeasures) -> str:
        return {
            NODES: f"{found.nodes} nodes",
            COST: f"cost {found.cost:g}",
            SPREAD: f"peak {found.peak:g}%",
            PENDING: f"{found.pending} pending",
        }[self._objective]

    # ---- what the engine refused -------------------------------------------------------------------------------

    def _cuts(self, problem: PlacementProblem, counts: Counts, replay: MoveReplay) -> Iterable[Cut]:
        """Forbid what was refused: as little of it as explains the refusal."""
        group_of = {pod.uid: g for g, group in enumerate(problem.groups) for pod in (*group.running, *group.waiting)}
        row_of = {name: row for row, name in enumerate(problem.names)}
        base = self._base.fork()
        for group in problem.groups:
            for pod in group.running:
                base.state.remove_pod(pod.uid)
        found: set[Cut] = set()
        for move in replay.left:
            if move.pod.uid not in replay.refusals:
                continue  # a budget forbids its eviction
            g, row = group_of[move.pod.uid], row_of[move.target]
            comes = Literal(g, row, int(problem.current[g, row]) + 1)
            if _is_refused(base, problem, [], move.pod, row):
                found.add((comes,))
            elif _only_gets_worse(base, move.pod):
                here = [(h, row, int(counts[h, row])) for h in np.flatnonzero(counts[:, row]).tolist() if h != g]
                mine = int(counts[g, row])
                beside = [*here, *([(g, row, mine - 1)] if mine > 1 else [])]
                if _is_refused(base, problem, beside, move.pod, row):
                    for cell in list(here):
                        fewer = [each for each in beside if each != cell]
                        if _is_refused(base, problem, fewer, move.pod, row):
                            beside = fewer
                            here.remove(cell)
                    found.add((Literal(g, row, mine), *(Literal(h, at, number) for h, at, number in here)))
        if found:
            return found
        if int((problem.most > 0).sum()) <= MAX_EXACT_CUT:
            return [_exactly(problem, counts)]
        self._notes.append(
            "the engine refused a part of the solver's placement, and this cluster is too large to continue"
        )
        return []

    # ---- the answer --------------------------------------------------------------------------------------------

    def _answer(
        self, best: _Reached, before: PlacementMeasures, pods: list[PodInfo], waiting: list[PodInfo]
    ) -> Optimisation:
        is_better = self._rank(best.measures, 0) > self._rank(before, 0)
        if not is_better:
            best = _Reached(self._base, [], before)
        found = Optimisation(self._objective, before, best.measures, best.steps, self._bound, self._is_optimal)
        bound_now = {step.pod for step in best.steps if step.action == BIND}
        evicted = [step.pod for step in best.steps if step.action == EVICT and step.pod not in bound_now]
        found.evicted = evicted
        for pod in waiting:
            if pod.pod.key not in bound_now:
                found.unplaced[pod.pod.key] = best.session.decide(pod, detail=False).message
        used_before = set(_in_use(self._base))
        found.free_nodes = sorted(used_before - set(_in_use(best.session)))
        found.notes = self._notes
        return found


def _repeat(base: Session, steps: Iterable[Step], waiting: Iterable[PodInfo]) -> Session:
    """Make steps again that were possible before."""
    session = base.fork()
    by_key = {pod.pod.key: pod for pod in waiting}
    running = {pod.pod.key: pod for pod in session.state.pods()}
    replay = MoveReplay(session)
    source = {step.pod: step.node for step in steps if step.action == EVICT}
    target = {step.pod: step.node for step in steps if step.action == BIND}
    for step in steps:
        pod = running[step.pod] if step.pod in source else by_key[step.pod]
        replay.make(step, Move(pod, source.get(step.pod, ""), target.get(step.pod, "")))
    return session


def _is_refused(
    base: Session, problem: PlacementProblem, beside: Iterable[tuple[int, int, int]], pod: PodInfo, row: int
) -> bool:
    """Report whether a node refuses a pod, with only these other movable pods around: group, row and number."""
    session = base.fork()
    for g, at, number in beside:
        like = problem.groups[g].like
        for i in range(number):
            twin = like.pod.__copy__()
            twin.metadata, twin.spec = like.pod.metadata.__copy__(), like.pod.spec.__copy__()
            twin.metadata.name, twin.metadata.uid = f"{like.pod.name}-{g}-{i}", f"{like.uid}:{g}:{at}:{i}"
            twin.spec.node_name = problem.names[at]
            session.state.set_pod(twin)
    new = coming_back(session.state, pod)
    return bound(session, new, problem.names[row]).node is None


def _only_gets_worse(session: Session, pod: PodInfo) -> bool:
    """Report whether more pods elsewhere never let this one in: its rules only forbid."""
    spec = pod.shape.spec
    if pod.shape.has_pod_affinity and pod.shape.terms(pod.cls.namespace).required_affinity:
        return False
    if any(each.when_unsatisfiable == "DoNotSchedule" for each in spec.topology_spread_constraints):
        return False
    plugins = session.profile_for(pod.pod).filter
    return all(type(each.plugin).__module__.startswith("mooring.core.plugins.") for each in plugins)


def _holds(session: Session, moves: Iterable[Move]) -> bool:
    """Report whether every pod that moved would be let in again at the end: others may have moved away since."""
    for move in moves:
        placed = session.state.pod(f"{move.pod.uid}:anew") if move.source else session.state.pod(move.pod.uid)
        if placed is None or _only_gets_worse(session, move.pod):
            continue
        session.state.remove_pod(placed.uid)
        is_let_in = bound(session, PodInfo(recreated_pod(placed.pod), placed.shape, placed.cls), move.target).node
        session.state.set_pod(placed.pod)
        if is_let_in is None:
            return False
    return True


def _exactly(problem: PlacementProblem, counts: Counts) -> Cut:
    """The cut that forbids this placement alone."""
    found: list[Literal] = []
    for g, row in np.argwhere(problem.most > 0).tolist():
        number, most = int(counts[g, row]), int(problem.most[g, row])
        if number > 0:
            found.append(Literal(g, row, number))
        if number < most:
            found.append(Literal(g, row, number, is_at_most=True))
    return tuple(found)


def measures(session: Session, waiting: Iterable[PodInfo], price: Callable[[str], float]) -> PlacementMeasures:
    """A cluster in figures."""
    rows = session.state.nodes()
    placed: Counter[int] = Counter()
    for info in rows.infos:
        for pod in info.pods.values():
            if not stays_with_node(pod.pod):
                placed[pod.priority] += 1
    pending = list(waiting)
    for pod in pending:
        placed[pod.priority] += 0
    used = _in_use(session)
    peak = 0.0
    for name in ("cpu", "memory"):
        whole = rows.allocatable(name)
        share = np.divide(rows.requested(name), whole, out=np.zeros(len(rows)), where=whole > 0)
        peak = max(peak, float(share.max(initial=0.0)))
    cost = round(sum(price(name) for name in used), 6)
    return PlacementMeasures(dict(placed), len(pending), len(used), cost, round(100 * peak, 1))


def _in_use(session: Session) -> list[str]:
    """Nodes with a pod that does not belong to them."""
    return [
        info.name
        for info in session.state.nodes().infos
        if any(not stays_with_node(pod.pod) for pod in info.pods.values())
    ]


# ---- how it looks in print ------------------------------------------------------------------------------------------

TOP = 20


def draw(to: Console, found: Optimisation, top: int = TOP) -> None:
    """Print what gets better, how good that is, and the steps in their order."""
    colour = "green" if found.is_better else "yellow"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    to.print(escape(_how_good(found)))
    to.print()
    rows = [
        ("pods placed", str(sum(found.before.placed.values())), str(sum(found.after.placed.values()))),
        ("pods pending", str(found.before.pending), str(found.after.pending)),
        ("nodes in use", str(found.before.nodes), str(found.after.nodes)),
        ("fullest node", f"{found.before.peak:g}%", f"{found.after.peak:g}%"),
    ]
    if found.objective == COST:
        rows.insert(3, ("cost", f"{found.before.cost:g}", f"{found.after.cost:g}"))
    print_table(to, ["", "NOW", "THEN"], rows)
    if found.steps:
        to.print()
        shown = [
            (str(i), "move" if source else "place", Text(pod), source or "-", target)
            for i, (pod, source, target) in enumerate(found.moves[:top], 1)
        ]
        print_table(to, ["STEP", "DO", "POD", "FROM", "TO"], shown)
        print_more(to, len(found.moves), top, "-o json has them all")
    if found.evicted:
        to.print()
        to.print(f"{count_of(len(found.evicted), 'pod')} would lose their place: {escape(first_of(found.evicted))}")
    if found.free_nodes:
        to.print()
        to.print(f"{count_of(len(found.free_nodes), 'node')} would be free: {escape(first_of(found.free_nodes))}")
    if found.unplaced:
        to.print()
        by_message: dict[str, list[str]] = {}
        for pod, message in found.unplaced.items():
            by_message.setdefault(message, []).append(pod)
        to.print("Still pending:")
        for message, pods in list(by_message.items())[:top]:
            to.print(f"  {escape(first_of(pods))}")
            to.print(f"    {escape(message)}")
    notes = list(found.notes)
    if found.stay:
        reason = next(iter(found.stay.values()))
        notes.append(f"{count_of(len(found.stay), 'pod')} cannot be moved; for example, {reason}")
    print_notes(to, notes)


def text(found: Optimisation) -> str:
    """The same without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Optimisation) -> str:
    """One line: what the plan achieves."""
    if not found.is_better:
        return "No better placement was found"
    parts = []
    placed = sum(found.after.placed.values()) - sum(found.before.placed.values())
    if placed:
        parts.append(f"places {count_of(placed, 'more pod')}")
    if found.objective == COST and found.after.cost < found.before.cost:
        parts.append(f"saves {found.before.cost - found.after.cost:g} of {found.before.cost:g}")
    elif found.objective == SPREAD and found.after.peak < found.before.peak:
        parts.append(f"lowers the fullest node from {found.before.peak:g}% to {found.after.peak:g}%")
    elif found.objective in (NODES, COST) and found.after.nodes < found.before.nodes:
        parts.append(f"frees {found.before.nodes - found.after.nodes} of {count_of(found.before.nodes, 'node')}")
    moved = sum(1 for _, source, _ in found.moves if source)
    moves = f"with {count_of(moved, 'move')}" if moved else "without a move"
    return f"A better placement {' and '.join(parts) or 'exists'}, {moves}"


def _how_good(found: Optimisation) -> str:
    if not found.is_better:
        return "None exists." if found.is_optimal else "The search ended before it was proved that none exists."
    if found.is_optimal:
        return "It was replayed step by step through every filter. No placement is better."
    reached = {NODES: float(found.after.nodes), COST: found.after.cost, SPREAD: found.after.peak}.get(found.objective)
    if found.bound is None or reached is None:
        return "It was replayed step by step through every filter. A better one may exist."
    return f"It was replayed step by step through every filter. No placement reaches less than {found.bound:g}."
