"""A pod that is refused as an equal one was an instant ago: what is known is used again, until something changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.core.engine.decision import ScheduleResult
from mooring.testing import Scheduler, bound, make_node, make_pod


def full() -> Scheduler:
    scheduler = Scheduler(make_node("a", cpu="1"), make_node("b", cpu="1"))
    for node in ("a", "b"):
        scheduler.cluster.set_pod(bound(make_pod(f"on-{node}", cpu="1"), node))
    for i in range(2):  # a template is kept from its second pod on
        tried(scheduler, f"before{i}")
    return scheduler


def tried(scheduler: Scheduler, name: str, *, priority: int = 0) -> ScheduleResult:
    return scheduler.decide(make_pod(name, cpu="600m", priority=priority))


def test_an_equal_pod_is_refused_for_what_is_known() -> None:
    scheduler = full()
    first, second = tried(scheduler, "p"), tried(scheduler, "q")
    assert second.statuses is first.statuses
    assert second.message == first.message and second.pod.pod.name == "q"


def free(scheduler: Scheduler) -> None:
    scheduler.cluster.remove_pod(bound(make_pod("on-a", cpu="1"), "a").uid)


def grow(scheduler: Scheduler) -> None:
    scheduler.cluster.set_node(make_node("b", cpu="2"))


def nominate(scheduler: Scheduler) -> None:
    scheduler.nominate(make_pod("other", cpu="1", priority=5), "b")


@pytest.mark.parametrize(
    ("happens", "node"),
    [
        pytest.param(free, "a", id="a pod goes"),
        pytest.param(grow, "b", id="a node grows"),
        pytest.param(nominate, None, id="a pod is nominated"),
    ],
)
def test_what_changes_is_looked_at(happens: Callable[[Scheduler], None], node: str | None) -> None:
    scheduler = full()
    before = tried(scheduler, "p")
    happens(scheduler)
    after = tried(scheduler, "q")
    assert after.statuses is not before.statuses and after.node == node


def test_another_priority_is_another_question_where_pods_are_nominated() -> None:
    scheduler = full()
    scheduler.cluster.set_node(make_node("b", cpu="2"))
    nominate(scheduler)
    assert tried(scheduler, "p").node is None, "the nominated pod is more important"
    assert tried(scheduler, "q", priority=10).node == "b", "and less important than this one"
    assert tried(scheduler, "r").node is None
