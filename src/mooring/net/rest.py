"""Requests to an API server: reads, writes and streams, with the retries of client-go.

- Reads and streams have their own connections, and writes share those of the pool.
- 429 and 5xx are retried after Retry-After, at most ten times, and only if the server sends that header. All
  these pauses together take no longer than the request itself may.
- A 401 invalidates the credentials and is retried once.
- ``RateLimiter`` delays everything but watches. Unsuccessful responses become the exceptions of ``errors``.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import re
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec

from mooring.api.clock import Clock, SystemClock
from mooring.api.errors import ApiError, InputError
from mooring.api.version import __version__
from mooring.net.connect import MAX_ANSWER_BYTES, Connector, HeaderFields, HttpAnswer, Proxy
from mooring.net.errors import ConnectionFailed, RequestTimeout, ServerError, error_of_answer, parse_retry_after
from mooring.net.http1_connection import ReadConnections, Reading
from mooring.net.kubeconfig import ClientConfig
from mooring.net.pool import ConnectionPool, RateLimiter
from mooring.net.tls import TlsSettings

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

MAX_RETRIES = 10
DEFAULT_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 30.0
MAX_REFUSAL_BYTES = 1 << 16
MAX_READ_S = 600.0
"""Maximum duration of a streamed response, however steadily it arrives."""
PAPERWORK_CONNECTIONS, PAPERWORK_BATCH = 4, 16
"""Events share a few connections: several in one write, and their responses in one read."""


class BodySink(Protocol):
    """Receiver of a streamed body, which is never in memory as a whole."""

    size: int

    def begin(self) -> None:
        """Begin the body; earlier bytes are void, because an interrupted read is repeated."""

    async def feed(self, chunk: bytes) -> None: ...


class RequestObserver(Protocol):
    """Observes requests, for metrics."""

    def requested(self, host: str, method: str, code: str, duration_s: float, sent: int, received: int) -> None:
        """Count a request; ``sent`` and ``received`` are the sizes of its body and of the response's."""

    def held_back(self, host: str, method: str, seconds: float) -> None:
        """Count the delay by the client's own rate limit, often zero."""


def user_agent(component: str = "mooring", suffix: str = "") -> str:
    """Return the user agent as client-go writes it: name/version (os/arch)/suffix."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    agent = f"{component}/v{__version__} ({sys.platform}/{machine})"
    return f"{agent}/{suffix}" if suffix else agent


def with_query(path: str, query: Mapping[str, str] | None) -> str:
    """Append a query as client-go encodes it, sorted by name."""
    if not query:
        return path
    return f"{path}?{urlencode(sorted(query.items()))}"


class Transport:
    """Connections to one server; several clients may share them, each with its own limits and name.

    With a proxy, a TLS server is reached through a tunnel (CONNECT). A plain one is not: the proxy itself gets the
    request, with the whole URL as the target, and forwards it.
    """

    def __init__(self, config: ClientConfig, *, max_connections: int = 32) -> None:
        self.config = config
        parts = urlsplit(config.server)
        self.host = parts.netloc
        self.prefix = parts.path.rstrip("/")
        self.proxy_headers: list[tuple[str, str]] = []
        server = f"{parts.scheme}://{self.host}"
        proxy = Proxy.of_url(config.proxy_url) if config.proxy_url is not None else None
        self.where = server if proxy is None else f"{server} through the proxy {proxy}"
        connector: Callable[..., Connector] = partial(
            Connector,
            parts.hostname or "",
            parts.port or (443 if config.is_tls else 80),
            server_name=config.tls.server_name,
            proxy=proxy,
            proxy_tls=partial(self.tls_context, config.tls),
            connect_timeout_s=CONNECT_TIMEOUT_S,
        )
        tls_of_reads = tls_of_writes = None
        if config.is_tls:
            tls_of_reads = partial(self.tls_context, config.tls)
            tls_of_writes = partial(self.tls_context, config.tls.for_protocols("h2", "http/1.1"))
        elif proxy is not None:
            self.prefix = server + self.prefix
            if proxy.authorization:
                self.proxy_headers.append(("Proxy-Authorization", proxy.authorization))
        to_write = connector(tls=tls_of_writes, arrives_within_s=config.arrives_within_s)
        self.pool = ConnectionPool(to_write, max_connections=max_connections)
        # For writes that no caller waits for.
        self.paperwork = ConnectionPool(to_write, max_connections=PAPERWORK_CONNECTIONS, batch=PAPERWORK_BATCH)
        self._reads = ReadConnections(connector(tls=tls_of_reads))

    def tls_context(self, settings: TlsSettings) -> ssl.SSLContext:
        """Return the context for a new connection; a currently unusable file may be replaced later."""
        try:
            return settings.context(self.config.credentials.certificate)
        except InputError as error:
            raise ConnectionFailed(str(error), was_sent=False) from error

    def open(self, target: str, headers: list[tuple[str, str]]) -> AbstractAsyncContextManager[Reading]:
        """Send a GET and return the response before its body has arrived."""
        return self._reads.get(target, HeaderFields(self.host, headers))

    async def close(self) -> None:
        for connections in (self.pool, self.paperwork, self._reads):
            await connections.close()


class RestClient:
    """A client of one API server with one name and one rate limit.

    ``request`` returns a successful response and raises a subclass of ``ApiError`` otherwise.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        agent: str = "",
        qps: float = 50.0,
        burst: int = 100,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_connections: int = 32,
        observer: RequestObserver | None = None,
        transport: Transport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        is_fenced: Callable[[], bool] = lambda: False,
        is_paperwork: bool = False,
        heeds_retry_after: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """``is_fenced`` is called right before each write: whether this process has lost the right to write.

        No caller waits for ``is_paperwork`` writes: they have their own connections, and delay each other.
        ``heeds_retry_after`` is false for a caller with its own retry schedule.
        """
        self.config = config
        self.transport = transport or Transport(config, max_connections=max_connections)
        self.agent = agent or user_agent()
        self.clock = clock or SystemClock()
        self.limiter = RateLimiter(qps, burst, clock=self.clock)
        self.timeout_s = timeout_s
        self._qps, self._burst = qps, burst
        self._observer = observer
        self._sleep = sleep
        self._is_fenced = is_fenced
        self._is_paperwork = is_paperwork
        self._heeds_retry_after = heeds_retry_after
        self._known_fields: dict[str, HeaderFields] = {}  # by content type
        self._fields_authorization: str | None = None

    def sibling(
        self,
        *,
        agent: str = "",
        qps: float | None = None,
        burst: int | None = None,
        is_fenced: Callable[[], bool] = lambda: False,
        is_paperwork: bool = False,
    ) -> RestClient:
        """Return a client that shares the connections but has its own rate limit, name and fence."""
        return RestClient(
            self.config,
            agent=agent or self.agent,
            qps=self._qps if qps is None else qps,
            burst=self._burst if burst is None else burst,
            timeout_s=self.timeout_s,
            observer=self._observer,
            transport=self.transport,
            is_fenced=is_fenced,
            is_paperwork=is_paperwork,
            clock=self.clock,
        )

    async def close(self) -> None:
        """Close the connections, also those of siblings."""
        await self.transport.close()

    async def __aenter__(self) -> RestClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Verbs

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        timeout_s: float | None = None,
        limited: bool = True,
        into: BodySink | None = None,
    ) -> Coroutine[Any, Any, HttpAnswer]:
        """With ``into`` the response has no body, and ``timeout_s`` limits the silence between its parts."""
        return self.request("GET", with_query(path, query), timeout_s=timeout_s, limited=limited, into=into)

    def create(
        self, path: str, body: bytes, query: Mapping[str, str] | None = None, *, timeout_s: float | None = None
    ) -> Coroutine[Any, Any, HttpAnswer]:
        return self.request("POST", with_query(path, query), body, content_type=JSON, timeout_s=timeout_s)

    def update(
        self, path: str, body: bytes, query: Mapping[str, str] | None = None, *, timeout_s: float | None = None
    ) -> Coroutine[Any, Any, HttpAnswer]:
        return self.request("PUT", with_query(path, query), body, content_type=JSON, timeout_s=timeout_s)

    def patch(
        self,
        path: str,
        body: bytes,
        query: Mapping[str, str] | None = None,
        *,
        content_type: str = STRATEGIC_MERGE_PATCH,
        timeout_s: float | None = None,
    ) -> Coroutine[Any, Any, HttpAnswer]:
        return self.request("PATCH", with_query(path, query), body, content_type=content_type, timeout_s=timeout_s)

    def delete(
        self, path: str, body: bytes = b"", query: Mapping[str, str] | None = None, *, timeout_s: float | None = None
    ) -> Coroutine[Any, Any, HttpAnswer]:
        kind = JSON if body else ""
        return self.request("DELETE", with_query(path, query), body, content_type=kind, timeout_s=timeout_s)

    # The request itself

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
        """Send a request, with client-go's retries; ``path`` is escaped and includes the query."""
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        may_refresh, waited_s = True, 0.0
        for attempt in range(MAX_RETRIES + 1):
            if limited or attempt:
                delay_s = self.limiter.reserve()
                if self._observer is not None:
                    self._observer.held_back(self.transport.host, method, delay_s)
                if delay_s > 0:
                    await self._sleep(delay_s)
            if not self.config.credentials.is_fresh():
                await self._refresh_credentials()
            started = self.clock.monotonic()
            try:
                answer = await self._once(method, path, body, content_type, timeout_s, into)
            except BaseException as error:
                if self._observer is not None:
                    took_s = self.clock.monotonic() - started
                    self._observer.requested(self.transport.host, method, "<error>", took_s, len(body), 0)
                # An interrupted read is repeated. An unreachable server is left to the caller's backoff.
                if attempt >= MAX_RETRIES or not _was_cut_off(method, error):
                    raise
                await self._sleep(min(1.0, 0.05 * 2**attempt))
                continue
            status = answer.status
            if self._observer is not None:
                took_s = self.clock.monotonic() - started
                received = len(answer.body) if into is None or answer.body else into.size
                self._observer.requested(self.transport.host, method, str(status), took_s, len(body), received)
            if 200 <= status < 300:
                return answer
            if status == 401 and may_refresh and self.config.credentials.invalidate():
                may_refresh = False
                continue
            if attempt < MAX_RETRIES and self._heeds_retry_after and (status == 429 or status >= 500):
                wait_s = parse_retry_after(answer.headers.get("retry-after"))
                if wait_s is not None and waited_s + wait_s <= timeout_s:
                    waited_s += wait_s
                    await self._sleep(wait_s)
                    continue
            raise error_of_answer(status, answer.body, answer.headers, method=method, path=path)
        raise AssertionError("the last attempt returns or raises")

    def _once(
        self, method: str, path: str, body: bytes, content_type: str, timeout_s: float, into: BodySink | None
    ) -> Coroutine[Any, Any, HttpAnswer]:
        """Send once: writes go through the pool, reads have their own connections."""
        if method == "GET":
            return self._read(path, timeout_s, into)
        pool = self.transport.paperwork if self._is_paperwork else self.transport.pool
        target = (self.transport.prefix + path).encode()
        return pool.send(method, target, self._fields(content_type), body, timeout_s, self._is_fenced)

    async def _refresh_credentials(self) -> None:
        try:
            await self.config.credentials.refresh()
        except InputError as error:
            # A failing plugin may work later: for a watch or a writer this is like an unreachable server.
            raise ConnectionFailed(str(error), was_sent=False) from error

    def _fields(self, content_type: str) -> HeaderFields:
        authorization = self.config.credentials.authorization
        if authorization != self._fields_authorization:
            self._known_fields.clear()
            self._fields_authorization = authorization
        known = self._known_fields.get(content_type)
        if known is None:
            known = self._known_fields[content_type] = HeaderFields(self.transport.host, self._headers(content_type))
        return known

    def _headers(self, content_type: str) -> list[tuple[str, str]]:
        headers = [("User-Agent", self.agent), ("Accept", JSON)]
        authorization = self.config.credentials.authorization
        if authorization:
            headers.append(("Authorization", authorization))
        if content_type:
            headers.append(("Content-Type", content_type))
        headers.extend(self.config.extra_headers)
        headers.extend(self.transport.proxy_headers)
        return headers

    async def _read(self, path: str, timeout_s: float, into: BodySink | None) -> HttpAnswer:
        now = asyncio.get_running_loop().time
        latest = now() + MAX_READ_S
        try:
            async with asyncio.timeout(timeout_s) as timer:
                async with self.transport.open(self.transport.prefix + path, self._headers("")) as got:
                    if not 200 <= got.status < 300:
                        return HttpAnswer(got.status, got.headers, await _whole(got, MAX_REFUSAL_BYTES))
                    if into is None:
                        body = await _whole(got, MAX_ANSWER_BYTES)
                        if len(body) > MAX_ANSWER_BYTES:
                            raise ApiError(
                                f"GET {path.partition('?')[0]}: the answer is longer than {MAX_ANSWER_BYTES:,} bytes"
                            )
                        return HttpAnswer(got.status, got.headers, body)
                    into.begin()
                    while chunk := await got.readany():
                        await into.feed(chunk)
                        timer.reschedule(min(now() + timeout_s, latest))
                    return HttpAnswer(got.status, got.headers, b"")
        except TimeoutError:
            # Whether it had been sent by then is unknown here, so it may have been.
            text = f"GET {path.partition('?')[0]}: no answer from {self.transport.where} in {timeout_s:g}s"
            raise RequestTimeout(text, was_sent=True) from None

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
        start_timeout_s: float | None = None,
    ) -> AsyncIterator[Reading]:
        """Open a GET whose body is streamed; not rate limited, as client-go does not limit watches.

        ``timeout_s`` limits the whole stream, ``start_timeout_s`` the time until the headers arrive.
        """
        target = with_query(path, query)
        start_timeout_s = self.timeout_s if start_timeout_s is None else start_timeout_s
        for may_refresh in (True, False):
            if not self.config.credentials.is_fresh():
                await self._refresh_credentials()
            try:
                async with asyncio.timeout(start_timeout_s) as timer:
                    async with self.transport.open(self.transport.prefix + target, self._headers("")) as got:
                        if got.status == 401 and may_refresh and self.config.credentials.invalidate():
                            continue
                        if not 200 <= got.status < 300:
                            body = await _whole(got, MAX_REFUSAL_BYTES)
                            raise error_of_answer(got.status, body, got.headers, method="GET", path=target)
                        timer.reschedule(asyncio.get_running_loop().time() + timeout_s)
                        yield got
                        return
            except TimeoutError:
                raise RequestTimeout(f"GET {path}: the stream was silent for too long", was_sent=True) from None


def _was_cut_off(method: str, error: BaseException) -> bool:
    """Report whether the response of a read was truncated, so that the read may be repeated."""
    if not isinstance(error, ConnectionFailed) or isinstance(error, RequestTimeout):
        return False
    return error.was_sent and method == "GET"


async def _whole(reading: Reading, most: int) -> bytes:
    """Return the body, or its first ``most`` bytes."""
    parts: list[bytes] = []
    size = 0
    while size <= most and (part := await reading.readany()):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


# --------------------------------------------------------------------------------------------------------------------
# The Kubernetes version of an API server: the response to ``GET /version``.

_LEADING_DIGITS = re.compile(r"\d+")


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The version as the server reports it. A provider may add to it: minor ``34+``, gitVersion ``v1.34.1-gke.200``."""

    major: str = ""
    minor: str = ""
    git_version: str = ""

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor as numbers, to compare; (0, 0) if the server does not report them."""
        major, minor = _LEADING_DIGITS.match(self.major), _LEADING_DIGITS.match(self.minor)
        return (int(major[0]), int(minor[0])) if major and minor else (0, 0)


async def server_version(client: RestClient, *, timeout_s: float | None = None) -> ServerVersion:
    """Read the server's version."""
    answer = await client.get("/version", timeout_s=timeout_s)
    try:
        return msgspec.json.decode(answer.body, type=ServerVersion)
    except msgspec.DecodeError as error:
        raise ServerError(f"the answer to GET /version is not a version: {error}") from None
