"""Every attempt of a record, opened again, decides as it did: node, message, victims and counts."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest

from mooring.api.core import Node
from mooring.config.load import config_from_dict
from mooring.record.entries import Attempt, Put
from mooring.record.moment import Moment
from mooring.record.reader import Record
from mooring.record.recorder import Immediately, Recorder
from mooring.simulation.simulate import Arrival, simulate
from mooring.testing import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"


def story(seed: int, pods: int = 60) -> list[Arrival]:
    rng = random.Random(seed)
    return [
        Arrival(
            round(rng.random() * 60, 3),
            make_pod(
                f"p{i}",
                cpu=str(rng.choice([1, 2, 3])),
                priority=rng.choice([None, 0, 10, 20]),
                labels={"app": rng.choice("ab")},
                spec={"terminationGracePeriodSeconds": 2},
            ),
            run_s=rng.choice([None, 5, 20]),
        )
        for i in range(pods)
    ]


def recorded(arrivals: list[Arrival], *, config: Any = None, every: int = 500, until_s: float = 90) -> Record:
    sink = io.BytesIO()
    recorder = Recorder(Immediately(sink), source="simulation", keyframe_every=every)
    nodes = [make_node(f"n{i}", cpu="6", labels={ZONE: f"z{i % 3}"}) for i in range(5)]
    parsed = None if config is None else config_from_dict(config)
    simulate(nodes, arrivals, observers=[recorder], until_s=until_s, config=parsed)
    recorder.close()
    return Record(io.BytesIO(sink.getvalue()), "test")


def decided_again(moment: Moment) -> tuple[Any, ...]:
    found = moment.decide()
    message = "" if found.node else found.message
    victims = tuple(victim.pod.key for victim in found.victims)
    return found.outcome.value, found.node or "", message, victims, found.feasible_nodes, found.evaluated_nodes


def told(entry: Attempt) -> tuple[Any, ...]:
    return entry.outcome, entry.node, entry.message, entry.victims, entry.feasible, entry.evaluated


BATCHING = {
    "profiles": [{"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List"}}]}],
}


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(None, id="default configuration"),
        pytest.param(BATCHING, id="equal pods take hints of each other"),
        pytest.param({"percentageOfNodesToScore": 40}, id="a part of the nodes is scored"),
    ],
)
def test_every_attempt_decides_as_it_did(config: Any) -> None:
    record = recorded(story(1), config=config)
    attempts = [entry for _, entry in record.attempts()]
    assert len(attempts) == record.num_attempts > 60
    assert any(entry.victims for entry in attempts)
    for entry in attempts[:: len(attempts) // 8]:
        assert decided_again(record.attempt(entry.number)) == told(entry), entry
    moment = Moment(record.header)
    for time, entry in record.entries():
        if isinstance(entry, Attempt) and entry.number % 5 == 0:
            moment.attempt = entry
            assert decided_again(moment) == told(entry), entry
        moment.apply(time, entry)


def test_the_same_story_gives_the_same_bytes() -> None:
    first, second = (recorded(story(3, 20)) for _ in range(2))
    assert first._file.read() == second._file.read()


def test_entries_come_in_order_with_whole_objects() -> None:
    record = recorded(story(4, 20))
    timed = list(record.entries())
    assert [time for time, _ in timed] == sorted(time for time, _ in timed)
    nodes = [entry.object for _, entry in timed if isinstance(entry, Put) and isinstance(entry.object, Node)]
    assert [(node.name, node.status.allocatable["cpu"]) for node in nodes[:5]] == [(f"n{i}", "6") for i in range(5)]
