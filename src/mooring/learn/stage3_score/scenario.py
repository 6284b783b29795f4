"""Lesson 3's scenario: ten nodes, and pods that prefer a number."""

from __future__ import annotations

from mooring.learn.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node9; node5 is cordoned")
    for i in range(10):
        room.node(f"node{i}", unschedulable=i == 5)
    await room.start()
    room.say("pod8 arrives")
    room.pod("pod8")
    node = await room.wait_bound("pod8")
    reads = room.logged("NodeNumber reads the digit of pod8")
    if reads and node == "node8":
        room.note("NodeNumber gives node8 10 points and all others 0: pod8 is on node8.")
    else:
        room.note("pod8 is on {node}: nothing in this scheduler makes it prefer node8.", node=room.shown("pod8"))
    if reads > 1:
        room.note(
            "`NodeNumber reads the digit of pod8` was logged {count} times, once per node. See lesson 4.", count=reads
        )
    room.say("pod5 arrives; its favourite, node5, is cordoned")
    room.pod("pod5")
    node = await room.wait_bound("pod5")
    if node and node != "node5":
        room.note(
            "Filters come first: node5 was not scored. The others tie, and {node} was picked at random.", node=node
        )
    room.kubectl("get pods -o wide")
