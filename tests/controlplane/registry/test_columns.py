"""What ``kubectl get`` shows: upstream's columns, kind by kind, and what is in their cells."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controlplane.registry.catalog import KINDS, by_resource
from mooring.controlplane.registry.columns import columns_of

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
AN_HOUR_AGO = "2025-12-31T23:00:00Z"

# Names of upstream's printers; "+" marks what -o wide adds.
UPSTREAM = {
    "pods": "Name,Ready,Status,Restarts,Age,+IP,+Node,+Nominated Node,+Readiness Gates",
    "nodes": "Name,Status,Roles,Age,Version,+Internal-IP,+External-IP,+OS-Image,+Kernel-Version,+Container-Runtime",
    "events": "Last Seen,Type,Reason,Object,+Subobject,+Source,Message,+First Seen,+Count,+Name",
    "namespaces": "Name,Status,Age",
    "configmaps": "Name,Data,Age",
    "secrets": "Name,Type,Data,Age",
    "services": "Name,Type,Cluster-IP,External-IP,Port(s),Age,+Selector",
    "serviceaccounts": "Name,Age",
    "limitranges": "Name,Created At",
    "resourcequotas": "Name,Request,Limit,Age",
    "replicationcontrollers": "Name,Desired,Current,Ready,Age,+Containers,+Images,+Selector",
    "persistentvolumes": "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,"
    "Reason,Age,+VolumeMode",
    "persistentvolumeclaims": "Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age,"
    "+VolumeMode",
    "controllerrevisions.apps": "Name,Controller,Revision,Age",
    "daemonsets.apps": "Name,Desired,Current,Ready,Up-to-date,Available,Node Selector,Age,+Containers,+Images,"
    "+Selector",
    "deployments.apps": "Name,Ready,Up-to-date,Available,Age,+Containers,+Images,+Selector",
    "replicasets.apps": "Name,Desired,Current,Ready,Age,+Containers,+Images,+Selector",
    "statefulsets.apps": "Name,Ready,Age,+Containers,+Images",
    "jobs.batch": "Name,Status,Completions,Duration,Age,+Containers,+Images,+Selector",
    "cronjobs.batch": "Name,Schedule,Timezone,Suspend,Active,Last Schedule,Age,+Containers,+Images,+Selector",
    "leases.coordination.k8s.io": "Name,Holder,Age",
    "clusterqueues.kueue.x-k8s.io": "Name,Cohort,+Strategy,Pending Workloads,+Admitted Workloads",
    "cohorts.kueue.x-k8s.io": "Name,Age",
    "localqueues.kueue.x-k8s.io": "Name,ClusterQueue,Pending Workloads,Admitted Workloads",
    "resourceflavors.kueue.x-k8s.io": "Name,Age",
    "workloadpriorityclasses.kueue.x-k8s.io": "Name,Value",
    "workloads.kueue.x-k8s.io": "Name,Queue,Reserved in,Admitted,Finished,Age",
    "networkpolicies.networking.k8s.io": "Name,Pod-Selector,Age",
    "runtimeclasses.node.k8s.io": "Name,Handler,Age",
    "poddisruptionbudgets.policy": "Name,Min Available,Max Unavailable,Allowed Disruptions,Age",
    "clusterrolebindings.rbac.authorization.k8s.io": "Name,Role,Age,+Users,+Groups,+ServiceAccounts",
    "clusterroles.rbac.authorization.k8s.io": "Name,Created At",
    "rolebindings.rbac.authorization.k8s.io": "Name,Role,Age,+Users,+Groups,+ServiceAccounts",
    "roles.rbac.authorization.k8s.io": "Name,Created At",
    "deviceclasses.resource.k8s.io": "Name,Age",
    "devicetaintrules.resource.k8s.io": "Name,Age",
    "resourceclaims.resource.k8s.io": "Name,State,Age",
    "resourceclaimtemplates.resource.k8s.io": "Name,Age",
    "resourceslices.resource.k8s.io": "Name,Node,Driver,Pool,Age",
    "priorityclasses.scheduling.k8s.io": "Name,Value,Global-Default,Age,PreemptionPolicy",
    "podgroups.scheduling.k8s.io": "Name,Policy,Workload,Status,Age",
    "workloads.scheduling.k8s.io": "Name,Age",
    "podgroups.scheduling.x-k8s.io": "Name,Age",
    "csidrivers.storage.k8s.io": "Name,AttachRequired,PodInfoOnMount,StorageCapacity,TokenRequests,RequiresRepublish,"
    "Modes,Age",
    "csinodes.storage.k8s.io": "Name,Drivers,Age",
    "csistoragecapacities.storage.k8s.io": "Name,StorageClassName,Capacity",
    "storageclasses.storage.k8s.io": "Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age",
    "volumeattachments.storage.k8s.io": "Name,Attacher,PV,Node,Attached,Age",
}
INTEGERS = {"Desired", "Current", "Ready", "Up-to-date", "Available", "Allowed Disruptions", "Value", "Drivers"}
INTEGERS |= {"Pending Workloads", "Admitted Workloads"}


def test_every_kind_that_can_be_listed_is_in_the_table() -> None:
    assert UPSTREAM.keys() == {kind.resource for kind in KINDS if kind.is_stored}


@pytest.mark.parametrize("resource", UPSTREAM)
def test_columns_are_upstreams(resource: str) -> None:
    columns = columns_of(by_resource(resource))
    assert ",".join(("+" if column.priority else "") + column.name for column in columns) == UPSTREAM[resource]


@pytest.mark.parametrize("resource", ["replicasets.apps", "daemonsets.apps", "priorityclasses.scheduling.k8s.io"])
def test_numbers_are_integers(resource: str) -> None:
    for column in columns_of(by_resource(resource)):
        assert (column.type == "integer") is (column.name in INTEGERS), column.name


def test_events_look_the_same_through_both_groups() -> None:
    assert columns_of(by_resource("events.events.k8s.io")) is columns_of(by_resource("events"))


def row(resource: str, **obj: Any) -> dict[str, Any]:
    metadata = {"name": "x", "creationTimestamp": AN_HOUR_AGO, **obj.pop("metadata", {})}
    return {
        column.name: column.cell({"metadata": metadata, **obj}, NOW) for column in columns_of(by_resource(resource))
    }


CONTAINERS = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]
SELECTOR = {
    "matchLabels": {"b": "2", "a": "1"},
    "matchExpressions": [
        {"key": "c", "operator": "In", "values": ["y", "x"]},
        {"key": "d", "operator": "NotIn", "values": ["z"]},
        {"key": "e", "operator": "Exists"},
        {"key": "f", "operator": "DoesNotExist"},
    ],
}


@pytest.mark.parametrize(
    ("resource", "obj", "want"),
    [
        pytest.param(
            "deployments.apps",
            {
                "spec": {"replicas": 3, "selector": SELECTOR, "template": {"spec": {"containers": CONTAINERS}}},
                "status": {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2},
            },
            {
                "Ready": "2/3",
                "Up-to-date": 1,
                "Available": 2,
                "Age": "60m",
                "Containers": "a,b",
                "Images": "a:1,b:2",
                "Selector": "a=1,b=2,c in (x,y),d notin (z),e,!f",
            },
            id="a deployment",
        ),
        pytest.param("deployments.apps", {}, {"Ready": "0/0", "Selector": "<none>"}, id="an empty deployment"),
        pytest.param(
            "daemonsets.apps",
            {"spec": {"template": {"spec": {"nodeSelector": {"b": "2", "a": "1"}}}}, "status": {"numberReady": 4}},
            {"Ready": 4, "Node Selector": "a=1,b=2", "Desired": 0},
            id="a daemon set",
        ),
        pytest.param("daemonsets.apps", {}, {"Node Selector": "<none>"}, id="a daemon set for every node"),
        pytest.param(
            "controllerrevisions.apps",
            {
                "metadata": {"ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": True}]},
                "revision": 3,
            },
            {"Controller": "statefulset.apps/db", "Revision": 3},
            id="a revision and its owner",
        ),
        pytest.param(
            "controllerrevisions.apps", {}, {"Controller": "<none>", "Revision": 0}, id="a revision without an owner"
        ),
        pytest.param(
            "replicationcontrollers",
            {"spec": {"selector": {"b": "2", "a": "1"}}},
            {"Selector": "a=1,b=2"},
            id="a replication controller's plain selector",
        ),
        pytest.param(
            "services",
            {
                "spec": {
                    "type": "NodePort",
                    "clusterIP": "10.0.0.1",
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
                }
            },
            {"Type": "NodePort", "Cluster-IP": "10.0.0.1", "Port(s)": "80:30080/TCP,53/UDP", "Selector": "<none>"},
            id="a service",
        ),
        pytest.param("services", {}, {"Port(s)": "<none>", "Cluster-IP": "<none>"}, id="a service without ports"),
        pytest.param(
            "configmaps", {"data": {"a": "1"}, "binaryData": {"b": "", "c": ""}}, {"Data": 3}, id="a config map"
        ),
        pytest.param(
            "secrets", {"type": "Opaque", "data": {"a": "MQ=="}}, {"Type": "Opaque", "Data": 1}, id="a secret"
        ),
        pytest.param(
            "resourcequotas",
            {"status": {"hard": {"pods": "10", "limits.cpu": "4", "cpu": "2"}, "used": {"pods": "3", "cpu": "1"}}},
            {"Request": "cpu: 1/2, pods: 3/10", "Limit": "limits.cpu: 0/4"},
            id="a quota",
        ),
        pytest.param(
            "persistentvolumes",
            {
                "spec": {
                    "capacity": {"storage": "5Gi"},
                    "accessModes": ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOnce"],
                    "claimRef": {"namespace": "default", "name": "c"},
                },
                "status": {"phase": "Bound"},
            },
            {
                "Capacity": "5Gi",
                "Access Modes": "RWO,ROX",
                "Status": "Bound",
                "Claim": "default/c",
                "VolumeAttributesClass": "<unset>",
                "VolumeMode": "<unset>",
            },
            id="a volume",
        ),
        pytest.param(
            "persistentvolumeclaims",
            {
                "metadata": {"deletionTimestamp": AN_HOUR_AGO},
                "status": {"phase": "Bound", "accessModes": ["ReadWriteOncePod"]},
            },
            {"Status": "Terminating", "Access Modes": "RWOP"},
            id="a claim that is going",
        ),
        pytest.param(
            "jobs.batch",
            {
                "spec": {"completions": 3},
                "status": {
                    "succeeded": 3,
                    "startTime": "2025-12-31T23:00:00Z",
                    "completionTime": "2025-12-31T23:01:30Z",
                    "conditions": [{"type": "Complete", "status": "True"}],
                },
            },
            {"Status": "Complete", "Completions": "3/3", "Duration": "90s"},
            id="a finished job",
        ),
        pytest.param(
            "jobs.batch",
            {"spec": {"parallelism": 4}, "status": {"succeeded": 1, "startTime": "2025-12-31T23:58:00Z"}},
            {"Status": "Running", "Completions": "1/1 of 4", "Duration": "2m"},
            id="a running job with a work queue",
        ),
        pytest.param(
            "jobs.batch",
            {"spec": {"parallelism": 1}},
            {"Completions": "0/1", "Duration": "", "Status": "Running"},
            id="a job that has not begun",
        ),
        pytest.param(
            "jobs.batch",
            {
                "metadata": {"deletionTimestamp": AN_HOUR_AGO},
                "status": {"conditions": [{"type": "Suspended", "status": "True"}]},
            },
            {"Status": "Terminating"},
            id="a job that is going",
        ),
        pytest.param(
            "jobs.batch",
            {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}},
            {"Status": "Suspended"},
            id="a suspended job",
        ),
        pytest.param(
            "jobs.batch",
            {"status": {"conditions": [{"type": "Failed", "status": "True"}]}},
            {"Status": "Failed"},
            id="a failed job",
        ),
        pytest.param(
            "networkpolicies.networking.k8s.io",
            {"spec": {"podSelector": {"matchLabels": {"app": "web"}}}},
            {"Pod-Selector": "app=web"},
            id="a network policy",
        ),
        pytest.param(
            "networkpolicies.networking.k8s.io",
            {"spec": {"podSelector": {}}},
            {"Pod-Selector": "<none>"},
            id="a network policy for all pods",
        ),
        pytest.param(
            "poddisruptionbudgets.policy",
            {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}},
            {"Min Available": "50%", "Max Unavailable": "N/A", "Allowed Disruptions": 2},
            id="a budget",
        ),
        pytest.param(
            "rolebindings.rbac.authorization.k8s.io",
            {
                "roleRef": {"kind": "Role", "name": "r"},
                "subjects": [
                    {"kind": "User", "name": "ann"},
                    {"kind": "User", "name": "bob"},
                    {"kind": "Group", "name": "dev"},
                    {"kind": "ServiceAccount", "namespace": "ns", "name": "robot"},
                ],
            },
            {"Role": "Role/r", "Users": "ann, bob", "Groups": "dev", "ServiceAccounts": "ns/robot"},
            id="a role binding",
        ),
        pytest.param("roles.rbac.authorization.k8s.io", {}, {"Created At": AN_HOUR_AGO}, id="a role"),
        pytest.param(
            "storageclasses.storage.k8s.io",
            {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"},
            {"Name": "x (default)", "Provisioner": "p", "AllowVolumeExpansion": False},
            id="the default storage class",
        ),
        pytest.param(
            "csidrivers.storage.k8s.io",
            {"spec": {"attachRequired": True, "tokenRequests": [{"audience": "a"}, {"audience": "b"}]}},
            {"AttachRequired": True, "TokenRequests": "a,b", "Modes": "<none>", "RequiresRepublish": False},
            id="a driver",
        ),
        pytest.param("csidrivers.storage.k8s.io", {}, {"TokenRequests": "<unset>"}, id="a driver without tokens"),
        pytest.param("csinodes.storage.k8s.io", {"spec": {"drivers": [{}, {}]}}, {"Drivers": 2}, id="a CSI node"),
        pytest.param(
            "volumeattachments.storage.k8s.io",
            {
                "spec": {"attacher": "a", "source": {"persistentVolumeName": "pv"}, "nodeName": "n"},
                "status": {"attached": True},
            },
            {"Attacher": "a", "PV": "pv", "Node": "n", "Attached": True},
            id="an attachment",
        ),
        pytest.param("resourceclaims.resource.k8s.io", {}, {"State": "pending"}, id="a pending claim"),
        pytest.param(
            "resourceclaims.resource.k8s.io",
            {"status": {"allocation": {}, "reservedFor": [{}]}},
            {"State": "allocated,reserved"},
            id="a claim in use",
        ),
        pytest.param(
            "resourceclaims.resource.k8s.io",
            {"status": {"allocation": {}}},
            {"State": "allocated"},
            id="a claim at rest",
        ),
        pytest.param(
            "resourceclaims.resource.k8s.io",
            {"metadata": {"deletionTimestamp": AN_HOUR_AGO}, "status": {"allocation": {}}},
            {"State": "deleted,allocated"},
            id="a claim that is going",
        ),
        pytest.param(
            "priorityclasses.scheduling.k8s.io",
            {"value": 5, "globalDefault": True},
            {"Value": 5, "Global-Default": True},
            id="a priority class",
        ),
        pytest.param("namespaces", {"metadata": {"creationTimestamp": "x"}}, {"Age": "<unknown>"}, id="no time"),
    ],
)
def test_cells(resource: str, obj: dict[str, Any], want: dict[str, Any]) -> None:
    shown = row(resource, **obj)
    assert {name: shown[name] for name in want} == want


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, {"Status": "Ready"}, id="ready"
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, {"Status": "NotReady"}, id="silent"
        ),
        pytest.param({}, {"Status": "Unknown", "Roles": "<none>", "Internal-IP": "<none>"}, id="unheard of"),
        pytest.param(
            {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            {"Status": "Ready,SchedulingDisabled"},
            id="cordoned",
        ),
        pytest.param(
            {
                "metadata": {
                    "labels": {
                        "node-role.kubernetes.io/worker": "",
                        "node-role.kubernetes.io/control-plane": "",
                        "kubernetes.io/role": "edge",
                    }
                }
            },
            {"Roles": "control-plane,edge,worker"},
            id="roles",
        ),
        pytest.param(
            {
                "status": {
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                    "nodeInfo": {"kernelVersion": "6.1", "architecture": "amd64", "kubeletVersion": "v1.36.4"},
                }
            },
            {
                "Internal-IP": "10.0.0.1",
                "External-IP": "<none>",
                "Kernel-Version": "6.1 (amd64)",
                "OS-Image": "<unknown>",
                "Version": "v1.36.4",
            },
            id="what it runs",
        ),
    ],
)
def test_cells_of_nodes(obj: dict[str, Any], want: dict[str, Any]) -> None:
    shown = row("nodes", **obj)
    assert {name: shown[name] for name in want} == want


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(
            {"firstTimestamp": AN_HOUR_AGO, "lastTimestamp": "2025-12-31T23:59:30Z", "count": 7},
            {"Last Seen": "30s", "First Seen": "60m", "Count": 7},
            id="an event of the older form",
        ),
        pytest.param(
            {"eventTime": AN_HOUR_AGO, "series": {"count": 3, "lastObservedTime": "2025-12-31T23:59:50Z"}},
            {"Last Seen": "10s", "First Seen": "60m", "Count": 3},
            id="an event in a series",
        ),
        pytest.param(
            {"eventTime": AN_HOUR_AGO},
            {"Last Seen": "60m", "Count": 1, "Object": "", "Source": ""},
            id="a single event",
        ),
        pytest.param(
            {
                "involvedObject": {"kind": "Pod", "name": "web"},
                "source": {"component": "kubelet", "host": "n1"},
                "message": "Started\n",
            },
            {"Object": "pod/web", "Source": "kubelet, n1", "Message": "Started"},
            id="object and reporter",
        ),
        pytest.param(
            {"involvedObject": {"kind": "Pod"}, "reportingComponent": "default-scheduler"},
            {"Object": "pod", "Source": "default-scheduler"},
            id="a reporter of the newer form",
        ),
    ],
)
def test_cells_of_events(obj: dict[str, Any], want: dict[str, Any]) -> None:
    shown = row("events", **obj)
    assert {name: shown[name] for name in want} == want


RUNNING, DONE = {"running": {}}, {"terminated": {"exitCode": 0, "reason": "Completed"}}


def pod(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "a"}, {"name": "b"}], **spec}, "status": {"phase": "Running", **status}}


@pytest.mark.parametrize(
    ("obj", "status", "ready", "restarts"),
    [
        pytest.param(
            pod(
                {
                    "containerStatuses": [
                        {"ready": True, "state": RUNNING, "restartCount": 2},
                        {"ready": True, "state": RUNNING},
                    ]
                }
            ),
            "Running",
            "2/2",
            "2",
            id="both run",
        ),
        pytest.param(
            pod(
                {"containerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}, {"state": DONE}]}
            ),
            "Error",
            "0/2",
            "0",
            id="the first container's failure counts",
        ),
        pytest.param(
            pod({"containerStatuses": [{"state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
            "Signal:9",
            "0/2",
            "0",
            id="a signal without a reason",
        ),
        pytest.param(
            pod({"containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}),
            "ExitCode:3",
            "0/2",
            "0",
            id="an exit code without a reason",
        ),
        pytest.param(
            pod(
                {
                    "containerStatuses": [{"state": DONE}, {"ready": True, "state": RUNNING}],
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
            ),
            "Running",
            "1/2",
            "0",
            id="one is done and the other runs",
        ),
        pytest.param(
            pod({"containerStatuses": [{"state": DONE}, {"ready": True, "state": RUNNING}]}),
            "NotReady",
            "1/2",
            "0",
            id="one is done, the other runs, and the pod is not ready",
        ),
        pytest.param(
            pod(
                {"phase": "Pending", "initContainerStatuses": [{"state": DONE}, {"state": RUNNING}]},
                initContainers=[{"name": "x"}, {"name": "y"}],
            ),
            "Init:1/2",
            "0/2",
            "0",
            id="the second init container runs",
        ),
        pytest.param(
            pod(
                {"phase": "Pending", "initContainerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
                initContainers=[{"name": "x"}],
            ),
            "Init:CrashLoopBackOff",
            "0/2",
            "0",
            id="an init container crashes",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Pending",
                    "initContainerStatuses": [{"state": {"terminated": {"exitCode": 2, "reason": "Error"}}}],
                },
                initContainers=[{"name": "x"}],
            ),
            "Init:Error",
            "0/2",
            "0",
            id="an init container failed",
        ),
        pytest.param(
            pod(
                {"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]},
                initContainers=[{"name": "x"}],
            ),
            "Init:ExitCode:2",
            "0/2",
            "0",
            id="an init container failed without a reason",
        ),
        pytest.param(
            pod(
                {
                    "initContainerStatuses": [
                        {"name": "s", "started": True, "ready": True, "state": RUNNING, "restartCount": 4}
                    ],
                    "containerStatuses": [{"ready": True, "state": RUNNING, "restartCount": 1}],
                },
                initContainers=[{"name": "s", "restartPolicy": "Always"}],
            ),
            "Running",
            "2/3",
            "5",
            id="a sidecar counts",
        ),
        pytest.param(
            {**pod({}), "metadata": {"deletionTimestamp": AN_HOUR_AGO}}, "Terminating", "0/2", "0", id="on its way out"
        ),
        pytest.param(
            {**pod({"reason": "NodeLost"}), "metadata": {"deletionTimestamp": AN_HOUR_AGO}},
            "Unknown",
            "0/2",
            "0",
            id="lost with its node",
        ),
        pytest.param(
            {**pod({"phase": "Succeeded"}), "metadata": {"deletionTimestamp": AN_HOUR_AGO}},
            "Succeeded",
            "0/2",
            "0",
            id="finished and on its way out",
        ),
    ],
)
def test_a_pod_in_words(obj: dict[str, Any], status: str, ready: str, restarts: str) -> None:
    shown = row("pods", **obj)
    assert (shown["Status"], shown["Ready"], shown["Restarts"]) == (status, ready, restarts)


@pytest.mark.parametrize(
    ("gates", "conditions", "want"),
    [
        ([], [], "<none>"),
        ([{"conditionType": "a"}, {"conditionType": "b"}], [{"type": "a", "status": "True"}], "1/2"),
        ([{"conditionType": "a"}], [{"type": "a", "status": "False"}], "0/1"),
    ],
    ids=["no gates", "one of two", "none of one"],
)
def test_readiness_gates(gates: list[Any], conditions: list[Any], want: str) -> None:
    shown = row("pods", spec={"readinessGates": gates}, status={"conditions": conditions})
    assert shown["Readiness Gates"] == want
