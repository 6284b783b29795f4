"""The soak in virtual time: its worlds, its plans, its stories."""

from __future__ import annotations

import asyncio
import errno
import io
import logging
import random

import pytest

from mooring.api.errors import InputError
from mooring.live.process import SchedulerProcess
from mooring.record.background import InBackground, running
from mooring.record.files import RotatedFiles, WholeWrites
from mooring.record.reader import Record
from mooring.record.recorder import Recorder
from tests.faults.plan import Plan, Step, make_plan
from tests.faults.run import Run
from tests.faults.soak import shrink
from tests.faults.story import from_text, story_of, to_text
from tests.faults.world import Machine, MachineClock, World


@pytest.fixture(autouse=True)
def quiet(caplog):
    for name in ("mooring", "asyncio"):
        caplog.set_level(logging.CRITICAL, logger=name)


@pytest.fixture
def world():
    world = World(random.Random(1))
    yield world
    for machine in world.machines:
        machine.kill()


def sleeper(machine, log, *times_s):
    async def sleep():
        for seconds in times_s:
            await asyncio.sleep(seconds)
            log.append((machine.name, round(machine.world.now_s, 3)))

    machine.new_loop().create_task(sleep())


def test_time_jumps_from_timer_to_timer(world):
    log = []
    sleeper(Machine(world, "a"), log, 10, 10)
    sleeper(Machine(world, "b"), log, 15)
    world.run_until(100)
    assert log == [("a", 10.0), ("b", 15.0), ("a", 20.0)]
    assert world.now_s == 100


def test_a_slow_clock_wakes_late(world):
    log = []
    machine = Machine(world, "slow")
    machine.run_clock_at(0.5)
    sleeper(machine, log, 10)
    world.run_until(100)
    assert log == [("slow", 20.0)]


@pytest.mark.parametrize(
    ("stops_clock", "woken_at", "monotonic", "unstoppable"),
    [
        pytest.param(False, 45.0, 60.0, 60.0, id="a stopped process finds its timers due"),
        pytest.param(True, 50.0, 20.0, 60.0, id="a suspended machine's clock has stood still"),
    ],
)
def test_a_machine_that_sleeps_does_nothing(world, stops_clock, woken_at, monotonic, unstoppable):
    log = []
    machine = Machine(world, "m")
    sleeper(machine, log, 10)
    world.at(5.0, lambda: machine.fall_asleep(stops_clock=stops_clock))
    world.at(45.0, machine.wake)
    world.run_until(60)
    assert log == [("m", woken_at)]
    assert MachineClock(machine).monotonic() == pytest.approx(monotonic)
    assert MachineClock(machine, is_unstoppable=True).monotonic() == pytest.approx(unstoppable)


def test_what_is_killed_does_nothing_any_more(world):
    log = []
    machine = Machine(world, "m")
    sleeper(machine, log, 1, 1, 1)
    world.at(1.5, machine.kill)
    world.run_until(10)
    assert log == [("m", 1.0)]


def test_one_seed_is_one_run():
    plan = make_plan(7, 45.0, fault_every_s=2.0)
    first, second = (Run(plan).play() for _ in range(2))
    assert first == second
    assert first.problems == []
    assert first.lifetimes > 20


def test_a_minute_with_a_fault_every_second_loses_nothing():
    outcome = Run(make_plan(11, 60.0, fault_every_s=1.0)).play()
    assert outcome.problems == []
    assert len([what for what in outcome.done if "-" in what]) > 5


def test_a_story_can_be_written_and_read():
    story = story_of(make_plan(3, 30.0, fault_every_s=1.0))
    assert from_text(to_text(story, ["what went wrong"]), "story.yaml") == story


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("", "expected soak and a list of steps", id="nothing"),
        pytest.param("[]", "expected soak and a list of steps", id="no mapping"),
        pytest.param("soak: {seed: 1}\nsteps: 3", "expected soak and a list of steps", id="no steps"),
        pytest.param("soak: {}\nsteps: []", "soak: seed is missing", id="no seed"),
        pytest.param("soak: {seed: x}\nsteps: []", "seed: expected a value such as 0, found 'x'", id="no number"),
        pytest.param("soak: {seed: 1, replicas: 0}\nsteps: []", "replicas: expected 1 to 9", id="no replica"),
        pytest.param("soak: {seed: 1}\nsteps: [{drain: a}]", "no step 'drain' in a story with faults", id="a drain"),
        pytest.param("soak: {seed: 1}\nsteps: [{fault: {what: x}}]", "no fault 'x'; there are cut-off", id="a fault"),
        pytest.param("soak: {seed: 1}\nsteps: [{create: {kind: Pod}}]", "one object with a name", id="no name"),
    ],
)
def test_what_is_no_story_is_refused_in_one_line(text, told):
    with pytest.raises(InputError, match=r"^story\.yaml: ") as refused:
        from_text(text, "story.yaml")
    assert told in str(refused.value) and "\n" not in str(refused.value)


def test_a_story_is_shortened_to_what_it_needs():
    steps = tuple(Step(float(i), "pod", f"pod-{i}") for i in range(64))
    plan = Plan(1, 100.0, steps=steps)

    def fails(candidate):
        names = {step.name for step in candidate.steps}
        return ["overfilled"] if {"pod-5", "pod-41"} <= names else []

    short = shrink(plan, fails)
    assert [step.name for step in short.steps] == ["pod-5", "pod-41"]
    assert short.seconds == 42.0


def test_shortening_ends_after_a_number_of_runs():
    runs = []
    plan = Plan(1, 100.0, steps=tuple(Step(float(i), "pod", f"pod-{i}") for i in range(64)))
    shrink(plan, lambda candidate: runs.append(1) or [], max_runs=10)
    assert len(runs) <= 10


def test_a_failure_is_reported_with_the_time_of_the_write(monkeypatch):
    """A leader that sleeps longer than its lease, without the fence: the audit must see it, and when."""
    monkeypatch.setattr("mooring.live.process.SchedulerProcess._is_fenced", lambda self: False)
    burst = tuple(Step(29.9, "pod", f"pod-{i}", 60.0, 250) for i in range(60))
    sleeps, next_dies = Step(30.0, "sleep", "leader", 17.0), Step(30.5, "kill", "leader", 30.0, how="elected")
    plans = (Plan(seed, 55.0, qps=3, steps=(*burst, sleeps, next_dies)) for seed in range(1, 9))
    problems = next((found for plan in plans if (found := Run(plan).play(stops_early=True).problems)), [])
    assert problems
    assert problems[0].partition(" ")[0].replace(".", "").isdigit()
    assert "lease" in problems[0]


def test_bindings_do_not_wait_behind_paperwork():
    """1,000 pods that fit nowhere want a condition and an event each; 300 small ones a binding, at 50 requests/s."""
    large = tuple(Step(5.0, "pod", f"large-{i}", 1000.0, 100_000) for i in range(1000))
    small = tuple(Step(8.0, "pod", f"small-{i}", 1000.0, 10) for i in range(300))
    run = Run(Plan(1, 60.0, replicas=1, nodes=40, qps=50, steps=(*large, *small)))
    bound_s = run.watch_bindings()
    run.world.run_until(8.0 + 300 / 50 + 0.5)
    run.end()
    assert sorted(name for name, _ in bound_s) == sorted(step.name for step in small)


class FullDisk(io.FileIO):
    """Takes so many bytes, all files together."""

    room = 0

    def write(self, data):
        taken = bytes(data)[: FullDisk.room]
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        FullDisk.room -= len(taken)
        return super().write(taken)


class AtOnce(InBackground):
    """Does the thread's work immediately: a world in virtual time has no threads."""

    def _send(self, number, work):
        self._do(work)

    def take(self, times, items):
        super().take(times, items)
        self._writer.flush()


class Recorded(SchedulerProcess):
    def __init__(self, recorder, *rest, **more):
        super().__init__(*rest, observers=(recorder,), **more)
        self._recorder = recorder

    async def run(self, *, signals=True):
        async with running(self._recorder):
            return await super().run(signals=signals)


def test_a_record_on_a_full_disk_is_whole_up_to_there_and_holds_nothing_up(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("mooring.record.background.RETRY_S", 1e9)
    monkeypatch.setattr(FullDisk, "room", 8_000)
    caplog.set_level(logging.ERROR, logger="mooring.record")
    path = tmp_path / "run.mrec"
    files = RotatedFiles(str(path), max_bytes=1 << 30, max_age_s=1e6)
    files.begin = lambda: WholeWrites(FullDisk(path, "w"))
    recorder = Recorder(AtOnce(files), batch=16)
    pods = tuple(Step(5.0 + i / 4, "pod", f"pod-{i}", 4.0, 250) for i in range(80))
    outcome = Run(
        Plan(1, 30.0, replicas=1, steps=pods),
        lambda settings, config, around: Recorded(recorder, settings, config, environment=around),
    ).play()
    assert outcome.problems == [] and outcome.pods_bound == len(pods)
    told = [each.getMessage() for each in caplog.records if each.name == "mooring.record"]
    assert told == ["The record cannot be written; entries are dropped"]
    with Record.open(path, follows=True) as record:
        numbers = [attempt.number for _, attempt in record.attempts()]
    assert numbers == list(range(1, len(numbers) + 1)) and 10 < len(numbers) < len(pods)
