"""Storing what Reserve decided: versions, conflicts, and claims that others have changed meanwhile.

How it goes with the plugin around it is in ``tests/plugins/test_dynamic_resources.py``.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from mooring.api.clock import VirtualClock
from mooring.api.core import Pod
from mooring.api.errors import ApiError
from mooring.api.meta import ObjectMeta
from mooring.api.resource import DELETE_PROTECTION_FINALIZER, ResourceClaim
from mooring.core.framework.handle import PluginMeters
from mooring.core.framework.status import SUCCESS
from mooring.core.plugins.devices.allocator import ClaimAttempt
from mooring.core.plugins.devices.binding import ClaimBinder
from mooring.core.plugins.devices.cluster_devices import ClusterDevices
from mooring.core.state.cluster import ClusterState

from .builders import Wire, allocation

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="uid-p"))
HELD: Wire = {"devices": {"results": [{"request": "r", "driver": "drv", "pool": "p", "device": "a"}]}}


def stored(version: int = 1, *, is_held: bool = False, **parts: Any) -> ResourceClaim:
    meta = {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": str(version)} | parts
    return msgspec.convert({"metadata": meta, "status": {"allocation": HELD} if is_held else {}}, ResourceClaim)


class Server:
    """One claim; a patch with another version than the stored one is a conflict."""

    def __init__(self, claim: ResourceClaim) -> None:
        self.claim = claim
        self.calls: list[str] = []

    def turn(self, claim_key: str) -> AbstractAsyncContextManager[None]:
        return asyncio.Lock()

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        self.calls.append("get")
        return self.claim

    async def patch_claim(self, namespace: str, name: str, patch: Wire, *, subresource: str = "") -> ResourceClaim:
        self.calls.append(f"patch {subresource}".rstrip())
        wire = msgspec.to_builtins(self.claim)
        version = wire["metadata"]["resourceVersion"]
        if patch["metadata"]["resourceVersion"] != version:
            raise ApiError("the object has been modified", code=409)
        wire["metadata"] |= patch["metadata"] | {"resourceVersion": str(int(version) + 1)}
        wire["status"] |= patch.get("status", {})
        self.claim = msgspec.convert(wire, ResourceClaim)
        return self.claim


async def bind(server: Server, decided_on: ResourceClaim, *, is_ours: bool, known: ResourceClaim | None = None) -> Any:
    cluster = ClusterState()
    if known is not None:
        cluster.put(known)
    attempt = ClaimAttempt(claims=[decided_on])
    if is_ours:
        attempt.reserved[0] = allocation(*HELD["devices"]["results"])
    devices = ClusterDevices(cluster)
    binder = ClaimBinder(server, devices, VirtualClock(0.0), 600.0, attempt, PluginMeters())  # type: ignore[arg-type]
    return await binder.run(POD, "n")


@pytest.mark.parametrize(
    ("decided_on", "is_ours", "calls"),
    [
        pytest.param(stored(), True, ["patch", "patch status"], id="protected, then allocated"),
        pytest.param(stored(finalizers=[DELETE_PROTECTION_FINALIZER]), True, ["patch status"], id="protected already"),
        pytest.param(stored(is_held=True), False, ["patch status"], id="allocated for another pod"),
    ],
)
async def test_what_is_written(decided_on: ResourceClaim, is_ours: bool, calls: list[str]) -> None:
    server = Server(decided_on)
    assert await bind(server, decided_on, is_ours=is_ours) == SUCCESS
    assert server.calls == calls
    assert [user.uid for user in server.claim.status.reserved_for] == ["uid-p"]
    assert server.claim.status.allocation is not None


async def test_after_a_conflict_the_claim_is_read_again() -> None:
    server = Server(stored(4, is_held=True))
    assert await bind(server, stored(3, is_held=True), is_ours=False) == SUCCESS
    assert server.calls == ["patch status", "get", "patch status"]


async def test_a_newer_claim_that_is_known_need_not_be_read() -> None:
    server = Server(stored(4, is_held=True))
    assert await bind(server, stored(3, is_held=True), is_ours=False, known=stored(4, is_held=True)) == SUCCESS
    assert server.calls == ["patch status"]


@pytest.mark.parametrize(
    ("now", "is_ours", "text"),
    [
        pytest.param(
            stored(4, is_held=True), True, "claim ns/c got allocated elsewhere in the meantime", id="allocated"
        ),
        pytest.param(stored(4), False, "claim ns/c got deallocated elsewhere in the meantime", id="released"),
        pytest.param(
            stored(4, is_held=True, deletionTimestamp="2026-01-01T00:00:00Z"),
            False,
            "claim ns/c got deleted in the meantime",
            id="deleted",
        ),
    ],
)
async def test_a_claim_changed_by_another_client(now: ResourceClaim, is_ours: bool, text: str) -> None:
    with pytest.raises(ApiError) as error:
        await bind(Server(now), stored(3, is_held=not is_ours), is_ours=is_ours)
    assert str(error.value) == text


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
async def test_a_wall_clock_that_is_put_right_does_not_change_how_long_devices_are_waited_for(jump_s: float) -> None:
    condition = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    waits = [{**result, **condition} for result in HELD["devices"]["results"]]
    status = {"allocation": {"devices": {"results": waits}}, "reservedFor": [{"resource": "pods", "uid": POD.uid}]}
    meta = {"name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    claim = msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)
    server: Any = Server(claim)
    server.record_event = lambda *_: None
    slept: list[float] = []

    class Clock:
        def now(self) -> float:
            return 1_000_000.0 + self.monotonic() + (jump_s if slept else 0.0)

        def monotonic(self) -> float:
            return float(sum(slept))

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    server.sleep = sleep
    cluster = ClusterState()
    attempt = ClaimAttempt(claims=[claim])
    binder = ClaimBinder(server, ClusterDevices(cluster), Clock(), 60.0, attempt, PluginMeters())
    found = await binder.run(POD, "n")
    assert found.message == "device binding timeout: context deadline exceeded"
    assert sum(slept) == pytest.approx(60.0, abs=10.0)
