"""Nodes as an extender sent them back: scored as they came, without pods and images, and the cluster unchanged."""

from __future__ import annotations

from typing import Any

from mooring.core.framework.extender import AnsweredNode
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import extender_rows
from mooring.testing import make_cluster, make_node, make_pod


def answered(*nodes: Any) -> list[AnsweredNode]:
    return [AnsweredNode.of(node, b"{}", -1) for node in nodes]


def world() -> ClusterState:
    cluster = make_cluster(
        make_node("a", images={"img": 10}), make_node("b"), make_pod("p", node="a", cpu="1", host_ports=[80])
    )
    cluster.nodes()
    return cluster


def test_they_have_neither_pods_nor_ports_nor_images() -> None:
    cluster = world()
    rows = extender_rows(cluster.table, answered(make_node("a", images={"img": 10})))
    assert rows.requested("cpu").tolist() == rows.pod_count.tolist() == [0]
    assert list(rows.pods(0)) == [] and not rows.port_conflicts([("0.0.0.0", "TCP", 80)]).any()
    assert rows.table.images.holders("img") == []
    assert list(rows.moved_since(cluster.table)) == [0]


def test_what_they_say_of_themselves_counts() -> None:
    cluster = world()
    changed = make_node("b", zone="new", cpu="64", taints=["k=v:NoSchedule"], unschedulable=True)
    rows = extender_rows(cluster.table, answered(changed, make_node("a")))
    assert [info.name for info in rows.infos] == ["b", "a"]
    assert rows.allocatable("cpu").tolist() == [64_000, 4_000]
    assert rows.unschedulable.tolist() == [True, False]
    assert [len(rows.taint_sets[i]) for i in rows.taint_set.tolist()] == [1, 0]
    zones = rows.label("topology.kubernetes.io/zone")
    assert [i >= 0 and zones.values[i] for i in rows.label_ids("topology.kubernetes.io/zone").tolist()] == [
        "new",
        False,
    ]


def test_a_node_that_the_cluster_does_not_know_is_a_row_like_others() -> None:
    cluster = world()
    rows = extender_rows(cluster.table, answered(make_node("stranger", cpu="2"), make_node("a")))
    assert rows.allocatable("cpu").tolist() == [2_000, 4_000]
    assert rows.subset(rows.rows[:0]).infos == []
    assert [info.name for info in cluster.nodes().infos] == ["a", "b"]


def test_the_cluster_is_as_before() -> None:
    cluster = world()
    extender_rows(cluster.table, answered(make_node("a", cpu="1"), make_node("new")))
    nodes = cluster.nodes()
    assert nodes.allocatable("cpu").tolist() == [4_000, 4_000]
    assert nodes.requested("cpu").tolist() == [1_000, 0]
