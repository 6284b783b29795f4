"""Queueing hints of the plugins that look at nodes: when is an event worth another attempt?"""

from __future__ import annotations

import pytest

from mooring.api.core import NodeAffinity as NodeAffinitySpec
from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.core.config.types import NodeAffinityArgs
from mooring.core.plugins.node_affinity import NodeAffinity
from mooring.core.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.core.plugins.node_name import NodeName
from mooring.core.plugins.node_ports import NodePorts
from mooring.core.plugins.node_unschedulable import NodeUnschedulable
from mooring.core.plugins.scheduling_gates import SchedulingGates
from mooring.core.plugins.taint_toleration import TaintToleration

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
OTHER_TAINT = {"key": "other", "effect": "NoExecute"}
SOFT_TAINT = {"key": "soft", "effect": "PreferNoSchedule"}
TOLERATION = {"key": "k", "operator": "Exists"}
CORDON_TOLERATION = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}


# ---- SchedulingGates, NodeName ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("who", "want"), [("waiting", "Queue"), ("other", "Skip")])
def test_scheduling_gates_registers_for_the_pods_own_gates(handle, pod, ask, who, want):
    plugin = SchedulingGates(None, handle)
    event = ("POD", "UPDATE_POD_SCHEDULING_GATES_ELIMINATED")
    assert ask(plugin, *event, pod(), pod(who, schedulingGates=[{"name": "g"}]), pod(who)) == want


@pytest.mark.parametrize(
    ("action", "want"),
    [("ADD", "Queue"), ("UPDATE_NODE_TAINT", "Queue"), ("UPDATE_NODE_LABEL", "Deaf"), ("DELETE", "Deaf")],
)
def test_node_name_waits_for_nodes(handle, pod, node, ask, action, want):
    assert ask(NodeName(None, handle), "NODE", action, pod(), None, node()) == want


# ---- NodeUnschedulable -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, False, "Queue", id="a new node that can be used"),
        pytest.param(None, True, "Skip", id="a new node that is cordoned"),
        pytest.param(True, False, "Queue", id="a node is uncordoned"),
        pytest.param(False, True, "Skip", id="a node is cordoned"),
        pytest.param(True, True, "Skip", id="a node stays cordoned"),
        pytest.param(False, False, "Skip", id="a node that could be used already"),
    ],
)
def test_node_unschedulable_after_a_node_change(handle, pod, node, ask, before, after, want):
    old = None if before is None else node(unschedulable=before)
    action = "ADD" if old is None else "UPDATE_NODE_TAINT"
    assert ask(NodeUnschedulable(None, handle), "NODE", action, pod(), old, node(unschedulable=after)) == want


@pytest.mark.parametrize(
    ("who", "tolerations", "want"),
    [
        pytest.param("waiting", [CORDON_TOLERATION], "Queue", id="it now tolerates cordons"),
        pytest.param("waiting", [TOLERATION], "Skip", id="it now tolerates something else"),
        pytest.param("other", [CORDON_TOLERATION], "Skip", id="another pod does"),
    ],
)
def test_node_unschedulable_after_a_toleration(handle, pod, ask, who, tolerations, want):
    plugin = NodeUnschedulable(None, handle)
    new = pod(who, tolerations=tolerations)
    assert ask(plugin, "POD", "UPDATE_POD_TOLERATION", pod(), pod(who), new) == want


# ---- TaintToleration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, [], "Queue", id="a new node without taints"),
        pytest.param(None, [TAINT], "Queue", id="a new node with a tolerated taint"),
        pytest.param(None, [OTHER_TAINT], "Skip", id="a new node with an untolerated taint"),
        pytest.param(None, [SOFT_TAINT], "Queue", id="a new node with a soft taint"),
        pytest.param([OTHER_TAINT], [TAINT], "Queue", id="an untolerated taint is replaced"),
        pytest.param([OTHER_TAINT], [OTHER_TAINT, TAINT], "Skip", id="an untolerated taint stays"),
        pytest.param([], [TAINT], "Skip", id="the node was tolerated before"),
    ],
)
def test_taint_toleration_after_a_node_change(handle, pod, node, ask, before, after, want):
    old = None if before is None else node(taints=before)
    action = "ADD" if old is None else "UPDATE_NODE_TAINT"
    waiting = pod(tolerations=[TOLERATION])
    assert ask(TaintToleration(None, handle), "NODE", action, waiting, old, node(taints=after)) == want


@pytest.mark.parametrize(("who", "want"), [("waiting", "Queue"), ("other", "Skip")])
def test_taint_toleration_after_a_toleration(handle, pod, ask, who, want):
    new = pod(who, tolerations=[TOLERATION])
    assert ask(TaintToleration(None, handle), "POD", "UPDATE_POD_TOLERATION", pod(), pod(who), new) == want


# ---- NodeAffinity ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, {"disk": "ssd"}, "Queue", id="a new node that matches"),
        pytest.param(None, {"disk": "hdd"}, "Skip", id="a new node that does not"),
        pytest.param({}, {"disk": "ssd"}, "Queue", id="a node that matches now"),
        pytest.param({"disk": "ssd"}, {"disk": "ssd", "x": "y"}, "Skip", id="a node that matched before"),
        pytest.param({"disk": "ssd"}, {}, "Skip", id="a node that matches no longer"),
    ],
)
@pytest.mark.parametrize("through", ["nodeSelector", "affinity"])
def test_node_affinity_after_a_node_change(handle, pod, node, ask, through, before, after, want):
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {"nodeSelector": {"disk": "ssd"}} if through == "nodeSelector" else {"affinity": {"nodeAffinity": required}}
    old = None if before is None else node(labels=before)
    action = "ADD" if old is None else "UPDATE_NODE_LABEL"
    plugin = NodeAffinity(NodeAffinityArgs(), handle)
    assert ask(plugin, "NODE", action, pod(**spec), old, node(labels=after)) == want


@pytest.mark.parametrize(("labels", "want"), [({"pool": "a"}, "Queue"), ({"pool": "b"}, "Skip")])
def test_node_affinity_heeds_what_the_profile_adds(handle, pod, node, ask, labels, want):
    term = NodeSelectorTerm(match_expressions=[NodeSelectorRequirement("pool", "In", ["a"])])
    args = NodeAffinityArgs(added_affinity=NodeAffinitySpec(required=NodeSelector([term])))
    assert ask(NodeAffinity(args, handle), "NODE", "ADD", pod(), None, node(labels=labels)) == want


@pytest.mark.parametrize(("action", "want"), [("UPDATE_NODE_TAINT", "Queue"), ("UPDATE_NODE_ALLOCATABLE", "Deaf")])
def test_node_affinity_registers_for_taints_and_not_for_amounts(handle, pod, node, ask, action, want):
    plugin = NodeAffinity(NodeAffinityArgs(), handle)
    assert ask(plugin, "NODE", action, pod(nodeSelector={"a": "b"}), node(), node()) == want


# ---- NodePorts -------------------------------------------------------------------------------------------------------


def with_ports(pod, name, *ports, **more):
    container = {
        "name": "c",
        "ports": [dict(zip(("hostPort", "protocol", "hostIP"), port, strict=False)) for port in ports],
    }
    return pod(name, containers=[container], **more)


@pytest.mark.parametrize(
    ("wanted", "freed", "node_name", "nominated", "want"),
    [
        pytest.param((80,), (80,), "n1", "", "Queue", id="the port is free again"),
        pytest.param((80,), (81,), "n1", "", "Skip", id="another port"),
        pytest.param((80, "UDP"), (80, "TCP"), "n1", "", "Skip", id="another protocol"),
        pytest.param((80, "TCP", "10.0.0.1"), (80, "TCP", "10.0.0.2"), "n1", "", "Skip", id="another address"),
        pytest.param((80, "TCP", "10.0.0.1"), (80, "TCP", "0.0.0.0"), "n1", "", "Queue", id="any address clashes"),
        pytest.param((80,), (80,), "", "", "Skip", id="a pod that had no node"),
        pytest.param((80,), (80,), "", "n1", "Queue", id="a pod that was promised one"),
    ],
)
def test_node_ports_after_a_pod_is_deleted(handle, pod, ask, wanted, freed, node_name, nominated, want):
    waiting = with_ports(pod, "waiting", wanted)
    gone = with_ports(pod, "gone", freed, node=node_name, nominated=nominated)
    assert ask(NodePorts(None, handle), "ASSIGNED_POD", "DELETE", waiting, gone, None) == want


def test_node_ports_ignores_pods_without_host_ports(handle, pod, ask):
    waiting = with_ports(pod, "waiting", (80,))
    assert ask(NodePorts(None, handle), "ASSIGNED_POD", "DELETE", waiting, pod("gone", node="n1"), None) == "Skip"


@pytest.mark.parametrize(("action", "want"), [("ADD", "Queue"), ("UPDATE_NODE_TAINT", "Queue"), ("DELETE", "Deaf")])
def test_node_ports_waits_for_nodes(handle, pod, node, ask, action, want):
    assert ask(NodePorts(None, handle), "NODE", action, pod(), None, node()) == want


# ---- NodeDeclaredFeatures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, [], "Queue", id="any new node"),
        pytest.param(["A"], ["A", "B"], "Queue", id="a node declares more"),
        pytest.param(["A"], ["A"], "Skip", id="a node declares the same"),
    ],
)
def test_node_declared_features_after_a_node_change(handle, pod, node, ask, before, after, want):
    old = None if before is None else node(features=before)
    action = "ADD" if old is None else "UPDATE_NODE_DECLARED_FEATURE"
    assert ask(NodeDeclaredFeatures(None, handle), "NODE", action, pod(), old, node(features=after)) == want


@pytest.mark.parametrize(
    ("who", "spec", "want"),
    [
        pytest.param("waiting", {"hostNetwork": True, "hostUsers": False}, "Queue", id="it needs something else"),
        pytest.param("waiting", {"hostNetwork": True}, "Skip", id="it needs the same"),
        pytest.param("other", {"hostNetwork": True, "hostUsers": False}, "Skip", id="another pod"),
    ],
)
@pytest.mark.parametrize("action", ["UPDATE", "UPDATE_POD_LABEL"])
def test_node_declared_features_after_a_pod_update(handle, pod, ask, who, spec, want, action):
    plugin = NodeDeclaredFeatures(None, handle)
    assert ask(plugin, "UNSCHEDULABLE_POD", action, pod(), pod(who), pod(who, **spec)) == want
