"""Lesson 6's scenario: a pod that fits nowhere, and a binding that fails."""

from __future__ import annotations

from mooring.learn.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node8, all cordoned")
    for i in range(9):
        room.node(f"node{i}", unschedulable=True)
    await room.start()
    room.say("pod1 arrives")
    room.pod("pod1")
    await room.wait_event("pod1", "FailedScheduling")
    if room.in_queue("pod1") == "unschedulable":
        room.note("NodeUnschedulable refused every node: pod1 is now in the unschedulable part of the queue.")
    await room.pass_time(5)
    room.say("node10 joins, and it is open; up to ten minutes pass")
    room.node("node10")
    arrived = room.elapsed_s
    if await room.wait_bound("pod1", within_s=600):
        room.note(
            "pod1 was bound {seconds:.0f} s after node10 had joined. The queue looks for old pods; no event woke it.",
            seconds=room.bound_at["pod1"] - arrived,
        )
    else:
        room.note("pod1 is still pending: this scheduler has forgotten it.")
    room.say("pod0 arrives, and the API server answers its binding with an error")
    room.fail_next_binding()
    room.pod("pod0")
    await room.wait_event("pod0", "FailedScheduling")
    if room.in_queue("pod0") == "backoff":
        room.note("An error is not a refusal: pod0 is in the backoff part and will be tried again soon.")
    failed = room.elapsed_s
    if await room.wait_bound("pod0", within_s=60):
        room.note(
            "Backoff was 1 s; the queue looks once a second, so the next attempt came after {seconds:.0f} s.",
            seconds=room.bound_at["pod0"] - failed,
        )
    else:
        room.note("pod0 is still pending: one error, and this scheduler has forgotten it.")
    room.kubectl("get pods -o wide")
