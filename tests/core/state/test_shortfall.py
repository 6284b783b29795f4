"""How much is missing on nodes, and which of them is closest to having room."""

from __future__ import annotations

import pytest

from mooring.core.state.node_rows import distance, shortfalls
from mooring.testing import make_cluster, make_node, make_pod

CLUSTER = make_cluster(
    make_node("empty"),
    make_node("half"),
    make_node("full", pods=1),
    make_pod("x", node="half", cpu="2"),
    make_pod("y", node="full", cpu="4"),
)


@pytest.mark.parametrize(
    ("requests", "want"),
    [
        pytest.param({"cpu": 1000}, {"cpu": [0, 0, 1000]}, id="there is room on some"),
        pytest.param({"cpu": 5000}, {"cpu": [1000, 3000, 5000]}, id="there is room on none"),
        pytest.param({"example.com/gpu": 2}, {"example.com/gpu": [2, 2, 2]}, id="no node has it"),
        pytest.param({"cpu": 0}, {}, id="nothing is asked for"),
    ],
)
def test_shortfalls(requests: dict[str, int], want: dict[str, list[int]]) -> None:
    assert {name: column.tolist() for name, column in shortfalls(requests, CLUSTER.nodes()).items()} == want


@pytest.mark.parametrize(
    ("requests", "want"),
    [
        pytest.param({"cpu": 5000}, [0.2, 0.6, 1.5], id="as shares of the request, and one more pod does not fit"),
        pytest.param({}, [0.0, 0.0, 0.5], id="a pod that asks for nothing"),
    ],
)
def test_distance(requests: dict[str, int], want: list[float]) -> None:
    assert distance(requests, CLUSTER.nodes()).tolist() == pytest.approx(want)
