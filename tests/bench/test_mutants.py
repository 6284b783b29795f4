"""Every protection is taken away once, and the soak must notice: a fault that nothing guards against proves nothing."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from mooring.bench.virtual.plan import Plan, Step, make_plan
from mooring.bench.virtual.run import Run
from mooring.bench.virtual.world import MachineClock
from mooring.client import informer as informers
from mooring.client.watch import Reflector
from mooring.scheduler import writer
from mooring.scheduler.failure import Failures
from mooring.scheduler.leader_election import LeaderElector
from mooring.scheduler.process import SchedulerProcess


@pytest.fixture(autouse=True)
def quiet(caplog):
    for name in ("mooring", "asyncio"):
        caplog.set_level(logging.CRITICAL, logger=name)


def plan(*faults: Step, seed: int = 1, seconds: float = 40.0, rate: float = 2.0) -> Plan:
    made = make_plan(seed, seconds, pods_per_s=rate, nodes=6)
    pods = [step for step in made.steps if step.what == "pod"]
    steps = sorted((*pods, *faults), key=lambda step: step.at_s)
    return replace(made, extender=False, plugin=False, decision_log="", steps=tuple(steps))


def never_fenced(patch):
    patch.setattr(SchedulerProcess, "_is_fenced", lambda self: False)


def a_lease_by_a_clock_that_stops(patch):
    stopping = "mooring.bench.virtual.replica.MachineClock"
    patch.setattr(stopping, lambda machine, is_unstoppable=False: MachineClock(machine))


def old_news_count(patch):
    patch.setattr(informers, "_is_stale", lambda version, than: False)


def no_second_look_after_a_lost_answer(patch):
    patch.setattr(writer, "_may_be_bound", lambda error: False)


def nothing_is_undone(patch):
    patch.setattr(Failures, "undo", lambda self, placement: None)


def no_list_after_a_410(patch):
    listed = Reflector._synchronise

    async def once(self):
        if not self.last_version:
            await listed(self)
        self.last_version = await self.version_now()

    patch.setattr(Reflector, "_synchronise", once)


def a_cut_watch_goes_on_from_now(patch):
    streamed = Reflector._stream

    async def stream(self, query, is_initial=lambda: False):
        if "sendInitialEvents" not in query:
            query = {**query, "resourceVersion": await self.version_now()}
        async for lines in streamed(self, query, is_initial):
            yield lines

    patch.setattr(Reflector, "_stream", stream)


def the_lease_is_taken_too_early(patch):
    patch.setattr(LeaderElector, "_is_valid", lambda self: self._observed_at + 3 > self._clock.monotonic())


BURST = tuple(Step(19.9, "pod", f"burst-{i}", 60.0, 250) for i in range(60))
# Nodes come back, the leader fills them, and what the next leader has watched of pods is from before.
UNSEEN = Plan(
    2,
    45.0,
    replicas=2,
    nodes=4,
    steps=(
        *(Step(3.0, "pod", f"first-{i}", 1000.0, 2000) for i in range(8)),
        Step(9.0, "lag-watches", "standby", 30.0, 15.0, "pods"),
        *(Step(10.0, "lose-node", f"node-{i:03d}", 9.5) for i in range(3)),
        *(Step(12.0, "pod", f"second-{i}", 1000.0, 2000) for i in range(14)),
        Step(21.0, "stop", "leader"),
    ),
)
# A leader sleeps with bindings to send. The next one is killed, so that the lease is nobody's who could bind.
DEAD = Step(20.5, "kill", "leader", 30.0, how="elected")
SEEDS = range(1, 13)
MUTANTS = [
    pytest.param(
        never_fenced, Plan(1, 40.0, qps=3, steps=(*BURST, Step(20.0, "sleep", "leader", 17.0), DEAD)), id="no fence"
    ),
    pytest.param(
        a_lease_by_a_clock_that_stops,
        Plan(1, 40.0, qps=3, steps=(*BURST, Step(20.4, "sleep", "leader", 17.0, how="suspend"), DEAD)),
        id="a clock that stops with the machine",
    ),
    pytest.param(old_news_count, UNSEEN, id="old events count"),
    pytest.param(
        no_second_look_after_a_lost_answer,
        plan(
            *(Step(15.0, "lag-watches", f"replica-{i}", 20.0, 2.0, "pods") for i in range(3)),
            Step(15.0, "lose-answers", "leader", 20.0, 0.7, "half"),
        ),
        id="a Binding without an answer has failed",
    ),
    pytest.param(
        nothing_is_undone,
        plan(*(Step(5.0 + 9 * i, "refuse-requests", "leader", 8.0, 0.6) for i in range(3))),
        id="nothing is undone",
    ),
    pytest.param(no_list_after_a_410, plan(Step(25.0, "expire-watches", "leader", 5.0)), id="no list after a 410"),
    pytest.param(
        a_cut_watch_goes_on_from_now,
        plan(
            *(Step(10.0 + 3 * i, "lag-watches", "leader", 1.0, 1.0) for i in range(8)),
            *(Step(10.5 + 3 * i, "cut-watches", "leader", how="half") for i in range(8)),
        ),
        id="a cut watch goes on from now",
    ),
    pytest.param(
        the_lease_is_taken_too_early,
        Plan(1, 40.0, qps=3, steps=(*BURST, Step(20.4, "sleep", "leader", 6.0, how="suspend"), DEAD)),
        id="a lease taken early",
    ),
]


@pytest.mark.parametrize(("mutate", "story"), MUTANTS)
def test_a_mutant_is_caught(mutate, story, monkeypatch):
    """By one seed of a few: which messages meet is chance, and every change to the scheduler throws the dice anew."""
    mutate(monkeypatch)
    assert any(Run(replace(story, seed=seed)).play(stops_early=True).problems for seed in SEEDS)


@pytest.mark.parametrize("story", [pytest.param(each.values[1], id=each.id) for each in MUTANTS])
def test_the_scheduler_itself_gets_through(story):
    assert Run(story).play(stops_early=True).problems == []
