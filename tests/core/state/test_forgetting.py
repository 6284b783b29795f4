"""Label values and sets of taints that no node has any more are forgotten; what nodes have keeps its meaning."""

from __future__ import annotations

import pytest

from mooring.core.state import node_table
from mooring.testing import make_cluster, make_node

HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"


@pytest.fixture(autouse=True)
def little_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_table, "SLACK", 2)


def _read(cluster, key):
    """The label of every node, as the columns have it."""
    nodes = cluster.nodes()
    column = nodes.label(key)
    ids = nodes.label_ids(key).tolist()
    return {info.name: None if i < 0 else column.values[i] for info, i in zip(nodes.infos, ids, strict=True)}


def _taints(cluster):
    nodes = cluster.nodes()
    sets = [nodes.taint_sets[i] for i in nodes.taint_set.tolist()]
    return {info.name: [t.value for t in taints] for info, taints in zip(nodes.infos, sets, strict=True)}


def test_names_of_nodes_that_are_gone_do_not_pile_up_in_a_column():
    cluster = make_cluster(make_node("stays", labels={HOSTNAME: "stays", ZONE: "z"}), make_node("bare"))
    for i in range(50):
        name = f"node-{i}"
        cluster.set_node(make_node(name, labels={HOSTNAME: name}))
        want = {"stays": "stays", "bare": "bare", name: name}
        assert _read(cluster, HOSTNAME) == want
        assert _read(cluster, ZONE) == {"stays": "z", "bare": None, name: None}
        column = cluster.nodes().label(HOSTNAME)
        assert len(column.values) <= 2 * 3 + 2 + 1
        assert [column.id_of(value) for value in want.values()] == [column.values.index(v) for v in want.values()]
        assert column.id_of(f"node-{i - 20}") == -2 or i < 20, "a value that is gone equals none"
        cluster.remove_node(name)


def test_a_label_that_changes_all_the_time_does_not_pile_up_either():
    cluster = make_cluster(make_node("a", labels={ZONE: "0"}), make_node("b", labels={ZONE: "b"}))
    for i in range(50):
        cluster.set_node(make_node("a", labels={ZONE: str(i)}))
        assert _read(cluster, ZONE) == {"a": str(i), "b": "b"}
    assert len(cluster.nodes().label(ZONE).values) <= 2 * 2 + 2 + 1


def test_taints_that_say_when_they_were_set_do_not_pile_up():
    """As cluster-autoscaler's do: ToBeDeletedByClusterAutoscaler=<seconds>."""
    cluster = make_cluster(make_node("a"), make_node("b", taints=["team=b:NoSchedule"]), make_node("c"))
    for i in range(50):
        cluster.set_node(make_node("a", taints=[f"to-be-deleted={i}:NoSchedule"]))
        assert _taints(cluster) == {"a": [str(i)], "b": ["b"], "c": []}
        assert cluster.nodes().taint_sets[0] == ()
        assert len(cluster.nodes().taint_sets) <= 2 * 3 + 2 + 1
        cluster.set_node(make_node("a"))
        assert _taints(cluster) == {"a": [], "b": ["b"], "c": []}
