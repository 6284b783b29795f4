"""Tables of ``kubectl get``: columns, and the cells that several kinds share, with upstream's texts."""

from __future__ import annotations

from typing import Any

from mooring.api.times import human_duration
from mooring.controlplane.registry.validation import parse_time
from mooring.controlplane.storage import selectors
from mooring.controlplane.types.kind import Cell, Column, Kind, Object


def columns(*described: str | Column) -> tuple[Column, ...]:
    """Return columns described by short texts, in their order.

    ``Node: spec.nodeName`` shows the value at a path; ``Node: spec.nodeName | <none>`` also names the text for a
    missing value. A plus before the name makes it a column for ``-o wide``. Every kind has ``Name`` and ``Age``.
    """
    return tuple(_column(each) if isinstance(each, str) else each for each in described)


def _column(text: str) -> Column:
    if text in _COMMON:
        return _COMMON[text]
    name, _, path = text.removeprefix("+").partition(": ")
    path, _, default = path.partition(" | ")
    return Column(name, at(path, default), priority=int(text.startswith("+")))


def get(obj: Any, path: str) -> Any:
    """Return the value at a path such as ``status.phase``; None if it is missing."""
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def at(path: str, default: Any = "") -> Cell:
    """Show the value at a path unchanged."""

    def cell(obj: Object, _: float) -> Any:
        value = get(obj, path)
        return default if value is None or value == "" else value

    return cell


def ago(text: Any, now: float) -> str:
    """Show how long ago a time was."""
    when = parse_time(text) if isinstance(text, str) else None
    return "<unknown>" if when is None else human_duration(now - when)


_COMMON = {
    "Name": Column("Name", at("metadata.name")),
    "Age": Column("Age", lambda obj, now: ago(get(obj, "metadata.creationTimestamp"), now)),
}


def wide(name: str, cell: Cell) -> Column:
    return Column(name, cell, priority=1)


def number(name: str, path: str) -> Column:
    return Column(name, at(path, 0), "integer")


def boolean(name: str, path: str) -> Column:
    return Column(name, lambda obj, _: bool(get(obj, path)), "boolean")


def selector_cell(path: str) -> Cell:
    """Show a label selector, or plain labels."""
    return lambda obj, _: selectors.text_of(get(obj, path)) or "<none>"


def phase(obj: Object, _: float) -> str:
    return "Terminating" if get(obj, "metadata.deletionTimestamp") else get(obj, "status.phase") or ""


DEFAULT = columns("Name", Column("Created At", at("metadata.creationTimestamp"), "date"))
"""Upstream's columns for kinds without their own."""


def columns_of(kind: Kind) -> tuple[Column, ...]:
    return kind.storage.columns or DEFAULT


# A pod's READY, STATUS and RESTARTS: the aggregate that people read first


def _state(container: Object, name: str) -> Any:
    return (container.get("state") or {}).get(name)


def _sidecars(pod: Object) -> set[str]:
    containers = (pod.get("spec") or {}).get("initContainers") or ()
    return {container.get("name", "") for container in containers if container.get("restartPolicy") == "Always"}


def pod_ready(pod: Object, _: float) -> str:
    sidecars = _sidecars(pod)
    status = pod.get("status") or {}
    total = len((pod.get("spec") or {}).get("containers") or ()) + len(sidecars)
    ready = sum(1 for c in status.get("containerStatuses") or () if c.get("ready") and _state(c, "running") is not None)
    ready += sum(
        1
        for c in status.get("initContainerStatuses") or ()
        if c.get("name") in sidecars and c.get("started") and c.get("ready")
    )
    return f"{ready}/{total}"


def pod_restarts(pod: Object, _: float) -> str:
    status = pod.get("status") or {}
    sidecars = _sidecars(pod)
    count = sum(c.get("restartCount", 0) for c in status.get("containerStatuses") or ())
    count += sum(
        c.get("restartCount", 0) for c in status.get("initContainerStatuses") or () if c.get("name") in sidecars
    )
    return str(count)


def pod_status(pod: Object, _: float) -> str:
    status = pod.get("status") or {}
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    conditions = status.get("conditions") or ()
    if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in conditions):
        reason = "SchedulingGated"
    initializing, shown = _init_reason(pod)
    if initializing:
        reason = shown
    initialized = any(c.get("type") == "Initialized" and c.get("status") == "True" for c in conditions)
    if not initializing or initialized:
        reason = _container_reason(status, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return str(reason)


def _init_reason(pod: Object) -> tuple[bool, str]:
    sidecars = _sidecars(pod)
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for i, container in enumerate((pod.get("status") or {}).get("initContainerStatuses") or ()):
        terminated, waiting = _state(container, "terminated"), _state(container, "waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            continue
        if terminated is not None:
            return True, f"Init:{_terminated(terminated)}"
        if waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
            return True, f"Init:{waiting['reason']}"
        return True, f"Init:{i}/{total}"
    return False, ""


def _terminated(state: Object) -> str:
    if state.get("reason"):
        return str(state["reason"])
    if state.get("signal"):
        return f"Signal:{state['signal']}"
    return f"ExitCode:{state.get('exitCode', 0)}"


def _container_reason(status: Object, reason: str) -> str:
    running, failure = False, ""
    for container in reversed(status.get("containerStatuses") or []):
        waiting, terminated = _state(container, "waiting"), _state(container, "terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _terminated(terminated)
            if terminated.get("exitCode"):
                failure = reason
        elif container.get("ready") and _state(container, "running") is not None:
            running = True
    if reason == "Completed":
        ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
        if running and ready:
            return "Running"
        return failure or ("NotReady" if running else reason)
    return reason
