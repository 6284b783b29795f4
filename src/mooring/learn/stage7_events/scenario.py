"""Lesson 7's scenario: the cluster of lesson 6, and events that wake pods."""

from __future__ import annotations

from mooring.learn.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node8, all cordoned")
    for i in range(9):
        room.node(f"node{i}", unschedulable=True)
    await room.start()
    room.say("pod1 and pod2 arrive")
    room.pod("pod1")
    room.pod("pod2")
    await room.wait_event("pod2", "FailedScheduling")
    if room.in_queue("pod1") == room.in_queue("pod2") == "unschedulable":
        room.note("Both are in the unschedulable part of the queue, refused by NodeUnschedulable.")
    await room.pass_time(5)
    room.say("node10 joins, and it is open")
    room.node("node10")
    joined = room.elapsed_s
    for name in ("pod1", "pod2"):
        await room.wait_bound(name, within_s=600)
    if room.logged("NodeAdd wakes"):
        room.note("NodeUnschedulable has registered NodeAdd, so both pods were tried at once.")
    elif room.where("pod1"):
        room.note("pod1 was bound {seconds:.0f} s after node10 had joined.", seconds=room.bound_at["pod1"] - joined)
    room.say("node10 is cordoned, and pod3 arrives; half a second later node3 is uncordoned")
    room.cordon("node10")
    await room.settle()
    room.pod("pod3")
    await room.pass_time(0.5)
    room.uncordon("node3")
    uncordoned = room.elapsed_s
    await room.settle()
    if room.in_queue("pod3") == "backoff":
        room.note("pod3 failed half a second ago: NodeUpdate moved it to backoff, not to active.")
    if await room.wait_bound("pod3", within_s=600):
        room.note("pod3 was bound {seconds:.1f} s after the uncordon.", seconds=room.bound_at["pod3"] - uncordoned)
    if room.logged("default/pod3 waits for NodeNumber"):
        room.note("That is: backoff until the next look (once a second), then 3 s of permit for node3.")
    room.kubectl("get pods -o wide")
    if room.where("pod1"):
        room.kubectl("describe pod pod1")
