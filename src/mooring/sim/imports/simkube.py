"""A SimKube trace, version 2, as MessagePack or JSON: objects that were applied and deleted, and how long pods ran.

| in the trace | becomes |
|---|---|
| ``events``: pods that no workload owns | arrivals; an update of one is left out |
| ``events``: Deployments, Jobs and other workloads | changes: their controllers make the pods |
| ``events``: CronJobs | their pods arrive when they came, as ``pod_lifecycles`` has it, not by the schedule |
| ``events``: other objects that scheduling reads | changes |
| ``pod_lifecycles`` of a pod | its run time |
| ``pod_lifecycles`` of a workload | the annotation ``mooring/completes-after`` of its template: the median |
| ``pod_lifecycles`` of anything else, such as a custom resource | nothing, and named: no pods are made of it |
| ``index``, ``config`` | nothing; they say how the trace was taken |

A trace has no nodes: a simulation of one needs a cluster beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from statistics import median_low
from typing import Any

import msgspec

from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.api.meta import Object
from mooring.api.pod_templates import made_by
from mooring.api.text import count_of
from mooring.sim.imports.imported import Imported, ImportedChange, Omissions, Workload
from mooring.sim.imports.objects import ObjectReader, pending
from mooring.sim.workload import Arrival

VERSION = 2
COMPLETES_AFTER = "mooring/completes-after"
_FIELDS = ("version", "config", "events", "index", "pod_lifecycles")
_CLAIM = "persistentVolumeClaim"
_StartEnd = tuple[int, int | None]  # start and end, in seconds since 1970


def is_trace(value: Any) -> bool:
    """Report whether a value has the shape of a trace."""
    return isinstance(value, Mapping) and "events" in value and "kind" not in value


def decode_msgpack(path: Path, data: bytes) -> Any:
    """The value of a MessagePack file; its maps may have tuples and numbers as keys."""
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, TypeError) as error:
        raise InputError(f"{path}: {error}; expected MessagePack, as SimKube writes its traces") from None


def import_trace(path: Path, value: Any) -> Imported:
    """What was applied and deleted, from the first event on."""
    if not isinstance(value, Mapping):
        raise InputError(f"{path}: {_said(value)}, expected a SimKube trace: a map of {', '.join(_FIELDS)}")
    if value.get("version") != VERSION:
        raise InputError(f"{path}: version: {_said(value.get('version'))}, expected {VERSION}")
    events = value.get("events")
    if not isinstance(events, list):
        raise InputError(f"{path}: events: {_said(events)}, expected a list")
    reading = TraceReading(Lifetimes(path, value.get("pod_lifecycles")))
    for field in value:
        if field not in _FIELDS:
            reading.omissions.add(f"{field}: a field that traces of version {VERSION} do not have", 0)
    last: int | None = None
    for i, event in enumerate(events):
        where = f"{path}: events[{i}]"
        at = _timestamp(event, where)
        if last is not None and at < last:
            raise InputError(f"{where}: ts {at} is before {last} of the event before it; times never go back")
        last = at
        reading.take(at, event, where)
    return reading.imported()


def _timestamp(event: Any, where: str) -> int:
    if not isinstance(event, Mapping):
        raise InputError(f"{where}: {_said(event)}, expected a map of ts, applied_objs and deleted_objs")
    at = event.get("ts")
    if type(at) is not int or abs(at) > 2**53:
        raise InputError(f"{where}: ts: {_said(at)}, expected seconds since 1970 as a whole number")
    return at


class TraceReading:
    """The events read so far."""

    def __init__(self, lifetimes: Lifetimes) -> None:
        self.omissions = Omissions()
        self._reader = ObjectReader(self.omissions)
        self._lifetimes = lifetimes
        self._start: int | None = None
        self._pods: dict[str, Pod] = {}
        self._arrivals: list[Arrival] = []
        self._changes: list[ImportedChange] = []
        self._cron_jobs: set[str] = set()

    def take(self, at: int, event: Mapping[str, Any], where: str) -> None:
        if self._start is None:
            self._start = at
        at_s = float(at - self._start)
        for field in ("applied_objs", "deleted_objs"):
            listed = event.get(field) or []
            if not isinstance(listed, list):
                raise InputError(f"{where}: {field}: {_said(listed)}, expected a list")
            for i, item in enumerate(listed):
                obj = self._reader.read(item, f"{where}: {field}[{i}]", is_gone=field == "deleted_objs")
                if obj is None:
                    continue
                if field == "applied_objs":
                    self._apply(at_s, obj, f"{where}: {field}[{i}]")
                else:
                    self._delete(at_s, obj)

    def _apply(self, at_s: float, obj: Object | Workload, where: str) -> None:
        if isinstance(obj, Mapping) and obj.get("kind") == "CronJob":
            self._run_cron_job(obj, where)
            return
        if not isinstance(obj, Pod):
            self._changes.append(
                ImportedChange(at_s, obj if isinstance(obj, Object) else self._lived(obj, where), where=where)
            )
            return
        if obj.key in self._pods:
            self.omissions.add("Pod that is applied again: only its first state arrives")
            return
        if obj.metadata.owner_references:
            self.omissions.add("owner of a Pod: it is not in the simulation unless the trace has it", 1)
        self._count_claims(any(volume.persistent_volume_claim is not None for volume in obj.spec.volumes))
        if obj.spec.node_name:
            self.omissions.add("node of a Pod: the simulation decides itself")
        self._pods[obj.key] = pending(obj)
        times = self._lifetimes.of("v1.Pod", obj.key)
        self._arrivals.append(Arrival(at_s, obj, times[0] if times else None))

    def _run_cron_job(self, workload: Workload, where: str) -> None:
        """Let the pods of a CronJob arrive when they started in the trace."""
        name = _name(workload)
        if name in self._cron_jobs:
            return
        self._cron_jobs.add(name)
        lives = self._lifetimes.lives(_group_version_kind(workload), name)
        if not lives:
            self.omissions.add(f"CronJob {name}: the trace has no pods of it", 0)
            return
        self.omissions.add(f"schedule of CronJob {name}: its pods come when they came in the trace", 0)
        _template(workload, where)
        for i, (start, end) in enumerate(sorted(lives, key=lambda life: life[0]), start=1):
            (plain, *_) = made_by(workload)
            plain["metadata"]["name"] = f"{plain['metadata'].pop('generateName')}{i}"
            pod = self._reader.read(plain, f"{where}: pod {i}")
            assert isinstance(pod, Pod) and self._start is not None
            run_s = None if end is None else float(end - start)
            self._arrivals.append(Arrival(max(0.0, float(start - self._start)), pod, run_s))

    def _delete(self, at_s: float, obj: Object | Workload) -> None:
        if isinstance(obj, Mapping) and obj.get("kind") == "CronJob":
            return  # its Jobs continue
        if isinstance(obj, Pod):
            known = self._pods.pop(obj.key, None)
            if known is None:
                self.omissions.add("deletion of a Pod that the trace does not have")
                return
            obj = known
        self._changes.append(ImportedChange(at_s, obj, is_gone=True))

    def _lived(self, workload: Workload, where: str) -> Workload:
        """The workload, its pods with a run time if the trace has one."""
        name = _name(workload)
        times = self._lifetimes.of(_group_version_kind(workload), name)
        template = _template(workload, where)
        spec = template.get("spec")
        volumes = spec.get("volumes") if isinstance(spec, Mapping) else None
        self._count_claims(any(isinstance(each, Mapping) and _CLAIM in each for each in volumes or ()))
        if not times:
            return workload
        run_s = median_low(times)
        if len(set(times)) > 1:
            self.omissions.add(
                f"{count_of(len(times), 'run time')} of {workload.get('kind')} {name}, from {min(times):g}s to "
                f"{max(times):g}s: its pods all get the median, {run_s:g}s",
                0,
            )
        changed = deepcopy(dict(workload))
        meta = _template(changed, where).setdefault("metadata", {})
        meta["annotations"] = {**(meta.get("annotations") or {}), COMPLETES_AFTER: f"{run_s:g}s"}
        return changed

    def _count_claims(self, has_claim: bool) -> None:
        if has_claim:
            self.omissions.add("volume claim of a pod template: a trace has the claim, not its volumes")

    def imported(self) -> Imported:
        self._arrivals.sort(key=lambda each: each.at_s)
        for kind, name, count in self._lifetimes.unused():
            self.omissions.add(f"{count_of(count, 'pod')} of {kind} {name}: no pods are made of such an object", 0)
        self.omissions.add("nodes: a trace has none; give a cluster beside it", 0)
        return Imported(
            "SimKube trace",
            arrivals=self._arrivals,
            changes=self._changes,
            started_at=None if self._start is None else float(self._start),
            not_simulated=self.omissions.lines(),
        )


def _name(workload: Workload) -> str:
    meta = workload.get("metadata")
    return f"{meta.get('namespace') or 'default'}/{meta.get('name')}" if isinstance(meta, Mapping) else ""


def _group_version_kind(workload: Workload) -> str:
    return f"{workload.get('apiVersion')}.{workload.get('kind')}"


def _template(workload: Mapping[str, Any], where: str) -> Any:
    spec: Any = workload.get("spec")
    if workload.get("kind") == "CronJob":
        job = spec.get("jobTemplate") if isinstance(spec, Mapping) else None
        spec = job.get("spec") if isinstance(job, Mapping) else None
    template = spec.get("template") if isinstance(spec, Mapping) else None
    if not isinstance(template, dict) or not isinstance(template.get("metadata") or {}, dict):
        raise InputError(f"{where}: spec.template: {_said(template)}, expected the template of a pod")
    if template.get("metadata") is None:
        template.pop("metadata", None)
    return template


class Lifetimes:
    """How long the pods of each owner ran, in the order in which they started."""

    def __init__(self, path: Path, value: Any) -> None:
        self._by_owner: dict[tuple[str, str], list[_StartEnd]] = {}
        self._asked: set[tuple[str, str]] = set()
        if not isinstance(value, Mapping | None):
            raise InputError(f"{path}: pod_lifecycles: {_said(value)}, expected a map by owner")
        for owner, by_hash in (value or {}).items():
            where = f"{path}: pod_lifecycles of {str(owner)[:80]}"
            if not isinstance(by_hash, Mapping):
                raise InputError(f"{where}: {_said(by_hash)}, expected a map by hash of the pod")
            for lives in by_hash.values():
                if not isinstance(lives, list):
                    raise InputError(f"{where}: {_said(lives)}, expected a list")
                found = [each for life in lives if (each := _life(life, where)) is not None]
                self._by_owner.setdefault(_owner(owner, where), []).extend(found)

    def of(self, group_version_kind: str, key: str) -> list[float]:
        """The run times of the pods of an owner; a pod on its own is its own owner."""
        return [float(end - start) for start, end in self.lives(group_version_kind, key) if end is not None]

    def lives(self, group_version_kind: str, key: str) -> list[_StartEnd]:
        """When the pods of an owner started and ended; None for those that still ran."""
        owner = (group_version_kind, key)
        self._asked.add(owner)
        return self._by_owner.get(owner, [])

    def unused(self) -> list[tuple[str, str, int]]:
        """Owners that are not in the import, and how many pods they had."""
        return [(*owner, len(lives)) for owner, lives in self._by_owner.items() if owner not in self._asked]


def _owner(owner: Any, where: str) -> tuple[str, str]:
    """A pair; JSON cannot have one as a key, so the text of a pair is accepted as well."""
    if isinstance(owner, str):
        kind, comma, name = owner.strip("()[] ").partition(",")
        owner = (kind.strip(" \"'"), name.strip(" \"'")) if comma else ()
    if not isinstance(owner, tuple | list) or len(owner) != 2 or not all(isinstance(each, str) for each in owner):
        raise InputError(f"{where}: {_said(owner)}, expected a pair of kind and namespace/name")
    return owner[0].removeprefix("/"), owner[1]  # "/v1.Pod" is how older tracers wrote "v1.Pod"


def _life(life: Any, where: str) -> _StartEnd | None:
    """When a pod started and ended; None for one that never ran."""
    match life:
        case "Empty":
            return None
        case {"Running": int() as start}:
            return start, None
        case {"Finished": [int() as start, int() as end]} | {"start_ts": int() as start, "end_ts": int() as end}:
            if not start <= end:
                raise InputError(f"{where}: end {end} is before start {start}; a run time cannot be negative")
            return start, end
        case {"start_ts": int() as start}:
            return start, None
    raise InputError(f"{where}: {_said(life)}, expected Empty, Running (start) or Finished (start, end)")


def _said(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case bool() | int() | float():
            return f"the number {str(value)[:40]}"
        case str() | bytes():
            return f"the text {value[:40]!r}"
        case list() | tuple():
            return "a list"
        case _:
            return "a map"
