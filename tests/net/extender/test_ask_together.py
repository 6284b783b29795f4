"""Asking several extenders for scores concurrently, with threads that are kept."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mooring.core.framework.extender import ExtenderError, Prioritized
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.net.extender.client import AskTogether

ONE = Prioritized([("a", 1)], 1)


class Scorer:
    """An extender that does something when it is asked for scores."""

    def __init__(self, does: Callable[[], Any] = lambda: ONE, *, is_prioritizer: bool = True) -> None:
        self.is_prioritizer = is_prioritizer
        self.threads: list[threading.Thread] = []
        self._does = does

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized:
        self.threads.append(threading.current_thread())
        return self._does()


def ask(asker: AskTogether, *extenders: Scorer) -> list[Prioritized | ExtenderError]:
    return asker(extenders, None, [])  # type: ignore[arg-type]


def test_all_are_asked_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=60)

    def wait() -> Prioritized:
        both.wait()  # passes only if the other one is asked meanwhile
        return ONE

    assert ask(AskTogether(), Scorer(wait), Scorer(wait)) == [ONE, ONE]


def test_answers_come_in_the_order_of_the_extenders_and_failures_among_them() -> None:
    error = ExtenderError("no")

    def fail() -> None:
        raise error

    others = [Prioritized([("a", score)], 1) for score in range(3)]
    scorers = [Scorer(lambda found=found: found) for found in others]
    assert ask(AskTogether(), scorers[0], Scorer(fail), scorers[1], scorers[2]) == [others[0], error, *others[1:]]


def test_a_mistake_is_no_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        ask(AskTogether(), Scorer(lambda: 1 // 0), Scorer())


@pytest.mark.parametrize("count", [0, 1])
def test_one_alone_needs_no_thread(count: int) -> None:
    scorers = [Scorer() for _ in range(count)]
    without = Scorer(is_prioritizer=False)
    assert ask(AskTogether(), *scorers, without) == [ONE] * (count + 1)
    assert all(thread is threading.current_thread() for scorer in scorers for thread in scorer.threads)


def test_threads_are_kept_from_one_decision_to_the_next_and_end_with_their_owner() -> None:
    asker = AskTogether()
    both = threading.Barrier(2, timeout=60)
    scorers = [Scorer(lambda: (both.wait(), ONE)[1]) for _ in range(2)]
    for _ in range(20):
        ask(asker, *scorers)
    used = {thread for scorer in scorers for thread in scorer.threads}
    assert len(used) <= 6, "not two for each decision; a call may begin before the last one's thread is idle again"
    del asker
    gc.collect()
    for thread in used:
        thread.join(60)
        assert not thread.is_alive()
