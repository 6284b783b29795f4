"""Access of a scenario to a cluster: plain dicts in and out, over any client of an API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import msgspec

from mooring.api.codec import decode, from_plain, struct_of, to_plain
from mooring.api.core import Node, Pod
from mooring.api.errors import ApiError, InputError
from mooring.api.meta import Object as ApiObject
from mooring.controlplane.cluster.kubelet import COMPLETES_AFTER
from mooring.controlplane.registry.catalog import KINDS, by_group_kind, by_resource
from mooring.controlplane.serving.requests import ApiRequest, Reply
from mooring.controlplane.storage.store import DELETED, Event, Store, StoredEntry
from mooring.controlplane.types.kind import Kind, Object
from mooring.net.connect import HttpAnswer
from mooring.net.credentials import StaticCredentials
from mooring.net.errors import AlreadyExists, Fenced, NotFound, error_of_answer
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, BodySink, RestClient, with_query
from mooring.net.watch_events import ResourceKind

if TYPE_CHECKING:  # slow to import: a story can be read without a server
    from mooring.controlplane.server import ControlPlane
    from mooring.controlplane.serving.listing import WatchStream
    from mooring.sim.autoscaler.node_groups import NodeGroup
    from mooring.sim.autoscaler.policy import PolicyFile
    from mooring.sim.workload import Arrival


PATCH_TYPES = {"merge": MERGE_PATCH, "strategic": STRATEGIC_MERGE_PATCH, "json": JSON_PATCH}
_APPLY = "application/apply-patch+yaml"
REVISABLE = ("schedulingGates", "tolerations", "nodeSelector", "affinity")
"""Fields of a pod's spec that scheduling reads and that may change, some only while it is gated."""
IDENTITY = ("uid", "resourceVersion")  # an API server gives an object its own
MANAGER = "mooring-scenario"


def _names() -> dict[str, Kind]:
    names: dict[str, Kind] = {}
    for kind in KINDS:
        for name in (kind.kind.lower(), kind.plural, *kind.short_names, kind.resource):
            names.setdefault(name, kind)
    return names


_BY_NAME = _names()


def kind_named(name: str) -> Kind:
    """Return the kind that kubectl means by ``pod``, ``pods``, ``po`` or ``deployments.apps``."""
    kind = _BY_NAME.get(name.lower())
    if kind is None:
        raise InputError(f"no kind {name!r}; expected pod, node, deployment or another kind of a small cluster")
    return kind


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """The kind of a manifest."""
    version, name = str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
    group = version.rpartition("/")[0]
    kind = by_group_kind(group, name)
    if kind is None:
        raise InputError(f"apiVersion: {version!r}, kind: {name!r}; no such kind is served")
    return kind


def manifest_of(obj: ApiObject, *, without: Collection[str] = ()) -> Object:
    """Return a typed object as a manifest, without some fields of its metadata."""
    kind = kind_named(type(obj).__name__)
    value: Object = {**to_plain(obj), "apiVersion": kind.api_version, "kind": kind.kind}
    if without:
        value["metadata"] = {name: each for name, each in value["metadata"].items() if name not in without}
    return value


class Ref(msgspec.Struct, frozen=True):
    """An object's address; written ``pod/web`` or ``pod/team-a/web``."""

    kind: Kind
    name: str
    namespace: str = ""

    @staticmethod
    def parse(text: str, namespace: str = "default") -> Ref:
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise InputError(f"expected kind/name or kind/namespace/name, found {text!r}")
        kind = kind_named(parts[0])
        if len(parts) == 3 and not kind.is_namespaced:
            raise InputError(f"{text!r}: a {kind.kind} has no namespace; write {parts[0]}/{parts[2]}")
        space = (parts[1] if len(parts) == 3 else namespace) if kind.is_namespaced else ""
        return Ref(kind, parts[-1], space)

    @staticmethod
    def of(manifest: Mapping[str, Any], namespace: str = "default") -> Ref:
        kind = kind_of(manifest)
        metadata = manifest.get("metadata") or {}
        space = str(metadata.get("namespace") or namespace) if kind.is_namespaced else ""
        return Ref(kind, str(metadata.get("name", "")), space)

    def __str__(self) -> str:
        space = f"{self.namespace}/" if self.namespace not in ("", "default") else ""
        return f"{self.kind.singular}/{space}{self.name}"

    @property
    def collection(self) -> str:
        root = f"/apis/{self.kind.api_version}" if self.kind.group else f"/api/{self.kind.version}"
        space = f"/namespaces/{quote(self.namespace)}" if self.namespace else ""
        return f"{root}{space}/{self.kind.plural}"

    @property
    def path(self) -> str:
        return f"{self.collection}/{quote(self.name)}"


class Backend:
    """Reads and writes objects through a client. Errors are :class:`mooring.api.errors.ApiError`."""

    def __init__(self, client: RestClient) -> None:
        self.client = client
        self._priority_classes: set[str] = set()

    async def create(self, manifest: Object) -> Object:
        ref = Ref.of(manifest)
        body = dict(manifest)
        if ref.namespace:
            body["metadata"] = {**(manifest.get("metadata") or {}), "namespace": ref.namespace}
        answer = await self.client.create(ref.collection, msgspec.json.encode(body))
        created: Object = msgspec.json.decode(answer.body)
        if body.get("status") and ref.kind.has_status and not (created.get("status") or {}).get("capacity"):
            # A server may ignore the status of a new object, but the manifest has it on purpose.
            return await self.patch(Ref.of(created), {"status": body["status"]}, subresource="status")
        return created

    async def settle(self) -> None:
        """Wait until created objects are usable; called after each step that creates some."""

    # Workloads

    async def nodes(self) -> list[Node]:
        """The nodes as they are."""
        return [from_plain(Node, each) for each in await self.list(kind_named("nodes"))]

    async def admission(self) -> Callable[[Pod], None]:
        """Completes a pod as an API server would. The server itself does it here."""
        return lambda pod: None

    def arrive(self, arrival: Arrival) -> Awaitable[None] | None:
        """Create a pod of a workload; return what has to be awaited, if anything."""
        return self._create_arrival(arrival)

    async def revise(self, pod: Pod) -> None:
        """Update a pod's labels and spec as far as they can change; it may be gone."""
        ref = Ref(kind_named("Pod"), pod.name, pod.namespace)
        known = await self.get(ref)
        if known is None:
            return
        labels = dict.fromkeys(known["metadata"].get("labels") or {}) | pod.labels  # null removes a label
        spec = to_plain(pod)["spec"]
        changed = {name: spec.get(name) for name in REVISABLE if spec.get(name) != known["spec"].get(name)}
        await self.patch(ref, {"metadata": {"labels": labels}, "spec": changed})

    async def _create_arrival(self, arrival: Arrival) -> None:
        if arrival.recreate:
            raise InputError("recreate: only mooring simulate creates pods of a workload again")
        manifest = manifest_of(arrival.pod, without=IDENTITY)
        meta = manifest["metadata"]
        if arrival.run_s is not None:
            meta["annotations"] = {**meta.get("annotations", {}), COMPLETES_AFTER: f"{arrival.run_s}s"}
        spec = manifest["spec"]
        if spec.get("priority") and not spec.get("priorityClassName"):
            spec = {**spec, "priorityClassName": await self._priority_class(spec["priority"])}
        await self.create({**manifest, "metadata": meta, "spec": spec})

    async def _priority_class(self, value: int) -> str:
        """Return the name of a class for a priority: an API server accepts no pod with only a number."""
        name = f"workload-{value}".replace("--", "-minus-")
        if name not in self._priority_classes:
            await self.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                              "metadata": {"name": name}, "value": value})  # fmt: skip
            self._priority_classes.add(name)
        return name

    def tell(self, obj: ApiObject, *, is_gone: bool = False) -> None:
        """Show an object to the scheduler whose controller must not act on it. Only for simulations."""

    async def autoscale(self, by: NodeGroup | PolicyFile) -> None:
        """Add and remove nodes by a policy, or scale one more node group. Only for simulations."""
        raise InputError("only mooring simulate autoscales nodes")

    async def evict(self, pod: Object) -> None:
        """Ask for a pod's eviction; a disruption budget may refuse it with code 429."""
        ref = Ref.of(pod)
        meta = {"name": ref.name, "namespace": ref.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        await self.client.create(f"{ref.path}/eviction", msgspec.json.encode(body))

    async def quiet(self) -> None:
        """Wait until nothing is left to happen."""

    def measures(self) -> Object:
        """Return the measures so far. Only for simulations."""
        raise InputError("only mooring simulate takes measures")

    async def apply(self, manifest: Object) -> Object:
        """Create an object or bring it to what the manifest says, as ``kubectl apply --server-side`` does."""
        ref = Ref.of(manifest)
        try:
            return await self.create(manifest)
        except AlreadyExists:
            pass
        body = {key: value for key, value in manifest.items() if key != "status"}
        query = {"fieldManager": MANAGER, "force": "true"}
        answer = await self.client.patch(ref.path, msgspec.json.encode(body), query, content_type=_APPLY)
        applied: Object = msgspec.json.decode(answer.body)
        if manifest.get("status"):
            return await self.patch(ref, {"status": manifest["status"]}, subresource="status")
        return applied

    async def replace(self, manifest: Object) -> Object:
        """Create an object, or replace the existing one by the manifest: fields that it lacks are removed."""
        ref = Ref.of(manifest)
        known = await self.get(ref)
        if known is None:
            return await self.create(manifest)
        meta = {name: each for name, each in known["metadata"].items() if name not in ("labels", "annotations")}
        body = {**manifest, "metadata": {**meta, **manifest["metadata"]}}
        answer = await self.client.update(ref.path, msgspec.json.encode(body))
        if manifest.get("status"):
            return await self.patch(ref, {"status": manifest["status"]}, subresource="status")
        replaced: Object = msgspec.json.decode(answer.body)
        return replaced

    async def patch(self, ref: Ref, patch: Any, *, type: str = "merge", subresource: str = "") -> Object:
        path = f"{ref.path}/{subresource}" if subresource else ref.path
        answer = await self.client.patch(path, msgspec.json.encode(patch), content_type=PATCH_TYPES[type])
        patched: Object = msgspec.json.decode(answer.body)
        return patched

    async def get(self, ref: Ref) -> Object | None:
        try:
            answer = await self.client.get(ref.path)
        except NotFound:
            return None
        found: Object = msgspec.json.decode(answer.body)
        return found

    async def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        query = {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        answer = await self.client.get(Ref(kind, "", namespace).collection, query)
        page: Object = msgspec.json.decode(answer.body)
        items: list[Object] = page.get("items") or []
        for item in items:
            item.setdefault("kind", kind.kind)
            item.setdefault("apiVersion", kind.api_version)
        return items

    async def delete(self, ref: Ref, *, grace_period_s: int | None = None, propagation: str = "Background") -> bool:
        """Delete; false if there was nothing to delete."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        try:
            await self.client.delete(ref.path, msgspec.json.encode(options))
        except NotFound:
            return False
        return True


# --------------------------------------------------------------------------------------------------------------------
# The embedded API server without a socket: requests are function calls, watches are queues. The scheduler runs on it
# unchanged, also in virtual time, where no byte may depend on how quick a socket is.


class _LocalStream:
    """The body of a watch, with a client's method of reading."""

    def __init__(self, stream: WatchStream) -> None:
        self.readany = stream.read


class InProcessClient(RestClient):
    """A client of a :class:`ControlPlane` in the same event loop, which need not listen."""

    def __init__(self, plane: ControlPlane, *, agent: str = "", is_fenced: Callable[[], bool] = lambda: False) -> None:
        authorization = f"Bearer {plane.token}"
        config = ClientConfig("http://in-process", StaticCredentials(authorization))
        super().__init__(config, agent=agent, qps=-1, is_fenced=is_fenced)
        self._plane = plane
        self._sent_headers = {"Authorization": authorization, "Accept": JSON, "User-Agent": self.agent}

    def sibling(
        self,
        *,
        agent: str = "",
        qps: float | None = None,
        burst: int | None = None,
        is_fenced: Callable[[], bool] = lambda: False,
        is_paperwork: bool = False,
    ) -> RestClient:
        return InProcessClient(self._plane, agent=agent or self.agent, is_fenced=is_fenced)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = "",
        timeout_s: float | None = None,
        limited: bool = True,
        into: BodySink | None = None,
    ) -> HttpAnswer:
        await asyncio.sleep(0)  # as with a socket, a response never arrives in the same turn of the loop
        if method != "GET" and self._is_fenced():
            raise Fenced
        headers = {**self._sent_headers, "Content-Type": content_type} if content_type else self._sent_headers
        reply = await self._plane.handlers.answer(ApiRequest(method, path, headers, body))
        assert isinstance(reply, Reply)
        answer = _answer(reply, method, path)
        if into is not None:
            into.begin()
            await into.feed(answer.body)
        return answer

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
        start_timeout_s: float | None = None,
    ) -> AsyncIterator[Any]:
        target = with_query(path, query)
        await asyncio.sleep(0)
        stream = await self._plane.handlers.answer(ApiRequest("GET", target, self._sent_headers))
        if isinstance(stream, Reply):
            _answer(stream, "GET", target)
            raise ApiError(f"GET {target}: not a watch")
        try:
            yield _LocalStream(stream)
        finally:
            stream.close()


def _answer(reply: Reply, method: str, path: str) -> HttpAnswer:
    """Return a reply as a client sees it; raise errors."""
    headers = {"content-type": reply.content_type}
    for name, value in reply.headers:
        headers.setdefault(name.lower(), value)
    if not 200 <= reply.code < 300:
        raise error_of_answer(reply.code, reply.body, headers, method=method, path=path)
    return HttpAnswer(reply.code, headers, reply.body)


class Follower(Protocol):
    """Receives objects, each with its previous version."""

    def update(self, old: Any, new: Any) -> None: ...

    def delete(self, obj: Any) -> None: ...


class StoreFeed:
    """Feeds the scheduler from the store of the embedded control plane, event by event in the order of the writes.

    Informers would deliver the same objects, but kind by kind, in an order that depends on scheduling of watches. Two
    runs in virtual time must see the same order, and that of the writes is the simplest.

    Events are delivered in the next round of the loop, as a watch would: the write that caused one is complete by then.
    """

    def __init__(self, store: Store, kinds: Iterable[ResourceKind[Any]], listener: Follower) -> None:
        self._store, self._listener = store, listener
        self._kinds = [by_resource(kind.name) for kind in kinds]
        self._known: dict[tuple[str, str], ApiObject] = {}
        self._events: deque[Event] = deque()
        self._turn: asyncio.Handle | None = None
        self._stops: list[Callable[[], None]] = []

    def start(self) -> None:
        for kind in self._kinds:
            self._stops.append(self._store.subscribe(kind, self._note))
            for entry in self._store.iterate(kind):
                self._put(entry)

    def stop(self) -> None:
        for stop in self._stops:
            stop()
        self._stops = []
        if self._turn is not None:
            self._turn.cancel()

    def _note(self, event: Event) -> None:
        self._events.append(event)
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._turn = None
        while self._events:
            event = self._events.popleft()
            if event.type == DELETED:
                self._remove(event.entry)
            else:
                self._put(event.entry)

    def _put(self, entry: StoredEntry) -> None:
        obj = _decode(entry)
        key = (entry.kind.resource, entry.key)
        old = self._known.get(key)
        self._known[key] = obj
        self._listener.update(old, obj)

    def _remove(self, entry: StoredEntry) -> None:
        obj = _decode(entry)
        known = self._known.pop((entry.kind.resource, entry.key), None)
        self._listener.delete(known or obj)


def _decode(entry: StoredEntry) -> ApiObject:
    struct = struct_of(entry.kind.kind, entry.kind.group)
    assert struct is not None, "only kinds that the scheduler reads are fed"
    obj: ApiObject = decode(struct, entry.raw)
    return obj
