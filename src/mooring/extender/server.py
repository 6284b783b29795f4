"""A server for an extender: bounded in size, time and number, and every answer is one that a scheduler can read.

| what happens | filter, bind | prioritize, preempt |
|---|---|---|
| a handler raises, blocks, returns nonsense | 200 and ``Error``: it reaches the pod's event | 500 and ``Error`` |
| names where it reads whole nodes | 200 and ``Error`` | 500 and ``Error`` |
| not JSON, or not the request it should be | 400 and ``Error`` | 400 and ``Error`` |
| another content type, too large a body | 415, 413 and ``Error`` | 415, 413 and ``Error`` |

A handler runs in its connection's thread, so a slow one delays no other. When a
handler does not return in time, the server answers in its place, and another may
run (``workers``). The health pages say 503 when too many handlers hang.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from mooring.config.duration import parse_duration
from mooring.extender.calls import Answerer, Facts, HandlerError
from mooring.extender.handlers import Served
from mooring.extender.requests import BadRequest, Body, WrongForm
from mooring.extender.server_metrics import ServerMetrics, VerbMetrics
from mooring.extender.workers import TooLate, Workers
from mooring.http1 import Message
from mooring.http_server.body_memory import BodyMemory
from mooring.http_server.connections import Connection, Connections
from mooring.http_server.http_io import Bounds, Refused, Response, body_of, path_of
from mooring.metrics import CONTENT_TYPE

log = logging.getLogger("mooring.extender.server")

_CAN_SAY_ERROR = ("filter", "bind")  # the others' answers have no room for one


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost, and all of them together."""

    max_body_bytes: int = 256 << 20
    total_body_bytes: int = 512 << 20  # what the bodies of all requests may hold together, compressed and not
    handler_timeout_s: float = 4.5  # just under kube-scheduler's own patience
    read_timeout_s: float = 30.0  # from its first byte to its last
    idle_timeout_s: float = 90.0  # between requests
    threads: int = 16  # handlers that may run at once
    waiting: int = 256  # requests that may wait for their turn; more are turned away at once
    connections: int = 512


def timeout_for(http_timeout: str) -> float:
    """How long a handler may take: a little less than the scheduler waits, so that the scheduler gets the reason."""
    return 0.9 * parse_duration(http_timeout) if http_timeout else Limits().handler_timeout_s


class ExtenderServer:
    """Routes, limits, metrics and logs around an extender's verbs."""

    def __init__(self, served: Served, *, prefix: str = "", limits: Limits | None = None) -> None:
        self.served = served
        self.limits = limits or Limits()
        self.metrics = ServerMetrics(served.settings.name)
        self._prefix = "/" + prefix.strip("/") if prefix.strip("/") else ""
        self._verbs = {f"{self._prefix}/{verb}": _Verb(verb, self) for verb in served.verbs}
        self._pages: dict[str, Callable[[], Response]] = {
            **dict.fromkeys(("/healthz", "/livez", "/readyz"), self._health),
            "/metrics": self._metrics,
        }
        self._workers: Workers | None = None
        self._connections: Connections | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a handler is still running; it may never return."""
        return self._workers is not None and self._workers.in_flight > 0

    def start(self, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None) -> int:
        """Begin to serve; return the port."""
        limits = self.limits
        bounds = Bounds(limits.max_body_bytes, limits.read_timeout_s, limits.idle_timeout_s)
        self._workers = Workers(limits.threads, most_waiting=limits.waiting, timeout_s=limits.handler_timeout_s)
        self._workers.start()
        memory = BodyMemory(max(limits.total_body_bytes, 2 * limits.max_body_bytes))
        self._connections = Connections(self._answer, self._refuse, bounds, memory, most=limits.connections, tls=tls)
        try:
            return self._connections.listen(host, port)
        except OSError:
            self.close()
            raise

    def close(self, drain_s: float = 0.0) -> None:
        """Stop: accept no connection, close idle ones, and give requests that are being answered ``drain_s`` to end."""
        if self._connections is not None:
            self._connections.close(drain_s)
        if self._workers is not None:
            self._workers.close()

    # ---- requests, each in its connection's thread -------------------------------------------------------------

    def _answer(self, request: Message, connection: Connection) -> Response | None:
        path = path_of(request)
        verb = self._verbs.get(path)
        if verb is not None and request.method == "POST":
            return self._verb(verb, request, connection)
        page = self._pages.get(path)
        if page is not None and request.method in ("GET", "HEAD"):
            return page()
        if verb is None and page is None:
            return self._refuse(Refused(404, f"{request.method} {path}: not found"))
        asks = "a scheduler sends POST" if verb is not None else "expected GET"
        return self._refuse(Refused(405, f"{request.method} {path}: method not allowed; {asks}"))

    def _health(self) -> Response:
        workers = self._workers
        if workers is None or not workers.hung:
            return Response(b"ok", content_type="text/plain")
        text = f"{workers.hung} calls have not returned within {self.limits.handler_timeout_s:g} s"
        if workers.is_healthy:
            return Response(f"ok: {text}".encode(), content_type="text/plain")
        return Response(f"unhealthy: {text}".encode(), 503, content_type="text/plain")

    def _metrics(self) -> Response:
        assert self._workers is not None, "requests come after start"
        body = self.metrics.render(in_flight=self._workers.in_flight, hung=self._workers.hung)
        return Response(body, content_type=CONTENT_TYPE)

    def _refuse(self, refused: Refused) -> Response:
        """An answer to what reaches no verb."""
        self.metrics.count_refused(refused.status)
        log.warning("a request is refused", extra={"values": {"err": str(refused), "code": refused.status}})
        return Response(msgspec.json.encode({"Error": str(refused)}), refused.status)

    def _verb(self, verb: _Verb, request: Message, connection: Connection) -> Response | None:
        started = time.perf_counter()
        try:
            _check_type(request)
            body = body_of(request, self.limits.max_body_bytes, connection.share)
            found = self._run(verb, body, request, connection)
        except (Refused, BadRequest, HandlerError) as error:
            return self._failed(verb.name, error, time.perf_counter() - started)
        if found is None:
            return None
        data, facts = found
        took_s = time.perf_counter() - started
        verb.metrics.count(facts, took_s)
        return Response(data, afterwards=partial(verb.log, facts, took_s) if log.isEnabledFor(logging.INFO) else None)

    def _run(self, verb: _Verb, body: Body, request: Message, connection: Connection) -> tuple[bytes, Facts] | None:
        """Call the handler when there is a place for it; None: too late, the watchdog has answered."""
        assert self._workers is not None, "requests come after start"

        def give_up() -> None:
            late = HandlerError(f"{verb.name} did not finish within {self.limits.handler_timeout_s:g} s")
            connection.answer_late(self._failed(verb.name, late, self.limits.handler_timeout_s), request)

        try:
            return self._workers.run(partial(_guarded, verb.name, verb.answer, body), give_up)
        except TooLate:
            return None

    def _failed(self, verb: str, error: Exception, took_s: float) -> Response:
        if isinstance(error, Refused):
            status = error.status
        elif isinstance(error, BadRequest) and not isinstance(error, WrongForm):
            status = 400
        else:
            status = 200 if verb in _CAN_SAY_ERROR else 500
        self.metrics.count_failed(verb, "error" if status == 200 else str(status), took_s)
        log.error(f"{verb} failed", extra={"values": {"err": str(error), "code": status}})
        return Response(error_answer(verb, str(error)), status)


class _Verb:
    """A verb, and where its calls are counted."""

    def __init__(self, name: str, server: ExtenderServer) -> None:
        self.name = name
        self.answer = server.served.verbs[name]
        self.metrics = VerbMetrics(server.metrics, name)

    def log(self, facts: Facts, took_s: float) -> None:
        values = {"pod": facts.pod, "nodes": facts.nodes, "kept": facts.kept, "ms": round(took_s * 1000, 2)}
        log.info(self.name, extra={"values": values})


def _check_type(request: Message) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise Refused(415, f"Content-Type is {kind}; expected application/json")


def _guarded(verb: str, answer: Answerer, body: Body) -> tuple[bytes, Facts]:
    """What a handler raises becomes a text."""
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
