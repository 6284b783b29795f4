"""CronJobs: creates Jobs by schedule, within concurrency, deadline and suspension."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from mooring.api.errors import ParseError
from mooring.api.times import format_time
from mooring.controlplane.cluster.base import Controller, is_terminating, is_true, reference_to
from mooring.controlplane.cluster.jobs import is_finished
from mooring.controlplane.registry.groups.batch import CRON_JOBS, JOBS, Schedule, parse_schedule, time_zone
from mooring.controlplane.registry.validation import parse_time
from mooring.controlplane.types.kind import Object

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
DELTA_S = 0.1
"""A Job is made this much later than it is due, as upstream does because clocks differ."""


class CronJobController(Controller):
    """Creates Jobs, deletes old ones, and reports active ones in the status."""

    watches: ClassVar[tuple[str, ...]] = ("cronjobs.batch", "jobs.batch")

    _resumed_at = 0.0
    starts_jobs = True
    """False while a story waits for its end: a schedule has none."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do but to wait until a schedule is due again."""
        return not (self._queue or self._under_way or self._failures)

    @property
    def only_retries(self) -> bool:
        return not (self._queue or self._under_way)

    def pause(self) -> None:
        """Stop starting Jobs."""
        self.starts_jobs = False

    def resume(self) -> None:
        """Resume the schedules; times that have passed do not count."""
        self.starts_jobs = True
        self._resumed_at = self.api.clock.now()
        for entry in self.store.iterate(CRON_JOBS):
            self.enqueue(entry.key)

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(CRON_JOBS, key)
        if entry is None:
            return
        cron_job, jobs = entry.object(), self.owned(entry.uid, JOBS)
        status: Object = dict(cron_job.get("status") or {})
        if not is_terminating(cron_job):
            jobs = self._clear_history(cron_job, jobs)
            if self.starts_jobs and not cron_job["spec"].get("suspend"):
                jobs = self._keep_schedule(key, cron_job, jobs, status)
        known = {each.get("uid"): each for each in status.pop("active", ())}
        active = [
            known.get(job["metadata"]["uid"]) or _reference(job["metadata"]) for job in jobs if not is_finished(job)
        ]
        if active:
            status["active"] = active
        ended = [job["status"]["completionTime"] for job in jobs if is_true(job, "Complete")]
        if ended:
            status["lastSuccessfulTime"] = max(ended)
        self.set_status(entry, status)

    # Starting

    def _keep_schedule(self, key: str, cron_job: Object, jobs: list[Object], status: Object) -> list[Object]:
        """Start the due Job, and check again when the next one is due. Return the existing Jobs."""
        spec, now = cron_job["spec"], self.api.clock.now()
        try:
            schedule = parse_schedule(spec["schedule"], spec.get("timeZone") or "")
        except ParseError:
            return jobs  # written by a client that does not validate; nothing can be due
        since = parse_time(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]) or 0.0
        deadline_s = spec.get("startingDeadlineSeconds")
        since = max(since, self._resumed_at)
        earliest = since if deadline_s is None else max(since, now - deadline_s)
        due = most_recent(schedule, earliest, now)
        if due is not None:
            started = self._start(cron_job, jobs, due)
            if started is not None:
                jobs = started
                status["lastScheduleTime"] = format_time(due)
                since = due
        following = schedule.next(most_recent(schedule, since, now) or since)
        if following is not None and following <= now:
            following = schedule.next(now)
        if following is not None:
            self.enqueue_after(key, following + DELTA_S - now)
        return jobs

    def _start(self, cron_job: Object, jobs: list[Object], due: float) -> list[Object] | None:
        """Create the Job of a time; None if another one blocks it."""
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        running = [job for job in jobs if not is_finished(job)]
        if running and policy == "Forbid":
            return None
        if policy == "Replace":
            for job in running:
                self._delete(job)
            jobs = [job for job in jobs if job not in running]
        made = job_of(cron_job, due)
        if any(job["metadata"]["name"] == made["metadata"]["name"] for job in jobs):
            return jobs
        return [*jobs, self.api.create(JOBS, cron_job["metadata"]["namespace"], made).object()]

    # Tidying up

    def _clear_history(self, cron_job: Object, jobs: list[Object]) -> list[Object]:
        """Delete the oldest finished Jobs beyond the history limit. Return the others."""
        spec, gone = cron_job["spec"], []
        for type_, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            finished = sorted((job for job in jobs if is_true(job, type_)), key=_started)
            if spec.get(limit) is not None:
                gone += finished[: max(0, len(finished) - spec[limit])]
        for job in gone:
            self._delete(job)
        return [job for job in jobs if job not in gone]

    def _delete(self, job: Object) -> None:
        metadata = job["metadata"]
        options = {"propagationPolicy": "Background", "preconditions": {"uid": metadata["uid"]}}
        self.api.delete(JOBS, metadata["namespace"], metadata["name"], options)


def most_recent(schedule: Schedule, earliest: float, now: float) -> float | None:
    """The last time that was due after ``earliest``, up to now; None if there was none, or none that is found.

    Many times may have been missed. Upstream goes near the end by steps as long as the first one, and so do we: of an
    uneven schedule it may overlook the last time.
    """
    first = schedule.next(earliest)
    if first is None or first > now:
        return None
    second = schedule.next(first)
    if second is None or second > now:
        return first
    step = second - first
    found, following = None, schedule.next(first + ((now - first) // step - 1) * step)
    while following is not None and following <= now:
        found, following = following, schedule.next(following)
    return found


def job_of(cron_job: Object, due: float) -> Object:
    """Return the Job of a CronJob for a time. Its name contains the time, so that it cannot be created twice."""
    spec, metadata = cron_job["spec"], cron_job["metadata"]
    template = spec["jobTemplate"]
    given = template.get("metadata") or {}
    zone = time_zone(spec["timeZone"]) if spec.get("timeZone") else UTC
    scheduled = datetime.fromtimestamp(due, zone).isoformat().replace("+00:00", "Z")
    made: Object = {
        "name": f"{metadata['name']}-{int(due) // 60}",
        "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: scheduled},
        "ownerReferences": [reference_to(cron_job)],
    }
    if given.get("labels"):
        made["labels"] = dict(given["labels"])
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": made, "spec": template.get("spec") or {}}


def _reference(metadata: Object) -> Object:
    names = ("name", "namespace", "uid", "resourceVersion")
    return {"apiVersion": "batch/v1", "kind": "Job", **{name: metadata.get(name, "") for name in names}}


def _started(job: Object) -> tuple[bool, str, str]:
    started = (job.get("status") or {}).get("startTime") or ""
    return not started, started, job["metadata"]["name"]
