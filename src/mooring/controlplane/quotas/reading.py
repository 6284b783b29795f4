"""Decoding of Kueue's objects, v1beta1 and v1beta2, to quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from mooring.api.codec import from_plain
from mooring.api.core import Pod, Taint, Toleration
from mooring.api.errors import InputError, ParseError
from mooring.api.meta import LabelSelector
from mooring.api.quantity import milli_value_of, value_of
from mooring.api.selectors import compile_selector
from mooring.api.times import parse_time
from mooring.controlplane.quotas.admission import Quotas
from mooring.controlplane.quotas.shapes import checked
from mooring.controlplane.quotas.tree import FlavorResource, Quota, QuotaNode, join
from mooring.controlplane.quotas.workloads import (
    BEST_EFFORT_FIFO,
    NEVER,
    PODS,
    TRY_NEXT,
    Assignment,
    ClusterQueue,
    Flavor,
    PodSet,
    ResourceGroup,
    Workload,
)
from mooring.core.state.requests import CPU, pod_requests, rounded

GROUP = "kueue.x-k8s.io"
QUEUE_LABEL, PRIORITY_LABEL = f"{GROUP}/queue-name", f"{GROUP}/priority-class"
KINDS = ("ClusterQueue", "LocalQueue", "ResourceFlavor", "Cohort", "WorkloadPriorityClass", "Workload")

Plain = Mapping[str, Any]
T = TypeVar("T")


@dataclass(slots=True)
class Queues:
    """The content of the objects: quotas with their workloads, and the names that jobs use."""

    quotas: Quotas
    local: dict[str, str] = field(default_factory=dict)  # namespace/name of a LocalQueue -> ClusterQueue
    priorities: dict[str, int] = field(default_factory=dict)  # of WorkloadPriorityClasses
    problems: dict[str, str] = field(default_factory=dict)  # why a workload cannot be admitted at all, by key
    workloads: dict[str, Workload] = field(default_factory=dict)


def is_of_kueue(obj: Plain) -> bool:
    return str(obj.get("apiVersion", "")).startswith(f"{GROUP}/") and obj.get("kind") in KINDS


def queues_of(objects: Iterable[Plain], namespaces: Mapping[str, Mapping[str, str]] | None = None) -> Queues:
    """Read all objects of Kueue; others are ignored. ``namespaces`` are labels by name."""
    by_kind: dict[str, list[Plain]] = {kind: [] for kind in KINDS}
    for obj in objects:
        if is_of_kueue(obj):
            by_kind[obj["kind"]].append(checked(obj))
    read = Queues(Quotas())
    for obj in by_kind["ResourceFlavor"]:
        flavor = _flavor(obj)
        read.quotas.flavors[flavor.name] = flavor
    _put_queues(read, by_kind["ClusterQueue"], by_kind["Cohort"])
    for obj in by_kind["LocalQueue"]:
        if _spec(obj).get("stopPolicy", "None") in ("None", None):
            read.local[_key(obj)] = str(_spec(obj).get("clusterQueue", ""))
    for obj in by_kind["WorkloadPriorityClass"]:
        read.priorities[_name(obj)] = int(obj.get("value") or 0)
    for obj in by_kind["Workload"]:
        put_workload(read, obj, namespaces or {})
    return read


# --------------------------------------------------------------------------------------------------------------------
# Queues and flavors


def _put_queues(read: Queues, queues: Sequence[Plain], cohorts: Sequence[Plain]) -> None:
    nodes: list[QuotaNode] = []
    by_name: dict[str, QuotaNode] = {}
    parents: dict[QuotaNode, str] = {}

    def cohort(name: str) -> QuotaNode:
        if name not in by_name:
            by_name[name] = QuotaNode(name)
            nodes.append(by_name[name])
        return by_name[name]

    for obj in cohorts:
        node, spec = cohort(_name(obj)), _spec(obj)
        node.weight = _weight(obj)
        node.quotas = _quotas(obj)
        if spec.get("parentName"):
            parents[node] = str(spec["parentName"])
    for obj in queues:
        queue = _queue(obj)
        read.quotas.queues[queue.name] = queue
        nodes.append(queue.node)
        name = _spec(obj).get("cohortName") or _spec(obj).get("cohort")
        if name:
            parents[queue.node] = str(name)
    join(nodes, {child: cohort(name) for child, name in parents.items()})


def _queue(obj: Plain) -> ClusterQueue:
    spec, where = _spec(obj), f"ClusterQueue {_name(obj)}"
    preemption, fungibility = spec.get("preemption") or {}, spec.get("flavorFungibility") or {}
    borrow = preemption.get("borrowWithinCohort") or {}
    groups = [
        ResourceGroup(
            frozenset(map(str, group.get("coveredResources") or ())),
            [str(each.get("name")) for each in group.get("flavors") or ()],
        )
        for group in spec.get("resourceGroups") or ()
    ]
    selector = spec.get("namespaceSelector")
    when = {"MayStopSearch": "Borrow"}  # v1beta2's word; anything but TryNextFlavor stops
    return ClusterQueue(
        node=QuotaNode(_name(obj), is_queue=True, weight=_weight(obj), quotas=_quotas(obj)),
        groups=groups,
        strategy=str(spec.get("queueingStrategy") or BEST_EFFORT_FIFO),
        within_queue=str(preemption.get("withinClusterQueue") or NEVER),
        reclaim=str(preemption.get("reclaimWithinCohort") or NEVER),
        borrow_policy=str(borrow.get("policy") or NEVER),
        borrow_threshold=borrow.get("maxPriorityThreshold"),
        when_can_borrow=when.get(
            str(fungibility.get("whenCanBorrow")), str(fungibility.get("whenCanBorrow") or "Borrow")
        ),
        when_can_preempt=str(fungibility.get("whenCanPreempt") or TRY_NEXT),
        preference=str(fungibility.get("preference") or ""),
        is_stopped=spec.get("stopPolicy", "None") not in ("None", None),
        namespaces=None if selector is None else _as(selector, LabelSelector, f"{where}: namespaceSelector"),
    )


def _quotas(obj: Plain) -> dict[FlavorResource, Quota]:
    found: dict[FlavorResource, Quota] = {}
    for i, group in enumerate(_spec(obj).get("resourceGroups") or ()):
        for flavor in group.get("flavors") or ():
            for each in flavor.get("resources") or ():
                name = str(each.get("name"))
                where = f"{obj['kind']} {_name(obj)}: resourceGroups[{i}]: {flavor.get('name')}: {name}"
                nominal, borrowing, lending = (
                    None if each.get(key) is None else _amount(name, each[key], f"{where}: {key}")
                    for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
                )
                found[str(flavor.get("name")), name] = Quota(nominal or 0, borrowing, lending)
    return found


def _amount(resource: str, text: Any, where: str) -> int:
    try:
        amount = milli_value_of(text) if resource == CPU else value_of(text)
    except ParseError as error:
        raise InputError(f"{where}: {error}") from None
    if amount < 0:
        raise InputError(f"{where}: found {text}; expected 0 or more")
    return amount


def _weight(obj: Plain) -> float:
    weight = (_spec(obj).get("fairSharing") or {}).get("weight")
    if weight is None:
        return 1.0
    return _amount(CPU, weight, f"{obj['kind']} {_name(obj)}: fairSharing.weight") / 1000


def _flavor(obj: Plain) -> Flavor:
    spec, where = _spec(obj), f"ResourceFlavor {_name(obj)}"
    return Flavor(
        _name(obj),
        dict(spec.get("nodeLabels") or {}),
        _as(spec.get("nodeTaints") or [], list[Taint], f"{where}: nodeTaints"),
        _as(spec.get("tolerations") or [], list[Toleration], f"{where}: tolerations"),
    )


# --------------------------------------------------------------------------------------------------------------------
# Workloads


def put_workload(read: Queues, obj: Plain, namespaces: Mapping[str, Mapping[str, str]]) -> Workload | None:
    """Read a Workload and add it to those with quota, or to the pending ones. None: it is finished."""
    spec, status = _spec(obj), obj.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    key, metadata = _key(obj), obj["metadata"]
    if _is_true(conditions, "Finished") or not spec.get("active", True):
        return None
    admission = status.get("admission")
    local = f"{metadata.get('namespace')}/{spec.get('queueName', '')}"
    queue = str(admission["clusterQueue"]) if admission else read.local.get(local, "")
    workload = Workload(
        key=key,
        uid=str(metadata.get("uid", "")),
        queue=queue,
        priority=int(spec.get("priority") or 0),
        created=parse_time(metadata.get("creationTimestamp") or "") or 0.0,
        pod_sets=[pod_set_of(each, f"Workload {key}") for each in spec.get("podSets") or ()],
        local_queue=local,
    )
    read.workloads[key] = workload
    if queue not in read.quotas.queues:
        read.problems[key] = f"ClusterQueue {queue} doesn't exist" if queue else f"LocalQueue {local} doesn't exist"
    elif admission and _is_true(conditions, "QuotaReserved"):
        workload.assignment = _assignment(admission, workload)
        workload.reserved = parse_time(conditions["QuotaReserved"].get("lastTransitionTime") or "") or 0.0
        workload.is_evicted = _is_true(conditions, "Evicted")
        read.quotas.restore(workload)
    elif not _lets_in(read.quotas.queues[queue], namespaces.get(str(metadata.get("namespace")), {})):
        read.problems[key] = f"Workload namespace doesn't match ClusterQueue {queue}'s selector"
    else:
        read.quotas.submit(workload)
    return workload


def pod_set_of(obj: Plain, where: str) -> PodSet:
    """Return a pod set with the requests of all its pods."""
    name, count = str(obj.get("name") or "main"), int(obj.get("count") or 0)
    template = obj.get("template") or {}
    try:
        pod = from_plain(Pod, {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}})
        requests = {name: rounded(name, amount) * count for name, amount in pod_requests(pod).items()}
    except ParseError as error:
        raise InputError(f"{where}: pod set {name}: {error}") from None
    except InputError as error:
        raise InputError(f"{where}: pod set {name}: {str(error).partition(': ')[2]}") from None  # the pod has no name
    return PodSet(name, count, requests, pod.spec)


def _assignment(admission: Plain, workload: Workload) -> Assignment:
    """Return the quota that an admitted workload holds, from its status."""
    flavors: list[Mapping[str, str]] = []
    usage: dict[FlavorResource, int] = {}
    by_name = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    for each in admission.get("podSetAssignments") or ():
        chosen = {str(name): str(flavor) for name, flavor in (each.get("flavors") or {}).items()}
        said = each.get("resourceUsage") or {}
        pod_set = by_name.get(str(each.get("name") or "main"))
        for name, flavor in chosen.items():
            if name in said:
                amount = _amount(name, said[name], f"Workload {workload.key}: admission: {name}")
            elif pod_set is not None:
                amount = pod_set.count if name == PODS else pod_set.requests.get(name, 0)
            else:
                amount = 0
            usage[flavor, name] = usage.get((flavor, name), 0) + amount
        flavors.append(chosen)
    return Assignment(flavors, usage)


def _lets_in(queue: ClusterQueue, labels: Mapping[str, str]) -> bool:
    """Match a namespace: without a selector a ClusterQueue takes workloads of none; an empty one takes all."""
    return queue.namespaces is not None and compile_selector(queue.namespaces).matches(dict(labels))


def _is_true(conditions: Mapping[Any, Plain], type_: str) -> bool:
    return bool(conditions.get(type_, {}).get("status") == "True")


def _as(value: Any, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}") from None


def _spec(obj: Plain) -> Plain:
    return obj.get("spec") or {}


def _name(obj: Plain) -> str:
    return str(obj["metadata"]["name"])


def _key(obj: Plain) -> str:
    return f"{obj['metadata'].get('namespace') or 'default'}/{_name(obj)}"
