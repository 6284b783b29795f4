"""An attempt whose time is over ends at the next extension point, wherever it is."""

from __future__ import annotations

import pytest

from mooring import sdk
from mooring.core.framework.cycle_state import Budget, CycleState, OutOfTime
from mooring.testing import Scheduler, make_node, make_pod


def spend(state: CycleState) -> None:
    state.budget.is_spent = True


class SlowFilter(sdk.NodeFilter):
    """Uses up the attempt's time, then lets every node pass."""

    name = "SlowFilter"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        spend(state)
        return sdk.SUCCESS


class SlowRefusal(SlowFilter):
    """Uses up the attempt's time, then refuses every node."""

    name = "SlowRefusal"

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        spend(state)
        return sdk.unschedulable("no")


def engine_with(plugin: type) -> Scheduler:
    plugins = {"multiPoint": {"enabled": [{"name": plugin.name}]}}
    config = {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}
    return Scheduler(make_node("a"), make_node("b"), config=config, plugins=[plugin])


@pytest.mark.parametrize(
    "plugin", [pytest.param(SlowFilter, id="before scoring"), pytest.param(SlowRefusal, id="before preemption")]
)
def test_a_spent_budget_ends_the_attempt(plugin):
    scheduler = engine_with(plugin)
    pod, profile = scheduler.cluster.info(make_pod("web")), scheduler.profiles["default-scheduler"]
    with pytest.raises(OutOfTime):
        scheduler.session.engine.decide(pod, profile, budget=Budget())


def test_a_hypothesis_shares_the_budget_of_its_attempt():
    state = CycleState()
    state.budget = Budget()
    copy = state.clone()
    copy.check_time()
    spend(state)
    with pytest.raises(OutOfTime):
        copy.check_time()


def test_no_plugin_can_swallow_the_end_of_its_time():
    assert not issubclass(OutOfTime, Exception)
