"""The process's HTTPS endpoints, with upstream's paths, headers and bodies.

Their content comes from callables, so that this module does not depend on the scheduler. Every answer is made from
memory; only authentication and authorisation ask the API server.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import datetime
import platform
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import yaml

from mooring.api.clock import Clock, SystemClock
from mooring.api.core import Pod
from mooring.api.errors import ApiError, UsageError
from mooring.live import logs
from mooring.live.control import HealthChecks, HealthVerdict, ping
from mooring.live.logs import get_logger
from mooring.live.resource_metrics import render_pod_resources
from mooring.live.serving_auth import AuthenticationFailed, DelegatedAuth, ServerTls, TlsFiles, User
from mooring.net.http1 import Message
from mooring.net.http_io import Bounds, Request, Response, body_of
from mooring.net.prometheus import CONTENT_TYPE
from mooring.net.server import BodyMemory, Connection, Connections
from mooring.net.tls import Identity, self_signed

log = get_logger("mooring.live.serving")

WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, "
    "has no formatting compatibility guarantees and is for debugging purposes only."
)
PLAIN = "text/plain; charset=utf-8"
NOSNIFF = {"X-Content-Type-Options": "nosniff"}
SHUTDOWN_S = 5.0
RELOAD_S = 10.0
MAX_CONNECTIONS = 128
MAX_BODY_BYTES = 1 << 20
MAX_BODIES_BYTES = 8 << 20  # of all requests that are arriving


class MetricsSource(Protocol):
    """Source of /metrics."""

    def refresh(self) -> None:
        """Update gauges; called through ``Sources.ask``."""

    def exposition(self) -> bytes:
        """Render the metrics; called in any thread, one call at a time."""

    def reset(self) -> None:
        """Reset all counts; called through ``Sources.ask``."""


Pages = Mapping[str, Callable[[Request, str], Awaitable[Response]]]


async def ask_here(question: Callable[[], Any]) -> Any:
    """Call the function in the same thread."""
    return question()


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Flags of the secure server, which listens on loopback by default."""

    bind_address: str = "127.0.0.1"
    port: int = 10259
    tls: TlsFiles = field(default_factory=TlsFiles)
    client_ca: bytes | None = None
    make_identity: Callable[..., Identity] = self_signed
    """Makes a certificate for these hosts, where no files are given."""
    profiling: bool = True
    read_s: float = 32.0
    """Read timeout of a request; upstream's servers allow as much for its headers."""
    idle_s: float = 90.0
    """Idle timeout of a connection, as of upstream's servers."""


@dataclass(slots=True)
class Sources:
    """Content of the endpoints. Each callable is called for every request."""

    metrics: MetricsSource
    health: HealthChecks
    config: Callable[[], Any]
    """The configuration in force, as the v1 object."""
    flags: Callable[[], Mapping[str, str]]
    """All flags with their values, as text."""
    pods: Callable[[], Sequence[Pod]] = lambda: ()
    """All pods that /metrics/resources counts; none while not leading."""
    json_endpoints: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """Further paths with a JSON body, such as the queue's content; called by way of ``ask``."""
    pages: Pages = field(default_factory=dict)
    """Pages below further paths, such as "/ui". A page gets the rest of the path, which begins with /."""
    ask: Callable[[Callable[[], Any]], Awaitable[Any]] = ask_here
    """Calls a function in the scheduler's thread; raises TimeoutError while that thread is busy."""
    component: str = "kube-scheduler"
    version: str = "1.36.4"
    emulation_version: str = "1.36"
    paths: tuple[str, ...] = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")
    has_flagz: bool = True  # the gate ComponentFlagz
    has_statusz: bool = True  # the gate ComponentStatusz


def default_health() -> HealthChecks:
    """Return the checks of every scheduler; the caller adds those that depend on its connections."""
    health = HealthChecks()
    health.add("ping", ping, "healthz", "livez")
    return health


class _Scrape:
    """Renders metrics. Concurrent requests share the next rendering, so a flood of them costs two.

    Rendering takes a while with tens of thousands of pods or series. It happens in another thread, because the lease is
    renewed in this one.
    """

    def __init__(self, render: Callable[[], Awaitable[bytes]]) -> None:
        self._render = render
        self._running = asyncio.Lock()
        self._next: asyncio.Task[bytes] | None = None

    async def next(self) -> bytes:
        if self._next is None:
            self._next = asyncio.create_task(self._run(), name="scrape")
        return await asyncio.shield(self._next)

    async def _run(self) -> bytes:
        async with self._running:
            self._next = None
            return await self._render()


class EndpointServer:
    """The HTTPS server. ``start`` listens, ``stop`` lets requests in flight finish for five seconds.

    Each connection has a thread, which speaks TLS and HTTP; answers are made in the loop in which ``start`` was called.
    """

    def __init__(
        self, settings: ServingSettings, sources: Sources, auth: DelegatedAuth, *, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._sources = sources
        self._auth = auth
        self._clock = clock or SystemClock()
        self._started_at = self._clock.now()
        self._connections: Connections | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._port = 0
        self._scrape_metrics = _Scrape(self._render_metrics)
        self._scrape_resources = _Scrape(self._render_resources)
        self._reloader: asyncio.Task[None] | None = None
        hosts = tuple(dict.fromkeys(("localhost", "127.0.0.1", settings.bind_address)))
        hosts = tuple(host for host in hosts if host not in ("0.0.0.0", "::", ""))
        self.tls = ServerTls(
            settings.tls, hosts=hosts, client_ca=settings.client_ca, make_identity=settings.make_identity
        )
        self._routes: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/metrics": self._metrics,
            "/metrics/resources": self._resources,
            "/metrics/slis": self._slis,
            "/configz": self._configz,
        }
        if sources.has_statusz:
            self._routes["/statusz"] = self._statusz
        if sources.has_flagz:
            self._routes["/flagz"] = self._flagz
        if settings.profiling:
            self._routes["/debug/flags/v"] = self._set_verbosity

    @property
    def port(self) -> int:
        """The listening port, for callers that asked for any port."""
        if self._connections is None:
            raise RuntimeError("not started")
        return self._port

    async def start(self, *, reload_s: float = RELOAD_S) -> None:
        """Start to listen."""
        settings = self._settings
        self._loop = asyncio.get_running_loop()
        connections = Connections(
            self._handle,
            lambda refused: _text(f"{refused}\n", refused.status),
            Bounds(MAX_BODY_BYTES, read_timeout_s=settings.read_s, idle_timeout_s=settings.idle_s),
            BodyMemory(MAX_BODIES_BYTES),
            most=MAX_CONNECTIONS,
            tls=self.tls.context,
        )
        address, port = settings.bind_address, settings.port
        try:
            self._port = connections.listen(address, port)
        except OSError as error:
            raise UsageError(f"cannot listen on {address}:{port}: {error.strerror or error}") from None
        self._connections = connections
        self._reloader = asyncio.create_task(self._reload(reload_s), name="serving certificate")
        log.info("Serving securely", address=f"{address}:{self.port}")

    async def stop(self) -> None:
        """Stop listening and let requests in flight finish."""
        if self._reloader is not None:
            self._reloader.cancel()
            await asyncio.gather(self._reloader, return_exceptions=True)
        if self._connections is not None:
            await asyncio.to_thread(self._connections.close, SHUTDOWN_S)

    async def _reload(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            if self.tls.reload() and self._connections is not None:
                self._connections.tls = self.tls.context

    # Every request

    def _handle(self, message: Message, connection: Connection) -> Response:
        """Answer a request; called in the connection's thread, which waits."""
        assert self._loop is not None
        peer = connection.sock.getpeercert() if isinstance(connection.sock, ssl.SSLSocket) else None
        request = Request.of(message, body_of(message, MAX_BODY_BYTES, connection.share))
        answering = self._answer(request, peer)
        try:
            return asyncio.run_coroutine_threadsafe(answering, self._loop).result()
        except (RuntimeError, concurrent.futures.CancelledError):  # the loop has ended
            answering.close()
            return _text("the scheduler is stopping\n", 503)

    async def _answer(self, request: Request, peer: Mapping[str, Any] | None) -> Response:
        path = request.path
        try:
            refusal = await self._admit(request, peer)
            answer = refusal if refusal is not None else await self._route(request, path)
        except TimeoutError:
            answer = _text("the scheduler is busy; try again\n", 503)
        except Exception as error:
            log.error(error, "Failed to serve an endpoint", path=path)
            answer = Response(b"internal server error\n", 500, PLAIN)
        answer.headers["Cache-Control"] = "no-cache, private"
        return answer

    async def _admit(self, request: Request, peer: Mapping[str, Any] | None) -> Response | None:
        path = request.path
        # Tokens are UTF-8, headers are bytes; what is neither is noticed there.
        shown = request.headers.get("authorization", "").encode("latin-1").decode("utf-8", "surrogateescape")
        try:
            user = await self._auth.authenticate(shown, peer)
        except AuthenticationFailed:
            return _status(401, "Unauthorized", "Unauthorized")
        verb = request.method.lower()
        try:
            allowed, reason = await self._auth.authorize(user, verb, path)
        except ApiError as error:
            log.error(error, "Unable to authorize a request", path=path)
            return _text(f'Internal Server Error: "{path}": {error}\n', 500)
        return None if allowed else _forbidden(user, verb, path, reason)

    async def _route(self, request: Request, path: str) -> Response:
        handler = self._routes.get(path)
        if handler is not None:
            return await handler(request)
        top, _, name = path[1:].partition("/")
        if top in ("healthz", "livez", "readyz"):
            return self._health(request, top, name)
        make = self._sources.json_endpoints.get(path)
        if make is not None and request.method == "GET":
            return _json_bytes(await self._sources.ask(make))
        page = self._sources.pages.get(f"/{top}")
        if page is None or request.method != "GET":
            return _not_found()
        if path == f"/{top}":
            return Response(b"", 301, headers={"Location": f"{top}/"})  # its links are relative to that
        return await page(request, f"/{name}")

    # Health

    def _health(self, request: Request, path: str, name: str) -> Response:
        verdict: HealthVerdict | None
        if name:
            verdict = self._sources.health.run_one(path, name)
        else:
            exclude = [value for value in request.query.get("exclude", ()) if value]
            verdict = self._sources.health.run(path, verbose="verbose" in request.query, exclude=exclude)
        if verdict is None:
            return _not_found()
        return _text(verdict.body, verdict.status)

    # Metrics

    async def _metrics(self, request: Request) -> Response:
        if request.method == "DELETE":
            await self._sources.ask(self._sources.metrics.reset)
            return _text("metrics reset\n")
        return self._exposition(await self._scrape_metrics.next())

    async def _render_metrics(self) -> bytes:
        with contextlib.suppress(TimeoutError):  # the gauges of a moment ago will do
            await self._sources.ask(self._sources.metrics.refresh)
        return await asyncio.to_thread(self._sources.metrics.exposition)

    async def _resources(self, request: Request) -> Response:
        return self._exposition(await self._scrape_resources.next())

    async def _render_resources(self) -> bytes:
        return await asyncio.to_thread(render_pod_resources, list(self._sources.pods()))

    async def _slis(self, request: Request) -> Response:
        return self._exposition(self._sources.health.render_slis())

    def _exposition(self, body: bytes) -> Response:
        headers = {"Process-Start-Time-Unix": str(int(self._started_at))}
        return Response(body, content_type=CONTENT_TYPE, headers=headers)

    # What is configured

    async def _configz(self, request: Request) -> Response:
        return _json_bytes({"componentconfig": self._sources.config()})

    async def _statusz(self, request: Request) -> Response:
        sources = self._sources
        uptime_s = int(self._clock.now() - self._started_at)
        started = datetime.datetime.fromtimestamp(int(self._started_at), datetime.UTC)
        language = f"python{platform.python_version()}"
        paths = [path for path in sources.paths if path != "/flagz" or sources.has_flagz]

        def text() -> str:
            hours, rest = divmod(uptime_s, 3600)
            return (
                f"\n{sources.component} statusz\n{WARNING}\n\n"
                f"Started: {started:%a %b} {started.day:2d} {started:%H:%M:%S} UTC {started.year}\n"
                f"Up: {hours} hr {rest // 60:02d} min {rest % 60:02d} sec\n"
                f"Go version: {language}\n"
                f"Binary version: {sources.version}\n"
                f"Emulation version: {sources.emulation_version}\n"
                f"Paths: {' '.join(paths)}\n"
            )

        fields = {
            "startTime": f"{started:%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": uptime_s,
            "goVersion": language,
            "binaryVersion": sources.version,
            "emulationVersion": sources.emulation_version,
            "paths": paths,
        }
        return self._zpage(request, "Statusz", text, fields)

    async def _flagz(self, request: Request) -> Response:
        flags = dict(sorted(self._sources.flags().items()))

        def text() -> str:
            lines = "".join(f"{name} {value}\n" for name, value in flags.items())
            return f"\n{self._sources.component} flagz\n{WARNING}\n{lines}"

        return self._zpage(request, "Flagz", text, {"flags": flags})

    def _zpage(self, request: Request, kind: str, text: Callable[[], str], fields: Mapping[str, Any]) -> Response:
        chosen = negotiate(request.headers.get("accept", ""), kind)
        if chosen is None:
            accepted = "application/json, application/yaml, text/plain"
            return _status(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")
        media, version = chosen
        if media == "text/plain":
            return Response(text().encode(), content_type=PLAIN)
        body = {
            "kind": kind,
            "apiVersion": f"config.k8s.io/{version}",
            "metadata": {"name": self._sources.component},
            **fields,
        }
        content_type, headers = f"{media};g=config.k8s.io;v={version};as={kind}", {}
        if version == "v1alpha1":
            text_ = f"This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."
            headers["Warning"] = f'299 - "{text_}"'
        if media == "application/yaml":
            return Response(yaml.safe_dump(body, sort_keys=True).encode(), 200, content_type, headers)
        return Response(msgspec.json.encode(body) + b"\n", 200, content_type, headers)

    # Verbosity while running

    async def _set_verbosity(self, request: Request) -> Response:
        if request.method != "PUT":
            return _plain("unsupported http method\n", 406)
        value = request.body[:64].decode("utf-8", "replace").strip()
        if not value.isdecimal() or int(value) > 100:
            return _plain(f'error in setting log level: invalid value "{value}"\n', 400)
        logs.set_verbosity(int(value))
        return _plain(f"successfully set klog.logging.verbosity to {value}", 200)


def negotiate(accept: str, kind: str) -> tuple[str, str] | None:
    """Choose a z-page's format: text by default, structured only if the client names group, version and kind."""
    for entry in accept.split(",") if accept.strip() else ["*/*"]:
        media, *parameters = (part.strip() for part in entry.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media in ("text/plain", "text/*", "*/*"):
            return "text/plain", ""
        if media in ("application/json", "application/yaml"):
            version = values.get("v", "")
            if values.get("g") == "config.k8s.io" and values.get("as") == kind and version in ("v1alpha1", "v1beta1"):
                return media, version
    return None


def _text(body: str, status: int = 200) -> Response:
    return Response(body.encode(), status, PLAIN, dict(NOSNIFF))


def _plain(body: str, status: int) -> Response:
    return Response(body.encode(), status, "text/plain", dict(NOSNIFF))


def _not_found() -> Response:
    return _text("404 page not found\n", 404)


def _json_bytes(value: Any) -> Response:
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return Response(body, headers=dict(NOSNIFF))


def _status(code: int, reason: str, message: str, **details: Any) -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **details,
        "code": code,
    }
    return Response(msgspec.json.encode(body) + b"\n", code)


def _forbidden(user: User, verb: str, path: str, reason: str) -> Response:
    message = f'forbidden: User "{user.name}" cannot {verb} path "{path}"' + (f": {reason}" if reason else "")
    answer = _status(403, "Forbidden", message, details={})
    answer.headers.update(NOSNIFF)
    return answer
