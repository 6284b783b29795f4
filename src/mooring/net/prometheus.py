"""Counters, gauges and histograms with cheap updates, and Prometheus' text form of them.

A family is a dict of its children by label values: ``family["a", "b"]`` makes a child on first use. Updating a child is
one attribute access, observing a histogram one bisection, or less if it is only noted. Either one thread makes all
updates of a child, or the threads share a lock. Any thread may render. The output equals that of Go's client library:
label names sorted, ``le`` last, numbers in Go's shortest form, families without children left out.
"""

from __future__ import annotations

import math
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar, overload

_FOLDING = threading.Lock()
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


class CounterChild:
    """A monotonic number."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, by: float = 1.0) -> None:
        self.value += by


class GaugeChild:
    """A number that can increase and decrease."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        self.value = value

    def inc(self, by: float = 1.0) -> None:
        self.value += by

    def dec(self, by: float = 1.0) -> None:
        self.value -= by


class HistogramChild:
    """Counts of observations by bucket, and their sum.

    ``later`` only notes an observation, at a tenth of the cost; its user must call ``fold`` regularly.
    """

    __slots__ = ("_bounds", "_counts", "_noted", "_sum", "later")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._noted = array("d")
        self.later: Callable[[float], None] = self._noted.append

    @property
    def counts(self) -> list[int]:
        self.fold()
        return self._counts

    @property
    def sum(self) -> float:
        self.fold()
        return self._sum

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def fold(self) -> None:
        """Count noted observations. Callable in any thread while another one notes more."""
        if self._noted:
            with _FOLDING:
                noted = self._noted[:]
                del self._noted[: len(noted)]
                self._sum = sum(noted, self._sum)
                values, start = sorted(noted), 0
                for bucket, bound in enumerate(self._bounds):
                    if start == len(values):  # most durations are short
                        break
                    end = bisect_right(values, bound, start)
                    self._counts[bucket] += end - start
                    start = end
                self._counts[-1] += len(values) - start


Child = TypeVar("Child", CounterChild, GaugeChild, HistogramChild)


class Family(dict[tuple[str, ...], Child], Generic[Child]):
    """All children of one metric, by label values in the order of ``label_names``."""

    kind = "untyped"

    def __init__(self, name: str, help_text: str, label_names: Sequence[str] = ()) -> None:
        self.name = name
        self.help_text = help_text
        self.label_names = tuple(label_names)
        self._order = sorted(range(len(self.label_names)), key=lambda index: self.label_names[index])
        self.clear()

    def _make(self) -> Child:
        raise NotImplementedError

    def __missing__(self, values: tuple[str, ...]) -> Child:
        if len(values) != len(self.label_names):
            raise ValueError(f"{self.name} has labels {self.label_names}, found {values}")
        return self.setdefault(values, self._make())  # one step: two threads that come first get the same child

    def labels(self, *values: str) -> Child:
        """Return the child of these values."""
        return self[values]

    def clear(self) -> None:
        """Drop all children, as a reset does; children bound before are no longer rendered."""
        super().clear()
        if not self.label_names:
            self[()] = self._make()

    def render(self, out: list[str]) -> None:
        # Another thread may add a child at the same time. ``copy`` is one step for the interpreter; ``list(items())``
        # is not: each of its tuples can trigger a garbage collection, and with it a switch of threads.
        children = [(self._pairs(values), child) for values, child in self.copy().items()]
        if not children:
            return
        out.append(f"# HELP {self.name} {_escape_help(self.help_text)}\n# TYPE {self.name} {self.kind}\n")
        for pairs, child in sorted(children, key=lambda entry: entry[0]):
            self._render_child(out, pairs, child)

    def _pairs(self, values: tuple[str, ...]) -> str:
        return ",".join([f'{self.label_names[index]}="{escape_label(values[index])}"' for index in self._order])

    def _render_child(self, out: list[str], pairs: str, child: Child) -> None:
        raise NotImplementedError


class Counter(Family[CounterChild]):
    """A family of counters; without labels it is one itself."""

    kind = "counter"

    def _make(self) -> CounterChild:
        return CounterChild()

    def inc(self, by: float = 1.0) -> None:
        self[()].inc(by)

    def _render_child(self, out: list[str], pairs: str, child: CounterChild) -> None:
        out.append(f"{self.name}{f'{{{pairs}}}' if pairs else ''} {go_float(child.value)}\n")


class Gauge(Family[GaugeChild]):
    """A family of gauges; without labels it is one itself."""

    kind = "gauge"

    def _make(self) -> GaugeChild:
        return GaugeChild()

    def set(self, value: float) -> None:
        self[()].set(value)

    def _render_child(self, out: list[str], pairs: str, child: GaugeChild) -> None:
        out.append(f"{self.name}{f'{{{pairs}}}' if pairs else ''} {go_float(child.value)}\n")


class Histogram(Family[HistogramChild]):
    """A family of histograms; without labels it is one itself."""

    kind = "histogram"

    def __init__(self, name: str, help_text: str, label_names: Sequence[str] = (), *, buckets: Sequence[float]) -> None:
        self._bounds = tuple(buckets)
        self._marks = [go_float(bound) for bound in buckets] + ["+Inf"]
        super().__init__(name, help_text, label_names)

    def _make(self) -> HistogramChild:
        return HistogramChild(self._bounds)

    def observe(self, value: float) -> None:
        self[()].observe(value)

    def fold(self) -> None:
        for child in self.copy().values():
            child.fold()

    def _render_child(self, out: list[str], pairs: str, child: HistogramChild) -> None:
        name, prefix, total = self.name, f"{pairs}," if pairs else "", 0
        for mark, count in zip(self._marks, child.counts, strict=True):
            total += count
            out.append(f'{name}_bucket{{{prefix}le="{mark}"}} {go_float(total)}\n')
        braces = f"{{{pairs}}}" if pairs else ""
        out.append(f"{name}_sum{braces} {go_float(child.sum)}\n{name}_count{braces} {go_float(total)}\n")


class MetricsRegistry:
    """All families of a process, rendered in the order of their names."""

    def __init__(self) -> None:
        self._families: dict[str, Counter | Gauge | Histogram] = {}
        self._disabled: set[str] = set()

    def counter(self, name: str, help_text: str, label_names: Sequence[str] = ()) -> Counter:
        return self.add(Counter(name, help_text, label_names))

    def gauge(self, name: str, help_text: str, label_names: Sequence[str] = ()) -> Gauge:
        return self.add(Gauge(name, help_text, label_names))

    def histogram(
        self, name: str, help_text: str, label_names: Sequence[str] = (), *, buckets: Sequence[float]
    ) -> Histogram:
        return self.add(Histogram(name, help_text, label_names, buckets=buckets))

    def add(self, family: AnyFamily) -> AnyFamily:
        """Register a family; its name must be new."""
        if family.name in self._families:
            raise ValueError(f"metric {family.name} is registered twice")
        self._families[family.name] = family
        return family

    def describe(self, name: str, help_text: str) -> None:
        """Replace a family's help text."""
        self._families[name].help_text = help_text

    def disable(self, names: Iterable[str]) -> list[str]:
        """Hide metrics; return the unknown names."""
        names = list(names)
        self._disabled.update(names)
        return [name for name in names if name not in self._families]

    def names(self) -> list[str]:
        return sorted(self._families)

    def fold(self) -> None:
        """Fold what histograms have noted, so that they need not store it."""
        for family in self._families.values():
            if isinstance(family, Histogram):
                family.fold()

    def render(self) -> str:
        out: list[str] = []
        for name in sorted(self._families):
            if name not in self._disabled:
                self._families[name].render(out)
        return "".join(out)

    def reset(self, names: Iterable[str] | None = None) -> None:
        """Reset the values of all families, or of those named."""
        for name in list(self._families) if names is None else names:
            self._families[name].clear()


AnyFamily = TypeVar("AnyFamily", Counter, Gauge, Histogram)


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bounds that grow by a factor; multiplied step by step as Go does, so that the last digits agree."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)


def go_float(value: float) -> str:
    """Format a number in Go's shortest form: an exponent below -4 and from 6 on."""
    if value == 0:
        return "0"
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    point = len(digits) + exponent
    text = "".join(map(str, digits))
    minus = "-" if sign else ""
    power = point - 1
    if power < -4 or power >= 6:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    if point >= len(text):
        return f"{minus}{text}{'0' * (point - len(text))}"
    return f"{minus}{text[:point]}.{text[point:]}"


def escape_label(value: str) -> str:
    """Escape a label's value."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _escape_help(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n")


# ---- metrics as a table: a class with a row per metric, whose instances have a family per row
# -------------------------

F = TypeVar("F", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True)
class MetricRow(Generic[F]):
    """One metric. On an object of the table's class the attribute is the family itself."""

    kind: type[F]
    name: str
    help_text: str
    labels: tuple[str, ...]
    options: dict[str, Any]

    @overload
    def __get__(self, instance: None, owner: type) -> MetricRow[F]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> F: ...

    def __get__(self, instance: object | None, owner: type) -> MetricRow[F] | F:
        return self  # an instance's own attribute, set by fill(), takes precedence

    def make(self) -> F:
        return self.kind(self.name, self.help_text, self.labels, **self.options)


def counter(name: str, help_text: str, labels: tuple[str, ...] = ()) -> MetricRow[Counter]:
    """Declare a counter; ``labels`` gives the order of the values that ``labels()`` takes."""
    return MetricRow(Counter, name, help_text, labels, {})


def gauge(name: str, help_text: str, labels: tuple[str, ...] = ()) -> MetricRow[Gauge]:
    """Declare a gauge."""
    return MetricRow(Gauge, name, help_text, labels, {})


def histogram(
    name: str, help_text: str, labels: tuple[str, ...] = (), *, buckets: Sequence[float]
) -> MetricRow[Histogram]:
    """Declare a histogram."""
    return MetricRow(Histogram, name, help_text, labels, {"buckets": buckets})


def fill(table: object, registry: MetricsRegistry) -> None:
    """Give an object a family for each row of its class, and register all of them."""
    for attribute, row in vars(type(table)).items():
        if isinstance(row, MetricRow):
            family = row.make()
            registry.add(family)
            setattr(table, attribute, family)
