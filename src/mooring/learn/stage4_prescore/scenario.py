"""Lesson 4's scenario: ten open nodes, a pod with a digit and one without."""

from __future__ import annotations

from mooring.learn.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node9, all open")
    for i in range(10):
        room.node(f"node{i}")
    await room.start()
    room.say("pod8 arrives")
    room.pod("pod8")
    await room.wait_bound("pod8")
    reads = room.logged("NodeNumber reads the digit of pod8")
    if reads == 1:
        room.note(
            "`NodeNumber reads the digit of pod8` was logged once, for ten nodes. Lesson 3 logs it once per node."
        )
        room.note("With 5,000 nodes and a rule that reads all other pods, that is minutes against milliseconds.")
    else:
        room.note("`NodeNumber reads the digit of pod8` was logged {count} times for ten nodes.", count=reads)
    room.say("web arrives, a pod without a digit")
    room.pod("web")
    await room.wait_bound("web")
    if room.logged("scores: "):
        room.note("web has no digit. Was score called for it all the same, ten times? Avoiding that is the exercise.")
    room.kubectl("get pods -o wide")
