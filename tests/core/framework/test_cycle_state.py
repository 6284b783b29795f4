"""What plugins remember within one attempt, and what a hypothesis may change of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mooring.core.framework.cycle_state import UNLIMITED, Budget, CycleState, OutOfTime, PluginTimer


@dataclass
class Counter:
    n: int = 0

    def clone(self) -> Counter:
        return Counter(self.n)


def test_what_was_written_is_read() -> None:
    state = CycleState()
    state.write("Mine", 1)
    state.write("Mine/more", [2])
    state.write("Mine", 3)
    assert (state.read("Mine"), state.read("Mine/more"), state.read("missing")) == (3, [2], None)


def test_a_copy_clones_what_can_be_cloned_and_shares_the_rest() -> None:
    state, shared = CycleState(), [1]
    state.write("counter", Counter(3))
    state.write("shared", shared)
    copy = state.clone()
    copy.read("counter").n = 4
    assert state.read("counter").n == 3 and copy.read("shared") is shared


def test_what_is_written_into_a_copy_stays_there() -> None:
    state = CycleState()
    state.write("a", 1)
    copy = state.clone()
    copy.write("a", 2)
    copy.write("b", 3)
    assert (state.read("a"), state.read("b")) == (1, None)


def test_a_copy_keeps_the_skips_and_the_budget_but_is_not_timed() -> None:
    state = CycleState()
    state.skip_filter.add("X")
    state.skip_score.add("Y")
    state.budget = Budget()
    state.timer = PluginTimer(lambda: 0.0, lambda *_: None)
    copy = state.clone()
    assert (copy.skip_filter, copy.skip_score, copy.budget) == ({"X"}, {"Y"}, state.budget)
    assert copy.timer is None, "kube-scheduler's metrics count no hypotheses"


def test_two_attempts_share_nothing() -> None:
    first, second = CycleState(), CycleState()
    first.skip_filter.add("X")
    first.write("a", 1)
    assert not second.skip_filter and second.read("a") is None


def test_an_attempt_ends_when_its_time_is_over() -> None:
    state = CycleState()
    assert state.budget is UNLIMITED
    state.check_time()
    state.budget = Budget()
    state.check_time()
    state.budget.is_spent = True
    for each in (state, state.clone()):
        with pytest.raises(OutOfTime):
            each.check_time()
    assert not issubclass(OutOfTime, Exception), "no plugin can swallow it by accident"
