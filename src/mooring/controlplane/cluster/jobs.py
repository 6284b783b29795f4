"""Jobs: runs pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from itertools import islice
from typing import ClassVar, NamedTuple

from mooring.controlplane.cluster.base import (
    ClusterApi,
    Controller,
    Timers,
    condition,
    controller_of,
    is_active,
    is_terminating,
    is_true,
    phase,
    pod_from_template,
    set_condition,
)
from mooring.controlplane.cluster.pod_sets import MANY, PACE_S
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.groups.batch import JOBS
from mooring.controlplane.registry.validation import parse_time
from mooring.controlplane.storage.store import DELETED, Event, StoredEntry
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Object

# Policies of a Job: when a pod counts as failed, the consequences, and when enough indexes have succeeded

INDEX = "batch.kubernetes.io/job-completion-index"
IGNORE, FAIL_INDEX, FAIL_JOB = "Ignore", "FailIndex", "FailJob"


def replaces_only_ended(job: Object) -> bool:
    """Report whether a terminating pod keeps its place until it has ended."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def has_failed(job: Object, pod: Object) -> bool:
    """Report whether a pod counts as failed. One that is deleted before it succeeds does, by whichever client."""
    if phase(pod) == "Failed":
        return True
    return not replaces_only_ended(job) and is_terminating(pod) and phase(pod) != "Succeeded"


def is_past_limit_of_restarts(job: Object, pods: Iterable[Object], limit: int) -> bool:
    """Report whether containers were restarted too often, which only happens with OnFailure."""
    if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    statuses = [pod.get("status") or {} for pod in pods if phase(pod) in ("Running", "Pending")]
    restarts: int = sum(
        each.get("restartCount", 0)
        for status in statuses
        for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    )
    return restarts >= limit if limit else restarts > 0


class PolicyVerdict(NamedTuple):
    """What the first matching rule of a podFailurePolicy says: its action, and why the Job fails if it does."""

    action: str = "Count"
    why: str = ""


def failure_verdict(job: Object, pod: Object) -> PolicyVerdict:
    """Return the consequence of a failed pod for its Job."""
    metadata = pod["metadata"]
    for i, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action = str(rule.get("action"))
        what = ""
        if rule.get("onExitCodes") is not None:
            ended = _matching_container(pod, rule["onExitCodes"])
            if ended is not None:
                code = ended["state"]["terminated"]["exitCode"]
                what = f"Container {ended['name']} for pod {metadata['namespace']}/{metadata['name']} failed with exit"
                what += f" code {code} matching {action} rule at index {i}"
        else:
            type_ = _matching_condition(pod, rule.get("onPodConditions") or ())
            if type_:
                what = f"Pod {metadata['namespace']}/{metadata['name']} has condition {type_} matching {action} rule at"
                what += f" index {i}"
        if what:
            return PolicyVerdict(action, what)
    return PolicyVerdict()


def _matching_container(pod: Object, wanted: Object) -> Object | None:
    status = pod.get("status") or {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        code = ((each.get("state") or {}).get("terminated") or {}).get("exitCode") or 0
        is_listed = code in (wanted.get("values") or ())
        if code and wanted.get("containerName") in (None, each["name"]) and is_listed == (wanted["operator"] == "In"):
            found: Object = each
            return found
    return None


def _matching_condition(pod: Object, patterns: Iterable[Object]) -> str:
    wanted = {(each.get("type"), each.get("status", "True")) for each in patterns}
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((each["type"] for each in conditions if (each.get("type"), each.get("status")) in wanted), "")


def met_success_rule(job: Object, succeeded: Collection[int]) -> int | None:
    """Return the number of the first matching rule of the successPolicy."""
    spec = job["spec"]
    for i, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or () if succeeded else ()):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is None:
            if count is not None and len(succeeded) >= count:
                return i
            continue
        wanted = parse_indexes(rule["succeededIndexes"], spec.get("completions") or 0)
        met = len(wanted.intersection(succeeded))
        if wanted and (met == len(wanted) or (count is not None and met >= count)):
            return i
    return None


def index_of(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return quantities.whole(text)


def parse_indexes(text: str, completions: int) -> set[int]:
    """Return the indexes in ``0,1,4-6``, without those that the Job does not have; invalid parts are skipped."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = quantities.whole(first), quantities.whole(last or first)
        if begin is not None and end is not None:
            found.update(range(max(begin, 0), min(end, completions - 1) + 1))
    return found


def format_indexes(numbers: Iterable[int]) -> str:
    """``0,1,4-6``: as the status of a Job has them."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(",".join(map(str, part)) if len(part) <= 2 else f"{part[0]}-{part[-1]}" for part in parts)


FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
BURST = 500
ENDED = ("Succeeded", "Failed")
BACK_OFF_S, MOST_BACK_OFF_S = 10.0, 600.0  # after the first failure, and at most


class _Pods:
    """The pods of a Job by state. ``gone`` are deleted ones, which count nevertheless."""

    def __init__(self, job: Object, there: list[Object], gone: Iterable[Object], removed: set[str]) -> None:
        self._job = job
        self.there = there
        self.active = [pod for pod in there if is_active(pod)]
        self.terminating = [pod for pod in there if is_terminating(pod) and phase(pod) not in ENDED]
        everyone = [*there, *gone]
        self.succeeded = [pod for pod in everyone if phase(pod) == "Succeeded"]
        self.failed: list[tuple[Object, PolicyVerdict]] = [
            (pod, failure_verdict(job, pod))
            for pod in everyone
            if has_failed(job, pod) and pod["metadata"]["uid"] not in removed
        ]
        self.counted = [pod for pod, verdict in self.failed if verdict.action != IGNORE]

    @property
    def is_indexed(self) -> bool:
        return bool(self._job["spec"].get("completionMode") == "Indexed")

    @property
    def limit_per_index(self) -> int | None:
        limit: int | None = self._job["spec"].get("backoffLimitPerIndex") if self.is_indexed else None
        return limit

    @cached_property
    def completed(self) -> set[int]:
        """Return the indexes that have succeeded."""
        completions = self._job["spec"].get("completions") or 0
        return {i for pod in self.succeeded if (i := index_of(pod)) is not None and i < completions}

    @property
    def num_succeeded(self) -> int:
        return len(self.completed) if self.is_indexed else len(self.succeeded)

    @cached_property
    def failures_by_index(self) -> dict[int, list[tuple[Object, PolicyVerdict]]]:
        found: dict[int, list[tuple[Object, PolicyVerdict]]] = {}
        for pod, verdict in self.failed:
            index = index_of(pod)
            if index is not None:
                found.setdefault(index, []).append((pod, verdict))
        return found

    @cached_property
    def failed_indexes(self) -> set[int]:
        """Return the failed indexes: by the policy, or after more failures than each may have."""
        if self.limit_per_index is None:
            return set()
        return {
            index
            for index, those in self.failures_by_index.items()
            if any(verdict.action == FAIL_INDEX for _, verdict in those)
            or sum(verdict.action != IGNORE for _, verdict in those) > self.limit_per_index
        }


class JobController(Controller):
    """Runs at most ``parallelism`` pods at a time towards ``completions`` successes.

    Upstream's controller keeps pods by a finalizer until they are counted. This one sees every deletion, and remembers
    the pods that are gone.
    """

    watches: ClassVar[tuple[str, ...]] = ("jobs.batch", "pods")

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        super().__init__(api, timers)
        self._gone: dict[str, list[Object]] = {}  # by the uid of the Job
        self._removed: set[str] = set()  # pods that the controller itself deleted: these did not fail

    def noted(self, event: Event) -> Iterable[str]:
        if event.type == DELETED:
            if event.kind is PODS:
                self._remember(event.entry)
            else:
                self._gone.pop(event.entry.uid, None)
        return super().noted(event)

    def _remember(self, entry: StoredEntry) -> None:
        """Keep a deleted pod. One that had not ended was ended by its kubelet, which makes it a failed one."""
        if entry.uid in self._removed:
            self._removed.discard(entry.uid)
            return
        owners = [owner for uid in entry.owners if (owner := self.store.by_uid(uid)) is not None and owner.kind is JOBS]
        pod = entry.object() if owners else {}
        for owner in owners:
            job = owner.object()
            if is_finished(job) or (controller_of(pod) or {}).get("uid") != owner.uid:
                continue
            now = self.api.timestamp()
            status = {**(pod.get("status") or {})}
            status["conditions"] = list(status.get("conditions") or ())
            if phase(pod) not in ENDED:
                status["phase"] = "Failed"
                if replaces_only_ended(job):
                    set_condition(status, {"type": "Ready", "status": "False"}, now)
            metadata = {"deletionTimestamp": now, **pod["metadata"]}
            self._gone.setdefault(owner.uid, []).append({**pod, "metadata": metadata, "status": status})

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(JOBS, key)
        if entry is None or is_terminating(entry.object()):
            return
        job = entry.object()
        if is_finished(job):
            self._gone.pop(entry.uid, None)
            self._clean_up(key, job)
            return
        pods = self._pods(entry, job)
        status: Object = dict(job.get("status") or {})
        status["conditions"] = [dict(each) for each in status.get("conditions") or ()]
        self._note_suspension(bool(job["spec"].get("suspend")), status)
        verdict = self._verdict(key, job, pods, status)
        if verdict:
            self._finish(pods, status, *verdict)
        else:
            self._bring_about(key, job, pods)
        self._report(key, job, status)
        if len(pods.there) > MANY:
            self.pace(key, len(pods.there) * 2 * PACE_S)

    def _note_suspension(self, is_suspended: bool, status: Object) -> None:
        """A suspended Job has no start time: its deadline begins anew when it is resumed."""
        was_suspended, now = is_true({"status": status}, "Suspended"), self.api.timestamp()
        if is_suspended:
            status.pop("startTime", None)
        elif not status.get("startTime"):
            status["startTime"] = now
        if is_suspended != was_suspended:
            reason, verb = ("JobSuspended", "suspended") if is_suspended else ("JobResumed", "resumed")
            wanted = {"type": "Suspended", "status": str(is_suspended), "reason": reason, "message": f"Job {verb}"}
            set_condition(status, wanted, now)

    def _pods(self, entry: StoredEntry, job: Object) -> _Pods:
        return _Pods(job, self.owned(entry.uid, PODS), self._gone.get(entry.uid, ()), self._removed)

    def _verdict(self, key: str, job: Object, pods: _Pods, status: Object) -> tuple[str, str, str] | None:
        """Return (condition, reason, message) if the job is over. Failures are checked first, as upstream."""
        spec = job["spec"]
        why = next((verdict.why for _, verdict in pods.failed if verdict.action == FAIL_JOB), "")
        if why:
            return "Failed", "PodFailurePolicy", why
        limit = spec.get("backoffLimit", 6)
        if len(pods.counted) > limit or is_past_limit_of_restarts(job, pods.there, limit):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline_s = spec.get("activeDeadlineSeconds")
        started = parse_time(status.get("startTime") or "")
        if deadline_s is not None and started is not None and not spec.get("suspend"):
            left_s = started + deadline_s - self.api.clock.now()
            if left_s <= 0:
                return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            self.enqueue_after(key, left_s + 0.01)
        completions = spec.get("completions")
        if pods.is_indexed:
            most, failed = spec.get("maxFailedIndexes"), len(pods.failed_indexes)
            if most is not None and failed > most:
                why = "Job has exceeded the specified maximal number of failed indexes"
                return "Failed", "MaxFailedIndexesExceeded", why
            if failed and failed + len(pods.completed) >= completions:
                return "Failed", "FailedIndexes", "Job has failed indexes"
            rule = met_success_rule(job, pods.completed)
            if rule is not None:
                return "Complete", "SuccessPolicy", f"Matched rules at index {rule}"
        is_complete = (
            bool(pods.num_succeeded) and not pods.active if completions is None else pods.num_succeeded >= completions
        )
        if is_complete:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _finish(self, pods: _Pods, status: Object, type_: str, reason: str, message: str) -> None:
        for pod in pods.active:
            self.delete_pod(pod)
        now = self.api.timestamp()
        first = "SuccessCriteriaMet" if type_ == "Complete" else "FailureTarget"
        since = {"lastProbeTime": now, "lastTransitionTime": now, "reason": reason, "message": message}
        status["conditions"] += [{"type": each, "status": "True", **since} for each in (first, type_)]
        if type_ == "Complete":
            status["completionTime"] = now

    def _bring_about(self, key: str, job: Object, pods: _Pods) -> None:
        spec = job["spec"]
        if spec.get("suspend"):
            for pod in pods.active:
                self.delete_pod(pod)
            return
        completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
        if completions is not None:
            wanted = min(parallelism, completions - pods.num_succeeded)
        else:
            wanted = len(pods.active) if pods.num_succeeded else parallelism
        if len(pods.active) > wanted:
            for pod in pods.active[wanted:]:
                self.delete_pod(pod)
            return
        staying = [*pods.active, *(pods.terminating if replaces_only_ended(job) else ())]
        free: list[int | None] = [None] * (wanted - len(staying))
        if pods.is_indexed:
            taken = {index_of(pod) for pod in staying} | pods.completed | pods.failed_indexes
            free = list(islice((i for i in range(completions or 0) if i not in taken), len(free)))
        free, wait_s = self._makeable(pods, free)
        if wait_s > 0:
            self.enqueue_after(key, wait_s + 0.01)
        for index in free[:BURST]:
            self._create(job, index, pods)
        if len(free) > BURST:
            self.enqueue(key)

    def _makeable(self, pods: _Pods, free: list[int | None]) -> tuple[list[int | None], float]:
        """Return the pods that may be created now, and after how many seconds the next ones may be."""
        if pods.limit_per_index is None:
            wait_s = self._back_off_s(pods) if free else 0.0
            return (free, 0.0) if wait_s <= 0 else ([], wait_s)
        waits = {index: self._index_back_off_s(pods.failures_by_index.get(index or 0, ())) for index in free}
        later_s = [each for each in waits.values() if each > 0]
        return [index for index in free if waits[index] <= 0], min(later_s, default=0.0)

    def _back_off_s(self, pods: _Pods) -> float:
        """Return the back-off: pods that failed since the last success delay the next ones."""
        ended = [(_ended_at(pod), True) for pod in pods.succeeded]
        ended = sorted([*ended, *((_ended_at(pod), False) for pod, _ in pods.failed)])
        failures = 0
        while failures < len(ended) and not ended[-1 - failures][1]:
            failures += 1
        return self._left_s(ended[-1][0], failures) if failures else 0.0

    def _index_back_off_s(self, failures: Iterable[tuple[Object, PolicyVerdict]]) -> float:
        """Return the back-off of one index with its own limit, independent of other indexes."""
        times = [_ended_at(pod) for pod, _ in failures]
        return self._left_s(max(times), len(times)) if times else 0.0

    def _left_s(self, last: float, failures: int) -> float:
        return last + min(BACK_OFF_S * 2.0 ** min(failures - 1, 10), MOST_BACK_OFF_S) - self.api.clock.now()

    def _create(self, job: Object, index: int | None, pods: _Pods) -> None:
        metadata = job["metadata"]
        name = metadata["name"] if index is None else f"{metadata['name']}-{index}"
        pod = pod_from_template(job, job["spec"]["template"], generateName=f"{name}-")
        if index is not None:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[INDEX] = str(index)
            if pods.limit_per_index is not None:
                failures = pods.failures_by_index.get(index, ())
                ignored = sum(verdict.action == IGNORE for _, verdict in failures)
                annotations[FAILURES] = str(len(failures) - ignored)
                if ignored:
                    annotations[IGNORED_FAILURES] = str(ignored)
            pod["metadata"].setdefault("labels", {})[INDEX] = str(index)
            pod["spec"]["hostname"] = name
        self.api.create(PODS, metadata["namespace"], pod)

    def delete_pod(self, pod: Object) -> None:
        self._removed.add(pod["metadata"]["uid"])
        super().delete_pod(pod)

    def _report(self, key: str, job: Object, status: Object) -> None:
        entry = self.store.entry(JOBS, key)
        if entry is None or entry.uid != job["metadata"]["uid"]:
            return
        pods = self._pods(entry, job)
        counts = {
            "active": 0 if is_finished({"status": status}) else len(pods.active),
            "ready": len([pod for pod in pods.active if is_true(pod, "Ready")]),
            "succeeded": pods.num_succeeded,
            "failed": len(pods.counted),
            "terminating": len(pods.terminating),
        }
        for name, count in counts.items():
            if count or name in ("ready", "terminating"):
                status[name] = count
            else:
                status.pop(name, None)
        if pods.is_indexed:
            status["completedIndexes"] = format_indexes(pods.completed)
        if pods.limit_per_index is not None:
            status["failedIndexes"] = format_indexes(pods.failed_indexes)
        if not status["conditions"]:
            del status["conditions"]
        self.set_status(entry, status)

    def _clean_up(self, key: str, job: Object) -> None:
        ttl_s = job["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return
        ended = condition(job, "Complete") or condition(job, "Failed") or {}
        since = parse_time(ended.get("lastTransitionTime") or "") or 0.0
        left_s = since + ttl_s - self.api.clock.now()
        if left_s > 0:
            self.enqueue_after(key, left_s + 0.01)
        else:
            metadata = job["metadata"]
            self.api.delete(JOBS, metadata["namespace"], metadata["name"], {"propagationPolicy": "Background"})


def is_finished(job: Object) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _ended_at(pod: Object) -> float:
    """Return when the last container ended; or when the pod was unready, deleted, or created, as upstream."""
    states = [each.get("state") or {} for each in (pod.get("status") or {}).get("containerStatuses") or ()]
    times = [parse_time((each.get("terminated") or {}).get("finishedAt") or "") for each in states]
    ends = [each for each in times if each is not None]
    if ends and len(ends) == len(times):
        return max(ends)
    ready, metadata = condition(pod, "Ready") or {}, pod["metadata"]
    if ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"]) or 0.0
    deleted = parse_time(metadata.get("deletionTimestamp") or "")
    if deleted is not None:
        return deleted - float(metadata.get("deletionGracePeriodSeconds") or 0)
    return parse_time(metadata.get("creationTimestamp") or "") or 0.0
