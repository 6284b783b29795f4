"""The facts behind refusals: labels as they are, pods that are missing, and how much is free."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import Pod
from mooring.core.config.load import default_config
from mooring.core.explain.why import explain_pod
from mooring.core.session import open_session
from mooring.testing import bound, make_cluster, make_node, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def facts_about(pod: Pod, *objects: Any) -> list[str]:
    session = open_session(default_config(), make_cluster(*objects))
    return explain_pod(session, pod, suggest=False).notes


def node_affinity(key: str, operator: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def pod_affinity(topology_key: str, **labels: str) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: [{"topologyKey": topology_key, "labelSelector": {"matchLabels": labels}}]}}


DISKS = [make_node(f"n{i}", labels={"disk": "ssd" if i < 4 else "hdd"}) for i in range(10)]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"nodeSelector": {"disk": "sdd"}}, ["disk is hdd on 6 nodes, ssd on 4"], id="a misspelt value"),
        pytest.param(
            {"nodeSelector": {"dissk": "ssd"}}, ["no node has the label dissk; did you mean disk?"], id="a key"
        ),
        pytest.param({"nodeSelector": {"rack": "1"}}, ["no node has the label rack"], id="a key like no other"),
        pytest.param(
            {"affinity": node_affinity("disk", "In", "nvme", "sdd")},
            ["disk is hdd on 6 nodes, ssd on 4"],
            id="an expression",
        ),
        pytest.param({"affinity": node_affinity("gpu", "Exists")}, ["no node has the label gpu"], id="Exists"),
        pytest.param({"affinity": node_affinity("gpu", "Gt", "1")}, ["no node has the label gpu"], id="Gt"),
        pytest.param(
            {"nodeSelector": {"disk": "ssd"}, "affinity": node_affinity("disk", "In", "hdd")},
            [],
            id="each is there, only not together",
        ),
    ],
)
def test_labels_of_nodes(spec: dict[str, Any], want: list[str]) -> None:
    assert facts_about(make_pod("web", spec=spec), *DISKS) == want


def test_an_affinity_to_pods_that_are_not_there() -> None:
    pod = make_pod("web", spec={"affinity": pod_affinity("kubernetes.io/hostname", app="cache")})
    assert facts_about(pod, *DISKS) == ["no pod has app=cache"]


def test_an_affinity_to_pods_of_another_namespace() -> None:
    cache = bound(make_pod("cache", namespace="shop", labels={"app": "cache"}), "n1")
    pod = make_pod("web", spec={"affinity": pod_affinity("kubernetes.io/hostname", app="cache")})
    assert facts_about(pod, *DISKS, cache) == ["pods with app=cache are only in the namespace shop"]


def test_an_affinity_by_a_label_that_nodes_lack() -> None:
    cache = bound(make_pod("cache", labels={"app": "cache"}), "n1")
    pod = make_pod("web", spec={"affinity": pod_affinity("rack", app="cache")})
    assert facts_about(pod, *DISKS, cache) == ["no node has the label rack"]


@pytest.mark.parametrize(
    ("racks", "want"),
    [
        pytest.param(0, ["no node has the label rack"], id="on no node"),
        pytest.param(1, ["2 of 3 nodes without the label rack"], id="on some nodes"),
    ],
)
def test_spreading_over_a_label_that_nodes_lack(racks: int, want: list[str]) -> None:
    nodes = [
        make_node(f"n{i}", labels={"rack": str(i)} if i < racks else {}, unschedulable=i < racks) for i in range(3)
    ]
    constraint = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    assert facts_about(make_pod("web", spec={"topologySpreadConstraints": [constraint]}), *nodes) == want


@pytest.mark.parametrize(
    ("requests", "want"),
    [
        pytest.param({"cpu": "3600m"}, ["cpu: 3600m asked for, at most 3500m free (on a)"], id="cpu"),
        pytest.param({"memory": "20Gi"}, ["memory: 20Gi asked for, at most 16Gi free (on b)"], id="memory"),
        pytest.param({"example.com/gpu": "1"}, ["no example.com/gpu at all on 2 nodes"], id="nothing of the kind"),
        pytest.param(
            {"cpu": "5", "memory": "20Gi"},
            ["cpu: 5 asked for, at most 3500m free (on a)", "memory: 20Gi asked for, at most 16Gi free (on b)"],
            id="two together",
        ),
    ],
)
def test_how_much_is_free(requests: dict[str, str], want: list[str]) -> None:
    nodes = [make_node(name, cpu="4", memory="16Gi") for name in "ab"]
    runs = [bound(make_pod("x", cpu="500m"), "a"), bound(make_pod("y", cpu="1"), "b")]
    pod = make_pod("web", spec={"containers": [{"name": "main", "resources": {"requests": requests}}]})
    assert facts_about(pod, *nodes, *runs) == want


def test_an_overfilled_node_has_nothing_free() -> None:
    fact = facts_about(make_pod("web", cpu="1"), make_node("a", cpu="1"), bound(make_pod("x", cpu="3"), "a"))
    assert fact == ["cpu: 1 asked for, at most 0 free (on a)"]


def test_a_cluster_without_nodes() -> None:
    assert facts_about(make_pod("web")) == ["the cluster has no Node objects"]


def test_a_pod_that_is_placed_needs_no_facts() -> None:
    assert facts_about(make_pod("web", spec={"nodeSelector": {"disk": "ssd"}}), *DISKS) == []
