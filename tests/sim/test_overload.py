"""More pods than fit: each end of a pod lets all that wait be tried, before their backoff has ended."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from mooring.cli.main import run
from mooring.live.observer import Observed, SchedulerObserver
from mooring.sim.scenario import Scenario
from mooring.sim.simulate import run_scenario, story_of
from mooring.sim.workload import Arrival
from mooring.testing import make_node, make_pod

SLOTS, RUN_S, EVERY_S, PODS = 4, 60.0, 7.3, 24

# Attempts by millisecond, of kube-scheduler v1.36.4: its own PriorityQueue with a clock that only the driver moves,
# pods that are refused by NodeResourcesFit, and AssignedPodDelete at each end. An attempt takes no time.
REAL = {
    0: 1,
    7300: 1,
    14600: 1,
    21900: 1,
    29200: 1,
    36500: 1,
    43800: 1,
    51100: 1,
    58400: 1,
    60000: 5,
    65700: 1,
    67300: 5,
    73000: 1,
    74600: 5,
    80300: 1,
    81900: 5,
    87600: 1,
    94900: 1,
    102200: 1,
    109500: 1,
    116800: 1,
    120000: 9,
    124100: 1,
    127300: 9,
    131400: 1,
    134600: 9,
    138700: 1,
    141900: 9,
    146000: 1,
    153300: 1,
    160600: 1,
    167900: 1,
    180000: 12,
    187300: 11,
    194600: 10,
    201900: 9,
    240000: 8,
    247300: 7,
    254600: 6,
    261900: 5,
    300000: 4,
    307300: 3,
    314600: 2,
    321900: 1,
}


class Attempts(SchedulerObserver):
    """Counts attempts by their time."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self._scheduler: Observed | None = None

    def configured(self, scheduler: Observed) -> None:
        self._scheduler = scheduler

    def decided(self, *decision: object) -> None:
        assert self._scheduler is not None
        self.seen[round(1000 * self._scheduler.clock.monotonic())] += 1


def test_attempts_are_made_when_kube_scheduler_makes_them() -> None:
    arrivals = [Arrival(EVERY_S * i, make_pod(f"p-{i}"), run_s=RUN_S) for i in range(PODS)]
    attempts = Attempts()
    play = story_of([make_node("a", pods=SLOTS)], arrivals)
    found = run_scenario(Scenario("overload", "overload", play=play), observers=[attempts])
    assert found.placed == PODS
    first = min(attempts.seen)  # after the node has come
    assert {at - first: number for at, number in attempts.seen.items()} == REAL


def test_the_command_says_where_its_attempts_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "story.yaml"
    file.write_text(
        "steps:\n- nodes: {count: 1, cpu: '1', pods: '4'}\n- workload: {count: 120, every: 2s, run: 1m, cpu: 1m}\n"
    )
    assert run(["simulate", str(file)]) == 0
    assert re.search(
        r"attempts: +\S+ \(\d+ for each pod: all that wait are tried when one ends\)", capsys.readouterr().out
    )
