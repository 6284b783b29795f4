"""Limits for calls of an author's functions: how many run concurrently, for how long, and their metrics.

A call runs in the thread of its connection. At its deadline, a watchdog answers in its place. Python cannot end a
thread, so a call that still runs is written off as hanging, and another call gets its place. The number of places
replaced like this is bounded, because every hanging call keeps a thread and its request in memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from itertools import takewhile
from typing import TypeVar

from mooring.net.extender.sdk import CallFacts
from mooring.net.http_io import Refused
from mooring.net.prometheus import MetricsRegistry

log = logging.getLogger("mooring.net.extender.server")

T = TypeVar("T")

REPLACED_PER_PLACE = 4


class TooLate(Exception):
    """The call passed its deadline, and the watchdog has answered."""


class _Call:
    __slots__ = ("due", "give_up", "is_late", "is_replaced", "is_running")

    def __init__(self, due: float, give_up: Callable[[], None]) -> None:
        self.due = due
        self.give_up = give_up
        self.is_running = False  # it has a place
        self.is_late = False  # past its deadline; the watchdog answers in its place
        self.is_replaced = False  # it hangs, and another call has its place


class Workers:
    """Places for concurrent calls, with a queue and a watchdog."""

    def __init__(self, places: int, *, most_waiting: int, timeout_s: float) -> None:
        self.places = places
        self.hung = 0
        """Calls whose time is up and which still run."""
        self._most_waiting = most_waiting
        self._most_replaced = REPLACED_PER_PLACE * places
        self._timeout_s = timeout_s
        self._free = places
        self._replaced = 0
        self._calls: dict[_Call, None] = {}  # before their deadline; all have one timeout: the first is due first
        self._changed = threading.Condition(threading.Lock())
        self._closed = threading.Event()

    def start(self) -> None:
        """Start the watchdog."""
        threading.Thread(target=self._watch, name="extender-watchdog", daemon=True).start()

    @property
    def in_flight(self) -> int:
        """Number of calls that run, wait or hang."""
        return len(self._calls) + self.hung

    @property
    def is_healthy(self) -> bool:
        """False when as many calls hang as may run concurrently: a new process would do better."""
        return self.hung < self.places

    def run(self, work: Callable[[], T], give_up: Callable[[], None]) -> T:
        """Run the work when there is a free place.

        At the deadline the watchdog calls ``give_up``, and this raises TooLate as soon as the work ends.
        """
        call = _Call(time.monotonic() + self._timeout_s, give_up)
        self._begin(call)
        try:
            return work()
        finally:
            self._end(call)

    def close(self) -> None:
        """End the watchdog."""
        self._closed.set()

    def _begin(self, call: _Call) -> None:
        with self._changed:
            if self.hung - self._replaced >= self.places:
                raise Refused(503, f"{self.hung} calls hang, and no more can be started")
            if not self._free and len(self._calls) >= self.places + self._most_waiting:
                raise Refused(503, f"{len(self._calls)} requests are being answered, which is the limit; try again")
            self._calls[call] = None
            while not self._free and not call.is_late:
                self._changed.wait()
            if call.is_late:
                raise TooLate
            self._free -= 1
            call.is_running = True

    def _end(self, call: _Call) -> None:
        with self._changed:
            if not call.is_late:
                del self._calls[call]
            else:
                self.hung -= 1
            if call.is_replaced:
                self._replaced -= 1
            else:
                self._free += 1
                self._changed.notify()
        if call.is_late:
            log.warning("an abandoned call has ended", extra={"values": {"hung": self.hung}})
            raise TooLate

    def _watch(self) -> None:
        pause_s = self._timeout_s  # calls that begin from now on are not due before
        while not self._closed.wait(pause_s):
            pause_s = self.give_up_late(time.monotonic())

    def give_up_late(self, now: float) -> float:
        """Answer calls past their deadline; return the remaining time of the next one."""
        with self._changed:
            hung_before = self.hung
            late = list(takewhile(lambda call: call.due <= now, self._calls))
            for call in late:
                self._write_off(call)
            left_s = next(iter(self._calls)).due - now if self._calls else self._timeout_s
            self._changed.notify_all()
        if self.hung > hung_before:
            log.error("calls hang", extra={"values": {"hung": self.hung, "healthy": self.is_healthy}})
        for call in late:
            try:
                call.give_up()
            except Exception:
                log.exception("failed to answer for a hanging call")
        return left_s

    def _write_off(self, call: _Call) -> None:
        del self._calls[call]
        call.is_late = True
        if not call.is_running:
            return
        self.hung += 1
        if self._replaced < self._most_replaced:
            call.is_replaced = True
            self._replaced += 1
            self._free += 1


# --------------------------------------------------------------------------------------------------------------------
# Metrics of a served extender.

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """Counts requests. Every connection has its own thread, so one lock guards all figures."""

    def __init__(self, name: str) -> None:
        registry = self._registry = MetricsRegistry()
        self.lock = threading.Lock()
        self.requests = registry.counter(
            "mooring_extender_requests_total", "Requests by verb and outcome.", ("verb", "code")
        )
        self.seconds = registry.histogram(
            "mooring_extender_request_duration_seconds",
            "How long requests took, from the last byte in to the first byte out.",
            ("verb",),
            buckets=_BUCKETS,
        )
        self.nodes = registry.counter(
            "mooring_extender_nodes_total", "Nodes that were offered (result=offered) and kept.", ("verb", "result")
        )
        self._in_flight = registry.gauge("mooring_extender_requests_in_flight", "Requests being answered.")
        self._hung = registry.gauge(
            "mooring_extender_hung_calls", "Calls that have not returned although their time is up."
        )
        registry.gauge("mooring_extender_info", "The extender that is served.", ("name",)).labels(name).set(1)

    def count_refused(self, code: int) -> None:
        """Count a request that reached no verb."""
        with self.lock:
            self.requests.labels("", str(code)).inc()

    def count_failed(self, verb: str, code: str, took_s: float) -> None:
        """Count a call that ended with an error; ``code`` is "error" when the answer's status is 200."""
        with self.lock:
            self.requests.labels(verb, code).inc()
            self.seconds.labels(verb).observe(took_s)

    def render(self, *, in_flight: int, hung: int) -> bytes:
        with self.lock:
            self._in_flight.set(in_flight)
            self._hung.set(hung)
            return self._registry.render().encode()


class VerbMetrics:
    """Counters of one verb. Children are cached, because a lookup costs more than counting."""

    def __init__(self, metrics: ServerMetrics, verb: str) -> None:
        self._lock = metrics.lock
        self._seconds = metrics.seconds.labels(verb)
        self._offered = metrics.nodes.labels(verb, "offered")
        self._kept = metrics.nodes.labels(verb, "kept")
        self._succeeded = metrics.requests.labels(verb, "200")

    def count(self, facts: CallFacts, took_s: float) -> None:
        """Count a successful call."""
        with self._lock:
            self._seconds.observe(took_s)
            self._succeeded.inc()
            self._offered.inc(facts.nodes)
            self._kept.inc(max(facts.kept, 0))
