"""RuntimeClass: admission reads it, scheduling only sees what it left in the pod."""

from __future__ import annotations

from mooring.api.core import ResourceList, Toleration
from mooring.api.meta import Object, Struct


class Overhead(Struct):
    pod_fixed: ResourceList = {}


class Scheduling(Struct):
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


class RuntimeClass(Object, kw_only=True):
    handler: str = ""
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None
