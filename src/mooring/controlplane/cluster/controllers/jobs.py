"""Jobs: pods that are run until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from mooring.controlplane.cluster.controllers.base import (
    Controller,
    condition,
    is_active,
    is_terminating,
    is_true,
    phase,
    pod_from_template,
)
from mooring.controlplane.cluster.controllers.replicas import MANY, PACE_S
from mooring.controlplane.registry import meta
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.groups.batch import JOBS
from mooring.controlplane.storage.store import Event
from mooring.controlplane.types import quantities
from mooring.controlplane.types.objects import Object

INDEX = "batch.kubernetes.io/job-completion-index"
BURST = 500
ENDED = ("Succeeded", "Failed")
BACK_OFF_S, MOST_BACK_OFF_S = 10.0, 600.0  # after the first failure, and at most


class JobController(Controller):
    """Runs at most ``parallelism`` pods at a time towards ``completions`` successes."""

    watches: ClassVar[tuple[str, ...]] = ("jobs.batch", "pods")

    def noted(self, event: Event) -> Iterable[str]:
        return self.owner_keys(event, "Job") if event.kind is PODS else (event.entry.key,)

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(JOBS, key)
        if entry is None or is_terminating(entry.object()):
            return
        job = entry.object()
        if is_finished(job):
            self._clean_up(key, job)
            return
        pods = self.owned(entry.uid, PODS)
        status: Object = dict(job.get("status") or {})
        status["conditions"] = [dict(each) for each in status.get("conditions") or ()]
        if not status.get("startTime") and not job["spec"].get("suspend"):
            status["startTime"] = self.api.timestamp()
        verdict = self._verdict(key, job, pods, status)
        if verdict:
            self._finish(job, pods, status, *verdict)
        else:
            self._bring_about(key, job, pods)
        self._report(key, job, status)
        if len(pods) > MANY:
            self.pace(key, len(pods) * 2 * PACE_S)

    def _verdict(self, key: str, job: Object, pods: list[Object], status: Object) -> tuple[str, str, str] | None:
        """Whether the job is over: (condition, reason, message)."""
        spec = job["spec"]
        succeeded = self._succeeded(job, pods)
        failed = len([pod for pod in pods if phase(pod) == "Failed"])
        completions = spec.get("completions")
        running = [pod for pod in pods if is_active(pod)]
        if completions is None:
            if succeeded and not running:
                return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        elif succeeded >= completions:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        if failed > spec.get("backoffLimit", 6):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline_s = spec.get("activeDeadlineSeconds")
        started = meta.parse_time(status.get("startTime") or "")
        if deadline_s is not None and started is not None:
            left_s = started + deadline_s - self.api.clock.now()
            if left_s <= 0:
                return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            self.enqueue_after(key, left_s + 0.01)
        return None

    @staticmethod
    def _succeeded(job: Object, pods: list[Object]) -> int:
        done = [pod for pod in pods if phase(pod) == "Succeeded"]
        if job["spec"].get("completionMode") == "Indexed":
            return len({index_of(pod) for pod in done})
        return len(done)

    def _finish(self, job: Object, pods: list[Object], status: Object, type_: str, reason: str, message: str) -> None:
        for pod in pods:
            if is_active(pod):
                self._delete(pod)
        now = self.api.timestamp()
        first = "SuccessCriteriaMet" if type_ == "Complete" else "FailureTarget"
        for each in (first, type_):
            status["conditions"].append(
                {
                    "type": each,
                    "status": "True",
                    "lastProbeTime": now,
                    "lastTransitionTime": now,
                    "reason": reason,
                    "message": message,
                }
            )
        if type_ == "Complete":
            status["completionTime"] = now

    def _bring_about(self, key: str, job: Object, pods: list[Object]) -> None:
        spec = job["spec"]
        active = [pod for pod in pods if is_active(pod)]
        if spec.get("suspend"):
            for pod in active:
                self._delete(pod)
            return
        succeeded, completions = self._succeeded(job, pods), spec.get("completions")
        parallelism = spec.get("parallelism", 1)
        if completions is not None:
            wanted = min(parallelism, completions - succeeded)
        else:
            wanted = len(active) if succeeded else parallelism
        if len(active) > wanted:
            for pod in active[wanted:]:
                self._delete(pod)
            return
        free: list[int | None] = [None] * (wanted - len(active))
        if spec.get("completionMode") == "Indexed":
            taken = {index_of(pod) for pod in pods if is_active(pod) or phase(pod) == "Succeeded"}
            open_ = [i for i in range(completions or 0) if i not in taken]
            free = list(open_[: len(free)])
        wait_s = self._back_off_s(pods) if free else 0.0
        if wait_s > 0:
            self.enqueue_after(key, wait_s + 0.01)
            return
        for index in free[:BURST]:
            self._create(job, index)
        if len(free) > BURST:
            self.enqueue(key)

    def _back_off_s(self, pods: list[Object]) -> float:
        """How long no pod is made yet: pods that failed since the last success make the next ones wait longer."""
        ended = sorted((_ended_at(pod), phase(pod) == "Succeeded") for pod in pods if phase(pod) in ENDED)
        failures = 0
        while failures < len(ended) and not ended[-1 - failures][1]:
            failures += 1
        if not failures:
            return 0.0
        delay_s = min(BACK_OFF_S * 2.0 ** min(failures - 1, 10), MOST_BACK_OFF_S)
        return ended[-1][0] + delay_s - self.api.clock.now()

    def _create(self, job: Object, index: int | None) -> None:
        metadata = job["metadata"]
        name = metadata["name"] if index is None else f"{metadata['name']}-{index}"
        pod = pod_from_template(job, job["spec"]["template"], generateName=f"{name}-")
        if index is not None:
            pod["metadata"].setdefault("annotations", {})[INDEX] = str(index)
            pod["metadata"].setdefault("labels", {})[INDEX] = str(index)
            pod["spec"]["hostname"] = name
        self.api.create(PODS, metadata["namespace"], pod)

    def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self.api.delete(PODS, metadata["namespace"], metadata["name"], {"preconditions": {"uid": metadata["uid"]}})

    def _report(self, key: str, job: Object, status: Object) -> None:
        entry = self.store.entry(JOBS, key)
        if entry is None or entry.uid != job["metadata"]["uid"]:
            return
        pods = self.owned(entry.uid, PODS)
        active = [pod for pod in pods if is_active(pod)]
        counts = {
            "active": 0 if is_finished({"status": status}) else len(active),
            "ready": len([pod for pod in active if is_true(pod, "Ready")]),
            "succeeded": self._succeeded(job, pods),
            "failed": len([pod for pod in pods if phase(pod) == "Failed"]),
            "terminating": len([pod for pod in pods if is_terminating(pod)]),
        }
        for name, count in counts.items():
            if count or name in ("ready", "terminating"):
                status[name] = count
            else:
                status.pop(name, None)
        if job["spec"].get("completionMode") == "Indexed":
            done = sorted({i for pod in pods if phase(pod) == "Succeeded" and (i := index_of(pod)) is not None})
            status["completedIndexes"] = _ranges(done)
        if not status["conditions"]:
            del status["conditions"]
        self.set_status(entry, status)

    def _clean_up(self, key: str, job: Object) -> None:
        ttl_s = job["spec"].get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return
        ended = condition(job, "Complete") or condition(job, "Failed") or {}
        since = meta.parse_time(ended.get("lastTransitionTime") or "") or 0.0
        left_s = since + ttl_s - self.api.clock.now()
        if left_s > 0:
            self.enqueue_after(key, left_s + 0.01)
        else:
            metadata = job["metadata"]
            self.api.delete(JOBS, metadata["namespace"], metadata["name"], {"propagationPolicy": "Background"})


def is_finished(job: Object) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _ended_at(pod: Object) -> float:
    """When the last container ended; of a pod that had none running, when it was made."""
    states = (each.get("state") or {} for each in (pod.get("status") or {}).get("containerStatuses") or ())
    times = [(each.get("terminated") or {}).get("finishedAt") for each in states]
    made = pod["metadata"].get("creationTimestamp")
    return max((meta.parse_time(each or "") or 0.0 for each in (made, *times)), default=0.0)


def index_of(pod: Object) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return quantities.whole(text)


def _ranges(numbers: list[int]) -> str:
    """``0-2,5``: as kubectl shows completed indexes."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
