"""Observers: each hears what it asked for, and nobody pays for what nobody hears."""

from __future__ import annotations

import inspect

import pytest

from mooring.live.observer import Observers, SchedulerObserver

EVENTS = [
    name
    for name, method in inspect.getmembers(SchedulerObserver, inspect.isfunction)
    if not name.startswith("_") and name != "wants_detail"
]


def hearing(name: str) -> SchedulerObserver:
    """An observer that overrides one method only."""
    return type("One", (SchedulerObserver,), {name: lambda self, *what: None})()


@pytest.mark.parametrize("name", EVENTS)
def test_only_those_who_override_a_method_are_called(name):
    one = hearing(name)
    observers = Observers([SchedulerObserver(), one])
    assert getattr(observers, name) == (getattr(one, name),)
    others = [getattr(observers, other) for other in EVENTS if other != name]
    assert others == [()] * (len(EVENTS) - 1)


def test_observers_are_told_in_order():
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
        pytest.param([], False, id="nobody is there"),
        pytest.param([False, False], False, id="nobody wants it"),
        pytest.param([True, False], True, id="one of two wants it"),
    ],
)
def test_detail_is_kept_if_somebody_wants_it_and_all_are_asked(answers, wanted):
    asked = []

    class Wants(SchedulerObserver):
        def __init__(self, answer):
            self.answer = answer

        def wants_detail(self):
            asked.append(self.answer)
            return self.answer

    assert Observers([Wants(answer) for answer in answers]).wants_detail() is wanted
    assert asked == answers
