"""How long a pod stays in backoff, and in which order pods leave it."""

from __future__ import annotations

import pytest

from mooring.api.clock import VirtualClock
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.queue.sub_queues import BackoffQueue, priority_sort


def queued(info, name, *, rejected=0, errors=0, timestamp=100.7, priority=0, plugins=("P",), sequence=1):
    pod = QueuedPodInfo(info(name, priority=priority), timestamp, sequence)
    pod.unschedulable_count = rejected
    pod.consecutive_errors_count = errors
    pod.unschedulable_plugins = frozenset(plugins)
    return pod


def backoff(clock, initial=1.0, maximum=10.0, aligned=True):
    return BackoffQueue(clock, priority_sort, initial, maximum, aligned=aligned)


@pytest.mark.parametrize(
    ("initial", "maximum", "want"),
    [
        pytest.param(1, 10, [1, 2, 4, 8, 10, 10], id="the defaults double until ten seconds"),
        pytest.param(1, 60, [1, 2, 4, 8, 16, 32, 60, 60], id="a larger maximum is reached later"),
        pytest.param(5, 3, [3, 3], id="an initial value above the maximum is cut"),
        pytest.param(2, 8, [2, 4, 8, 8], id="the maximum can be met exactly"),
    ],
)
def test_duration_by_count(initial, maximum, want):
    queue = backoff(VirtualClock(), initial, maximum)
    assert [queue.duration(count) for count in range(1, len(want) + 1)] == want


def test_duration_stays_at_the_maximum_for_absurd_counts():
    assert backoff(VirtualClock()).duration(5_000) == 10


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"rejected": 1}, 101, id="the end is cut to the whole second"),
        pytest.param({"rejected": 3}, 104, id="rejections double it"),
        pytest.param({"rejected": 3, "errors": 1}, 101, id="errors in a row count instead of rejections"),
        pytest.param({}, float("-inf"), id="a pod that never failed has no backoff"),
    ],
)
def test_expiration(info, fields, want):
    assert backoff(VirtualClock()).expiration(queued(info, "a", **fields)) == want


def test_maximum_zero_switches_backoff_off(info):
    queue = backoff(VirtualClock(100.7), 1, 0)
    assert not queue.is_backing_off(queued(info, "a", rejected=4))


@pytest.mark.parametrize(
    ("now", "aligned", "want"),
    [
        pytest.param(101.0, True, True, id="at its end it still backs off"),
        pytest.param(101.9, True, True, id="and during the whole second of its end"),
        pytest.param(102.0, True, False, id="until the next second"),
        pytest.param(101.7, False, True, id="unaligned, at its exact end it still backs off"),
        pytest.param(101.8, False, False, id="unaligned, a moment later it does not"),
    ],
)
def test_is_backing_off(info, now, aligned, want):
    queue = backoff(VirtualClock(now), aligned=aligned)
    assert queue.is_backing_off(queued(info, "a", rejected=1)) is want


def test_within_a_second_the_more_important_pod_comes_first(info):
    queue = backoff(VirtualClock(100))
    for name, priority, timestamp in [
        ("late", 0, 100.9),
        ("early", 0, 100.1),
        ("important", 9, 100.95),
        ("soon", 0, 99.1),
    ]:
        queue.put(queued(info, name, rejected=1, priority=priority, timestamp=timestamp))
    assert [queue.pop_early().pod_info.pod.name for _ in range(4)] == ["soon", "important", "early", "late"]


def test_unaligned_the_exact_end_decides(info):
    queue = backoff(VirtualClock(100), aligned=False)
    for name, priority, timestamp in [("late", 9, 100.9), ("early", 0, 100.1)]:
        queue.put(queued(info, name, rejected=1, priority=priority, timestamp=timestamp))
    assert [pod.pod_info.pod.name for pod in queue.pods()] == ["early", "late"]


def test_completed_pods_leave_the_rejected_before_the_failed(info):
    clock = VirtualClock(100)
    queue = backoff(clock)
    queue.put(queued(info, "broken", errors=1, plugins=()))
    queue.put(queued(info, "refused", rejected=1))
    queue.put(queued(info, "refused-often", rejected=2))
    assert queue.next_completion() == 102
    clock.advance_to(101.99)
    assert queue.pop_completed() == []
    clock.advance_to(102)
    assert [pod.pod_info.pod.name for pod in queue.pop_completed()] == ["refused", "broken"]
    assert queue.next_completion() == 103


def test_failed_pods_are_never_popped_early(info):
    queue = backoff(VirtualClock(100))
    queue.put(queued(info, "broken", errors=1, plugins=()))
    assert queue.pop_early() is None
    assert len(queue) == 1 and "default/broken" in queue


def test_a_pod_changes_its_place_when_its_priority_changes(info):
    queue = backoff(VirtualClock(100))
    first = queued(info, "first", rejected=1, sequence=1)
    queue.put(first)
    queue.put(queued(info, "second", rejected=1, priority=5, sequence=2))
    first.pod_info = info("first", priority=9)
    queue.refresh(first.key)
    assert [pod.pod_info.pod.name for pod in queue.pods()] == ["first", "second"]
    assert len(queue) == 2
