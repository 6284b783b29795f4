"""Questions change nothing: afterwards a cluster behaves as one without questions."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Node, Pod
from mooring.core.config.load import default_config
from mooring.core.explain.remedies import Change, WhatIf
from mooring.core.explain.why import explain_pod
from mooring.core.session import Session, open_session
from mooring.core.state.cluster import ClusterState
from mooring.testing import make_cluster, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"


def built_on(cluster: ClusterState) -> Session:
    return open_session(default_config(), cluster)


def contents(cluster: ClusterState) -> dict[str, Any]:
    """What a cluster holds, as plain values: objects, columns, and what is assumed."""
    rows = cluster.nodes()
    table = rows.table
    columns = {name: value.tolist() for name, value in vars(table).items() if isinstance(value, np.ndarray)}
    return {
        **columns,
        "nodes": [msgspec.to_builtins(info.node) for info in rows.infos],
        "pods on nodes": [[pod.uid for pod in rows.pods(i)] for i in range(len(rows))],
        "pods": [msgspec.to_builtins(pod.pod) for pod in cluster.pods()],
        "assumed": [pod.uid for pod in cluster.pods() if cluster.is_assumed(pod.uid)],
        "claims in use": dict(cluster.claim_users),
        "port users": {port: set(users) for port, users in table.port_users.items()},
    }


def relabel(node: str, key: str, value: str) -> Change:
    def edit_node(changed: Node) -> None:
        changed.metadata.labels = {**changed.metadata.labels, key: value}

    return Change(f"label {key}={value} on {node}", "label", 1.0, node=node, edit_node=edit_node)


def test_an_assumed_pod_stays_assumed_after_an_explanation() -> None:
    cluster = make_cluster(make_node("a", cpu=4))
    assumed = cluster.assume(cluster.info(make_pod("running", cpu="3")), "a")
    found = explain_pod(built_on(cluster), make_pod("web", cpu="2"))
    assert "without pod default/running on a" in [suggestion.text for suggestion in found.suggestions]
    assert cluster.is_assumed(assumed.uid)
    cluster.forget(assumed.uid)
    assert cluster.pods() == []


def test_asking_about_a_zone_label_does_not_reorder_the_nodes() -> None:
    def nodes() -> list[Node]:
        return [make_node(f"n{i}", zone=zone, cpu=8 if i == 0 else 4) for i, zone in enumerate("xyxy")]

    asked, untouched = make_cluster(*nodes()), make_cluster(*nodes())
    pod = make_pod("web", cpu="5", spec={"nodeSelector": {ZONE: "z"}})
    found = explain_pod(built_on(asked), pod)
    assert found.suggestions[0].changes == (f"label {ZONE}=z on n0",)
    for cluster in (asked, untouched):
        cluster.set_node(make_node("n4", zone="x"))
    order = [info.name for info in untouched.nodes().infos]
    assert [info.name for info in asked.nodes().infos] == order
    choices = [
        session.engine.decide(session.handle.cluster.info(make_pod("next")), session.profiles["default-scheduler"]).node
        for session in (built_on(asked), built_on(untouched))
    ]
    assert choices[0] == choices[1]


def test_rows_may_move_on_a_fork_and_refusals_are_found_by_name() -> None:
    cluster = make_cluster(*(make_node(f"n{i}", zone="xy"[i % 2], cpu=1 + i) for i in range(4)))
    what_if = WhatIf(built_on(cluster), "default-scheduler", make_pod("web", cpu="3500m"))
    answer = what_if.ask((relabel("n0", ZONE, "z"),))
    names = [info.name for info in answer.cluster.nodes().infos]
    assert names != [info.name for info in cluster.nodes().infos]
    assert answer.nodes == ("n3",)
    assert [name for name in names if answer.refusal(name) is None] == ["n3"]


def test_a_question_about_the_pod_alone_needs_no_fork() -> None:
    cluster = make_cluster(make_node("a"))
    what_if = WhatIf(built_on(cluster), "default-scheduler", make_pod("web"))
    assert what_if.ask().cluster is cluster
    assert what_if.ask((Change("more", "request", 1.0, edit=_ask_for_much),)).cluster is cluster
    assert what_if.ask((relabel("a", "disk", "ssd"),)).cluster is not cluster


def _ask_for_much(pod: Pod) -> None:
    pod.spec.containers[0].resources.requests["cpu"] = "100"


# ---- random clusters ---------------------------------------------------------------------------------------------

NODES = st.lists(
    st.builds(
        lambda zone, cpu, taint, cordoned, pods: {
            "zone": zone,
            "cpu": cpu,
            "taints": ["dedicated=gpu:NoSchedule"] if taint else [],
            "unschedulable": cordoned,
            "pods": pods,
        },
        st.sampled_from(["", "x", "y"]),
        st.integers(1, 4),
        st.booleans(),
        st.booleans(),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=5,
)
RUNNING = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["web", "db"]), st.integers(0, 3), st.booleans()), max_size=6
)
_TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
_AWAY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}
_SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
ASKED = st.sampled_from(
    [
        {"cpu": "3"},
        {"cpu": "9", "priority": 2},
        {"spec": {"nodeSelector": {ZONE: "z", "disk": "ssd"}}},
        {"labels": {"app": "web"}, "spec": {"affinity": _AWAY}},
        {"labels": {"app": "web"}, "cpu": "1", "spec": {"topologySpreadConstraints": [_SPREAD]}},
        {"host_ports": [80], "priority": 1},
    ]
)


def populated(nodes: list[dict[str, Any]], running: list[tuple[int, str, int, bool]]) -> ClusterState:
    cluster = make_cluster(*(make_node(f"n{i}", **fields) for i, fields in enumerate(nodes)))
    for i, (number, app, priority, is_assumed) in enumerate(running):
        pod = make_pod(f"p{i}", cpu="1", labels={"app": app}, priority=priority, host_ports=[80] if i % 3 == 0 else [])
        if is_assumed:
            cluster.assume(cluster.info(pod), f"n{number % len(nodes)}")
        else:
            pod.spec.node_name = f"n{number % len(nodes)}"
            cluster.set_pod(pod)
    return cluster


@settings(max_examples=60)
@given(NODES, RUNNING, st.lists(ASKED, min_size=1, max_size=3))
def test_an_explanation_leaves_the_cluster_deeply_equal(
    nodes: list[dict[str, Any]], running: list[tuple[int, str, int, bool]], asked: list[dict[str, Any]]
) -> None:
    cluster, untouched = populated(nodes, running), populated(nodes, running)
    before = contents(cluster)
    session = built_on(cluster)
    for i, fields in enumerate(asked):
        explain_pod(session, make_pod(f"asked{i}", **fields))
        assert contents(cluster) == before
    for each in (cluster, untouched):  # what comes after finds them alike, too
        each.set_node(make_node("later", zone="x"))
        for pod in each.pods():
            each.forget(pod.uid)
    assert contents(cluster) == contents(untouched)
