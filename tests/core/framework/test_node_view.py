"""One node as plugins of the SDK see it, in the cluster and in a hypothesis."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.core.framework.per_node import NodeView, NodeViews
from mooring.testing import make_cluster, make_node, make_node_view, make_pod


@pytest.fixture
def view() -> NodeView:
    return make_node_view(
        "a",
        make_pod("x", cpu="1", memory="1Gi"),
        make_pod("y", cpu="500m"),
        cpu="4",
        memory="8Gi",
        pods=10,
        labels={"disk": "ssd"},
        taints=["dedicated=gpu:NoSchedule"],
        images={"web:1": 5},
        allocatable={"example.com/gpu": 2},
        metadata={"annotations": {"owner": "ops"}},
        unschedulable=True,
    )


def test_what_the_node_object_says(view: NodeView) -> None:
    assert view.name == view.node.metadata.name == "a"
    assert view.labels["disk"] == "ssd" and view.annotations == {"owner": "ops"}
    assert [(taint.key, taint.value, taint.effect) for taint in view.taints] == [("dedicated", "gpu", "NoSchedule")]
    assert (view.unschedulable, view.images, view.allowed_pods) == (True, {"web:1"}, 10)


def test_amounts_by_resource(view: NodeView) -> None:
    assert (view.allocatable["cpu"], view.requested["cpu"], view.free("cpu")) == (4000, 1500, 2500)
    assert (view.allocatable["memory"], view.requested["memory"]) == (8 << 30, 1 << 30)
    assert (view.allocatable["example.com/gpu"], view.free("example.com/gpu")) == (2, 2)


def test_amounts_are_a_mapping(view: NodeView) -> None:
    assert view.allocatable.get("example.com/fpga") is None and "example.com/fpga" not in view.requested
    with pytest.raises(KeyError, match="fpga"):
        view.allocatable["example.com/fpga"]
    assert {"cpu", "memory", "example.com/gpu"} <= set(view.allocatable)
    assert len(view.allocatable) == len(list(view.allocatable)) == len(view.requested)
    assert dict(view.allocatable)["cpu"] == 4000


def test_pods_are_plain_pods(view: NodeView) -> None:
    assert [pod.name for pod in view.pods] == ["x", "y"]


def test_a_view_says_whose_it_is(view: NodeView) -> None:
    assert repr(view) == "NodeView(a)"


def test_a_view_can_be_made_of_a_node_that_is_there() -> None:
    node = make_node("b", labels={"zone": "north"})
    view = make_node_view(node)
    assert view.node is node and view.pods == []
    assert make_node_view().name == "node-1"


def test_the_pods_of_a_view_are_put_on_its_node() -> None:
    pod = make_pod("x", cpu="1")
    view = make_node_view("a", pod)
    assert [placed.spec.node_name for placed in view.pods] == ["a"]
    assert pod.spec.node_name == "", "the pod that was given stays as it is"


# ---- several -----------------------------------------------------------------------------------------------------


@pytest.fixture
def views() -> NodeViews:
    return NodeViews(make_cluster(*(make_node(name, cpu=str(i + 1)) for i, name in enumerate("abcd"))).snapshot())


@pytest.mark.parametrize(("position", "name"), [(0, "a"), (3, "d"), (-1, "d"), (-4, "a")])
def test_a_view_by_position(views: NodeViews, position: int, name: str) -> None:
    assert views[position].name == name


@pytest.mark.parametrize("position", [4, -5])
def test_a_position_that_is_not_there(views: NodeViews, position: int) -> None:
    with pytest.raises(IndexError):
        views[position]


def test_views_are_a_sequence(views: NodeViews) -> None:
    assert len(views) == 4 and [view.name for view in views] == list("abcd")
    assert [view.name for view in views[1:3]] == ["b", "c"]
    assert [view.name for view in reversed(views)] == list("dcba")


def test_views_of_some_rows_show_those_rows() -> None:
    cluster = make_cluster(*(make_node(name, cpu=str(i + 1)) for i, name in enumerate("abcd")))
    views = NodeViews(cluster.snapshot().subset(np.array([3, 1])))
    assert [(view.name, view.allocatable["cpu"]) for view in views] == [("d", 4000), ("b", 2000)]


def test_a_view_of_a_hypothesis_shows_the_hypothesis() -> None:
    cluster = make_cluster(make_node("a", cpu="4"), make_pod("x", node="a", cpu="1"))
    fork = cluster.fork()
    fork.put(make_pod("y", node="a", cpu="2"))
    view = NodeViews(fork.snapshot())[0]
    assert [pod.name for pod in view.pods] == ["x", "y"] and view.free("cpu") == 1000
    assert NodeViews(cluster.snapshot())[0].free("cpu") == 3000, "the cluster stays as it is"
