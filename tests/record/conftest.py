"""Stories with a record."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import pytest

from mooring.record.reader import Record
from mooring.record.recorder import Immediately, Recorder
from mooring.sim.simulate import Arrival, simulate
from mooring.testing import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"


def story(seed: int, pods: int = 60) -> list[Arrival]:
    """Pods of three sizes and priorities, some of which end."""
    rng = random.Random(seed)
    return [
        Arrival(
            round(rng.random() * pods, 3),
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


def play(
    arrivals: list[Arrival], recorder: Recorder, *, config: Any = None, nodes: int = 5, plugins: tuple[type, ...] = ()
) -> None:
    objects = [make_node(f"n{i}", cpu="6", labels={ZONE: f"z{i % 3}"}) for i in range(nodes)]
    until_s = 1.5 * len(arrivals)
    simulate(objects, arrivals, observers=[recorder], until=until_s, config=config, plugins=plugins)
    recorder.close()


def read(data: bytes) -> Record:
    return Record(io.BytesIO(data), "test")


@pytest.fixture
def recorded() -> Callable[..., Record]:
    """Play a story and open its record."""

    def recorded(arrivals: list[Arrival], *, every: int = 500, **how: Any) -> Record:
        sink = io.BytesIO()
        play(arrivals, Recorder(Immediately(sink), source="simulation", keyframe_every=every), **how)
        return read(sink.getvalue())

    return recorded
