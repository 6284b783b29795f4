"""Calls to extenders are counted, timed, and logged where it matters."""

from __future__ import annotations

import logging

import pytest

from mooring.core.framework.extender import ExtenderError
from mooring.live.extenders import ExtenderCalls
from mooring.live.metrics import SchedulerMetrics


@pytest.fixture
def metrics():
    return SchedulerMetrics()


def test_calls_are_counted_by_how_they_end(metrics):
    calls = ExtenderCalls(metrics)
    calls.on_call("http://a", "filter", 0.004, None)
    calls.on_call("http://a", "filter", 2.0, ExtenderError("no answer"))
    text = metrics.render().decode()
    assert 'mooring_extender_calls_total{extender="http://a",result="ok",verb="filter"} 1\n' in text
    assert 'mooring_extender_calls_total{extender="http://a",result="error",verb="filter"} 1\n' in text
    assert 'mooring_extender_call_duration_seconds_bucket{extender="http://a",verb="filter",le="0.005"} 1\n' in text
    assert 'mooring_extender_call_duration_seconds_count{extender="http://a",verb="filter"} 2\n' in text


def test_an_extender_that_is_left_alone_is_shown_and_logged(metrics, caplog):
    caplog.set_level(logging.INFO)
    calls = ExtenderCalls(metrics)
    calls.on_breaker("http://a", True, "connection refused")
    assert 'mooring_extender_breaker_open{extender="http://a"} 1\n' in metrics.render().decode()
    calls.on_breaker("http://a", False, "")
    assert 'mooring_extender_breaker_open{extender="http://a"} 0\n' in metrics.render().decode()
    left, again = caplog.records
    assert left.values == {"err": "connection refused", "extender": "http://a"} and left.levelno == logging.ERROR
    assert again.getMessage() == "Extender answers again"


def test_several_observers_count_in_the_same_metrics(metrics):
    """After a reload there is another observer."""
    for _ in range(2):
        ExtenderCalls(metrics).on_call("http://a", "bind", 0.1, None)
    assert 'mooring_extender_calls_total{extender="http://a",result="ok",verb="bind"} 2\n' in metrics.render().decode()
