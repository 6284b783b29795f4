"""Claims explained: which devices were looked at, why each was refused, and which small change would help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from mooring.api.core import Pod
from mooring.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.versions import V1_37
from mooring.core.explain.why import Explanation, explain_pod
from mooring.core.session import open_session
from mooring.testing import make_cluster, make_node

Wire = dict[str, Any]
MEMORY = "memory"
ANY = msgspec.convert({"metadata": {"name": "any"}, "spec": {}}, DeviceClass)
HOT = {"key": "hot", "effect": "NoSchedule"}


def device(name: str, **more: Any) -> Wire:
    """Fields whose value is a number or a text are attributes."""
    plain = {k: v for k, v in more.items() if isinstance(v, int | str) and v is not True}
    attributes = {k: {"int" if isinstance(v, int) else "string": v} for k, v in plain.items()}
    return {"name": name, "attributes": attributes, **{k: v for k, v in more.items() if k not in attributes}}


def sliced(node: str, *devices: Wire, **spec: Any) -> ResourceSlice:
    pool = {"name": spec.pop("pool", node), "generation": 1, "resourceSliceCount": spec.pop("count", 1)}
    spec = {"driver": "drv", "pool": pool, "nodeName": node, "devices": list(devices), **spec}
    name = f"{node}-counters" if "sharedCounters" in spec else node
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def claim(
    name: str, count: int = 1, *, status: Wire | None = None, constraints: Any = (), **request: Any
) -> ResourceClaim:
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count, **request}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], "constraints": list(constraints)}}
    meta = {"name": name, "namespace": "ns", "uid": name}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status or {}}, ResourceClaim)


def held(by: str, *devices: str, node: str = "", **more: Any) -> Wire:
    """The status of a claim that holds these devices of a pool, for a pod."""
    results = [
        {"request": "gpu", "driver": "drv", "pool": d.split("/")[0], "device": d.split("/")[1], **more} for d in devices
    ]
    where = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    allocation: Wire = {"devices": {"results": results}, **({"nodeSelector": where} if node else {})}
    return {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": by, "uid": by}]}


def pod(name: str, of: str, node: str = "") -> Pod:
    claims = [{"name": "g", "resourceClaimName": of}]
    spec = {"schedulerName": "default-scheduler", "nodeName": node, "containers": [{"name": "c"}]}
    spec["resourceClaims"] = claims
    return msgspec.convert({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec}, Pod)


def explained(*objects: Any, nodes: tuple[str, ...] = ("a",)) -> Explanation:
    features = Features(V1_37)
    cluster = make_cluster(*(make_node(name) for name in nodes))
    for each in (ANY, *objects):
        cluster.put(each)
    session = open_session(config_from_dict(None, features), cluster, features=features)
    return explain_pod(session, pod("asks", "c"))


CASES: Mapping[str, tuple[list[Any], list[str], list[str]]] = {
    "a taint of a device": (
        [sliced("a", device("x", taints=[HOT])), claim("c")],
        ["1 looked at: 1 tainted: hot:NoSchedule"],
        [
            "device a/x of a without taint hot:NoSchedule",
            "request gpu of claim ns/c tolerates hot:NoSchedule: 1 more node",
        ],
    ),
    "a taint of a rule": (
        [
            sliced("a", device("x")),
            claim("c"),
            msgspec.convert({"metadata": {"name": "r"}, "spec": {"taint": {**HOT, "value": "9"}}}, DeviceTaintRule),
        ],
        ["1 looked at: 1 tainted: hot:NoSchedule"],
        ["device a/x of a without taint hot=9:NoSchedule"],
    ),
    "too few devices": (
        [sliced("a", device("x"), device("y")), claim("c", 3)],
        ["2 looked at: 2 would do"],
        ["2 devices instead of 3 for request gpu of claim ns/c: 1 more node"],
    ),
    "a selector": (
        [sliced("a", device("x", model="t4")), claim("c", selectors=[{"cel": {"expression": "false"}}])],
        ["1 looked at: 1 refused by the selector of the request: false"],
        ["without the selector false of request gpu of claim ns/c: 1 more node"],
    ),
    "a device in use": (
        [
            sliced("a", device("x"), device("y")),
            claim("c", 2),
            claim("o", status=held("old", "a/x")),
            pod("old", "o", "a"),
        ],
        [
            "2 looked at: 1 in use; 1 would do",
            "nearest is node a, request gpu: a/x in use by claim ns/o (ns/old); a/y would do",
        ],
        ["without pod ns/old, which uses claim ns/o on a"],
    ),
    "a device that a claim without pods holds": (
        [sliced("a", device("x")), claim("c"), claim("o", status=held("gone", "a/x"))],
        ["1 looked at: 1 in use"],
        ["deallocate claim ns/o on a"],
    ),
    "devices that must be alike": (
        [
            sliced("a", device("x", numa=0), device("y", numa=1)),
            claim("c", 2, constraints=[{"matchAttribute": "drv/numa"}]),
        ],
        ["claim ns/c wants 2 devices with the same value of drv/numa on one node; the most that go together are 1"],
        ["claim ns/c without matchAttribute drv/numa: 1 more node"],
    ),
    "devices that must differ": (
        [
            sliced("a", device("x", numa=0), device("y", numa=0)),
            claim("c", 2, constraints=[{"distinctAttribute": "drv/numa"}]),
        ],
        ["claim ns/c wants 2 devices with different values of drv/numa on one node; the most that go together are 1"],
        ["claim ns/c without distinctAttribute drv/numa: 1 more node"],
    ),
    "a counter that another partition draws": (
        [
            sliced("a", count=2, sharedCounters=[{"name": "card", "counters": {"slices": {"value": "7"}}}]),
            sliced(
                "a",
                *(
                    device(name, consumesCounters=[{"counterSet": "card", "counters": {"slices": {"value": n}}}])
                    for name, n in (("big", "4"), ("other", "4"))
                ),
                count=2,
            ),
            claim("c"),
            claim("o", status=held("old", "a/big")),
            pod("old", "o", "a"),
        ],
        ["2 looked at: 1 in use; 1 counter card/slices is short: 4 needed, 3 left"],
        ["without pod ns/old, which uses claim ns/o on a"],
    ),
    "a share of a device that is too large": (
        [
            sliced("a", device("x", allowMultipleAllocations=True, capacity={MEMORY: {"value": "40Gi"}})),
            claim("c", capacity={"requests": {MEMORY: "30Gi"}}),
            claim("o", status=held("old", "a/x", shareID="1", consumedCapacity={MEMORY: "16Gi"})),
            pod("old", "o", "a"),
        ],
        ["1 looked at: 1 with too little capacity left"],
        [
            "24Gi memory instead of 30Gi for request gpu of claim ns/c: 1 more node",
            "without pod ns/old, which uses claim ns/o on a",
        ],
    ),
    "devices that the claim holds on a node that is gone": (
        [sliced("a", device("x")), claim("c", status=held("first", "b/x", node="b"))],
        ["claim ns/c holds b/x, for node b; no pod uses it"],
        ["deallocate claim ns/c: 1 more node"],
    ),
}


@pytest.mark.parametrize(("objects", "notes", "changes"), CASES.values(), ids=CASES.keys())
def test_why_devices_do_not_serve_and_what_would_help(objects: list[Any], notes: list[str], changes: list[str]) -> None:
    found = explained(*objects)
    assert not found.is_scheduled
    said = [note.partition("; ")[2] if note.startswith("claim ns/c, request") else note for note in found.notes]
    assert set(notes) <= {*said, *found.notes}
    assert set(changes) <= {each.text for each in found.suggestions}


def test_the_node_that_lacks_least_is_named() -> None:
    near, far = sliced("b", device("x"), device("y", taints=[HOT])), sliced("a", device("x", taints=[HOT]))
    found = explained(near, far, claim("c", 2), nodes=("a", "b"))
    assert found.notes[-1] == "nearest is node b, request gpu: b/x would do; b/y tainted: hot:NoSchedule"
    assert found.suggestions[0].text == "device b/y of b without taint hot:NoSchedule"


def test_asking_changes_nothing() -> None:
    slice, asked = sliced("a", device("x", taints=[HOT])), claim("c")
    before = msgspec.json.encode((slice, asked))
    assert explained(slice, asked).suggestions
    assert msgspec.json.encode((slice, asked)) == before


def test_programs_get_every_device_with_its_reason() -> None:
    near, far = sliced("b", device("x"), device("y", taints=[HOT])), sliced("a", device("x", model="t4"))
    found = explained(near, far, claim("c", 2), claim("o", status=held("old", "a/x")), nodes=("a", "b"))
    assert [(each["node"], each["device"], each["refused"]) for each in found.to_dict()["devices"]] == [
        ("a", "drv/a/x", "in use by claim ns/o"),
        ("b", "drv/b/x", ""),
        ("b", "drv/b/y", "tainted: hot:NoSchedule"),
    ]
