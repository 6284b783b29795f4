"""Pods of workloads that controllers have to see: those for which volumes or claims are made. The API server has them.

They come, end and come again as streamed pods do, and count with them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from mooring.api.core import Pod
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage.store import DELETED, Entry, Event
from mooring.controlplane.types.status import StatusError
from mooring.sim.workload import Arrival
from mooring.simulation.streamed_pods import StreamedPods

Create = Callable[[Arrival], Awaitable[None]]


def needs_controllers(pod: Pod) -> bool:
    """Whether something is made for a pod, or taken back from it: volumes, or claims of devices."""
    spec = pod.spec
    if not spec.volumes:
        return bool(spec.resource_claims)
    return bool(spec.resource_claims) or any(volume.ephemeral is not None for volume in spec.volumes)


class StoredPods:
    """Pods by ``namespace/name``, from their arrival to their end."""

    def __init__(self, api: Api, streamed: StreamedPods) -> None:
        self._api, self._streamed = api, streamed
        self._pods: dict[str, tuple[Arrival, Create]] = {}
        self._loop = asyncio.get_running_loop()
        self._coming: set[asyncio.Future[None]] = set()

    async def arrive(self, arrival: Arrival, create: Create) -> None:
        """Create a pod."""
        self._pods[arrival.pod.key] = arrival, create
        await create(replace(arrival, recreate=False))
        self._streamed.arrived += 1

    def note(self, event: Event) -> None:
        """Hear of a pod. What follows from it happens after the write that it is told within."""
        entry = event.entry
        known = self._pods.get(entry.key)
        if known is None:
            return
        if event.type == DELETED:
            arrival, create = known
            if arrival.recreate:
                self._loop.call_soon(self._come_again, arrival, create)
            else:
                del self._pods[entry.key]
        elif (entry.fields or {}).get("status.phase") in ("Succeeded", "Failed"):
            del self._pods[entry.key]
            self._streamed.ended += 1
            self._loop.call_soon(self._forget, entry)

    def _come_again(self, arrival: Arrival, create: Create) -> None:
        coming = asyncio.ensure_future(create(replace(arrival, recreate=False)))
        self._coming.add(coming)
        coming.add_done_callback(self._coming.discard)

    def _forget(self, entry: Entry) -> None:
        """A pod that has ended is gone, and with it what was made for it."""
        with contextlib.suppress(StatusError):
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": entry.uid}}
            self._api.delete(PODS, entry.namespace, entry.name, options)
