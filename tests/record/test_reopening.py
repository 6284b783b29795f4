"""Every attempt of a record, opened again, decides as it did: node, message, victims, counts and total score."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.core import Node
from mooring.record.entries import Attempt, Nominated, Put
from mooring.record.files import KEYFRAME, scan
from mooring.record.moment import Moment
from mooring.record.reader import Record
from mooring.record.recorder import Immediately, Recorder
from mooring.sim import virtual_time
from mooring.sim.simulate import Arrival
from mooring.testing import make_pod

from .conftest import play, story


def decided_again(moment: Moment) -> tuple[Any, ...]:
    found = moment.decide()
    message = "" if found.node else found.message
    victims = tuple(victim.pod.key for victim in found.victims)
    counts = (found.feasible_nodes, found.evaluated_nodes)
    total = None if found.scores is None else found.scores.best
    assert not moment.difference(found)
    return found.outcome.value, found.node or "", message, victims, *counts, total


def told(entry: Attempt) -> tuple[Any, ...]:
    return entry.outcome, entry.node, entry.message, entry.victims, entry.feasible, entry.evaluated, entry.score


def check_all(record: Record, *, step: int = 1) -> list[Attempt]:
    """Decide again about every attempt on the way through the record, and about a few by opening them."""
    moment = Moment(record.header, record._registry)
    attempts = []
    for time, entry in record.entries():
        if isinstance(entry, Attempt):
            attempts.append(entry)
            if entry.number % step == 0:
                moment.time, moment.attempt = time, entry
                assert decided_again(moment) == told(entry), entry
        moment.apply(time, entry)
    for entry in attempts[:: max(1, len(attempts) // 5)]:
        assert decided_again(record.attempt(entry.number)) == told(entry), entry
    assert len(attempts) == record.num_attempts
    return attempts


def test_evictions_and_nominations_are_decided_again(recorded: Any) -> None:
    attempts = check_all(recorded(story(1)), step=3)
    assert any(entry.victims for entry in attempts) and any(entry.picks for entry in attempts)


def test_hints_of_equal_pods_are_taken_again(recorded: Any) -> None:
    lists = {"name": "PodTopologySpread", "args": {"defaultingType": "List"}}
    config = {"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [lists]}]}
    arrivals = [Arrival(1.0, make_pod(f"p{i}", cpu="5")) for i in range(8)]
    attempts = check_all(recorded(arrivals, config=config, nodes=12))
    assert sum(bool(entry.hint) for entry in attempts) > 3


def test_a_search_of_a_part_of_the_nodes_begins_where_it_did(recorded: Any) -> None:
    attempts = check_all(recorded(story(3, 20), config={"percentageOfNodesToScore": 5}, nodes=150))
    assert {entry.start for entry in attempts} == {0, 50, 100}


def test_pods_that_are_nominated_to_nothing_are_not_listed(recorded: Any) -> None:
    timed = recorded(story(1)).entries()
    assert {entry.node for _, entry in timed if isinstance(entry, Nominated)} <= {f"n{i}" for i in range(5)}


def test_the_same_story_gives_the_same_bytes(recorded: Any) -> None:
    first, second = (recorded(story(3, 20)) for _ in range(2))
    assert first._file.getvalue() == second._file.getvalue()


def test_entries_come_in_order_with_whole_objects(recorded: Any) -> None:
    timed = list(recorded(story(4, 20)).entries())
    assert [time for time, _ in timed] == sorted(time for time, _ in timed)
    nodes = [entry.object for _, entry in timed if isinstance(entry, Put) and isinstance(entry.object, Node)]
    assert {node.name: node.status.allocatable["cpu"] for node in nodes} == {f"n{i}": "6" for i in range(5)}


@pytest.mark.parametrize("since_s", [0.0, 7.5, 15.0])
def test_entries_since_a_time_are_those_at_the_end_of_all(recorded: Any, since_s: float) -> None:
    record = recorded(story(5, 20), every=50)
    since = record.first_time + since_s
    assert list(record.entries(since=since)) == [timed for timed in record.entries() if timed[0] >= since]


def test_a_time_shows_what_was_there_then(recorded: Any) -> None:
    record = recorded(story(6, 20), every=50)
    moment = Moment(record.header)
    times = [record.first_time + seconds for seconds in (3.0, 9.0, 17.0)]
    timed = iter(record.entries())
    entry: Any = next(timed)
    for time in times:
        while entry[0] <= time:
            moment.apply(*entry)
            entry = next(timed)
        opened = record.moment(time)
        assert opened.queue == moment.queue
        assert {info.pod.key: info.pod.spec.node_name for info in opened.state.pods()} == {
            info.pod.key: info.pod.spec.node_name for info in moment.state.pods()
        }


@pytest.mark.parametrize(("run_s", "has_more"), [(None, False), (1.0, True)], ids=["that stay", "that end"])
def test_pods_that_only_come_are_worth_no_keyframe(run_s: float | None, has_more: bool) -> None:
    """A keyframe repeats all of them, so that beginning there would not save reading."""
    gated = {"schedulingGates": [{"name": "later"}]}
    arrivals = [Arrival(i / 10, make_pod(f"p{i}", spec={} if run_s else gated), run_s=run_s) for i in range(200)]
    sink = io.BytesIO()
    play(arrivals, Recorder(Immediately(sink), keyframe_every=20, batch=10))
    kinds = [block.kind for block in scan(sink, len(sink.getvalue()))]
    assert (kinds.count(KEYFRAME) > 1) == has_more


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_wall_clock_that_is_put_right_breaks_no_record(
    jump_s: float, recorded: Callable[..., Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    since = virtual_time._since

    def jumping(loop: Any, starts_at: float) -> Callable[[], float]:
        now = since(loop, starts_at)
        return lambda: now() + (jump_s if loop.time() > 20.0 else 0.0)

    monkeypatch.setattr(virtual_time, "_since", jumping)
    record = recorded(story(3), every=50)
    times = [time for time, _ in record.entries()]
    assert times == sorted(times) and record.first_time <= times[0] and times[-1] <= record.last_time
    assert record.last_time - record.first_time == pytest.approx(90.0 + max(0.0, jump_s), abs=21.0)
    assert check_all(record, step=20)
