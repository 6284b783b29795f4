"""Differences of nodes and pods, as events."""

from __future__ import annotations

import copy

import pytest

from mooring.api.core import (
    Container,
    ContainerStatus,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    PodSchedulingGate,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
)
from mooring.api.meta import Condition, ObjectMeta
from mooring.core.queue.events import node_changes, pod_changes


def a_node():
    return Node(
        metadata=ObjectMeta(name="n", labels={"a": "1"}, annotations={"x": "1"}),
        spec=NodeSpec(taints=[Taint("k", "v", "NoSchedule")], unschedulable=True),
        status=NodeStatus(
            allocatable={"cpu": "1", "memory": "1Gi"},
            conditions=[Condition(type="Ready", status="True", last_transition_time="2026-01-01T00:00:00Z")],
            declared_features=["A"],
        ),
    )


def cordon_lifted(node):
    node.spec.unschedulable = False


def more_cpu(node):
    node.status.allocatable = {"cpu": "2", "memory": "1Gi"}


def other_spelling(node):
    node.status.allocatable = {"cpu": "1000m", "memory": "1024Mi"}


def resource_gone(node):
    node.status.allocatable = {"cpu": "1"}


def unparsable(node):
    node.status.allocatable = {"cpu": "one", "memory": "1Gi"}


def relabelled(node):
    node.metadata.labels = {"a": "2"}


def untainted(node):
    node.spec.taints = []


def not_ready(node):
    node.status.conditions = [Condition(type="Ready", status="False")]


def heartbeat(node):
    node.status.conditions = [Condition(type="Ready", status="True", last_transition_time="2026-01-02T00:00:00Z")]


def annotated(node):
    node.metadata.annotations = {}


def new_feature(node):
    node.status.declared_features = ["A", "B"]


def everything(node):
    for change in (cordon_lifted, more_cpu, relabelled, untainted, not_ready, annotated, new_feature):
        change(node)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(heartbeat, [], id="a heartbeat is no event"),
        pytest.param(cordon_lifted, ["UpdateNodeTaint"], id="uncordoning counts as a taint"),
        pytest.param(more_cpu, ["UpdateNodeAllocatable"], id="other amounts"),
        pytest.param(other_spelling, [], id="the same amounts, spelt otherwise, are no event"),
        pytest.param(resource_gone, ["UpdateNodeAllocatable"], id="a resource that is gone"),
        pytest.param(unparsable, ["UpdateNodeAllocatable"], id="an amount that does not parse"),
        pytest.param(relabelled, ["UpdateNodeLabel"], id="labels"),
        pytest.param(untainted, ["UpdateNodeTaint"], id="taints"),
        pytest.param(not_ready, ["UpdateNodeCondition"], id="a condition's status"),
        pytest.param(annotated, ["UpdateNodeAnnotation"], id="annotations"),
        pytest.param(new_feature, ["UpdateNodeDeclaredFeature"], id="declared features"),
        pytest.param(
            everything,
            [
                "UpdateNodeTaint",
                "UpdateNodeAllocatable",
                "UpdateNodeLabel",
                "UpdateNodeTaint",
                "UpdateNodeCondition",
                "UpdateNodeAnnotation",
                "UpdateNodeDeclaredFeature",
            ],
            id="all together, in upstream's order",
        ),
    ],
)
def test_node_changes(change, want):
    old, new = a_node(), a_node()
    change(new)
    assert [event.label for event in node_changes(old, new)] == ["Node" + action for action in want]


def test_cordoning_is_no_event():
    old, new = a_node(), a_node()
    old.spec.unschedulable = False
    assert node_changes(old, new) == []


def test_declared_features_can_be_switched_off():
    old, new = a_node(), a_node()
    new_feature(new)
    assert node_changes(old, new, declared_features=False) == []


def a_pod():
    return Pod(
        metadata=ObjectMeta(name="p", namespace="n", labels={"a": "1"}),
        spec=PodSpec(
            containers=[Container(name="c", resources=ResourceRequirements(requests={"cpu": "500m", "memory": "1Gi"}))],
            scheduling_gates=[PodSchedulingGate("g1"), PodSchedulingGate("g2")],
        ),
    )


def pod_relabelled(pod):
    pod.metadata.labels = {}


def less_cpu(pod):
    pod.spec.containers[0].resources.requests["cpu"] = "400m"


def more_memory(pod):
    pod.spec.containers[0].resources.requests["memory"] = "2Gi"


def request_removed(pod):
    del pod.spec.containers[0].resources.requests["memory"]


def one_gate_left(pod):
    pod.spec.scheduling_gates = [PodSchedulingGate("g2")]


def no_gates(pod):
    pod.spec.scheduling_gates = []


def tolerant(pod):
    pod.spec.tolerations = [Toleration(key="k", operator="Exists")]


def claims_made(pod):
    pod.status.resource_claim_statuses = [PodResourceClaimStatus("gpu", "p-gpu-x")]


def extended_claim_made(pod):
    pod.status.extended_resource_claim_status = PodExtendedResourceClaimStatus(resource_claim_name="x")


def condition_only(pod):
    pod.status.conditions = [Condition(type="PodScheduled", status="False")]


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(condition_only, ["Update"], id="what has no name of its own is a plain update"),
        pytest.param(pod_relabelled, ["UpdatePodLabel"], id="labels"),
        pytest.param(less_cpu, ["UpdatePodScaleDown"], id="a smaller request"),
        pytest.param(more_memory, ["Update"], id="a larger request is a plain update"),
        pytest.param(request_removed, ["UpdatePodScaleDown"], id="a request that is gone"),
        pytest.param(one_gate_left, ["Update"], id="a gate is left"),
        pytest.param(no_gates, ["UpdatePodSchedulingGatesEliminated"], id="the last gate is gone"),
        pytest.param(tolerant, ["UpdatePodToleration"], id="a toleration more"),
        pytest.param(claims_made, ["UpdatePodGeneratedResourceClaim"], id="claims were made for it"),
        pytest.param(extended_claim_made, ["UpdatePodGeneratedResourceClaim"], id="a claim for extended resources"),
    ],
)
@pytest.mark.parametrize("node_name", ["", "n1"])
def test_pod_changes(change, want, node_name):
    old, new = a_pod(), a_pod()
    new.spec.node_name = node_name
    change(new)
    resource = "AssignedPod" if node_name else "UnschedulablePod"
    assert [event.label for event in pod_changes(old, new)] == [resource + action for action in want]


def test_a_larger_request_has_a_name_of_its_own_since_1_37():
    old, new = a_pod(), a_pod()
    more_memory(new)
    assert [event.label for event in pod_changes(old, new, tells_growth=True)] == ["UnschedulablePodUpdatePodScaleUp"]
    less_cpu(new)
    want = ["UpdatePodScaleDown", "UpdatePodScaleUp"]
    found = pod_changes(old, new, tells_growth=True)
    assert [event.label for event in found] == ["UnschedulablePod" + action for action in want]


def test_several_changes_are_several_events():
    old, new = a_pod(), a_pod()
    for change in (tolerant, pod_relabelled, less_cpu):
        change(new)
    want = ["UpdatePodLabel", "UpdatePodScaleDown", "UpdatePodToleration"]
    assert [event.label for event in pod_changes(old, new)] == ["UnschedulablePod" + action for action in want]


def test_a_resize_is_a_scale_down_only_when_the_kubelet_has_done_it():
    running = a_pod()
    running.spec.node_name = "n1"
    running.status.container_statuses = [
        ContainerStatus("c", ResourceRequirements(requests={"cpu": "500m", "memory": "1Gi"}))
    ]
    asked = copy.deepcopy(running)
    less_cpu(asked)
    assert [event.label for event in pod_changes(running, asked)] == ["AssignedPodUpdate"]
    done = copy.deepcopy(asked)
    done.status.container_statuses[0].resources.requests["cpu"] = "400m"
    assert [event.label for event in pod_changes(asked, done)] == ["AssignedPodUpdatePodScaleDown"]


def test_requests_that_do_not_parse_are_no_scale_down():
    old, new = a_pod(), a_pod()
    new.spec.containers[0].resources.requests["cpu"] = "few"
    assert [event.label for event in pod_changes(old, new)] == ["UnschedulablePodUpdate"]
