"""Lesson 6's scenario: a pod that fits nowhere, and a binding that goes wrong."""

from __future__ import annotations

from mooring.lessons.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node8, all cordoned")
    for i in range(9):
        room.node(f"node{i}", unschedulable=True)
    await room.start()
    room.say("pod1 arrives")
    room.pod("pod1")
    await room.wait_event("pod1", "FailedScheduling")
    room.note("NodeUnschedulable said no to every node, so pod1 went into the unschedulable part of the queue.")
    await room.pass_time(5)
    room.say("node10 joins, open to all")
    room.node("node10")
    await room.wait_bound("pod1", within_s=600)
    room.note("Nobody woke pod1. It was tried again after five minutes only because the queue looks for leftovers.")
    room.say("pod0 arrives, and the API server answers its binding with an error")
    room.fail_next_binding()
    room.pod("pod0")
    await room.wait_bound("pod0", within_s=60)
    room.note("An accident is no verdict: pod0 went into the backoff part and was tried again when its pause was over.")
