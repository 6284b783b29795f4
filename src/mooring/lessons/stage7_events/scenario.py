"""Lesson 7's scenario: the cluster of lesson 6, and nobody waits for five minutes."""

from __future__ import annotations

from mooring.lessons.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node8, all cordoned")
    for i in range(9):
        room.node(f"node{i}", unschedulable=True)
    await room.start()
    room.say("pod1 and pod2 arrive")
    room.pod("pod1")
    room.pod("pod2")
    await room.wait_event("pod2", "FailedScheduling")
    room.note("Both are in the unschedulable part, refused by NodeUnschedulable.")
    await room.pass_time(5)
    room.say("node10 joins, open to all")
    room.node("node10")
    await room.wait_bound("pod1")
    await room.wait_bound("pod2")
    room.note("NodeUnschedulable had registered NodeAdd, so both pods were tried at once. Lesson 6 took five minutes.")
    room.say("node10 is cordoned again, pod3 arrives, and half a second later somebody uncordons node3")
    room.cordon("node10")
    await room.settle()
    room.pod("pod3")
    await room.pass_time(0.5)
    room.uncordon("node3")
    await room.wait_bound("pod3")
    room.note("pod3 had failed a moment ago: the event moved it to backoff, the end of its pause to active.")
    room.note("Then it waited 3 seconds for node3, as lesson 5 wants it.")
