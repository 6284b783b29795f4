"""Rules of single controllers that the everyday stories do not reach."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controlplane.cluster.deployments import share
from mooring.controlplane.cluster.jobs import format_indexes, parse_indexes
from mooring.controlplane.cluster.pod_sets import first_to_go, ready_in
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.scheduling import RESOURCE_CLAIMS
from mooring.controlplane.registry.groups.workloads import BUDGETS

from .conftest import START, Lab, Object, template, workload


@pytest.mark.parametrize(
    ("value", "of", "up", "want"),
    [
        ("25%", 10, True, 3),
        ("25%", 10, False, 2),
        ("100%", 7, True, 7),
        ("0%", 7, True, 0),
        (3, 10, True, 3),
        (None, 10, True, 0),
        ("%", 10, True, 0),
        ("x", 10, True, 0),
    ],
)
def test_a_share_of_pods(value: Any, of: int, up: bool, want: int) -> None:
    assert share(value, of, up=up) == want


@pytest.mark.parametrize(
    ("numbers", "want"), [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([0, 1, 3, 5, 6, 7], "0,1,3,5-7")]
)
def test_completed_indexes(numbers: list[int], want: str) -> None:
    assert format_indexes(numbers) == want and parse_indexes(want, 100) == set(numbers)


def _pod(
    name: str, *, node: str = "n", phase: str = "Running", ready: str = "", cost: str = "", made: str = "t5"
) -> Object:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else []
    annotations = {"controller.kubernetes.io/pod-deletion-cost": cost} if cost else {}
    return {
        "metadata": {"name": name, "creationTimestamp": made, "annotations": annotations},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": conditions},
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(_pod("a", node=""), _pod("b"), id="one without a node"),
        pytest.param(_pod("a", phase="Pending"), _pod("b"), id="one that is pending"),
        pytest.param(_pod("a"), _pod("b", ready="t1"), id="one that is not ready"),
        pytest.param(_pod("a", ready="t1", cost="-5"), _pod("b", ready="t1", cost="5"), id="one that costs less"),
        pytest.param(_pod("a", ready="t9"), _pod("b", ready="t1"), id="one that became ready later"),
        pytest.param(_pod("a", ready="t1", made="t9"), _pod("b", ready="t1", made="t1"), id="one that is younger"),
        pytest.param(_pod("a", ready="t1"), _pod("b", ready="t1"), id="by name, at last"),
        pytest.param(_pod("a", cost="9" * 5000), _pod("b", cost="1"), id="a cost that is no number counts nothing"),
    ],
)
def test_who_goes_first(first: Object, second: Object) -> None:
    assert sorted([second, first], key=first_to_go) == [first, second]


@pytest.mark.parametrize(
    ("ready", "min_ready_s", "want"),
    [
        ("", 0, None),
        ("2025-12-31T23:59:50Z", 0, 0.0),
        ("2025-12-31T23:59:50Z", 30, 20.0),
        ("2025-12-31T23:59:00Z", 30, 0.0),
    ],
    ids=["not ready", "at once", "in a while", "long since"],
)
def test_when_a_pod_counts_as_available(ready: str, min_ready_s: int, want: float | None) -> None:
    assert ready_in(_pod("a", ready=ready), min_ready_s, START) == want


# Replica sets


def test_pods_become_available_after_they_were_ready_for_a_while(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("ReplicaSet", replicas=2, minReadySeconds=20))
    status = lab.must("replicasets.apps", "web")["status"]
    assert (status["readyReplicas"], status.get("availableReplicas", 0)) == (2, 0)
    lab.advance(25)
    assert lab.must("replicasets.apps", "web")["status"]["availableReplicas"] == 2


def test_a_replication_controller_keeps_its_number(lab: Lab) -> None:
    lab.nodes(1)
    obj = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"}}
    lab.create({**obj, "spec": {"replicas": 2, "template": template({"app": "rc"})}})
    assert lab.must("replicationcontrollers", "rc")["status"]["readyReplicas"] == 2
    lab.delete("pods", lab.list("pods")[0]["metadata"]["name"], gracePeriodSeconds=0)
    assert len(lab.list("pods")) == 2


def test_a_failed_pod_is_replaced(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("ReplicaSet", replicas=1))
    name = lab.list("pods")[0]["metadata"]["name"]
    lab.api.modify(PODS, "default", name, lambda pod: pod["status"].update(phase="Failed"), subresource="status")
    lab.settle()
    assert sorted(pod["status"]["phase"] for pod in lab.list("pods")) == ["Failed", "Running"]


# Deployments


def test_a_paused_deployment_does_not_roll_out(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("Deployment", replicas=2))
    lab.change("deployments.apps", "web", lambda obj: obj["spec"].update(paused=True))

    def change(obj: Object) -> None:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"

    lab.change("deployments.apps", "web", change)
    lab.advance(5)
    assert {pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")} == {"app:1"}
    lab.change("deployments.apps", "web", lambda obj: obj["spec"].update(paused=False))
    lab.advance(5)
    assert {pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")} == {"app:2"}


def test_old_replica_sets_are_cleaned_up(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("Deployment", replicas=1, revisionHistoryLimit=1))
    for version in range(2, 6):

        def change(obj: Object, version: int = version) -> None:
            obj["spec"]["template"]["spec"]["containers"][0]["image"] = f"app:{version}"

        lab.change("deployments.apps", "web", change)
        lab.advance(4)
    assert len(lab.list("replicasets.apps")) == 2


# Stateful sets


def test_a_parallel_stateful_set_starts_all_pods_together(lab: Lab) -> None:
    lab.binds = False
    lab.create(workload("StatefulSet", replicas=3, podManagementPolicy="Parallel"))
    assert [pod["metadata"]["name"] for pod in lab.list("pods")] == ["web-0", "web-1", "web-2"]


def test_a_stateful_set_may_begin_with_another_number(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("StatefulSet", replicas=2, ordinals={"start": 5}))
    assert [pod["metadata"]["name"] for pod in lab.list("pods")] == ["web-5", "web-6"]


def test_a_stateful_set_that_is_updated_by_hand_waits_for_it(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("StatefulSet", replicas=2, updateStrategy={"type": "OnDelete"}))

    def change(obj: Object) -> None:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"

    lab.change("statefulsets.apps", "web", change)
    lab.advance(3)
    assert {pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")} == {"app:1"}
    lab.delete("pods", "web-1", gracePeriodSeconds=0)
    lab.advance(3)
    images = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")}
    assert images == {"web-0": "app:1", "web-1": "app:2"}


def test_a_pod_below_the_partition_comes_back_in_its_old_form(lab: Lab) -> None:
    lab.nodes(1)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    lab.create(workload("StatefulSet", replicas=2, updateStrategy=strategy))

    def change(obj: Object) -> None:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"

    lab.change("statefulsets.apps", "web", change)
    lab.advance(4)
    lab.delete("pods", "web-0", gracePeriodSeconds=0)
    lab.advance(4)
    images = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")}
    assert images == {"web-0": "app:1", "web-1": "app:2"}


def test_a_failed_pod_of_a_stateful_set_is_made_again(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("StatefulSet", replicas=2))
    before = lab.must("pods", "web-0")["metadata"]["uid"]
    lab.api.modify(PODS, "default", "web-0", lambda pod: pod["status"].update(phase="Failed"), subresource="status")
    lab.advance(3)
    after = lab.must("pods", "web-0")
    assert after["metadata"]["uid"] != before and after["status"]["phase"] == "Running"


# Daemon sets


def test_a_daemon_set_tolerates_what_it_must(lab: Lab) -> None:
    lab.nodes(1)
    lab.change("nodes", "node1", lambda node: node["spec"].update(unschedulable=True))
    lab.create(workload("DaemonSet", "agent", template=template({"app": "agent"}, hostNetwork=True)))
    (pod,) = lab.list("pods")
    tolerated = {each["key"] for each in pod["spec"]["tolerations"]}
    assert {"node.kubernetes.io/unschedulable", "node.kubernetes.io/network-unavailable"} <= tolerated
    assert pod["status"]["phase"] == "Running"


def test_a_daemon_set_keeps_away_from_taints_it_does_not_tolerate(lab: Lab) -> None:
    lab.nodes(2)
    lab.change("nodes", "node1", lambda node: node["spec"].update(taints=[{"key": "x", "effect": "NoSchedule"}]))
    lab.create(workload("DaemonSet", "agent", template=template({"app": "agent"})))
    assert [pod["spec"]["nodeName"] for pod in lab.list("pods")] == ["node2"]


def test_a_failed_daemon_is_made_again(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("DaemonSet", "agent", template=template({"app": "agent"}, terminationGracePeriodSeconds=0)))
    (pod,) = lab.list("pods")
    name = pod["metadata"]["name"]
    lab.api.modify(PODS, "default", name, lambda obj: obj["status"].update(phase="Failed"), subresource="status")
    lab.advance(3)
    (again,) = lab.list("pods")
    assert again["metadata"]["name"] != name and again["status"]["phase"] == "Running"


def test_heartbeats_do_not_wake_daemon_sets(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("DaemonSet", "agent", template=template({"app": "agent"})))
    before = lab.must("daemonsets.apps", "agent")["metadata"]["resourceVersion"]

    def beat(node: Object) -> None:
        node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-01-01T09:00:00Z"

    lab.api.modify(NODES, "", "node1", beat, subresource="status")
    lab.settle()
    assert lab.must("daemonsets.apps", "agent")["metadata"]["resourceVersion"] == before


def test_a_daemon_set_that_is_updated_by_hand(lab: Lab) -> None:
    lab.nodes(1)
    pods = template({"app": "agent"}, terminationGracePeriodSeconds=0)
    lab.create(workload("DaemonSet", "agent", template=pods, updateStrategy={"type": "OnDelete"}))

    def change(obj: Object) -> None:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"

    lab.change("daemonsets.apps", "agent", change)
    lab.advance(3)
    assert [pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")] == ["app:1"]


# Jobs


def _job(name: str = "sums", **spec: Any) -> Object:
    annotations = spec.pop("annotations", {"mooring/completes-after": "10s"})
    pod = {
        "containers": [{"name": "main", "image": "app"}],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": pod}, **spec},
    }


def test_a_suspended_job_has_no_pods(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_job(parallelism=2, completions=2))
    assert len(lab.list("pods")) == 2
    lab.change("jobs.batch", "sums", lambda job: job["spec"].update(suspend=True))
    lab.advance(2)
    assert lab.list("pods") == []
    lab.change("jobs.batch", "sums", lambda job: job["spec"].update(suspend=False))
    assert len(lab.list("pods")) == 2


def test_a_job_for_a_work_queue_is_done_when_one_pod_is_and_none_runs(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_job(parallelism=3))
    assert lab.must("jobs.batch", "sums")["status"]["active"] == 3
    lab.advance(12)
    status = lab.must("jobs.batch", "sums")["status"]
    assert status["succeeded"] == 3 and status["completionTime"]


def test_less_parallelism_takes_pods_away(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_job(parallelism=3, completions=9))
    lab.change("jobs.batch", "sums", lambda job: job["spec"].update(parallelism=1))
    lab.advance(1)
    assert lab.must("jobs.batch", "sums")["status"]["active"] == 1


# Budgets


def _budget(**spec: Any) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "budget"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def test_a_budget_of_pods_without_an_owner_counts_each(lab: Lab) -> None:
    lab.nodes(1)
    for name in "abc":
        lab.create({**lab.pod(name), "metadata": {"name": name, "labels": {"app": "web"}}})
    lab.create(_budget(maxUnavailable=1))
    status = lab.must("poddisruptionbudgets.policy", "budget")["status"]
    assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (3, 2, 1)


def test_a_budget_without_pods_allows_nothing(lab: Lab) -> None:
    lab.create(_budget(minAvailable=0))
    status = lab.must("poddisruptionbudgets.policy", "budget")["status"]
    assert (status["expectedPods"], status["disruptionsAllowed"]) == (0, 0)
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )


def test_an_eviction_that_never_shows_is_forgotten(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("ReplicaSet", replicas=2))
    lab.create(_budget(minAvailable=1))
    name = lab.list("pods")[0]["metadata"]["name"]

    def disrupt(obj: Object) -> None:
        obj["status"]["disruptedPods"] = {name: lab.api.timestamp()}

    lab.api.modify(BUDGETS, "default", "budget", disrupt, subresource="status")
    lab.settle()
    status = lab.must("poddisruptionbudgets.policy", "budget")["status"]
    assert (status["currentHealthy"], list(status["disruptedPods"])) == (1, [name])
    lab.advance(130, step=10)
    status = lab.must("poddisruptionbudgets.policy", "budget")["status"]
    assert status["currentHealthy"] == 2 and "disruptedPods" not in status


# Volumes


def _claim(**spec: Any) -> Object:
    base = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}, "storageClassName": ""}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {**base, **spec}}


def _volume(**spec: Any) -> Object:
    base = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, "hostPath": {"path": "/"}}
    metadata = {"name": "v", "labels": {"tier": "gold"}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**base, **spec}}


@pytest.mark.parametrize(
    ("claim", "volume", "fits"),
    [
        pytest.param({}, {}, True, id="as wanted"),
        pytest.param({}, {"capacity": {"storage": "1Gi"}}, False, id="too small"),
        pytest.param({}, {"accessModes": ["ReadOnlyMany"]}, False, id="another mode"),
        pytest.param({}, {"storageClassName": "x"}, False, id="another class"),
        pytest.param({}, {"volumeMode": "Block"}, False, id="a block device"),
        pytest.param({"volumeMode": "Block"}, {"volumeMode": "Block"}, True, id="a block device that is wanted"),
        pytest.param({"selector": {"matchLabels": {"tier": "gold"}}}, {}, True, id="by label"),
        pytest.param({"selector": {"matchLabels": {"tier": "tin"}}}, {}, False, id="by another label"),
        pytest.param({}, {"claimRef": {"namespace": "default", "name": "other"}}, False, id="promised to another"),
        pytest.param({}, {"claimRef": {"namespace": "default", "name": "data"}}, True, id="promised to it"),
        pytest.param({"volumeName": "v"}, {"capacity": {"storage": "1Gi"}}, True, id="asked for by name"),
        pytest.param({"volumeName": "w"}, {}, False, id="another asked for by name"),
    ],
)
def test_which_volume_a_claim_gets(lab: Lab, claim: Object, volume: Object, fits: bool) -> None:
    lab.create(_volume(**volume))
    lab.create(_claim(**claim))
    bound = lab.must("persistentvolumeclaims", "data")["status"]["phase"] == "Bound"
    assert bound is fits


def test_a_claim_whose_volume_is_gone_is_lost(lab: Lab) -> None:
    lab.create(_volume())
    lab.create(_claim())
    assert lab.must("persistentvolumeclaims", "data")["status"]["phase"] == "Bound"
    lab.delete("persistentvolumes", "v")
    lab.change("persistentvolumeclaims", "data", lambda claim: claim["metadata"].update(labels={"a": "b"}))
    assert lab.must("persistentvolumeclaims", "data")["status"]["phase"] == "Lost"


def test_a_class_that_comes_later_serves_claims_that_wait(lab: Lab) -> None:
    lab.create(_claim(storageClassName="fast"))
    assert lab.must("persistentvolumeclaims", "data")["status"]["phase"] == "Pending"
    storage_class = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
    lab.create({**storage_class, "provisioner": "disks.example.com"})
    assert lab.must("persistentvolumeclaims", "data")["status"]["phase"] == "Bound"


# Resource claims


def _resource_claim(**metadata: Any) -> Object:
    metadata = {"name": "gpu", **metadata}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {}}


PROTECTION = "resource.kubernetes.io/delete-protection"


def _reserve(lab: Lab, *users: Object) -> None:
    status = {"allocation": {"devices": {}}, "reservedFor": list(users)}
    lab.api.modify(RESOURCE_CLAIMS, "default", "gpu", lambda obj: obj.update(status=status), subresource="status")
    lab.settle()


def test_a_reservation_for_something_else_than_a_pod_stays(lab: Lab) -> None:
    lab.create(_resource_claim())
    user = {"apiGroup": "example.com", "resource": "gadgets", "name": "g", "uid": "u"}
    _reserve(lab, user)
    assert lab.must("resourceclaims.resource.k8s.io", "gpu")["status"]["reservedFor"] == [user]


def test_a_reservation_for_a_namesake_goes(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(lab.pod("p"))
    lab.create(_resource_claim(finalizers=[PROTECTION, "x/y"]))
    _reserve(lab, {"resource": "pods", "name": "p", "uid": "of another pod"})
    claim = lab.must("resourceclaims.resource.k8s.io", "gpu")
    assert not claim.get("status")
    assert claim["metadata"]["finalizers"] == ["x/y"]


def test_a_deleted_claim_is_removed_when_it_is_unused(lab: Lab) -> None:
    lab.nodes(1)
    pod = lab.create(
        lab.pod("p", resourceClaims=[{"name": "g", "resourceClaimName": "gpu"}], terminationGracePeriodSeconds=0)
    )
    lab.create(_resource_claim(finalizers=[PROTECTION]))
    _reserve(lab, {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]})
    lab.delete("resourceclaims.resource.k8s.io", "gpu")
    assert lab.get("resourceclaims.resource.k8s.io", "gpu") is not None
    lab.delete("pods", "p")
    lab.advance(2)
    assert lab.get("resourceclaims.resource.k8s.io", "gpu") is None


def test_a_claim_made_for_a_pod_goes_when_the_pod_has_ended(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "t"},
            "spec": {"metadata": {"labels": {"made": "here"}}, "spec": {}},
        }
    )
    claims = [{"name": "g", "resourceClaimTemplateName": "t"}]
    lab.create(
        lab.pod("p", resourceClaims=claims, restartPolicy="Never", annotations={"mooring/completes-after": "5s"})
    )
    (claim,) = lab.list("resourceclaims.resource.k8s.io")
    assert claim["metadata"]["labels"] == {"made": "here"}
    lab.advance(7)
    assert lab.list("resourceclaims.resource.k8s.io") == []
    assert lab.must("pods", "p")["status"]["phase"] == "Succeeded"
