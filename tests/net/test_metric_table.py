"""A table of metrics: one row, one family, one place in what is shown."""

from __future__ import annotations

import pytest

from mooring.net.prometheus import (
    Counter,
    CounterChild,
    Gauge,
    Histogram,
    MetricRow,
    MetricsRegistry,
    counter,
    fill,
    gauge,
    histogram,
)


class Table:
    moorings = counter("moorings_total", "How many.", ("harbour",))
    depth = gauge("depth", "How deep.")
    waits = histogram("wait_seconds", "How long.", buckets=(1.0, 2.0))


@pytest.fixture
def filled() -> tuple[Table, MetricsRegistry]:
    table, registry = Table(), MetricsRegistry()
    fill(table, registry)
    return table, registry


def test_every_row_is_a_family_of_its_kind(filled):
    table, registry = filled
    assert isinstance(table.moorings, Counter) and isinstance(table.depth, Gauge)
    assert isinstance(table.waits, Histogram)
    assert registry.names() == ["depth", "moorings_total", "wait_seconds"]


def test_two_tables_count_apart(filled):
    table, registry = filled
    other = Table()
    fill(other, MetricsRegistry())
    table.moorings.labels("north").inc()
    table.waits.observe(1.5)
    assert other.moorings.labels("north").value == 0
    assert 'moorings_total{harbour="north"} 1\n' in registry.render()
    assert 'wait_seconds_bucket{le="2"} 1\n' in registry.render()


def test_the_class_itself_has_the_rows():
    assert isinstance(Table.moorings, MetricRow) and Table.moorings.labels == ("harbour",)


def test_a_name_that_is_taken_is_refused(filled):
    _, registry = filled
    with pytest.raises(ValueError, match="registered twice"):
        fill(Table(), registry)


def test_two_threads_that_come_first_get_the_same_child():
    """While one makes a child, the other has made it: neither counts into one that is never shown."""

    class Raced(Counter):
        def _make(self) -> CounterChild:
            if len(self) == 0:
                self[("a",)] = CounterChild()  # the other thread
            return CounterChild()

    family = Raced("raced_total", "", ("name",))
    family.labels("a").inc()
    assert family.labels("a").value == 1
