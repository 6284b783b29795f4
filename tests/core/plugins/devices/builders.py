"""Devices, slices and claims as they stand on the wire, and one question: who gets what on node ``n``."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from mooring.core.plugins.devices.allocator import Allocator
from mooring.core.plugins.devices.cel import CelSelectors
from mooring.core.plugins.devices.extended import AllocatedState
from mooring.core.plugins.devices.pools import FIRST_RULES, Inventory, Rules

Wire = dict[str, Any]

SELECTORS = CelSelectors()
CLASSES: dict[str, Wire] = {
    "any": {},
    "big": {"selectors": [{"cel": {"expression": 'device.capacity["drv"].memory.compareTo(quantity("40Gi")) >= 0'}}]},
    "tuned": {"config": [{"opaque": {"driver": "drv", "parameters": {"tuned": True}}}]},
    "broken": {"selectors": [{"cel": {"expression": "device.nope"}}]},
}


def device_class(name: str) -> DeviceClass | None:
    if name not in CLASSES:
        return None
    return msgspec.convert({"metadata": {"name": name}, "spec": CLASSES[name]}, DeviceClass)


def device(name: str, **more: Any) -> Wire:
    """A device; fields whose value is a number are attributes."""
    attributes = {key: {"int": value} for key, value in more.items() if type(value) is int}
    rest = {key: value for key, value in more.items() if key not in attributes}
    return {"name": name, **({"attributes": attributes} if attributes else {}), **rest}


def sliced(*devices: Wire, name: str = "s", pool: str = "p", count: int = 1, **spec: Any) -> Wire:
    """A slice of a pool that has ``count`` of them; for node ``n``, unless the specification says something else."""
    elsewhere = spec.keys() & {"allNodes", "nodeSelector", "nodeName", "perDeviceNodeSelection"}
    where = {} if elsewhere else {"nodeName": "n"}
    pool_of = {"name": pool, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": "drv", "pool": pool_of, "devices": list(devices), **where, **spec}
    return {"metadata": {"name": name}, "spec": spec}


def exactly(name: str = "r", count: int = 1, cls: str = "any", cel: str = "", **more: Any) -> Wire:
    wanted = {"deviceClassName": cls, "allocationMode": "ExactCount", "count": count, **more}
    if cel:
        wanted["selectors"] = [{"cel": {"expression": cel}}]
    return {"name": name, "exactly": wanted}


def everything(name: str = "r", **more: Any) -> Wire:
    return {"name": name, "exactly": {"deviceClassName": "any", "allocationMode": "All", **more}}


def first_of(name: str, *alternatives: Wire) -> Wire:
    return {"name": name, "firstAvailable": [{"name": a["name"], **a["exactly"]} for a in alternatives]}


def claim(*requests: Wire, name: str = "c", **devices: Any) -> ResourceClaim:
    wire = {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"devices": {"requests": requests, **devices}},
    }
    return msgspec.convert(wire, ResourceClaim)


def inventory_of(slices: list[Wire], rules: Rules = FIRST_RULES) -> Inventory:
    return Inventory(msgspec.convert(slices, list[ResourceSlice]), rules)


def allocate(
    slices: list[Wire],
    *claims: ResourceClaim,
    allocated: AllocatedState | None = None,
    labels: dict[str, str] | None = None,
    rules: Rules = FIRST_RULES,
) -> list[AllocationResult] | None:
    """The results for the claims on node ``n``, or None."""
    inventory, allocated = inventory_of(slices, rules), allocated or AllocatedState()
    allocator = Allocator(inventory, SELECTORS, allocated, device_class, rules=rules)
    found = allocator.allocate("n", labels or {}, allocator.prepare(claims))
    return None if found is None else found.results()


def chosen(results: list[AllocationResult] | None) -> list[list[str]] | None:
    """``request=device`` for every device, by claim."""
    if results is None:
        return None
    return [[f"{r.request}={r.device}" for r in result.devices.results] for result in results]


def allocation(*results: Wire) -> AllocationResult:
    return msgspec.convert({"devices": {"results": results}}, AllocationResult)


def holding(*allocations: AllocationResult) -> AllocatedState:
    state = AllocatedState()
    for each in allocations:
        state.add(each)
    return state


def in_use(
    *devices: str, share: bool = False, admin: bool = False, consumed: dict[str, str] | None = None
) -> AllocatedState:
    """Devices of pool ``p`` that some claim holds."""
    results = []
    for i, name in enumerate(devices):
        result: Wire = {"request": "x", "driver": "drv", "pool": "p", "device": name}
        if share:
            result |= {"shareID": str(i), "consumedCapacity": consumed or {}}
        if admin:
            result["adminAccess"] = True
        results.append(result)
    return holding(allocation(*results))


ABC = sliced(device("a"), device("b"), device("c"))
SHARED = sliced(device("shared", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}}))
