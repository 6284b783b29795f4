"""What the cycle tells its observer ends up in the metrics that dashboards read."""

from __future__ import annotations

import re

from mooring.observe.metrics import SchedulerMetrics
from mooring.queue.scheduling_queue import SchedulingQueue
from mooring.scheduler.meters import Meters
from mooring.testing import Scheduler, make_node, make_pod


def watched(*objects):
    """A scheduler whose default profile is watched, and a function that reads one sample."""
    scheduler = Scheduler(*objects)
    meters = Meters(SchedulerMetrics())
    meters.follow(SchedulingQueue([], scheduler.clock), scheduler.cluster)
    scheduler.profiles["default-scheduler"].observer = meters.profile("default-scheduler")

    def sample(name, *labels):
        for line in meters.render().decode().splitlines():
            if line.startswith(f"{name}{{") and all(label in line for label in labels):
                return float(re.split(r"\s", line)[-1])
        return None

    return scheduler, meters, sample


POINT = "scheduler_framework_extension_point_duration_seconds_count"
EVALUATION = "scheduler_plugin_evaluation_total"


def test_a_placement_is_timed_at_every_point():
    scheduler, _, sample = watched(make_node("a"), make_node("b"))
    scheduler.decide(make_pod(cpu="1"))
    for point in ("PreFilter", "Filter", "PreScore", "Score"):
        assert sample(POINT, f'extension_point="{point}"', 'status="Success"') == 1
    assert sample(POINT, 'extension_point="PostFilter"') is None


def test_a_refusal_is_timed_with_its_status():
    scheduler, _, sample = watched(make_node("a", cpu="1"))
    scheduler.decide(make_pod(cpu="2"))
    assert sample(POINT, 'extension_point="Filter"', 'status="Unschedulable"') == 1
    assert sample(POINT, 'extension_point="PostFilter"', 'status="Unschedulable"') == 1
    assert sample(POINT, 'extension_point="Score"') is None


def test_plugins_that_bow_out_are_not_counted():
    scheduler, _, sample = watched(make_node("a"), make_node("b"), make_node("c"))
    for _ in range(2):
        scheduler.decide(make_pod(cpu="1"))
    assert sample(EVALUATION, 'plugin="NodeResourcesFit"', 'extension_point="PreFilter"') == 2
    assert sample(EVALUATION, 'plugin="NodePorts"', 'extension_point="PreFilter"') is None
    assert sample(EVALUATION, 'plugin="NodeResourcesFit"', 'extension_point="Filter"') == 6, "once per node"
    assert sample(EVALUATION, 'plugin="NodePorts"', 'extension_point="Filter"') is None
    assert sample(EVALUATION, 'plugin="ImageLocality"', 'extension_point="Score"') == 6


def test_a_reset_starts_anew_and_goes_on_counting():
    scheduler, meters, sample = watched(make_node("a"), make_node("b"))
    scheduler.decide(make_pod(cpu="1"))
    meters.reset()
    assert sample(POINT, 'extension_point="Filter"') is None
    scheduler.decide(make_pod(cpu="1"))
    assert sample(POINT, 'extension_point="Filter"') == 1
    assert sample(EVALUATION, 'plugin="NodeResourcesFit"', 'extension_point="PreFilter"') == 1
