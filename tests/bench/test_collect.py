"""What is counted, and how windows and percentiles come out of it."""

from __future__ import annotations

import asyncio
import os

import pytest

from mooring.bench.perf.collect import (
    ATTEMPTED,
    SCHEDULED,
    Collector,
    Latencies,
    Latency,
    OtherProcess,
    PodBoard,
    ThisProcess,
    WorkloadFailed,
    percentile,
    windows,
)
from mooring.live.meters import Meters
from mooring.live.metrics import SchedulerMetrics


@pytest.mark.parametrize(
    ("times", "want"),
    [
        pytest.param([], [], id="nothing bound"),
        pytest.param([10.25, 10.5], [4.0], id="less than a window is one window"),
        pytest.param([10.5, 11.5, 11.6, 12.0], [1.0, 3.0], id="two windows"),
        pytest.param([10.5, 11.25], [1.6], id="a short rest makes the last window longer"),
        pytest.param([10.5, 11.5], [1.0, 2.0], id="a long rest is a window of its own"),
        pytest.param([10.5, 13.0], [1.0, 0.0, 1.0], id="a second without pods counts"),
    ],
)
def test_windows(times: list[float], want: list[float]) -> None:
    assert windows(times, 10.0) == pytest.approx(want)


@pytest.mark.parametrize(
    ("share", "want"),
    [(50, 5), (90, 9), (99, 10), (100, 10), (0, 1)],
)
def test_percentiles_are_nearest_ranks(share: float, want: int) -> None:
    assert percentile(list(range(1, 11)), share) == want


def test_latencies_of_samples() -> None:
    assert Latencies.of([]) == Latencies()
    assert Latencies.of([0.001, 0.002, 0.003]) == Latencies(3, 2.0, 2.0, 3.0, 3.0)


def test_latencies_of_buckets_lie_on_straight_lines_inside_a_bucket() -> None:
    found = Latencies.of_buckets([0.001, 0.002, 0.004], [0, 100, 0, 0], 0.15)
    assert (found.count, found.mean, found.p50, found.p90) == (100, 1.5, 1.5, 1.9)
    beyond = Latencies.of_buckets([0.001, 0.002], [0, 0, 4], 10.0)
    assert beyond.p99 == 2.0, "beyond the last bound the value is unknown"


def test_a_board_tells_collectors_of_each_pod_once() -> None:
    now = 100.0
    board = PodBoard(lambda: now)
    for name, colour in (("a", "blue"), ("b", "red")):
        board.expect("ns", name, {"colour": colour}, group=1)
    collector = Collector("", lambda record: record.is_selected(("ns",), {"colour": "blue"}), None, None)
    board.collectors.append(collector)
    for key in ("ns/a", "ns/a", "ns/b", "ns/stranger"):
        board.pod_bound(key)
    assert (collector.times, board.bound) == ([100.0], 2)


async def test_a_wait_ends_when_all_have_come_as_far() -> None:
    board = PodBoard()
    records = [board.expect("ns", name, {}, 0) for name in "abc"]
    attempted, scheduled = board.wait(records, ATTEMPTED), board.wait(records, SCHEDULED)
    board.pod_attempted("ns/a")
    board.pod_bound("ns/b")
    board.pod_gone("ns/c")
    await attempted.finished(1.0, "here")
    waiting = asyncio.create_task(scheduled.finished(5.0, "here"))
    await asyncio.sleep(0)
    assert not waiting.done()
    board.pod_bound("ns/a")
    await waiting
    await board.wait(records).finished(1.0, "those that are there already")


async def test_a_wait_gives_up_when_nothing_happens() -> None:
    board = PodBoard()
    wait = board.wait([board.expect("ns", "a", {}, 0)])
    with pytest.raises(WorkloadFailed, match=r"here: nothing has happened for 0\.01s and 1 pods are not scheduled yet"):
        await wait.finished(0.01, "here")


def test_latencies_are_tapped_from_the_schedulers_own_meters() -> None:
    meters = Meters(SchedulerMetrics())
    meters.profile("one").attempt("scheduled", 5.0)
    algorithm = meters.metrics.scheduling_algorithm_duration.labels()
    before = algorithm.later
    latency = Latency(meters.metrics, ["one"])
    latency.start()
    algorithm.later(0.002)
    meters.profile("one").attempt("scheduled", 0.0015)
    meters.profile("one").attempt("error", 0.1)
    latency.stop()
    algorithm.later(7.0)
    assert latency.algorithm() == Latencies(1, 2.0, 2.0, 2.0, 2.0)
    found = latency.attempts()
    assert set(found) == {"scheduled", "error"}
    assert (found["scheduled"].count, found["scheduled"].mean) == (1, 1.5), "what was before does not count"
    assert algorithm.later == before


def test_a_process_is_measured_from_inside_and_from_outside() -> None:
    inside, outside = ThisProcess(), OtherProcess(os.getpid())
    inside.reset_peak()
    outside.reset_peak()
    assert inside.cpu_s() > 0 and outside.cpu_s() > 0
    assert inside.peak_mib() > 10 and outside.peak_mib() > 10


def test_a_process_that_is_not_there_is_named() -> None:
    with pytest.raises(WorkloadFailed, match="process 999999999: there is none"):
        OtherProcess(999_999_999)
