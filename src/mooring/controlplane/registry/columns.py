"""Cells of ``kubectl get`` that several kinds have in common, with upstream's words."""

from __future__ import annotations

from typing import Any

from mooring.api.times import human_duration
from mooring.controlplane.registry.meta import parse_time
from mooring.controlplane.storage import selectors
from mooring.controlplane.types.kind import Cell, Column, Kind
from mooring.controlplane.types.objects import Object


def get(obj: Any, *path: str) -> Any:
    """The value at a path; None where there is nothing."""
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def at(*path: str, default: Any = "") -> Cell:
    """The value at a path as it is."""

    def cell(obj: Object, _: float) -> Any:
        value = get(obj, *path)
        return default if value is None or value == "" else value

    return cell


def since(*path: str) -> Cell:
    """How long ago the time at a path was."""

    def cell(obj: Object, now: float) -> str:
        return ago(get(obj, *path), now)

    return cell


def ago(text: Any, now: float) -> str:
    when = parse_time(text) if isinstance(text, str) else None
    return "<unknown>" if when is None else human_duration(now - when)


NAME = Column("Name", at("metadata", "name"))
AGE = Column("Age", since("metadata", "creationTimestamp"))


def wide(name: str, cell: Cell, kind: str = "string") -> Column:
    return Column(name, cell, kind, 1)


def number(name: str, *path: str) -> Column:
    return Column(name, at(*path, default=0), "integer")


def selector_cell(*path: str) -> Cell:
    """A label selector, or plain labels."""

    def cell(obj: Object, _: float) -> str:
        return selectors.text_of(get(obj, *path)) or "<none>"

    return cell


def phase(obj: Object, _: float) -> str:
    if get(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return get(obj, "status", "phase") or ""


def boolean(*path: str) -> Cell:
    return lambda obj, _: bool(get(obj, *path))


DEFAULT = (NAME, Column("Created At", at("metadata", "creationTimestamp"), "date"))
"""What upstream shows of kinds that have no columns of their own."""


def columns_of(kind: Kind) -> tuple[Column, ...]:
    return kind.storage.columns or DEFAULT
