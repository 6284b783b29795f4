"""The same program for CP-SAT, the solver of OR-Tools: an extra beside HiGHS.

OR-Tools brings a HiGHS of its own, and one process cannot load both. So CP-SAT runs in a child process, which reads a
program and then one goal after another. CP-SAT knows whole numbers only: the rows have no others, and prices are
counted in millionths.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.api.errors import UsageError
from mooring.ask.placement_program import Goal, Program

MOST = 10**9  # of a column without a limit
_FRACTION = 10**6
_MISSING = "the solver cp-sat needs OR-Tools, which is not installed: pip install 'mooring[cpsat]'"


class _Row(msgspec.Struct, array_like=True):
    low: int | None
    high: int | None
    columns: list[int]
    factors: list[int]


class _Model(msgspec.Struct, array_like=True):
    columns: list[tuple[int, int]]
    rows: list[_Row]


class _Ask(msgspec.Struct, array_like=True):
    """Reach a goal, or keep one."""

    row: _Row
    is_most: bool
    left_s: float  # 0: keep the row from now on
    start: list[int]


class _Answer(msgspec.Struct, array_like=True):
    values: list[int] | None
    bound: float


class CpSatProgram(Program):
    """Solved by CP-SAT with one thread, so that the same program has the same solution."""

    peak_unit = 1000

    def _solver(self) -> Any:
        bounds = zip(self._lower, self._upper, strict=True)
        rows = []
        for low, high, columns, factors in self._rows:
            whole = [round(factor) for factor in factors]
            by = math.gcd(*whole)
            least = None if math.isinf(low) else math.ceil(low / by)
            most = None if math.isinf(high) else math.floor(high / by)
            rows.append(_Row(least, most, columns, [factor // by for factor in whole]))
        given = [(math.ceil(low), MOST if math.isinf(high) else math.floor(high)) for low, high in bounds]
        return _Child(_Model(given, rows))

    def _reach(
        self, solver: Any, goal: Goal, left_s: float, start: list[float] | None
    ) -> tuple[float, float, list[float] | None]:
        factors, unit = _whole_factors(goal)
        hints = [round(value) for value in (self._start if start is None else start)]
        asked = _Ask(_Row(None, None, list(goal.columns), factors), goal.is_most, left_s, hints)
        try:
            answer = solver.ask(asked)
        except KeyboardInterrupt:
            self.was_interrupted = True
            answer = solver.stop()
        if answer.values is None:
            return 0.0, 0.0, None
        found = [float(value) for value in answer.values]
        value = sum(factor * found[c] for c, factor in goal.columns.items())
        return round(value, 6), round(answer.bound / unit, 6), found

    def _hold(self, solver: Any, goal: Goal, value: float) -> None:
        factors, unit = _whole_factors(goal)
        whole = round(value * unit)
        row = _Row(whole if goal.is_most else None, None if goal.is_most else whole, list(goal.columns), factors)
        solver.ask(_Ask(row, goal.is_most, 0, []))


def _whole_factors(goal: Goal) -> tuple[list[int], int]:
    unit = 1 if all(float(factor).is_integer() for factor in goal.columns.values()) else _FRACTION
    return [round(factor * unit) for factor in goal.columns.values()], unit


class _Child:
    """The process that solves. Ctrl-C in a terminal does not reach it; ``stop`` does."""

    def __init__(self, model: _Model) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mooring.ask.placement_cp_sat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._send(model)
        self._read()

    def __del__(self) -> None:
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()

    def ask(self, asked: _Ask) -> _Answer:
        self._send(asked)
        return self._read()

    def stop(self) -> _Answer:
        """End the search with what it has found."""
        self._process.send_signal(signal.SIGINT)
        return self._read()

    def _send(self, value: msgspec.Struct) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(value) + b"\n")
        self._process.stdin.flush()

    def _read(self) -> _Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise UsageError(_MISSING if self._process.wait() == os.EX_UNAVAILABLE else "the solver cp-sat has failed")
        return msgspec.json.decode(line, type=_Answer)


# ---- in the child --------------------------------------------------------------------------------------------------


def serve() -> int:
    """Read a program and goals, line by line, and answer each."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return os.EX_UNAVAILABLE
    api: Any = cp_model
    given = msgspec.json.decode(sys.stdin.buffer.readline(), type=_Model)
    model = api.CpModel()
    columns = [model.new_int_var(low, high, f"c{i}") for i, (low, high) in enumerate(given.columns)]
    search = api.CpSolver()
    search.parameters.num_workers = 1
    signal.signal(signal.SIGINT, lambda number, frame: search.stop_search())

    def total(row: _Row) -> Any:
        return api.LinearExpr.weighted_sum([columns[c] for c in row.columns], row.factors)

    def add(row: _Row) -> None:
        least = -(2**62) if row.low is None else row.low
        model.add_linear_constraint(total(row), least, 2**62 if row.high is None else row.high)

    def answer(values: Sequence[int] | None = None, bound: float = 0.0) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(_Answer(None if values is None else list(values), bound)) + b"\n")
        sys.stdout.buffer.flush()

    for row in given.rows:
        add(row)
    answer()
    for line in sys.stdin.buffer:
        asked = msgspec.json.decode(line, type=_Ask)
        if not asked.left_s:
            add(asked.row)
            answer()
            continue
        (model.maximize if asked.is_most else model.minimize)(total(asked.row))
        model.clear_hints()
        for column, value in zip(columns, asked.start, strict=True):
            model.add_hint(column, value)
        search.parameters.max_time_in_seconds = asked.left_s
        is_found = search.solve(model) in (api.OPTIMAL, api.FEASIBLE)
        answer([search.value(column) for column in columns] if is_found else None, search.best_objective_bound)
    return 0


if __name__ == "__main__":
    sys.exit(serve())
