"""A record of kube-scheduler-simulator: a line of JSON for each object that came, changed or went, with its time.

| in the record | becomes |
|---|---|
| everything of the first moment (the recorder lists what is there) | the cluster at the start |
| a pod that comes without a node | an arrival; that it was bound later is what another scheduler did, and is left out |
| a pod that ends (Succeeded, Failed) | its run time, from its binding to its end |
| a pod that is deleted while it runs or waits | a change at that time |
| a pod that the recorded scheduler evicts | a pod without an end: the simulation decides who is evicted |
| a pod whose labels or spec change (a scheduling gate is removed) | a change at that time |
| a volume or claim that is bound or provisioned | left out: the simulation binds and provisions itself |
| any other object that comes, changes or goes | a change, if it differs in what scheduling reads |
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from mooring.api import yaml
from mooring.api.core import Node, Pod
from mooring.api.defaults import set_default_meta
from mooring.api.errors import InputError, MooringError, ParseError
from mooring.api.manifests import read_values
from mooring.api.meta import Condition, Object
from mooring.api.times import parse_time
from mooring.core.config.convert import OLD_VERSIONS, convert_document
from mooring.core.config.load import config_from_dict
from mooring.core.config.types import KIND
from mooring.sim.imports.imported import Imported, ImportedChange, Omissions, read_lines
from mooring.sim.imports.objects import (
    ObjectChanges,
    ObjectReader,
    PodLife,
    is_made,
    is_revised,
    pending,
    without_finished,
)
from mooring.sim.workload import Arrival

FIRST_MOMENT_S = 5.0  # the recorder lists kind after kind when it starts
JITTER_S = 1.0  # several watches write into one file, each with its own clock reading
_EVENTS = ("Add", "Update", "Delete")


def is_record(value: Any) -> bool:
    """Report whether the first line of a file has the shape of a line of a record."""
    return isinstance(value, Mapping) and "event" in value and "resource" in value


def import_record(path: Path, text: str) -> Imported:
    """The cluster as the recorder found it, and what happened to it later."""
    reading = SimulatorReading()
    last_s: float | None = None
    whole, _, rest = text.rpartition("\n")
    if whole and rest.strip() and yaml.load_json(rest) is None:  # the recorder ends each line
        reading.cut_off()
        text = whole
    for where, value in read_lines(path, text):
        at_s = _time(value, where)
        if reading.started_at is None:
            reading.started_at = at_s
        if last_s is not None and at_s < last_s - JITTER_S:
            raise InputError(f"{where}: time {value['time']} is {last_s - at_s:.3f}s before an earlier line's; "
                             "a record's times never go back")  # fmt: skip
        last_s = at_s if last_s is None else max(last_s, at_s)
        reading.take(last_s - reading.started_at, value, where)
    if reading.started_at is None:
        raise InputError(f"{path}: an empty file; expected a line of JSON for each change, with time, event, resource")
    return reading.imported()


def _time(value: Any, where: str) -> float:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {type(value).__name__}, expected an object with time, event and resource")
    for name in ("time", "event", "resource"):
        if name not in value:
            raise InputError(f"{where}: no {name!r}; expected an object with time, event and resource")
    if value["event"] not in _EVENTS:
        raise InputError(f"{where}: event: {str(value['event'])[:40]!r}, expected {', '.join(_EVENTS)}")
    try:
        return parse_time(_micros(str(value["time"])))
    except ParseError as error:
        raise InputError(f"{where}: time: {error}") from None


def _micros(text: str) -> str:
    """Go writes nine digits below the second; Python 3.11 reads six at most."""
    whole, dot, rest = text.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return f"{whole}.{rest[: min(digits, 6)].ljust(6, '0')}{rest[digits:]}" if dot and digits else text


class SimulatorReading:
    """The lines read so far."""

    def __init__(self) -> None:
        self.started_at: float | None = None
        self._omissions = Omissions()
        self._reader = ObjectReader(self._omissions)
        self._start: dict[tuple[str, str], Object] = {}
        self._lives: dict[str, PodLife] = {}  # by namespace/name
        self._arrivals: list[PodLife] = []
        self._changes: list[ImportedChange] = []
        self._objects = ObjectChanges(self._changes, self._omissions, _as_scheduling_sees, "Update")

    def cut_off(self) -> None:
        self._omissions.add("last line: it was cut off")

    def take(self, at_s: float, value: Mapping[str, Any], where: str) -> None:
        resource = value["resource"]
        obj = self._reader.read(resource, f"{where}: resource", is_gone=value["event"] == "Delete")
        if obj is None:
            return
        if not isinstance(obj, Object):  # a workload; its pods are in the record themselves
            kind = str(obj.get("kind"))
            self._omissions.add(f"{kind}: its pods are in the record themselves")
            return
        set_default_meta(obj)
        if isinstance(obj, Pod):
            self._take_pod(at_s, obj, value["event"])
        else:
            self._take_object(at_s, obj, value["event"])

    def _take_object(self, at_s: float, obj: Object, event: str) -> None:
        key = (type(obj).__name__, obj.key)
        known = self._objects.known.get(key)
        if event == "Delete":
            self._objects.known.pop(key, None)
            if known is None:
                self._omissions.add(f"Delete of a {key[0]} that the record does not have")
            elif is_made(known):
                self._omissions.add(f"Delete of a {key[0]} that the recorded cluster made for a pod")
            elif self._start.get(key) is not known or at_s > 0:
                self._changes.append(ImportedChange(at_s, known, is_gone=True))
            return
        if known is None and at_s <= FIRST_MOMENT_S:
            self._objects.known[key] = self._start[key] = obj
        elif not self._objects.put(at_s, obj):
            self._omissions.add(f"Update of a {key[0]} that changes nothing that scheduling reads")

    def _take_pod(self, at_s: float, pod: Pod, event: str) -> None:
        life = self._lives.get(pod.key)
        if event == "Delete":
            self._lives.pop(pod.key, None)
            if life is None:
                self._omissions.add("Delete of a Pod that the record does not have")
            elif life.was_evicted:
                self._omissions.add("end of a pod that was evicted by preemption: the simulation decides itself")
            elif life.run_s is None:
                self._changes.append(ImportedChange(at_s, life.pod, is_gone=True))
            return
        if life is not None and life.pod.uid != pod.uid:
            self._changes.append(ImportedChange(at_s, life.pod, is_gone=True))  # its Delete was not seen
            life = None
        if life is None:
            self._begin(at_s, pod)
        else:
            self._go_on(at_s, life, pod)

    def _begin(self, at_s: float, pod: Pod) -> None:
        if pod.is_finished:
            self._omissions.add("Pod that had ended before it was seen: scheduling does not see it")
            return
        bound_s = at_s if pod.spec.node_name else None
        life = self._lives[pod.key] = PodLife(pod, at_s, pod, bound_s)
        if not pod.spec.node_name:
            pending(pod)
            self._arrivals.append(life)
        elif at_s <= FIRST_MOMENT_S:
            self._start["Pod", pod.key] = pod
        else:
            self._changes.append(ImportedChange(at_s, pod))

    def _go_on(self, at_s: float, life: PodLife, pod: Pod) -> None:
        if life.bound_s is None and pod.spec.node_name:
            life.bound_s = at_s
            self._omissions.add("binding that the recorded scheduler made: the simulation decides itself")
        life.was_evicted |= _is_preempted(pod)
        if life.was_evicted:
            return
        if pod.is_finished and life.run_s is None:
            life.run_s = max(0.0, at_s - (life.came_s if life.bound_s is None else life.bound_s))
            if life.pod.spec.node_name:  # it was bound when it was first seen, so its end is known as a time
                self._changes.append(ImportedChange(at_s, life.pod, is_gone=True))
        elif is_revised(life.latest, pod):
            life.latest = pod
            self._changes.append(ImportedChange(at_s, pod, came_as=life.pod))
        elif not pod.is_finished:
            self._omissions.add("Update of a Pod after it came: status, or what another scheduler wrote")

    def imported(self) -> Imported:
        # The recorded deletion of a pod that ended by itself comes after its run time: only arrivals have one.
        return Imported(
            "kube-scheduler-simulator record",
            objects=list(self._start.values()),
            arrivals=[Arrival(each.came_s, each.pod, each.run_s) for each in self._arrivals],
            changes=self._changes,
            started_at=self.started_at,
            not_simulated=self._omissions.lines(),
        )


def _is_preempted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.status == "True" and each.reason == "PreemptionByScheduler"
        for each in pod.status.conditions
    )


def _as_scheduling_sees(obj: Object) -> Object:
    """A copy without what changes all the time: versions, and a node's heartbeats."""
    seen = deepcopy(obj)
    seen.metadata.resource_version, seen.metadata.generation = "", 0
    if isinstance(seen, Node):
        seen.status.conditions = [
            Condition(type=each.type, status=each.status)
            for each in seen.status.conditions
            if each.type == "Ready" and each.status != "True"
        ]
    return seen


# --------------------------------------------------------------------------------------------------------------------
# An export of kube-scheduler-simulator: one object with lists of objects and the scheduler's configuration.
#
# Its API answers in JSON, its page saves the same as YAML (``export.yml``). What the versions of it differ in:
#
# | since | an export has |
# |---|---|
# | February 2022 | a configuration of v1beta2 without ``apiVersion`` and ``kind``, with all defaults written out |
# | 2022 (0.2) | ``apiVersion`` and ``kind``, too |
# | March 2023 (0.3) | ``namespaces`` |
# | April 2023 (0.3) | a configuration of v1, with the plugins that v1 had before Kubernetes 1.33 |
# | October 2024 (0.4) | the configuration null, if another scheduler runs |

# The simulator writes the items of its lists without kind.
_KINDS = {
    "namespaces": ("v1", "Namespace"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "pvs": ("v1", "PersistentVolume"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
}
CONFIG = "schedulerConfig"
# What its scheduler writes about each step of a decision; the second is that of the first versions.
_RESULTS = ("kube-scheduler-simulator.sigs.k8s.io/", "scheduler-simulator/")


def is_export(value: Any) -> bool:
    """Report whether a value has the shape of an export."""
    return isinstance(value, Mapping) and "kind" not in value and ("pods" in value or "nodes" in value)


def import_export(path: Path, value: Mapping[str, Any]) -> Imported:
    """The cluster that was exported, and its configuration."""
    omissions = Omissions()
    items = [each for field in _KINDS for each in _items(path, value, field)]
    for field in value:
        if field not in _KINDS and field != CONFIG:
            omissions.add(f"{field}: a field that exports of kube-scheduler-simulator do not have", 0)
    config = _config(path, value.get(CONFIG), omissions)
    found = read_values(items)
    for note in found.unknown:
        omissions.add(f"field that Kubernetes does not know: {note}", 0)
    objects = without_finished(found.objects, omissions)
    for obj in objects:
        if isinstance(obj, Pod) and any(key.startswith(_RESULTS) for key in obj.metadata.annotations):
            omissions.add(f"Pod with results of the exported scheduler ({_RESULTS[0]}…): the simulation decides itself")
    return Imported("kube-scheduler-simulator export", objects=objects, config=config, not_simulated=omissions.lines())


def _config(path: Path, found: Any, omissions: Omissions) -> Mapping[str, Any] | None:
    """The configuration as v1 has it today; None if the export has none."""
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise InputError(f"{path}: {CONFIG}: {type(found).__name__}, expected a KubeSchedulerConfiguration")
    config: Mapping[str, Any] = found
    # The first versions, which had v1beta2, did not say it. v1 lost plugins after it began, as v1beta3 lost them.
    version = config.get("apiVersion") or OLD_VERSIONS[1]
    converted, notes = convert_document(
        {"kind": KIND, **config, "apiVersion": version if version in OLD_VERSIONS else OLD_VERSIONS[2]}
    )
    notes = [note for note in notes if not note.path.endswith("apiVersion")]
    for note in notes:
        omissions.add(f"{CONFIG}.{note}", 0)
    if notes or version in OLD_VERSIONS:
        config = converted
    try:
        config_from_dict(config)
    except MooringError as error:
        raise InputError(f"{path}: {CONFIG}: {error}") from None
    return config


def _items(path: Path, value: Mapping[str, Any], field: str) -> list[tuple[str, Any]]:
    listed = value.get(field)
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise InputError(f"{path}: {field}: {type(listed).__name__}, expected a list")
    version, kind = _KINDS[field]
    items: list[tuple[str, Any]] = []
    for i, item in enumerate(listed):
        if not isinstance(item, Mapping):
            raise InputError(f"{path}: {field}[{i}]: {type(item).__name__}, expected an object")
        items.append((f"{path}: {field}[{i}]", {**item, "apiVersion": version, "kind": kind}))
    return items
