"""A cluster that people change and fork: what is in it, what a fork shares, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.core import Node, Pod
from mooring.api.errors import InputError
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.cluster import Cluster, as_cluster
from mooring.testing import make_node, make_object, make_pod

HOST = "kubernetes.io/hostname"


def small() -> Cluster:
    """Two nodes, a pod on each, and one that waits for a nominated node."""
    return Cluster(
        make_node("a"),
        make_node("b"),
        make_pod("x", node="a", cpu="1"),
        make_pod("y", namespace="shop", node="b", cpu="2"),
        make_pod("waits", namespace="shop", status={"nominatedNodeName": "b"}),
        make_object("PodDisruptionBudget", "keep", "shop"),
    )


def names(objects: list[Any]) -> list[str]:
    return [obj.key for obj in objects]


def contents(cluster: Cluster) -> tuple[Any, ...]:
    rows = cluster.state.nodes()
    return (
        names(cluster.nodes),
        names(cluster.pods),
        names(cluster.pending),
        [pod.spec.node_name for pod in cluster.pods],
        [node.spec.unschedulable for node in cluster.nodes],
        rows.requested("cpu").tolist(),
        sorted(cluster.nominations.nominated_nodes()),
        sorted(obj.key for obj in cluster.state.objects),
    )


def test_what_is_in_it() -> None:
    cluster = small()
    assert names(cluster.nodes) == ["a", "b"]
    assert names(cluster.pods) == ["default/x", "shop/y"]
    assert names(cluster.pending) == ["shop/waits"]
    assert cluster.nominations.nominated_nodes() == {"b"}
    assert repr(cluster) == "<Cluster: 2 nodes, 2 pods, 1 pending>"


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        pytest.param("node/a", Node, id="a node"),
        pytest.param("pod/shop/y", Pod, id="a pod of a namespace"),
        pytest.param("pod/x", Pod, id="a pod of the default namespace"),
        pytest.param("pods/shop/waits", Pod, id="a pod that waits"),
        pytest.param("pdb/shop/keep", PodDisruptionBudget, id="any other kind, by its short name"),
    ],
)
def test_get(reference: str, kind: type) -> None:
    found = small().get(reference)
    assert isinstance(found, kind)
    assert found.name == reference.rpartition("/")[2]


@pytest.mark.parametrize("reference", ["shop/y", "pod/shop/y", "shop/waits", "node/a", "pdb/shop/keep"])
def test_an_object_by_its_name(reference: str) -> None:
    cluster = small()
    assert reference in cluster
    found = cluster[reference]
    assert reference.endswith(found.key) and found == cluster[reference] and found is not cluster[reference]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        pytest.param("node/c", "no node c in the cluster", id="no such node"),
        pytest.param("shop/z", "no node or pod shop/z in the cluster", id="no such pod"),
        pytest.param(0, "found 0; expected a name", id="a number"),
    ],
)
def test_a_name_that_is_not_there(reference: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        small()[reference]
    assert not isinstance(reference, str) or reference not in small()


def test_what_get_returns_can_be_changed_and_added_again() -> None:
    cluster = small()
    node = cluster.get("node/a")
    node.metadata.labels["disk"] = "ssd"
    assert "disk" not in cluster.nodes[0].labels, "it is a copy"
    cluster.add(node)
    assert cluster.nodes[0].labels["disk"] == "ssd"
    node.metadata.labels["disk"] = "hdd"
    assert cluster.nodes[0].labels["disk"] == "ssd", "add copies it, too"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda c: c.get("node/aa"), "no node aa in the cluster; did you mean a?", id="a similar name"),
        pytest.param(
            lambda c: c.get("pod/default/y"),
            "no pod default/y in the cluster; did you mean shop/y?",
            id="another namespace",
        ),
        pytest.param(
            lambda c: c.remove("pvc/data"),
            "no persistentvolumeclaim default/data in the cluster; there are none",
            id="none",
        ),
        pytest.param(lambda c: c.cordon("zzz"), "no node zzz in the cluster; there are 2", id="like no other"),
        pytest.param(
            lambda c: c.add(7), "found 7; expected a path, a manifest as a dict, or the bytes of one", id="a number"
        ),
        pytest.param(
            lambda c: c.add([1] * 9_999), "found a list; expected its items one by one: add * before it", id="a list"
        ),
        pytest.param(
            lambda c: c.add({*range(99)}),
            "found {0, 1, 2, 3, 4, 5, ...}; expected a path, a manifest as a dict, or the bytes of one",
            id="much else",
        ),
        pytest.param(
            lambda c: as_cluster(c.state), "expected a Cluster, such as mooring.load(path) makes", id="the core's"
        ),
    ],
)
def test_what_is_not_there(change: Callable[[Cluster], object], message: str) -> None:
    cluster = small()
    before = contents(cluster)
    with pytest.raises(InputError) as raised:
        change(cluster)
    assert str(raised.value).endswith(message)
    assert contents(cluster) == before


# ---- adding ------------------------------------------------------------------------------------------------------


def test_copies_get_names_and_uids_of_their_own() -> None:
    cluster = small()
    added = cluster.add(cluster.get("node/a"), copies=3)
    assert names(added) == ["a-1", "a-2", "a-3"]
    assert names(cluster.nodes) == ["a", "b", "a-1", "a-2", "a-3"]
    assert [node.labels[HOST] for node in cluster.nodes] == ["a", "b", "a-1", "a-2", "a-3"]
    assert len({node.uid for node in cluster.nodes}) == 5
    assert names(cluster.add(cluster.get("node/a"), copies=1)) == ["a-4"], "names that are taken are passed over"


def test_copies_of_a_pod_wait_if_it_waits() -> None:
    cluster = small()
    added = cluster.add(make_pod("job", cpu="1"), copies=2)
    assert names(added) == ["default/job-1", "default/job-2"]
    assert names(cluster.pending) == ["shop/waits", "default/job-1", "default/job-2"]
    assert len({pod.uid for pod in cluster.pending}) == 3


def test_a_manifest_is_completed_as_a_server_would(tmp_path: Path) -> None:
    cluster = Cluster(make_node("a"), make_object("PriorityClass", "high", value=1000))
    cluster.add({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"priorityClassName": "high", "containers": []}})
    file = tmp_path / "q.yaml"
    file.write_text("kind: Pod\nmetadata: {name: q}\nspec: {priorityClassName: high, containers: []}")
    cluster.add(file)
    assert [(pod.key, pod.spec.priority) for pod in cluster.pending] == [("default/p", 1000), ("default/q", 1000)]


def test_a_field_that_kubernetes_does_not_know_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="tolerationz.*did you mean tolerations"):
        Cluster({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [], "tolerationz": []}})


@pytest.mark.parametrize(
    ("change", "pods", "pending"),
    [
        pytest.param(make_pod("x"), ["shop/y"], ["shop/waits", "default/x"], id="a pod leaves its node"),
        pytest.param(make_pod("x", node="b"), ["default/x", "shop/y"], ["shop/waits"], id="a pod moves"),
        pytest.param(
            make_pod("x", uid="other", node="b"), ["shop/y", "default/x"], ["shop/waits"], id="another of the same name"
        ),
        pytest.param(
            make_pod("x", node="a", status={"phase": "Succeeded"}), ["shop/y"], ["shop/waits"], id="a pod finishes"
        ),
        pytest.param(
            make_pod("waits", namespace="shop", node="b"),
            ["default/x", "shop/y", "shop/waits"],
            [],
            id="a pod is bound",
        ),
    ],
)
def test_adding_replaces_what_has_the_same_name(change: Pod, pods: list[str], pending: list[str]) -> None:
    cluster = small()
    cluster.add(change)
    assert (sorted(names(cluster.pods)), sorted(names(cluster.pending))) == (sorted(pods), sorted(pending))
    assert sorted(info.pod.key for info in cluster.state.pods()) == sorted(pods), "the engine sees the same"


# ---- removing and cordoning --------------------------------------------------------------------------------------


def test_the_pods_of_a_node_go_with_it() -> None:
    cluster = small()
    cluster.remove("node/b")
    assert (names(cluster.nodes), names(cluster.pods)) == (["a"], ["default/x"])
    assert len(cluster.state.pods()) == 1


def test_a_pod_that_waits_takes_its_nomination_along() -> None:
    cluster = small()
    cluster.remove(cluster.pending[0])
    assert cluster.pending == [] and not cluster.nominations.nominated_nodes()


def test_other_objects_are_removed() -> None:
    cluster = small()
    cluster.remove("poddisruptionbudget/shop/keep")
    assert list(cluster.state.objects) == []


def test_cordon_and_uncordon() -> None:
    cluster = small()
    cluster.cordon("a", "b")
    assert cluster.state.nodes().unschedulable.tolist() == [True, True]
    cluster.uncordon("b")
    assert [node.spec.unschedulable for node in cluster.nodes] == [True, False]


# ---- forks -------------------------------------------------------------------------------------------------------

CHANGES: list[Callable[[Cluster], object]] = [
    lambda c: c.cordon("a"),
    lambda c: c.add(make_node("new"), copies=2),
    lambda c: c.add(make_pod("late", node="a", cpu="1")),
    lambda c: c.remove("pod/shop/y"),
    lambda c: c.remove("pod/shop/waits"),
    lambda c: c.remove("node/b"),
    lambda c: c.remove("pdb/shop/keep"),
    lambda c: c.bind(c.pending[0], "a"),
    lambda c: c.add(make_pod("next", status={"nominatedNodeName": "a"})),
]


def _tried(change: Callable[[Cluster], object], cluster: Cluster) -> None:
    with suppress(InputError, IndexError):  # what an earlier change has removed
        change(cluster)


@given(st.lists(st.sampled_from(CHANGES), max_size=4), st.lists(st.sampled_from(CHANGES), max_size=4))
def test_neither_a_fork_nor_its_parent_sees_what_happens_to_the_other(
    to_fork: list[Callable[[Cluster], object]], to_parent: list[Callable[[Cluster], object]]
) -> None:
    parent, wanted = small(), small()
    with parent.fork() as fork:
        before = contents(parent)
        assert contents(fork) == before
        for change in to_fork:
            _tried(change, fork)
        assert contents(parent) == before
        changed = contents(fork)
        for change in to_parent:
            _tried(change, parent)
        assert contents(fork) == changed
    for change in to_fork:
        _tried(change, wanted)
    assert contents(wanted) == changed


# ---- how it looks ------------------------------------------------------------------------------------------------


def test_a_table_of_nodes() -> None:
    cluster = small()
    cluster.cordon("b")
    assert cluster.table().text().splitlines() == [
        "node   pods       cpu      memory",
        "a      1 of 110   1 of 4   0 of 8Gi",
        "b      1 of 110   2 of 4   0 of 8Gi   cordoned",
    ]
    assert "<td>cordoned</td>" in cluster._repr_html_()


def test_a_cluster_is_a_collection_of_its_objects() -> None:
    cluster = small()
    assert len(cluster) == len(list(cluster)) == 6 and Cluster()
    assert all(reference in cluster for reference in cluster)
    assert [cluster[name].key for name in ("a", "x", "shop/y", "node/b")] == ["a", "default/x", "shop/y", "b"]


@pytest.mark.parametrize("name", ["shop/z", "z"])
def test_a_missing_object_is_reported(name: str) -> None:
    with pytest.raises(InputError, match=f"no node or pod {name} in the cluster"):
        small()[name]


@pytest.mark.parametrize(("name", "says"), [
    pytest.param("explain", r"a Cluster has no 'explain'; ask mooring.explain\(cluster, …\)", id="a question"),
    pytest.param("place", r"ask mooring.Scheduler\(cluster\).place\(pod\)", id="a scheduler's question"),
    pytest.param("nothing", "a Cluster has no 'nothing'$", id="nothing"),
])  # fmt: skip
def test_questions_that_are_asked_elsewhere(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        getattr(small(), name)


def test_another_process_gets_the_same_cluster() -> None:
    cluster = small().take_over([make_pod("z", node="a", host_ports=[80]), make_object("PriorityClass", "high")])
    cluster.remove("pod/default/x")
    cluster.add(make_pod("x", node="b"))  # added again, and so the last one
    sent = pickle.loads(pickle.dumps(cluster))
    assert list(sent) == list(cluster) and sent.table().rows == cluster.table().rows
    for one, other in ((sent, cluster), (sent.fork(), cluster.fork())):
        assert [list(info.pods) for info in one.state.nodes().infos] == [
            list(info.pods) for info in other.state.nodes().infos
        ]
        assert [(node, pod.uid) for node, pod in one.nominations.all()] == [
            (node, pod.uid) for node, pod in other.nominations.all()
        ]
