"""Jobs with the label ``kueue.x-k8s.io/queue-name``, admitted by quotas as in Kueue.

A Job in a queue is suspended. Its Workload waits for quota in the ClusterQueue of its LocalQueue; when it gets quota,
the Job is resumed, and its pods select the nodes of its flavors. A preempted Job is suspended again: its quota is
released when its pods are gone, and it is pending as before.

| difference from Kueue | |
|---|---|
| the admission cycle runs when something has changed, not all the time | the outcome is the same |
| quota of finished pods is released when the whole Job has finished | Kueue reclaims it pod by pod |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mooring.controlplane.cluster.base import (
    ClusterApi,
    Controller,
    Timers,
    controller_of,
    is_terminating,
    is_true,
    reference_to,
    set_condition,
)
from mooring.controlplane.quotas.admission import Quotas
from mooring.controlplane.quotas.preemption import Victim
from mooring.controlplane.quotas.reading import (
    GROUP,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    Queues,
    put_workload,
    queues_of,
)
from mooring.controlplane.quotas.workloads import Workload
from mooring.controlplane.registry.catalog import NAMESPACES
from mooring.controlplane.registry.groups.batch import JOBS
from mooring.controlplane.registry.groups.nodes import PRIORITY_CLASSES
from mooring.controlplane.registry.groups.queues import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    QUEUED_WORKLOADS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
)
from mooring.controlplane.storage.store import Event, StoredEntry
from mooring.controlplane.types.kind import Kind, Object
from mooring.core.state.requests import written

_EVERYTHING, _CYCLE = "*", "*cycle"  # keys beside those of Jobs
_READ = (RESOURCE_FLAVORS, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES)
_REASONS = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortFairSharing": "Fair Sharing within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
}


@dataclass(slots=True)
class QueueOutcome:
    """Outcome of the Jobs of a ClusterQueue."""

    admitted: int = 0
    preempted: int = 0
    pending: int = 0
    waited_s: list[float] = field(default_factory=list)  # for quota, each time that a Job was admitted


class QueueController(Controller):
    """Maintains quotas and the Workload of each Job, and runs admission cycles."""

    watches: ClassVar = (JOBS.resource, *(kind.resource for kind in _READ))

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        super().__init__(api, timers)
        self._queues: Queues | None = None  # None: must be read again
        self._uids: dict[str, str] = {}  # of the Jobs, by key
        self._messages: dict[str, str] = {}  # as in the conditions
        self._pending_since: dict[str, float] = {}
        self._outcomes: dict[str, QueueOutcome] = {}  # by ClusterQueue
        self._counts: dict[tuple[Kind, str], tuple[int, int]] = {}  # pending and admitted, as in the statuses

    def noted(self, event: Event) -> Iterable[str]:
        if event.kind is not JOBS:
            before = event.previous
            if before is not None and _said_of(before) == _said_of(event.entry):
                return ()  # such as our own writes of a queue's status
            self._queues = None
            return (_EVERYTHING,)
        is_queued = any(entry is not None and QUEUE_LABEL in entry.labels for entry in (event.entry, event.previous))
        return (event.entry.key,) if is_queued else ()

    def start(self) -> None:
        super().start()
        self.enqueue(_EVERYTHING)

    def reconcile(self, key: str) -> None:
        if self._queues is None:
            if next(self.store.iterate(CLUSTER_QUEUES), None) is None:
                return
            self._queues = self._read()
            self.enqueue(_CYCLE)
            for entry in self.store.iterate(JOBS):
                if QUEUE_LABEL in entry.labels:
                    self.enqueue(entry.key)
        if key == _CYCLE:
            self._cycle(self._queues)
        elif key != _EVERYTHING:
            self._look_at_job(key, self._queues)

    def _read(self) -> Queues:
        objects = [entry.object() for kind in (*_READ, QUEUED_WORKLOADS) for entry in self.store.iterate(kind)]
        return queues_of(objects, self._namespaces())

    def _namespaces(self) -> dict[str, Mapping[str, str]]:
        return {entry.name: entry.labels for entry in self.store.iterate(NAMESPACES)}

    def outcomes(self) -> dict[str, QueueOutcome]:
        """Return the outcome of Jobs so far, by ClusterQueue."""
        for name, queue in self._queues.quotas.queues.items() if self._queues is not None else ():
            self._outcomes.setdefault(name, QueueOutcome()).pending = len(queue.pending) + len(queue.waiting)
        return self._outcomes

    # ---- Jobs --------------------------------------------------------------------------------------------------

    def _look_at_job(self, key: str, queues: Queues) -> None:
        entry, known = self.store.entry(JOBS, key), self._uids.get(key)
        if known is not None and (entry is None or entry.uid != known):
            del self._uids[key]
            self._forget(queues.workloads.get(_workload_key(key, known)), queues)
        if entry is None:
            return
        job = entry.object()
        workload = queues.workloads.get(_workload_key(key, entry.uid))
        is_over = is_true(job, "Complete") or is_true(job, "Failed")
        if workload is None:
            if not is_over and not is_terminating(job):
                self._uids[key] = entry.uid
                self._submit(key, job, queues)
        elif is_over:
            self._set(workload, "Finished", "Succeeded" if is_true(job, "Complete") else "Failed", "Job finished")
            self._forget(workload, queues)
        elif workload.is_evicted and not (job.get("status") or {}).get("active"):
            self._release(workload, queues)

    def _submit(self, key: str, job: Object, queues: Queues) -> None:
        metadata, spec = job["metadata"], job["spec"]
        workload_key, priority = _workload_key(key, metadata["uid"]), self._priority(job, queues)
        count = min(spec.get("parallelism", 1), spec.get("completions") or spec.get("parallelism", 1))
        stored = self.store.entry(QUEUED_WORKLOADS, workload_key)
        if stored is None:
            made = {
                "apiVersion": QUEUED_WORKLOADS.api_version,
                "kind": "Workload",
                "metadata": {
                    "name": workload_key.partition("/")[2],
                    "namespace": metadata["namespace"],
                    "ownerReferences": [reference_to(job)],
                    "labels": {f"{GROUP}/job-uid": metadata["uid"]},
                },
                "spec": {
                    "queueName": metadata["labels"][QUEUE_LABEL],
                    "priority": priority,
                    "podSets": [{"name": "main", "count": count, "template": spec["template"]}],
                },
            }
            stored = self.api.create(QUEUED_WORKLOADS, metadata["namespace"], made)
        workload = put_workload(queues, stored.object(), self._namespaces())
        if workload is not None:
            self._pending_since[workload.key] = self.api.clock.now()
            self._say_waiting(workload, queues)
            self.enqueue(_CYCLE)

    def _priority(self, job: Object, queues: Queues) -> int:
        name = job["metadata"].get("labels", {}).get(PRIORITY_LABEL, "")
        if name:
            return queues.priorities.get(name, 0)
        entry = self.store.entry(PRIORITY_CLASSES, job["spec"]["template"]["spec"].get("priorityClassName", ""))
        return int(entry.object().get("value", 0)) if entry is not None else 0

    def _forget(self, workload: Workload | None, queues: Queues) -> None:
        if workload is None:
            return
        queues.workloads.pop(workload.key, None)
        self._messages.pop(workload.key, None)
        self._pending_since.pop(workload.key, None)
        if queues.problems.pop(workload.key, None) is None:
            queues.quotas.remove(workload)
            self.enqueue(_CYCLE)

    def _release(self, workload: Workload, queues: Queues) -> None:
        queues.quotas.released(workload)
        self._pending_since[workload.key] = self.api.clock.now()
        self._messages.pop(workload.key, None)

        def change(obj: Object) -> None:
            obj["status"].pop("admission", None)
            for type_ in ("QuotaReserved", "Admitted"):
                set_condition(obj["status"], _condition(type_, False, "Pending", "The workload was preempted"), now)

        now = self.api.timestamp()
        self._modify(workload, change)
        self.enqueue(_CYCLE)

    # ---- cycles ------------------------------------------------------------------------------------------------

    def _cycle(self, queues: Queues) -> None:
        quotas = queues.quotas
        for done in quotas.run(self.api.clock.now()):
            for workload in done.admitted:
                self._admit(workload, quotas)
            for by, victim in done.preempted:
                self._evict(by, victim)
        for queue in quotas.queues.values():
            for workload in (*queue.pending.values(), *queue.waiting.values()):
                self._say_waiting(workload, queues)
        self._count(quotas)

    def _count(self, quotas: Quotas) -> None:
        """Write how many workloads are pending and admitted into the status of queues where that has changed."""
        counts: dict[tuple[Kind, str], list[int]] = {}
        for queue in quotas.queues.values():
            for i, some in enumerate(((*queue.pending.values(), *queue.waiting.values()), queue.admitted.values())):
                counts.setdefault((CLUSTER_QUEUES, queue.name), [0, 0])[i] += len(some)
                for workload in some:
                    counts.setdefault((LOCAL_QUEUES, workload.local_queue), [0, 0])[i] += 1
        for (kind, name), (pending, admitted) in counts.items():
            entry = self.store.entry(kind, name)
            if entry is None or self._counts.get((kind, name)) == (pending, admitted):
                continue
            self._counts[kind, name] = pending, admitted
            status: Object = {
                "pendingWorkloads": pending,
                "admittedWorkloads": admitted,
                "reservingWorkloads": admitted,
            }
            if kind is CLUSTER_QUEUES:
                status["flavorsReservation"] = _in_use(quotas, name)
            self.set_status(entry, status)

    def _say_waiting(self, workload: Workload, queues: Queues) -> None:
        why = queues.problems.get(workload.key) or workload.message
        if why and self._messages.get(workload.key) != why:
            self._messages[workload.key] = why
            self._set(workload, "QuotaReserved", "Pending", why, is_true=False)

    def _admit(self, workload: Workload, quotas: Quotas) -> None:
        assert workload.assignment is not None
        now, queue = self.api.timestamp(), workload.queue
        outcome = self._outcomes.setdefault(queue, QueueOutcome())
        outcome.admitted += 1
        outcome.waited_s.append(self.api.clock.now() - self._pending_since.pop(workload.key, workload.created))
        sets = [
            {
                "name": pod_set.name,
                "count": pod_set.count,
                "flavors": dict(flavors),
                "resourceUsage": {name: written(name, pod_set.requests.get(name, pod_set.count)) for name in flavors},
            }
            for pod_set, flavors in zip(workload.pod_sets, workload.assignment.flavors, strict=True)
        ]

        def change(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["admission"] = {"clusterQueue": queue, "podSetAssignments": sets}
            reserved = _condition("QuotaReserved", True, "QuotaReserved", f"Quota reserved in ClusterQueue {queue}")
            set_condition(status, reserved, now)
            set_condition(status, _condition("Admitted", True, "Admitted", "The workload is admitted"), now)
            for type_ in ("Evicted", "Preempted"):
                if any(each.get("type") == type_ for each in status["conditions"]):
                    set_condition(status, _condition(type_, False, "QuotaReserved", f"Previously: {type_}"), now)

        self._modify(workload, change)
        self._messages.pop(workload.key, None)
        flavors = [quotas.flavors[name] for name in dict.fromkeys(workload.assignment.flavors[0].values())]

        def resume(job: Object) -> None:
            spec = job["spec"]["template"]["spec"]
            for flavor in flavors:
                if flavor.labels:
                    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **flavor.labels}
                tolerations = [_plain_toleration(each) for each in flavor.tolerations]
                if tolerations:
                    spec["tolerations"] = [*(spec.get("tolerations") or []), *tolerations]
            job["spec"]["suspend"] = False

        job = self._job_of(workload)
        if job is not None:
            self.api.modify(JOBS, job.namespace, job.name, resume)

    def _evict(self, by: Workload, victim: Victim) -> None:
        workload, now = victim.workload, self.api.timestamp()
        self._outcomes.setdefault(workload.queue, QueueOutcome()).preempted += 1
        message = f"Preempted to accommodate a workload (UID: {by.uid}) due to {_REASONS[victim.reason]}"

        def change(obj: Object) -> None:
            status = obj.setdefault("status", {})
            set_condition(status, _condition("Evicted", True, "Preempted", message), now)
            set_condition(status, _condition("Preempted", True, victim.reason, message), now)

        self._modify(workload, change)
        job, stored = self._job_of(workload), self.store.entry(QUEUED_WORKLOADS, workload.key)
        if job is None or stored is None:
            return
        template = stored.object()["spec"]["podSets"][0]["template"]
        self.api.modify(JOBS, job.namespace, job.name, lambda obj: obj["spec"].update(suspend=True))
        self.api.modify(JOBS, job.namespace, job.name, lambda obj: obj["spec"].update(template=template))
        self.enqueue(job.key)

    # ---- the API -----------------------------------------------------------------------------------------------

    def _job_of(self, workload: Workload) -> StoredEntry | None:
        stored = self.store.entry(QUEUED_WORKLOADS, workload.key)
        owner = controller_of(stored.object()) if stored is not None else None
        return self.store.by_uid(owner["uid"]) if owner is not None else None

    def _modify(self, workload: Workload, change: Any) -> None:
        stored = self.store.entry(QUEUED_WORKLOADS, workload.key)
        if stored is not None:
            self.modify_status(stored, change)

    def _set(self, workload: Workload, type_: str, reason: str, message: str, *, is_true: bool = True) -> None:
        now = self.api.timestamp()
        wanted = _condition(type_, is_true, reason, message)
        self._modify(workload, lambda obj: set_condition(obj.setdefault("status", {}), wanted, now))


def _said_of(entry: StoredEntry) -> Object:
    """Return an object without its metadata and status."""
    return {name: value for name, value in entry.object().items() if name not in ("metadata", "status")}


def _workload_key(job: str, uid: str) -> str:
    namespace, _, name = job.partition("/")
    return f"{namespace}/job-{name[:50]}-{uid[:5]}"


def _condition(type_: str, is_true: bool, reason: str, message: str) -> Object:
    return {"type": type_, "status": "True" if is_true else "False", "reason": reason, "message": message}


def _plain_toleration(toleration: Any) -> Object:
    fields = {"key": toleration.key, "operator": toleration.operator, "value": toleration.value}
    return {name: value for name, value in {**fields, "effect": toleration.effect}.items() if value}


def _in_use(quotas: Quotas, name: str) -> list[Object]:
    """Return a ClusterQueue's usage of each flavor, with the borrowed part."""
    node = quotas.queues[name].node
    found: dict[str, list[Object]] = {}
    for (flavor, resource), quota in node.quotas.items():
        used = node.usage.get((flavor, resource), 0)
        row = {"name": resource, "total": written(resource, used)}
        row["borrowed"] = written(resource, max(0, used - quota.nominal))
        found.setdefault(flavor, []).append(row)
    return [{"name": flavor, "resources": rows} for flavor, rows in found.items()]
