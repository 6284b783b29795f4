"""A label over all nodes as numbers: equal values share one, and forks write apart."""

from __future__ import annotations

import numpy as np

from mooring.core.state.columns import MISSING, LabelColumn
from mooring.testing import make_cluster, make_node


def column(*values: str | None) -> LabelColumn:
    made = LabelColumn()
    made.ids = np.array([made.intern(value) for value in values], np.int32)
    return made


def read(column: LabelColumn) -> list[str | None]:
    return [None if i == MISSING else column.values[i] for i in column.ids.tolist()]


def test_equal_values_have_one_id() -> None:
    zones = column("x", "y", "x", None)
    assert zones.ids.tolist() == [0, 1, 0, MISSING]
    assert zones.id_of("y") == 1 and zones.id_of("no node has it") not in zones.ids


def test_a_write_changes_the_version_only_if_it_changes_the_row() -> None:
    zones = column("x", "y")
    before = zones.version
    zones.put(0, "x")
    assert zones.version == before
    zones.put(0, "y")
    assert zones.version != before and read(zones) == ["y", "y"]
    zones.put(1, None)
    assert read(zones) == ["y", None]


def test_present_says_which_values_some_node_has() -> None:
    zones = column("x", "y", None)
    some, everywhere = zones.present()
    assert some.tolist() == [True, True] and not everywhere
    zones.put(1, "x")
    zones.put(2, "x")
    some, everywhere = zones.present()
    assert some.tolist() == [True, False] and everywhere


def test_values_that_no_node_has_are_forgotten() -> None:
    zones = column("x", "y", "z", None)
    zones.put(1, "z")
    zones.forget_unused()
    assert zones.values == ["x", "z"] and read(zones) == ["x", "z", "z", None]
    assert zones.intern("y") == 2


def test_a_fork_and_its_parent_write_apart() -> None:
    parent = column("x", "y")
    fork = parent.fork()
    fork.put(0, "new")
    parent.put(1, "other")
    assert (read(fork), read(parent)) == (["new", "y"], ["x", "other"])
    assert fork.version != parent.version
    fork.forget_unused()
    assert read(parent) == ["x", "other"]


def test_keys_that_no_node_has_take_no_room() -> None:
    cluster = make_cluster(make_node("a", labels={"zone": "x"}), make_node("b"))
    table = cluster.nodes().table
    assert {table.label(f"key-{i}") for i in range(100)} == {table.label("nothing")}
    assert read(table.label("nothing")) == [None, None] and read(table.label("zone")) == ["x", None]
    fork = table.fork()
    cluster.set_node(make_node("b", labels={"nothing": "now"}))
    cluster.set_node(make_node("c", labels={"zone": "y"}))
    table = cluster.nodes().table
    assert read(table.label("nothing")) == [None, "now", None] and read(table.label("zone")) == ["x", None, "y"]
    assert read(table.label("else")) == [None, None, None]
    assert read(fork.label("nothing")) == [None, None]
