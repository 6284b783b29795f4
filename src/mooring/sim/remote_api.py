"""Kubelets and controllers on another API server: a local copy to read, and writes that go over the network.

The copy is a store like the embedded one's, kept up to date by watches. A write is sent in the background, and its
answer is put into the copy at once; until then the controller does not look at the same key again, so that it never
creates twice what it has not seen yet.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mooring.api.times import format_time
from mooring.client.resource_kind import ResourceKind
from mooring.client.rest import JSON, RestClient
from mooring.client.watch import Reflector
from mooring.clock import Clock
from mooring.controlplane.registry.meta import generated_name
from mooring.controlplane.storage.store import Entry, Store, key_of
from mooring.controlplane.types import status
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.objects import Object
from mooring.errors import ApiError
from mooring.sim.backend import Ref

log = logging.getLogger(__name__)


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Held(msgspec.Struct):
    """An object as it came, and the part of its metadata that a reflector looks at."""

    metadata: _Meta
    obj: Object


class _Sink:
    """Takes what a watch brings into the copy."""

    def __init__(self, mirror: RemoteApi, kind: Kind) -> None:
        self._mirror, self._kind = mirror, kind
        self.is_synced = asyncio.Event()

    async def replace(self, objects: Sequence[_Held], resource_version: str = "") -> None:
        keep = {key_of(held.metadata.namespace, held.metadata.name) for held in objects}
        for held in objects:
            self._mirror.put(self._kind, held.obj)
        for entry in list(self._mirror.store.iterate(self._kind)):
            if entry.key not in keep:
                self._mirror.remove(self._kind, entry.key)
        self.is_synced.set()

    async def apply(self, events: Sequence[tuple[str, _Held]]) -> None:
        for type_, held in events:
            if type_ == "DELETED":
                self._mirror.remove(self._kind, key_of(held.metadata.namespace, held.metadata.name), held.metadata.uid)
            else:
                self._mirror.put(self._kind, held.obj)


class RemoteApi:
    """A :class:`mooring.controlplane.cluster.api.ClusterApi` on another server; see the module."""

    def __init__(self, client: RestClient, clock: Clock, kinds: Iterable[Kind]) -> None:
        self.store = Store()
        self.clock = clock
        self._client = client
        self._rng = random.Random()
        self._kinds = tuple(dict.fromkeys(kinds))
        self._versions: dict[tuple[Kind, str], str] = {}
        self._writes: set[asyncio.Task[None]] = set()
        self._sent: list[asyncio.Task[None]] | None = None  # by the work that is being carried out
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, timeout_s: float) -> None:
        """Watch every kind, and wait until the copy is complete."""
        sinks = []
        for kind in self._kinds:
            sink = _Sink(self, kind)
            sinks.append(sink)
            reflector = Reflector(self._client, _watched(kind), sink)
            self._tasks.append(asyncio.create_task(reflector.run(), name=f"mirror {kind.resource}"))
        try:
            async with asyncio.timeout(timeout_s):
                for sink in sinks:
                    await sink.is_synced.wait()
        except TimeoutError:
            missing = [
                kind.resource for kind, sink in zip(self._kinds, sinks, strict=True) if not sink.is_synced.is_set()
            ]
            raise ApiError(f"no list of {', '.join(missing)} within {timeout_s:g}s") from None

    async def stop(self) -> None:
        tasks = [*self._tasks, *self._writes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def timestamp(self) -> str:
        return format_time(self.clock.now())

    def carry_out(self, work: Callable[[], None]) -> asyncio.Future[None] | None:
        sent = self._sent = []
        work()
        self._sent = None
        return self._started(_all(sent)) if sent else None

    # The copy

    def put(self, kind: Kind, obj: Object) -> None:
        """Take over a version, unless a newer one is known."""
        metadata = obj["metadata"]
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        version = str(metadata.get("resourceVersion", ""))
        known = self.store.entry(kind, key)
        if known is not None and known.uid == metadata.get("uid") and not _is_newer(version, self._versions[kind, key]):
            return
        self._versions[kind, key] = version
        obj = {**obj, "kind": kind.kind, "apiVersion": kind.api_version, "metadata": dict(metadata)}
        if known is None:
            self.store.create(kind, obj)
        else:
            self.store.update(kind, known, obj)

    def remove(self, kind: Kind, key: str, uid: str = "") -> None:
        known = self.store.entry(kind, key)
        if known is not None and uid in ("", known.uid):
            self._versions.pop((kind, key), None)
            self.store.delete(kind, known)

    # The verbs

    def _known(self, kind: Kind, namespace: str, name: str) -> Entry:
        entry = self.store.get(kind, namespace, name)
        if entry is None:
            raise status.not_found(kind.plural, kind.group, name)
        return entry

    def create(self, kind: Kind, namespace: str, obj: Object) -> Entry:
        metadata: Object = {**obj["metadata"]}
        if kind.is_namespaced:
            metadata["namespace"] = namespace
        if not metadata.get("name"):
            metadata["name"] = generated_name(metadata.pop("generateName", ""), self._rng)
        made = {**obj, "metadata": metadata}
        self._send("POST", Ref(kind, "", namespace).collection, made, kind)
        shown = {**made, "metadata": {"uid": "", "creationTimestamp": self.timestamp(), **metadata}}
        return Entry(kind, key_of(metadata.get("namespace", ""), metadata["name"]), 0, shown)

    def modify(
        self, kind: Kind, namespace: str, name: str, change: Callable[[Object], object], *, subresource: str = ""
    ) -> Entry:
        entry = self._known(kind, namespace, name)
        new = entry.object()
        change(new)
        if new == entry.object():
            return entry
        new["metadata"]["resourceVersion"] = self._versions[kind, entry.key]
        path = Ref(kind, name, namespace).path
        self._send("PUT", f"{path}/{subresource}" if subresource else path, new, kind)
        return Entry(kind, entry.key, entry.rv, {**new, "metadata": {**new["metadata"]}})

    def delete(
        self, kind: Kind, namespace: str, name: str, delete_options: Mapping[str, Any] | None = None
    ) -> tuple[Entry, bool]:
        entry = self._known(kind, namespace, name)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", **(delete_options or {})}
        self._send("DELETE", Ref(kind, name, namespace).path, options, kind, entry)
        return entry, False

    def _send(self, method: str, path: str, obj: Object, kind: Kind, deleted: Entry | None = None) -> None:
        task = self._started(self._request(method, path, msgspec.json.encode(obj), kind, deleted))
        if self._sent is not None:
            self._sent.append(task)

    def _started(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        return task

    async def _request(self, method: str, path: str, body: bytes, kind: Kind, deleted: Entry | None) -> None:
        try:
            answer = await self._client.request(method, path, body, content_type=JSON)
        except ApiError as error:
            if error.code == 404 and deleted is not None:
                self.remove(kind, deleted.key, deleted.uid)
            log.debug("%s %s: %s", method, path, error)
            return
        obj: Object = msgspec.json.decode(answer.body)
        if obj.get("kind") == kind.kind:
            if deleted is None or obj["metadata"].get("deletionTimestamp"):
                self.put(kind, obj)
        elif deleted is not None:
            self.remove(kind, deleted.key, deleted.uid)


def _is_newer(version: str, known: str) -> bool:
    if version.isdecimal() and known.isdecimal():
        return int(version) > int(known)
    return version != known


def _watched(kind: Kind) -> ResourceKind[_Held]:
    def decode(data: bytes | msgspec.Raw) -> _Held:
        obj: Object = msgspec.json.decode(data)
        return _Held(msgspec.convert(obj["metadata"], _Meta), obj)

    return ResourceKind(kind.plural, kind.api_version, decode)


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
