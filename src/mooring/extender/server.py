"""A server for an extender: bounded in size, time and number, and always with an answer that a scheduler can read.

| what happens | filter, bind | prioritize, preempt |
|---|---|---|
| a handler raises, blocks, returns nonsense | 200 and ``Error``: it reaches the pod's event | 500 and ``Error`` |
| names where it reads whole nodes | 200 and ``Error`` | 500 and ``Error`` |
| not JSON, or not the request it should be | 400 and ``Error`` | 400 and ``Error`` |
| another content type, too large a body | 415, 413 and ``Error`` | 415, 413 and ``Error`` |

Handlers run in threads: a slow one does not keep others waiting, and one that
never returns costs a thread until there are none left.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from mooring.extender.handlers import Facts, HandlerError, Served
from mooring.extender.requests import BadRequest, WrongForm

log = logging.getLogger("mooring.extender.server")

_CAN_SAY_ERROR = ("filter", "bind")  # the others' answers have no room for one
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost."""

    max_body_bytes: int = 256 << 20
    handler_timeout_s: float = 4.5  # just under kube-scheduler's own patience
    read_timeout_s: float = 30.0
    threads: int = 16
    waiting: int = 256  # requests that may wait for a thread; more are turned away at once


class Metrics:
    """What ``/metrics`` shows."""

    def __init__(self, name: str) -> None:
        self.registry = CollectorRegistry()
        labels = ["verb", "code"]
        self.requests = Counter(
            "mooring_extender_requests_total", "Requests by verb and outcome.", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "mooring_extender_request_duration_seconds",
            "How long requests took, from the last byte in to the first byte out.",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.nodes = Counter(
            "mooring_extender_nodes_total",
            "Nodes that were offered (result=offered) and kept.",
            ["verb", "result"],
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "mooring_extender_requests_in_flight", "Requests being answered.", registry=self.registry
        )
        info = Gauge("mooring_extender_info", "The extender that is served.", ["name"], registry=self.registry)
        info.labels(name).set(1)


class ExtenderServer:
    """Routes, limits, metrics and logs around an extender's verbs."""

    def __init__(self, served: Served, *, prefix: str = "", limits: Limits | None = None) -> None:
        self.served = served
        self.limits = limits or Limits()
        self.metrics = Metrics(served.settings.name)
        self._prefix = "/" + prefix.strip("/") if prefix.strip("/") else ""
        self._pool = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="extender")
        self._in_flight = 0
        self._lock = threading.Lock()

    @property
    def is_busy(self) -> bool:
        """Whether a handler is still running, perhaps for ever."""
        return self._in_flight > 0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=self.limits.max_body_bytes, middlewares=[_say_errors])
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/livez", self._health)
        app.router.add_get("/readyz", self._health)
        app.router.add_get("/metrics", self._metrics)
        for verb in self.served.verbs:
            app.router.add_post(f"{self._prefix}/{verb}", self._route(verb))
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, app: web.Application) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _route(self, verb: str) -> Callable[[web.Request], Awaitable[web.Response]]:
        answer = self.served.verbs[verb]
        seconds = self.metrics.seconds.labels(verb)
        offered = self.metrics.nodes.labels(verb, "offered")
        kept = self.metrics.nodes.labels(verb, "kept")
        succeeded = self.metrics.requests.labels(verb, "200")

        async def handle(request: web.Request) -> web.Response:
            self.metrics.in_flight.inc()
            started = time.perf_counter()
            try:
                body = await self._body(request)
                started = time.perf_counter()
                data, facts = await self._run(verb, answer, body)
            except (_Refused, BadRequest, HandlerError) as error:
                return self._failed(verb, error, time.perf_counter() - started)
            finally:
                self.metrics.in_flight.dec()
            took_s = time.perf_counter() - started
            seconds.observe(took_s)
            succeeded.inc()
            offered.inc(facts.nodes)
            kept.inc(max(facts.kept, 0))
            if log.isEnabledFor(logging.INFO):
                values = {"pod": facts.pod, "nodes": facts.nodes, "kept": facts.kept, "ms": round(took_s * 1000, 2)}
                log.info(verb, extra={"values": values})
            return _json(data)

        return handle

    async def _body(self, request: web.Request) -> bytes:
        kind = request.content_type
        if request.headers.get("Content-Type") and kind != "application/json" and not kind.endswith("+json"):
            raise _Refused(415, f"Content-Type is {kind}; application/json would be right")
        try:
            async with asyncio.timeout(self.limits.read_timeout_s):
                return await request.read()
        except TimeoutError:
            raise _Refused(408, f"the body did not arrive within {self.limits.read_timeout_s:g} s") from None
        except web.HTTPRequestEntityTooLarge:
            raise _Refused(413, f"the body is larger than {self.limits.max_body_bytes:,} bytes") from None
        except (zlib.error, web.HTTPBadRequest, web.RequestPayloadError, ValueError):
            raise _Refused(400, "the body is not what its Content-Encoding says") from None

    async def _run(self, verb: str, answer: Callable[[bytes], tuple[bytes, Facts]], body: bytes) -> tuple[bytes, Facts]:
        if self._in_flight >= self.limits.threads + self.limits.waiting:
            raise _Refused(503, f"{self._in_flight} requests are being answered; this one is too many")
        with self._lock:
            self._in_flight += 1
        work = self._pool.submit(_guarded, verb, answer, body)
        work.add_done_callback(self._done)
        future = asyncio.wrap_future(work)
        done, _ = await asyncio.wait((future,), timeout=self.limits.handler_timeout_s)
        if not done:
            work.cancel()  # one that has not begun never will; one that has goes on, and counts until it returns
            future.add_done_callback(_look_away)
            raise HandlerError(f"{verb} did not finish within {self.limits.handler_timeout_s:g} s")
        return future.result()

    def _done(self, work: Future[tuple[bytes, Facts]]) -> None:
        """Called in the thread that did the work."""
        with self._lock:
            self._in_flight -= 1

    def _failed(self, verb: str, error: Exception, took_s: float) -> web.Response:
        if isinstance(error, _Refused):
            status = error.status
        elif isinstance(error, BadRequest) and not isinstance(error, WrongForm):
            status = 400
        else:
            status = 200 if verb in _CAN_SAY_ERROR else 500
        self.metrics.seconds.labels(verb).observe(took_s)
        self.metrics.requests.labels(verb, "error" if status == 200 else str(status)).inc()
        log.error(f"{verb} failed", extra={"values": {"err": str(error), "code": status}})
        return _json(error_answer(verb, str(error)), status)


def _look_away(future: asyncio.Future[tuple[bytes, Facts]]) -> None:
    """Whoever asked has gone; an error that nobody looks at would be complained about."""
    if not future.cancelled():
        future.exception()


class _Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _guarded(verb: str, answer: Callable[[bytes], tuple[bytes, Facts]], body: bytes) -> tuple[bytes, Facts]:
    """In a thread: what a handler raises becomes a text."""
    try:
        return answer(body)
    except (BadRequest, HandlerError):
        raise
    except Exception as error:
        log.warning("the handler of %s raised", verb, exc_info=True)
        text = f"{verb} raised {type(error).__name__}: {error}"
        raise HandlerError(text.replace("\n", " ")[:1000]) from None


def error_answer(verb: str, text: str) -> bytes:
    """An answer that says what went wrong, in the form of the verb's own answer where that has a form for it."""
    if verb == "filter":
        empty = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None}
        return msgspec.json.encode({**empty, "Error": text})
    return msgspec.json.encode({"Error": text})


def _json(data: bytes, status: int = 200) -> web.Response:
    # Accept-Encoding in an answer says that later requests may come compressed (RFC 7694).
    return web.Response(body=data, status=status, content_type="application/json", headers={"Accept-Encoding": "gzip"})


@web.middleware
async def _say_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Unknown paths and methods get JSON, too."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        text = f"{request.method} {request.path}: {error.reason.lower()}"
        if error.status == 405:
            text += "; a scheduler sends POST"
        return _json(msgspec.json.encode({"Error": text}), error.status)


async def serve(
    server: ExtenderServer,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    tls: ssl.SSLContext | None = None,
) -> tuple[web.AppRunner, int]:
    """Start serving; return the runner (``cleanup`` ends it) and the port."""
    # A body of 5,000 nodes is 10 MB and more: with the usual small buffer reading it would stop and go all the time.
    runner = web.AppRunner(server.app(), access_log=None, keepalive_timeout=90.0, read_bufsize=4 << 20)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls, backlog=512)
    await site.start()
    sockets = runner.addresses
    return runner, int(sockets[0][1])


def run_server(main: Coroutine[Any, Any, None]) -> None:
    """Run an event loop for a server: uvloop's where it is installed (``pip install mooring[fast]``)."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
