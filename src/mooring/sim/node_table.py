"""Nodes from a CSV file: a row per node, its fields as texts with ``{column}`` in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mooring.api.codec import from_plain
from mooring.api.core import Node
from mooring.controlplane.registry.catalog import NODES
from mooring.controlplane.registry.meta import is_label
from mooring.errors import InputError, MooringError
from mooring.sim.admissible import check_admissible
from mooring.sim.backend import Object
from mooring.sim.objects import node
from mooring.sim.rows import NUMBER, Row, Table, columns_in, filler
from mooring.sim.step_fields import fields_of, mapping, texts

_FIELDS = {"csv", "arrange", "name", "cpu", "memory", "pods", "zone", "zones", "labels", "taints", "capacity"}
SIMPLE = ("name", "cpu", "memory", "pods", "zone")
"""Fields that are one text: a column of that name fills them in."""


def nodes_of_table(value: Any, path: Path, arrange: Callable[[list[Row]], Iterable[Row]] | None = None) -> list[Object]:
    """The nodes of a CSV file, in the order of its rows, or in the one that ``arrange`` gives them."""
    fields = fields_of(value, _FIELDS)
    del fields["csv"]
    fields.pop("arrange", None)
    table = Table.open(path)
    fields = {**{name: f"{{{name}}}" for name in SIMPLE if name in table.columns}, **fields}
    zones = texts(fields.pop("zones", []), "zones")
    for group in ("labels", "capacity"):
        columns = {name.partition(".")[2]: f"{{{name}}}" for name in table.columns if name.startswith(f"{group}.")}
        fields[group] = {**columns, **mapping(fields.get(group), group)}
    fields["taints"] = texts(fields.get("taints", []), "taints")
    fields.setdefault("name", "node{i}")
    table.check(sorted(columns_in(fields)), "nodes")
    if not columns_in(fields) - {NUMBER}:
        raise InputError(f"{path}, line 1: no column that a field names; there are {', '.join(table.columns)}")
    fill = filler(fields)
    made: list[Object] = []
    lines: dict[str, int] = {}
    rows: Iterable[tuple[int, Row]] = table.rows()
    if arrange is not None:
        rows = enumerate(map(dict, arrange([row for _, row in rows])), 2)
    checked: set[str] = set()  # what rows say besides the name: many say the same
    for number, (line, row) in enumerate(rows, 1):
        row["i"] = str(number)
        try:
            filled, zone = fill(row), zones[(number - 1) % len(zones)] if zones else ""
            made.append(_node(filled, zone))
            name = made[-1]["metadata"]["name"]
            rest = repr((zone, {**filled, "name": ""}))
            if rest not in checked or not is_label(name):  # such a name is allowed wherever a name is
                check_admissible(NODES, made[-1], from_plain(Node, made[-1]))
                checked.add(rest)
            if name in lines:
                raise InputError(f"node {name} is already in line {lines[name]}; there can be only one of that name")
            lines[name] = line
        except MooringError as error:
            raise InputError(f"{path}, line {line}: {error}") from None
    if not made:
        raise InputError(f"{path}: no row after the header; expected one per node")
    return made


def _node(fields: dict[str, Any], zone: str) -> Object:
    if not fields.get("name"):
        raise InputError("a node without a name")
    rest: dict[str, Any] = {name: str(fields[name]) for name in ("cpu", "memory", "pods") if fields.get(name)}
    capacity = {key: str(each) for key, each in fields.get("capacity", {}).items() if str(each) != "0"}
    labels = {key: str(each) for key, each in fields.get("labels", {}).items()}
    zone = str(fields.get("zone") or zone)
    return node(
        str(fields["name"]), zone=zone, labels=labels, capacity=capacity, taints=fields.get("taints", ()), **rest
    )
