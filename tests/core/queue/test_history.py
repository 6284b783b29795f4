"""A pod waits in one queue as it waited in another."""

from __future__ import annotations

import pytest

from mooring.core.queue.queued_pod import History
from mooring.core.queue.scheduling_queue import QueueOptions


@pytest.mark.parametrize(
    ("history", "place", "left_s"),
    [
        pytest.param(History("active", 0, 1, 1), "active", 0, id="new"),
        pytest.param(History("unschedulable", 3, 60, 20, ("P",), "no"), "unschedulable", 0, id="refused"),
        pytest.param(History("backoff", 3, 60, 1, ("P",)), "backoff", 3, id="refused for the third time: 4 s"),
        pytest.param(History("backoff", 2, 60, 1), "backoff", 1, id="two errors: 2 s"),
    ],
)
def test_its_place_its_attempts_and_its_backoff_are_the_same(make_queue, info, history, place, left_s):
    queue = make_queue(options=QueueOptions(pop_from_backoff=False))
    queue.add(info("a"))
    queue.restore("default/a", history)
    (found,) = queue.pending_pods()
    assert (found.queue, found.attempts, found.plugins, found.message) == (
        place, history.attempts, history.plugins, history.message)  # fmt: skip
    assert found.backoff_left_s == pytest.approx(left_s)
    assert found.since - found.added == pytest.approx(history.added_s_ago - history.entered_s_ago)


def test_who_came_first_is_tried_first(make_queue, info):
    queue = make_queue()
    for name, ago_s in (("young", 1), ("old", 5)):
        queue.add(info(name))
        queue.restore(f"default/{name}", History("active", 0, ago_s, ago_s))
    assert queue.pop().key == "default/old"


def test_a_gated_pod_stays_gated_and_an_unknown_one_unknown(make_queue, info, gate):
    queue = make_queue(gates=[gate("G", "a")])
    queue.add(info("a"))
    for name in ("a", "b"):
        queue.restore(f"default/{name}", History("active", 2, 9, 9))
    assert [each.queue for each in queue.pending_pods()] == ["gated"]
