"""Types of nodes that can be bought: a file with prices and limits, or the kinds that a cluster has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mooring.api import yaml
from mooring.api.core import Node, NodeSpec, NodeStatus, Taint
from mooring.api.meta import ObjectMeta, Struct
from mooring.api.quantity import parse_quantity
from mooring.api.well_known import HOSTNAME, ZONE
from mooring.errors import InputError, ParseError
from mooring.state.cluster import Cluster
from mooring.whatif.node_kinds import INSTANCE_TYPE, node_kinds

_DEFAULT_LABELS = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
_MUST_HAVE = "expected a list of types, each with name, price, and allocatable or like"


class NodeType(Struct, forbid_unknown_fields=True):
    """An entry of the file. ``like`` names a node of the cluster to take over what is not said here."""

    name: str
    price: float
    max: int | None = None  # how many can be had, in all zones together; None: as many as needed
    zones: list[str] = []  # in which it can be had; each becomes the zone label
    like: str = ""
    allocatable: dict[str, str | int] = {}
    labels: dict[str, str] = {}
    taints: list[Taint] = []


class _File(Struct, forbid_unknown_fields=True):
    types: list[NodeType]


@dataclass(frozen=True, slots=True)
class Variant:
    """A type in a zone: a node as it would come, but for its name."""

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


def read_types(source: str | Path | Mapping[str, Any], cluster: Cluster) -> list[Variant]:
    """The variants of a file (or of the same as a dict), or InputError with the place of the mistake."""
    where = "types" if isinstance(source, Mapping) else str(source)
    if not isinstance(source, Mapping):
        try:
            source = yaml.load(Path(source).read_bytes(), where)
        except OSError as error:
            raise InputError(f"{where}: {(error.strerror or str(error)).lower()}") from None
    try:
        types = msgspec.convert(source, _File, strict=False).types
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}; {_MUST_HAVE}") from None
    if not types:
        raise InputError(f"{where}: no types; {_MUST_HAVE}")
    seen: set[str] = set()
    variants: list[Variant] = []
    for i, each in enumerate(types):
        place = f"{where}: types[{i}]"
        if each.name in seen:
            raise InputError(f"{place}.name: {each.name!r} is there twice; each type needs a name of its own")
        seen.add(each.name)
        variants += _variants(each, cluster, place)
    return variants


def types_of_cluster(cluster: Cluster) -> list[Variant]:
    """The kinds of nodes that the cluster has, each at a price of 1."""
    found = []
    for kind in node_kinds(cluster):
        name = "-".join("".join(c if c.isalnum() else " " for c in kind.name.lower()).split())
        zone = kind.like.labels.get(ZONE, "")
        found.append(Variant(name, kind.name, zone, 1.0, None, _as_template(kind.like)))
    if not found:
        raise InputError("the cluster has no node that takes pods, so there is no kind to add; --types names types")
    return found


def _variants(each: NodeType, cluster: Cluster, place: str) -> Iterator[Variant]:
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


def _template(each: NodeType, cluster: Cluster, place: str) -> Node:
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
