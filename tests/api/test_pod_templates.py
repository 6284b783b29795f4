"""Pods of workloads: what a controller makes of a template, compared with what the embedded controllers make."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.api.errors import InputError
from mooring.api.pod_templates import is_workload, made_by
from mooring.testing_scenarios import ScenarioCluster, node, play

CONTAINERS = [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]
LABELS = {"app": "web"}


def workload(kind: str, version: str = "apps/v1", pod_spec: dict[str, Any] | None = None, **spec: Any) -> Any:
    template = {"metadata": {"labels": dict(LABELS)}, "spec": {"containers": CONTAINERS, **(pod_spec or {})}}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": dict(LABELS)}}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": template, **selector, **spec},
    }


HASHES = ("pod-template-hash", "controller-revision-hash", "controller-uid", "batch.kubernetes.io/controller-uid")
CLAIM = {
    "metadata": {"name": "data", "annotations": {"why": "because"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(workload("Deployment", replicas=1), id="Deployment"),
        pytest.param(workload("ReplicaSet", replicas=1), id="ReplicaSet"),
        pytest.param(workload("StatefulSet", replicas=1, serviceName="web"), id="StatefulSet"),
        pytest.param(
            workload("StatefulSet", replicas=1, serviceName="web", volumeClaimTemplates=[CLAIM]),
            id="StatefulSet with claims",
        ),
        pytest.param(workload("DaemonSet"), id="DaemonSet"),
        pytest.param(workload("DaemonSet", pod_spec={"hostNetwork": True}), id="DaemonSet in the host's network"),
        pytest.param(workload("Job", "batch/v1", pod_spec={"restartPolicy": "Never"}), id="Job"),
        pytest.param(
            workload("Job", "batch/v1", {"restartPolicy": "Never"}, completionMode="Indexed", completions=1),
            id="indexed Job",
        ),
    ],
)
def test_the_pod_is_the_controllers(manifest: dict[str, Any]) -> None:
    (ours, *claims) = made_by(manifest)
    theirs: dict[str, Any] = {}

    async def story(cluster: ScenarioCluster) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await cluster.create(namespace, node("node1"), manifest)
        await asyncio.sleep(5)
        theirs["pods"] = await cluster.list("pods", "shop")
        theirs["claims"] = await cluster.list("persistentvolumeclaims", "shop")

    play(story)
    (pod,) = theirs["pods"]
    labels = {key: value for key, value in pod["metadata"]["labels"].items() if key not in HASHES}
    assert {key: value for key, value in ours["metadata"]["labels"].items() if key not in HASHES} == labels
    assert pod["metadata"]["name"].startswith(ours["metadata"].get("generateName") or ours["metadata"]["name"])
    assert ours["metadata"]["namespace"] == "shop"
    for toleration in ours["spec"].get("tolerations", []):
        assert toleration in pod["spec"]["tolerations"]
    assert ours["spec"].get("volumes", []) == pod["spec"].get("volumes", [])
    assert [claim["metadata"]["name"] for claim in claims] == [claim["metadata"]["name"] for claim in theirs["claims"]]
    for claim, made in zip(claims, theirs["claims"], strict=True):
        assert made["spec"].items() >= claim["spec"].items()


def test_a_cron_job_makes_the_pod_of_its_job() -> None:
    job = workload("Job", "batch/v1")
    cron = {"kind": "CronJob", "metadata": job["metadata"], "spec": {"jobTemplate": {"spec": job["spec"]}}}
    assert made_by(cron) == made_by(job)


def test_a_stateful_set_counts_from_its_first_ordinal() -> None:
    (pod,) = made_by(workload("StatefulSet", ordinals={"start": 5}))
    assert pod["metadata"]["name"] == "web-5"


def test_the_template_is_not_changed() -> None:
    manifest = workload("DaemonSet")
    (pod,) = made_by(manifest)
    pod["spec"]["containers"][0]["name"] = "other"
    assert manifest == workload("DaemonSet")


def test_a_toleration_that_is_there_is_not_repeated() -> None:
    given = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    (pod,) = made_by(workload("DaemonSet", pod_spec={"tolerations": [given]}))
    assert pod["spec"]["tolerations"].count(given) == 1


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        pytest.param({"kind": "Job"}, "metadata.name", id="no name"),
        pytest.param({"kind": "Job", "metadata": {"name": "a"}}, "spec.template", id="no template"),
        pytest.param(
            {"kind": "Job", "metadata": {"name": "a"}, "spec": {"template": 3}}, "spec.template", id="a number"
        ),
        pytest.param(
            {"kind": "Job", "metadata": {"name": "a"}, "spec": {"template": {"metadata": {}}}},
            "spec.template.spec",
            id="a template without a spec",
        ),
        pytest.param({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {}}}}, "metadata.name", id="no cron job"),
        pytest.param({"kind": "CronJob", "metadata": {"name": "a"}, "spec": {}}, "spec.jobTemplate", id="no job"),
        pytest.param(
            {"kind": "CronJob", "metadata": {"name": "a"}, "spec": {"jobTemplate": {"metadata": {}}}},
            "spec.jobTemplate.spec",
            id="a job without a spec",
        ),
        pytest.param(
            workload("StatefulSet", volumeClaimTemplates=[{}]), "volumeClaimTemplates: metadata.name", id="a claim"
        ),
    ],
)
def test_what_is_missing_is_named(manifest: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError, match=f"^{path}: missing; "):
        made_by(manifest)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        pytest.param({"metadata": {"labels": ["app"]}, "spec": {"containers": CONTAINERS}}, "labels", id="a list"),
        pytest.param({"metadata": 3, "spec": {"containers": CONTAINERS}}, "metadata", id="a number"),
        pytest.param({"spec": {"containers": CONTAINERS, "volumes": ["data"]}}, "volumes", id="a text"),
        pytest.param({"spec": {"containers": CONTAINERS, "tolerations": {}}}, "tolerations", id="an object"),
    ],
)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job"])
def test_a_template_of_wrong_types_is_an_error(template: dict[str, Any], says: str, kind: str) -> None:
    spec = {"template": template, "volumeClaimTemplates": [CLAIM]}
    with pytest.raises(InputError, match=says):
        made_by({"kind": kind, "metadata": {"name": "a"}, "spec": spec})


def test_which_kinds_make_pods() -> None:
    assert is_workload("Deployment") and not is_workload("Pod") and not is_workload("Service")
