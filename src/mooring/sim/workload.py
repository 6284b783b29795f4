"""Workloads: pods that arrive over time and run for a while, from the rows of a CSV file or at random."""

from __future__ import annotations

import bisect
import itertools
import random
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mooring.api.core import Node, Pod
from mooring.api.errors import InputError, MooringError
from mooring.core.queue.queued_pod import History
from mooring.sim.step_fields import DAY_S, MAX_SECONDS, described, fields_of, mapping, seconds, truth, whole_number
from mooring.sim.tables import FIELDS, SIMPLE, Admit, Fill, Row, TracePodShape, TraceTable, columns_in, filler

TIMES = {"at", "every", "run", "recreate"}
_TIMES_EXPECTED = f"expected seconds from 0 to {MAX_SECONDS:.0f}, which is ten years"
TRACE_FIELDS = FIELDS | TIMES | {"csv", "arrange"}
MAX_PODS = 100_000_000
MAX_WEIGHT = 10**9
_TIMES = {"count", "for", "rate", "every", "recreate", "templates"}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)")
_PER = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_S}

Draw = Callable[[random.Random], float]


class Arrival(msgspec.Struct, frozen=True):
    """A pod that arrives at a time, in seconds from the start, and runs for ``run_s`` once bound; None: for ever.

    With ``recreate`` a pod of the same name is created whenever it is evicted or its node is lost.
    """

    at_s: float
    pod: Pod
    run_s: float | None = None
    recreate: bool = False
    history: History | None = None  # its history in the queue

    def problem_after(self, before_s: float) -> str:
        """Return why its times are invalid after an arrival at ``before_s``, or ""."""
        if not 0 <= self.at_s <= MAX_SECONDS:
            return f"at: {_TIMES_EXPECTED}, found {self.at_s:g}"
        if self.run_s is not None and not 0 <= self.run_s <= MAX_SECONDS:
            return f"run: {_TIMES_EXPECTED}, found {self.run_s:g}"
        if self.at_s < before_s:
            return f"at: {self.at_s:g} after {before_s:g}; pods must come in the order of their times"
        return ""


class Setting(msgspec.Struct, frozen=True):
    """Inputs of a workload: the seed, the existing nodes, and admission of pods."""

    seed: int
    nodes: Sequence[Node]
    admit: Admit


class Workload(Protocol):
    """Source of pods."""

    @property
    def total(self) -> int | None:
        """Number of pods, if known."""

    def arrivals(self, setting: Setting) -> Generator[Arrival]:
        """Yield the pods in order of their times, lazily.

        An error of the last pod is thrown into the generator, so that it can add the place.
        """


class Trace:
    """A CSV file with a row per pod.

    The fields of pods are texts with ``{column}``. A column with the name of a field fills it in by itself.
    """

    def __init__(self, fields: dict[str, Any], path: Path, arrange: Callable[..., Iterable[Row]] | None = None) -> None:
        self._table = table = TraceTable.open(path)
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
        self._shape = TracePodShape(fields, default_name=f"{path.name.partition('.')[0].lower()}-{{i}}")
        if arrange is None:
            table.check(columns_in(str(times["at"])) | columns_in(str(times["run"])), "at or run")
            table.check(sorted(self._shape.columns), "the workload")
            if self._at is None and times["every"] is None:
                table.check(["at"], "a workload without at or every")

    @property
    def total(self) -> int | None:
        """Known if the rows are not rearranged."""
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
                    raise InputError("at: empty; expected a time")
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


class _Template(msgspec.Struct, frozen=True):
    shape: TracePodShape
    run: Draw | None


class Generated:
    """Random pods of several templates, which arrive at a rate that may depend on the time of day.

    ```yaml
    - workload:
        rate: {"00:00": 10/h, "08:00": 300/h, "18:00": 60/h}   # on average; or 5/s
        for: 7d
        templates:
        - {weight: 3, name: "web-{i}", cpu: 500m, run: {uniform: [10m, 2h]}}
        - {weight: 1, name: "batch-{i}", cpu: "4", run: {exponential: 30m}, priority: 10}
    ```

    All randomness comes from the seed. Times are rounded to milliseconds, so that they are the same on every machine.
    """

    def __init__(self, value: Mapping[str, Any]) -> None:
        fields = fields_of(value, FIELDS | _TIMES | {"run"})
        times = {name: fields.pop(name) for name in _TIMES if name in fields}
        if "rate" in times and "every" in times:
            raise InputError("rate and every exclude each other; give one of them")
        if "count" not in times and "for" not in times:
            raise InputError("count or for is missing: the number of pods, or the duration")
        if "count" not in times and "rate" not in times and "every" not in times:
            raise InputError("rate or every is missing: how often pods arrive")
        self._count = whole_number(times["count"], "count", most=MAX_PODS) if "count" in times else None
        self._for_s = seconds(times["for"]) if "for" in times else None
        self._every_s = seconds(times.get("every", 0))
        if self._count is None and "every" in times and not self._every_s:
            raise InputError("every: expected a time between two pods, found 0")
        self._recreate = truth(times.get("recreate"), "recreate")
        self._rate = _Rate(times["rate"]) if "rate" in times else None
        self._ends, self._templates = _templates(times.get("templates"), fields)

    @property
    def total(self) -> int | None:
        """Known if the number is given, approximate if the rate and the time are."""
        if self._count is not None:
            return self._count
        if self._for_s is None:
            return None
        return int(self._rate.expected(self._for_s) if self._rate else self._for_s / self._every_s)

    def arrivals(self, setting: Setting) -> Generator[Arrival]:
        chance = random.Random(f"workload {setting.seed}")
        at_s = 0.0
        for number in itertools.count(1):
            if self._rate is not None:
                at_s = self._rate.next_after(at_s, chance)
            elif number > 1:
                at_s += self._every_s
            if (self._count is not None and number > self._count) or (self._for_s is not None and at_s > self._for_s):
                return
            template = self._templates[bisect.bisect_right(self._ends, chance.random() * self._ends[-1])]
            run_s = None if template.run is None else round(template.run(chance), 3)
            pod = template.shape.pod({"i": str(number)}, setting.admit)
            yield Arrival(round(at_s, 3), pod, run_s, self._recreate)


def _templates(value: Any, common: dict[str, Any]) -> tuple[list[float], list[_Template]]:
    """Return the templates, and the cumulative sums of their weights; without templates the workload itself is one."""
    if value is None:
        value = [{}]
    if not isinstance(value, list) or not value:
        raise InputError(f"templates: expected a list of templates, found {described(value)}")
    ends: list[float] = []
    made: list[_Template] = []
    for number, each in enumerate(value):
        where = f"templates[{number}]"
        try:
            fields = {**common, **fields_of(each, FIELDS | {"run", "weight"})}
            weight = fields.pop("weight", 1)
            if not isinstance(weight, int | float) or isinstance(weight, bool) or not 0 < weight < MAX_WEIGHT:
                raise InputError(
                    f"weight: expected a number above 0 and below {MAX_WEIGHT:,}, found {described(weight)}"
                )
            run = fields.pop("run", None)
            shape = TracePodShape(fields, default_name="pod-{i}")
            for name in sorted(shape.columns - {"i"}):
                raise InputError(f"{{{name}}}: a generated pod has no columns, only its number {{i}}")
            if "i" not in columns_in(str(fields.get("name", "{i}"))):
                raise InputError(f"name: expected a name with {{i}} in it, found {fields['name']!r}")
            made.append(_Template(shape, None if run is None else draw_time(run, "run")))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        ends.append((ends[-1] if ends else 0.0) + weight)
    return ends, made


def draw_time(value: Any, name: str) -> Draw:
    """Return a generator of times: a fixed one, or one of a distribution."""
    if not isinstance(value, Mapping):
        fixed_s = seconds(value)
        return lambda chance: fixed_s
    if len(value) != 1 or next(iter(value)) not in _DISTRIBUTIONS:
        known = ", ".join(_DISTRIBUTIONS)
        raise InputError(f"{name}: expected a duration or one of {known}, found {described(value)}")
    kind, parameter = next(iter(value.items()))
    try:
        return _DISTRIBUTIONS[kind](parameter)
    except InputError as error:
        raise InputError(f"{name}: {kind}: {error}") from None


def _exponential(value: Any) -> Draw:
    mean_s = seconds(value)
    return lambda chance: chance.expovariate(1.0) * mean_s


def _uniform(value: Any) -> Draw:
    if not isinstance(value, list) or len(value) != 2:
        raise InputError(f"expected two durations, found {described(value)}")
    least_s, most_s = map(seconds, value)
    if most_s < least_s:
        raise InputError(f"expected the shorter duration first, found {value}")
    return lambda chance: least_s + chance.random() * (most_s - least_s)


def _log_normal(value: Any) -> Draw:
    fields = fields_of(value, {"median", "sigma"}, required=("median", "sigma"))
    median_s, sigma = seconds(fields["median"]), fields["sigma"]
    if not isinstance(sigma, int | float) or isinstance(sigma, bool) or not 0 <= sigma <= 10:
        raise InputError(f"sigma: expected a number from 0 to 10, found {described(sigma)}")
    return lambda chance: median_s * chance.lognormvariate(0.0, sigma)


_DISTRIBUTIONS: dict[str, Callable[[Any], Draw]] = {
    "exponential": _exponential,
    "uniform": _uniform,
    "logNormal": _log_normal,
}


class _Rate:
    """Average arrivals per second: one number, or a number from each of several times of the day on."""

    def __init__(self, value: Any) -> None:
        steps = value if isinstance(value, Mapping) else {"00:00": value}
        if not steps:
            raise InputError("rate: expected a rate, or rates by time of the day, found none")
        by_time = sorted((_time_of_day(key), _per_second(each)) for key, each in steps.items())
        self._from_s = [from_s for from_s, _ in by_time]
        self._rates = [rate for _, rate in by_time]
        self._most = max(self._rates)
        if not self._most:
            raise InputError("rate: expected more than 0 at some time of the day")

    def at(self, at_s: float) -> float:
        """Return the rate at a time; before the first step of a day it is that of the last one."""
        return self._rates[bisect.bisect_right(self._from_s, at_s % DAY_S) - 1]

    def next_after(self, at_s: float, chance: random.Random) -> float:
        """Return the next arrival: candidates at the highest rate are thinned to the current rate."""
        while True:
            at_s += chance.expovariate(1.0) / self._most
            if len(self._rates) == 1 or chance.random() * self._most < self.at(at_s):
                return at_s

    def expected(self, for_s: float) -> float:
        """Return the approximate number of arrivals in this many seconds."""
        hours = max(1, int(for_s / 3600))
        return sum(self.at((hour + 0.5) * for_s / hours) for hour in range(hours)) * for_s / hours


def _per_second(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    found = _RATE.fullmatch(str(value).strip())
    if found is None:
        raise InputError(f"rate: expected a number per time, such as 5/s or 300/h, found {described(value)}")
    return float(found[1]) / _PER[found[2]]


def _time_of_day(value: Any) -> float:
    found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", str(value).strip())
    if found is None:
        raise InputError(f"rate: expected a time of the day such as 08:30, in quotes, found {described(value)}")
    return int(found[1]) * 3600.0 + int(found[2]) * 60.0
