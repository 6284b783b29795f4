"""ReplicaSets, Deployments, StatefulSets, DaemonSets and Jobs bring about what they say."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Lab, Object, template, workload


def _set_image(image: str) -> Any:
    def change(obj: Object) -> None:
        obj["spec"]["template"]["spec"]["containers"][0]["image"] = image

    return change


def _set(**spec: Any) -> Any:
    return lambda obj: obj["spec"].update(spec)


def test_a_deployment_gets_its_pods_and_reports_them(lab: Lab) -> None:
    lab.nodes(2)
    lab.create(workload("Deployment", replicas=3))
    status = lab.must("deployments.apps", "web")["status"]
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (3, 3, 3)
    assert {c["type"]: c["status"] for c in status["conditions"]} == {"Available": "True", "Progressing": "True"}
    assert status["observedGeneration"] == 1


@pytest.mark.parametrize(("before", "after"), [
    pytest.param(3, 5, id="up"),
    pytest.param(5, 2, id="down"),
    pytest.param(2, 0, id="to nothing"),
])  # fmt: skip
def test_a_deployment_is_scaled(lab: Lab, before: int, after: int) -> None:
    lab.nodes(2)
    lab.create(workload("Deployment", replicas=before))
    lab.change("deployments.apps", "web", _set(replicas=after))
    lab.advance(3)
    assert len(lab.list("pods")) == after
    assert lab.must("deployments.apps", "web")["status"].get("availableReplicas", 0) == after


def test_a_new_image_rolls_out_without_falling_below_the_minimum(lab: Lab) -> None:
    lab.nodes(3)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    lab.create(workload("Deployment", replicas=4, strategy=rolling))
    available: list[int] = []

    def watch(event: Any) -> None:
        available.append(event.entry.object().get("status", {}).get("availableReplicas", 0))

    from mooring.controlplane.registry.catalog import by_resource

    lab.store.subscribe(by_resource("deployments.apps"), watch)
    lab.change("deployments.apps", "web", _set_image("app:2"))
    lab.advance(5)
    images = [pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")]
    assert images == ["app:2"] * 4
    assert min(available) >= 4
    assert sorted(rs["spec"]["replicas"] for rs in lab.list("replicasets.apps")) == [0, 4]


def test_rolling_back_reuses_the_old_replica_set_under_a_new_revision(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("Deployment", replicas=1))
    lab.change("deployments.apps", "web", _set_image("app:2"))
    lab.advance(3)
    lab.change("deployments.apps", "web", _set_image("app:1"))
    lab.advance(3)
    sets = lab.list("replicasets.apps")
    assert len(sets) == 2
    revisions = {
        rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: rs["spec"]["replicas"] for rs in sets
    }
    assert revisions == {"2": 0, "3": 1}


def test_recreate_ends_all_old_pods_before_the_first_new_one(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("Deployment", replicas=2, strategy={"type": "Recreate"}))
    lab.change("deployments.apps", "web", _set_image("app:2"))
    assert {pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")} <= {"app:1"}
    lab.advance(3)
    assert [pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")] == ["app:2", "app:2"]


def test_a_stuck_rollout_exceeds_its_deadline(lab: Lab) -> None:
    lab.create(workload("Deployment", replicas=1, progressDeadlineSeconds=60))  # there is no node
    lab.advance(30)
    progressing = {c["type"]: c for c in lab.must("deployments.apps", "web")["status"]["conditions"]}["Progressing"]
    assert progressing["status"] == "True"
    lab.advance(60)
    progressing = {c["type"]: c for c in lab.must("deployments.apps", "web")["status"]["conditions"]}["Progressing"]
    assert (progressing["status"], progressing["reason"]) == ("False", "ProgressDeadlineExceeded")


def test_a_replica_set_replaces_a_deleted_pod_and_adopts_an_orphan(lab: Lab) -> None:
    lab.nodes(1)
    orphan = lab.create({**lab.pod("lonely"), "metadata": {"name": "lonely", "labels": {"app": "web"}}})
    lab.create(workload("ReplicaSet", replicas=2))
    names = {pod["metadata"]["name"] for pod in lab.list("pods")}
    assert "lonely" in names and len(names) == 2
    assert lab.must("pods", "lonely")["metadata"]["ownerReferences"][0]["name"] == "web"
    lab.delete("pods", orphan["metadata"]["name"], gracePeriodSeconds=0)
    assert len(lab.list("pods")) == 2


def test_scaling_down_takes_the_pod_that_has_no_node_first(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(workload("ReplicaSet", replicas=1))
    lab.binds = False
    lab.change("replicasets.apps", "web", _set(replicas=2))
    pending = [pod["metadata"]["name"] for pod in lab.list("pods") if not pod["spec"].get("nodeName")]
    lab.change("replicasets.apps", "web", _set(replicas=1))
    assert pending[0] not in [pod["metadata"]["name"] for pod in lab.list("pods")]


@pytest.mark.parametrize(("policy", "left"), [
    pytest.param("Background", [], id="background: the pods go afterwards"),
    pytest.param("Foreground", [], id="foreground: the pods go first"),
    pytest.param("Orphan", ["web"], id="orphan: the pods stay"),
])  # fmt: skip
def test_deleting_a_deployment(lab: Lab, policy: str, left: list[str]) -> None:
    lab.nodes(1)
    lab.create(workload("Deployment", replicas=2))
    lab.delete("deployments.apps", "web", propagationPolicy=policy)
    waits = policy == "Foreground"
    assert (lab.get("deployments.apps", "web") is not None) is waits
    lab.advance(4)
    assert lab.get("deployments.apps", "web") is None
    assert len(lab.list("pods")) == (2 if left else 0)
    assert len(lab.list("replicasets.apps")) == (1 if left else 0)


def test_a_stateful_set_starts_its_pods_one_after_another_with_claims(lab: Lab) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    lab.binds = False
    lab.nodes(2)
    lab.create(workload("StatefulSet", serviceName="web", replicas=3, volumeClaimTemplates=[claim]))
    assert [pod["metadata"]["name"] for pod in lab.list("pods")] == ["web-0"]
    lab.binds = True
    lab.settle()
    pods = lab.list("pods")
    assert [pod["metadata"]["name"] for pod in pods] == ["web-0", "web-1", "web-2"]
    assert [claim["metadata"]["name"] for claim in lab.list("persistentvolumeclaims")] == [
        "data-web-0",
        "data-web-1",
        "data-web-2",
    ]
    assert pods[1]["spec"]["hostname"] == "web-1" and pods[1]["spec"]["subdomain"] == "web"
    assert {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in pods[2]["spec"]["volumes"]} == {
        "data": "data-web-2"
    }
    lab.change("statefulsets.apps", "web", _set(replicas=1))
    lab.advance(5)
    assert [pod["metadata"]["name"] for pod in lab.list("pods")] == ["web-0"]


def test_a_stateful_set_updates_from_the_highest_number_down_to_its_partition(lab: Lab) -> None:
    lab.nodes(1)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    lab.create(workload("StatefulSet", serviceName="web", replicas=3, updateStrategy=strategy))
    lab.change("statefulsets.apps", "web", _set_image("app:2"))
    lab.advance(6)
    images = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")}
    assert images == {"web-0": "app:1", "web-1": "app:2", "web-2": "app:2"}
    status = lab.must("statefulsets.apps", "web")["status"]
    assert status["updatedReplicas"] == 2 and status["currentRevision"] != status["updateRevision"]


def test_a_daemon_set_runs_once_on_every_node_that_fits(lab: Lab) -> None:
    lab.nodes(2, disk="ssd")
    lab.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}})
    spec = template({"app": "agent"}, nodeSelector={"disk": "ssd"}, terminationGracePeriodSeconds=1)
    lab.create(workload("DaemonSet", "agent", template=spec))
    assert sorted(pod["spec"]["nodeName"] for pod in lab.list("pods")) == ["node1", "node2"]
    status = lab.must("daemonsets.apps", "agent")["status"]
    assert (status["desiredNumberScheduled"], status["numberReady"], status["numberAvailable"]) == (2, 2, 2)
    lab.change("nodes", "other", lambda node: node["metadata"]["labels"].update(disk="ssd"))
    assert len(lab.list("pods")) == 3
    lab.change("nodes", "node1", lambda node: node["metadata"]["labels"].pop("disk"))
    lab.advance(3)
    assert sorted(pod["spec"]["nodeName"] for pod in lab.list("pods")) == ["node2", "other"]


def test_a_daemon_set_is_updated_node_by_node(lab: Lab) -> None:
    lab.nodes(3)
    lab.create(workload("DaemonSet", "agent", template=template({"app": "agent"}, terminationGracePeriodSeconds=1)))
    lab.change("daemonsets.apps", "agent", _set_image("app:2"))
    terminating = [pod for pod in lab.list("pods") if pod["metadata"].get("deletionTimestamp")]
    assert len(terminating) == 1
    lab.advance(6)
    assert [pod["spec"]["containers"][0]["image"] for pod in lab.list("pods")] == ["app:2"] * 3
    assert lab.must("daemonsets.apps", "agent")["status"]["updatedNumberScheduled"] == 3
