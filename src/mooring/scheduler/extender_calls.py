"""What calls to extenders cost and how they end: metrics, and a log line when one is left alone."""

from __future__ import annotations

import threading

from mooring.framework.extender import ExtenderError
from mooring.observe.logs import get_logger
from mooring.observe.metrics import SchedulerMetrics

log = get_logger("mooring.scheduler.extenders")


class ExtenderCalls:
    """Hears of every call, from whatever thread makes it."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._lock = threading.Lock()
        self._metrics = metrics

    def on_call(self, extender: str, verb: str, seconds: float, error: ExtenderError | None) -> None:
        with self._lock:
            self._metrics.extender_calls.labels(extender, verb, "ok" if error is None else "error").inc()
            self._metrics.extender_call_duration.labels(extender, verb).observe(seconds)

    def on_breaker(self, extender: str, is_open: bool, why: str) -> None:
        with self._lock:
            self._metrics.extender_breaker_open.labels(extender).set(float(is_open))
        if is_open:
            log.error(why, "Extender does not answer and is left alone for a while", extender=extender)
        else:
            log.info("Extender answers again", extender=extender)
