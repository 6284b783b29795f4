"""Assume, confirm, forget; and every order in which a watch can deliver things."""

from __future__ import annotations

import pytest

from mooring.core.state.cluster import ClusterState
from mooring.core.state.sharing import EVERYTHING
from mooring.testing import bound, make_cluster, make_node, make_pod


def requested(cluster: ClusterState, node: str, resource: str = "cpu") -> int:
    rows = cluster.nodes()
    return int(rows.requested(resource)[[info.name for info in rows.infos].index(node)])


def test_an_assumed_pod_counts_immediately() -> None:
    cluster = make_cluster(make_node("a"))
    waiting = cluster.info(make_pod("p", cpu="1"))
    placed = cluster.assume(waiting, "a")
    assert cluster.is_assumed(placed.uid) and requested(cluster, "a") == 1000
    assert waiting.pod.spec.node_name == "" and placed.pod.spec.node_name == "a"


def test_confirming_counts_nothing_twice() -> None:
    cluster = make_cluster(make_node("a"))
    pod = make_pod("p", cpu="1")
    cluster.assume(cluster.info(pod), "a")
    cluster.set_pod(bound(pod, "a"))
    assert not cluster.is_assumed(pod.uid) and requested(cluster, "a") == 1000
    cluster.forget(pod.uid)
    assert requested(cluster, "a") == 1000, "a confirmed pod stays"


def test_confirming_on_another_node_moves_the_pod() -> None:
    cluster = make_cluster(make_node("a"), make_node("b"))
    pod = make_pod("p", cpu="1")
    cluster.assume(cluster.info(pod), "a")
    cluster.set_pod(bound(pod, "b"))
    assert (requested(cluster, "a"), requested(cluster, "b")) == (0, 1000)


def test_an_update_of_the_waiting_pod_does_not_undo_the_assumption() -> None:
    cluster = make_cluster(make_node("a"))
    pod = make_pod("p", cpu="1")
    cluster.assume(cluster.info(pod), "a")
    cluster.set_pod(make_pod("p", cpu="1", labels={"new": "label"}))
    assert cluster.is_assumed(pod.uid) and requested(cluster, "a") == 1000


def test_forgetting_takes_the_assumption_back() -> None:
    cluster = make_cluster(make_node("a"))
    pod = make_pod("p", cpu="1")
    cluster.assume(cluster.info(pod), "a")
    cluster.forget(pod.uid)
    assert cluster.pod(pod.uid) is None and requested(cluster, "a") == 0
    cluster.forget(pod.uid)
    cluster.forget("never heard of")


def test_trap_40_assumed_pods_never_expire() -> None:
    cluster = make_cluster(make_node("a"))
    cluster.assume(cluster.info(make_pod("p", cpu="1")), "a")
    for i in range(200):
        cluster.set_pod(make_pod(f"other-{i}", node="a"))
        cluster.remove_pod(f"uid-default-other-{i}")
        cluster.nodes()
    assert requested(cluster, "a") == 1000


def test_assuming_twice_is_a_mistake() -> None:
    cluster = make_cluster(make_node("a"), make_pod("p", node="a"))
    with pytest.raises(ValueError, match="default/p is already counted on a"):
        cluster.assume(cluster.info(make_pod("p")), "a")


def test_a_pod_may_come_before_its_node() -> None:
    cluster = make_cluster(make_pod("p", node="late", cpu="1", host_ports=[80]))
    assert len(cluster.nodes()) == 0
    cluster.set_node(make_node("late"))
    assert requested(cluster, "late") == 1000
    assert cluster.nodes().port_conflicts([("0.0.0.0", "TCP", 80)]).tolist() == [True]


def test_a_deleted_node_keeps_its_pods_until_they_go() -> None:
    cluster = make_cluster(make_node("a"), make_pod("p", node="a", cpu="1"))
    cluster.remove_node("a")
    assert len(cluster.nodes()) == 0 and cluster.pod("uid-default-p") is not None
    cluster.set_node(make_node("a"))
    assert requested(cluster, "a") == 1000
    cluster.remove_node("a")
    cluster.remove_pod("uid-default-p")
    assert "a" not in cluster.table.nodes, "nothing is left of a node without pods"


def test_a_node_that_comes_back_before_the_next_snapshot_is_the_new_one() -> None:
    cluster = make_cluster(make_node("a", cpu="4"), make_node("b"), make_pod("p", node="a", cpu="1"))
    cluster.nodes()
    cluster.remove_node("a")
    cluster.set_node(make_node("a", cpu="8", taints=["k=v:NoSchedule"]))
    rows = cluster.nodes()
    assert [info.name for info in rows.infos] == ["b", "a"], "it counts as new in the node tree as well"
    assert rows.allocatable("cpu").tolist() == [4000, 8000]
    assert rows.requested("cpu").tolist() == [0, 1000]
    assert len(rows.taint_sets[rows.taint_set[1]]) == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_does_not_count(phase: str) -> None:
    cluster = make_cluster(make_node("a"), make_pod("p", node="a", cpu="1", status={"phase": phase}))
    assert requested(cluster, "a") == 0
    cluster.set_pod(make_pod("q", node="a", cpu="1"))
    cluster.set_pod(make_pod("q", node="a", cpu="1", status={"phase": phase}))
    assert requested(cluster, "a") == 0


def test_a_terminating_pod_counts() -> None:
    going = make_pod("p", node="a", cpu="1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert requested(make_cluster(make_node("a"), going), "a") == 1000


def test_what_is_unknown_can_be_removed() -> None:
    cluster = make_cluster(make_node("a"))
    cluster.remove_pod("nobody")
    cluster.remove_node("nowhere")
    assert len(cluster.nodes()) == 1


def test_a_resize_is_recounted() -> None:
    cluster = make_cluster(make_node("a"), make_pod("p", node="a", cpu="1"))
    cluster.set_pod(make_pod("p", node="a", cpu="2"))
    assert requested(cluster, "a") == 2000
    cluster.set_pod(make_pod("p", node="a", cpu="2", status={
        "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}))  # fmt: skip
    assert requested(cluster, "a") == 3000


def test_an_equal_update_of_a_pod_refreshes_its_nodes_image_counts() -> None:
    """Upstream takes an updated pod out and puts it back in; the node then counts as changed."""
    cluster = make_cluster(make_node("a", images={"img": 10}), make_pod("p", node="a"))
    cluster.nodes()
    cluster.set_node(make_node("b", images={"img": 10}))
    cluster.nodes()

    def on_how_many(node: str) -> int:
        return {name: number for name, _, number in cluster.table.images.holders("img")}[node]

    assert (on_how_many("a"), on_how_many("b")) == (1, 2), "a's number is frozen until a itself changes"
    cluster.set_pod(make_pod("p", node="a"))
    cluster.nodes()
    assert on_how_many("a") == 2


def test_an_images_size_is_what_the_first_node_said() -> None:
    cluster = make_cluster(make_node("a", images={"img": 10}), make_node("b", images={"img": 99}))
    cluster.nodes()
    assert {name: size for name, size, _ in cluster.table.images.holders("img")} == {"a": 10, "b": 10}
    cluster.remove_node("a")
    cluster.remove_node("b")
    cluster.set_node(make_node("b", images={"img": 99}))
    cluster.nodes()
    assert [size for _, size, _ in cluster.table.images.holders("img")] == [99], (
        "after its last node is gone, it starts anew"
    )


def test_of_two_pods_with_one_host_port_the_first_to_go_takes_it_along() -> None:
    cluster = make_cluster(
        make_node("a"), make_pod("p", node="a", host_ports=[80]), make_pod("q", node="a", host_ports=[80])
    )
    cluster.remove_pod("uid-default-p")
    assert not cluster.nodes().port_conflicts([("0.0.0.0", "TCP", 80)]).any()


def test_a_bad_quantity_in_a_node_is_remembered_not_raised() -> None:
    cluster = make_cluster(make_node("a", cpu="plenty", memory="1Gi"))
    rows = cluster.nodes()
    assert rows.allocatable("cpu").tolist() == [0] and rows.allocatable("memory").tolist() == [2**30]
    assert cluster.table.problems["a"].startswith("status.allocatable[cpu]: 'plenty' is not a quantity")
    cluster.set_node(make_node("a"))
    assert not cluster.table.problems


def test_pods_of_one_template_share_their_shape_and_parts() -> None:
    cluster = make_cluster(make_node("a"))
    one, two = (cluster.info(make_pod(f"p{i}", cpu="1", labels={"app": "x"})) for i in range(2))
    assert one.shape is two.shape and one.cls is two.cls
    assert one.pod.spec.containers is two.pod.spec.containers
    other = cluster.info(make_pod("q", cpu="2", labels={"app": "x"}))
    assert other.shape is not one.shape and other.cls is one.cls


def test_logs_name_the_rows_that_changed() -> None:
    cluster = make_cluster(make_node("a"), make_node("b"))
    cluster.nodes()
    nodes, pods = cluster.table.node_log.cursor(), cluster.table.pod_log.cursor()
    nodes.take(), pods.take()
    cluster.set_pod(make_pod("p", node="b"))
    cluster.set_node(make_node("a", labels={"x": "y"}))
    assert (pods.take(), nodes.take()) == ([1], [0])
    cluster.set_node(make_node("c"))
    cluster.nodes()
    assert (pods.take(), nodes.take()) == (EVERYTHING, EVERYTHING), "rows moved"
