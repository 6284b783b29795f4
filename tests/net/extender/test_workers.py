"""Calls that run, wait, hang and come back; the test says when their time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from mooring.net.extender.workers import REPLACED_PER_PLACE, TooLate, Workers
from mooring.net.http_io import Refused

TIMEOUT_S = 1000.0  # never up unless the test says so


class Call:
    """A call in a thread of its own that blocks until it is released."""

    def __init__(self, workers: Workers) -> None:
        self.entered, self.released, self.given_up = threading.Event(), threading.Event(), threading.Event()
        self.outcome: object = None
        self._workers = workers
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self._workers.run(self._work, self.given_up.set)
        except (TooLate, Refused) as error:
            self.outcome = error

    def _work(self) -> str:
        self.entered.set()
        self.released.wait(60)
        return "done"

    def end(self) -> object:
        self.released.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.outcome


class Calls:
    def __init__(self, places: int, waiting: int = 0) -> None:
        self.workers = Workers(places, most_waiting=waiting, timeout_s=TIMEOUT_S)
        self.made: list[Call] = []

    def start(self) -> Call:
        call = Call(self.workers)
        self.made.append(call)
        return call

    def started(self) -> Call:
        call = self.start()
        assert call.entered.wait(60)
        return call

    def let_time_pass(self) -> None:
        self.workers.give_up_late(time.monotonic() + TIMEOUT_S)

    def hang(self, count: int) -> None:
        for _ in range(count):
            self.started()
            self.let_time_pass()


@pytest.fixture
def calls() -> Iterator[Calls]:
    made = Calls(places=2)
    yield made
    for call in made.made:
        call.end()


def test_a_call_in_time_gives_its_result(calls: Calls) -> None:
    call = calls.started()
    assert calls.workers.in_flight == 1
    assert call.end() == "done" and not call.given_up.is_set()
    assert calls.workers.in_flight == 0


def test_only_calls_whose_time_is_up_are_given_up(calls: Calls) -> None:
    call = calls.started()
    left_s = calls.workers.give_up_late(time.monotonic())
    assert 0 < left_s <= TIMEOUT_S and not call.given_up.is_set()
    assert call.end() == "done"


def test_a_late_call_is_given_up_once_and_its_result_is_dropped(calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    call = calls.started()
    calls.let_time_pass()
    assert call.given_up.is_set() and calls.workers.hung == 1 and calls.workers.in_flight == 1
    call.given_up.clear()
    calls.let_time_pass()
    assert not call.given_up.is_set()
    assert isinstance(call.end(), TooLate)
    assert calls.workers.hung == 0 and calls.workers.in_flight == 0
    assert [record.message for record in caplog.records] == ["calls hang", "an abandoned call has ended"]


def test_hung_calls_are_replaced(calls: Calls) -> None:
    calls.hang(2)
    assert not calls.workers.is_healthy
    assert calls.started().end() == "done"


def test_a_few_hung_calls_are_healthy_enough(calls: Calls) -> None:
    calls.hang(1)
    assert calls.workers.is_healthy


def test_replacements_are_limited_and_further_calls_are_refused_immediately(calls: Calls) -> None:
    calls.hang(2 * REPLACED_PER_PLACE + 2)
    with pytest.raises(Refused, match="10 calls hang") as refused:
        calls.workers.run(lambda: None, lambda: None)
    assert refused.value.status == 503
    calls.made[0].end()  # it had been replaced: two others run in its place
    with pytest.raises(Refused):
        calls.workers.run(lambda: None, lambda: None)
    calls.made[-1].end()
    assert calls.workers.run(lambda: "done", lambda: None) == "done"


def test_hung_calls_that_come_back_make_it_healthy_again(calls: Calls) -> None:
    calls.hang(3)
    for call in calls.made:
        call.end()
    assert calls.workers.is_healthy
    running = [calls.started(), calls.started()]
    with pytest.raises(Refused, match="which is the limit"):
        calls.workers.run(lambda: None, lambda: None)
    assert [call.end() for call in running] == ["done", "done"], "there are as many places as before"


def test_a_call_waits_for_a_place_and_its_time_runs_meanwhile() -> None:
    calls = Calls(places=1, waiting=1)
    try:
        first = calls.started()
        second = calls.start()
        while len(calls.workers._calls) < 2:
            time.sleep(0)
        with pytest.raises(Refused, match="2 requests are being answered"):
            calls.workers.run(lambda: None, lambda: None)
        calls.let_time_pass()
        assert isinstance(second.end(), TooLate) and second.given_up.is_set() and not second.entered.is_set()
        assert calls.workers.hung == 1, "one that never ran cannot hang"
        assert isinstance(first.end(), TooLate)
    finally:
        for call in calls.made:
            call.end()


def test_a_call_that_waits_gets_the_place_of_one_that_ends() -> None:
    calls = Calls(places=1, waiting=1)
    first = calls.started()
    second = calls.start()
    assert first.end() == "done"
    assert second.end() == "done"


def test_one_answer_that_cannot_be_given_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    calls = Calls(places=2)
    first, second = calls.started(), calls.started()
    next(iter(calls.workers._calls)).give_up = lambda: 1 / 0  # type: ignore[assignment, return-value]
    calls.let_time_pass()
    assert not first.given_up.is_set() and second.given_up.is_set()
    assert "failed to answer for a hanging call" in caplog.text
    assert all(isinstance(call.end(), TooLate) for call in (first, second))


def test_the_watchdog_looks_by_itself() -> None:
    workers = Workers(1, most_waiting=0, timeout_s=0.02)
    workers.start()
    given_up = threading.Event()
    try:
        with pytest.raises(TooLate):
            workers.run(lambda: given_up.wait(60), given_up.set)
        assert given_up.is_set()
    finally:
        workers.close()
