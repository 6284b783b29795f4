"""What calls to extenders cost and how they end: metrics, and a log line when one is left alone.

kube-scheduler has no metrics about extenders; these are mooring's own and carry its name.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from mooring.framework.extender import ExtenderError
from mooring.observe.logs import get_logger
from mooring.observe.metrics import SchedulerMetrics

log = get_logger("mooring.scheduler.extenders")

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


_made: WeakKeyDictionary[SchedulerMetrics, ExtenderCalls] = WeakKeyDictionary()


def extender_calls(metrics: SchedulerMetrics) -> ExtenderCalls:
    """The observer that counts in these metrics; the same one however often it is asked for."""
    found = _made.get(metrics)
    if found is None:
        found = _made[metrics] = ExtenderCalls(metrics)
    return found


class ExtenderCalls:
    """Hears of every call, from whatever thread makes it."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        registry = metrics.registry
        self._lock = threading.Lock()
        self._calls = registry.counter(
            "mooring_extender_calls_total",
            "Calls to extenders by verb and result: ok or error.",
            ("extender", "verb", "result"),
        )
        self._seconds = registry.histogram(
            "mooring_extender_call_duration_seconds",
            "How long calls to extenders took.",
            ("extender", "verb"),
            buckets=_BUCKETS,
        )
        self._breakers = registry.gauge(
            "mooring_extender_breaker_open",
            "1 while an extender that does not answer is left alone.",
            ("extender",),
        )

    def on_call(self, extender: str, verb: str, seconds: float, error: ExtenderError | None) -> None:
        with self._lock:
            self._calls.labels(extender, verb, "ok" if error is None else "error").inc()
            self._seconds.labels(extender, verb).observe(seconds)

    def on_breaker(self, extender: str, is_open: bool, why: str) -> None:
        with self._lock:
            self._breakers.labels(extender).set(float(is_open))
        if is_open:
            log.error(why, "Extender does not answer and is left alone for a while", extender=extender)
        else:
            log.info("Extender answers again", extender=extender)
