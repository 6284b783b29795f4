"""Lesson 4's scenario: the same nodes as in lesson 3, and much less reading."""

from __future__ import annotations

from mooring.lessons.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node9, all open")
    for i in range(10):
        room.node(f"node{i}")
    await room.start()
    room.say("pod8 arrives")
    room.pod("pod8")
    await room.wait_bound("pod8")
    room.note("`NodeNumber reads the digit of pod8` stands there once. Lesson 3 had it once per node.")
    room.note("With 5,000 nodes and a rule that reads all other pods, this is the difference between slow and fine.")
    room.say("web arrives, a pod without a digit")
    room.pod("web")
    await room.wait_bound("web")
    room.note("pre_score found no digit, and yet score was asked for every node, ten times, for nothing: the exercise.")
