"""One pod after another: what is tried, what an attempt leads to, and what happens while the loop rests."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mooring import sdk
from mooring.api.clock import VirtualClock
from mooring.core.framework.cycle_state import PODS_TO_ACTIVATE, OutOfTime
from mooring.core.framework.extender import ExtenderError
from mooring.core.framework.status import SUCCESS, Code, Status
from mooring.live.scheduling_loop import GATHER_MORE, GATHER_S, MOST_AGAIN, MOST_GATHER_S, MOST_TURNS, SHORT_GATHER_S
from mooring.live.time_limits import TimeLimits
from mooring.testing import bound, make_node, make_pod


async def until(check) -> None:
    """Let the loop turn until something is true."""
    async with asyncio.timeout(600.0):
        while not check():  # noqa: ASYNC110 – another thread makes it true
            await asyncio.sleep(0)


async def test_a_pod_that_fits_is_assumed_immediately_and_bound_in_the_background(make_stage):
    stage = make_stage()
    stage.writer.gates["bind", "web"] = gate = asyncio.Event()
    stage.put(make_node("a"), make_pod("web"))
    await stage.go()
    assert stage.scheduler.cluster.pod("uid-default-web").pod.spec.node_name == "a"
    assert stage.writer.sent == [] and stage.scheduler.in_flight == 1
    gate.set()
    assert await stage.scheduler.drain(60.0)
    assert stage.writer.sent == [("bind", "web:a")]
    assert stage.recorder.events == [("web", "Scheduled", "Successfully assigned default/web to a")]


async def test_the_next_pod_is_tried_before_the_first_is_bound(make_stage):
    stage = make_stage()
    stage.writer.gates["bind", "first"] = asyncio.Event()
    stage.put(make_node("a", cpu="1"), make_node("b", cpu="1"), make_pod("first", cpu="1"), make_pod("second", cpu="1"))
    await stage.go()
    assert stage.writer.sent == [("bind", "second:b")], "the first one's room is taken"
    await stage.scheduler.abort()


@pytest.mark.parametrize(
    ("pod", "events"),
    [
        pytest.param(
            make_pod("web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            [("web", "FailedScheduling", "skip schedule deleting pod: default/web")],
            id="it is being deleted",
        ),
    ],
)
async def test_a_pod_that_is_not_tried(make_stage, pod, events):
    stage = make_stage()
    stage.put(make_node("a"), make_pod("web"))
    info = stage.scheduler.queue.pop()
    info.pod_info = stage.scheduler.cluster.info(pod)
    stage.scheduler.schedule_one(info)
    assert stage.recorder.events == events and stage.heard.story == [f"event {name}: {why}" for name, why, _ in events]
    assert stage.scheduler.in_flight == 0 and stage.where("web") == ""


async def test_a_pod_that_runs_already_is_not_tried(make_stage):
    stage = make_stage()
    stage.put(make_node("a"), make_pod("web"))
    info = stage.scheduler.queue.pop()
    stage.put(bound(make_pod("web"), "a"))
    stage.scheduler.schedule_one(info)
    assert stage.heard.story == []


async def test_observers_hear_the_life_of_a_pod_in_order(make_stage):
    stage = make_stage()
    stage.put(make_node("a"), make_pod("web"))
    await stage.go()
    assert stage.heard.story == [
        "decided default/web: scheduled",
        "binding default/web",
        "event web: Scheduled",
        "bound default/web to a",
        "binding ended default/web",
    ]


class Steps:
    """Does in Reserve and Permit what the pod's labels say."""

    name = "Steps"

    def __init__(self, args, handle):
        self.unreserved = []

    def reserve(self, state, pod, node_name):
        wanted = pod.pod.metadata.labels
        if wanted.get("activates"):
            state.read(PODS_TO_ACTIVATE)["any"] = make_pod(wanted["activates"])
        if wanted.get("activates-nonsense"):
            state.read(PODS_TO_ACTIVATE)["any"] = "not a pod"
        return Status.unschedulable("no room here") if wanted.get("reserve") == "no" else SUCCESS

    def unreserve(self, state, pod, node_name):
        self.unreserved.append(pod.pod.name)

    def permit(self, state, pod, node_name):
        match pod.pod.metadata.labels.get("permit"):
            case "no":
                return Status.unschedulable("not now"), 0.0
            case "wait":
                return Status(Code.WAIT), 60.0
            case _:
                return SUCCESS, 0.0


@pytest.mark.parametrize(("point", "message"), [("reserve", "no room here"), ("permit", "not now")])
async def test_a_refusal_after_the_decision_undoes_what_was_reserved(make_stage, point, message):
    stage = make_stage(plugins=[Steps])
    stage.put(make_node("a"), make_pod("web", labels={point: "no"}))
    await stage.go()
    assert stage.scheduler.cluster.pod("uid-default-web") is None
    (plugin,) = [p.plugin for p in stage.scheduler.profiles["default-scheduler"].plugins.values() if p.name == "Steps"]
    assert plugin.unreserved == ["web"]
    assert stage.recorder.events == [("web", "FailedScheduling", f"0/1 nodes are available: 1 {message}.")]
    assert stage.where("web") == "unschedulable"


async def test_a_pod_can_wait_on_permit_with_its_node_held(make_stage):
    stage = make_stage(plugins=[Steps])
    stage.put(make_node("a"), make_pod("web", labels={"permit": "wait"}))
    await stage.go()
    assert "waiting default/web on a for Steps" in stage.heard.story
    assert ("bind", "web:a") not in stage.writer.sent
    stage.scheduler.waiting_pods.get("uid-default-web").allow("Steps")
    assert await stage.scheduler.drain(60.0)
    assert stage.writer.sent[-1] == ("bind", "web:a")
    assert "waited default/web: SUCCESS" in stage.heard.story


async def test_a_plugin_can_activate_another_pod(make_stage):
    stage = make_stage(plugins=[Steps])
    stage.put(make_node("a", cpu="1"), make_pod("big", cpu="2"))
    await stage.go()
    assert stage.where("big") == "unschedulable"
    stage.put(make_pod("web", labels={"activates": "big"}))
    stage.scheduler.schedule_one(stage.scheduler.queue.pop())
    assert stage.where("big") == "active"
    await stage.scheduler.abort()


async def test_what_is_not_a_pod_cannot_be_activated_and_breaks_nothing(make_stage, caplog):
    stage = make_stage(plugins=[Steps])
    stage.put(make_node("a"), make_pod("web", labels={"activates-nonsense": "yes"}))
    await stage.go()
    assert stage.writer.sent == [("bind", "web:a")]
    assert "A plugin asked to activate something that is not a Pod" in caplog.text


async def test_a_mistake_of_our_own_costs_the_pod_an_attempt(make_stage, monkeypatch, caplog):
    stage = make_stage()
    stage.put(make_node("a"), make_pod("web"))

    def broken(*_, **__):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(stage.scheduler.session.engine, "decide", broken)
    await stage.go()
    assert stage.recorder.events == [("web", "FailedScheduling", "ZeroDivisionError: ours")]
    assert "Unexpected error in a scheduling cycle" in caplog.text
    assert stage.where("web") == "backoff"


class Hangs(sdk.NodeFilter):
    """Waits for ever for pods that are labelled so; only this moves the clock of the limits."""

    name = "Hangs"
    clock = VirtualClock()

    def filter(self, state: sdk.CycleState, pod: sdk.Pod, node: sdk.NodeView) -> sdk.Status:
        if "hangs" in pod.metadata.labels:
            self.clock.advance(100.0)
            threading.Event().wait()
        return sdk.SUCCESS


async def test_a_pod_that_runs_out_of_time_backs_off_and_the_second_time_waits(make_stage):
    limits = TimeLimits(Hangs.clock, poll_s=0.001)
    stage = make_stage(plugins=[Hangs], limits=limits, plugin_timeout_s=0.0, attempt_timeout_s=15.0)
    stage.put(make_node("a"), make_pod("web", labels={"hangs": "yes"}))
    before = stage.scheduler.session
    with limits:
        await stage.go()
        assert stage.where("web") == "backoff"
        assert stage.scheduler.session is not before, "plugins and caches are made anew"
        stage.clock.advance(10.0)
        stage.scheduler.queue.run_timers()
        await stage.go()
    assert stage.where("web") == "unschedulable", "only the passing of time wakes it"
    (first, _) = stage.recorder.events
    assert first[2].startswith("the attempt to find a node did not end within 15s (test_loop.py:")
    stage.put(make_node("b"), make_pod("ordinary"))
    assert stage.where("web") == "unschedulable"
    await stage.go()
    assert any(verb == "bind" and name.startswith("ordinary") for verb, name in stage.writer.sent)


async def test_the_loop_rests_until_a_pod_comes(make_stage):
    stage = make_stage()
    running = asyncio.create_task(stage.scheduler.run())
    try:
        await asyncio.sleep(0)
        assert stage.scheduler.decisions == 0
        stage.put(make_node("a"), make_pod("web"))
        await until(lambda: stage.writer.sent == [("bind", "web:a")])
        assert stage.scheduler.decisions == 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class PaperExtender:
    """Filters in another thread, and waits there until the test releases it."""

    name = "paper"
    is_filter, is_prioritizer, is_binder, is_ignorable, supports_preemption = True, False, False, False, False
    weight = 1

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def is_interested(self, pod) -> bool:
        return True

    def filter(self, pod, nodes):
        self.asked.set()
        self.go_on.wait()
        raise ExtenderError("no answer")


async def test_while_an_extender_is_asked_events_wait_and_then_come_in_order(make_stage):
    extender = PaperExtender()
    stage = make_stage(extenders=lambda config: [extender])
    stage.put(make_node("a"), make_pod("web"))
    running = asyncio.create_task(stage.scheduler.run())
    try:
        await asyncio.to_thread(extender.asked.wait)
        stage.put(make_node("b"), make_pod("late"))
        stage.scheduler.delete(make_pod("web"))
        assert "b" not in stage.scheduler.cluster.table.nodes and stage.where("late") == ""
        extender.go_on.set()
        await until(lambda: any(name == "late" for name, _, _ in stage.recorder.events))
        assert "b" in stage.scheduler.cluster.table.nodes
        assert not any(name == "web" for name, _, _ in stage.recorder.events), "it went away while it was tried"
    finally:
        extender.go_on.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class HangsForGood(PaperExtender):
    """Hangs in every call until it is let go; each time the clock of the limits has moved on."""

    def __init__(self, clock) -> None:
        super().__init__()
        self.clock, self.calls = clock, 0

    def filter(self, pod, nodes):
        self.calls += 1
        try:
            self.clock.advance(100.0)
            self.asked.set()
            self.go_on.wait()
        except OutOfTime:  # the interruption may come before it waits: it hangs all the same
            self.asked.set()
            self.go_on.wait()
        raise ExtenderError("no answer")


async def test_a_decision_that_hangs_in_its_thread_is_left_behind_and_counted(make_stage):
    clock = VirtualClock()
    extender, limits = HangsForGood(clock), TimeLimits(clock, poll_s=0.001)
    stage = make_stage(extenders=lambda config: [extender], limits=limits)
    stage.put(make_node("a"), make_pod("web"))
    running = asyncio.create_task(stage.scheduler.run())
    try:
        await asyncio.to_thread(extender.asked.wait)
        await until(lambda: any(limit.interrupted_at is not None for limit in limits._running))
        assert stage.scheduler.hanging == 0, "it is still waited for"
        clock.advance(5.0)
        await until(lambda: stage.recorder.events)
        assert stage.recorder.events[0][2] == "the attempt to find a node did not end within 15s"
        assert stage.scheduler.hanging == 1
        assert "mooring_hanging_decisions 1\n" in stage.scheduler.meters.render().decode()
        extender.go_on.set()
        await until(lambda: stage.scheduler.hanging == 0)
    finally:
        extender.go_on.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_thread_pauses_after_decisions_once_their_bindings_are_sent(make_stage):
    """What comes meanwhile is read in one go. A pod that comes alone is not kept waiting."""
    told: list[tuple[int, float]] = []
    stage = make_stage(pause_thread=lambda seconds: told.append((len(stage.writer.sent), seconds)))
    running = asyncio.create_task(stage.scheduler.run())
    stage.put(make_node("a"), make_pod("first"), make_pod("second"))
    await until(lambda: told)
    assert told == [(2, GATHER_S)], "once for both, and both were written before"
    stage.put(make_node("b"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(told) == 1, "nothing was decided"
    stage.put(make_pod("third"))
    await until(lambda: len(told) == 2)
    assert told[1] == (3, GATHER_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_thread_pauses_longer_while_many_pods_keep_arriving(make_stage):
    told: list[float] = []
    stage = make_stage(pause_thread=told.append)
    running = asyncio.create_task(stage.scheduler.run())
    stage.put(make_node("a"))
    for turn, count in enumerate([1, GATHER_MORE, GATHER_MORE, GATHER_MORE, GATHER_MORE - 1, GATHER_MORE]):
        stage.put(*[make_pod(f"pod-{turn}-{i}") for i in range(count)])
        await until(lambda turn=turn: len(told) > turn)
    assert told == [GATHER_S, 2 * GATHER_S, 4 * GATHER_S, MOST_GATHER_S, GATHER_S, 2 * GATHER_S]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_thread_pauses_once_for_pods_that_arrive_while_others_are_written(make_stage):
    told: list[int] = []
    stage = make_stage(pause_thread=lambda _: told.append(len(stage.writer.sent)))
    running = asyncio.create_task(stage.scheduler.run())
    stage.put(make_node("a"), make_pod("first"))
    await until(lambda: stage.scheduler.decisions == 1)
    stage.put(make_pod("second"))
    await until(lambda: told)
    for _ in range(20):
        await asyncio.sleep(0)
    assert told == [2]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_thread_also_pauses_if_a_pod_arrives_in_every_turn(make_stage):
    told: list[float] = []
    stage = make_stage(pause_thread=told.append)
    running = asyncio.create_task(stage.scheduler.run())
    stage.put(make_node("a"))
    for i in range(2 * MOST_TURNS):
        stage.put(make_pod(f"pod-{i}"))
        await until(lambda i=i: stage.scheduler.decisions > i)
    assert told
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_thread_does_not_stand_still_for_long_while_other_requests_wait_for_answers(make_stage):
    """Each step of a pod that is made ready before it is bound, or of an eviction, would wait as long."""
    told: list[float] = []
    stage = make_stage(pause_thread=told.append)
    running = asyncio.create_task(stage.scheduler.run())
    answered = asyncio.Event()
    stage.scheduler._context.tasks.spawn(answered.wait())
    stage.put(make_node("a"), *[make_pod(f"pod-{i}") for i in range(GATHER_MORE)])
    await until(lambda: told)
    answered.set()
    for _ in range(20):
        await asyncio.sleep(0)
    stage.put(*[make_pod(f"later-{i}") for i in range(GATHER_MORE)])
    await until(lambda: len(told) == 2)
    assert told == [GATHER_S, 4 * GATHER_S]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_thread_pauses_briefly_during_pre_bind(make_stage):
    """The Binding of a pod with claims comes after three other requests, and each waits for the answer before."""
    told: list[float] = []
    stage = make_stage(pause_thread=told.append)
    running = asyncio.create_task(stage.scheduler.run())
    answered = asyncio.Event()
    step = asyncio.create_task(stage.scheduler._attempts._step_before(answered.wait()))
    stage.put(make_node("a"), *[make_pod(f"pod-{i}") for i in range(GATHER_MORE)])
    await until(lambda: told)
    answered.set()
    await step
    stage.put(*[make_pod(f"later-{i}") for i in range(GATHER_MORE)])
    await until(lambda: len(told) == 2)
    assert told == [SHORT_GATHER_S, 4 * GATHER_S]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def standing_still_with(stage, pods: int, told: list[float]) -> asyncio.Task[None]:
    """A scheduler whose bindings of so many pods are not answered; it has stood still once."""
    running = asyncio.create_task(stage.scheduler.run())
    names = [f"pod-{i}" for i in range(pods)]
    stage.writer.gates.update({("bind", name): asyncio.Event() for name in names})
    stage.put(make_node("a"), *map(make_pod, names))
    await until(lambda: told)
    return running


async def test_after_a_burst_the_thread_pauses_again_until_the_pods_are_bound(make_stage):
    """Else it would wake up for each answer."""
    told: list[float] = []
    stage = make_stage(pause_thread=told.append)
    running = await standing_still_with(stage, GATHER_MORE, told)
    await until(lambda: len(told) == 3)
    for gate in stage.writer.gates.values():
        gate.set()
    await until(lambda: len(stage.writer.sent) == GATHER_MORE)
    for _ in range(20):
        await asyncio.sleep(0)
    told.clear()
    for _ in range(20):
        await asyncio.sleep(0)
    assert told == []
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(("pods", "times"), [(GATHER_MORE - 1, 1), (GATHER_MORE, 1 + MOST_AGAIN)])
async def test_answers_that_do_not_come_are_not_waited_for_in_this_way(make_stage, pods, times):
    told: list[float] = []
    stage = make_stage(pause_thread=told.append)
    running = await standing_still_with(stage, pods, told)
    for _ in range(20 * MOST_AGAIN):
        await asyncio.sleep(0)
    assert len(told) == times
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_pod_that_arrives_meanwhile_is_decided_before_the_next_pause(make_stage):
    told: list[tuple[int, int]] = []
    coming = iter(range(5))

    def pause_thread(_: float) -> None:
        told.append((stage.scheduler.decisions, len(stage.scheduler.pods)))
        if (number := next(coming, None)) is not None:  # as if a watch were read after it
            asyncio.get_running_loop().call_soon(stage.put, make_pod(f"later-{number}"))

    stage = make_stage(pause_thread=pause_thread)
    running = await standing_still_with(stage, GATHER_MORE, told)
    await until(lambda: len(told) > 5)
    assert all(decided == known for decided, known in told)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
