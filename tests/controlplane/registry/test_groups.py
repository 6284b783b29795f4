"""Each kind's own rules: what is filled in, what is refused, what may not change."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.controlplane.registry.catalog import NAMESPACES, NODES, PODS, by_resource
from mooring.controlplane.registry.groups.volumes import STORAGE_CLASSES
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage.store import Store
from mooring.controlplane.types.status import StatusError

NOW = "2026-01-01T00:00:00Z"


def make_api() -> Api:
    api = Api(Store(), VirtualClock(1_767_225_600.0), new_uid=lambda: "uid")
    api.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    return api


def created(resource: str, obj: dict[str, Any], api: Api | None = None) -> dict[str, Any]:
    kind = by_resource(resource)
    obj = {"metadata": {"name": "x"}, **copy.deepcopy(obj)}
    return (api or make_api()).create(kind, "default" if kind.is_namespaced else "", obj).object()


def at(obj: Any, path: str) -> Any:
    for part in path.split("."):
        obj = obj[int(part)] if part.isdigit() else obj[part]
    return obj


LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
WORKLOAD = {"spec": {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}}
JOB = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}}
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}}
VOLUME = {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}}}


@pytest.mark.parametrize(
    ("resource", "obj", "want"),
    [
        pytest.param(
            "namespaces",
            {},
            {
                "metadata.labels": {"kubernetes.io/metadata.name": "x"},
                "spec.finalizers": ["kubernetes"],
                "status.phase": "Active",
            },
            id="a namespace",
        ),
        pytest.param(
            "nodes",
            {"status": {"capacity": {"cpu": "4000m"}}},
            {"status.allocatable": {"cpu": "4"}, "status.nodeInfo.kubeletVersion": ""},
            id="a node's allocatable is its capacity",
        ),
        pytest.param(
            "nodes", {"spec": {"taints": [], "unschedulable": False}}, {"spec": {}}, id="a node's empty fields"
        ),
        pytest.param(
            "services",
            {"spec": {"ports": [{"port": 80}]}},
            {
                "spec.type": "ClusterIP",
                "spec.ports.0": {"port": 80, "protocol": "TCP", "targetPort": 80},
                "status": {"loadBalancer": {}},
            },
            id="a service",
        ),
        pytest.param(
            "secrets",
            {"stringData": {"a": "b"}},
            {"type": "Opaque", "data": {"a": base64.b64encode(b"b").decode()}},
            id="a secret in plain text",
        ),
        pytest.param("events", {}, {"involvedObject": {}, "source": {}, "reportingComponent": ""}, id="an event"),
        pytest.param(
            "persistentvolumes",
            VOLUME,
            {
                "spec.persistentVolumeReclaimPolicy": "Retain",
                "spec.volumeMode": "Filesystem",
                "status.phase": "Pending",
                "status.lastPhaseTransitionTime": NOW,
            },
            id="a volume",
        ),
        pytest.param(
            "persistentvolumeclaims",
            CLAIM,
            {"spec.resources.requests.storage": "1Gi", "status": {"phase": "Pending"}},
            id="a claim",
        ),
        pytest.param(
            "replicationcontrollers",
            {"spec": {"template": TEMPLATE}},
            {"spec.selector": LABELS, "metadata.labels": LABELS, "spec.replicas": 1, "status": {"replicas": 0}},
            id="a replication controller takes its template's labels",
        ),
        pytest.param(
            "deployments.apps",
            WORKLOAD,
            {
                "spec.replicas": 1,
                "spec.revisionHistoryLimit": 10,
                "spec.progressDeadlineSeconds": 600,
                "spec.strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
                },
                "spec.template.spec.restartPolicy": "Always",
                "metadata.generation": 1,
            },
            id="a deployment",
        ),
        pytest.param(
            "deployments.apps",
            {"spec": {**WORKLOAD["spec"], "strategy": {"type": "Recreate"}}},
            {"spec.strategy": {"type": "Recreate"}},
            id="a recreated deployment",
        ),
        pytest.param("replicasets.apps", WORKLOAD, {"spec.replicas": 1, "status": {"replicas": 0}}, id="a replica set"),
        pytest.param(
            "statefulsets.apps",
            {"spec": {**WORKLOAD["spec"], "volumeClaimTemplates": [{"metadata": {"name": "d"}, **CLAIM}]}},
            {
                "spec.podManagementPolicy": "OrderedReady",
                "spec.updateStrategy.rollingUpdate.partition": 0,
                "spec.volumeClaimTemplates.0.status": {"phase": "Pending"},
                "spec.volumeClaimTemplates.0.spec.volumeMode": "Filesystem",
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled": "Retain",
            },
            id="a stateful set",
        ),
        pytest.param(
            "daemonsets.apps",
            WORKLOAD,
            {
                "spec.updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
                "status.numberReady": 0,
            },
            id="a daemon set",
        ),
        pytest.param(
            "jobs.batch",
            JOB,
            {
                "spec.completions": 1,
                "spec.parallelism": 1,
                "spec.backoffLimit": 6,
                "spec.selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid"}},
                "spec.template.metadata.labels": {
                    "batch.kubernetes.io/controller-uid": "uid",
                    "batch.kubernetes.io/job-name": "x",
                    "controller-uid": "uid",
                    "job-name": "x",
                },
            },
            id="a job",
        ),
        pytest.param(
            "networkpolicies.networking.k8s.io",
            {"spec": {"egress": [{"ports": [{"port": 53}]}]}},
            {"spec.policyTypes": ["Ingress", "Egress"], "spec.egress.0.ports.0.protocol": "TCP"},
            id="a network policy with egress",
        ),
        pytest.param("networkpolicies.networking.k8s.io", {}, {"spec.policyTypes": ["Ingress"]}, id="a network policy"),
        pytest.param(
            "runtimeclasses.node.k8s.io",
            {"handler": "h", "overhead": {"podFixed": {"cpu": "1000m"}}},
            {"overhead.podFixed.cpu": "1"},
            id="a runtime class",
        ),
        pytest.param(
            "poddisruptionbudgets.policy",
            {},
            {"status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}},
            id="a budget",
        ),
        pytest.param(
            "rolebindings.rbac.authorization.k8s.io",
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [{"kind": "User", "name": "a"}, {"kind": "ServiceAccount", "name": "b"}],
            },
            {
                "roleRef.apiGroup": "rbac.authorization.k8s.io",
                "subjects.0.apiGroup": "rbac.authorization.k8s.io",
                "subjects.1": {"kind": "ServiceAccount", "name": "b"},
            },
            id="a role binding",
        ),
        pytest.param(
            "resourceclaims.resource.k8s.io",
            {
                "spec": {
                    "devices": {
                        "requests": [
                            {"name": "a", "exactly": {"tolerations": [{}]}},
                            {"name": "b", "firstAvailable": [{"name": "c", "allocationMode": "All"}]},
                        ]
                    }
                }
            },
            {
                "spec.devices.requests.0.exactly": {
                    "allocationMode": "ExactCount",
                    "count": 1,
                    "tolerations": [{"operator": "Equal"}],
                },
                "spec.devices.requests.1.firstAvailable.0": {"name": "c", "allocationMode": "All"},
                "status": {},
            },
            id="a resource claim",
        ),
        pytest.param(
            "resourceclaimtemplates.resource.k8s.io",
            {"spec": {"spec": {"devices": {"requests": [{"name": "a", "exactly": {}}]}}}},
            {"spec.metadata": {}, "spec.spec.devices.requests.0.exactly.count": 1},
            id="a claim template",
        ),
        pytest.param(
            "resourceslices.resource.k8s.io",
            {"spec": {"devices": [{"name": "d", "capacity": {"m": {"value": "1024Mi"}}, "taints": [{"key": "a"}]}]}},
            {"spec.devices.0.capacity.m.value": "1Gi", "spec.devices.0.taints.0.timeAdded": NOW},
            id="a resource slice",
        ),
        pytest.param(
            "priorityclasses.scheduling.k8s.io",
            {},
            {"value": 0, "preemptionPolicy": "PreemptLowerPriority"},
            id="a priority class",
        ),
        pytest.param(
            "storageclasses.storage.k8s.io",
            {"provisioner": "p"},
            {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
            id="a storage class",
        ),
        pytest.param(
            "csidrivers.storage.k8s.io",
            {},
            {"spec.attachRequired": True, "spec.storageCapacity": False, "spec.volumeLifecycleModes": ["Persistent"]},
            id="a CSI driver",
        ),
        pytest.param(
            "csistoragecapacities.storage.k8s.io",
            {"capacity": "1024Mi", "maximumVolumeSize": "1000M"},
            {"capacity": "1Gi", "maximumVolumeSize": "1G"},
            id="a storage capacity",
        ),
    ],
)
def test_what_is_filled_in(resource: str, obj: dict[str, Any], want: dict[str, Any]) -> None:
    made = created(resource, obj)
    assert {path: at(made, path) for path in want} == want


def test_a_job_with_a_selector_of_its_own_keeps_it() -> None:
    spec = {**JOB["spec"], "manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}
    made = created("jobs.batch", {"spec": spec})
    assert made["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert "labels" not in made["spec"]["template"]["metadata"]


def test_a_job_for_a_work_queue_has_no_completions() -> None:
    assert "completions" not in created("jobs.batch", {"spec": {**JOB["spec"], "parallelism": 3}})["spec"]


@pytest.mark.parametrize(
    ("marks", "want"),
    [
        pytest.param({}, None, id="no default class"),
        pytest.param({"a": "true"}, "a", id="one default class"),
        pytest.param({"a": "true", "b": "true"}, "b", id="the newer of two"),
        pytest.param({"a": "false"}, None, id="marked as not the default"),
    ],
)
def test_a_claim_without_class_gets_the_default(marks: dict[str, str], want: str | None) -> None:
    api = make_api()
    for name, mark in marks.items():
        annotations = {"storageclass.kubernetes.io/is-default-class": mark}
        api.create(STORAGE_CLASSES, "", {"metadata": {"name": name, "annotations": annotations}, "provisioner": "p"})
        api.clock.advance(10)  # type: ignore[attr-defined]
    assert created("persistentvolumeclaims", CLAIM, api)["spec"].get("storageClassName") == want


def test_a_claim_that_wants_no_class_gets_none() -> None:
    api = make_api()
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    api.create(STORAGE_CLASSES, "", {"metadata": {"name": "a", "annotations": annotations}, "provisioner": "p"})
    wish = {"spec": {**CLAIM["spec"], "storageClassName": ""}}
    assert created("persistentvolumeclaims", wish, api)["spec"]["storageClassName"] == ""
    bound = {"spec": {**CLAIM["spec"], "volumeName": "pv"}}
    assert (
        "storageClassName" not in created("persistentvolumeclaims", {**bound, "metadata": {"name": "y"}}, api)["spec"]
    )


def spec(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"spec": {**base["spec"], **changes}}


@pytest.mark.parametrize(
    ("resource", "obj", "want"),
    [
        pytest.param(
            "namespaces", {"metadata": {"name": "a.b"}}, "a lowercase RFC 1123 label", id="a namespace with a dot"
        ),
        pytest.param("nodes", {"spec": {"taints": [{"key": "a"}]}}, "spec.taints[0].effect: Required", id="a taint"),
        pytest.param(
            "nodes", {"status": {"capacity": {"cpu": "-1"}}}, "status.capacity[cpu]", id="a node below nothing"
        ),
        pytest.param(
            "persistentvolumes", spec(VOLUME, accessModes=[]), "spec.accessModes: Required", id="no access modes"
        ),
        pytest.param(
            "persistentvolumes", spec(VOLUME, accessModes=["X"]), "spec.accessModes: Unsupported", id="a bad mode"
        ),
        pytest.param("persistentvolumes", spec(VOLUME, capacity={}), "spec.capacity: Required", id="no capacity"),
        pytest.param(
            "jobs.batch", spec(JOB, backoffLimitPerIndex=1), "requires indexed completion mode", id="no indexes"
        ),
        pytest.param(
            "jobs.batch",
            spec(JOB, completionMode="Indexed", completions=2, maxFailedIndexes=1),
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            id="failed indexes without a limit",
        ),
        pytest.param(
            "jobs.batch",
            spec(JOB, completionMode="Indexed", parallelism=2),
            "spec.completions: Required value: when completion mode is Indexed",
            id="indexes without a number",
        ),
        pytest.param(
            "jobs.batch",
            spec(JOB, podFailurePolicy={"rules": [{"action": "FailIndex", "onPodConditions": [{"type": "A"}]}]}),
            'spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex',
            id="an index to fail where there is none",
        ),
        pytest.param(
            "jobs.batch",
            spec(JOB, podFailurePolicy={"rules": [{"action": "Ignore"}]}),
            "specifying one of OnExitCodes and OnPodConditions is required",
            id="a failure rule without a condition",
        ),
        pytest.param(
            "jobs.batch",
            spec(JOB, podFailurePolicy={"rules": []}, podReplacementPolicy="TerminatingOrFailed"),
            'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
            id="a failure policy without its replacement policy",
        ),
        pytest.param(
            "persistentvolumes",
            spec(VOLUME, capacity={"storage": "0"}),
            "must be greater than zero",
            id="a volume of nothing",
        ),
        pytest.param(
            "persistentvolumes",
            {"spec": {k: v for k, v in VOLUME["spec"].items() if k != "hostPath"}},
            "must specify a volume type",
            id="a volume without source",
        ),
        pytest.param(
            "persistentvolumes",
            spec(VOLUME, nfs={}),
            "may not specify more than 1 volume type",
            id="a volume with two sources",
        ),
        pytest.param(
            "persistentvolumes",
            {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}, "local": {"path": "/"}}},
            "Local volume requires node affinity",
            id="a local volume that could be anywhere",
        ),
        pytest.param(
            "persistentvolumes",
            spec(VOLUME, nodeAffinity={"required": {}}),
            "must have at least one node selector term",
            id="a volume on no node",
        ),
        pytest.param(
            "persistentvolumeclaims", spec(CLAIM, accessModes=[]), "at least 1 access mode", id="a claim's modes"
        ),
        pytest.param(
            "persistentvolumeclaims",
            spec(CLAIM, resources={}),
            "spec.resources[storage]: Required",
            id="a claim of nothing",
        ),
        pytest.param(
            "persistentvolumeclaims",
            spec(CLAIM, resources={"requests": {"storage": "-1"}}),
            "must be greater than zero",
            id="a claim of less than nothing",
        ),
        pytest.param(
            "persistentvolumeclaims",
            spec(CLAIM, selector={"matchLabels": {"-": ""}}),
            "spec.selector.matchLabels",
            id="a claim's selector",
        ),
        pytest.param("deployments.apps", {"spec": {"template": TEMPLATE}}, "spec.selector: Required", id="no selector"),
        pytest.param(
            "deployments.apps",
            spec(WORKLOAD, selector={"matchLabels": {"app": "other"}}),
            "`selector` does not match template `labels`",
            id="a selector for others",
        ),
        pytest.param(
            "deployments.apps", spec(WORKLOAD, replicas=-1), "spec.replicas: Invalid value: -1", id="replicas"
        ),
        pytest.param(
            "deployments.apps",
            spec(WORKLOAD, template={**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}),
            'supported values: "Always"',
            id="pods that end",
        ),
        pytest.param(
            "deployments.apps",
            spec(WORKLOAD, template={"metadata": {"labels": LABELS}, "spec": {}}),
            "spec.template.spec.containers: Required",
            id="no containers",
        ),
        pytest.param(
            "deployments.apps",
            spec(WORKLOAD, strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            "may not be 0 when `maxSurge` is 0",
            id="an update that cannot begin",
        ),
        pytest.param(
            "deployments.apps",
            spec(
                WORKLOAD,
                strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "0%", "maxUnavailable": "0%"}},
            ),
            "may not be 0 when `maxSurge` is 0",
            id="the same in percent",
        ),
        pytest.param(
            "daemonsets.apps",
            spec(
                WORKLOAD,
                updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            ),
            "may not be set when maxUnavailable is non-zero",
            id="a daemon set with both",
        ),
        pytest.param(
            "daemonsets.apps",
            spec(
                WORKLOAD,
                updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
            ),
            "cannot be 0 when maxSurge is 0",
            id="a daemon set with neither",
        ),
        pytest.param(
            "statefulsets.apps",
            spec(WORKLOAD, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}),
            "partition: Invalid value: -1",
            id="a partition below zero",
        ),
        pytest.param(
            "replicationcontrollers",
            {"spec": {"template": {"spec": TEMPLATE["spec"]}}},
            "spec.selector: Required",
            id="a replication controller without labels",
        ),
        pytest.param(
            "jobs.batch", {"spec": {**JOB["spec"], "parallelism": -1}}, "spec.parallelism", id="a job's parallelism"
        ),
        pytest.param(
            "jobs.batch",
            {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}},
            'supported values: "OnFailure", "Never"',
            id="a job that never ends",
        ),
        pytest.param("runtimeclasses.node.k8s.io", {}, "handler: Required", id="a runtime class without handler"),
        pytest.param(
            "poddisruptionbudgets.policy",
            {"spec": {"minAvailable": 1, "maxUnavailable": 1}},
            "cannot be both set",
            id="a budget with both",
        ),
        pytest.param(
            "poddisruptionbudgets.policy",
            {"spec": {"minAvailable": "101%"}},
            "must not be greater than 100%",
            id="a budget of more than all",
        ),
        pytest.param(
            "rolebindings.rbac.authorization.k8s.io",
            {"roleRef": {"kind": "User", "name": "r"}},
            "roleRef.kind: Unsupported",
            id="a binding to a user",
        ),
        pytest.param(
            "rolebindings.rbac.authorization.k8s.io",
            {"roleRef": {"kind": "Role"}},
            "roleRef.name: Required",
            id="a binding to nothing",
        ),
        pytest.param(
            "priorityclasses.scheduling.k8s.io",
            {"metadata": {"name": "system-mine"}, "value": 5},
            "reserved for system use only",
            id="a system priority",
        ),
        pytest.param(
            "priorityclasses.scheduling.k8s.io", {"value": 10**9 + 1}, "maximum allowed value", id="too important"
        ),
        pytest.param(
            "priorityclasses.scheduling.k8s.io",
            {"preemptionPolicy": "X"},
            "preemptionPolicy: Unsupported",
            id="a preemption policy",
        ),
        pytest.param(
            "storageclasses.storage.k8s.io", {}, "provisioner: Required", id="a storage class without a provisioner"
        ),
        pytest.param(
            "storageclasses.storage.k8s.io",
            {"provisioner": "p", "volumeBindingMode": "Later"},
            "volumeBindingMode: Unsupported",
            id="a binding mode",
        ),
    ],
)
def test_what_is_refused(resource: str, obj: dict[str, Any], want: str) -> None:
    with pytest.raises(StatusError) as refused:
        created(resource, obj)
    assert refused.value.code == 422
    assert want in str(refused.value)


@pytest.mark.parametrize(
    ("resource", "obj", "change", "want"),
    [
        pytest.param(
            "nodes", {"spec": {"providerID": "a"}}, {"spec": {"providerID": "b"}}, "providerID", id="a node's id"
        ),
        pytest.param("nodes", {}, {"spec": {"providerID": "b"}}, "", id="a node's id, the first time"),
        pytest.param(
            "namespaces", {}, {"spec": {"finalizers": ["x/y"]}}, "", id="a namespace's finalizers are left alone"
        ),
        pytest.param(
            "configmaps",
            {"data": {"a": "1"}, "immutable": True},
            {"data": {"a": "2"}},
            "data: Forbidden",
            id="an immutable config map",
        ),
        pytest.param(
            "configmaps",
            {"data": {"a": "1"}, "immutable": True},
            {"immutable": False},
            "immutable: Forbidden",
            id="a config map stays immutable",
        ),
        pytest.param("configmaps", {"data": {"a": "1"}}, {"data": {"a": "2"}}, "", id="an ordinary config map"),
        pytest.param(
            "secrets",
            {"data": {"a": "MQ=="}, "immutable": True},
            {"data": {"a": "Mg=="}},
            "data: Forbidden",
            id="an immutable secret",
        ),
        pytest.param(
            "persistentvolumeclaims",
            CLAIM,
            {"spec.accessModes": ["ReadOnlyMany"]},
            "spec is immutable",
            id="a claim's modes",
        ),
        pytest.param(
            "persistentvolumeclaims", CLAIM, {"spec.volumeName": "pv"}, "", id="a claim's volume, the first time"
        ),
        pytest.param(
            "persistentvolumeclaims",
            CLAIM,
            {"spec.resources": {"requests": {"storage": "2Gi"}}},
            "",
            id="a larger claim",
        ),
        pytest.param("persistentvolumeclaims", CLAIM, {"spec.storageClassName": "s"}, "", id="a claim's class, later"),
        pytest.param("deployments.apps", WORKLOAD, {"spec.replicas": 4}, "", id="a deployment's size"),
        pytest.param(
            "deployments.apps",
            WORKLOAD,
            {
                "spec.selector": {"matchLabels": {**LABELS, "x": "y"}},
                "spec.template.metadata": {"labels": {**LABELS, "x": "y"}},
            },
            "spec.selector: Invalid",
            id="a deployment's selector",
        ),
        pytest.param("jobs.batch", JOB, {"spec.parallelism": 4}, "", id="a job's parallelism"),
        pytest.param(
            "jobs.batch",
            JOB,
            {"spec.template.spec.containers": [{"name": "c", "image": "j"}]},
            "spec.template: Invalid",
            id="a job's template",
        ),
        pytest.param(
            "jobs.batch",
            {"spec": {**JOB["spec"], "suspend": True}},
            {"spec.template.spec.nodeSelector": {"a": "b"}},
            "",
            id="a suspended job's template",
        ),
        pytest.param("jobs.batch", JOB, {"spec.completionMode": "Indexed"}, "spec.completionMode", id="a job's mode"),
        pytest.param(
            "runtimeclasses.node.k8s.io", {"handler": "a"}, {"handler": "b"}, "handler: Invalid", id="a handler"
        ),
        pytest.param(
            "rolebindings.rbac.authorization.k8s.io",
            {"roleRef": {"kind": "Role", "name": "r"}},
            {"roleRef": {"kind": "Role", "name": "s"}},
            "cannot change roleRef",
            id="a binding's role",
        ),
        pytest.param(
            "resourceclaims.resource.k8s.io",
            {},
            {"spec": {"devices": {"requests": [{"name": "a"}]}}},
            "spec: Invalid",
            id="a resource claim",
        ),
        pytest.param(
            "priorityclasses.scheduling.k8s.io",
            {"value": 1},
            {"value": 2},
            "may not be changed in an update",
            id="a priority",
        ),
        pytest.param(
            "priorityclasses.scheduling.k8s.io",
            {"value": 1},
            {"preemptionPolicy": "Never"},
            "preemptionPolicy: Invalid",
            id="a priority's policy",
        ),
        pytest.param("priorityclasses.scheduling.k8s.io", {"value": 1}, {"description": "d"}, "", id="a description"),
        pytest.param(
            "storageclasses.storage.k8s.io",
            {"provisioner": "p"},
            {"provisioner": "q"},
            "provisioner: Invalid",
            id="a provisioner",
        ),
        pytest.param(
            "storageclasses.storage.k8s.io", {"provisioner": "p"}, {"allowVolumeExpansion": True}, "", id="an expansion"
        ),
    ],
)
def test_what_may_change(resource: str, obj: dict[str, Any], change: dict[str, Any], want: str) -> None:
    api, kind = make_api(), by_resource(resource)
    created(resource, obj, api)

    def edit(current: dict[str, Any]) -> None:
        for path, value in change.items():
            *before, last = path.split(".")
            place = current
            for part in before:
                place = place.setdefault(part, {})
            place[last] = copy.deepcopy(value)

    namespace = "default" if kind.is_namespaced else ""
    if want:
        with pytest.raises(StatusError) as refused:
            api.modify(kind, namespace, "x", edit)
        assert refused.value.code == 422 and want in str(refused.value)
    else:
        api.modify(kind, namespace, "x", edit)


def test_a_namespace_keeps_its_finalizers_whatever_an_update_says() -> None:
    api = make_api()
    api.modify(NAMESPACES, "", "default", lambda obj: obj.update(spec={"finalizers": []}))
    assert api.get(NAMESPACES, "", "default").object()["spec"] == {"finalizers": ["kubernetes"]}


def test_a_status_write_of_a_workload_leaves_its_metadata_alone() -> None:
    api = make_api()
    created("deployments.apps", WORKLOAD, api)
    kind = by_resource("deployments.apps")

    def edit(obj: dict[str, Any]) -> None:
        obj["metadata"]["labels"] = {"new": "label"}
        obj["status"] = {"replicas": 1}

    after = api.modify(kind, "default", "x", edit, subresource="status").object()
    assert after["status"] == {"replicas": 1}
    assert "labels" not in after["metadata"]


@pytest.mark.parametrize(
    ("resource", "obj", "field", "want"),
    [
        ("namespaces", {}, "status.phase", "Active"),
        ("nodes", {"spec": {"unschedulable": True}}, "spec.unschedulable", "true"),
        ("nodes", {}, "spec.unschedulable", "false"),
        ("secrets", {}, "type", "Opaque"),
        ("replicasets.apps", WORKLOAD, "status.replicas", "0"),
        ("jobs.batch", JOB, "status.successful", "0"),
        ("resourceslices.resource.k8s.io", {"spec": {"nodeName": "n", "driver": "d"}}, "spec.driver", "d"),
        ("events", {"involvedObject": {"name": "p"}}, "involvedObject.name", "p"),
        ("events", {"source": {"component": "kubelet"}}, "source", "kubelet"),
        ("events", {"reportingComponent": "scheduler"}, "source", "scheduler"),
        ("configmaps", {}, "metadata.namespace", "default"),
    ],
)
def test_what_field_selectors_see(resource: str, obj: dict[str, Any], field: str, want: str) -> None:
    api, kind = make_api(), by_resource(resource)
    created(resource, obj, api)
    assert api.get(kind, "default" if kind.is_namespaced else "", "x").field(field) == want


def test_what_field_selectors_see_of_a_pod() -> None:
    api = make_api()
    api.create(NODES, "", {"metadata": {"name": "n"}})
    pod = {"spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n", "schedulerName": "mine"}}
    created("pods", pod, api)
    entry = api.get(PODS, "default", "x")
    fields = {name: entry.field(name) for name in sorted(PODS.field_names())}
    assert fields == {
        "metadata.name": "x",
        "metadata.namespace": "default",
        "spec.hostNetwork": "false",
        "spec.nodeName": "n",
        "spec.restartPolicy": "Always",
        "spec.schedulerName": "mine",
        "spec.serviceAccountName": "",
        "status.nominatedNodeName": "",
        "status.phase": "Pending",
        "status.podIP": "",
    }


def test_containers_of_a_stateful_set_mount_the_claims_that_are_made_for_them() -> None:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    claim = {"metadata": {"name": "data"}, **CLAIM}
    spec = {"selector": {"matchLabels": LABELS}, "serviceName": "x", "template": template}
    made = created("statefulsets.apps", {"spec": {**spec, "volumeClaimTemplates": [claim]}})
    assert "volumes" not in made["spec"]["template"]["spec"], "the controller adds them to each pod"
    with pytest.raises(StatusError, match=r'volumeMounts\[0\].name: Not found: "data"'):
        created("statefulsets.apps", {"spec": spec})
