"""Informers for the scheduler, and a single listing for commands that only read."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

from mooring.api.core import Node, Pod
from mooring.api.errors import ApiError
from mooring.api.meta import Object
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.framework.cluster_event import EventResource
from mooring.net.errors import Forbidden, NotFound
from mooring.net.extender.wire import RawObjects
from mooring.net.informer import InformerSet
from mooring.net.kinds import (
    CSI_STORAGE_CAPACITIES,
    DEVICE_TAINT_RULES,
    EXTRA_KINDS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    SCHEDULER_KINDS,
    VOLUME_ATTACHMENTS,
)
from mooring.net.kubeconfig import ClientConfig
from mooring.net.lists import ListReader
from mooring.net.rest import RestClient, user_agent
from mooring.net.watch import PAGE_SIZE
from mooring.net.watch_events import EventReader, Garbled, ResourceKind


class Listener(Protocol):
    """Receiver of objects, such as the scheduler."""

    def put(self, obj: Object) -> None: ...

    def update(self, old: Object, new: Object) -> None: ...

    def delete(self, obj: Object) -> None: ...


def kinds_for(resources: Iterable[EventResource]) -> list[ResourceKind[Any]]:
    """Return the kinds that a scheduler must watch for plugins that register for these resources."""
    wanted = set(resources)
    return [*SCHEDULER_KINDS, *(kind for resource, kind in EXTRA_KINDS.items() if resource in wanted)]


def connect(
    informers: InformerSet,
    listener: Listener,
    *,
    raw: RawObjects | None = None,
    resources: Iterable[EventResource] = (),
) -> None:
    """Watch every kind that the scheduler needs, and pass events to the listener.

    ``resources`` are what plugins register for. ``raw`` keeps the JSON of pods and nodes, for extenders that need whole
    objects.
    """
    for kind in kinds_for(resources):
        if raw is not None and kind in (PODS, NODES):
            kept = replace(kind, decode=raw.decoder(Pod if kind is PODS else Node), decode_event=None, share=None)
            informers.add(kept).add_handler(listener.put, listener.update, _after(listener.delete, raw.forget))
        else:
            informers.add(kind).add_handler(listener.put, listener.update, listener.delete)


def _after(first: Callable[[Object], None], then: Callable[[Object], None]) -> Callable[[Object], None]:
    def both(obj: Object) -> None:
        first(obj)
        then(obj)

    return both


async def load_objects(client: RestClient, features: Features = DEFAULT_FEATURES) -> list[Any]:
    """List everything that a scheduler would watch. A kind that may not be read raises Forbidden, with its name."""
    objects: list[Any] = []
    also = (DEVICE_TAINT_RULES,) if features["DRADeviceTaintRules"] else ()
    for kind in (*SCHEDULER_KINDS, *also):
        for version in kind.at_each_version():
            with contextlib.suppress(NotFound):
                objects += await list_all(client, version)
                break
    if "GenericWorkload" not in features.version.unsupported:
        with contextlib.suppress(NotFound, Forbidden):  # most clusters have none, and most users may not look
            objects += await list_all(client, POD_GROUPS)
    return objects


async def list_all(client: RestClient, kind: ResourceKind[Any]) -> list[Any]:
    """List the objects of a kind, page by page."""
    page: ListReader[Any] = ListReader(EventReader(kind))
    query = {**kind.selectors(), "limit": str(PAGE_SIZE)}
    while True:
        try:
            await client.get(kind.path, query, into=page)
            meta = await page.end()
        except Garbled as error:
            raise ApiError(f"{kind.name}: {error}") from None
        if not meta.continue_:
            return page.objects
        query["continue"] = meta.continue_


# --------------------------------------------------------------------------------------------------------------------
# A cluster watched from its own thread, for code without an event loop, such as a served extender.

STOP_S = 5.0
CLOSE_S = 0.25  # time for TLS to close; without it the sockets of an ended loop stay open


class ClusterWatch:
    """Watches a cluster. ``start`` returns when every existing object is known; the listener receives later changes.

    The listener is called in the watch's thread. Nothing is written to the cluster.
    """

    def __init__(self, config: ClientConfig, listener: Listener, *, resources: Iterable[EventResource] = ()) -> None:
        self._config = config
        self._listener = listener
        self._resources = tuple(resources)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="watch", daemon=True)
        self._informers: InformerSet | None = None
        self._client: RestClient | None = None

    def start(self, timeout_s: float) -> None:
        """Start watching; raise if the first lists do not arrive in time."""
        self._thread.start()
        try:
            missing = asyncio.run_coroutine_threadsafe(self._begin(timeout_s), self._loop).result()
        except BaseException:
            self.stop()
            raise
        if missing:
            self.stop()
            raise ApiError(
                f"could not list {', '.join(missing)} from {self._config.server} within {timeout_s:g} s; "
                "is the server up, and is this user allowed to list and watch them?"
            )

    def stop(self) -> None:
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(STOP_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_S)
        if not self._loop.is_running():
            self._loop.close()

    async def _begin(self, timeout_s: float) -> list[str]:
        self._client = RestClient(self._config, agent=user_agent("mooring", "extender"))
        self._informers = InformerSet(self._client)
        connect(self._informers, self._listener, resources=self._resources)
        self._informers.start()
        return [] if await self._informers.wait_for_sync(timeout_s) else self._informers.missing()

    async def _end(self) -> None:
        if self._informers is not None:
            await self._informers.stop()
        if self._client is not None:
            await self._client.close()
            await asyncio.sleep(CLOSE_S)


# --------------------------------------------------------------------------------------------------------------------
# Kinds that the API server does not serve, because it is older or they are disabled.

_CONSEQUENCES = {
    RESOURCE_CLAIMS.name: "pods with resource claims stay pending",
    DEVICE_TAINT_RULES.name: "no device is tainted by a rule",
    POD_GROUPS.name: "pods with a schedulingGroup stay pending",
    POD_DISRUPTION_BUDGETS.name: "no budget holds preemption back",
    CSI_STORAGE_CAPACITIES.name: "the capacity of storage is not looked at",
    VOLUME_ATTACHMENTS.name: "volumes that are still attached are not counted",
}


def consequences(not_served: Iterable[str]) -> str:
    """Describe the missing kinds in one log line, with the consequence of each."""
    return "; ".join(
        f"{name} ({_CONSEQUENCES[name]})" if name in _CONSEQUENCES else name for name in sorted(not_served)
    )
