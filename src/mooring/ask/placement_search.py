"""The search for a better placement: the solver proposes, the engine decides.

```
problem ─▶ program ─▶ solution ─▶ replay, move by move, through every filter ─▶ plan
              ▲                                │
              └──────── cut: this was refused ─┘
```

Large clusters are divided into parts, and each part is solved by itself (as in POP). While there is time, the nodes are
divided in another way, and the parts are solved again. In the end the moves of all rounds become one direct plan.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mooring.api.core import recreated_pod
from mooring.ask.drill import coming_back
from mooring.ask.moves import BIND, EVICT, Move, MoveReplay, Step, bound
from mooring.ask.placement_bounds import cheapest_nodes, empty_nodes, most_weight
from mooring.ask.placement_cp_sat import CpSatProgram
from mooring.ask.placement_options import (
    COST,
    CP_SAT,
    FRAGMENTATION,
    HIGHS,
    NODES,
    SPREAD,
    PlacementGoal,
    PlacementMeasures,
    PlacementOptions,
)
from mooring.ask.placement_problem import Counts, PlacementProblem, group_key, read_problem
from mooring.ask.placement_program import Cut, Goal, Literal, PlacementSolution, Program
from mooring.core.plugins.gpus.requests import INDEX
from mooring.core.session import Session
from mooring.core.state.pod_info import PodInfo

MAX_CELLS = 1_000  # groups times nodes of one program; more are divided into parts
MIN_NODES = 12  # of a part, however many groups there are
MAX_EXACT_CUT = 400  # cells of a cut that forbids one whole placement
Progress = Callable[[str, int, int], None]
"""What was found so far, and how many of how many seconds are over."""


@dataclass(slots=True)
class Reached:
    """A state of the cluster that a list of steps leads to."""

    session: Session
    steps: list[Step]
    measures: PlacementMeasures


@dataclass(frozen=True, slots=True)
class Part:
    """Some nodes with their pods, and some pods that wait. None: all nodes."""

    movable: list[PodInfo]
    waiting: list[PodInfo]
    nodes: set[str] | None


class _Interrupted(Exception):
    """Ctrl-C while the solver ran; its best placement until then has been replayed."""

    def __init__(self, best: Reached) -> None:
        self.best = best


class PlacementSearch:
    """Solves, replays, and forbids what was refused, until a solution is accepted or the time is over."""

    def __init__(
        self,
        base: Session,
        goal: PlacementGoal,
        options: PlacementOptions,
        progress: Progress = lambda text, done, total: None,
    ) -> None:
        self._base = base
        self._goal = goal
        self._preempt = options.get("preempt", False)
        self._max_moves = options.get("max_moves")
        self._solver = CpSatProgram if options.get("solver", HIGHS) == CP_SAT else Program
        self._progress = progress
        self._began = self._ends = 0.0
        self.notes: list[str] = []
        self.bound: float | None = None
        self.weight_bound: float | None = None
        self.is_optimal = True

    def run(self, movable: list[PodInfo], waiting: list[PodInfo], deadline: float) -> Reached:
        """The best state that was found. ``is_optimal``, ``bound`` and ``notes`` say how good it is."""
        start = Reached(self._base, [], self._goal.measures(self._base, waiting))
        best = start
        self._began, self._ends = time.monotonic(), deadline
        self._tell(best)
        try:
            parts = self._parts(self._base, movable, waiting, 0)
            if len(parts) > 1 and not waiting and self._goal.objective in (NODES, COST):
                best = self._emptied(start, movable)
                self._tell(best)
            if best is start:
                best = self._round(start, parts, waiting, deadline)
            number = 0
            if len(parts) > 1:
                self._bound_the_whole(best, movable, waiting)
            while len(parts) > 1 and self._max_moves is None and time.monotonic() < deadline:
                if self._is_at_bound(best, waiting):
                    break
                number += 1
                better = self._once_more(start, best, movable, waiting, number)
                if self._rank(better)[:-1] <= self._rank(best)[:-1]:
                    break
                best = better
            if number and waiting:
                self._bound_the_whole(best, movable, waiting)
        except (KeyboardInterrupt, _Interrupted) as interruption:
            if isinstance(interruption, _Interrupted):
                best = interruption.best
            self.is_optimal = False
            self.notes.append("the search was interrupted: this is the best plan that was found until then")
        return best if self._rank(best)[:-1] > self._rank(start)[:-1] else start

    def _emptied(self, start: Reached, movable: list[PodInfo]) -> Reached:
        """Empty nodes of the whole cluster by amounts alone, before parts of it are solved."""
        problem = self._read(start.session, movable, ())
        if problem.has_rules or self._max_moves is not None:
            return start
        moves = list(self._moves(problem, empty_nodes(problem, problem.current, problem.most)))
        replay = MoveReplay(start.session.fork())
        replay.run(moves)
        return max(start, self._reached(start, replay, []), key=self._rank)

    def _round(self, best: Reached, parts: list[Part], waiting: list[PodInfo], deadline: float) -> Reached:
        """Solve all parts, one after the other."""
        for number, part in enumerate(parts):
            left = max(0.0, deadline - time.monotonic()) / (len(parts) - number)
            best = self.solve_part(best, part, waiting, time.monotonic() + left, is_whole=len(parts) == 1)
        return best if len(parts) == 1 else self._place_the_rest(best, waiting)

    def _place_the_rest(self, best: Reached, waiting: list[PodInfo]) -> Reached:
        """A pod may have been in one part, and its room in another: place what fits now, as the scheduler does."""
        session, steps = best.session.fork(), list(best.steps)
        left = [pod for pod in waiting if session.state.pod(pod.uid) is None]
        for pod in sorted(left, key=lambda pod: (-pod.priority, -self._goal.weight(pod))):
            decision = session.place(pod)
            if decision.node is not None:
                steps.append(Step(BIND, pod.pod.key, decision.node))
        still = [pod for pod in left if session.state.pod(pod.uid) is None]
        found = Reached(session, steps, self._goal.measures(session, still))
        return max(best, found, key=self._rank)

    def _is_at_bound(self, best: Reached, waiting: list[PodInfo]) -> bool:
        """Report whether no division can help: all pods are placed, on as few nodes as the bound says."""
        return not waiting and self.bound is not None and self._goal.value(best.measures) <= self.bound + 1e-6

    def _once_more(
        self, start: Reached, best: Reached, movable: list[PodInfo], waiting: list[PodInfo], number: int
    ) -> Reached:
        """Divide the nodes in another way and solve again; then go to the result directly."""
        state = best.session.state
        ours = [state.pod(pod.uid) or state.pod(f"{pod.uid}:anew") for pod in (*movable, *waiting)]
        running = [pod for pod in ours if pod is not None]
        left = [pod for pod in waiting if state.pod(pod.uid) is None]
        found = self._round(best, self._parts(best.session, running, left, number), waiting, self._ends)
        there = {pod.pod.key: pod.pod.spec.node_name for pod in found.session.state.pods()}
        moves = [
            Move(pod, pod.pod.spec.node_name, there.get(pod.pod.key, ""))
            for pod in (*movable, *waiting)
            if there.get(pod.pod.key, "") != pod.pod.spec.node_name
        ]
        replay = MoveReplay(start.session.fork())
        if replay.run(moves) and not _holds(replay.session, moves):
            return best
        return self._reached(start, replay, waiting)

    def _parts(self, session: Session, movable: list[PodInfo], waiting: list[PodInfo], number: int) -> list[Part]:
        """Nodes with their pods, divided so that each part's program is small and looks like the whole."""
        names = [info.name for info in session.state.nodes().infos]
        groups = len({group_key(pod) for pod in (*movable, *waiting)})
        parts = min(-(-groups * len(names) // MAX_CELLS), len(names) // MIN_NODES)
        if parts <= 1:
            return [Part(movable, waiting, None)]
        self.is_optimal = False
        rows = session.state.nodes()
        use = {info.name: float(rows.requested("cpu")[i]) for i, info in enumerate(rows.infos)}
        order = sorted(names, key=lambda name: (-use[name], name))
        if number:
            chance = random.Random(number)
            for i in range(0, len(order), parts):  # nodes that are used alike go to other parts than before
                some = order[i : i + parts]
                chance.shuffle(some)
                order[i : i + parts] = some
        else:
            self.notes.append(f"solved in {parts} parts of about {-(-len(names) // parts)} nodes")
        part_of = {name: i % parts for i, name in enumerate(order)}  # full and empty nodes in each part
        mine: list[list[PodInfo]] = [[] for _ in range(parts)]
        for pod in movable:
            mine[part_of[pod.pod.spec.node_name]].append(pod)
        nodes: list[set[str]] = [set() for _ in range(parts)]
        for name, i in part_of.items():
            nodes[i].add(name)
        return [Part(mine[i], waiting[i::parts], nodes[i]) for i in range(parts)]

    def solve_part(
        self, best: Reached, part: Part, waiting: list[PodInfo], deadline: float, *, is_whole: bool = False
    ) -> Reached:
        problem = self._read(best.session, part.movable, part.waiting)
        if part.nodes is not None:
            mine = np.array([name in part.nodes for name in problem.names], np.bool_)
            problem.allowed &= mine
            if problem.sample_rows is not None:
                problem.sample_rows &= mine
        start = best
        cuts: list[Cut] = []
        while time.monotonic() < deadline or not cuts:
            program, goals = self._program(problem, cuts, start.steps, is_part=not is_whole)
            solution = program.solve(goals, deadline)
            if solution is None:
                break
            if is_whole and not cuts:
                self._note_bound(solution, problem)
            moves = list(self._moves(problem, solution.counts))
            replay = MoveReplay(start.session.fork())
            is_done = replay.run(moves)
            holds = is_done and _holds(replay.session, moves)
            if holds or not is_done:
                reached = self._reached(start, replay, waiting)
                best = max(best, reached, key=self._rank)
            self._tell(best)
            if program.was_interrupted:
                raise _Interrupted(best)
            if holds:
                self.is_optimal = self.is_optimal and solution.is_solved
                return best
            new = list(self._cuts(start.session, problem, solution.counts, replay))
            if not new:
                break
            cuts += new
        self.is_optimal = False
        return best

    def _tell(self, best: Reached) -> None:
        done = time.monotonic() - self._began
        self._progress(self._goal.figure(best.measures), round(done), round(self._ends - self._began))

    def _read(self, session: Session, movable: Sequence[PodInfo], waiting: Sequence[PodInfo]) -> PlacementProblem:
        goal = self._goal
        return read_problem(session.fork(), movable, waiting, goal.price, goal.sample, goal.sample_nodes)

    def _program(
        self, problem: PlacementProblem, cuts: Iterable[Cut], so_far: list[Step], *, is_part: bool
    ) -> tuple[Program, list[Goal]]:
        program = self._solver(problem, keeps_running=not self._preempt, is_part=is_part)
        for cut in cuts:
            program.forbid(cut)
        priorities = sorted({group.like.priority for group in problem.groups}, reverse=True)
        has_waiting = {group.like.priority for group in problem.groups if group.waiting}
        weights = [self._goal.weight(group.like) for group in problem.groups]
        goals = [program.placed(each, weights) for each in priorities if self._preempt or each in has_waiting]
        if self._goal.objective in (NODES, COST):
            goals.append(program.nodes())
        elif self._goal.objective == SPREAD:
            goals.append(program.peak())
        elif self._goal.objective == FRAGMENTATION:
            goals.append(program.room())
        used = {step.pod for step in so_far if step.action == EVICT}
        goals.append(program.moves(None if self._max_moves is None else max(0, self._max_moves - len(used))))
        return program, goals

    def _note_bound(self, solution: PlacementSolution, problem: PlacementProblem) -> None:
        """A bound of the first program holds for the cluster; those after it have cuts, and are as good."""
        objective, found = self._goal.objective, solution.bounds
        if objective in (NODES, COST) and "nodes" in found:
            value = found["nodes"] + float(problem.price[problem.is_held].sum())
            self.bound = _rounded(value, is_whole=objective == NODES)
        elif objective == SPREAD and "peak" in found:
            self.bound = round(found["peak"] / 10 / self._solver.peak_unit, 2)
        elif objective == FRAGMENTATION and "room" in found:
            self.bound = float(np.floor(found["room"] + 1e-6))

    def _bound_the_whole(self, best: Reached, movable: list[PodInfo], waiting: list[PodInfo]) -> None:
        """What no division into parts can beat: equal nodes are one kind, and pods can be cut into pieces."""
        if self._goal.objective in (NODES, COST):
            placed = [pod for pod in waiting if best.session.state.pod(pod.uid) is not None]
            found = cheapest_nodes(self._read(self._base, movable, placed))
            self.bound = _rounded(found, is_whole=self._goal.objective == NODES)
        if self._goal.weigh:
            problem = self._read(self._base, movable, waiting)
            weights = [self._goal.weight(group.like) for group in problem.groups]
            fixed = self._goal.measures(self._base, ()).weight or {}
            movable_now = sum(self._goal.weight(pod) for pod in movable)
            self.weight_bound = most_weight(problem, weights, keeps_running=not self._preempt)
            self.weight_bound += sum(fixed.values()) - movable_now

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

    def _reached(self, start: Reached, replay: MoveReplay, waiting: list[PodInfo]) -> Reached:
        """The result of the steps so far, without those that leave a pod without a node."""
        session, steps = replay.session, replay.steps
        if replay.safe < len(steps) or replay.left:
            steps = steps[: replay.safe]
            session = _repeat(start.session, steps, waiting)
        everyone = [pod for pod in waiting if session.state.pod(pod.uid) is None]
        return Reached(session, [*start.steps, *steps], self._goal.measures(session, everyone))

    def _rank(self, found: Reached) -> tuple[Any, ...]:
        return self._goal.rank(found.measures, len(found.steps))

    # ---- what the engine refused -------------------------------------------------------------------------------

    def _cuts(self, session: Session, problem: PlacementProblem, counts: Counts, replay: MoveReplay) -> Iterable[Cut]:
        """Forbid what was refused: as little of it as explains the refusal."""
        group_of = {pod.uid: g for g, group in enumerate(problem.groups) for pod in (*group.running, *group.waiting)}
        row_of = {name: row for row, name in enumerate(problem.names)}
        base = session.fork()
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
        self.notes.append(
            "the engine refused a part of the solver's placement, and this cluster is too large to continue"
        )
        return []


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
            twin = recreated_pod(like.pod, f"{like.uid}:{g}:{at}:{i}")
            twin.metadata.name = f"{like.pod.name}-{g}-{at}-{i}"
            if INDEX in twin.metadata.annotations:  # which GPUs the others leave is not known here
                twin.metadata.annotations = {k: v for k, v in twin.metadata.annotations.items() if k != INDEX}
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


def _rounded(value: float, *, is_whole: bool) -> float:
    return float(np.ceil(value - 1e-6)) if is_whole else round(value, 6)
