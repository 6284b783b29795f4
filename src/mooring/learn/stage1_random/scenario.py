"""Lesson 1's scenario: five pods, five nodes, and one node that is closed to new pods."""

from __future__ import annotations

from mooring.learn.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node3 are open; node4 is cordoned, that is, closed to new pods")
    for i in range(4):
        room.node(f"node{i}")
    room.node("node4", unschedulable=True)
    await room.start()
    room.say("five pods arrive that ask for schedulerName: mooring-lesson")
    room.say("and one, stranger, that asks for another scheduler")
    room.pod("stranger", scheduler="another-scheduler")
    pods = [f"pod{i}" for i in range(1, 6)]
    for name in pods:
        room.pod(name)
        await room.wait_bound(name)
    room.kubectl("get pods -o wide")
    misplaced = [name for name in pods if room.where(name) == "node4"]
    if misplaced:
        room.note(
            "{pods} landed on node4, which is closed: nothing in this scheduler refuses a node. See lesson 2.",
            pods=", ".join(misplaced),
        )
    else:
        room.note("No pod landed on node4, which is closed to new pods.")
    if not room.where("stranger"):
        room.note("stranger is still pending: it asks for another scheduler, and this one leaves it alone.")
    if room.events("pod1", "Scheduled"):
        room.kubectl("describe pod pod1")
    room.say("the scheduler stops (quit), and late arrives")
    await room.quit()
    room.pod("late")
    await room.pass_time(60)
    room.kubectl("get pod late")
    if not room.where("late"):
        room.note("Without a scheduler late stays pending. Pods that have a node keep running.")
