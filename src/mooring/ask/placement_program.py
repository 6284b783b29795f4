"""The integer program of a placement problem, solved by HiGHS goal by goal.

Columns: how many pods of a group are on a node, then helpers. Rows: room and rules. A goal keeps what those before it
reached, so the objective is lexicographic.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from mooring.api.errors import UsageError
from mooring.ask.placement_bounds import empty_nodes
from mooring.ask.placement_problem import Apart, Counts, Even, Ints, Near, PlacementProblem, SpreadRows
from mooring.ask.relaxation import INSTALL


@dataclass(frozen=True, slots=True)
class Literal:
    """At least (or at most) ``number`` pods of a group are on a node."""

    group: int
    row: int
    number: int
    is_at_most: bool = False


Cut = tuple[Literal, ...]
"""Not all of these hold together: the engine refused a placement for which they do."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One step of a lexicographic objective: least of a weighted sum of columns. ``bound`` is what was proved of it."""

    name: str
    columns: dict[int, float]
    is_most: bool = False


@dataclass(slots=True)
class PlacementSolution:
    """The best placement of the program that was found, and for each goal its value and a bound."""

    counts: Counts
    values: dict[str, float]
    bounds: dict[str, float]
    is_solved: bool  # every goal to the end, not only until the time was over


class Program:
    """The integer program of a problem. Columns: pods by group and node, then helpers; rows: the rules.

    All numbers of a row are whole. HiGHS solves it; another solver overrides ``_solver``, ``_reach`` and ``_hold``.
    """

    peak_unit = 1  # of a permille, in which the fullest node is counted

    def __init__(self, problem: PlacementProblem, *, keeps_running: bool = True, is_part: bool = False) -> None:
        self._moves_gap = 0.1 if is_part else 0.0  # the fewest moves of a part are not those of the cluster
        self.problem = problem
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._whole: list[bool] = []
        self._start: list[float] = []  # a solution to begin with: everything stays
        self._rows: list[tuple[float, float, list[int], list[float]]] = []
        self.most = problem.most
        self.column = np.full(self.most.shape, -1, np.int64)  # [group, node], -1: never there
        for g, row in np.argwhere(self.most > 0).tolist():
            self.column[g, row] = self._add(0, float(self.most[g, row]), start=float(problem.current[g, row]))
        self._arrivals: dict[tuple[int, int], int] = {}
        self._literals: dict[Literal, int] = {}
        self._in_use: list[int] = []
        self._leaving: dict[tuple[int, int], int] = {}
        self.was_interrupted = False
        self._sizes(keeps_running)
        self._capacity()
        self._relations()

    # ---- goals -------------------------------------------------------------------------------------------------

    def placed(self, priority: int, weights: Sequence[int]) -> Goal:
        """As many pods of this priority as possible, by the weight of their group."""
        mine = [g for g, group in enumerate(self.problem.groups) if group.like.priority == priority and weights[g]]
        columns = {int(c): float(weights[g]) for g in mine for c in self.column[g] if c >= 0}
        return Goal(f"placed/{priority}", columns, is_most=True)

    def nodes(self) -> Goal:
        """As few nodes in use as possible, or as cheap ones."""
        return Goal("nodes", {c: float(self.problem.price[row]) for row, c in enumerate(self._use()) if c >= 0})

    def peak(self) -> Goal:
        """The fullest node as empty as possible, in permille of its CPU or memory."""
        peak = self._add(0, np.inf, whole=False, start=1e6 * self.peak_unit)
        return Goal("peak", {peak: 1.0} if self._bound_peak(peak) else {})

    def room(self) -> Goal:
        """As much room as possible for more pods like the sample."""
        problem = self.problem
        assert problem.sample_rows is not None
        columns: dict[int, float] = {}
        for row in np.flatnonzero(problem.sample_rows).tolist():
            most = self._most_samples(row)
            if most:
                columns[self._room_on(row, most)] = 1.0
        return Goal("room", columns, is_most=True)

    def _most_samples(self, row: int) -> int:
        assert self.problem.sample is not None
        asks = np.flatnonzero(self.problem.sample)
        return int((self.problem.free[row, asks].clip(min=0) // self.problem.sample[asks]).min())

    def _room_on(self, row: int, most: int) -> int:
        """The column of how many more samples fit on a node, beside what is there then."""
        problem, sample = self.problem, self.problem.sample
        assert sample is not None
        here = problem.current[:, row] @ problem.wanted
        left = problem.free[row] - here
        start = int((left.clip(min=0)[sample > 0] // sample[sample > 0]).min())
        column = self._add(0, float(most), start=float(start))
        some = -1
        for k in np.flatnonzero(sample).tolist():
            mine = [g for g in np.flatnonzero(problem.wanted[:, k]).tolist() if self.column[g, row] >= 0]
            cells = [*(int(self.column[g, row]) for g in mine), column]
            asks = [*(float(problem.wanted[g, k]) for g in mine), float(sample[k])]
            over = float(max(0, here[k] - problem.free[row, k]))
            if over:  # more runs there than there is room for: none fits until enough has left
                if some < 0:
                    some = self._add(0, 1, start=float(start > 0))
                    self._row(-np.inf, 0, [column, some], [1.0, -float(most)])
                cells, asks = [*cells, some], [*asks, over]
            self._row(-np.inf, float(problem.free[row, k]) + over, cells, asks)
        return column

    def moves(self, limit: int | None = None) -> Goal:
        """As few pods moved as possible, and never more than the limit."""
        columns: dict[int, float] = {}
        for g, row in np.argwhere(self.problem.current > 0).tolist():
            leaves = self._add(0, float(self.problem.current[g, row]), whole=False)
            self._row(float(self.problem.current[g, row]), np.inf, [leaves, int(self.column[g, row])], [1.0, 1.0])
            columns[leaves] = 1.0
            self._leaving[g, row] = leaves
        if limit is not None:
            self._row(-np.inf, limit, list(columns), [1.0] * len(columns))
        return Goal("moves", columns)

    # ---- running -----------------------------------------------------------------------------------------------

    def forbid(self, cut: Cut) -> None:
        """Leave out solutions for which all literals hold."""
        columns = [self._literal(literal) for literal in cut]
        self._row(-np.inf, len(columns) - 1, columns, [1.0] * len(columns))

    def solve(self, goals: Sequence[Goal], deadline: float) -> PlacementSolution | None:
        """Reach one goal after another; each keeps what those before it reached. None: there is no solution."""
        solver = self._solver()
        values: dict[str, float] = {}
        bounds: dict[str, float] = {}
        found: list[float] | None = None
        is_solved = True
        for goal in goals:
            if not goal.columns:
                continue
            left = deadline - time.monotonic()
            if self.was_interrupted or (left <= 0.05 and found is not None):
                is_solved = False
                break
            emptied = None
            if goal.name == "nodes":
                found = emptied = self._emptied(self._start if found is None else found)
            value, bound, reached = self._reach(solver, goal, max(left, 0.05), found)
            if reached is None and found is None:
                return None
            if reached is None:  # the time was over, or Ctrl-C came: what the goals before it reached is good
                is_solved = False
                break
            found = reached
            if emptied is not None and sum(f * emptied[c] for c, f in goal.columns.items()) < value + 1e-6:
                found = emptied  # as good, and with far fewer moves than the solver's
            values[goal.name], bounds[goal.name] = value, bound
            is_solved = is_solved and abs(value - bound) < 1e-4 * max(1.0, abs(value))
            self._hold(solver, goal, value)
        if found is None:
            found = list(self._start)
        return PlacementSolution(self._counts(found), values, bounds, is_solved)

    def _emptied(self, values: list[float]) -> list[float]:
        """A better start for the fewest nodes: empty one after another, the least used ones first, into the fullest."""
        problem = self.problem
        if problem.has_rules or self._literals:
            return values  # moving pods by their room alone would break a rule
        emptied = empty_nodes(problem, self._counts(values), self.most)
        found = list(values)
        for g, row in np.argwhere(self.column >= 0).tolist():
            found[self.column[g, row]] = float(emptied[g, row])
        for row, column in enumerate(self._in_use):
            if column >= 0:
                found[column] = float(emptied[:, row].any())
        for (g, row), column in self._leaving.items():
            found[column] = float(max(0, problem.current[g, row] - emptied[g, row]))
        return found

    def _counts(self, values: Sequence[float]) -> Counts:
        counts = np.zeros(self.column.shape, np.int64)
        cells = np.argwhere(self.column >= 0)
        counts[cells[:, 0], cells[:, 1]] = [round(values[self.column[g, row]]) for g, row in cells.tolist()]
        return counts

    def _solver(self) -> Any:
        try:
            import highspy
        except ImportError:
            raise UsageError(f"finding a better placement needs a solver, which is not installed: {INSTALL}") from None
        self._highspy: Any = highspy
        api: Any = highspy
        solver = api.Highs()
        solver.HandleUserInterrupt = True  # so that it can be cancelled
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("mip_abs_gap", 1e-6)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self._lower), len(self._rows)
        lp.col_cost_ = np.zeros(len(self._lower))
        lp.col_lower_ = np.array(self._lower)
        lp.col_upper_ = np.array(self._upper)
        # Bytes beside thousandths trouble a solver, so that each row is scaled by its largest pod.
        scales = [max(1.0, *map(abs, factors)) for _, _, _, factors in self._rows]
        lp.row_lower_ = np.array([low / by for (low, _, _, _), by in zip(self._rows, scales, strict=True)])
        lp.row_upper_ = np.array([high / by for (_, high, _, _), by in zip(self._rows, scales, strict=True)])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0, *(len(columns) for _, _, columns, _ in self._rows)])
        lp.a_matrix_.index_ = np.array([c for _, _, columns, _ in self._rows for c in columns], np.int32)
        lp.a_matrix_.value_ = np.array(
            [f / by for (_, _, _, factors), by in zip(self._rows, scales, strict=True) for f in factors]
        )
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in self._whole]
        solver.passModel(lp)
        return solver

    def _reach(
        self, solver: Any, goal: Goal, left_s: float, start: list[float] | None
    ) -> tuple[float, float, list[float] | None]:
        highspy = self._highspy
        sign = -1.0 if goal.is_most else 1.0
        costs = np.zeros(len(self._lower))
        costs[list(goal.columns)] = [sign * factor for factor in goal.columns.values()]
        solver.changeColsCost(len(costs), np.arange(len(costs), dtype=np.int32), costs)
        solver.setOptionValue("mip_rel_gap", self._moves_gap if goal.name == "moves" else 0.0)
        solver.setOptionValue("time_limit", solver.getRunTime() + left_s)  # its clock is shared by all goals
        known = highspy.HighsSolution()
        known.col_value = self._start if start is None else start
        solver.setSolution(known)
        self._run(solver)
        info = solver.getInfo()
        if info.primal_solution_status != 2:  # none was found, or there is none
            return 0.0, 0.0, None
        found = list(solver.getSolution().col_value)
        value = sum(factor * found[c] for c, factor in goal.columns.items())
        bound = sign * float(info.mip_dual_bound) if any(self._whole) else value  # a linear program has no gap
        return round(value, 6), round(bound if np.isfinite(bound) else 0.0, 6), found

    def _run(self, solver: Any) -> None:
        """Run the solver in a thread, so that Ctrl-C ends it with what it has found."""
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(solver.run)
            try:
                running.result()
            except KeyboardInterrupt:
                self.was_interrupted = True
                solver.cancelSolve()
                running.result()

    def _hold(self, solver: Any, goal: Goal, value: float) -> None:
        """From now on the goal is not missed by more."""
        low, high = (value - 1e-6, np.inf) if goal.is_most else (-np.inf, value + 1e-6)
        columns = np.array(list(goal.columns), np.int32)
        solver.addRow(low, high, len(columns), columns, np.array(list(goal.columns.values())))

    # ---- rows and columns --------------------------------------------------------------------------------------

    def _add(self, low: float, high: float, *, whole: bool = True, start: float = 0.0) -> int:
        self._lower.append(low)
        self._upper.append(high)
        self._whole.append(whole)
        self._start.append(start)
        return len(self._lower) - 1

    def _row(self, low: float, high: float, columns: Sequence[int], factors: Sequence[float]) -> None:
        kept = [(c, f) for c, f in zip(columns, factors, strict=True) if c >= 0]
        if kept:
            self._rows.append((low, high, [c for c, _ in kept], [f for _, f in kept]))

    def _cells(self, groups: Iterable[int], rows: Ints) -> list[int]:
        return [int(c) for g in groups for c in self.column[g, rows] if c >= 0]

    def _sizes(self, keeps_running: bool) -> None:
        for g, group in enumerate(self.problem.groups):
            mine = [int(c) for c in self.column[g] if c >= 0]
            least = len(group.running) if keeps_running else 0
            self._row(least, group.size, mine, [1.0] * len(mine))

    def _capacity(self) -> None:
        problem = self.problem
        here = problem.current.T @ problem.wanted  # [node, resource]: what movable pods have now
        for k in range(len(problem.resources)):
            for row in range(len(problem.names)):
                mine = [g for g in np.flatnonzero(problem.wanted[:, k]) if self.column[g, row] >= 0]
                room = max(int(problem.free[row, k]), int(here[row, k]))
                asks = [float(problem.wanted[g, k]) for g in mine]
                if sum(self.most[g, row] * a for g, a in zip(mine, asks, strict=True)) > room:
                    self._row(-np.inf, room, [int(self.column[g, row]) for g in mine], asks)

    def _relations(self) -> None:
        problem = self.problem
        for most in problem.at_most:
            mine = self._cells(most.groups, most.rows)
            self._row(-np.inf, most.limit, mine, [1.0] * len(mine))
        for apart in problem.apart:
            self._either(apart)
        for near in problem.near:
            self._near(near)
        for even in problem.even:
            self._even(even)

    def _either(self, apart: Apart) -> None:
        one, other = self._cells([apart.one], apart.rows), self._cells([apart.other], apart.rows)
        if not one or not other:
            return
        which = self._add(0, 1, start=float(self.problem.current[apart.one, apart.rows].any()))
        for cells, group, factor in ((one, apart.one, -1.0), (other, apart.other, 1.0)):
            most = float(self.problem.groups[group].size)
            self._row(-np.inf, 0 if factor < 0 else most, [*cells, which], [*[1.0] * len(cells), factor * most])

    def _near(self, near: Near) -> None:
        coming = [self._arrival(near.group, row) for row in near.rows.tolist() if self.column[near.group, row] >= 0]
        others = self._cells(near.others, near.rows)
        most = float(self.problem.groups[near.group].size)
        self._row(-np.inf, 0, [*coming, *others], [*[1.0] * len(coming), *[-most] * len(others)])

    def _arrival(self, group: int, row: int) -> int:
        """The column of how many pods of a group come to a node."""
        if (group, row) not in self._arrivals:
            column = self._arrivals[group, row] = self._add(0, float(self.most[group, row]), whole=False)
            here = float(self.problem.current[group, row])
            self._row(-np.inf, here, [int(self.column[group, row]), column], [1.0, -1.0])
        return self._arrivals[group, row]

    def _even(self, even: Even) -> None:
        counted = [domain for domain in even.domains if domain.counts]
        if not counted:
            return
        current = [self._now(even, domain) for domain in even.domains]
        least = min(now for now, domain in zip(current, even.domains, strict=True) if domain.counts)
        emptiest = self._add(0, 0 if even.counts_zero else np.inf, whole=False, start=float(least))
        for domain, now in zip(even.domains, current, strict=True):
            cells = self._cells(even.matching, domain.rows)
            ones = [1.0] * len(cells)
            if domain.counts and not even.counts_zero:
                self._row(-domain.fixed, np.inf, [*cells, emptiest], [*ones, -1.0])
            high = float(even.max_skew - domain.fixed)
            coming = [
                self._arrival(even.group, row) for row in domain.rows.tolist() if self.column[even.group, row] >= 0
            ]
            if not coming:
                continue
            if even.matching == (even.group,) and now <= even.max_skew:
                # Only its own pods count, and without arrivals there are not more: the limit holds in any case.
                self._row(-np.inf, high, [*cells, emptiest], [*ones, -1.0])
                continue
            comes = self._add(0, 1)
            size = float(self.problem.groups[even.group].size)
            self._row(-np.inf, 0, [*coming, comes], [*[1.0] * len(coming), -size])
            total = float(self.problem.sizes[list(even.matching)].sum()) + domain.fixed
            self._row(-np.inf, high + total, [*cells, emptiest, comes], [*ones, -1.0, total])

    def _now(self, even: Even, domain: SpreadRows) -> int:
        return domain.fixed + int(self.problem.current[list(even.matching)][:, domain.rows].sum())

    def _use(self) -> list[int]:
        """[node]: the column that says whether movable pods use it; -1 where others do, or none can come."""
        problem = self.problem
        here = problem.current.T @ problem.wanted
        for row in range(len(problem.names) if not self._in_use else 0):
            mine = [g for g in range(len(problem.groups)) if self.column[g, row] >= 0]
            if problem.is_held[row] or not mine:
                self._in_use.append(-1)
                continue
            used = self._add(0, 1, start=float(problem.current[:, row].any()))
            self._in_use.append(used)
            cells = [int(self.column[g, row]) for g in mine]
            for k in range(len(problem.resources)):
                room = float(max(int(problem.free[row, k]), int(here[row, k])))
                asks = [float(problem.wanted[g, k]) for g in mine]
                self._row(-np.inf, 0, [*cells, used], [*asks, -room])
            for g, cell in zip(mine, cells, strict=True):
                self._row(-np.inf, 0, [cell, used], [1.0, -float(self.most[g, row])])
        return self._in_use

    def _bound_peak(self, peak: int) -> bool:
        problem, rows = self.problem, 0
        for k, name in enumerate(problem.resources):
            if name not in ("cpu", "memory"):
                continue
            whole = problem.whole[:, k]
            for row in np.flatnonzero(whole > 0).tolist():
                mine = [g for g in np.flatnonzero(problem.wanted[:, k]) if self.column[g, row] >= 0]
                unit = 1000 * self.peak_unit
                factors = [float(unit * int(problem.wanted[g, k])) for g in mine]
                fixed = float(unit * int(whole[row] - problem.free[row, k]))
                cells = [*(int(self.column[g, row]) for g in mine), peak]
                self._row(-np.inf, -fixed, cells, [*factors, -float(whole[row])])
                rows += 1
        return rows > 0

    def _literal(self, literal: Literal) -> int:
        """The column that is 1 if the literal holds; it may be 1 otherwise."""
        if literal not in self._literals:
            holds = self._literals[literal] = self._add(0, 1)
            cell = int(self.column[literal.group, literal.row])
            if literal.is_at_most:
                above = float(literal.number + 1)
                if cell < 0:
                    self._lower[holds] = 1.0
                self._row(above, np.inf, [cell, holds], [1.0, above])
            else:
                below = float(literal.number - 1)
                room = float(self.most[literal.group, literal.row]) - below
                self._row(-np.inf, below, [cell, holds], [1.0, -room])
        return self._literals[literal]
