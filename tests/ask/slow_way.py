"""The slow way to an answer: what the embedded API server and the live scheduler really do with the same objects."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mooring.api.codec import to_plain
from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.sim.virtual_time import run_virtual
from mooring.sim.worlds import EmbeddedWorld, PlaySettings

MAX_WAIT_S = 20


def played(objects: Iterable[Object], story: Callable[[EmbeddedWorld], Awaitable[None]]) -> None:
    """Create the objects on an embedded control plane, and then play a story there, in virtual time."""

    async def play() -> None:
        async with EmbeddedWorld(PlaySettings(write=lambda text: None)) as world:
            for obj in objects:
                await world.cluster.backend.create(manifest(obj))
            await asyncio.sleep(2)
            await story(world)

    run_virtual(play())


def manifest(obj: Object) -> dict[str, Any]:
    """The object as a user would write it."""
    plain: dict[str, Any] = to_plain(obj)
    versions = {"PodDisruptionBudget": "policy/v1", "PriorityClass": "scheduling.k8s.io/v1", "ReplicaSet": "apps/v1"}
    kind = type(obj).__name__
    plain |= {"kind": kind, "apiVersion": versions.get(kind, "v1")}
    for server_side in ("uid", "ownerReferences"):  # without their owners, pods would be collected as garbage
        plain["metadata"].pop(server_side, None)
    if isinstance(obj, Pod):
        plain.pop("status", None)
    return plain


async def settled(world: EmbeddedWorld, name: str) -> tuple[str, str]:
    """(node, message) of a pod, once it is bound or was refused."""
    for _ in range(MAX_WAIT_S * 10):
        await asyncio.sleep(0.1)
        found = await world.cluster.get(f"pod/{name}")
        assert found is not None
        node = found["spec"].get("nodeName", "")
        conditions = {each["type"]: each for each in found.get("status", {}).get("conditions", ())}
        refused = conditions.get("PodScheduled", {})
        if node:
            return node, ""
        if refused.get("status") == "False":
            return "", refused["message"]
    raise AssertionError(f"pod {name} is neither bound nor refused")


def placed_one_by_one(objects: Iterable[Object], pod: Pod) -> tuple[Counter[str], str]:
    """Create one copy after another until one is refused: where they went, and the message of the refusal."""
    nodes: Counter[str] = Counter()
    message = ""

    async def story(world: EmbeddedWorld) -> None:
        nonlocal message
        while not message:
            wanted = manifest(pod)
            wanted["metadata"]["name"] = name = f"copy-{nodes.total()}"
            await world.cluster.backend.create(wanted)
            node, message = await settled(world, name)
            if node:
                nodes[node] += 1

    played(objects, story)
    return nodes, message
