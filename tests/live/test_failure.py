"""After an attempt that failed: where the pod waits, its messages, and which pods are tried because of it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mooring.live.context import Tasks
from mooring.live.status_patch import StatusPatches
from mooring.net.errors import NotFound, ServerError
from mooring.testing import bound, make_node, make_pod


def patched(stage) -> list[tuple[str, str, str | None]]:
    """Reason, message and nomination of each patch that was sent."""
    found = []
    for patch in stage.writer.patches:
        condition = patch["status"].get("conditions", [{}])[0]
        nominated = patch["status"].get("nominatedNodeName", "unchanged")
        found.append((condition.get("reason", ""), condition.get("message", ""), nominated))
    return found


NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


async def test_a_pod_that_fits_nowhere_waits_gets_an_event_and_a_condition(make_stage):
    stage = make_stage()
    stage.put(make_node("a", cpu="1"), make_pod("big", cpu="2"))
    await stage.go()
    assert stage.where("big") == "unschedulable"
    ((name, reason, note),) = stage.recorder.events
    assert (name, reason) == ("big", "FailedScheduling") and note.startswith(NO_ROOM)
    ((reason, message, nominated),) = patched(stage)
    assert (reason, message, nominated) == ("Unschedulable", note, "unchanged")


async def test_an_attempt_that_broke_is_tried_again_after_its_backoff(make_stage):
    stage = make_stage()
    stage.writer.failures["bind", "web"] = ServerError("broken", code=500)
    stage.put(make_node("a"), make_pod("web"))
    await stage.go()
    assert stage.where("web") == "backoff"
    assert stage.scheduler.cluster.pod("uid-default-web") is None, "its room is free again"
    assert (
        stage.heard.story[-4:]
        == [
            'binding failed default/web: running Bind plugin "DefaultBinder": broken',
            "failed default/web: SchedulerError",
            "event web: FailedScheduling",
            "binding ended default/web",
        ]
        or "failed default/web: SchedulerError" in stage.heard.story
    )


@pytest.mark.parametrize(
    ("known", "events", "says"),
    [
        pytest.param(None, 1, "Pod doesn't exist in informer cache", id="it is gone: an event, no condition"),
        pytest.param(bound(make_pod("big", cpu="2"), "b"), 0, "Pod has been assigned to node", id="it runs elsewhere"),
        pytest.param(make_pod("big", uid="another"), 0, "", id="it was recreated"),
    ],
)
async def test_a_pod_that_changed_while_it_was_tried_does_not_come_back(make_stage, caplog, known, events, says):
    caplog.set_level(logging.INFO)
    stage = make_stage()
    stage.put(make_node("a", cpu="1"), make_pod("big", cpu="2"))
    info = stage.scheduler.queue.pop()
    if known is None:
        del stage.scheduler.pods["default/big"]
    else:
        stage.scheduler.pods["default/big"] = known
    stage.scheduler.schedule_one(info)
    await asyncio.sleep(0)
    assert stage.where("big") == "" and stage.writer.patches == []
    assert len(stage.recorder.events) == events
    assert says in caplog.text


async def test_what_a_failed_binding_frees_wakes_others(make_stage):
    stage = make_stage()
    stage.writer.gates["bind", "first"] = gate = asyncio.Event()
    stage.writer.failures["bind", "first"] = ServerError("broken", code=500)
    stage.put(make_node("a", cpu="1"), make_pod("first", cpu="1"), make_pod("second", cpu="1"))
    await stage.go()
    assert stage.where("second") == "unschedulable"
    stage.clock.advance(60.0)
    gate.set()
    await stage.scheduler.drain(60.0)
    assert stage.where("second") == "active"


async def test_victims_are_evicted_and_the_preemptor_is_nominated(make_stage):
    stage = make_stage()
    stage.put(make_node("a", cpu="1"), bound(make_pod("low", cpu="1", priority=0), "a"))
    stage.put(make_pod("high", cpu="1", priority=100))
    await stage.go()
    assert await stage.scheduler.drain(60.0)
    assert ("delete", "low") in stage.writer.sent
    assert ("Unschedulable", "a") in [(reason, nominated) for reason, _, nominated in patched(stage)]
    assert stage.heard.story.index("preempting for default/high on a: 1") < stage.heard.story.index(
        "failed default/high: Unschedulable"
    )
    assert stage.heard.story[-3:] == [
        "evicted default/low for default/high",
        "event low: Preempted",
        "preempted for default/high",
    ]


@pytest.mark.parametrize("is_refused", [False, True], ids=["they go", "the API server refuses"])
async def test_without_asynchronous_preemption_the_attempt_ends_after_the_evictions(make_stage, is_refused):
    from mooring.core.config.features import parse_feature_gates

    stage = make_stage(features=parse_feature_gates(["SchedulerAsyncPreemption=false"]))
    if is_refused:
        stage.writer.failures["delete", "low"] = ServerError("no", code=500)
    stage.put(make_node("a", cpu="1"), bound(make_pod("low", cpu="1", priority=0), "a"))
    stage.put(make_pod("high", cpu="1", priority=100))
    stage.scheduler.schedule_one(stage.scheduler.queue.pop())
    assert "failed default/high: Unschedulable" not in stage.heard.story
    assert await stage.scheduler.drain(60.0)
    assert "failed default/high: Unschedulable" in stage.heard.story
    (note,) = [note for name, _, note in stage.recorder.events if name == "high"]
    assert note.endswith("preemption: no") is is_refused
    assert (stage.scheduler.queue.nominator.node_of("uid-default-high") == "a") is not is_refused


class TestStatusPatches:
    """Patches of one pod keep their order; those of different pods do not wait for each other."""

    @pytest.fixture
    def patches(self, make_stage):
        stage = make_stage()
        return StatusPatches(stage.writer, Tasks(stage.clock)), stage.writer

    async def test_the_second_patch_of_a_pod_waits_for_the_first(self, patches):
        patches, writer = patches
        writer.gates["patch", "web"] = gate = asyncio.Event()
        first = patches.send(make_pod("web"), {"status": {"n": 1}})
        second = patches.send(make_pod("web"), {"status": {"n": 2}})
        other = patches.send(make_pod("other"), {"status": {"n": 3}})
        await other
        assert not first.done() and not second.done()
        gate.set()
        await asyncio.gather(first, second)
        assert [patch["status"]["n"] for patch in writer.patches] == [3, 1, 2]

    @pytest.mark.parametrize(
        ("error", "says"),
        [
            pytest.param(ServerError("broken", code=500), "Error updating pod", id="a failure is logged"),
            pytest.param(NotFound("gone", code=404), "", id="a pod that is gone needs no condition"),
        ],
    )
    async def test_a_failed_patch_delays_no_other(self, patches, caplog, error, says):
        patches, writer = patches
        writer.failures["patch", "web"] = error
        await patches.send(make_pod("web"), {"status": {"n": 1}})
        del writer.failures["patch", "web"]
        await patches.send(make_pod("web"), {"status": {"n": 2}})
        assert [patch["status"]["n"] for patch in writer.patches] == [2]
        assert caplog.text.count("Error updating pod") == bool(says)

    async def test_a_condition_that_is_out_of_date_when_its_turn_comes_is_not_sent(self, make_stage):
        stage = make_stage()
        turn = asyncio.Event()
        patches = StatusPatches(stage.writer, Tasks(stage.clock), turn.wait)
        first = patches.send(make_pod("web"), {"status": {"n": 1}}, can_wait=True)
        second = patches.send(make_pod("web"), {"status": {"n": 2}}, can_wait=True)
        urgent = patches.send(make_pod("other"), {"status": {"n": 3}})
        await urgent
        assert [patch["status"]["n"] for patch in stage.writer.patches] == [3]
        turn.set()
        await asyncio.gather(first, second)
        assert [patch["status"]["n"] for patch in stage.writer.patches] == [3, 2]

    async def test_behind_a_patch_that_hangs_waits_only_the_newest(self, make_stage):
        """Each attempt makes one; those of a pod that is tried again and again would be thousands."""
        stage = make_stage()
        tasks = Tasks(stage.clock)
        patches = StatusPatches(stage.writer, tasks, lambda: asyncio.sleep(0))
        stage.writer.gates["patch", "web"] = gate = asyncio.Event()
        sent = [patches.send(make_pod("web"), {"status": {"n": 1}}, can_wait=True)]
        for n in range(2, 6):
            for _ in range(5):
                await asyncio.sleep(0)
            sent.append(patches.send(make_pod("web"), {"status": {"n": n}}, can_wait=True))
        assert len(set(map(id, sent))) == 2
        gate.set()
        await asyncio.gather(*sent)
        assert [patch["status"]["n"] for patch in stage.writer.patches] == [1, 5]
