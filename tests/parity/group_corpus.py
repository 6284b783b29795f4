"""Recorded cases of pod groups, and of gates away from their defaults: what a kube-scheduler did, and how to replay it.

A case is replayed on the live scheduler in virtual time. The README of its folder says how it was recorded.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.api.core import Pod
from mooring.api.meta import Condition
from mooring.api.pod_groups import PodGroup
from mooring.api.resource import ResourceClaim
from mooring.api.times import format_time
from mooring.api.version import release_of
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.versions import nearest_version
from mooring.core.plugins.devices.allocator import STRATEGIC_MERGE
from mooring.core.state.pod_info import PodInfo
from mooring.live.context import SchedulerOptions
from mooring.live.events import InvolvedObject
from mooring.live.scheduler import Scheduler
from mooring.sim.replay import load_object
from mooring.sim.virtual_time import LoopClock, run_virtual

GROUPS, GATES = Path(__file__).parent / "groups-1.37", Path(__file__).parent / "gates"
MAX_ROUNDS = 12
LINGERS = "lingers"  # the annotation of a pod that stays as terminating when it is deleted

Case = dict[str, Any]


class World:
    """Plays the API server for one scheduler: a write is carried out and reported immediately.

    A deleted pod is gone at once, unless its annotation says that it lingers as terminating.
    """

    def __init__(self, clock: LoopClock) -> None:
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, PodGroup] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self.deleted: set[str] = set()
        self.scheduler: Scheduler
        self._clock = clock
        self._version = 0
        self._turns: dict[str, asyncio.Lock] = {}

    def put(self, obj: Any) -> None:
        self._version += 1
        stored = copy(obj)
        stored.metadata = copy(obj.metadata)
        stored.metadata.resource_version = str(self._version)
        if isinstance(stored, Pod):
            self.pods[stored.key] = stored
        elif isinstance(stored, PodGroup):
            self.groups[stored.key] = stored
        elif isinstance(stored, ResourceClaim):
            self.claims[stored.key] = stored
        self.scheduler.put(stored)

    def remove(self, obj: Any) -> None:
        known = self.pods.pop(obj.key, obj) if isinstance(obj, Pod) else obj
        if isinstance(obj, PodGroup):
            self.groups.pop(obj.key, None)
        if isinstance(obj, ResourceClaim):
            self.claims.pop(obj.key, None)
        self.scheduler.delete(known)

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str] | None = None) -> None:
        known = self.pods[pod.pod.key]
        bound = copy(known)
        bound.spec, bound.status = copy(known.spec), copy(known.status)
        bound.spec.node_name, bound.status.nominated_node_name = node_name, ""
        self.put(bound)

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        changed = copy(self.pods[f"{namespace}/{name}"])
        changed.status, status = copy(changed.status), patch["status"]
        if "nominatedNodeName" in status:
            changed.status.nominated_node_name = status["nominatedNodeName"] or ""
        for condition in status.get("conditions", ()):
            changed.status.conditions = _with_condition(changed.status.conditions, condition)
        self.put(changed)

    async def patch_pod_group_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        changed = copy(self.groups[f"{namespace}/{name}"])
        changed.status = copy(changed.status)
        for condition in patch["status"]["conditions"]:
            changed.status.conditions = _with_condition(changed.status.conditions, condition)
        self.put(changed)

    # ---- claims: what DynamicResources writes -------------------------------------------------------------------

    def turn(self, claim_key: str) -> asyncio.Lock:
        return self._turns.setdefault(claim_key, asyncio.Lock())

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        return self.claims[f"{namespace}/{name}"]

    async def patch_claim(
        self, namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = "", content_type: str = ""
    ) -> ResourceClaim:
        wire = msgspec.to_builtins(self.claims[f"{namespace}/{name}"])
        if content_type == STRATEGIC_MERGE:
            gone = {entry["uid"] for entry in patch["status"]["reservedFor"]}
            kept = [user for user in wire["status"]["reservedFor"] if user["uid"] not in gone]
            patch = {"status": {"reservedFor": kept}}
        self.put(msgspec.convert(_merged(wire, patch), ResourceClaim))
        return self.claims[f"{namespace}/{name}"]

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim:
        raise NotImplementedError("no case asks for extended resources")

    async def delete_claim(self, namespace: str, name: str) -> None:
        self.remove(self.claims[f"{namespace}/{name}"])

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def record_event(self, pod: Pod, type: str, reason: str, action: str, message: str) -> None:
        raise NotImplementedError("no case has binding conditions")

    # ---- pods that are deleted ------------------------------------------------------------------------------------

    async def delete_pod(self, pod: Pod) -> None:
        known = self.pods[pod.key]
        self.deleted.add(pod.key)
        if LINGERS not in known.metadata.annotations:
            self.remove(pod)
            return
        going = copy(known)
        going.metadata = copy(known.metadata)
        going.metadata.deletion_timestamp = format_time(self._clock.now())
        self.put(going)


def _merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _with_condition(known: list[Condition], changed: Mapping[str, Any]) -> list[Condition]:
    before = next((each for each in known if each.type == changed["type"]), Condition(type=changed["type"]))
    fields = {key: changed[key] for key in ("status", "reason", "message") if key in changed}
    return [*(each for each in known if each.type != changed["type"]), replace(before, **fields)]


class Events:
    """Notes events as they were recorded."""

    observers: Sequence[Any] = ()

    def __init__(self) -> None:
        self.noted: list[dict[str, str]] = []

    def record(self, regarding: InvolvedObject, *, type: str, reason: str, note: str, **more: Any) -> None:
        about = f"{regarding.namespace}/{regarding.name}"
        self.noted.append({"about": about, "type": type, "reason": reason, "message": note})


def families(*folders: Path) -> list[str]:
    return sorted(path.name.removesuffix(".jsonl.gz") for folder in folders for path in folder.glob("*.jsonl.gz"))


@cache
def case_lines(family: str) -> tuple[str, ...]:
    path = next(each for each in (GROUPS / f"{family}.jsonl.gz", GATES / f"{family}.jsonl.gz") if each.exists())
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return tuple(lines)


def cases(family: str, chunk: slice = slice(None)) -> Iterator[Case]:
    for line in case_lines(family)[chunk]:
        yield json.loads(line)


def replay(case: Case) -> list[dict[str, Any]]:
    """What the scheduler says at each ``schedule`` step, in the form of ``expect``."""
    return run_virtual(_replay(case))


async def _replay(case: Case) -> list[dict[str, Any]]:
    features = Features(nearest_version(release_of(case["kubernetes"]))[0], **case["gates"])
    clock = LoopClock(asyncio.get_running_loop())
    world, events = World(clock), Events()
    options = SchedulerOptions(
        features=features, clock=clock, rng=random.Random(0), plugin_timeout_s=0, attempt_timeout_s=0
    )
    config = config_from_dict(case["config"], features)
    scheduler = Scheduler(config, lambda pods: world, events, options)
    world.scheduler = scheduler
    found = []
    try:
        for value in case["objects"]:
            world.put(load_object(value))
        for step in case["steps"]:
            if "schedule" not in step:
                await _act(world, step)
                continue
            await _wait(scheduler, step["schedule"]["seconds"])
            rounds = await _drain(scheduler)
            found.append(_state(world, scheduler, rounds, events))
            events.noted, world.deleted = [], set()
    finally:
        await scheduler.abort()
    return found


async def _act(world: World, step: dict[str, Any]) -> None:
    obj = load_object(step["object"])
    if step["action"] == "delete":
        world.remove(obj)
        return
    if step["action"] == "update" and obj.key in world.groups:
        obj.status = world.groups[obj.key].status
    world.put(obj)
    await asyncio.sleep(0.004)


async def _wait(scheduler: Scheduler, seconds: float) -> None:
    for _ in range(int(seconds)):
        await asyncio.sleep(1.0)
        scheduler.queue.run_timers()


async def _drain(scheduler: Scheduler) -> int:
    """Try whatever is ready, one after another; what follows an attempt is over before the next begins."""
    rounds = 0
    while rounds < MAX_ROUNDS and scheduler.queue.counts()["active"]:
        scheduler.schedule_one(scheduler.queue.pop())
        rounds += 1
        await asyncio.sleep(0.5)
    return rounds


def _state(world: World, scheduler: Scheduler, rounds: int, events: Events) -> dict[str, Any]:
    places = {f"{each.namespace}/{each.name}": each.queue for each in scheduler.queue.pending_pods()}
    return {
        "pods": {key: _pod(pod, places.get(key, "")) for key, pod in world.pods.items()},
        "groups": {
            key: {"status": each.status, "reason": each.reason, "message": each.message}
            for key, group in world.groups.items()
            for each in group.status.conditions
        },
        "claims": {key: _claim(claim) for key, claim in world.claims.items()},
        "deleted": sorted(world.deleted),
        "events": events.noted,
        "rounds": rounds,
    }


def _pod(pod: Pod, place: str) -> dict[str, str]:
    state = {"node": pod.spec.node_name, "nominatedNode": pod.status.nominated_node_name}
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and not pod.spec.node_name:
            state |= {"reason": condition.reason, "message": condition.message}
    place = "terminating" if pod.is_terminating and pod.spec.node_name else place
    state["queue"] = "unschedulable" if place == "gated" else place
    return {key: value for key, value in state.items() if value}


def _claim(claim: ResourceClaim) -> dict[str, Any]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    devices = [
        {"request": each.request, "driver": each.driver, "pool": each.pool, "device": each.device}
        | ({"consumedCapacity": dict(each.consumed_capacity)} if each.consumed_capacity else {})
        for each in results
    ]
    users = [f"{each.resource}/{each.name}" for each in claim.status.reserved_for]
    return ({"devices": devices} if allocation is not None else {}) | ({"reservedFor": users} if users else {})


def differences(case: Case, found: list[dict[str, Any]]) -> Iterator[str]:
    """Every way in which a replay differs from the recording, in one line each."""
    wanted = [step["schedule"]["expect"] for step in case["steps"] if "schedule" in step]
    for i, (want, got) in enumerate(zip(wanted, found, strict=True)):
        for part in ("pods", "groups", "claims"):
            recorded = want.get(part, {})
            for key in sorted(recorded.keys() | got[part].keys()):
                before, now = recorded.get(key), got[part].get(key)
                if before != now:
                    yield f"{case['id']} step {i} {key}: recorded {before}, found {now}"
        for part in ("deleted", "rounds"):
            if want[part] != got[part]:
                yield f"{case['id']} step {i} {part}: recorded {want[part]}, found {got[part]}"
        said = [
            sorted((each["about"], each["reason"], each["message"]) for each in side["events"]) for side in (want, got)
        ]
        if said[0] != said[1]:
            only = [[event for event in said[k] if event not in said[1 - k]] for k in (0, 1)]
            yield f"{case['id']} step {i} events: recorded {only[0]}, found {only[1]}"
