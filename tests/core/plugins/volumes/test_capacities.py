"""How much storage a class can still provide, per node."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.plugins.volumes.binding_plan import StorageCapacities, volume_limit
from mooring.core.plugins.volumes.node_topology import NodeTopology

ON_A = {"matchLabels": {"host": "a"}}
SOMEWHERE = {"matchExpressions": [{"key": "host", "operator": "Exists"}]}
NONSENSE = {"matchExpressions": [{"key": "host", "operator": "Odd"}]}


@pytest.fixture
def capacities(world: Any) -> StorageCapacities:
    for name in ("a", "b"):
        world.node(name)
    world.settle()
    return StorageCapacities(world.cluster.objects, NodeTopology(world.cluster))


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"capacity": "2"}, 2, id="what is free"),
        pytest.param({"capacity": "2", "maximumVolumeSize": "1"}, 1, id="the largest volume, if that is said"),
        pytest.param({"maximumVolumeSize": "1"}, 1, id="the largest volume alone"),
        pytest.param({}, None, id="nothing is said"),
        pytest.param({"capacity": "much"}, None, id="not a quantity"),
    ],
)
def test_the_largest_volume(world: Any, fields: dict[str, str], want: int | None) -> None:
    assert volume_limit(world.capacity("x", "fast", SOMEWHERE, **fields)) == want


@pytest.mark.parametrize(
    ("published", "want"),
    [
        pytest.param([], [-1, -1], id="nothing is published"),
        pytest.param([("fast", ON_A, "5")], [5, -1], id="one node"),
        pytest.param([("fast", ON_A, "5"), ("fast", SOMEWHERE, "3")], [5, 3], id="the most counts"),
        pytest.param([("slow", SOMEWHERE, "9")], [-1, -1], id="another class"),
        pytest.param([("fast", None, "9")], [-1, -1], id="without a topology it is nowhere"),
        pytest.param([("fast", NONSENSE, "9")], [-1, -1], id="a topology that does not parse is nowhere"),
    ],
)
def test_limits_by_node(
    world: Any, capacities: StorageCapacities, published: list[tuple[str, Any, str]], want: list[int]
) -> None:
    for i, (cls, topology, amount) in enumerate(published):
        world.capacity(f"x{i}", cls, topology, capacity=amount)
    assert capacities.limits("fast").tolist() == want


def test_limits_follow_capacities_and_nodes(world: Any, capacities: StorageCapacities) -> None:
    world.capacity("x", "fast", ON_A, capacity="5")
    assert capacities.limits("fast").tolist() == [5, -1]
    world.capacity("x", "fast", ON_A, capacity="7")
    assert capacities.limits("fast").tolist() == [7, -1]
    world.node("c", host="a")
    world.settle()
    assert capacities.limits("fast").tolist() == [7, -1, 7]


def test_the_first_that_is_large_enough_and_in_reach(world: Any, capacities: StorageCapacities) -> None:
    world.capacity("z", "fast", SOMEWHERE, capacity="9")
    world.capacity("y", "fast", ON_A, capacity="5")
    found = [capacities.reachable("fast", {"host": host}, size) for host, size in (("a", 5), ("b", 5), ("a", 10))]
    assert [None if each is None else each.name for each in found] == ["y", "z", None]
