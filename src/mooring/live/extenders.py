"""Observation of extenders: answers for records, number and duration of calls for metrics."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TypeVar

from mooring.core.framework.extender import (
    ExtenderAnswer,
    ExtenderClient,
    ExtenderError,
    ExtenderFilterResult,
    Prioritized,
    VictimsOnNode,
)
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.live.logs import get_logger
from mooring.live.metrics import SchedulerMetrics

log = get_logger("mooring.live")
T = TypeVar("T", bound=ExtenderFilterResult | Prioritized | Mapping[str, VictimsOnNode] | ExtenderError)


class ObservedExtender:
    """An extender that appends its answers to each list of ``answers``. The observer that added a list empties it."""

    def __init__(self, extender: ExtenderClient, answers: list[list[ExtenderAnswer]]) -> None:
        self._extender, self._answers = extender, answers
        self.name, self.is_ignorable = extender.name, extender.is_ignorable
        self.is_filter, self.is_prioritizer = extender.is_filter, extender.is_prioritizer
        self.is_binder, self.supports_preemption = extender.is_binder, extender.supports_preemption
        self.is_interested = extender.is_interested

    def bind(self, pod: PodInfo, node_name: str) -> None:
        self._extender.bind(pod, node_name)

    def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        try:
            return self._note("filter", self._extender.filter(pod, nodes))
        except ExtenderError as error:
            raise self._note("filter", error) from None

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized:
        try:
            return self._note("prioritize", self._extender.prioritize(pod, nodes))
        except ExtenderError as error:
            raise self._note("prioritize", error) from None

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], nodes: Mapping[str, NodeInfo]
    ) -> Mapping[str, VictimsOnNode]:
        try:
            return self._note("preempt", self._extender.process_preemption(pod, victims, nodes))
        except ExtenderError as error:
            raise self._note("preempt", error) from None

    def close(self) -> None:
        close = getattr(self._extender, "close", None)
        if close is not None:
            close()

    def _note(self, verb: str, result: T) -> T:
        for each in self._answers:
            each.append(ExtenderAnswer(self.name, verb, result))
        return result


class ExtenderCalls:
    """Counts and times calls. Calls are made in several threads, so the metrics are updated under a lock."""

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
            log.error(why, "Extender does not answer; skipping it for a while", extender=extender)
        else:
            log.info("Extender answers again", extender=extender)
