"""Jobs in queues: suspended until there is quota, resumed on the nodes of their flavor, preempted and resumed again."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controlplane.cluster.base import condition, is_true
from mooring.controlplane.cluster.job_queues import QueueController

from ...quotas.test_admission import flavor, local, queue
from .conftest import Lab, Object

QUEUES = ("a", "b")
RECLAIM = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


def job(name: str, queue: str, *, parallelism: int = 2, **spec: Any) -> Object:
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {"disk": "ssd"},
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
    }
    template = {"metadata": {"annotations": {"mooring/completes-after": "60s"}}, "spec": pod}
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    whole = {"parallelism": parallelism, "completions": parallelism, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": whole}


@pytest.fixture
def teams(lab: Lab) -> Lab:
    """Two queues of 2 CPUs in one cohort, for jobs on spot nodes."""
    lab.nodes(4)
    lab.create(flavor(nodeLabels={"pool": "spot"}, tolerations=[{"key": "spot", "operator": "Exists"}]))
    for name in QUEUES:
        lab.create(queue(name, "2", "all", preemption=RECLAIM))
        lab.create({**local(name), "metadata": {"name": name, "namespace": "default"}})
    return lab


def template_of(lab: Lab, name: str) -> Object:
    spec: Object = lab.must("jobs.batch", name)["spec"]["template"]["spec"]
    return spec


def workload_of(lab: Lab, name: str) -> Object:
    owned = (w for w in lab.list("workloads.kueue.x-k8s.io") if w["metadata"]["ownerReferences"][0]["name"] == name)
    return next(owned)


def test_an_admitted_job_runs_on_the_nodes_of_its_flavor(teams: Lab) -> None:
    teams.create(job("one", "a"))
    spec = template_of(teams, "one")
    assert spec["nodeSelector"] == {"disk": "ssd", "pool": "spot"}
    assert spec["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert teams.must("jobs.batch", "one")["status"]["active"] == 2
    assert is_true(workload_of(teams, "one"), "Admitted")
    status = teams.must("clusterqueues.kueue.x-k8s.io", "a")["status"]
    assert (status["admittedWorkloads"], status["pendingWorkloads"]) == (1, 0)
    cpu = {"name": "cpu", "total": "2", "borrowed": "0"}
    assert status["flavorsReservation"] == [{"name": "f", "resources": [cpu]}]


def test_a_job_waits_for_quota_and_says_why(teams: Lab) -> None:
    teams.create(job("one", "a", parallelism=4))
    teams.create(job("two", "a", parallelism=3))
    job_two = teams.must("jobs.batch", "two")
    assert job_two["spec"]["suspend"] and is_true(job_two, "Suspended") and "startTime" not in job_two["status"]
    why = condition(workload_of(teams, "two"), "QuotaReserved")
    assert why is not None and why["status"] == "False"
    assert why["message"].endswith("insufficient unused quota for cpu in flavor f, 3 more needed")


def test_a_job_that_ends_lets_the_next_one_run(teams: Lab) -> None:
    teams.create(job("one", "a", parallelism=4))
    teams.create(job("two", "a", parallelism=3))
    teams.advance(61)
    assert is_true(workload_of(teams, "one"), "Finished")
    assert teams.must("jobs.batch", "two")["status"]["active"] == 3


def test_a_job_that_is_deleted_lets_the_next_one_run(teams: Lab) -> None:
    teams.create(job("one", "a", parallelism=4))
    teams.create(job("two", "a", parallelism=3))
    teams.delete("jobs.batch", "one")
    teams.advance(1)
    assert teams.must("jobs.batch", "two")["status"]["active"] == 3


def test_a_queue_takes_back_what_another_one_has_borrowed(teams: Lab) -> None:
    teams.create(job("large", "a", parallelism=4))
    teams.create(job("ours", "b", parallelism=2))
    evicted = condition(workload_of(teams, "large"), "Preempted")
    assert evicted is not None and evicted["reason"] == "InCohortReclamation"
    teams.advance(40)
    large = teams.must("jobs.batch", "large")
    assert large["spec"]["suspend"] and template_of(teams, "large")["nodeSelector"] == {"disk": "ssd"}
    assert "tolerations" not in template_of(teams, "large")
    assert teams.must("jobs.batch", "ours")["status"]["active"] == 2
    assert not is_true(workload_of(teams, "large"), "QuotaReserved")


def test_outcomes_count_admissions_preemptions_and_waits(teams: Lab) -> None:
    teams.create(job("large", "a", parallelism=4))
    teams.advance(10)
    teams.create(job("ours", "b", parallelism=2))
    teams.advance(100)
    outcomes = teams.controllers.of(QueueController).outcomes()
    assert [(outcomes[name].admitted, outcomes[name].preempted) for name in QUEUES] == [(2, 1), (1, 0)]
    first, second = outcomes["a"].waited_s
    assert first == 0 and 55 <= second <= 70  # until the other Job has ended
    assert (outcomes["b"].waited_s, outcomes["b"].pending) == ([0], 0)


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        pytest.param("nope", "LocalQueue default/nope doesn't exist", id="no local queue"),
    ],
)
def test_a_job_in_an_unknown_queue_reports_that(teams: Lab, queue: str, message: str) -> None:
    teams.create(job("lost", queue))
    found = condition(workload_of(teams, "lost"), "QuotaReserved")
    assert found is not None and found["message"] == message
    teams.create({**local(queue), "metadata": {"name": queue, "namespace": "default"}, "spec": {"clusterQueue": "a"}})
    assert teams.must("jobs.batch", "lost")["status"]["active"] == 2


def test_priorities_come_from_the_classes_of_workloads_and_pods(teams: Lab) -> None:
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
    teams.create({**kind, "metadata": {"name": "high"}, "value": 100})
    urgent = job("urgent", "a")
    urgent["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    teams.create(job("usual", "a", parallelism=4))
    teams.create(urgent)
    assert workload_of(teams, "urgent")["spec"]["priority"] == 100
    assert is_true(workload_of(teams, "usual"), "Preempted")


def test_a_job_without_a_queue_runs_as_before(teams: Lab) -> None:
    teams.create(job("free", ""))
    assert not teams.must("jobs.batch", "free")["spec"]["suspend"]
    assert teams.list("workloads.kueue.x-k8s.io") == []


def test_the_label_means_nothing_where_there_is_no_cluster_queue(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(job("one", "a"))
    assert lab.must("jobs.batch", "one")["status"]["active"] == 2


def test_a_quota_that_grows_admits_the_pending_job(teams: Lab) -> None:
    teams.create(job("huge", "a", parallelism=6))
    assert teams.must("jobs.batch", "huge")["spec"]["suspend"]
    larger = queue("a", "9", "all", preemption=RECLAIM)["spec"]
    teams.change("clusterqueues.kueue.x-k8s.io", "a", lambda obj: obj.update(spec=larger))
    assert teams.must("jobs.batch", "huge")["status"]["active"] == 6


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"queueingStrategy": "Fifo"}, "spec.queueingStrategy", id="an unknown strategy"),
        pytest.param({"limits": {"borrowingLimit": "x"}}, "borrowingLimit", id="a bad quantity"),
    ],
)
def test_queues_that_are_refused(lab: Lab, spec: Object, message: str) -> None:
    with pytest.raises(Exception, match=message):
        lab.create(queue("a", "2", **spec))
