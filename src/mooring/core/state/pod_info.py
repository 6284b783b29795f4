"""Scheduling data of pods: the requests of their template, and their identity.

Pods of one template share a :class:`PodShape` (everything derived from the spec) and, with equal labels, a
:class:`PodClass` (which selectors match it). Values derived from a shape are computed once for all pods that share it.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import msgspec

from mooring.api.core import Pod, PodAffinity, PodAffinityTerm, PodSpec, Volume, WeightedPodAffinityTerm
from mooring.api.errors import ParseError
from mooring.api.selectors import Selector, compile_selector
from mooring.core.state.requests import (
    NON_ZERO,
    Amounts,
    is_scalar_name,
    is_sidecar,
    non_zero_requests,
    pod_requests,
    rounded,
    rounded_requests,
)

_encode = msgspec.json.Encoder().encode
HostPort = tuple[str, str, int]  # ip, protocol, port
MAX_PLACEMENTS = 65536


class AffinityTerm(msgspec.Struct, frozen=True):
    """One compiled pod (anti-)affinity term; equal terms are one value."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Report whether the term matches a pod with these labels in this namespace."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class WeightedTerm(msgspec.Struct, frozen=True):
    weight: int
    term: AffinityTerm


class AffinityTerms(msgspec.Struct, frozen=True):
    """All four kinds of terms of one pod."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedTerm, ...] = ()


NO_TERMS = AffinityTerms()


def compile_term(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    """Compile a term; without namespaces it applies to the pod's own."""
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((namespace,))
    return AffinityTerm(
        term.topology_key,
        compile_selector(term.label_selector),
        namespaces,
        compile_selector(term.namespace_selector),
    )


def _weighted(terms: list[WeightedPodAffinityTerm], namespace: str) -> tuple[WeightedTerm, ...]:
    return tuple(WeightedTerm(t.weight, compile_term(t.pod_affinity_term, namespace)) for t in terms)


def normalized_image(name: str) -> str:
    """Append ``:latest`` to a name without a tag, as node status lists it."""
    return name if name.rfind(":") > name.rfind("/") else name + ":latest"


class PodShape:
    """Everything derived from a pod's spec alone; equal specs share one shape."""

    _ids: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(self, pod: Pod, placement_id: int = 0, *, whole_resizes: bool = False) -> None:
        self.id = next(self._ids)
        self._whole_resizes = whole_resizes
        # Shared by shapes that differ only in volumes and claims: what decides about labels, taints, ports, resources.
        self.placement_id = placement_id or self.id
        self.spec: PodSpec = pod.spec
        self.problem = ""
        self._pod = pod
        self._terms: dict[str, AffinityTerms] = {}
        self.kept: dict[object, Any] = {}  # derived values, by key
        amounts: Amounts = {}
        non_zero = (0, 0)
        try:
            amounts = pod_requests(pod, whole_resizes=whole_resizes)
            non_zero = non_zero_requests(pod, amounts, whole_resizes=whole_resizes)
        except ParseError as error:
            self.problem = str(error)
        self.requests = rounded_requests(amounts)
        self.non_zero_cpu, self.non_zero_memory = non_zero
        self.host_ports = _host_ports(pod.spec)
        affinity = pod.spec.affinity
        self.has_pod_affinity = affinity is not None and (
            affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
        )

    @cached_property
    def scalar_requests(self) -> dict[str, int]:
        """Requests besides cpu, memory and ephemeral storage."""
        return {name: amount for name, amount in self.requests.items() if is_scalar_name(name) and amount}

    @cached_property
    def volumes(self) -> tuple[Volume, ...]:
        """Volumes that some plugin reads."""
        return tuple(volume for volume in self.spec.volumes if volume.is_relevant())

    @cached_property
    def claim_names(self) -> tuple[str, ...]:
        """Names of directly referenced claims, without ephemeral ones."""
        found = (volume.persistent_volume_claim for volume in self.volumes)
        return tuple(claim.claim_name for claim in found if claim is not None)

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Normalised image names: init containers, containers, image volumes."""
        spec = self.spec
        names = [container.image for container in (*spec.init_containers, *spec.containers)]
        names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
        return tuple(normalized_image(name) for name in names)

    @cached_property
    def _scored(self) -> Amounts:
        """Requests for scoring: with defaults per container, ignoring pod-level requests."""
        if self.problem:
            return {}
        return pod_requests(self._pod, NON_ZERO, pod_level=False, whole_resizes=self._whole_resizes)

    def scored_request(self, name: str) -> int:
        amount = self._scored.get(name)
        return 0 if amount is None else rounded(name, amount)

    @cached_property
    def signed_tolerations(self) -> tuple[bytes, ...]:
        return tuple(_encode(t) for t in sorted(self.spec.tolerations, key=lambda t: (t.key, t.value)))

    @cached_property
    def signed_node_affinity(self) -> bytes:
        affinity = self.spec.affinity
        return _encode((self.spec.node_selector, None if affinity is None else affinity.node_affinity))

    def signed_volumes(self, spec: PodSpec) -> tuple[bytes, ...]:
        """Return every volume but ConfigMaps and Secrets: the volume plugins' part of a signature."""
        return tuple(_encode(v) for v in spec.volumes if v.config_map is None and v.secret is None)

    def terms(self, namespace: str) -> AffinityTerms:
        """The compiled (anti-)affinity terms; raises ParseError for a selector that does not compile."""
        if not self.has_pod_affinity:
            return NO_TERMS
        terms = self._terms.get(namespace)
        if terms is None:
            affinity = self.spec.affinity
            assert affinity is not None
            wanted, unwanted = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()
            terms = self._terms[namespace] = AffinityTerms(
                tuple(compile_term(term, namespace) for term in wanted.required),
                tuple(compile_term(term, namespace) for term in unwanted.required),
                _weighted(wanted.preferred, namespace),
                _weighted(unwanted.preferred, namespace),
            )
        return terms


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of containers and sidecars; plain init containers do not count."""
    sidecars = (container for container in spec.init_containers if is_sidecar(container))
    return tuple(
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in (*spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )


class PodClass:
    """A namespace and a set of labels: all that pod selectors read."""

    __slots__ = ("__weakref__", "id", "labels", "namespace", "terminating")

    _ids: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(self, namespace: str, labels: dict[str, str], terminating: bool) -> None:
        self.id = next(self._ids)
        self.namespace = namespace
        self.labels = labels
        self.terminating = terminating


class PodInfo:
    """A pod with its shape and class."""

    __slots__ = ("annotated", "cls", "pod", "priority", "shape", "terms", "uid")

    def __init__(self, pod: Pod, shape: PodShape, cls: PodClass) -> None:
        self.pod = pod
        self.shape = shape
        self.cls = cls
        self.uid = pod.metadata.uid
        self.priority = pod.spec.priority or 0
        self.terms: AffinityTerms = NO_TERMS  # set when it is counted on a node
        self.annotated: tuple[Mapping[str, str], Any] | None = None  # annotations, and what was last parsed from them

    def __repr__(self) -> str:
        return f"PodInfo({self.pod.key})"


class PodInterner:
    """Creates and shares shapes and classes; drops unused ones."""

    def __init__(self, *, whole_resizes: bool = False) -> None:
        """``whole_resizes``: see :func:`mooring.core.state.requests.pod_requests`."""
        self.whole_resizes = whole_resizes
        self._shapes: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        # By the identity of the containers that the shape holds: pods of a workload, a record or a dump share them. The
        # shape keeps the list alive, so its id cannot be reused as long as the entry is here.
        self._by_containers: WeakValueDictionary[int, PodShape] = WeakValueDictionary()
        self._placements: OrderedDict[bytes, int] = OrderedDict()
        self._placement_ids = itertools.count(1)
        self._classes: WeakValueDictionary[tuple[str, tuple[tuple[str, str], ...], bool], PodClass] = (
            WeakValueDictionary()
        )
        self._by_labels: WeakValueDictionary[int, PodClass] = WeakValueDictionary()  # by the identity of the labels

    def info(self, pod: Pod) -> PodInfo:
        return PodInfo(pod, self.shape(pod), self.pod_class(pod))

    def info_like(self, known: PodInfo, pod: Pod) -> PodInfo:
        """Return the info for another version of a known pod, which mostly differs elsewhere."""
        is_alike = _are_one(known.pod.spec, pod.spec) and not (is_resized(pod) or is_resized(known.pod))
        shape = known.shape if is_alike else self.shape(pod)
        old, new = known.pod.metadata, pod.metadata
        is_alike = (
            old.labels is new.labels
            and old.namespace == new.namespace
            and (old.deletion_timestamp is None) == (new.deletion_timestamp is None)
        )
        return PodInfo(pod, shape, known.cls if is_alike else self.pod_class(pod))

    def shape(self, pod: Pod) -> PodShape:
        is_whole = not is_resized(pod)
        shape = self._by_containers.get(id(pod.spec.containers)) if is_whole else None
        if shape is not None and (shape.spec is pod.spec or _are_one(shape.spec, pod.spec)):
            return shape
        key = _shape_key(pod)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = PodShape(pod, self._placement_id(pod), whole_resizes=self.whole_resizes)
            if is_whole:
                self._by_containers[id(pod.spec.containers)] = shape
        elif shape.spec is not pod.spec:
            _share(pod.spec, shape.spec)
        return shape

    def _placement_id(self, pod: Pod) -> int:
        key = _shape_key(pod, with_volumes=False)
        found = self._placements.get(key)
        if found is None:
            found = self._placements[key] = next(self._placement_ids)
            if len(self._placements) > MAX_PLACEMENTS:
                self._placements.popitem(last=False)
        return found

    def pod_class(self, pod: Pod) -> PodClass:
        meta = pod.metadata
        return self.labels_class(meta.namespace, meta.labels, meta.deletion_timestamp is not None)

    def labels_class(self, namespace: str, labels: dict[str, str], terminating: bool = False) -> PodClass:
        cls = self._by_labels.get(id(labels))
        if cls is not None and cls.namespace == namespace and cls.terminating == terminating:
            return cls
        key = (namespace, tuple(sorted(labels.items())), terminating)
        cls = self._classes.get(key)
        if cls is None:
            cls = self._classes[key] = self._by_labels[id(labels)] = PodClass(namespace, labels, terminating)
        return cls


def _share(spec: PodSpec, like: PodSpec) -> None:
    """Share the parts of an equal spec, so that a thousand replicas hold one copy."""
    spec.containers = like.containers
    spec.init_containers = like.init_containers
    spec.affinity = like.affinity
    spec.tolerations = like.tolerations
    spec.topology_spread_constraints = like.topology_spread_constraints
    spec.node_selector = like.node_selector
    spec.overhead = like.overhead
    spec.resources = like.resources
    spec.resource_claims = like.resource_claims
    if spec.volumes == like.volumes:  # irrelevant ones may differ
        spec.volumes = like.volumes


def _are_one(one: PodSpec, other: PodSpec) -> bool:
    """Report whether two specs consist of the same objects, as far as a shape depends on them."""
    return (
        one.containers is other.containers
        and one.init_containers is other.init_containers
        and one.node_selector is other.node_selector
        and one.affinity is other.affinity
        and one.tolerations is other.tolerations
        and one.topology_spread_constraints is other.topology_spread_constraints
        and one.overhead is other.overhead
        and one.resources is other.resources
        and one.volumes is other.volumes
        and one.resource_claims is other.resource_claims
        and one.host_network == other.host_network
        and one.host_users == other.host_users
    )


def is_resized(pod: Pod) -> bool:
    """Report whether the status has the pod's allocated resources; then requests depend on it."""
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return status.resources is not None
    statuses = (*status.container_statuses, *status.init_container_statuses)
    return status.resources is not None or any(s.resources is not None or s.allocated_resources for s in statuses)


def _shape_key(pod: Pod, *, with_volumes: bool = True) -> bytes:
    """Serialise what a shape depends on. Irrelevant volumes are left out: each pod names its own token volume."""
    spec, status = pod.spec, pod.status
    resized: tuple[object, ...] = ()
    if is_resized(pod):
        resized = (
            [s for s in status.container_statuses if s.resources is not None or s.allocated_resources],
            [s for s in status.init_container_statuses if s.resources is not None or s.allocated_resources],
            status.resources,
            status.allocated_resources,
            [c.reason for c in status.conditions if c.type == "PodResizePending"],
        )
    return _encode(
        (
            spec.containers,
            spec.init_containers,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.overhead,
            spec.resources,
            [volume for volume in spec.volumes if volume.is_relevant()] if with_volumes else (),
            spec.resource_claims if with_volumes else (),
            spec.host_network,
            spec.host_users,
            resized,
        )
    )
