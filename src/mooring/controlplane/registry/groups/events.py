"""The events.k8s.io group: another view of the Events that are stored in the core form."""

from __future__ import annotations

from mooring.controlplane.registry.groups import core
from mooring.controlplane.types.kind import Kind, View
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


EVENTS = Kind("Event", "events", "events.k8s.io", short_names=("ev",), view=View(core.EVENTS, to_core, from_core))
