"""The binding cycle: its steps in order, what may stop it, and what it leaves behind."""

from __future__ import annotations

import asyncio

import pytest

from mooring.core.framework.interfaces import PreFlight
from mooring.core.framework.status import SUCCESS, Code, Status
from mooring.net.errors import ServerError
from mooring.testing import make_node, make_pod


class Prepares:
    """A pre-bind that waits until the test lets it go on."""

    name = "Prepares"
    gate: asyncio.Event
    answer: Status = SUCCESS

    def __init__(self, args, handle):
        pass

    def pre_bind_pre_flight(self, state, pod, node_name):
        return PreFlight(Status(Code.SKIP) if "plain" in pod.pod.metadata.labels else SUCCESS)

    async def pre_bind(self, state, pod, node_name):
        await type(self).gate.wait()
        return type(self).answer


@pytest.fixture
def stage(make_stage):
    Prepares.gate, Prepares.answer = asyncio.Event(), SUCCESS
    stage = make_stage(plugins=[Prepares])
    stage.put(make_node("a"))
    return stage


async def test_a_pod_whose_binding_takes_a_while_is_nominated_first(stage):
    stage.put(make_pod("web"))
    await stage.go()
    assert stage.writer.sent == [("patch", "web")]
    assert stage.writer.patches == [{"status": {"nominatedNodeName": "a"}}]
    Prepares.gate.set()
    assert await stage.scheduler.drain(60.0)
    assert stage.writer.sent == [("patch", "web"), ("bind", "web:a")]


async def test_a_pod_with_nothing_to_prepare_is_bound_immediately(stage):
    stage.put(make_pod("web", labels={"plain": "yes"}))
    await stage.go()
    assert stage.writer.sent == [("bind", "web:a")]


async def test_a_bound_pod_gets_no_outdated_condition(make_stage):
    """Its condition waits for a turn, and a Binding does not."""
    turn = asyncio.Event()
    stage = make_stage(condition_turn=turn.wait)
    stage.put(make_pod("web"))
    await stage.go()
    stage.put(make_node("a"))
    stage.clock.advance(10.0)
    stage.scheduler.queue.run_timers()
    await stage.go()
    turn.set()
    assert await stage.scheduler.drain(60.0)
    assert stage.writer.sent == [("bind", "web:a")]


async def test_without_the_gate_no_pod_is_nominated_in_advance(make_stage):
    from mooring.core.config.features import parse_feature_gates

    Prepares.gate = asyncio.Event()
    features = parse_feature_gates(["NominatedNodeNameForExpectation=false"])
    stage = make_stage(plugins=[Prepares], features=features)
    stage.put(make_node("a"), make_pod("web"))
    await stage.go()
    assert stage.writer.sent == []
    await stage.scheduler.abort()


async def test_a_nomination_that_fails_does_not_hold_up_the_binding(stage, caplog):
    stage.writer.failures["patch", "web"] = ServerError("no", code=500)
    Prepares.gate.set()
    stage.put(make_pod("web"))
    await stage.go()
    assert ("bind", "web:a") in stage.writer.sent


async def test_a_pre_bind_that_fails_ends_it(stage):
    Prepares.answer = Status.error("no volume")
    Prepares.gate.set()
    stage.put(make_pod("web"))
    await stage.go()
    assert not any(verb == "bind" for verb, _ in stage.writer.sent)
    assert stage.recorder.events[-1][2] == 'running PreBind plugin "Prepares": no volume'
    assert stage.where("web") == "backoff"


async def test_a_preemption_can_stop_a_pre_bind_but_not_a_bind(stage):
    stage.put(make_pod("web"))
    await stage.go()
    (pre_binding,) = stage.scheduler.waiting_pods.pre_binding.values()
    assert pre_binding.cancel("preempted by DefaultPreemption")
    assert await stage.scheduler.drain(60.0)
    assert stage.recorder.events[-1][2] == "preempted by DefaultPreemption"
    assert not any(verb == "bind" for verb, _ in stage.writer.sent)
    assert not pre_binding.cancel("too late")


async def test_an_abort_stops_bindings_silently(stage):
    stage.put(make_pod("web"))
    await stage.go()
    await stage.scheduler.abort()
    assert stage.scheduler.in_flight == 0
    assert not any("failed" in line for line in stage.heard.story)
    assert stage.recorder.events == []


async def test_a_clean_end_leaves_pods_that_wait_on_permit_to_the_next_scheduler(make_stage):
    class Waits:
        name = "Waits"

        def __init__(self, args, handle):
            pass

        def permit(self, state, pod, node_name):
            return Status(Code.WAIT), 600.0

    stage = make_stage(plugins=[Waits])
    stage.put(make_node("a"), make_pod("web"))
    await stage.go()
    assert stage.scheduler.in_flight == 1
    assert await stage.scheduler.finish(60.0)
    assert not any(verb == "bind" for verb, _ in stage.writer.sent)
    assert not any("failed" in line for line in stage.heard.story)
