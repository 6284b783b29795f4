"""Observers: each gets the events it asked for, and an event without observers costs nothing."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from mooring.api.errors import MooringError
from mooring.live.observer import Observers, SchedulerObserver
from mooring.sim.scenario_file import parse_scenario
from mooring.sim.simulate import run_scenario
from mooring.testing import make_node, make_pod

EVENTS = [
    name
    for name, method in inspect.getmembers(SchedulerObserver, inspect.isfunction)
    if not name.startswith("_") and name != "wants_detail"
]


def hearing(name: str) -> SchedulerObserver:
    """An observer that overrides one method only."""
    return type("One", (SchedulerObserver,), {name: lambda self, *what: None})()


@pytest.mark.parametrize("name", EVENTS)
def test_only_observers_that_override_a_method_are_called(name):
    one = hearing(name)
    observers = Observers([SchedulerObserver(), one])
    assert [inspect.unwrap(tell) for tell in getattr(observers, name)] == [getattr(one, name)]
    others = [getattr(observers, other) for other in EVENTS if other != name]
    assert others == [()] * (len(EVENTS) - 1)


class Broken(SchedulerObserver):
    """Raises at every event."""

    def __init__(self, error):
        self.error = error


def _raise(self, *event):
    raise self.error


for method in (*EVENTS, "wants_detail"):
    setattr(Broken, method, _raise)


@pytest.mark.parametrize("name", EVENTS)
def test_one_that_raises_is_logged_once_and_the_others_hear(name, caplog):
    told = []
    other = type("Other", (SchedulerObserver,), {name: lambda self, *event: told.append(event)})()
    for _ in range(3):
        observers = Observers([Broken(ValueError("no")), other])
        for _ in range(2):
            for tell in getattr(observers, name):
                tell("pod")
    assert told == [("pod",)] * 6
    assert [each.getMessage() for each in caplog.records] == ["An observer raised; the scheduler continues"] * 3
    assert "ValueError: no (test_observer.py:" in caplog.records[0].values["err"]


def test_one_that_raises_wants_no_detail():
    assert Observers([Broken(ValueError("no"))]).wants_detail() is False


def test_an_error_for_the_user_passes():
    with pytest.raises(MooringError, match="the disk is full"):
        Observers([Broken(MooringError("the disk is full"))]).put[0]("pod")


async def test_the_scheduler_continues_after_an_observer_raises(make_stage, caplog):
    stage = make_stage(observers=(Broken(ZeroDivisionError("no")),))
    stage.put(make_node("a", cpu="1"), make_pod("web", cpu="1"), make_pod("large", cpu="2"))
    await stage.go()
    assert stage.writer.sent[0] == ("bind", "web:a")
    assert stage.scheduler.queue.counts()["unschedulable"] == 1
    heard = {each.values["method"].rpartition(".")[2] for each in caplog.records if "raised" in each.getMessage()}
    assert heard == {"_raise"}


def test_a_simulation_continues_after_an_observer_raises():
    story = "steps:\n- nodes: {count: 1, cpu: '2'}\n- workload: {count: 3, cpu: '1', run: 10s}\n"
    scenario = parse_scenario(story, source="story.yaml", folder=Path(), name="story")
    found = run_scenario(scenario, observers=[Broken(ZeroDivisionError("no"))])
    assert (found.failure, found.placed) == ("", 3)


def test_observers_are_called_in_order():
    told = []

    class Noisy(SchedulerObserver):
        def __init__(self, name):
            self.name = name

        def binding(self, info):
            told.append((self.name, info))

    for tell in Observers([Noisy("first"), Noisy("second")]).binding:
        tell("pod")
    assert told == [("first", "pod"), ("second", "pod")]


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        pytest.param([], False, id="no observers"),
        pytest.param([False, False], False, id="no observer wants it"),
        pytest.param([True, False], True, id="one of two wants it"),
    ],
)
def test_detail_is_kept_if_an_observer_wants_it_and_all_are_asked(answers, wanted):
    asked = []

    class Wants(SchedulerObserver):
        def __init__(self, answer):
            self.answer = answer

        def wants_detail(self):
            asked.append(self.answer)
            return self.answer

    assert Observers([Wants(answer) for answer in answers]).wants_detail() is wanted
    assert asked == answers
