"""What a scheduler's metrics say about its extenders."""

from __future__ import annotations

from mooring.framework.extender import ExtenderError
from mooring.observe.metrics import SchedulerMetrics
from mooring.scheduler.extender_calls import ExtenderCalls


def test_calls_results_and_breakers_are_counted_by_extender() -> None:
    metrics = SchedulerMetrics()
    calls = ExtenderCalls(metrics)
    calls.on_call("http://a", "filter", 0.003, None)
    calls.on_call("http://a", "filter", 0.2, ExtenderError("no"))
    calls.on_breaker("http://a", True, "5 calls in a row got no answer")
    text = metrics.registry.render()
    assert 'mooring_extender_calls_total{extender="http://a",result="ok",verb="filter"} 1' in text
    assert 'mooring_extender_calls_total{extender="http://a",result="error",verb="filter"} 1' in text
    assert 'mooring_extender_call_duration_seconds_bucket{extender="http://a",verb="filter",le="0.005"} 1' in text
    assert 'mooring_extender_breaker_open{extender="http://a"} 1' in text
    calls.on_breaker("http://a", False, "it answers again")
    assert 'mooring_extender_breaker_open{extender="http://a"} 0' in metrics.registry.render()
