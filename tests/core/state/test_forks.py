"""A hypothesis about a cluster equals a cluster where it is really so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.core import Pod
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows
from mooring.testing import bound, make_cluster, make_node, make_pod

NODES = ("a", "b", "c")
SHAPES: list[dict[str, Any]] = [
    {},
    {"cpu": "100m", "memory": "1Mi"},
    {"requests": {"example.com/new": 3}},
    {"host_ports": [80]},
    {"cpu": "1", "host_ports": [81, 82]},
]


def numbered(number: int, shape: int) -> Pod:
    return make_pod(f"p{number}", **SHAPES[shape])


def columns(rows: NodeRows, resources: list[str]) -> dict[str, Any]:
    return {
        **{name: rows.requested(name).tolist() for name in resources},
        "matrix": rows.requested_of(tuple(resources)).tolist(),
        "non-zero": rows.non_zero_requested_of(("cpu", "memory")).tolist(),
        "non-zero cpu": rows.non_zero_requested("cpu").tolist(),
        "count": rows.pod_count.tolist(),
        "pods": [sorted(pod.uid for pod in rows.pods(i)) for i in range(len(rows))],
        **{f"port {n}": rows.port_conflicts([("0.0.0.0", "TCP", n)]).tolist() for n in (80, 81, 82)},
    }


RESOURCES = ["cpu", "memory", "ephemeral-storage", "example.com/new", "example.com/none"]
PLACED = st.lists(st.tuples(st.integers(0, len(SHAPES) - 1), st.sampled_from(NODES)), max_size=6)


@given(PLACED, st.lists(st.booleans(), min_size=6, max_size=6), PLACED, st.booleans())
def test_moving_pods_in_a_fork_equals_moving_them(
    placed: list[tuple[int, str]], stays: list[bool], added: list[tuple[int, str]], at_once: bool
) -> None:
    before = [bound(numbered(i, shape), node) for i, (shape, node) in enumerate(placed)]
    new = [bound(numbered(100 + i, shape), node) for i, (shape, node) in enumerate(added)]
    nodes = [make_node(name) for name in NODES]
    cluster, really = make_cluster(*nodes, *before), make_cluster(*nodes, *before)
    gone = [pod for pod, stay in zip(before, stays, strict=False) if not stay]
    for pod in gone:
        really.remove_pod(pod.uid)
    for pod in new:
        really.set_pod(pod)
    untouched = columns(cluster.nodes(), RESOURCES)
    fork = cluster.nodes().fork()
    _change(cluster, fork, gone, -1, at_once)
    _change(cluster, fork, new, 1, at_once)
    assert columns(fork, RESOURCES) == columns(really.nodes(), RESOURCES)
    assert columns(cluster.nodes(), RESOURCES) == untouched, "the cluster itself has not noticed"
    part = np.array([2, 0])
    assert columns(fork.subset(part), RESOURCES) == columns(really.nodes().subset(part), RESOURCES)
    assert columns(fork.fork(), RESOURCES) == columns(fork, RESOURCES)


def _change(cluster: ClusterState, fork: NodeRows, pods: list[Pod], sign: int, at_once: bool) -> None:
    moves = []
    for pod in pods:
        known = cluster.pod(pod.uid)
        moves.append((NODES.index(pod.spec.node_name), known or cluster.info(pod)))
    if at_once:
        fork.table.move_pods(moves, sign)
        return
    for row, info in moves:
        (fork.table.add_pod if sign > 0 else fork.table.remove_pod)(fork.table.infos[row], info)


def test_a_fork_of_a_fork_is_its_own() -> None:
    cluster = make_cluster(make_node("a"), make_pod("p", node="a", cpu="1", host_ports=[80]))
    first = cluster.nodes().fork()
    second = first.fork()
    (pod,) = cluster.pods()
    second.table.move_pods([(0, pod)], -1)
    assert (first.requested("cpu")[0], second.requested("cpu")[0]) == (1000, 0)
    assert first.port_conflicts([("0.0.0.0", "TCP", 80)])[0] and not second.port_conflicts([("0.0.0.0", "TCP", 80)])[0]
    assert list(first.moved_since(cluster.table)) == []
    assert list(second.moved_since(cluster.table)) == list(second.moved_since(first.table)) == [0]


def test_removing_a_missing_pod_is_a_mistake() -> None:
    cluster = make_cluster(make_node("a"), make_node("b"), make_pod("p", node="a"))
    (pod,) = cluster.pods()
    with pytest.raises(KeyError):
        cluster.nodes().fork().table.move_pods([(1, pod)], -1)


@pytest.mark.parametrize(
    ("positions", "at_once"),
    [
        pytest.param([1], False, id="one pod"),
        pytest.param([1], True, id="one pod among many moves"),
        pytest.param([0, 1], True, id="equal pods on several nodes"),
    ],
)
def test_columns_grow_for_a_new_resource(positions: list[int], at_once: bool) -> None:
    cluster = make_cluster(make_node("a"), make_node("b"))
    fork = cluster.nodes().fork()
    moves = [(i, cluster.info(make_pod(f"p{i}", requests={"example.com/late": 3}))) for i in positions]
    if at_once:
        fork.table.move_pods(moves, 1)
    else:
        for i, pod in moves:
            fork.table.add_pod(fork.table.infos[i], pod)
    assert fork.requested("example.com/late").tolist() == [3 * (i in positions) for i in range(2)]
