"""CronJobs start Jobs when they are due, and keep no more of them than wanted."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controlplane.cluster.cron_jobs import CronJobController, most_recent
from mooring.controlplane.registry.groups.batch import parse_schedule
from mooring.controlplane.types.status import StatusError
from tests.controlplane.cluster.controllers.conftest import START, Lab, Object, template


def _cron_job(schedule: str = "*/10 * * * *", *, runs: str = "60s", exit_code: str = "0", **spec: Any) -> Object:
    pods = template({"app": "report"}, restartPolicy="Never")
    pods["metadata"]["annotations"] = {"mooring/completes-after": runs, "mooring/exit-code": exit_code}
    job = {"metadata": {"labels": {"kind": "report"}}, "spec": {"template": pods, "backoffLimit": 0}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report"},
        "spec": {"schedule": schedule, "jobTemplate": job, **spec},
    }


def _jobs(lab: Lab) -> list[int]:
    """The minutes after the start that the Jobs there are made for."""
    names = [job["metadata"]["name"] for job in lab.list("jobs.batch")]
    return sorted(int(name.rpartition("-")[2]) - int(START) // 60 for name in names)


def _active(lab: Lab) -> int:
    return len(lab.must("cronjobs.batch", "report").get("status", {}).get("active", ()))


def test_jobs_come_when_they_are_due_and_their_pods_run(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_cron_job())
    assert not _jobs(lab)
    lab.advance(605, step=5)
    assert _jobs(lab) == [10] and _active(lab) == 1
    (job,) = lab.list("jobs.batch")
    assert job["metadata"]["labels"] == {"kind": "report"}
    assert job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-01-01T00:10:00Z"
    lab.advance(100, step=5)
    status = lab.must("cronjobs.batch", "report")["status"]
    assert "active" not in status and status["lastScheduleTime"] == "2026-01-01T00:10:00Z"
    assert status["lastSuccessfulTime"] == lab.list("jobs.batch")[0]["status"]["completionTime"]
    lab.advance(1200, step=10)
    assert _jobs(lab) == [10, 20, 30]


@pytest.mark.parametrize(
    ("policy", "jobs"),
    [
        pytest.param("Allow", [10, 20, 30], id="beside each other"),
        pytest.param("Forbid", [10, 30], id="not while another runs, and then the last one that was missed"),
        pytest.param("Replace", [30], id="the newest only"),
    ],
)
def test_a_job_that_still_runs_is_heeded(lab: Lab, policy: str, jobs: list[int]) -> None:
    lab.nodes(1)
    lab.create(_cron_job(runs="25m", concurrencyPolicy=policy))
    lab.advance(36 * 60, step=20)
    assert _jobs(lab) == jobs


def test_only_the_last_finished_jobs_are_kept(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_cron_job(successfulJobsHistoryLimit=2))
    lab.advance(3600 + 120, step=20)
    assert _jobs(lab) == [50, 60]
    assert len(lab.list("pods")) == 2


def test_failed_jobs_have_a_limit_of_their_own(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_cron_job(exit_code="1"))
    lab.advance(1800, step=20)
    assert _jobs(lab) == [20]


def test_a_suspended_cron_job_starts_only_the_last_missed_job_when_resumed(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_cron_job(suspend=True))
    lab.advance(3300, step=60)
    assert not _jobs(lab)
    lab.change("cronjobs.batch", "report", lambda obj: obj["spec"].update(suspend=False))
    assert _jobs(lab) == [50]


def test_a_missed_time_is_not_made_up_for_after_the_deadline(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_cron_job(suspend=True, startingDeadlineSeconds=120))
    lab.advance(3300, step=60)
    lab.change("cronjobs.batch", "report", lambda obj: obj["spec"].update(suspend=False))
    assert not _jobs(lab)
    lab.advance(310, step=10)
    assert _jobs(lab) == [60]


def test_a_schedule_is_kept_in_its_time_zone(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_cron_job("0 9 * * *", timeZone="Asia/Tokyo"))
    lab.advance(120, step=10)
    assert not _jobs(lab)  # it is nine in Tokyo when the story begins
    lab.advance(24 * 3600, step=1800)
    assert _jobs(lab) == [24 * 60]


def test_its_jobs_go_with_it(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_cron_job(runs="1h"))
    lab.advance(610, step=10)
    lab.delete("cronjobs.batch", "report")
    lab.advance(40)
    assert not lab.list("jobs.batch") and not lab.list("pods")


def test_while_it_is_paused_nothing_is_started(lab: Lab) -> None:
    lab.nodes(1)
    lab.create(_cron_job())
    controller = lab.controllers.of(CronJobController)
    assert controller.is_idle
    controller.pause()
    lab.advance(1500, step=10)
    assert not _jobs(lab)
    controller.resume()
    lab.settle()
    assert not _jobs(lab)  # what was due meanwhile is not made up for
    lab.advance(310, step=10)
    assert _jobs(lab) == [30]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({"schedule": ""}, "spec.schedule: Required value", id="no schedule"),
        pytest.param({"schedule": "often"}, "expected exactly 5 fields, found 1: [often]", id="not a schedule"),
        pytest.param({"schedule": "TZ=UTC * * * * *"}, "use timeZone field instead", id="a zone in the schedule"),
        pytest.param({"timeZone": "Mars/Olympus"}, "unknown time zone Mars/Olympus", id="an unknown zone"),
        pytest.param({"concurrencyPolicy": "Never"}, 'supported values: "Allow", "Forbid", "Replace"', id="a policy"),
        pytest.param({"failedJobsHistoryLimit": -1}, "must be greater than or equal to 0", id="a negative limit"),
        pytest.param({"jobTemplate": {}}, "spec.jobTemplate.spec.template.spec", id="no pods"),
    ],
)
def test_a_wrong_one_is_refused(lab: Lab, spec: Object, why: str) -> None:
    made = _cron_job()
    made["spec"].update(spec)
    with pytest.raises(StatusError) as error:
        lab.create(made)
    assert why in str(error.value)


def test_the_last_time_is_found_among_many_missed_ones() -> None:
    schedule = parse_schedule("*/7 * * * *")
    year_s = 365 * 24 * 3600
    assert most_recent(schedule, START, START + year_s + 60) == START + year_s
    assert most_recent(schedule, START, START + 60) is None
    every = parse_schedule("@every 90s")
    assert most_recent(every, START, START + 1000) == START + 990
