"""Kueue's queues and quotas. Once there is a ClusterQueue, a Job that names a queue waits for its admission."""

from __future__ import annotations

from typing import Any

from mooring.api.errors import MooringError
from mooring.controlplane.quotas.reading import queues_of
from mooring.controlplane.registry.columns import columns, get, number
from mooring.controlplane.registry.validation import fill
from mooring.controlplane.types.kind import Column, Kind, Object
from mooring.controlplane.types.status import Cause, invalid_value, required

_GROUP, _VERSION = "kueue.x-k8s.io", "v1beta2"


def _default_cluster_queue(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    fill(spec, queueingStrategy="BestEffortFIFO", stopPolicy="None")
    preemption = spec.setdefault("preemption", {})
    fill(preemption, withinClusterQueue="Never", reclaimWithinCohort="Never")
    fill(spec.setdefault("flavorFungibility", {}), whenCanBorrow="MayStopSearch", whenCanPreempt="TryNextFlavor")


_CHOICES = {
    "queueingStrategy": ("StrictFIFO", "BestEffortFIFO"),
    "stopPolicy": ("None", "Hold", "HoldAndDrain"),
    "preemption.withinClusterQueue": ("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
    "preemption.reclaimWithinCohort": ("Never", "LowerPriority", "Any"),
    "preemption.borrowWithinCohort.policy": ("Never", "LowerPriority"),
    "flavorFungibility.whenCanBorrow": ("MayStopSearch", "TryNextFlavor"),
    "flavorFungibility.whenCanPreempt": ("MayStopSearch", "TryNextFlavor"),
    "flavorFungibility.preference": ("BorrowingOverPreemption", "PreemptionOverBorrowing"),
}


def _validate_quotas(obj: Object) -> list[Cause]:
    found = []
    for path, allowed in _CHOICES.items():
        value = get(obj, f"spec.{path}")
        if value is not None and value not in allowed:
            found.append(invalid_value(f"spec.{path}", value, f"supported values: {', '.join(allowed)}"))
    seen: set[str] = set()
    for i, group in enumerate(get(obj, "spec.resourceGroups") or ()):
        where = f"spec.resourceGroups[{i}]"
        covered = group.get("coveredResources") or []
        for name in covered:
            if name in seen:
                found.append(invalid_value(f"{where}.coveredResources", name, "must be in one resource group only"))
            seen.add(name)
        for k, flavor in enumerate(group.get("flavors") or ()):
            if [each.get("name") for each in flavor.get("resources") or ()] != covered:
                at = f"{where}.flavors[{k}].resources"
                found.append(invalid_value(at, flavor.get("name"), "must match the resources in coveredResources"))
    if not found:
        try:
            queues_of([obj])
        except MooringError as error:
            found.append(invalid_value("spec", obj["metadata"].get("name"), str(error)))
    return found


def _validate_local_queue(obj: Object) -> list[Cause]:
    return [] if get(obj, "spec.clusterQueue") else [required("spec.clusterQueue")]


def _reserved_in(obj: Object, _: float) -> Any:
    return get(obj, "status.admission.clusterQueue") or ""


def _is(type_: str) -> Any:
    def cell(obj: Object, _: float) -> str:
        conditions = {each.get("type"): each for each in get(obj, "status.conditions") or ()}
        return str(conditions.get(type_, {}).get("status", ""))

    return cell


_PENDING = number("Pending Workloads", "status.pendingWorkloads")
_ADMITTED = number("Admitted Workloads", "status.admittedWorkloads")

CLUSTER_QUEUES = Kind(
    "ClusterQueue",
    _GROUP,
    version=_VERSION,
    is_namespaced=False,
    short_names=("cq",),
    subresources=("status",),
    has_generation=True,
    default=_default_cluster_queue,
    validate=_validate_quotas,
    columns=columns(
        "Name",
        "Cohort: spec.cohortName",
        "+Strategy: spec.queueingStrategy",
        _PENDING,
        Column(_ADMITTED.name, _ADMITTED.cell, _ADMITTED.type, priority=1),
    ),
)

COHORTS = Kind(
    "Cohort",
    _GROUP,
    version=_VERSION,
    is_namespaced=False,
    has_generation=True,
    validate=_validate_quotas,
    columns=columns("Name", "Age"),
)

LOCAL_QUEUES = Kind(
    "LocalQueue",
    _GROUP,
    version=_VERSION,
    short_names=("lq",),
    subresources=("status",),
    has_generation=True,
    validate=_validate_local_queue,
    columns=columns("Name", "ClusterQueue: spec.clusterQueue", _PENDING, _ADMITTED),
)

RESOURCE_FLAVORS = Kind(
    "ResourceFlavor",
    _GROUP,
    version=_VERSION,
    is_namespaced=False,
    short_names=("rf",),
    has_generation=True,
    columns=columns("Name", "Age"),
)

WORKLOAD_PRIORITY_CLASSES = Kind(
    "WorkloadPriorityClass",
    _GROUP,
    version=_VERSION,
    is_namespaced=False,
    columns=columns("Name", number("Value", "value")),
)

QUEUED_WORKLOADS = Kind(
    "Workload",
    _GROUP,
    version=_VERSION,
    short_names=("wl",),
    subresources=("status",),
    has_generation=True,
    columns=columns(
        "Name",
        "Queue: spec.queueName",
        Column("Reserved in", _reserved_in),
        Column("Admitted", _is("Admitted")),
        Column("Finished", _is("Finished")),
        "Age",
    ),
)
