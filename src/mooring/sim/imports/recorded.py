"""A record as the start of a story: the cluster and the queue of a moment, and later events.

| in the record | becomes |
|---|---|
| the moment: objects, pods on nodes, pods in the queue | the cluster at the start; pods wait where they waited |
| a pod that comes | an arrival; where it was placed is what the recorded scheduler did, and is left out |
| a pod that ends by itself | its run time, from its binding to its end |
| a pod that is deleted | a deletion at that time |
| a pod whose labels or spec change | a change at that time |
| a pod that was evicted by preemption | a pod without an end: the simulation decides who is evicted |
| a node that changes, comes or goes | the same; one that was not heard of any more has a silent kubelet |
| any other object that comes, changes or goes | the same, unless controllers or the scheduler made it |
"""

from __future__ import annotations

from copy import copy
from typing import Any

from mooring.api.core import Node, Pod
from mooring.core.config.wire import to_wire
from mooring.core.queue.queued_pod import History
from mooring.record import entries
from mooring.record.files import file_and_time
from mooring.record.moment import Moment, QueuedPod
from mooring.record.reader import Record, record_time
from mooring.sim.imports.imported import Imported, ImportedChange, Omissions
from mooring.sim.imports.objects import ObjectChanges, PodLife, is_made, is_revised
from mooring.sim.imports.story import ready
from mooring.sim.workload import Arrival

FORMAT = "mooring record"


def import_own_record(name: str) -> Imported:
    """Import a record's moment and the time after it; without a time, its beginning."""
    file, at = file_and_time(name)
    with Record.open(file) as record:
        time = record_time(at, record) if at else record.first_time
        moment = record.moment(time) if at else record.beginning()
        reading = RecordReading(moment, time)
        for when, entry in record.entries(since=time):
            if when > time or not at:
                reading.take(when - time, entry)
        return reading.imported(record, moment)


class RecordReading:
    """The events after the moment that were read so far."""

    def __init__(self, moment: Moment, time: float) -> None:
        self._omissions = Omissions()
        self._changes: list[ImportedChange] = []
        self._lives: list[PodLife] = []
        self._of: dict[str, PodLife] = {}  # by uid, those that have not ended
        self._ended: set[str] = set()  # uids; a pod that has ended may change before it is gone
        self._objects = ObjectChanges(self._changes, self._omissions, _seen, "update")
        self._start = [*moment.state.table.nodes_by_zone(), *moment.state.objects]
        for obj in self._start:
            self._objects.known[type(obj).__name__, obj.key] = obj
        for pod in _in_order(moment):
            self._begin(0.0, _as_counted(pod, moment), _history(moment.queue.get(pod.uid), time))

    def take(self, at_s: float, entry: entries.Happened) -> None:
        match entry:
            case entries.Put(object=Pod() as pod):
                self._take_pod(at_s, pod)
            case entries.Put(object=obj):
                self._objects.put(at_s, obj)
            case entries.Deleted(kind="Pod", uid=uid):
                self._end(at_s, uid)
            case entries.Deleted(kind=kind, key=key):
                known = self._objects.known.pop((kind, key), None)
                if known is not None and not is_made(known):
                    self._changes.append(ImportedChange(at_s, known, is_gone=True))
            case entries.Evicted(uid=uid) if uid in self._of:
                self._of[uid].was_evicted = True
            case entries.Gap(missing=missing):
                self._omissions.add("entry that the record left out because the disk was slow", missing)

    # ---- pods --------------------------------------------------------------------------------------------------------

    def _begin(self, at_s: float, pod: Pod, history: History | None = None) -> None:
        if pod.is_finished:
            self._omissions.add("Pod that had ended before it was seen: scheduling does not see it")
            return
        life = PodLife(pod, at_s, pod, at_s if pod.spec.node_name else None, history)
        self._of[pod.uid] = life
        self._lives.append(life)

    def _take_pod(self, at_s: float, pod: Pod) -> None:
        life = self._of.get(pod.uid)
        if life is None:
            if pod.uid not in self._ended:
                self._begin(at_s, pod)
            return
        if life.bound_s is None and pod.spec.node_name:
            life.bound_s = at_s
            self._omissions.add("binding that the recorded scheduler made: the simulation decides itself")
        if is_revised(life.latest, pod):
            life.latest = pod
            self._changes.append(ImportedChange(at_s, pod, came_as=life.pod))
        if pod.is_finished:
            self._end(at_s, pod.uid)
        elif pod.is_terminating and life.deleted_s is None:
            life.deleted_s = at_s

    def _end(self, at_s: float, uid: str) -> None:
        life = self._of.pop(uid, None)
        if life is None:
            return
        self._ended.add(uid)
        if life.deleted_s is None and life.bound_s is not None:
            life.run_s = at_s - life.bound_s
        elif life.deleted_s is None:
            life.deleted_s = at_s

    # ---- all together ------------------------------------------------------------------------------------------------

    def imported(self, record: Record, moment: Moment) -> Imported:
        lives = [Arrival(each.came_s, each.pod, each.run_s, history=each.history) for each in self._lives]
        for each in self._lives:
            if each.was_evicted:
                self._omissions.add("end of a pod that was evicted by preemption: the simulation decides itself")
            elif each.deleted_s is not None and not each.pod.is_terminating:
                self._changes.append(ImportedChange(each.deleted_s, each.pod, is_gone=True, grace_s=None))
        self._changes.sort(key=lambda change: change.at_s)
        if not record.is_complete:
            self._omissions.add("end of the record: it was cut off, or is still being written", 0)
        header = record.header
        if header.is_redacted and not header.annotations:
            self._omissions.add("annotations: the record has only those that scheduling reads", 0)
        return Imported(
            FORMAT,
            objects=self._start,
            known_pods=[each for each in lives if (each.at_s == 0 and each.pod.spec.node_name) or each.history],
            arrivals=[each for each in lives if not ((each.at_s == 0 and each.pod.spec.node_name) or each.history)],
            changes=self._changes,
            config=to_wire(moment.config),
            kubernetes_version=header.kubernetes,
            feature_gates=header.gates,
            started_at=moment.time,
            records=[record.name],
            not_simulated=self._omissions.lines(),
        )


def _in_order(moment: Moment) -> list[Pod]:
    """Return pods on nodes in the order in which they were counted, then queued ones, the longest waiting first."""
    uids = [info.uid for info in moment.state.pods()]
    uids += [each.uid for each in sorted(moment.queue.values(), key=lambda each: each.entered)]
    places = {uid: i for i, uid in enumerate(uids)}
    return sorted(moment.pods.values(), key=lambda pod: places.get(pod.uid, len(places)))


def _as_counted(pod: Pod, moment: Moment) -> Pod:
    """Return the pod on its assumed node, unless a Permit plugin may still reject it."""
    info = moment.state.pod(pod.uid)
    if pod.spec.node_name or info is None or pod.uid in moment.waiting:
        return pod
    placed = copy(pod)
    placed.spec = copy(pod.spec)
    placed.spec.node_name = info.pod.spec.node_name
    return placed


def _history(waiting: QueuedPod | None, time: float) -> History | None:
    if waiting is None:
        return None
    tries, place = waiting.tries, waiting.place
    if place == entries.IN_FLIGHT:  # its attempt is repeated
        tries, place = max(0, tries - 1), entries.ACTIVE
    return History(place, tries, time - waiting.added, time - waiting.entered, waiting.plugins, waiting.message)


def _seen(obj: Any) -> tuple[Any, ...]:
    """Return what counts as a change of an object: without heartbeats and reports of controllers."""
    meta = obj.metadata
    common = (meta.labels, meta.annotations, meta.deletion_timestamp)
    if isinstance(obj, Node):
        return (*common, obj.spec, ready(obj), obj.status.allocatable, obj.status.capacity)
    fields = [name for name in type(obj).__struct_fields__ if name not in ("metadata", "status")]
    return (*common, *(getattr(obj, name) for name in fields))
