"""Metrics as a table: a class with one row per metric, and objects of it with one family per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from mooring.metrics import Counter, Gauge, Histogram, Registry

F = TypeVar("F", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True)
class Row(Generic[F]):
    """One metric. On an object of the table's class the attribute is the family itself."""

    kind: type[F]
    name: str
    help_text: str
    labels: tuple[str, ...]
    options: dict[str, Any]

    @overload
    def __get__(self, instance: None, owner: type) -> Row[F]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> F: ...

    def __get__(self, instance: object | None, owner: type) -> Row[F] | F:
        return self  # an object's own attribute, which fill() sets, comes first

    def make(self) -> F:
        return self.kind(self.name, self.help_text, self.labels, **self.options)


def counter(name: str, help_text: str, labels: tuple[str, ...] = ()) -> Row[Counter]:
    """A row for a number that grows; ``labels`` gives the order of the values that ``labels()`` takes."""
    return Row(Counter, name, help_text, labels, {})


def gauge(name: str, help_text: str, labels: tuple[str, ...] = ()) -> Row[Gauge]:
    """A row for a number that goes up and down."""
    return Row(Gauge, name, help_text, labels, {})


def histogram(name: str, help_text: str, labels: tuple[str, ...] = (), *, buckets: Sequence[float]) -> Row[Histogram]:
    """A row for how many observations fell into which bucket."""
    return Row(Histogram, name, help_text, labels, {"buckets": buckets})


def fill(table: object, registry: Registry) -> None:
    """Give an object a family for each row of its class, and register all of them."""
    for attribute, row in vars(type(table)).items():
        if isinstance(row, Row):
            family = row.make()
            registry.add(family)
            setattr(table, attribute, family)
