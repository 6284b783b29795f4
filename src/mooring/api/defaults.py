"""Defaults and admission of an API server, for objects that come from a file instead of a cluster.

A hand-written manifest leaves out what the API server would add before any scheduler sees it. Everything here can be
done twice without harm, so that a dump of a real cluster passes unchanged; what only admission does (priority, runtime
class, default storage class, default tolerations) is left alone in objects that a server has stored already. No node
label is invented: a node without ``kubernetes.io/hostname`` has none on a cluster either, until its kubelet says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from mooring.api.budgets import default_budget
from mooring.api.core import (
    Container,
    Namespace,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    ResourceList,
    Toleration,
    TopologySpreadConstraint,
)
from mooring.api.errors import InputError
from mooring.api.meta import LabelSelector, LabelSelectorRequirement, Object
from mooring.api.quantity import parse_quantity
from mooring.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.api.well_known import NOT_READY, UNREACHABLE
from mooring.api.workloads import PodDisruptionBudget, PriorityClass, RuntimeClass

DEFAULT_SCHEDULER_NAME = "default-scheduler"
CLUSTER_SCOPED: tuple[type[Object], ...] = (
    Namespace,
    Node,
    PersistentVolume,
    StorageClass,
    CSINode,
    CSIDriver,
    VolumeAttachment,
    PriorityClass,
    RuntimeClass,
    DeviceClass,
    ResourceSlice,
)
# Every cluster has these two.
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
NOT_READY_KEYS = (NOT_READY, UNREACHABLE)
IS_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


def is_stored(obj: Object) -> bool:
    """Report whether an API server has stored this object: it stamps what it stores."""
    return bool(obj.metadata.resource_version or obj.metadata.creation_timestamp)


def set_defaults(objects: Sequence[Object], context: Iterable[Object] = ()) -> None:
    """Complete these objects in place. Admission looks up classes among them and in ``context``."""
    admission = Admission([*context, *objects])
    for obj in objects:
        set_default_meta(obj)
    for obj in objects:
        match obj:
            case Pod():
                admission.admit_pod(obj)
            case Node():
                if not obj.status.allocatable:
                    obj.status.allocatable = dict(obj.status.capacity)
            case PersistentVolumeClaim():
                admission.admit_claim(obj)
            case PersistentVolume():
                obj.spec.volume_mode = obj.spec.volume_mode or "Filesystem"
                if not obj.status.phase:
                    obj.status.phase = "Available" if obj.spec.claim_ref is None else "Bound"
            case StorageClass():
                obj.volume_binding_mode = obj.volume_binding_mode or "Immediate"
            case CSIDriver():
                if obj.spec.attach_required is None:
                    obj.spec.attach_required = True
            case ResourceClaim():
                _default_device_requests(obj)
    budgets = [obj for obj in objects if isinstance(obj, PodDisruptionBudget) and not is_stored(obj)]
    if budgets:
        pods = [obj for obj in (*context, *objects) if isinstance(obj, Pod)]
        for budget in budgets:
            default_budget(budget, pods)


def set_default_meta(obj: Object) -> None:
    """Set the namespace, the name and the uid that a server would assign."""
    meta = obj.metadata
    if isinstance(obj, CLUSTER_SCOPED):
        meta.namespace = ""
    elif not meta.namespace:
        meta.namespace = "default"
    if not meta.name and meta.generate_name:
        meta.name = meta.generate_name + "xxxxx"
    if not meta.uid:
        meta.uid = f"{type(obj).__name__.lower()}:{obj.key}"


class Admission:
    """The classes that admission reads, and their effects."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._priorities: dict[str, PriorityClass] = {}
        self._runtimes: dict[str, RuntimeClass] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        default_classes: list[StorageClass] = []
        for obj in objects:
            match obj:
                case PriorityClass():
                    self._priorities[obj.name] = obj
                case RuntimeClass():
                    self._runtimes[obj.name] = obj
                case PersistentVolume():
                    self._volumes[obj.name] = obj
                case StorageClass() if any(obj.metadata.annotations.get(key) == "true" for key in IS_DEFAULT_CLASS):
                    default_classes.append(obj)
        # The youngest default wins; among equals the first by name.
        default_classes.sort(key=lambda found: found.name)
        default_classes.sort(key=lambda found: found.metadata.creation_timestamp or "", reverse=True)
        self._default_class = default_classes[0].name if default_classes else None
        by_value = sorted((c for c in self._priorities.values() if c.global_default), key=lambda c: c.value)
        self._default_priority = by_value[0] if by_value else None

    # ---- pods --------------------------------------------------------------------------------------------------

    def admit_pod(self, pod: Pod) -> None:
        spec = pod.spec
        spec.scheduler_name = spec.scheduler_name or DEFAULT_SCHEDULER_NAME
        for container in (*spec.init_containers, *spec.containers):
            _default_container(container, spec.host_network)
        if not is_stored(pod):
            self._set_priority(pod)
            self._apply_runtime_class(pod)
            _tolerate_for_a_while(spec.tolerations)
        _default_pod_requests(pod)
        _merge_label_keys(pod)

    def _set_priority(self, pod: Pod) -> None:
        spec = pod.spec
        name = spec.priority_class_name
        if spec.priority is None and name in SYSTEM_PRIORITIES:
            spec.priority = SYSTEM_PRIORITIES[name]
        if spec.priority is not None and name not in self._priorities:
            return
        if name:
            found = self._priorities.get(name)
            if found is None:
                known = ", ".join(sorted({*self._priorities, *SYSTEM_PRIORITIES}))
                raise InputError(
                    f"Pod {pod.key}: spec.priorityClassName: no PriorityClass with name {name} was found; "
                    f"there are {known}"
                )
        else:
            found = self._default_priority
        if found is None:
            spec.priority = 0
            return
        if spec.priority is None:
            spec.priority = found.value
        spec.priority_class_name = found.name
        spec.preemption_policy = spec.preemption_policy or found.preemption_policy

    def _apply_runtime_class(self, pod: Pod) -> None:
        """Apply the runtime class; an unknown one has no effect."""
        spec = pod.spec
        found = self._runtimes.get(spec.runtime_class_name or "")
        if found is None:
            return
        if found.overhead is not None and not spec.overhead:
            spec.overhead = dict(found.overhead.pod_fixed)
        if found.scheduling is None:
            return
        for key, value in found.scheduling.node_selector.items():
            spec.node_selector = {} if spec.node_selector is None else spec.node_selector
            if spec.node_selector.setdefault(key, value) != value:
                raise InputError(
                    f"Pod {pod.key}: spec.nodeSelector[{key}]: {spec.node_selector[key]!r} contradicts {value!r} of "
                    f"RuntimeClass {found.name}"
                )
        spec.tolerations += [t for t in found.scheduling.tolerations if t not in spec.tolerations]

    # ---- claims ------------------------------------------------------------------------------------------------

    def admit_claim(self, claim: PersistentVolumeClaim) -> None:
        spec = claim.spec
        spec.volume_mode = spec.volume_mode or "Filesystem"
        if is_stored(claim):
            return
        if spec.storage_class_name is None and BETA_STORAGE_CLASS not in claim.metadata.annotations:
            spec.storage_class_name = self._default_class
        volume = self._volumes.get(spec.volume_name)
        if volume is not None and _is_for(volume, claim):
            # A claim and a volume that name each other are meant to be bound; the controller would bind them.
            claim.metadata.annotations.setdefault(BIND_COMPLETED, "yes")
            claim.status.phase = claim.status.phase or "Bound"
            reference = volume.spec.claim_ref or ObjectReference(kind="PersistentVolumeClaim", api_version="v1")
            reference.namespace, reference.name = claim.namespace, claim.name
            reference.uid = reference.uid or claim.uid
            volume.spec.claim_ref = reference
            volume.status.phase = "Bound"
        claim.status.phase = claim.status.phase or "Pending"


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref
    return reference is None or (reference.namespace or "default", reference.name) == (claim.namespace, claim.name)


# ---- parts of a pod ----------------------------------------------------------------------------------------------


def _default_container(container: Container, host_network: bool) -> None:
    requirements = container.resources
    for name, amount in requirements.limits.items():
        requirements.requests.setdefault(name, amount)
    for port in container.ports:
        port.protocol = port.protocol or "TCP"
        if host_network and not port.host_port:
            port.host_port = port.container_port


def _default_pod_requests(pod: Pod) -> None:
    """Set pod-level requests if only limits are given: what the containers request, else the limits."""
    resources = pod.spec.resources
    if resources is None or not resources.limits:
        return
    for name, amount in _aggregate(pod, ("cpu", "memory")).items():
        resources.requests.setdefault(name, _written(name, amount))
    for name, limit in resources.limits.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            resources.requests.setdefault(name, limit)


def _written(name: str, amount: Fraction) -> str:
    return f"{amount * 1000}m" if name == "cpu" and (amount * 1000).denominator == 1 else str(int(-(-amount // 1)))


def _aggregate(pod: Pod, names: Sequence[str]) -> dict[str, Fraction]:
    """The sum of containers and sidecars, or the largest init container beside the sidecars before it."""
    found: dict[str, Fraction] = {}
    for name in names:
        if not any(name in c.resources.requests for c in (*pod.spec.containers, *pod.spec.init_containers)):
            continue
        sidecars = peak = Fraction(0)
        for container in pod.spec.init_containers:
            asked = _amount(container.resources.requests, name)
            peak = max(peak, sidecars + asked)
            if container.restart_policy == "Always":
                sidecars += asked
        total = sidecars + sum((_amount(c.resources.requests, name) for c in pod.spec.containers), Fraction(0))
        found[name] = max(total, peak)
    return found


def _amount(amounts: ResourceList, name: str) -> Fraction:
    return parse_quantity(amounts[name]) if name in amounts else Fraction(0)


def _tolerate_for_a_while(tolerations: list[Toleration]) -> None:
    """Add the default tolerations of five minutes for a node that stops responding."""
    for key in NOT_READY_KEYS:
        if not any(t.key in (key, "") and t.effect in ("NoExecute", "") for t in tolerations):
            tolerations.append(Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=300))


def _merge_label_keys(pod: Pod) -> None:
    """Turn matchLabelKeys and mismatchLabelKeys into the selectors they stand for."""
    labels = pod.metadata.labels
    for constraint in pod.spec.topology_spread_constraints:
        _merge(constraint, constraint.match_label_keys, "In", labels)
    affinity = pod.spec.affinity
    if affinity is None:
        return
    for terms in (affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()):
        for term in (*terms.required, *(weighted.pod_affinity_term for weighted in terms.preferred)):
            _merge(term, term.match_label_keys, "In", labels)
            _merge(term, term.mismatch_label_keys, "NotIn", labels)


def _merge(
    term: PodAffinityTerm | TopologySpreadConstraint, keys: list[str], operator: str, labels: dict[str, str]
) -> None:
    selector: LabelSelector | None = term.label_selector
    if selector is None:
        return
    for key in keys:
        if key in labels:
            wanted = LabelSelectorRequirement(key=key, operator=operator, values=[labels[key]])
            if wanted not in selector.match_expressions:
                selector.match_expressions.append(wanted)


def _default_device_requests(claim: ResourceClaim) -> None:
    for request in claim.spec.devices.requests:
        for part in (request.exactly, *request.first_available):
            if part is None:
                continue
            part.allocation_mode = part.allocation_mode or "ExactCount"
            if part.allocation_mode == "ExactCount" and not part.count:
                part.count = 1
