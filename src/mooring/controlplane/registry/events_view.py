"""Events are stored once, in the core form; events.k8s.io/v1 is a view of the same objects."""

from __future__ import annotations

from mooring.controlplane.types.objects import Object

_RENAMED = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)
_TO_EVENTS = dict(_RENAMED)
_TO_CORE = {new: old for old, new in _RENAMED}


def to_core(obj: Object) -> Object:
    """An events.k8s.io Event as the core Event it is stored as."""
    core = {_TO_CORE.get(key, key): value for key, value in obj.items()}
    core["apiVersion"] = "v1"
    core.setdefault("involvedObject", {})
    return core


def from_core(obj: Object) -> Object:
    """A stored Event the way events.k8s.io/v1 shows it."""
    shown = {_TO_EVENTS.get(key, key): value for key, value in obj.items()}
    shown["apiVersion"] = "events.k8s.io/v1"
    return shown
