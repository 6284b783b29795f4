"""Lesson 2's scenario: nine cordoned nodes and one open one, then none."""

from __future__ import annotations

from mooring.lessons.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node8 are cordoned, node9 is open")
    for i in range(9):
        room.node(f"node{i}", unschedulable=True)
    room.node("node9")
    await room.start()
    room.say("pod1 arrives")
    room.pod("pod1")
    await room.wait_bound("pod1")
    room.note("NodeUnschedulable refused nine nodes. Only node9 got a score, so it won with any.")
    room.say("node9 is cordoned too, and pod2 arrives")
    room.cordon("node9")
    await room.settle()
    room.pod("pod2")
    await room.wait_event("pod2", "FailedScheduling")
    room.note("Now the pod knows why: the reasons are counted into the message you know from kubectl describe.")
    room.say("somebody uncordons node3; ten minutes pass")
    room.uncordon("node3")
    await room.pass_time(600)
    room.say(f"pod2 is {'on ' + room.where('pod2') if room.where('pod2') else 'still pending'}")
    room.note("Nobody tries pod2 again: what failed is forgotten. Lessons 6 and 7 will mend that.")
