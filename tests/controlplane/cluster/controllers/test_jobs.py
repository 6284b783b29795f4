"""Jobs run pods until enough have succeeded or too many have failed, by their limits and policies."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from mooring.controlplane.cluster.base import condition, is_active
from mooring.controlplane.registry.subresources import evict
from mooring.controlplane.registry.validation import parse_time
from mooring.controlplane.registry.verbs import Options

from .conftest import Lab, Object


def _job(**spec: Any) -> Object:
    annotations = spec.pop("annotations", {"mooring/completes-after": "10s"})
    pod = {"containers": [{"name": "main", "image": "app"}], "restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sums"},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": pod}, **spec},
    }


def _conditions(lab: Lab) -> dict[str, str]:
    return {c["type"]: c["reason"] for c in lab.must("jobs.batch", "sums")["status"].get("conditions", ())}


def test_a_job_runs_up_to_its_parallelism_until_it_is_complete(lab: Lab) -> None:
    lab.nodes(2)
    lab.create(_job(completions=5, parallelism=2))
    assert lab.must("jobs.batch", "sums")["status"]["active"] == 2
    lab.advance(11)
    status = lab.must("jobs.batch", "sums")["status"]
    assert (status["succeeded"], status["active"]) == (2, 2)
    lab.advance(22)
    status = lab.must("jobs.batch", "sums")["status"]
    assert status["succeeded"] == 5 and "active" not in status and status["completionTime"]
    assert _conditions(lab) == {"SuccessCriteriaMet": "CompletionsReached", "Complete": "CompletionsReached"}


def test_an_indexed_job_gives_every_pod_its_number(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_job(completions=3, parallelism=3, completionMode="Indexed"))
    numbers = [p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for p in lab.list("pods")]
    assert sorted(numbers) == ["0", "1", "2"]
    lab.advance(11)
    assert lab.must("jobs.batch", "sums")["status"]["completedIndexes"] == "0-2"


@pytest.mark.parametrize(("spec", "annotations", "reason"), [
    pytest.param({"backoffLimit": 1}, {"mooring/completes-after": "5s", "mooring/exit-code": "3"},
                 "BackoffLimitExceeded", id="too many failures"),
    pytest.param({"activeDeadlineSeconds": 20}, {}, "DeadlineExceeded", id="too slow"),
])  # fmt: skip
def test_a_job_fails(lab: Lab, spec: Object, annotations: Object, reason: str) -> None:
    lab.nodes(1)
    lab.create(_job(annotations=annotations, **spec))
    lab.advance(30)
    assert _conditions(lab)["Failed"] == reason


@pytest.mark.parametrize(("limit", "codes", "reason", "restarts"), [
    pytest.param(3, "1", "BackoffLimitExceeded", 3, id="starts again count towards the limit"),
    pytest.param(0, "1", "BackoffLimitExceeded", 1, id="the first is too many where none is allowed"),
    pytest.param(3, "1 1 0", "CompletionsReached", 2, id="it succeeds in time"),
])  # fmt: skip
def test_containers_that_are_started_again(lab: Lab, limit: int, codes: str, reason: str, restarts: int) -> None:
    lab.nodes(1)
    job = _job(backoffLimit=limit, annotations={"mooring/completes-after": "5s", "mooring/exit-code": codes})
    job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    lab.create(job)
    names, most = set(), 0
    for _ in range(120):
        for pod in lab.list("pods"):
            names.add(pod["metadata"]["name"])
            most = max(most, *(each["restartCount"] for each in pod["status"].get("containerStatuses", [])), 0)
        lab.advance(1)
    assert len(names) == 1 and most == restarts, "in place: no other pod is made"
    status = lab.must("jobs.batch", "sums")["status"]
    assert reason in _conditions(lab).values() and "failed" not in status
    (left,) = lab.list("pods") or [None]
    assert (left is None) == (reason == "BackoffLimitExceeded"), "a Job that fails deletes its pod"


def test_pods_that_fail_make_the_next_ones_wait_longer(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_job(backoffLimit=5, annotations={"mooring/completes-after": "5s", "mooring/exit-code": "1"}))
    lab.advance(400)
    made = sorted(parse_time(pod["metadata"]["creationTimestamp"]) or 0.0 for pod in lab.list("pods"))
    waits = [later - earlier - 5 for earlier, later in pairwise(made)]
    assert waits == pytest.approx([10, 20, 40, 80, 160], abs=2)
    assert _conditions(lab)["Failed"] == "BackoffLimitExceeded"


def test_a_pod_that_succeeds_ends_the_wait(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_job(completions=3, parallelism=1, annotations={"mooring/completes-after": "5s"}))

    def fail(pod: Object) -> None:
        pod["metadata"]["annotations"]["mooring/exit-code"] = "1"

    lab.change("pods", lab.list("pods")[0]["metadata"]["name"], fail)
    lab.advance(12)
    assert [pod["status"]["phase"] for pod in lab.list("pods")] == ["Failed"]
    lab.advance(30)
    status = lab.must("jobs.batch", "sums")["status"]
    assert (status["failed"], status["succeeded"]) == (1, 3)


def _made(lab: Lab) -> list[tuple[str, str]]:
    """The pods of the Job in the order of their creation: index and what they know of failures before them."""
    found = []
    for pod in sorted(lab.list("pods"), key=lambda pod: int(pod["metadata"]["resourceVersion"])):
        notes = pod["metadata"]["annotations"]
        counts = [
            notes.get(f"batch.kubernetes.io/job-index-{each}") for each in ("failure-count", "ignored-failure-count")
        ]
        found.append((notes["batch.kubernetes.io/job-completion-index"], "+".join(filter(None, counts))))
    return sorted(found)


FAILS = {"mooring/completes-after": "5s"}


def test_an_index_that_fails_too_often_is_abandoned_and_the_others_continue(lab: Lab) -> None:
    lab.nodes(1)
    fails = {**FAILS, "mooring/exit-code": "1=7"}
    lab.create(_job(completions=4, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=1, annotations=fails))
    assert lab.must("jobs.batch", "sums")["spec"]["backoffLimit"] == 2**31 - 1
    lab.advance(13)
    status = lab.must("jobs.batch", "sums")["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2,3", ""), "no other index waits for the first"
    lab.advance(10)
    status = lab.must("jobs.batch", "sums")["status"]
    assert (status["succeeded"], status["failed"], status["failedIndexes"]) == (3, 2, "1")
    assert _made(lab) == [("0", "0"), ("1", "0"), ("1", "1"), ("2", "0"), ("3", "0")]
    assert _conditions(lab) == {"FailureTarget": "FailedIndexes", "Failed": "FailedIndexes"}


def test_an_index_waits_longer_after_each_failure_of_its_own(lab: Lab) -> None:
    lab.nodes(1)
    fails = {**FAILS, "mooring/exit-code": "0=1"}
    lab.create(_job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=3, annotations=fails))
    lab.advance(300)
    pods = [pod for pod in lab.list("pods") if pod["status"]["phase"] == "Failed"]
    made = sorted(parse_time(pod["metadata"]["creationTimestamp"]) or 0.0 for pod in pods)
    assert [later - earlier - 5 for earlier, later in pairwise(made)] == pytest.approx([10, 20, 40], abs=2)


def test_too_many_failed_indexes_end_the_job(lab: Lab) -> None:
    lab.nodes(1)
    fails = {**FAILS, "mooring/exit-code": "0=1,1=1,2=1"}
    indexes = {"completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
    lab.create(_job(completions=5, parallelism=1, annotations=fails, **indexes))
    lab.advance(60)
    status = lab.must("jobs.batch", "sums")["status"]
    assert (status["failedIndexes"], status["completedIndexes"], "active" in status) == ("0,1", "", False)
    assert _conditions(lab)["Failed"] == "MaxFailedIndexesExceeded"


@pytest.mark.parametrize(
    ("rule", "reason", "failed"),
    [
        pytest.param({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}},
                     "PodFailurePolicy", 1, id="the Job fails immediately"),
        pytest.param({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [7]}},
                     "BackoffLimitExceeded", 2, id="another exit code"),
        pytest.param({"action": "FailJob", "onExitCodes": {"containerName": "other", "operator": "In", "values": [7]}},
                     "BackoffLimitExceeded", 2, id="another container"),
        pytest.param({"action": "Count", "onExitCodes": {"operator": "In", "values": [7]}},
                     "BackoffLimitExceeded", 2, id="it counts"),
        pytest.param({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}, None, 0, id="ignored"),
    ],
)  # fmt: skip
def test_a_policy_says_what_a_failure_means(lab: Lab, rule: Object, reason: str | None, failed: int) -> None:
    lab.nodes(1)
    fails = {**FAILS, "mooring/exit-code": "7"}
    lab.create(_job(backoffLimit=1, podFailurePolicy={"rules": [rule]}, annotations=fails))
    lab.advance(50)
    assert _conditions(lab).get("Failed") == reason
    assert lab.must("jobs.batch", "sums")["status"].get("failed", 0) == failed
    if reason == "PodFailurePolicy":
        name = lab.list("pods")[0]["metadata"]["name"]
        found = condition(lab.must("jobs.batch", "sums"), "Failed") or {}
        assert found["message"] == (
            f"Container main for pod default/{name} failed with exit code 7 matching FailJob rule at index 0"
        )


def test_a_policy_fails_an_index_immediately(lab: Lab) -> None:
    lab.nodes(1)
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]
    fails = {**FAILS, "mooring/exit-code": "0=42,1=1"}
    indexes = {"completionMode": "Indexed", "backoffLimitPerIndex": 5, "podFailurePolicy": {"rules": rules}}
    lab.create(_job(completions=3, parallelism=3, annotations=fails, **indexes))
    lab.advance(20)
    assert lab.must("jobs.batch", "sums")["status"]["failedIndexes"] == "0"
    assert _made(lab) == [("0", "0"), ("1", "0"), ("1", "1"), ("2", "0")]


def _evict(lab: Lab) -> None:
    """Delete the pod that runs, as the eviction API does: with a condition that says so."""
    name = next(pod["metadata"]["name"] for pod in lab.list("pods") if is_active(pod))
    evict(lab.api, "default", name, b"", Options())
    lab.settle()


@pytest.mark.parametrize(
    ("policy", "failed", "reason", "wait_s"),
    [
        pytest.param(None, 2, "BackoffLimitExceeded", 10, id="a pod that is deleted has failed"),
        pytest.param(
            {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            0, None, 40, id="a policy ignores evictions, and lets pods end before others come",
        ),
    ],
)  # fmt: skip
def test_evictions_count(lab: Lab, policy: Object | None, failed: int, reason: str | None, wait_s: float) -> None:
    lab.nodes(1)
    lab.create(_job(backoffLimit=1, annotations={}, **({} if policy is None else {"podFailurePolicy": policy})))
    lab.advance(5)
    _evict(lab)
    lab.advance(wait_s - 2)
    assert len([pod for pod in lab.list("pods") if is_active(pod)]) == 0
    lab.advance(5)
    assert len([pod for pod in lab.list("pods") if is_active(pod)]) == 1
    _evict(lab)
    lab.advance(100)
    assert lab.must("jobs.batch", "sums")["status"].get("failed", 0) == failed
    assert _conditions(lab).get("Failed") == reason


def test_pods_that_the_job_itself_deletes_have_not_failed(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_job(completions=4, parallelism=3, backoffLimit=0, annotations={}))
    lab.change("jobs.batch", "sums", lambda job: job["spec"].update(parallelism=1))
    lab.advance(60)
    lab.change("jobs.batch", "sums", lambda job: job["spec"].update(parallelism=2))
    lab.advance(5)
    status = lab.must("jobs.batch", "sums")["status"]
    assert (status["active"], status.get("failed", 0)) == (2, 0) and not _conditions(lab)


def test_a_pod_that_succeeded_counts_after_it_is_gone(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_job(completions=2, parallelism=1))
    lab.advance(11)
    done = next(pod["metadata"]["name"] for pod in lab.list("pods") if pod["status"]["phase"] == "Succeeded")
    lab.delete("pods", done)
    lab.advance(11)
    assert lab.must("jobs.batch", "sums")["status"]["succeeded"] == 2


@pytest.mark.parametrize(
    ("rule", "done"),
    [
        pytest.param({"succeededIndexes": "0,2-3"}, "0-3", id="all of these"),
        pytest.param({"succeededIndexes": "1-4", "succeededCount": 1}, "0,1", id="one of these"),
        pytest.param({"succeededCount": 3}, "0-2", id="any three"),
    ],
)
def test_some_indexes_may_be_enough(lab: Lab, rule: Object, done: str) -> None:
    lab.nodes(1)
    policy = {"rules": [rule]}
    lab.create(_job(completions=5, parallelism=1, completionMode="Indexed", successPolicy=policy, annotations=FAILS))
    lab.advance(60)
    assert lab.must("jobs.batch", "sums")["status"]["completedIndexes"] == done
    assert _conditions(lab) == {"SuccessCriteriaMet": "SuccessPolicy", "Complete": "SuccessPolicy"}


def test_a_finished_job_goes_after_its_time(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_job(ttlSecondsAfterFinished=20))
    lab.advance(15)
    assert lab.get("jobs.batch", "sums") is not None
    lab.advance(20)
    assert lab.get("jobs.batch", "sums") is None and not lab.list("pods")
