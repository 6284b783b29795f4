"""The loop that all controllers share: queues, turns, retries, paces, and writes that are under way."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import pytest

from mooring.api.clock import VirtualClock
from mooring.controlplane.cluster import base
from mooring.controlplane.cluster.base import Controller
from mooring.controlplane.registry.catalog import NODES
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage.store import Event, Store
from mooring.controlplane.types.status import StatusError, conflict
from tests.controlplane.timers import DiscreteTimers


class Diary(Controller):
    """Records its keys, and fails the given number of times."""

    watches: ClassVar[tuple[str, ...]] = ("nodes",)

    def __init__(self, api: Any, timers: Any) -> None:
        super().__init__(api, timers)
        self.looked_at: list[tuple[float, str]] = []
        self.failures: list[Exception] = []

    def noted(self, event: Event) -> Iterable[str]:
        return (event.entry.key,)

    def reconcile(self, key: str) -> None:
        self.looked_at.append((self.api.clock.monotonic(), key))
        if self.failures:
            raise self.failures.pop(0)


class Bench:
    def __init__(self, api_class: type[Api] = Api) -> None:
        self.clock = VirtualClock(0)
        self.timers = DiscreteTimers(self.clock)
        self.api = api_class(Store(), self.clock)
        self.diary = Diary(self.api, self.timers)

    def node(self, name: str) -> None:
        self.api.create(NODES, "", {"metadata": {"name": name}})


def test_what_is_there_at_the_start_is_looked_at() -> None:
    bench = Bench()
    bench.node("a")
    bench.diary.start()
    bench.timers.settle()
    assert bench.diary.looked_at == [(0.0, "a")]


def test_many_events_of_one_key_are_one_look() -> None:
    bench = Bench()
    bench.diary.start()
    bench.node("a")
    for i in range(5):
        bench.api.modify(NODES, "", "a", lambda obj, i=i: obj["metadata"].update(labels={"x": str(i)}))  # type: ignore[misc]
    bench.timers.settle()
    assert bench.diary.looked_at == [(0.0, "a")]


@pytest.mark.parametrize("failure", [conflict("nodes", "", "a"), ZeroDivisionError()], ids=["a refusal", "a mistake"])
def test_what_fails_is_tried_again_less_and_less_often(failure: Exception) -> None:
    bench = Bench()
    bench.diary.failures = [failure] * 4
    bench.diary.start()
    bench.node("a")
    bench.timers.advance(100)
    times = [when for when, _ in bench.diary.looked_at]
    assert times == pytest.approx([0.0, 0.05, 0.15, 0.35, 0.75])


def test_the_wait_between_tries_has_an_end() -> None:
    bench = Bench()
    bench.diary.failures = [StatusError(409, "Conflict", "no")] * 20
    bench.diary.start()
    bench.node("a")
    bench.timers.advance(200)
    times = [when for when, _ in bench.diary.looked_at]
    assert max(later - sooner for sooner, later in itertools.pairwise(times)) == pytest.approx(base.LAST_RETRY_S)


def test_a_success_forgets_the_failures_before_it() -> None:
    bench = Bench()
    bench.diary.failures = [StatusError(409, "Conflict", "no")] * 3
    bench.diary.start()
    bench.node("a")
    bench.timers.advance(10)
    bench.diary.failures = [StatusError(409, "Conflict", "no")]
    bench.diary.enqueue("a")
    bench.timers.advance(10)
    (*_, before, after) = [when for when, _ in bench.diary.looked_at]
    assert after - before == pytest.approx(base.FIRST_RETRY_S)


def test_the_earliest_of_several_wishes_counts() -> None:
    bench = Bench()
    bench.diary.start()
    for seconds in (30.0, 10.0, 20.0):
        bench.diary.enqueue_after("a", seconds)
    bench.timers.advance(60)
    assert bench.diary.looked_at == [(10.0, "a")]


def test_a_paced_key_is_reconciled_once_per_turn() -> None:
    bench = Bench()
    bench.diary.start()
    bench.diary.pace("a", 5.0)
    bench.diary.enqueue("a")
    bench.diary.enqueue("a")
    bench.diary.enqueue("b")
    bench.timers.advance(20)
    assert bench.diary.looked_at == [(0.0, "b"), (5.0, "a")]


def test_a_long_queue_gives_others_a_turn() -> None:
    bench = Bench()
    bench.diary.start()
    turns: list[int] = []
    for i in range(2 * base.TURN + 1):
        bench.diary.enqueue(f"k{i}")
    bench.timers.call_soon(lambda: turns.append(len(bench.diary.looked_at)))
    bench.timers.settle()
    assert turns == [base.TURN]
    assert len(bench.diary.looked_at) == 2 * base.TURN + 1


def test_a_controller_that_is_stopped_does_nothing_more() -> None:
    bench = Bench()
    bench.diary.start()
    bench.diary.enqueue("a")
    bench.diary.enqueue_after("b", 5.0)
    bench.diary.stop()
    bench.node("c")
    bench.timers.advance(60)
    assert bench.diary.looked_at == []


class SlowApi(Api):
    """An API whose writes are answered when the test says so."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.answers: list[asyncio.Future[None]] = []

    def carry_out(self, work: Callable[[], None]) -> Any:
        work()
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return answer


async def test_a_key_waits_until_its_writes_are_answered() -> None:
    bench = Bench(SlowApi)
    bench.diary.start()
    bench.diary.enqueue("a")
    bench.timers.settle()
    bench.diary.enqueue("a")
    bench.diary.enqueue("b")
    bench.timers.settle()
    assert [key for _, key in bench.diary.looked_at] == ["a", "b"]
    bench.api.answers[0].set_result(None)  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    bench.timers.settle()
    assert [key for _, key in bench.diary.looked_at] == ["a", "b", "a"]


# What most of them do


def test_a_status_is_written_only_when_it_is_another() -> None:
    bench = Bench()
    bench.node("a")
    entry = bench.api.get(NODES, "", "a")
    bench.diary.set_status(entry, entry.object()["status"])
    assert bench.api.get(NODES, "", "a").rv == entry.rv
    bench.diary.set_status(entry, {"phase": "Running"})
    assert bench.api.get(NODES, "", "a").object()["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    ("known", "wanted", "since"),
    [
        pytest.param([], {"type": "A", "status": "True"}, "now", id="a new condition"),
        pytest.param(
            [{"type": "A", "status": "True", "lastTransitionTime": "then"}],
            {"type": "A", "status": "True", "message": "m"},
            "then",
            id="the same status keeps its time",
        ),
        pytest.param(
            [{"type": "A", "status": "False", "lastTransitionTime": "then"}],
            {"type": "A", "status": "True"},
            "now",
            id="another status",
        ),
    ],
)
def test_conditions(known: list[Any], wanted: dict[str, Any], since: str) -> None:
    status = {"conditions": known}
    base.set_condition(status, wanted, "now")
    assert status["conditions"] == [{**wanted, "lastTransitionTime": since}]


def test_a_pod_from_a_template_shares_nothing_with_it() -> None:
    owner = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "o", "uid": "u", "namespace": "n"}}
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"], "name": "ignored"},
        "spec": {"containers": [{"name": "c", "env": [{"name": "x"}]}]},
    }
    pod = base.pod_from_template(owner, template, generateName="o-")
    assert pod["metadata"] == {
        "generateName": "o-",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["e/f"],
        "namespace": "n",
        "ownerReferences": [base.reference_to(owner)],
    }
    pod["spec"]["containers"][0]["env"][0]["name"] = "changed"
    pod["metadata"]["labels"]["a"] = "changed"
    assert template["spec"]["containers"][0]["env"] == [{"name": "x"}]
    assert template["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("pod", "active"),
    [
        ({"metadata": {}, "status": {"phase": "Running"}}, True),
        ({"metadata": {}}, True),
        ({"metadata": {}, "status": {"phase": "Failed"}}, False),
        ({"metadata": {"deletionTimestamp": "t"}, "status": {"phase": "Running"}}, False),
    ],
    ids=["running", "new", "failed", "going"],
)
def test_which_pods_count(pod: dict[str, Any], active: bool) -> None:
    assert base.is_active(pod) is active
