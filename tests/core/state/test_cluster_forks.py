"""A fork of a cluster equals a cluster to which the same really happened, and its parent never notices."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core import Namespace, Pod
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.config.load import config_from_dict
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodClass
from mooring.testing import bound, make_cluster, make_node, make_object, make_pod

HOSTNAME = "kubernetes.io/hostname"
NAMES = st.sampled_from(["a", "b", "c", "d"])
ZONES = st.sampled_from(["", "x", "y"])
NUMBERS = st.integers(0, 7)


def _pod(number: int, node: str = "", **more: Any) -> Pod:
    kinds: list[dict[str, Any]] = [
        {},
        {"cpu": "1", "labels": {"app": "web"}},
        {"requests": {"example.com/new": 3}, "labels": {"app": "db"}},
        {"host_ports": [80]},
        {"labels": {"app": "web"}, "priority": 5, "spec": _affinity("podAntiAffinity")},
        {"cpu": "3", "labels": {"app": "db"}, "spec": _affinity("podAffinity")},
        {"labels": {"app": "web"}, "spec": _spread()},
        {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]}},
    ]
    kind = kinds[number]
    return make_pod(f"p{number}", node=node, **{**kind, **more})


def _affinity(which: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
    return {"affinity": {which: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread() -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {"topologySpreadConstraints": [constraint]}


Action = Callable[[ClusterState], None]


def _put_node(name: str, zone: str, taint: bool, image: bool) -> Action:
    taints = ["t=v:NoSchedule"] if taint else []
    images = {"registry.example/app:1": 500_000_000} if image else {}
    return lambda cluster: cluster.set_node(make_node(name, zone=zone, taints=taints, images=images))


def _remove_node(name: str) -> Action:
    return lambda cluster: cluster.remove_node(name)


def _remove_nodes(*names: str) -> Action:
    return lambda cluster: cluster.remove_nodes(names) and None


def _put_pod(number: int, node: str) -> Action:
    return lambda cluster: cluster.set_pod(_pod(number, node))


def _start_pod(number: int, node: str) -> Action:
    return lambda cluster: cluster.set_pod(_pod(number, node, status={"startTime": "2026-01-01T00:00:00Z"}))


def _remove_pod(number: int) -> Action:
    return lambda cluster: cluster.remove_pod(_pod(number).uid)


def _assume(number: int, node: str) -> Action:
    def assume(cluster: ClusterState) -> None:
        if cluster.pod(_pod(number).uid) is None:
            cluster.assume(cluster.info(_pod(number)), node)

    return assume


def _forget(number: int) -> Action:
    return lambda cluster: cluster.forget(_pod(number).uid)


def _put_budget(allowed: int) -> Action:
    budget = make_object("PodDisruptionBudget", "pdb", "default", status={"disruptionsAllowed": allowed})
    return lambda cluster: cluster.put(budget)


def _remove_budget() -> Action:
    return lambda cluster: cluster.objects.remove(PodDisruptionBudget, "default/pdb") and None


def _label_namespace(team: str) -> Action:
    return lambda cluster: cluster.put(make_object("Namespace", "default", metadata={"labels": {"team": team}}))


ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(_put_node, NAMES, ZONES, st.booleans(), st.booleans()),
    st.builds(_put_pod, NUMBERS, NAMES),
    st.builds(_put_pod, NUMBERS, NAMES),
    st.builds(_start_pod, NUMBERS, NAMES),
    st.builds(_assume, NUMBERS, NAMES),
    st.builds(_forget, NUMBERS),
    st.builds(_remove_pod, NUMBERS),
    st.builds(_remove_node, NAMES),
    st.builds(_remove_nodes, NAMES, NAMES),
    st.builds(_put_budget, st.integers(0, 2)),
    st.builds(_remove_budget),
    st.builds(_label_namespace, ZONES),
)
HISTORY = st.lists(ACTIONS, max_size=12)


def play(cluster: ClusterState, history: Iterable[Action]) -> None:
    for action in history:
        action(cluster)
        cluster.nodes()  # image numbers depend on when they are read


def contents(cluster: ClusterState) -> dict[str, Any]:
    """Everything that can be read from a cluster, as plain values."""
    nodes = cluster.nodes()
    table = nodes.table
    resources = ("cpu", "memory", "example.com/new")

    def is_web(cls: PodClass) -> bool:
        return cls.labels.get("app") == "web"

    column = cluster.pod_index.column("web", is_web)
    web = cluster.interner.labels_class("default", {"app": "web"})
    terms = cluster.terms.matching(web, cluster.namespace_labels("default"))
    return {
        "order": [info.name for info in nodes.infos],
        "rows": [info.row for info in nodes.infos],
        "nodes": [info.node for info in nodes.infos],
        "ghosts": sorted(name for name, info in table.nodes.items() if info.node is None),
        "allocatable": nodes.capacity_of(resources)[0].tolist(),
        "requested": nodes.requested_of(resources).tolist(),
        "non-zero": nodes.non_zero_requested_of(("cpu", "memory")).tolist(),
        "pod count": nodes.pod_count.tolist(),
        "lowest priority": table.lowest_priority.tolist(),
        "taints": [table.taint_sets[number] for number in nodes.taint_set.tolist()],
        "zones": [
            table.label("topology.kubernetes.io/zone").values[i] if i >= 0 else None
            for i in nodes.label_ids("topology.kubernetes.io/zone").tolist()
        ],
        "ports": nodes.port_conflicts([("0.0.0.0", "TCP", 80)]).tolist(),
        "port users": {port: sorted(users) for port, users in table.port_users.items()},
        "images": sorted(table.images.holders("registry.example/app:1")),
        "pods on nodes": [sorted(pod.uid for pod in nodes.pods(i)) for i in range(len(nodes))],
        "started": sorted((p.uid, str(p.pod.status.start_time)) for i in range(len(nodes)) for p in nodes.pods(i)),
        "pods": {pod.uid: (pod.pod.spec.node_name, pod.pod.status.start_time) for pod in cluster.pods()},
        "assumed": sorted(pod.uid for pod in cluster.pods() if cluster.is_assumed(pod.uid)),
        "claims in use": dict(cluster.claim_users),
        "web pods": (column.total, nodes.counts(column).tolist()),
        "web by domain": nodes.counts_by_domain(column, HOSTNAME).sum(),
        "terms": sorted((indexed.kind.value, nodes.counts(counts).tolist()) for indexed, counts in terms),
        "budgets": [b.status.disruptions_allowed for b in cluster.objects.all(PodDisruptionBudget)],
        "namespaces": [n.labels for n in cluster.objects.in_namespace(Namespace, "")],
    }  # fmt: skip


def decisions(cluster: ClusterState) -> list[Any]:
    session = open_session(config_from_dict(None), cluster)
    profile = session.profiles["default-scheduler"]
    found = []
    for number in range(8):
        decision = session.engine.decide(cluster.info(_pod(number, uid=f"new-{number}", namespace="default")), profile)
        totals = None if decision.scores is None else decision.scores.totals.tolist()
        found.append((decision.outcome, decision.node, decision.message, totals, decision.nominated_node))
    return found


@settings(max_examples=100, deadline=None)
@given(HISTORY, HISTORY, HISTORY)
def test_a_fork_equals_a_cluster_to_which_it_really_happened(
    before: list[Action], hypothesis: list[Action], afterwards: list[Action]
) -> None:
    parent, really = make_cluster(make_node("a")), make_cluster(make_node("a"))
    play(parent, before)
    play(really, [*before, *hypothesis])
    untouched = contents(parent)
    fork = parent.fork()
    assert contents(fork) == untouched
    play(fork, hypothesis)
    assert contents(parent) == untouched, "the parent has not noticed"
    assert contents(fork) == contents(really)
    assert decisions(fork) == decisions(really)
    assert contents(parent) == untouched, "nor of the decisions"
    changed = contents(fork)
    play(parent, afterwards)
    assert contents(fork) == changed, "and the fork does not notice what happens to its parent"


@settings(max_examples=40, deadline=None)
@given(HISTORY, HISTORY, HISTORY, st.booleans())
def test_forks_of_forks_and_siblings_are_independent(
    before: list[Action], one: list[Action], other: list[Action], first_one: bool
) -> None:
    parent = make_cluster(make_node("a"))
    play(parent, before)
    left, right = parent.fork(), parent.fork()
    play(left, one)
    known = contents(left)
    child = left.fork()
    for cluster in (child, right) if first_one else (right, child):
        play(cluster, other)
    assert contents(left) == known
    wanted = make_cluster(make_node("a"))
    play(wanted, [*before, *other])
    assert contents(right) == contents(wanted)
    play(wanted := make_cluster(make_node("a")), [*before, *one, *other])
    assert contents(child) == contents(wanted)


@settings(max_examples=40, deadline=None)
@given(HISTORY, HISTORY, st.lists(st.booleans(), min_size=12, max_size=12))
def test_forks_that_come_and_go_leave_a_held_one_and_the_parent_alone(
    before: list[Action], afterwards: list[Action], asks: list[bool]
) -> None:
    parent, alone = make_cluster(make_node("a")), make_cluster(make_node("a"))
    play(parent, before)
    held = parent.fork()
    known = contents(held)
    for action, asks_first in zip(afterwards, asks, strict=False):
        if asks_first:
            question = parent.fork()
            action(question)
            del question
        play(parent, [action])
    play(alone, [*before, *afterwards])
    assert contents(held) == known
    assert contents(parent) == contents(alone)


@settings(max_examples=40, deadline=None)
@given(HISTORY, HISTORY)
def test_after_a_fork_is_dropped_the_parent_copies_nothing(before: list[Action], afterwards: list[Action]) -> None:
    parent, alone = make_cluster(make_node("a")), make_cluster(make_node("a"))
    play(parent, before)
    fork = parent.fork()
    play(fork, afterwards)
    del fork
    play(parent, afterwards)
    play(alone, [*before, *afterwards])
    assert contents(parent) == contents(alone)
    assert decisions(parent) == decisions(alone)


def test_a_snapshot_that_is_held_does_not_change() -> None:
    cluster = make_cluster(make_node("a"), make_node("b"))
    held = cluster.snapshot()
    cluster.set_pod(_pod(1, "a"))
    cluster.remove_node("b")
    cluster.nodes()
    assert held.requested("cpu").tolist() == [0, 0]
    assert [info.name for info in held.infos] == ["a", "b"]
    assert not list(held.pods(0))


def test_a_question_about_a_fork_leaves_assumed_pods_assumed() -> None:
    cluster = make_cluster(make_node("a"))
    cluster.assume(cluster.info(_pod(1)), "a")
    fork = cluster.fork()
    fork.remove_pod(_pod(1).uid)
    fork.set_pod(bound(_pod(1), "a"))
    assert cluster.is_assumed(_pod(1).uid) and not fork.is_assumed(_pod(1).uid)
    cluster.forget(_pod(1).uid)
    assert cluster.pod(_pod(1).uid) is None and fork.pod(_pod(1).uid) is not None


@pytest.mark.parametrize("names", ["aab", "aba", "axxa"], ids=["in order", "by turns", "an unknown node"])
def test_pods_that_are_added_to_a_fork_together_count_as_one_by_one(names: str) -> None:
    cluster = make_cluster(make_node("a"), make_node("b"))
    cluster.set_pod(bound(_pod(0), "a"))
    pods = [bound(_pod(number), name) for number, name in enumerate(names, 1)]
    together, one_by_one = cluster.fork(), cluster.fork()
    together.add_pods(pods)
    for pod in pods:
        one_by_one.set_pod(pod)
    assert contents(together) == contents(one_by_one)
    for pod in pods:
        together.remove_pod(pod.uid)
    assert contents(together) == contents(cluster)


def test_a_fork_of_a_zone_change_does_not_reorder_the_parents_nodes() -> None:
    cluster = make_cluster(*(make_node(f"n{i}", zone="x" if i % 2 else "y") for i in range(4)))
    before = [info.name for info in cluster.nodes().infos]
    fork = cluster.fork()
    fork.set_node(make_node("n0", zone="z"))
    fork.set_node(make_node("n0", zone="y"))
    cluster.set_node(make_node("n4", zone="x"))
    assert [info.name for info in cluster.nodes().infos] == [*before, "n4"]


@pytest.mark.parametrize("is_held", [True, False], ids=["while it is held", "once it is gone"])
def test_a_parent_copies_its_columns_only_while_a_fork_is_held(is_held: bool) -> None:
    cluster = make_cluster(make_node("a"))
    column = cluster.nodes().table.requested
    fork: ClusterState | None = cluster.fork()
    if not is_held:
        fork = None
        gc.collect()
    cluster.set_pod(_pod(1, "a"))
    assert (cluster.table.requested is not column) == is_held
    assert fork is None or fork.nodes().requested("cpu").tolist() == [0]
