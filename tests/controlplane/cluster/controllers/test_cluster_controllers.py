"""Nodes, taints, volumes, budgets and resource claims."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controlplane.cluster.kubelet import KUBELET
from mooring.controlplane.registry.catalog import NODES
from mooring.controlplane.registry.subresources import evict
from mooring.controlplane.registry.verbs import Options
from mooring.controlplane.types.status import StatusError

from .conftest import Lab, Object, workload


def _taints(lab: Lab, name: str = "node1") -> set[str]:
    return {f"{t['key']}:{t['effect']}" for t in lab.must("nodes", name)["spec"].get("taints") or ()}


def _stop(lab: Lab, name: str, mode: str | None = "stopped") -> None:
    def change(node: Object) -> None:
        annotations = node["metadata"].setdefault("annotations", {})
        annotations.pop(KUBELET, None)
        if mode:
            annotations[KUBELET] = mode

    lab.change("nodes", name, change)


def test_a_silent_node_becomes_unreachable_and_comes_back(lab: Lab) -> None:
    lab.nodes(1)
    _stop(lab, "node1")
    lab.advance(40, step=5)
    assert _taints(lab) == set()
    lab.advance(20, step=5)
    prefix = "node.kubernetes.io/unreachable"
    assert _taints(lab) == {f"{prefix}:NoSchedule", f"{prefix}:NoExecute"}
    _stop(lab, "node1", None)
    assert _taints(lab) == set()
    ready = [c for c in lab.must("nodes", "node1")["status"]["conditions"] if c["type"] == "Ready"]
    assert ready[0]["status"] == "True"


def _ready(node: Object) -> Object:
    return next(each for each in node["status"]["conditions"] if each["type"] == "Ready")


def _node_writes(lab: Lab) -> list[str]:
    seen: list[str] = []
    lab.store.subscribe(NODES, lambda event: seen.append(event.entry.name))
    return seen


def test_nodes_stay_ready_when_the_process_was_frozen(lab: Lab) -> None:
    lab.nodes(3)
    lab.advance(30)
    writes = _node_writes(lab)
    lab.clock.advance(600)  # neither kubelets nor controllers ran
    lab.settle()
    lab.advance(120)
    assert writes == []
    assert all(not node["spec"].get("taints") for node in lab.list("nodes"))


def test_a_status_without_a_lease_counts_as_a_sign_of_life(lab: Lab) -> None:
    """A node must not go back and forth between the kubelet's word and the controller's."""
    lab.nodes(1)
    lab.advance(10)
    lab.kubelets.stop()
    lab.advance(70)
    assert _ready(lab.must("nodes", "node1"))["status"] == "Unknown"
    writes = _node_writes(lab)
    lab.api.modify(NODES, "", "node1", _says_ready, subresource="status")
    lab.settle()
    assert _ready(lab.must("nodes", "node1"))["status"] == "True"
    assert len(writes) <= 3  # the status, and the taints that go


def _says_ready(node: Object) -> None:
    _ready(node).update(status="True", reason="KubeletReady")


def test_a_kubelet_that_says_it_is_not_ready_taints_its_node(lab: Lab) -> None:
    lab.nodes(1)
    _stop(lab, "node1", "not-ready")
    prefix = "node.kubernetes.io/not-ready"
    assert _taints(lab) == {f"{prefix}:NoSchedule", f"{prefix}:NoExecute"}


@pytest.mark.parametrize(("condition", "taint"), [
    pytest.param("MemoryPressure", "memory-pressure", id="memory"),
    pytest.param("DiskPressure", "disk-pressure", id="disk"),
    pytest.param("PIDPressure", "pid-pressure", id="processes"),
    pytest.param("NetworkUnavailable", "network-unavailable", id="network"),
])  # fmt: skip
def test_a_condition_becomes_a_taint(lab: Lab, condition: str, taint: str) -> None:
    lab.nodes(1)
    from mooring.controlplane.registry.catalog import NODES

    def press(node: Object) -> None:
        node["status"]["conditions"].append({"type": condition, "status": "True"})

    lab.api.modify(NODES, "", "node1", press, subresource="status")
    lab.settle()
    assert _taints(lab) == {f"node.kubernetes.io/{taint}:NoSchedule"}


def test_a_cordoned_node_carries_the_taint_and_keeps_those_of_others(lab: Lab) -> None:
    lab.nodes(1)
    lab.change("nodes", "node1", lambda node: node["spec"].update(taints=[{"key": "mine", "effect": "NoSchedule"}]))
    lab.change("nodes", "node1", lambda node: node["spec"].update(unschedulable=True))
    assert _taints(lab) == {"mine:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"}
    lab.change("nodes", "node1", lambda node: node["spec"].pop("unschedulable"))
    assert _taints(lab) == {"mine:NoSchedule"}


def _bears_fire(seconds: int | None = None, key: str = "fire") -> Object:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"operator": "Exists", "effect": "NoExecute", **({"key": key} if key else {}), **limit}


@pytest.mark.parametrize(("tolerations", "stays_s"), [
    pytest.param([], 0, id="nothing tolerated"),
    pytest.param([_bears_fire(30)], 30, id="for a while"),
    pytest.param([_bears_fire()], None, id="for ever"),
    pytest.param([_bears_fire(60, key=""), _bears_fire(20)], 20, id="the shortest counts"),
])  # fmt: skip
def test_no_execute_evicts_when_patience_ends(lab: Lab, tolerations: list[Object], stays_s: int | None) -> None:
    lab.nodes(1)
    lab.create(lab.pod("p", tolerations=tolerations, terminationGracePeriodSeconds=0))
    lab.change("nodes", "node1", lambda node: node["spec"].update(taints=[{"key": "fire", "effect": "NoExecute"}]))
    if stays_s:
        lab.advance(stays_s - 2)
        assert lab.get("pods", "p") is not None
        lab.advance(4)
    elif stays_s is None:
        lab.advance(600, step=30)
    assert (lab.get("pods", "p") is not None) == (stays_s is None)


def test_a_lost_node_costs_its_pods_after_five_minutes(lab: Lab) -> None:
    lab.nodes(2)
    lab.create(workload("ReplicaSet", replicas=2))
    _stop(lab, "node2")
    lab.advance(300, step=5)
    assert len(lab.store.pods_on("node2")) == 1
    lab.advance(70, step=5)
    alive = [pod for pod in lab.list("pods") if not pod["metadata"].get("deletionTimestamp")]
    assert [pod["spec"]["nodeName"] for pod in alive] == ["node1", "node1"]


# Volumes


def _class(name: str, provisioner: str, mode: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def _claim(name: str = "data", storage_class: str = "", size: str = "5Gi") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    }


def _volume(name: str, size: str, storage_class: str = "", policy: str = "Retain") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": policy,
            "hostPath": {"path": "/x"},
        },
    }


def test_a_claim_takes_the_smallest_volume_that_is_large_enough(lab: Lab) -> None:
    for name, size in (("small", "1Gi"), ("large", "20Gi"), ("fitting", "10Gi")):
        lab.create(_volume(name, size))
    lab.create(_claim())
    claim = lab.must("persistentvolumeclaims", "data")
    assert claim["spec"]["volumeName"] == "fitting" and claim["status"]["phase"] == "Bound"
    assert claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    assert lab.must("persistentvolumes", "fitting")["status"]["phase"] == "Bound"
    assert lab.must("persistentvolumes", "large")["status"]["phase"] == "Available"


@pytest.mark.parametrize(("policy", "left"), [
    pytest.param("Retain", "Released", id="a retained volume is released"),
    pytest.param("Delete", None, id="a volume to delete is deleted"),
])  # fmt: skip
def test_a_volume_outlives_its_claim_or_not(lab: Lab, policy: str, left: str | None) -> None:
    lab.create(_volume("v", "10Gi", policy=policy))
    lab.create(_claim())
    lab.delete("persistentvolumeclaims", "data")
    volume = lab.get("persistentvolumes", "v")
    assert (volume["status"]["phase"] if volume else None) == left


def test_immediate_claims_are_provisioned_immediately(lab: Lab) -> None:
    lab.create(_class("fast", "disks.example.com", "Immediate"))
    lab.create(_claim(storage_class="fast"))
    claim = lab.must("persistentvolumeclaims", "data")
    volume = lab.must("persistentvolumes", claim["spec"]["volumeName"])
    assert claim["status"]["phase"] == "Bound" and volume["status"]["phase"] == "Bound"
    assert volume["spec"]["csi"]["driver"] == "disks.example.com" and "nodeAffinity" not in volume["spec"]


def test_a_waiting_claim_is_provisioned_where_the_scheduler_says(lab: Lab) -> None:
    lab.nodes(1, **{"topology.kubernetes.io/zone": "a"})
    lab.create(_class("late", "disks.example.com", "WaitForFirstConsumer"))
    lab.create(_claim(storage_class="late"))
    assert lab.must("persistentvolumeclaims", "data")["status"]["phase"] == "Pending"

    def select(claim: Object) -> None:
        claim["metadata"].setdefault("annotations", {})["volume.kubernetes.io/selected-node"] = "node1"

    lab.change("persistentvolumeclaims", "data", select)
    claim = lab.must("persistentvolumeclaims", "data")
    volume = lab.must("persistentvolumes", claim["spec"]["volumeName"])
    term = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    assert (term["key"], term["values"]) == ("topology.kubernetes.io/zone", ["a"])


def test_a_waiting_claim_is_bound_to_the_volume_that_the_scheduler_promised(lab: Lab) -> None:
    lab.create(_class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"))
    lab.create(_volume("disk", "10Gi", "local"))
    made = lab.create(_claim(storage_class="local"))
    assert lab.must("persistentvolumeclaims", "data")["status"]["phase"] == "Pending"
    reference = {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": made["metadata"]["uid"],
    }
    lab.change("persistentvolumes", "disk", lambda volume: volume["spec"].update(claimRef=reference))
    assert lab.must("persistentvolumeclaims", "data")["spec"]["volumeName"] == "disk"


def test_an_ephemeral_volume_gets_a_claim_that_goes_with_its_pod(lab: Lab) -> None:
    lab.nodes(1)
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}
    lab.create(lab.pod("p", volumes=[volume]))
    made = lab.must("persistentvolumeclaims", "p-scratch")
    assert made["metadata"]["ownerReferences"][0]["name"] == "p"
    lab.delete("pods", "p", gracePeriodSeconds=0)
    assert lab.get("persistentvolumeclaims", "p-scratch") is None


def test_an_ephemeral_volume_gets_its_claim_when_the_one_in_its_way_is_gone(lab: Lab) -> None:
    """A pod of the same name came before: its claim goes only after the next pod is there."""
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    pod = lab.pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}])
    former = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "former", "controller": True}
    meta = {"name": "p-scratch", "ownerReferences": [former]}
    lab.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, **claim}, settle=False)
    lab.create(pod)
    made = lab.must("persistentvolumeclaims", "p-scratch")["metadata"]["ownerReferences"][0]
    assert made["uid"] == lab.must("pods", "p")["metadata"]["uid"]


# Budgets


def _budget(**spec: Any) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


@pytest.mark.parametrize(("spec", "desired", "allowed"), [
    pytest.param({"minAvailable": 3}, 3, 1, id="a number that must stay"),
    pytest.param({"minAvailable": "50%"}, 2, 2, id="a share that must stay"),
    pytest.param({"maxUnavailable": 1}, 3, 1, id="a number that may go"),
    pytest.param({"maxUnavailable": "30%"}, 2, 2, id="a share that may go, rounded up"),
    pytest.param({"minAvailable": 9}, 9, 0, id="more than there are"),
])  # fmt: skip
def test_a_budget_counts_what_may_go(lab: Lab, spec: Object, desired: int, allowed: int) -> None:
    lab.nodes(2)
    lab.create(workload("Deployment", replicas=4))
    lab.create(_budget(**spec))
    status = lab.must("poddisruptionbudgets.policy", "budget")["status"]
    assert (status["currentHealthy"], status["expectedPods"]) == (4, 4)
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (desired, allowed)


def test_evictions_stop_at_the_budget_and_continue_when_a_replacement_is_ready(lab: Lab) -> None:
    lab.nodes(2)
    lab.create(workload("Deployment", replicas=3))
    lab.create(_budget(minAvailable=2))
    first, second, _ = [pod["metadata"]["name"] for pod in lab.list("pods")]
    lab.binds = False
    evict(lab.api, "default", first, b"", Options())
    lab.settle()
    with pytest.raises(StatusError) as refused:
        evict(lab.api, "default", second, b"", Options())
    assert refused.value.code == 429
    lab.binds = True
    lab.advance(2)
    evict(lab.api, "default", second, b"", Options())


# Resource claims


def _template() -> Object:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpus"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def _gpu_pod(lab: Lab) -> Object:
    return lab.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])


@pytest.mark.parametrize("template_first", [
    pytest.param(True, id="the template is there"),
    pytest.param(False, id="the template comes later"),
])  # fmt: skip
def test_a_pod_gets_a_claim_from_its_template(lab: Lab, template_first: bool) -> None:
    lab.binds = False
    for obj in [_template(), _gpu_pod(lab)] if template_first else [_gpu_pod(lab), _template()]:
        lab.create(obj)
    (claim,) = lab.list("resourceclaims.resource.k8s.io")
    assert claim["metadata"]["name"].startswith("p-gpu-")
    assert lab.must("pods", "p")["status"]["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}
    ]


def test_a_claim_is_released_when_its_pod_ends(lab: Lab) -> None:
    from mooring.controlplane.registry.catalog import by_resource

    lab.nodes(1)
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"},
             "spec": _template()["spec"]["spec"]}  # fmt: skip
    lab.create(claim)
    pod = lab.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}], restartPolicy="Never",
                  annotations={"mooring/completes-after": "5s"})  # fmt: skip
    made = lab.create(pod)

    def reserve(obj: Object) -> None:
        user = {"resource": "pods", "name": "p", "uid": made["metadata"]["uid"]}
        obj["status"] = {"allocation": {"devices": {}}, "reservedFor": [user]}

    lab.api.modify(by_resource("resourceclaims.resource.k8s.io"), "default", "shared", reserve, subresource="status")
    lab.settle()
    assert lab.must("resourceclaims.resource.k8s.io", "shared")["status"]["reservedFor"]
    lab.advance(7)
    status = lab.must("resourceclaims.resource.k8s.io", "shared").get("status") or {}
    assert "reservedFor" not in status and "allocation" not in status


def test_a_namespace_goes_with_everything_in_it(lab: Lab) -> None:
    lab.nodes(1)
    lab.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    web = workload("Deployment", replicas=2)
    web["metadata"]["namespace"] = "team"
    lab.create(web)
    lab.delete("namespaces", "team")
    assert lab.get("namespaces", "team") is not None
    lab.advance(4)
    assert lab.get("namespaces", "team") is None and not lab.list("pods")
