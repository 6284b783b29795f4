"""What kubectl would show of the classroom's cluster, for people without kubectl.

``get`` prints the same cells that the API server hands to kubectl; ``describe`` prints a pod's events only.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.api.errors import UsageError
from mooring.controlplane.registry.catalog import by_resource
from mooring.controlplane.registry.columns import ago, columns_of
from mooring.controlplane.server import ControlPlane

COMMANDS = "get pods, get pods -o wide, get pod NAME, get nodes, describe pod NAME"
_WIDE = ("Node",)


def answer(plane: ControlPlane, command: str) -> list[str]:
    """Return the lines that ``kubectl`` with these arguments would print."""
    match command.split():
        case ["get", "pods" | "nodes" as resource]:
            return _get(plane, resource)
        case ["get", "pods" | "nodes" as resource, "-o", "wide"]:
            return _get(plane, resource, wide=True)
        case ["get", "pod", name]:
            return _get(plane, "pods", name)
        case ["get", "pod", name, "-o", "wide"]:
            return _get(plane, "pods", name, wide=True)
        case ["describe", "pod", name]:
            return _events(plane, name)
    raise UsageError(f'room.kubectl("{command}"): it knows {COMMANDS}')


def _get(plane: ControlPlane, resource: str, name: str = "", *, wide: bool = False) -> list[str]:
    kind = by_resource(resource)
    columns = [one for one in columns_of(kind) if not one.priority or (wide and one.name in _WIDE)]
    found = [
        obj
        for obj in plane.api.objects(kind, "default" if resource == "pods" else "")
        if name in ("", obj["metadata"]["name"])
    ]
    if not found:
        return [f'Error from server (NotFound): pods "{name}" not found'] if name else ["No resources found"]
    now = plane.api.clock.now()
    rows = [[str(one.cell(obj, now)) for one in columns] for obj in found]
    return _aligned([[one.name.upper() for one in columns], *rows], gap=3)


def _events(plane: ControlPlane, name: str) -> list[str]:
    now = plane.api.clock.now()
    found = [
        event
        for event in plane.api.objects(by_resource("events"), "default")
        if event.get("involvedObject", {}).get("name") == name
    ]
    found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    if not found:
        return ["Events:  <none>"]
    rows = [
        [
            event["type"],
            event["reason"],
            ago(event["metadata"]["creationTimestamp"], now),
            event.get("source", {}).get("component", ""),
            event["message"],
        ]
        for event in found
    ]
    head = ["Type", "Reason", "Age", "From", "Message"]
    return ["Events:", *(f"  {line}" for line in _aligned([head, ["-" * len(word) for word in head], *rows], gap=2))]


def _aligned(rows: Sequence[Sequence[str]], *, gap: int) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * gap).join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
