"""The pods that a plan must place: pending ones, or those of manifests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mooring.api import yaml
from mooring.api.core import Node, NodeSpec, NodeStatus, Pod, Taint
from mooring.api.errors import InputError, ParseError, warn
from mooring.api.manifests import SUFFIXES, read_bytes
from mooring.api.meta import ObjectMeta, Struct
from mooring.api.quantity import parse_quantity
from mooring.api.selectors import first_untolerated
from mooring.api.well_known import HOSTNAME, INSTANCE_TYPE, ZONE
from mooring.ask.asked_pod import AskedPod, find_pod
from mooring.ask.copies import Copies, node_kinds, on_node
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster, read_manifests
from mooring.core.session import Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_selector import NodeRequirements
from mooring.core.state.pod_info import PodInfo
from mooring.sim.catalogue import ON_DEMAND, SPOT, Catalogue, InstanceType


def waiting_pods(cluster: Cluster, session: Session) -> list[PodInfo]:
    """Return the cluster's pending pods that no gate holds back."""
    return [session.info(pod) for pod in cluster.pending if not pod.spec.scheduling_gates]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Pods to be placed, and pods that DaemonSets create for every node, not tied to one yet."""

    pods: list[PodInfo] = field(default_factory=list)
    daemons: list[Pod] = field(default_factory=list)


def pods_of(pods: Mapping[str, int | None], scheduler: Scheduler, session: Session) -> Wanted:
    """Return copies of these pods; without a number, as many as the manifests' workloads have replicas.

    A name is a pod of the cluster, a file or a directory. All pods and workloads of a file are included, and its other
    objects are created.
    """
    wanted = Wanted()
    for name, number in pods.items():
        if not os.path.exists(name) and not name.endswith(SUFFIXES):
            wanted.pods.extend(_copies(find_pod(name, scheduler.cluster), number or 1, session))
            continue
        found = read_manifests([name], scheduler.cluster.context())
        warn(found.unknown_notes)
        others = [obj for obj in found.objects if not isinstance(obj, Pod)]
        cluster = scheduler.cluster.fork().take_over(others)  # for their classes
        for obj in others:
            session.state.put(obj)
        made = [(find_pod(workload, cluster), workload) for _, workload in found.workloads]
        if not made and not any(found.of(Pod)):
            raise InputError(f"{name}: expected pods or workloads that make pods; {found.ignored_note or 'found none'}")
        for pod in found.of(Pod):
            wanted.pods.extend(_copies(find_pod(pod, cluster), number or 1, session))
        for asked, workload in made:
            if workload["kind"] == "DaemonSet":
                wanted.daemons.append(asked.pod)
            else:
                replicas = _replicas(workload) if number is None else number
                wanted.pods.extend(_copies(asked, replicas, session))
    return wanted


def _copies(asked: AskedPod, number: int, session: Session) -> Iterator[PodInfo]:
    for obj in asked.others:
        session.state.put(obj)
    copies = Copies(asked.pod, session.state)
    return (copies.next() for _ in range(number))


def _replicas(workload: Mapping[str, Any]) -> int:
    spec = workload.get("spec") or {}
    if workload["kind"] == "CronJob":
        spec = ((spec.get("jobTemplate") or {}).get("spec")) or {}
    number = spec.get("parallelism" if "Job" in workload["kind"] else "replicas")
    return 1 if number is None else int(number)


def in_queue_order(session: Session, pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Sort as the queue would, if all had arrived together."""

    def key(pod: PodInfo) -> Any:
        return session.profile_for(pod.pod).queue_sort[0].sort_key(pod.priority, 0.0)

    return sorted(pods, key=key)


def groups_of(pods: Iterable[PodInfo]) -> list[list[PodInfo]]:
    """Group pods that differ only in their names."""
    found: dict[tuple[int, int], list[PodInfo]] = {}
    for pod in pods:
        found.setdefault((pod.shape.id, pod.cls.id), []).append(pod)
    return list(found.values())


# --------------------------------------------------------------------------------------------------------------------
# Types of nodes to buy: a file with prices and limits, or the kinds of nodes in a cluster.

_DEFAULT_LABELS = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
_MUST_HAVE = "expected a list of types, each with name, price, and allocatable or like"


class NodeType(Struct, forbid_unknown_fields=True):
    """An entry of the file. ``like`` names a node of the cluster that provides unset fields."""

    name: str
    price: float
    max: int | None = None  # number available in all zones together; None: unlimited
    zones: list[str] = []  # available zones; each becomes the zone label
    like: str = ""
    allocatable: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    taints: list[Taint] = []


class _TypesFile(Struct, forbid_unknown_fields=True):
    types: list[NodeType]


@dataclass(frozen=True, slots=True)
class Variant:
    """A type in a zone: a new node except for its name."""

    name: str
    type: str
    zone: str
    price: float
    max: int | None  # of the type, whatever the zone
    node: Node

    def named(self, number: int) -> Node:
        """The node with this number."""
        node = deepcopy(self.node)
        node.metadata.name = f"new-{self.name}-{number}"
        node.metadata.uid = f"node:{node.name}"
        node.metadata.labels = {**self.node.labels, HOSTNAME: node.name}
        return node


def read_types(source: str | Path | Mapping[str, Any], cluster: ClusterState) -> list[Variant]:
    """Return the variants of a file (or of a dict); raise InputError with the place of a mistake."""
    where = "types" if isinstance(source, Mapping) else str(source)
    if not isinstance(source, Mapping):
        source = yaml.load(read_bytes(Path(source)), where)
    try:
        types = msgspec.convert(source, _TypesFile, strict=False).types
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}; {_MUST_HAVE}") from None
    if not types:
        raise InputError(f"{where}: no types; {_MUST_HAVE}")
    seen: set[str] = set()
    variants: list[Variant] = []
    for i, each in enumerate(types):
        place = f"{where}: types[{i}]"
        if each.name in seen:
            raise InputError(f"{place}.name: {each.name!r} occurs twice; type names must be unique")
        seen.add(each.name)
        variants += _variants(each, cluster, place)
    return variants


def types_of_catalogue(
    catalogue: Catalogue, cluster: ClusterState, zones: Iterable[str] = (), *, spot: bool = False
) -> list[Variant]:
    """The variants of a catalogue, on demand and, if asked for, as spot nodes.

    A row without a zone is in each of ``zones``; without these, in the zones of the cluster and of the other rows.
    """
    named = {row.zone for row in catalogue if row.zone}
    known = {info.labels[ZONE] for info in cluster.nodes().infos if ZONE in info.labels}
    wanted = set(zones) or known | named or {""}
    for zone in sorted(wanted - named) if all(row.zone for row in catalogue) else ():
        if zone in zones:
            raise InputError(f"{catalogue.source}: no type in zone {zone!r}; the zones are {', '.join(sorted(named))}")
    found = []
    for row in catalogue:
        for zone in sorted(wanted & {row.zone} if row.zone else wanted):
            if catalogue.find(row.type, zone) is not row:
                continue  # the zone has a row of its own
            for capacity_type in (ON_DEMAND, SPOT) if spot else (ON_DEMAND,):
                price = row.price_as(capacity_type)
                if price is not None:
                    found.append(_bought(row, zone, capacity_type, price))
    return found


def _bought(row: InstanceType, zone: str, capacity_type: str, price: float) -> Variant:
    labels = {**_DEFAULT_LABELS, **row.labels(zone, capacity_type)}
    node = Node(metadata=ObjectMeta(labels=labels), spec=NodeSpec(), status=NodeStatus())
    node.status.allocatable = dict(row.allocatable)
    node.status.capacity = dict(row.allocatable)
    type_ = row.type if capacity_type == ON_DEMAND else f"{row.type} ({capacity_type})"
    name = "-".join(filter(None, (row.type, zone, capacity_type if capacity_type == SPOT else "")))
    return Variant(name, type_, zone, price, None, node)


def types_of_cluster(session: Session, pods: Iterable[PodInfo]) -> list[Variant]:
    """Return the kinds of nodes in the cluster, as these pods distinguish them, each at a price of 1."""
    found: list[Variant] = []
    for kind in node_kinds(session, pods):
        name = "-".join("".join(c if c.isalnum() else " " for c in kind.name.lower()).split())
        if any(each.name == name for each in found):
            name = f"{name}-kind{len(found)}"
        zone = kind.like.labels.get(ZONE, "")
        found.append(Variant(name, kind.name, zone, 1.0, None, _as_template(kind.like)))
    if not found:
        raise InputError("the cluster has no node that takes pods, so there is no kind to add; expected types of nodes")
    return found


def _variants(each: NodeType, cluster: ClusterState, place: str) -> Iterator[Variant]:
    if each.price < 0 or (each.max is not None and each.max < 0):
        raise InputError(f"{place}: price {each.price:g}, max {each.max}; expected 0 or more")
    for name, text in each.allocatable.items():
        try:
            parse_quantity(text)
        except ParseError as error:
            raise InputError(f"{place}.allocatable[{name}]: {error}") from None
    template = _template(each, cluster, place)
    for zone in each.zones or [""]:
        node = deepcopy(template)
        if zone:
            node.metadata.labels = {**node.labels, ZONE: zone}
        name = f"{each.name}-{zone}" if zone else each.name
        yield Variant(name, each.name, zone or node.labels.get(ZONE, ""), each.price, each.max, node)


def _template(each: NodeType, cluster: ClusterState, place: str) -> Node:
    if each.like:
        info = cluster.table.nodes.get(each.like)
        if info is None or info.node is None:
            raise InputError(f"{place}.like: there is no node {each.like!r} in the cluster")
        node = _as_template(info.node)
    elif each.allocatable:
        node = Node(metadata=ObjectMeta(labels=dict(_DEFAULT_LABELS)), spec=NodeSpec(), status=NodeStatus())
    else:
        raise InputError(f"{place}: neither allocatable nor like; {_MUST_HAVE}")
    node.status.allocatable = {"pods": "110", **node.status.allocatable, **each.allocatable}
    node.status.capacity = dict(node.status.allocatable)
    node.metadata.labels = {**node.labels, INSTANCE_TYPE: each.name, **each.labels}
    node.spec.taints = [*node.spec.taints, *each.taints]
    return node


def _as_template(node: Node) -> Node:
    fresh = deepcopy(node)
    fresh.spec.unschedulable = False
    fresh.status.images = []
    return fresh


# --------------------------------------------------------------------------------------------------------------------
# The pods that DaemonSets create on a new node, derived from those that run elsewhere.


class Daemons:
    """One pod of each DaemonSet, as its controller would create it for any node."""

    def __init__(self, cluster: ClusterState, more: Iterable[Pod] = ()) -> None:
        """``more`` are further pods of DaemonSets."""
        found: dict[str, Pod] = {}
        for info in cluster.pods():
            owner = info.pod.metadata.controller()
            if owner is not None and owner.kind == "DaemonSet" and not info.pod.is_terminating:
                found.setdefault(owner.uid or f"{info.pod.namespace}/{owner.name}", info.pod)
        self._pods = [*(_untied(pod) for pod in found.values()), *more]

    def on(self, node: Node) -> Iterator[Pod]:
        """Yield the pods that run on this node, by its labels and taints."""
        for pod in self._pods:
            is_wanted = NodeRequirements(pod.spec).matches(node.name, node.labels)
            if is_wanted and first_untolerated(node.spec.taints, pod.spec.tolerations) is None:
                yield on_node(pod, node.name)


def _untied(pod: Pod) -> Pod:
    """Return the pod without the affinity that ties it to its node."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None or affinity.node_affinity.required is None:
        return pod
    free = copy(pod)
    free.spec = copy(pod.spec)
    free.spec.affinity = deepcopy(affinity)
    assert free.spec.affinity is not None and free.spec.affinity.node_affinity is not None
    required = free.spec.affinity.node_affinity.required
    assert required is not None
    for term in required.node_selector_terms:
        term.match_fields = []
    if not any(term.match_expressions for term in required.node_selector_terms):
        free.spec.affinity.node_affinity.required = None
    return free


def add_node(cluster: ClusterState, node: Node, daemons: Daemons) -> None:
    """Add a new node with its DaemonSets' pods."""
    cluster.set_node(node)
    for pod in daemons.on(node):
        cluster.set_pod(pod)
