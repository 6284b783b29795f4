"""Workloads: pods that arrive over time and run for a while."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mooring.api.core import Node, Pod
from mooring.errors import InputError, MooringError
from mooring.queue.history import History
from mooring.sim.pod_shape import FIELDS, SIMPLE, Admit, PodShape
from mooring.sim.rows import Fill, Row, Table, columns_in, filler
from mooring.sim.step_fields import MAX_SECONDS, mapping, seconds, truth

TIMES = {"at", "every", "run", "recreate"}
_TIMES_EXPECTED = f"expected seconds from 0 to {MAX_SECONDS:.0f}, which is ten years"
TRACE_FIELDS = FIELDS | TIMES | {"csv", "arrange"}


class Arrival(msgspec.Struct, frozen=True):
    """A pod that comes at a time, in seconds from the start, and runs for so long once it is bound; None: for ever.

    With ``recreate`` another one of its name is created whenever it is evicted or its node is lost.
    """

    at_s: float
    pod: Pod
    run_s: float | None = None
    recreate: bool = False
    history: History | None = None  # what it has gone through in the queue before

    def problem_after(self, before_s: float) -> str:
        """What is wrong with its times if the arrival before it came at ``before_s``; "" if nothing is."""
        if not 0 <= self.at_s <= MAX_SECONDS:
            return f"at: {_TIMES_EXPECTED}, found {self.at_s:g}"
        if self.run_s is not None and not 0 <= self.run_s <= MAX_SECONDS:
            return f"run: {_TIMES_EXPECTED}, found {self.run_s:g}"
        if self.at_s < before_s:
            return f"at: {self.at_s:g} after {before_s:g}; pods must come in the order of their times"
        return ""


class Setting(msgspec.Struct, frozen=True):
    """What a workload may depend on: the seed, the nodes that are there, and how pods are completed."""

    seed: int
    nodes: Sequence[Node]
    admit: Admit


class Workload(Protocol):
    """Where pods come from."""

    @property
    def total(self) -> int | None:
        """How many pods there will be, if that is known."""

    def arrivals(self, setting: Setting) -> Generator[Arrival]:
        """The pods in order of their times, made as they are asked for.

        What is wrong with the one that was given last is thrown into it, so that the error names its place.
        """


class Trace:
    """A CSV file with a row per pod.

    The fields of pods are texts with ``{column}`` in them. A column that has the name of a field fills it in by itself.
    """

    def __init__(self, fields: dict[str, Any], path: Path, arrange: Callable[..., Iterable[Row]] | None = None) -> None:
        self._table = table = Table.open(path)
        self._arrange = arrange
        if "at" in fields and "every" in fields:
            raise InputError("at and every exclude each other; give one of them")
        names = (*SIMPLE, "run") if "every" in fields else (*SIMPLE, "at", "run")
        fields = {**{name: f"{{{name}}}" for name in names if name in table.columns}, **fields}
        for group in ("labels", "requests"):
            columns = {name.partition(".")[2]: f"{{{name}}}" for name in table.columns if name.startswith(f"{group}.")}
            if columns:
                fields[group] = {**columns, **mapping(fields.get(group), group)}
        times = {name: fields.pop(name, None) for name in TIMES}
        self._every_s = seconds(times["every"]) if times["every"] is not None else 0.0
        self._at = None if times["at"] is None else filler(str(times["at"]))
        self._run = None if times["run"] is None else filler(str(times["run"]))
        self._recreate = truth(times["recreate"], "recreate")
        self._shape = PodShape(fields, default_name=f"{path.name.partition('.')[0].lower()}-{{i}}")
        if arrange is None:
            table.check(columns_in(str(times["at"])) | columns_in(str(times["run"])), "at or run")
            table.check(sorted(self._shape.columns), "the workload")
            if self._at is None and times["every"] is None:
                table.check(["at"], "a workload without at or every")

    @property
    def total(self) -> int | None:
        """Known if the rows come as they are."""
        return self._table.count() if self._arrange is None else None

    def arrivals(self, setting: Setting) -> Generator[Arrival]:
        rows: Iterable[tuple[int, Row]] = self._table.rows()
        if self._arrange is not None:
            rows = self._arranged([row for _, row in rows], setting)
        path, admit = self._table.path, setting.admit
        number = 0
        for number, (line, row) in enumerate(rows, 1):
            row["i"] = str(number)
            try:
                at_s = self._time(self._at, row, "at") if self._at is not None else self._every_s * (number - 1)
                run_s = None if self._run is None else self._time(self._run, row, "run")
                if at_s is None:
                    raise InputError("at: nothing is there; expected a time")
                yield Arrival(at_s, self._shape.pod(row, admit), run_s, self._recreate)
            except MooringError as error:
                raise InputError(f"{path}, line {line}: {error}") from None
            except KeyError as error:
                raise InputError(f"{path}: no column {error} after the rows were arranged") from None
        if not number:
            raise InputError(f"{path}: no row; expected one per pod")

    def _arranged(self, rows: list[Row], setting: Setting) -> Iterator[tuple[int, Row]]:
        assert self._arrange is not None
        arranged = self._arrange(rows, seed=setting.seed, nodes=setting.nodes)
        return enumerate((dict(row) for row in arranged), 2)

    @staticmethod
    def _time(fill: Fill, row: Row, name: str) -> float | None:
        text = fill(row)
        if text == "":
            return None
        try:
            found = float(text)
        except ValueError:
            try:
                return seconds(text)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
        return found
