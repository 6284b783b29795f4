"""Admission by quotas, and then by the scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.api import yaml
from mooring.api.errors import InputError
from mooring.api.manifests import load_manifests, read_values
from mooring.ask.admission import Admission, admission, headline
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster

EXAMPLES = Path(__file__).parents[2] / "examples" / "quotas"
CLUSTER = yaml.load((EXAMPLES / "cluster.yaml").read_bytes(), "cluster.yaml")["items"]


def ask(
    tmp_path: Path, *more: dict[str, Any], without: tuple[str, ...] = (), job: str = "", **job_says: Any
) -> Admission:
    """Ask about the example's Job with other ``cpu``, ``pods``, ``queue`` or ``labels``."""
    items = [each for each in CLUSTER if each["metadata"]["name"] not in without]
    found = read_values(((f"item {i}", each) for i, each in enumerate([*items, *more])), None)
    manifest = yaml.load((EXAMPLES / "train.yaml").read_bytes(), "train.yaml")
    spec, labels = manifest["spec"], manifest["metadata"]["labels"]
    spec["parallelism"] = spec["completions"] = job_says.get("pods", 2)
    spec["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = job_says.get("cpu", "4")
    labels["kueue.x-k8s.io/queue-name"] = job_says.get("queue", "b")
    labels.update(job_says.get("labels", {}))
    file = tmp_path / "job.yaml"
    file.write_text(yaml.dump(manifest))
    cluster = Cluster().take_over(found.objects)
    return admission(found, Scheduler(cluster).session, job or str(file))


def test_a_job_takes_back_quota_and_its_pods_take_the_nodes_of_the_victim(tmp_path: Path) -> None:
    found = ask(tmp_path)
    assert (found.is_admitted, found.placed, found.runs) == (True, 2, True)
    assert [(each.workload.key, each.reason) for each in found.preempted] == [("ml/job-sweep", "InCohortReclamation")]
    assert found.flavors == {"cpu": "spot"}
    assert headline(found).endswith("after the preemption of 1 workload, in spot; all 2 pods have a node")


def test_a_job_with_quota_whose_pods_fit_nowhere(tmp_path: Path) -> None:
    found = ask(tmp_path, cpu="12", pods=1, without=("job-sweep", *(f"sweep-{i}" for i in range(1, 7))))
    assert (found.is_admitted, found.placed, found.runs) == (True, 0, False)
    assert found.refusal.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert headline(found).endswith("in spot, but only 0 of 1 pod fit")


def test_a_job_that_is_larger_than_all_quota_waits_for_ever(tmp_path: Path) -> None:
    found = ask(tmp_path, pods=5)
    assert not found.is_admitted and found.until == []
    assert found.message.endswith("current podset request (20) > maximum capacity (16)")


def test_a_job_that_waits_names_what_must_end_first(tmp_path: Path) -> None:
    found = ask(tmp_path, pods=4, queue="a", cpu="2")
    assert (found.is_admitted, found.until) == (False, ["ml/job-sweep"])
    assert found.message.endswith("insufficient unused quota for cpu in flavor spot, 4 more needed")


def test_pending_workloads_are_admitted_before_a_new_one(tmp_path: Path) -> None:
    spec = next(each["spec"] for each in CLUSTER if each["kind"] == "Workload")
    metadata = {"name": "early", "namespace": "ml", "uid": "e", "creationTimestamp": "2026-01-01T09:00:00Z"}
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}
    early = {**kind, "metadata": metadata, "spec": {**spec, "podSets": [{**spec["podSets"][0], "count": 1}]}}
    found = ask(tmp_path, early, queue="a", pods=1, cpu="2")
    assert (found.is_admitted, found.before) == (True, ["ml/early"])


def test_a_job_of_the_cluster_is_found_by_its_name(tmp_path: Path) -> None:
    found = ask(tmp_path, job="ml/sweep")
    assert (found.job, found.placed, found.preempted) == ("ml/sweep", 6, [])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param({"queue": "zz"}, "LocalQueue ml/zz doesn't exist", id="no such queue"),
    ],
)
def test_a_job_that_cannot_be_admitted_says_why(tmp_path: Path, asked: dict[str, Any], message: str) -> None:
    assert ask(tmp_path, **asked).message == message


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param(
            {"job": "ml/swep"}, "no Workload or Job of that name in a queue; did you mean ml/sweep", id="name"
        ),
        pytest.param({"job": "nope.yaml"}, "nope.yaml: no such file", id="no file"),
        pytest.param({"queue": ""}, "no kueue.x-k8s.io/queue-name; expected the name of a LocalQueue", id="no queue"),
        pytest.param(
            {"labels": {"kueue.x-k8s.io/priority-class": "gold"}},
            "there is no WorkloadPriorityClass 'gold'",
            id="no such class",
        ),
        pytest.param({"without": ("team-a", "team-b")}, "the cluster has no ClusterQueue", id="no quotas"),
    ],
)
def test_mistakes(tmp_path: Path, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(tmp_path, **asked)


def test_the_examples_files_are_as_the_page_says() -> None:
    assert [value["kind"] for _, value in load_manifests([EXAMPLES / "train.yaml"]).workloads] == ["Job"]
