"""Types of the fields that are read of Kueue's objects and of Jobs in a queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from mooring.api.codec import from_plain, without_nulls
from mooring.api.core import Taint, Toleration
from mooring.api.errors import InputError
from mooring.api.meta import LabelSelector, OwnerReference, Struct

Quantity: TypeAlias = str | int | float
Count: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Priority: TypeAlias = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]


class _Metadata(Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    creation_timestamp: str = ""
    owner_references: list[OwnerReference] = []


class _Resource(Struct):
    name: str = ""
    nominal_quota: Quantity = 0
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class _FlavorQuotas(Struct):
    name: str = ""
    resources: list[_Resource] = []


class _ResourceGroup(Struct):
    covered_resources: list[str] = []
    flavors: list[_FlavorQuotas] = []


class _FairSharing(Struct):
    weight: Quantity | None = None


class _BorrowWithinCohort(Struct):
    policy: str = ""
    max_priority_threshold: Priority | None = None


class _Preemption(Struct):
    within_cluster_queue: str = ""
    reclaim_within_cohort: str = ""
    borrow_within_cohort: _BorrowWithinCohort | None = None


class _FlavorFungibility(Struct):
    when_can_borrow: str = ""
    when_can_preempt: str = ""
    preference: str = ""


class _Quotas(Struct):
    cohort: str = ""
    cohort_name: str = ""
    parent_name: str = ""
    queueing_strategy: str = ""
    stop_policy: str = ""
    resource_groups: list[_ResourceGroup] = []
    fair_sharing: _FairSharing | None = None
    preemption: _Preemption | None = None
    flavor_fungibility: _FlavorFungibility | None = None
    namespace_selector: LabelSelector | None = None


class _LocalQueueSpec(Struct):
    cluster_queue: str = ""
    stop_policy: str = ""


class _FlavorSpec(Struct):
    node_labels: dict[str, str] = {}
    node_taints: list[Taint] = []
    tolerations: list[Toleration] = []


class _Template(Struct):
    metadata: dict[str, Any] = {}
    spec: dict[str, Any] = {}


class _PodSet(Struct):
    name: str = ""
    count: Count = 0
    template: _Template | None = None


class _WorkloadSpec(Struct):
    active: bool = True
    priority: Priority = 0
    queue_name: str = ""
    pod_sets: list[_PodSet] = []


class _PodSetAssignment(Struct):
    name: str = ""
    flavors: dict[str, str] = {}
    resource_usage: dict[str, Quantity] = {}


class _AdmissionStatus(Struct):
    cluster_queue: str
    pod_set_assignments: list[_PodSetAssignment] = []


class _Condition(Struct):
    type: str = ""
    status: str = ""
    last_transition_time: str = ""


class _WorkloadStatus(Struct):
    admission: _AdmissionStatus | None = None
    conditions: list[_Condition] = []


class _JobSpec(Struct):
    parallelism: Count = 1
    completions: Count | None = None
    template: _Template | None = None


class ClusterQueue(Struct):
    metadata: _Metadata
    spec: _Quotas | None = None


class Cohort(Struct):
    metadata: _Metadata
    spec: _Quotas | None = None


class LocalQueue(Struct):
    metadata: _Metadata
    spec: _LocalQueueSpec | None = None


class ResourceFlavor(Struct):
    metadata: _Metadata
    spec: _FlavorSpec | None = None


class WorkloadPriorityClass(Struct):
    metadata: _Metadata
    value: Priority = 0


class Workload(Struct):
    metadata: _Metadata
    spec: _WorkloadSpec | None = None
    status: _WorkloadStatus | None = None


class Job(Struct):
    metadata: _Metadata
    spec: _JobSpec | None = None


_SHAPES: dict[str, type[Struct]] = {
    shape.__name__: shape
    for shape in (ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass, Workload, Job)
}


def checked(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object without its nulls. Raise InputError for a field of the wrong type, and without a name."""
    kind = str(obj["kind"])
    found = from_plain(_SHAPES[kind], obj)
    if not found.metadata.name:
        raise InputError(f"{kind} without a name: metadata.name: expected a name")
    plain: dict[str, Any] = without_nulls(obj)
    return plain
