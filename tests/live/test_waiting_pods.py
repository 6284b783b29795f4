"""Pods that wait on permit."""

from __future__ import annotations

import asyncio

from mooring.api.core import Pod
from mooring.api.meta import ObjectMeta
from mooring.core.framework.status import SUCCESS, Code
from mooring.core.state.cluster import ClusterState
from mooring.live.waiting_pods import MAX_WAIT_S, PreBinding, WaitingPodsMap
from mooring.testing import make_pod


def make(pods, **waits):
    pod = ClusterState().info(Pod(metadata=ObjectMeta(name="p", namespace="d", uid="u")))
    return pods.add(pod, "a", waits)


async def test_all_plugins_have_to_allow():
    pods = WaitingPodsMap()
    waiting = make(pods, A=60, B=60)
    waiting.allow("A")
    assert waiting.pending_plugins == ("B",)
    waiting.allow("nobody")
    assert not waiting._verdict.done()
    waiting.allow("B")
    assert (await waiting.verdict()).is_success
    assert not waiting.reject("A", "too late")


async def test_one_refusal_is_enough_and_the_first_counts():
    waiting = make(WaitingPodsMap(), A=60, B=60)
    assert waiting.reject("B", "no")
    assert not waiting.preempt("DefaultPreemption", "preempted")
    status = await waiting.verdict()
    assert (status.code, status.plugin, status.message) == (Code.UNSCHEDULABLE, "B", "no")


async def test_preemption_is_an_error_not_a_refusal():
    waiting = make(WaitingPodsMap(), A=60)
    assert waiting.preempt("DefaultPreemption", "preempted")
    assert (await waiting.verdict()).code is Code.ERROR


async def test_the_earliest_timer_decides():
    waiting = make(WaitingPodsMap(), A=60, B=0.001)
    status = await asyncio.wait_for(waiting.verdict(), 5)
    assert status.message == "rejected due to timeout after waiting 1ms at plugin B"
    assert status.plugin == "B"


async def test_no_pod_waits_longer_than_a_quarter_of_an_hour():
    waiting = make(WaitingPodsMap(), A=10**9)
    now = asyncio.get_running_loop().time()
    assert waiting._timers["A"].when() - now <= MAX_WAIT_S
    waiting.allow("A")


async def test_a_deleted_pod_is_refused_only_if_it_waits():
    pods = WaitingPodsMap()
    assert not pods.reject_deleted("u")
    waiting = make(pods, A=60)
    assert pods.get("u") is waiting and pods.all() == (waiting,)
    assert pods.reject_deleted("u")
    status = await waiting.verdict()
    assert (status.plugin, status.message) == ("", "removed")
    pods.remove("u")
    assert pods.get("u") is None


# ---- pods in PreBind ----------------------------------------------------------------------------------------------


async def never():
    await asyncio.Event().wait()


async def test_it_can_be_stopped_while_it_runs():
    task = asyncio.create_task(never())
    guard = PreBinding(task)
    await asyncio.sleep(0)
    assert guard.cancel("a more important pod came")
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled() and guard.stopped_by == "a more important pod came"
    assert not guard.finish(), "it was stopped, whatever it says"


async def test_after_it_is_done_it_is_too_late():
    async def work():
        return SUCCESS

    task = asyncio.create_task(work())
    guard = PreBinding(task)
    await task
    assert not guard.cancel("too late") and guard.stopped_by == ""
    assert guard.finish()


async def test_once_finished_it_cannot_be_stopped():
    task = asyncio.create_task(never())
    guard = PreBinding(task)
    assert guard.finish()
    assert not guard.cancel("too late")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_pods_of_a_group_wait_in_their_order_until_they_are_removed():
    pods = WaitingPodsMap()
    first, second, other = (
        pods.add(ClusterState().info(make_pod(name, group=group)), "a", {"A": 60})
        for name, group in (("p", "g"), ("q", "g"), ("r", "h"))
    )
    assert pods.of_group("default/g") == (first, second)
    assert pods.of_group("default/h") == (other,)
    again = pods.add(first.pod, "b", {"A": 60})  # it has come back before its earlier wait was removed
    assert pods.of_group("default/g") == (second, again)
    for waiting in (again, second, again):
        pods.remove(waiting.pod.uid)
    assert pods.of_group("default/g") == ()
    assert pods.all() == (other,)
