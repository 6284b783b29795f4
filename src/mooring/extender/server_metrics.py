"""What a served extender's ``/metrics`` shows."""

from __future__ import annotations

import threading

from mooring.extender.calls import Facts
from mooring.metrics import Registry

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """Counts requests. Every connection has a thread of its own, so one lock guards all figures."""

    def __init__(self, name: str) -> None:
        registry = self._registry = Registry()
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

    def count(self, facts: Facts, took_s: float) -> None:
        """Count a call that went well."""
        with self._lock:
            self._seconds.observe(took_s)
            self._succeeded.inc()
            self._offered.inc(facts.nodes)
            self._kept.inc(max(facts.kept, 0))
