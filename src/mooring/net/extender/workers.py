"""How many calls of an author's functions may run at once, for how long, and how they are counted.

A call runs in the thread of its connection. When its time is up, a watchdog
answers in its place. Python cannot end a thread, so a call that still runs then
is written off: it hangs, and another call gets its place. The number of places
that are replaced like this is bounded, because every hung call keeps a thread
and its request in memory.
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
    """The call's time was up before it ended; the watchdog has answered."""


class _Call:
    __slots__ = ("due", "give_up", "is_late", "is_replaced", "is_running")

    def __init__(self, due: float, give_up: Callable[[], None]) -> None:
        self.due = due
        self.give_up = give_up
        self.is_running = False  # it has a place
        self.is_late = False  # its time is up; the watchdog answers in its place
        self.is_replaced = False  # it hangs, and another call has its place


class Workers:
    """Places for calls, a queue before them, and a watchdog."""

    def __init__(self, places: int, *, most_waiting: int, timeout_s: float) -> None:
        self.places = places
        self.hung = 0
        """Calls whose time is up and which still run."""
        self._most_waiting = most_waiting
        self._most_replaced = REPLACED_PER_PLACE * places
        self._timeout_s = timeout_s
        self._free = places
        self._replaced = 0
        self._calls: dict[_Call, None] = {}  # those in time; all have the same time, so the first is the first due
        self._changed = threading.Condition(threading.Lock())
        self._closed = threading.Event()

    def start(self) -> None:
        """Start the watchdog."""
        threading.Thread(target=self._watch, name="extender-watchdog", daemon=True).start()

    @property
    def in_flight(self) -> int:
        """Calls that run or wait, with those that hang."""
        return len(self._calls) + self.hung

    @property
    def is_healthy(self) -> bool:
        """False when as many calls hang as may run at once: a new process would do better."""
        return self.hung < self.places

    def run(self, work: Callable[[], T], give_up: Callable[[], None]) -> T:
        """Do the work when there is a place for it.

        When its time is up, the watchdog calls ``give_up``, and this raises TooLate as soon as the work ends.
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
                raise Refused(503, f"{len(self._calls)} requests are being answered; this one is too many")
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
        pause_s = self._timeout_s  # a call that begins from now on is not due before
        while not self._closed.wait(pause_s):
            pause_s = self.give_up_late(time.monotonic())

    def give_up_late(self, now: float) -> float:
        """Give up on calls whose time is up; return how long the next one still has."""
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
# What a served extender's ``/metrics`` shows.

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
    """Counts one verb's calls. Children are looked up once, because looking up costs more than counting."""

    def __init__(self, metrics: ServerMetrics, verb: str) -> None:
        self._lock = metrics.lock
        self._seconds = metrics.seconds.labels(verb)
        self._offered = metrics.nodes.labels(verb, "offered")
        self._kept = metrics.nodes.labels(verb, "kept")
        self._succeeded = metrics.requests.labels(verb, "200")

    def count(self, facts: CallFacts, took_s: float) -> None:
        """Count a call that went well."""
        with self._lock:
            self._seconds.observe(took_s)
            self._succeeded.inc()
            self._offered.inc(facts.nodes)
            self._kept.inc(max(facts.kept, 0))
