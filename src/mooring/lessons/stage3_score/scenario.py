"""Lesson 3's scenario: ten nodes, and pods with favourite numbers."""

from __future__ import annotations

from mooring.lessons.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node9, all open but node5")
    for i in range(10):
        room.node(f"node{i}", unschedulable=i == 5)
    await room.start()
    room.say("pod8 arrives")
    room.pod("pod8")
    await room.wait_bound("pod8")
    room.note("node8 got 10 points, all others 0: pod8 is where it wants to be.")
    room.note(
        "Count the lines `NodeNumber reads the digit of pod8`: one per node, the same answer each time. See lesson 4."
    )
    room.say("pod5 arrives, whose favourite is cordoned")
    room.pod("pod5")
    await room.wait_bound("pod5")
    room.note("Filters come first: node5 was never asked for a score. All others tie at 0, and chance decided.")
