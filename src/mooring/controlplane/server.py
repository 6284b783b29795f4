"""The control plane as one thing: start it in an event loop, talk to it over HTTP or directly, stop it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.api.clock import Clock, SystemClock
from mooring.api.defaults import SYSTEM_PRIORITIES
from mooring.api.errors import UsageError
from mooring.controlplane.cluster.garbage import GarbageCollector, expire_events
from mooring.controlplane.registry.catalog import NAMESPACES, STORED
from mooring.controlplane.registry.groups.nodes import PRIORITY_CLASSES
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.serving.access import Access, Authorizer, write_kubeconfig
from mooring.controlplane.serving.faults import Faults
from mooring.controlplane.serving.handlers import Handlers
from mooring.controlplane.serving.requests import JSON, ApiRequest, Reply
from mooring.controlplane.storage.store import Store
from mooring.controlplane.storage.watches import Hub
from mooring.controlplane.types import status
from mooring.controlplane.types.status import StatusError
from mooring.core.config.versions import KubernetesVersion
from mooring.net.async_server import AsyncServer, ServedAnswer, ServedRequest
from mooring.net.http_io import Refused
from mooring.net.tls import load_identity, self_signed

if TYPE_CHECKING:
    from mooring.controlplane.storage.persistence import Disk

log = logging.getLogger(__name__)
SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
EVENT_CHECK_S = 60.0
MAX_BODY_BYTES = 3 * 1024 * 1024
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ControlPlane:
    """An API server in this process.

    ``api`` creates, reads and changes objects without HTTP, ``store`` can be subscribed to, ``url`` and
    ``kubeconfig_path`` are for other clients. Usable as ``async with ControlPlane() as cp``.

    TLS is on by default because kubectl sends no token without it. ``also_plain`` opens a second, loopback-only
    listener without TLS (``plain_url``, same tokens) for clients that do, such as a scheduler on this machine.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allow_remote: bool = False,
        use_tls: bool = True,
        also_plain: bool = False,
        data_dir: Path | None = None,
        kubeconfig_path: Path | None = None,
        authorizer: Callable[[Api], Authorizer] | None = None,
        clock: Clock | None = None,
        faults: Faults | None = None,
        history: int = 10_000,
        garbage_collection: bool = True,
        default_tolerations: bool = False,
        new_uid: Callable[[], str] | None = None,
        rng: random.Random | None = None,
        watch_limit: int = 20_000,
        event_ttl_s: float = 3600.0,
        disk: Disk | None = None,
        version: KubernetesVersion | None = None,
    ) -> None:
        """``version`` is the Kubernetes that is spoken: its name, kinds and fields; without one everything is served.

        ``disk`` keeps everything where a directory would; a soak in virtual time has one that it can fill.
        """
        if host not in LOOPBACK and not allow_remote:
            raise UsageError(f"host {host}: only this machine can reach the server unless remote access is allowed")
        self._host, self._port, self._use_tls, self._also_plain = host, port, use_tls, also_plain
        self.kubeconfig_path = kubeconfig_path
        if data_dir is not None:
            from mooring.controlplane.storage.persistence import SqliteJournal  # most keep nothing

            disk = SqliteJournal(data_dir)
        self._journal = disk
        self.store = self._journal.open_store(STORED, history=history) if self._journal else Store(history=history)
        extra: dict[str, Any] = {"new_uid": new_uid} if new_uid is not None else {}
        self.api = Api(
            self.store,
            clock or SystemClock(),
            rng=rng,
            default_tolerations=default_tolerations,
            version=version,
            **extra,
        )
        self.hub = Hub(self.store)
        self.access = Access()
        if authorizer is not None:
            self.access.authorizer = authorizer(self.api)
        self.handlers = Handlers(
            self.api,
            self.hub,
            self.access,
            faults=faults,
            durable=self._journal.durable if self._journal else None,
            watch_limit=watch_limit,
        )
        self.garbage = GarbageCollector(self.api) if garbage_collection else None
        self._event_ttl_s = event_ttl_s
        self._server: AsyncServer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._certificate: bytes | None = None
        self.url = ""
        self.plain_url = ""
        self._bootstrap()

    @property
    def token(self) -> str:
        """The administrator's token."""
        return self.access.admin_token

    @property
    def certificate(self) -> bytes | None:
        """The certificate clients should trust, when serving TLS."""
        return self._certificate

    def _bootstrap(self) -> None:
        """Create what every new cluster has."""
        for name in SYSTEM_NAMESPACES:
            if self.store.get(NAMESPACES, "", name) is None:
                self.api.create(NAMESPACES, "", _named("v1", "Namespace", name))
        for name, value in SYSTEM_PRIORITIES.items():
            if self.store.get(PRIORITY_CLASSES, "", name) is None:
                obj = _named("scheduling.k8s.io/v1", "PriorityClass", name)
                self.api.create(PRIORITY_CLASSES, "", {**obj, "value": value})

    async def start(self) -> None:
        """Listen; sets ``url`` and writes the kubeconfig file."""
        context = None
        if self._use_tls:
            identity = self_signed("localhost", "kubernetes.default.svc", self._host, common_name="mooring")
            self._certificate = identity.certificate
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            load_identity(context, *identity)
        self._server = http_server(self.handlers)
        self.url = await self._listen(self._server, self._host, self._port, context)
        self.plain_url = "" if context else self.url
        if self._also_plain and context is not None:
            self.plain_url = await self._listen(self._server, "127.0.0.1", 0, None)
        if self.kubeconfig_path is not None:
            try:
                write_kubeconfig(self.kubeconfig_path, self.url, self.token, self._certificate)
            except UsageError:
                await self.stop()
                raise
        if self.garbage is not None:
            self.garbage.start()
            self._tasks.append(asyncio.create_task(self.garbage.run()))
            self._tasks.append(asyncio.create_task(self._expire_events()))
        if self._journal is not None:
            await self._journal.durable()

    async def _expire_events(self) -> None:
        while True:
            await asyncio.sleep(EVENT_CHECK_S)
            expire_events(self.api, self._event_ttl_s)

    async def _listen(self, server: AsyncServer, host: str, port: int, context: ssl.SSLContext | None) -> str:
        try:
            address, chosen = await server.listen(host, port, tls=context)
        except OSError as error:
            await server.close()
            self._server = None
            raise UsageError(f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}") from None
        shown = f"[{address}]" if ":" in address else address
        return f"{'https' if context else 'http'}://{shown}:{chosen}"

    async def stop(self) -> None:
        """Stop listening, end watches, and write everything to disk."""
        self.hub.close()
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        if self.garbage is not None:
            self.garbage.stop()
        if self._server is not None:
            await self._server.close()
            self._server = None
        if self._journal is not None:
            await self._journal.close()
            self._journal = None

    async def __aenter__(self) -> ControlPlane:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _named(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


# --------------------------------------------------------------------------------------------------------------------
# The API over HTTP: requests in, answers and watches out. What a request means is decided in ``handlers``.


class _HttpRequest(ApiRequest):
    """A request that came over a socket; its body may still be on the way."""

    __slots__ = ("_request",)

    def __init__(self, request: ServedRequest) -> None:
        message = request.message
        headers = {name.title(): value for name, value in message.headers.items()}  # as handlers spell them
        super().__init__(message.method, message.target.decode("utf-8", "surrogateescape"), headers)
        self._request = request

    def cut(self) -> None:
        self._request.cut()

    async def read(self) -> bytes:
        try:
            return await self._request.read()
        except Refused as refused:
            raise _status_of(refused) from None


def http_server(handlers: Handlers) -> AsyncServer:
    """A server that answers by these handlers."""

    async def handle(request: ServedRequest) -> ServedAnswer:
        asked = _HttpRequest(request)
        answer = await handlers.answer(asked)
        if isinstance(answer, Reply):
            return _served(answer)
        answer.on_overrun(request.cut)
        return ServedAnswer(200, [("Content-Type", JSON), ("Cache-Control", "no-cache, private")], answer)

    def refuse(refused: Refused) -> ServedAnswer:
        return _served(Reply.failure(_status_of(refused)))

    return AsyncServer(handle, refuse, max_body_bytes=MAX_BODY_BYTES)


def _served(reply: Reply) -> ServedAnswer:
    return ServedAnswer(reply.code, [("Content-Type", reply.content_type), *reply.headers], reply.body, reply.is_last)


def _status_of(refused: Refused) -> StatusError:
    if refused.status == 413:
        return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")
    if refused.status == 408:
        return StatusError(408, "Timeout", str(refused))
    return status.bad_request(str(refused))
