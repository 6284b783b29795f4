"""Queueing hints of the plugins that look at other pods: PodTopologySpread and InterPodAffinity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.api.errors import ParseError
from mooring.core.config.features import Features
from mooring.core.config.types import InterPodAffinityArgs, PodTopologySpreadArgs
from mooring.core.config.versions import V1_35
from mooring.core.plugins.inter_pod_affinity import InterPodAffinity
from mooring.core.plugins.pod_topology_spread import PodTopologySpread

WEB = {"app": "web"}
ZONE = "topology.kubernetes.io/zone"


# ---- PodTopologySpread -----------------------------------------------------------------------------------------------


@pytest.fixture
def spread(handle):
    return PodTopologySpread(PodTopologySpreadArgs(), handle)


def constraint(key="zone", action="DoNotSchedule", **more):
    selector = {"matchLabels": WEB}
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": action, "labelSelector": selector, **more}


def spreading(pod, *constraints, **more):
    return pod(labels=WEB, topologySpreadConstraints=list(constraints or [constraint()]), **more)


@pytest.mark.parametrize("action", ["ADD", "DELETE"])
@pytest.mark.parametrize(
    ("other", "want"),
    [
        pytest.param({"labels": WEB, "node": "n1"}, "Queue", id="a pod that is counted"),
        pytest.param({"labels": WEB, "nominated": "n1"}, "Queue", id="a pod that is promised a node"),
        pytest.param({"labels": WEB}, "Skip", id="a pod without a node"),
        pytest.param({"labels": WEB, "node": "n1", "namespace": "elsewhere"}, "Skip", id="a pod of another namespace"),
        pytest.param({"labels": {"app": "db"}, "node": "n1"}, "Skip", id="a pod that is not selected"),
    ],
)
def test_spread_after_a_pod_comes_or_goes(spread, pod, ask, action, other, want):
    that = pod("other", **other)
    old, new = (None, that) if action == "ADD" else (that, None)
    assert ask(spread, "ASSIGNED_POD", action, spreading(pod), old, new) == want


def test_spread_soft_constraints_wait_for_no_event(spread, pod, ask):
    waiting = spreading(pod, constraint(action="ScheduleAnyway"))
    assert ask(spread, "ASSIGNED_POD", "ADD", waiting, None, pod("other", labels=WEB, node="n1")) == "Skip"


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param({}, WEB, "Queue", id="a pod is counted now"),
        pytest.param(WEB, {}, "Queue", id="a pod is counted no longer"),
        pytest.param(WEB, WEB | {"x": "y"}, "Skip", id="a pod is counted as before"),
    ],
)
def test_spread_after_labels_change(spread, pod, ask, before, after, want):
    old, new = pod("other", labels=before, node="n1"), pod("other", labels=after, node="n1")
    assert ask(spread, "ASSIGNED_POD", "UPDATE_POD_LABEL", spreading(pod), old, new) == want


@pytest.mark.parametrize(
    ("policy", "who", "want"),
    [
        pytest.param("Honor", "waiting", "Queue", id="taints count and it tolerates more"),
        pytest.param("Ignore", "waiting", "Skip", id="taints do not count"),
        pytest.param("Honor", "other", "Skip", id="another pod tolerates more"),
    ],
)
def test_spread_after_a_toleration(spread, pod, ask, policy, who, want):
    waiting = spreading(pod, constraint(nodeTaintsPolicy=policy))
    old = pod(who, labels=WEB, node="n1" if who == "other" else "")
    new = pod(who, labels=WEB, node=old.node_name, tolerations=[{"operator": "Exists"}])
    assert ask(spread, "UNSCHEDULABLE_POD", "UPDATE_POD_TOLERATION", waiting, old, new) == want


TAINTED = [{"key": "k", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("action", "before", "after", "want"),
    [
        pytest.param("ADD", None, {"zone": "a", "rack": "1"}, "Queue", id="a new node in a domain"),
        pytest.param("ADD", None, {"zone": "a"}, "Skip", id="a new node without all keys"),
        pytest.param("DELETE", {"zone": "a", "rack": "1"}, None, "Queue", id="a node of a domain has gone"),
        pytest.param("DELETE", {"zone": "a"}, None, "Skip", id="a node without all keys has gone"),
        pytest.param("UPDATE_NODE_LABEL", {"zone": "a"}, {"zone": "a", "rack": "1"}, "Queue", id="it takes part now"),
        pytest.param("UPDATE_NODE_LABEL", {"zone": "a", "rack": "1"}, {}, "Queue", id="it takes part no longer"),
        pytest.param(
            "UPDATE_NODE_LABEL", {"zone": "a", "rack": "1"}, {"zone": "b", "rack": "1"}, "Queue", id="it has moved"
        ),
        pytest.param(
            "UPDATE_NODE_LABEL",
            {"zone": "a", "rack": "1"},
            {"zone": "a", "rack": "1", "x": "y"},
            "Skip",
            id="other labels",
        ),
        pytest.param(
            "UPDATE_NODE_LABEL", {"zone": "a"}, {"zone": "b"}, "Skip", id="a move of a node that takes no part"
        ),
    ],
)
def test_spread_after_a_node_change(spread, pod, node, ask, action, before, after, want):
    waiting = spreading(pod, constraint("zone"), constraint("rack"))
    old = None if before is None else node(labels=before)
    new = None if after is None else node(labels=after)
    assert ask(spread, "NODE", action, waiting, old, new) == want


@pytest.mark.parametrize(("labels", "want"), [({"zone": "a"}, "Queue"), ({}, "Skip")])
def test_spread_after_taints_change(spread, pod, node, ask, labels, want):
    old, new = node(labels=labels, taints=TAINTED), node(labels=labels)
    assert ask(spread, "NODE", "UPDATE_NODE_TAINT", spreading(pod), old, new) == want


# ---- InterPodAffinity ------------------------------------------------------------------------------------------------


@pytest.fixture
def affinity(handle):
    return InterPodAffinity(InterPodAffinityArgs(), handle)


def term(labels, key="zone", **more):
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}


def wanting(pod, near=(), far=(), **more):
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec = {"podAffinity": {required: list(near)}, "podAntiAffinity": {required: list(far)}}
    return pod(affinity=spec, **more)


NEAR_WEB = {"near": [term(WEB)]}
FAR_WEB = {"far": [term(WEB)]}
BOTH = [term(WEB), term({"tier": "front"})]


@pytest.mark.parametrize(
    ("terms", "action", "before", "after", "want"),
    [
        pytest.param(NEAR_WEB, "ADD", None, WEB, "Queue", id="a friend has come"),
        pytest.param(NEAR_WEB, "ADD", None, {}, "Skip", id="a stranger has come"),
        pytest.param(NEAR_WEB, "DELETE", WEB, None, "Skip", id="a friend has gone"),
        pytest.param({"near": BOTH}, "ADD", None, WEB, "Skip", id="half a friend has come"),
        pytest.param({"near": BOTH}, "ADD", None, WEB | {"tier": "front"}, "Queue", id="a friend in every respect"),
        pytest.param(FAR_WEB, "DELETE", WEB, None, "Queue", id="a foe has gone"),
        pytest.param(FAR_WEB, "ADD", None, WEB, "Skip", id="a foe has come"),
        pytest.param(
            {"far": BOTH}, "DELETE", WEB, None, "Skip", id="half a foe has gone: upstream does not look closer"
        ),
        pytest.param(NEAR_WEB, "UPDATE_POD_LABEL", {}, WEB, "Queue", id="a stranger becomes a friend"),
        pytest.param(NEAR_WEB, "UPDATE_POD_LABEL", WEB, {}, "Skip", id="a friend becomes a stranger"),
        pytest.param(FAR_WEB, "UPDATE_POD_LABEL", WEB, {}, "Queue", id="a foe becomes a stranger"),
        pytest.param(FAR_WEB, "UPDATE_POD_LABEL", {}, WEB, "Skip", id="a stranger becomes a foe"),
        pytest.param({}, "DELETE", WEB, None, "Skip", id="without terms no pod matters"),
    ],
)
@pytest.mark.parametrize("where", [{"node": "n1"}, {"nominated": "n1"}], ids=["running", "promised a node"])
def test_affinity_after_another_pod_changes(affinity, pod, ask, terms, action, before, after, want, where):
    old = None if before is None else pod("other", labels=before, **where)
    new = None if after is None else pod("other", labels=after, **where)
    assert ask(affinity, "ASSIGNED_POD", action, wanting(pod, **terms), old, new) == want


def test_affinity_ignores_pods_without_a_node(affinity, pod, ask):
    waiting = wanting(pod, **NEAR_WEB)
    assert ask(affinity, "ASSIGNED_POD", "ADD", waiting, None, pod("other", labels=WEB)) == "Skip"
    assert ask(affinity, "ASSIGNED_POD", "DELETE", wanting(pod, **FAR_WEB), pod("other", labels=WEB), None) == "Skip"


def test_affinity_heeds_namespaces(affinity, pod, ask):
    elsewhere = pod("other", labels=WEB, namespace="elsewhere", node="n1")
    assert ask(affinity, "ASSIGNED_POD", "ADD", wanting(pod, **NEAR_WEB), None, elsewhere) == "Skip"
    listed = wanting(pod, near=[term(WEB, namespaces=["elsewhere"])])
    assert ask(affinity, "ASSIGNED_POD", "ADD", listed, None, elsewhere) == "Queue"


@pytest.mark.parametrize(("labels", "want"), [(WEB, "Queue"), ({}, "Skip")])
def test_affinity_after_a_repelling_pod_is_gone(affinity, pod, ask, labels, want):
    objector = wanting(pod, name="other", node="n1", **FAR_WEB)
    assert ask(affinity, "ASSIGNED_POD", "DELETE", pod(labels=labels), objector, None) == want


def test_affinity_after_the_pods_own_labels_change(affinity, pod, ask):
    event = ("UNSCHEDULABLE_POD", "UPDATE_POD_LABEL")
    assert ask(affinity, *event, wanting(pod, **NEAR_WEB), pod(), pod(labels=WEB)) == "Queue"
    assert ask(affinity, *event, wanting(pod, **NEAR_WEB), pod("other"), pod("other", labels=WEB)) == "Skip"


@pytest.mark.parametrize(
    ("terms", "before", "after", "want"),
    [
        pytest.param(NEAR_WEB, None, {"zone": "a"}, "Queue", id="near: a new node with the key"),
        pytest.param(NEAR_WEB, None, {}, "Skip", id="near: a new node without the key"),
        pytest.param(NEAR_WEB, {}, {"zone": "a"}, "Queue", id="near: a node has got the key"),
        pytest.param(NEAR_WEB, {"zone": "a"}, {"zone": "b"}, "Queue", id="near: a node has moved"),
        pytest.param(NEAR_WEB, {"zone": "a"}, {}, "Skip", id="near: a node has lost the key"),
        pytest.param(NEAR_WEB, {"zone": "a"}, {"zone": "a", "x": "y"}, "Skip", id="near: other labels"),
        pytest.param(FAR_WEB, None, {}, "Queue", id="far: any new node"),
        pytest.param(FAR_WEB, {}, {"zone": "a"}, "Skip", id="far: a node has got the key"),
        pytest.param(FAR_WEB, {"zone": "a"}, {}, "Queue", id="far: a node has lost the key"),
        pytest.param(FAR_WEB, {"zone": "a"}, {"zone": "b"}, "Queue", id="far: a node has moved"),
        pytest.param({}, None, {"zone": "a"}, "Skip", id="without terms a new node is no help"),
    ],
)
def test_affinity_after_a_node_change(affinity, pod, node, ask, terms, before, after, want):
    old = None if before is None else node(labels=before)
    action = "ADD" if old is None else "UPDATE_NODE_LABEL"
    assert ask(affinity, "NODE", action, wanting(pod, **terms), old, node(labels=after)) == want


def test_affinity_terms_that_do_not_parse_are_an_error_and_so_worth_an_attempt(affinity, pod, ask):
    bad = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}
    with pytest.raises(ParseError):
        ask(affinity, "ASSIGNED_POD", "ADD", wanting(pod, near=[bad]), None, pod("other", node="n1"))


# ---- until 1.35 ------------------------------------------------------------------------------------------------------


@pytest.fixture
def old_handle(handle):
    return replace(handle, features=Features(V1_35))


def test_until_1_35_a_nominated_pod_wakes_no_pod(old_handle, pod, ask):
    nominated = pod("other", labels=WEB, nominated="n1")
    spread = PodTopologySpread(PodTopologySpreadArgs(), old_handle)
    assert ask(spread, "ASSIGNED_POD", "ADD", spreading(pod), None, nominated) == "Skip"
    affinity = InterPodAffinity(InterPodAffinityArgs(), old_handle)
    assert ask(affinity, "ASSIGNED_POD", "ADD", wanting(pod, **NEAR_WEB), None, nominated) == "Skip"


def test_until_1_35_own_labels_do_not_wake_for_affinity(old_handle, pod, ask):
    affinity = InterPodAffinity(InterPodAffinityArgs(), old_handle)
    waiting = wanting(pod, **NEAR_WEB)
    assert ask(affinity, "POD", "UPDATE_POD_LABEL", waiting, waiting, waiting) == "Skip"


def test_until_1_35_a_deleted_repelling_pod_wakes_no_pod(handle, old_handle, pod, ask):
    objector = wanting(lambda **more: pod("objector", node="n1", **more), far=[term(WEB)])
    waiting = pod(labels=WEB)
    for its, want in ((handle, "Queue"), (old_handle, "Skip")):
        affinity = InterPodAffinity(InterPodAffinityArgs(), its)
        assert ask(affinity, "ASSIGNED_POD", "DELETE", waiting, objector, None) == want
