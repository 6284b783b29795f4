"""What can be lost at once: a node, a zone, all nodes with one value of a label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

from mooring.api.core import Node
from mooring.api.well_known import ZONE
from mooring.errors import InputError
from mooring.meant import hint

MAX_LOSSES = 100_000


@dataclass(frozen=True, slots=True)
class Domain:
    """Nodes that are lost together, and what they are called."""

    names: tuple[str, ...]  # of one node, zone or value; of two in a pair
    nodes: tuple[str, ...]


def domains(nodes: list[Node], lose: str, together: int) -> list[Domain]:
    """All domains of this kind, or all pairs of them; or the one node or zone of this name."""
    single = list(_single(nodes, lose))
    if len(single) < together:
        raise InputError(f"there is only {len(single)} to lose; --n {together} needs {together}")
    if comb(len(single), together) > MAX_LOSSES:
        raise InputError(
            f"{comb(len(single), together):,} pairs are too many to try; lose zones or a label with fewer values"
        )
    return [
        Domain(tuple(each.names[0] for each in group), tuple(node for each in group for node in each.nodes))
        for group in combinations(single, together)
    ]


def _single(nodes: list[Node], lose: str) -> Iterator[Domain]:
    names = [node.name for node in nodes]
    if lose == "node":
        return (Domain((name,), (name,)) for name in names)
    if lose == "zone" or lose.startswith("label="):
        key = ZONE if lose == "zone" else lose.removeprefix("label=")
        found = _by_label(nodes, key)
        if not found:
            raise InputError(f"no node has the label {key}; the nodes have {', '.join(_labels(nodes)) or 'none'}")
        return iter(found)
    if lose in names:
        return iter((Domain((lose,), (lose,)),))
    zones = _by_label(nodes, ZONE)
    found = [zone for zone in zones if zone.names == (lose,)]
    if not found:
        known = ["node", "zone", *names, *(zone.names[0] for zone in zones)]
        meant = hint(lose, known, "expected node, zone, label=KEY, or the name of a node or zone")
        raise InputError(f"{lose}: no node or zone of that name; {meant}")
    return iter(found)


def _by_label(nodes: list[Node], key: str) -> list[Domain]:
    """By the label's values, in their order; nodes without the label are lost with none."""
    members: dict[str, list[str]] = {}
    for node in nodes:
        if key in node.labels:
            members.setdefault(node.labels[key], []).append(node.name)
    return [Domain((value,), tuple(names)) for value, names in sorted(members.items())]


def _labels(nodes: list[Node]) -> list[str]:
    return sorted({key for node in nodes for key in node.labels})
