"""Which nodes' pods have changed since the last look."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.plugins.volumes.claims import PodChanges


@pytest.fixture
def changes(world: Any) -> PodChanges:
    for name in ("a", "b"):
        world.node(name)
    world.pod(name="p", on="a")
    world.settle()
    return PodChanges(world.cluster.table)


def take(changes: PodChanges) -> tuple[set[str], list[str]]:
    changed, gone = changes.take()
    return {info.name for info in changed}, gone


def test_at_first_all_nodes_are_new(changes: PodChanges) -> None:
    assert take(changes) == ({"a", "b"}, [])


def test_nothing_has_happened(changes: PodChanges) -> None:
    take(changes)
    assert take(changes) == (set(), [])


def test_a_pod_comes_and_goes(world: Any, changes: PodChanges) -> None:
    take(changes)
    world.pod(name="q", on="b")
    assert take(changes) == ({"b"}, [])
    world.remove_pod("q")
    assert take(changes) == ({"b"}, [])


def test_a_pod_that_came_and_went_between_looks_is_not_seen(world: Any, changes: PodChanges) -> None:
    take(changes)
    world.pod(name="q", on="b")
    world.remove_pod("q")
    assert take(changes) == (set(), [])


def test_a_node_that_changes_without_its_pods_is_not_reported(world: Any, changes: PodChanges) -> None:
    take(changes)
    world.node("a", zone="z")
    world.settle()
    assert take(changes) == (set(), [])


def test_a_node_that_goes_is_named_once(world: Any, changes: PodChanges) -> None:
    take(changes)
    world.cluster.remove_node("b")
    world.settle()
    assert take(changes)[1] == ["b"]
    assert take(changes) == (set(), [])
