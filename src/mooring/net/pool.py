"""Connections for the hot writes: bind, status patch, events. Small bodies, many of them, one response each.

A general HTTP client spends more on a small POST than the scheduler spends on deciding where the pod goes. This pool
does only what those writes need: persistent connections, a bounded number of them, and a deadline per request.

```
send ──▶ the queue, first come first served ──▶ HTTP/2: one connection, which takes all of them in one write
                                            ──▶ HTTP/1.1: a connection that has nothing under way, a few in one write
```

Over TLS the client offers HTTP/2, and the first connection shows whether the server supports it. With HTTP/1.1, when
more requests wait than connections are available, they are pipelined, at most ``batch`` per connection: writing and
reading cost more per call than per request. The server answers those of one connection in order, so a slow response
delays only requests that would have waited anyway. A connection gets no more requests before all its responses have
arrived.

A request is sent a second time only if that is safe: when nothing of it was written, when the server said that it has
not processed it and will not, or when it is a read. A POST whose connection broke after it was written may have been
carried out; ``ConnectionFailed.was_sent`` says so.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Callable

from mooring.api.clock import Clock, SystemClock
from mooring.net.connect import Broken, Connector, HeaderFields, HttpAnswer, HttpRequest
from mooring.net.errors import ConnectionFailed, Fenced, RequestTimeout
from mooring.net.http1_connection import IDLE_S, Http1Connection
from mooring.net.http2_connection import Http2Connection

Connection = Http1Connection | Http2Connection

BATCH = 4
"""Number of requests per connection and write: those behind the first wait for its response."""
QUIET_S = 10.0
"""A server that owes responses and has been silent for this long gets no more requests over this connection: something
in between may have stopped forwarding. Sent requests wait for their deadline, the next one opens another connection.
"""


class ConnectionPool:
    """At most ``max_connections`` connections to one server, kept open between requests."""

    def __init__(self, connector: Connector, *, max_connections: int = 32, batch: int = BATCH) -> None:
        self._connector = connector
        self._max_connections = max_connections
        self._batch = batch
        self._idle: list[Http1Connection] = []
        self._shared: Http2Connection | None = None  # carries all requests, if the server supports HTTP/2
        self._may_share = connector.tls is not None  # as far as is known
        self._open: dict[Connection, None] = {}  # ordered, so that two runs in virtual time do the same
        self._opening: dict[asyncio.Task[Connection], None] = {}
        self._queue: deque[HttpRequest] = deque()
        self._asked: dict[HttpRequest, None] = {}  # all requests with a waiting caller, wherever they are
        self._is_dispatching = False  # the queue is processed before this turn of the event loop ends
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = float("inf")
        self._context: ssl.SSLContext | None = None
        self._is_closed = False

    @property
    def in_flight(self) -> int:
        """Number of requests on the wire."""
        return sum(connection.load for connection in self._open)

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a connection."""
        return sum(not request.answer.done() for request in self._queue)

    async def send(
        self,
        method: str,
        target: bytes,
        fields: HeaderFields,
        body: bytes,
        timeout_s: float,
        is_fenced: Callable[[], bool] = lambda: False,
    ) -> HttpAnswer:
        """Send one request and wait for its response.

        ``is_fenced`` is called when a connection is available, right before the request is written.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        tries_left = 3
        while tries_left:
            if self._is_closed:
                raise ConnectionFailed(f"{method} to {self._connector.where}: the client is closed", was_sent=False)
            request = HttpRequest(method, target, fields, body, deadline, is_fenced, loop.create_future())
            self._asked[request] = None
            try:
                self._enqueue(loop, request)
                return await request.answer
            except Broken as broken:
                is_safe = not broken.written or (request.on_reused and method in ("GET", "HEAD"))
                if not is_safe:
                    raise ConnectionFailed(
                        f"{method} to {self._connector.where}: {broken}", was_sent=broken.written
                    ) from None
                tries_left -= not broken.took_others
            except asyncio.CancelledError:
                self._cancel_abandoned()
                raise
            finally:
                del self._asked[request]
        why = "connections break before they can be used"
        raise ConnectionFailed(f"{method} to {self._connector.where}: {why}", was_sent=False)

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for connection in list(self._open):
            connection.close()
        self._open.clear()
        self._idle.clear()
        self._shared = None
        for request in self._queue:
            request.fail(Broken("the client is closed", written=False))
        self._queue.clear()
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        # One turn of the loop lets the transports run their connection_lost.
        await asyncio.sleep(0)

    # The queue

    def _enqueue(self, loop: asyncio.AbstractEventLoop, request: HttpRequest) -> None:
        self._queue.append(request)
        if not self._is_dispatching:
            self._is_dispatching = True
            loop.call_soon(self._dispatch, loop)
        if request.deadline < self._alarm_at:
            self._set_alarm(loop, request.deadline)

    def _dispatch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Assign waiting requests to free connections, and open more where there are too few."""
        self._is_dispatching = False
        queue = self._queue
        try:
            self._look_at_identity()
        except ConnectionFailed as error:  # no certificate can be read
            self._fail_all(error)
            return
        now = loop.time()
        shared = self._shared
        if shared is not None and self._is_good(shared, now):
            requests = self._next(queue, shared.room)
            if requests:
                shared.send(requests)
            return
        # One connection is enough if it can be shared. Until the first one is open that is not known, so only one is
        # opened; ``_speaking`` finds out. Connections that are about to end take nothing.
        places = 1 if self._may_share else self._max_connections - len(self._open)
        lanes = len(self._idle) + places
        size = min(self._batch, -(-len(queue) // max(1, lanes)))
        while queue:
            connection = self._take_idle(now)
            if connection is None:
                wanted = -(-len(queue) // size) - len(self._opening)
                for _ in range(min(wanted, places - len(self._opening))):
                    self._open_one(loop)
                return
            requests = self._next(queue, size)
            if requests:
                connection.send(requests)
            else:
                self._idle.append(connection)

    def _next(self, queue: deque[HttpRequest], size: int) -> list[HttpRequest]:
        """Take the next requests whose callers still wait."""
        requests: list[HttpRequest] = []
        while queue and len(requests) < size:
            request = queue.popleft()
            if request.answer.done():
                continue
            if request.is_fenced():
                request.fail(Fenced())
            else:
                request.is_sent = True
                requests.append(request)
        return requests

    def _fail_all(self, error: BaseException) -> None:
        while self._queue:
            self._queue.popleft().fail(error)

    # Deadlines: one timer for all requests. It is set to the earliest deadline, and not moved when that request is
    # answered, so it may fire too early, never too late. It uses the requests that callers wait for, not those in queue
    # and connections: a request lost by them still ends.

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_at = loop.call_at(when, self._on_deadline, loop), when

    def _on_deadline(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail requests past their deadline, and set the alarm to the next one."""
        self._alarm, self._alarm_at = None, float("inf")
        now, where = loop.time(), self._connector.where
        for request in self._asked:
            if request.deadline <= now:
                why = (
                    f"no answer from {where} in time"
                    if request.is_sent
                    else f"no connection to {where} became free in time"
                )
                request.fail(RequestTimeout(why, was_sent=request.is_sent))
        ahead = [request.deadline for request in self._asked if not request.answer.done()]
        if ahead:
            self._set_alarm(loop, min(ahead))
        for connection in list(self._open):
            late = [request for request in connection.under_way if request.deadline <= now]
            if late:
                connection.give_up(late)

    def _cancel_abandoned(self) -> None:
        """Notify connections of a cancelled caller: an abandoned response must not block one."""
        for connection in list(self._open):
            connection.cancel_abandoned()

    # Connections

    def _freed(self, connection: Connection) -> None:
        """Handle a connection that can take more requests, or is closed."""
        loop = asyncio.get_running_loop()
        if connection.keep_alive and connection.is_open and not self._is_closed:
            connection.idle_since = loop.time()
            if isinstance(connection, Http1Connection):
                self._idle.append(connection)
            elif connection is not self._shared:
                if self._shared is not None:
                    self._retire(self._shared)
                self._shared = connection
        else:
            self._retire(connection)
        if self._queue and not self._is_dispatching:
            self._is_dispatching = True
            loop.call_soon(self._dispatch, loop)

    def _retire(self, connection: Connection) -> None:
        """Give a connection no more requests. It is closed when its responses have arrived."""
        connection.keep_alive = False
        if connection is self._shared:
            self._shared = None
        if not connection.load or not connection.is_open:
            self._open.pop(connection, None)
            connection.close()

    def _look_at_identity(self) -> None:
        """Retire connections that were opened with another identity."""
        context = self._connector.context()
        if context is not self._context:
            self._context = context
            for connection in (*self._idle, *((self._shared,) if self._shared is not None else ())):
                self._retire(connection)
            self._idle.clear()

    def _is_good(self, shared: Http2Connection, now: float) -> bool:
        quiet_s = now - (shared.quiet_since if shared.load else shared.idle_since)
        if shared.is_usable and quiet_s < (QUIET_S if shared.load else IDLE_S):
            return True
        self._retire(shared)
        return False

    def _take_idle(self, now: float) -> Http1Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and now - connection.idle_since < IDLE_S:
                return connection
            self._retire(connection)
        return None

    def _open_one(self, loop: asyncio.AbstractEventLoop) -> None:
        opening = self._connector.connect(self._context, self._speaking)
        task = loop.create_task(opening, name=f"connect to {self._connector.where}")
        self._opening[task] = None
        task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[Connection]) -> None:
        """Use a new connection for waiting requests. If none can be opened, they fail with the reason."""
        self._opening.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._open[task.result()] = None
            self._freed(task.result())
        elif not self._open:
            self._fail_all(error)

    def _speaking(self, protocol: str | None) -> Connection:
        self._may_share = protocol == "h2"
        return Http2Connection(self._freed) if self._may_share else Http1Connection(self._freed)


# --------------------------------------------------------------------------------------------------------------------
# A token bucket: the client-side limit on requests per second.


class RateLimiter:
    """Lets ``burst`` requests pass immediately and ``qps`` per second after that; a qps below zero lifts the limit.

    Callers are served in order: each takes its token immediately, on credit, and sleeps until the bucket would have had
    it.
    """

    def __init__(self, qps: float = 50.0, burst: int = 100, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._tokens = self._burst
        self._filled_at = self._clock.monotonic()

    @property
    def interval_s(self) -> float:
        """Seconds between two requests once the burst is used up."""
        return 0.0 if self._qps <= 0 else 1.0 / self._qps

    def reserve(self) -> float:
        """Take a token and return in how many seconds it may be used."""
        if self._qps <= 0:
            return 0.0
        self._fill()
        left = self._tokens = self._tokens - 1.0
        return 0.0 if left >= 0 else -left / self._qps

    def wait_s(self) -> float:
        """Return in how many seconds a token will be available, without taking it."""
        if self._qps <= 0:
            return 0.0
        self._fill()
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) / self._qps

    def _fill(self) -> None:
        now = self._clock.monotonic()
        tokens = self._tokens + (now - self._filled_at) * self._qps
        self._tokens = tokens if tokens < self._burst else self._burst
        self._filled_at = now


# --------------------------------------------------------------------------------------------------------------------
# Backoff: pauses of a client before it retries.


class Backoff:
    """Returns pauses that double each time, plus a random part of up to the same length.

    After ``reset_s`` without a pause it starts with the first pause again.
    """

    def __init__(
        self, first_s: float = 0.8, limit_s: float = 30.0, reset_s: float = 120.0, *, clock: Clock, rng: random.Random
    ) -> None:
        self._first_s, self._limit_s, self._reset_s = first_s, limit_s, reset_s
        self._clock, self._rng = clock, rng
        self._next_s = first_s
        self._asked_at = clock.monotonic()

    def next(self) -> float:
        now = self._clock.monotonic()
        if now - self._asked_at > self._reset_s:
            self._next_s = self._first_s
        self._asked_at = now
        pause_s, self._next_s = self._next_s, min(self._limit_s, self._next_s * 2)
        return pause_s * (1 + self._rng.random())

    def soon(self) -> float:
        """Return a first pause without doubling the next one: for retries that put no load on the server."""
        return self._first_s * (1 + self._rng.random())

    def reset(self) -> None:
        self._next_s = self._first_s
