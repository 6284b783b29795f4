"""A server for an extender with limits on size, time and number; a scheduler can read every answer.

| what happens | filter, bind | prioritize, preempt |
|---|---|---|
| a handler raises, blocks, returns nonsense | 200 and ``Error``: it reaches the pod's event | 500 and ``Error`` |
| names where it reads whole nodes | 200 and ``Error`` | 500 and ``Error`` |
| not JSON, or not the request it should be | 400 and ``Error`` | 400 and ``Error`` |
| another content type, too large a body | 415, 413 and ``Error`` | 415, 413 and ``Error`` |

A handler runs in its connection's thread, so a slow one delays no other. When a handler does not return in time, the
server answers in its place, and another may run (``workers``). The health endpoints return 503 when too many handlers
hang.
"""

from __future__ import annotations

import logging
import ssl
import time
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from mooring.api.errors import ParseError, PluginError
from mooring.api.times import parse_duration
from mooring.core.config.plugin_loading import load_module, split_reference
from mooring.net.extender.requests import BadExtenderRequest, Body, WrongForm
from mooring.net.extender.sdk import Answerer, CallFacts, Extender, HandlerError, shape_of
from mooring.net.extender.verbs import bind_verb, filter_verb, preempt_verb, prioritize_verb
from mooring.net.extender.workers import ServerMetrics, TooLate, VerbMetrics, Workers
from mooring.net.http1 import Message
from mooring.net.http_io import Bounds, Refused, Response, body_of, path_of
from mooring.net.prometheus import CONTENT_TYPE
from mooring.net.server import BodyMemory, Connection, Connections

# --------------------------------------------------------------------------------------------------------------------
# The extender's own settings, which the scheduler's configuration should also contain.


@dataclass(slots=True)
class ExtenderSettings:
    """Validated attributes of an extender."""

    name: str = "extender"
    weight: int = 1
    ignorable: bool = False
    http_timeout: str = ""
    managed_resources: Sequence[str] = ()
    ignored_by_scheduler: bool = False
    node_cache_capable: bool = False


def settings_of(source: Any, where: str) -> ExtenderSettings:
    """Read the attributes of a module or an Extender; raise PluginError for an invalid one."""
    is_module = isinstance(source, types.ModuleType)
    default = source.__name__.rpartition(".")[2] if is_module else type(source).__name__
    name = getattr(source, "name", "")
    settings = ExtenderSettings(name if isinstance(name, str) and name else default)
    for field_, kind, right in (
        ("weight", int, "a number above 0"),
        ("ignorable", bool, "True or False"),
        ("http_timeout", str, 'a duration such as "2s"'),
        ("ignored_by_scheduler", bool, "True or False"),
    ):
        value = getattr(source, field_, getattr(Extender, field_))
        fits = isinstance(value, kind) and not (kind is int and (isinstance(value, bool) or int(value) < 1))
        if not fits:
            raise PluginError(f"{where}: {field_} is {value!r}; expected {right}")
        setattr(settings, field_, value)
    _check_timeout(settings.http_timeout, where)
    resources = getattr(source, "managed_resources", ())
    if isinstance(resources, str) or not all(isinstance(resource, str) for resource in resources):
        raise PluginError(f"{where}: managed_resources is {resources!r}; expected a list of resource names")
    settings.managed_resources = tuple(resources)
    return settings


def _check_timeout(text: str, where: str) -> None:
    try:
        if not text or parse_duration(text) > 0:
            return
    except ParseError:
        pass
    raise PluginError(f'{where}: http_timeout is {text!r}; expected a duration such as "2s"')


# --------------------------------------------------------------------------------------------------------------------
# From an author's module or class to verbs

VERBS = ("filter", "prioritize", "preempt", "bind")


@dataclass(slots=True)
class Served:
    """An extender ready to be served, with an answerer per verb."""

    settings: ExtenderSettings
    verbs: dict[str, Answerer] = field(default_factory=dict)


_MAKERS = {"filter": filter_verb, "prioritize": prioritize_verb, "preempt": preempt_verb, "bind": bind_verb}


def serve_object(source: Any, where: str) -> Served:
    """Make verbs of a module with functions, of an Extender class, or of an instance."""
    if isinstance(source, type):
        try:
            source = source()
        except TypeError as error:
            raise PluginError(f"{where}: {source.__qualname__} is made without arguments, but: {error}") from None
    functions = {verb: function for verb in VERBS if callable(function := getattr(source, verb, None))}
    if not functions:
        raise PluginError(f"{where}: defines none of {', '.join(VERBS)}; start with filter(pod, node)")
    settings = settings_of(source, where)
    served = Served(settings)
    for verb, function in functions.items():
        served.verbs[verb] = _MAKERS[verb](function, f"{where}: {verb}")
    settings.node_cache_capable = _all_by_name(functions, where)
    return served


def _all_by_name(functions: Mapping[str, Callable[..., Any]], where: str) -> bool:
    lookers = [shape_of(functions[verb], where) for verb in ("filter", "prioritize") if verb in functions]
    return bool(lookers) and all(shape.wants_names for shape in lookers)


log = logging.getLogger("mooring.net.extender.server")

_CAN_SAY_ERROR = ("filter", "bind")  # answers of the others have no field for one


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request, and of all requests together."""

    max_body_bytes: int = 256 << 20
    total_body_bytes: int = 512 << 20  # bodies of all requests together, compressed and uncompressed
    handler_timeout_s: float = 4.5  # just below kube-scheduler's timeout
    read_timeout_s: float = 30.0  # from its first byte to its last
    idle_timeout_s: float = 90.0  # between requests
    threads: int = 16  # handlers that may run concurrently
    waiting: int = 256  # queued requests; further ones are rejected immediately
    connections: int = 512


def timeout_for(http_timeout: str) -> float:
    """Return the time limit of a handler: slightly less than the scheduler waits, so that it receives the reason."""
    return 0.9 * parse_duration(http_timeout) if http_timeout else Limits().handler_timeout_s


class ExtenderServer:
    """Routes, limits, metrics and logs of an extender's verbs."""

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
        """Start serving; return the port."""
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
        """Accept no connections, close idle ones, and let requests in flight finish for ``drain_s``."""
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
        """Answer a request that reaches no verb."""
        self.metrics.count_refused(refused.status)
        log.warning("request rejected", extra={"values": {"err": str(refused), "code": refused.status}})
        return Response(msgspec.json.encode({"Error": str(refused)}), refused.status)

    def _verb(self, verb: _Verb, request: Message, connection: Connection) -> Response | None:
        started = time.perf_counter()
        try:
            _check_type(request)
            body = body_of(request, self.limits.max_body_bytes, connection.share)
            found = self._run(verb, body, request, connection)
        except (Refused, BadExtenderRequest, HandlerError) as error:
            return self._failed(verb.name, error, time.perf_counter() - started)
        if found is None:
            return None
        data, facts = found
        took_s = time.perf_counter() - started
        verb.metrics.count(facts, took_s)
        return Response(data, afterwards=partial(verb.log, facts, took_s) if log.isEnabledFor(logging.INFO) else None)

    def _run(self, verb: _Verb, body: Body, request: Message, connection: Connection) -> tuple[bytes, CallFacts] | None:
        """Call the handler when there is a free place; None if the watchdog has answered already."""
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
        elif isinstance(error, BadExtenderRequest) and not isinstance(error, WrongForm):
            status = 400
        else:
            status = 200 if verb in _CAN_SAY_ERROR else 500
        self.metrics.count_failed(verb, "error" if status == 200 else str(status), took_s)
        log.error(f"{verb} failed", extra={"values": {"err": str(error), "code": status}})
        return Response(error_answer(verb, str(error)), status)


class _Verb:
    """A verb with the counters of its calls."""

    def __init__(self, name: str, server: ExtenderServer) -> None:
        self.name = name
        self.answer = server.served.verbs[name]
        self.metrics = VerbMetrics(server.metrics, name)

    def log(self, facts: CallFacts, took_s: float) -> None:
        values = {"pod": facts.pod, "nodes": facts.nodes, "kept": facts.kept, "ms": round(took_s * 1000, 2)}
        log.info(self.name, extra={"values": values})


def _check_type(request: Message) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise Refused(415, f"Content-Type is {kind}; expected application/json")


def _guarded(verb: str, answer: Answerer, body: Body) -> tuple[bytes, CallFacts]:
    """Call a handler and turn its exceptions into a text."""
    try:
        return answer(body)
    except (BadExtenderRequest, HandlerError):
        raise
    except Exception as error:
        log.warning("the handler of %s raised", verb, exc_info=True)
        text = f"{verb} raised {type(error).__name__}: {error}"
        raise HandlerError(text.replace("\n", " ")[:1000]) from None


def error_answer(verb: str, text: str) -> bytes:
    """Return an error answer in the form of the verb's own answer, if that has a field for it."""
    if verb == "filter":
        empty = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None}
        return msgspec.json.encode({**empty, "Error": text})
    return msgspec.json.encode({"Error": text})


# --------------------------------------------------------------------------------------------------------------------
# Extenders from files and modules; mistakes are one line each.


def load_extender(reference: str) -> Served:
    """Load an extender from ``file.py``, ``file.py:Class``, ``package.module`` or ``package.module:Class``.

    Without a class in the reference, the file's only class derived from Extender is used, or else its functions.
    """
    place, class_name = split_reference(reference)
    if not place or (place != reference and not class_name):
        raise PluginError(f"{reference!r}: expected file.py, file.py:Class, package.module or package.module:Class")
    module = load_module(place, "mooring_extender", reference)
    if class_name:
        found = getattr(module, class_name, None)
        if found is None:
            raise PluginError(f"{reference}: there is no {class_name} in it")
        return serve_object(found, reference)
    classes = [value for value in vars(module).values() if _is_extender_of(value, module)]
    if len(classes) > 1:
        names = ", ".join(found.__name__ for found in classes)
        raise PluginError(
            f"{reference}: has several extenders ({names}); name one, as in {reference}:{classes[0].__name__}"
        )
    served = serve_object(classes[0] if classes else module, reference)
    if not classes and not getattr(module, "name", ""):
        served.settings.name = Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]
    return served


def _is_extender_of(value: Any, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, Extender) and value.__module__ == module.__name__
