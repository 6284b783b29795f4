"""Lesson 2's scenario: nine cordoned nodes and one open one, then none."""

from __future__ import annotations

from mooring.learn.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node8 are cordoned, node9 is open")
    for i in range(9):
        room.node(f"node{i}", unschedulable=True)
    room.node("node9")
    await room.start()
    room.say("pod1 arrives")
    room.pod("pod1")
    node = await room.wait_bound("pod1")
    if node == "node9":
        room.note(
            "Only node9 is left, so pod1 goes there. With one node left no scores are needed, and none are logged."
        )
    else:
        room.note("pod1 is on {node}, and only node9 is open.", node=room.shown("pod1"))
    room.say("node9 is cordoned too, and pod2 arrives")
    room.cordon("node9")
    await room.settle()
    room.pod("pod2")
    await room.wait_event("pod2", "FailedScheduling")
    if room.events("pod2", "FailedScheduling"):
        room.kubectl("describe pod pod2")
        room.note("The event says why: FitError counts the reasons, and each node counts once.")
    elif room.where("pod2"):
        room.note("pod2 is on {node}, although all nodes are closed.", node=room.where("pod2"))
    room.say("node3 is uncordoned; ten minutes pass")
    room.uncordon("node3")
    await room.pass_time(600)
    room.kubectl("get pods -o wide")
    if not room.where("pod2"):
        room.note("pod2 is not tried again: what failed is forgotten. Lessons 6 and 7 fix that.")
