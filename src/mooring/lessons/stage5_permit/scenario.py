"""Lesson 5's scenario: a slow pod first, a quick one after it."""

from __future__ import annotations

from mooring.lessons.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("node0 to node9, all open")
    for i in range(10):
        room.node(f"node{i}")
    await room.start()
    room.say("pod7 arrives, then pod2, then pod0")
    for name in ("pod7", "pod2", "pod0"):
        room.pod(name)
    await room.wait_bound("pod7")
    room.note("All three had a node at once. pod0 was bound at once, pod2 after 2 seconds, pod7 after 7.")
    room.note("pod2 came after pod7 and was bound before it: waiting happens in the background, each pod by itself.")
    for name, seconds in room.bound_at.items():
        room.say(f"{name} was bound to {room.where(name)} {seconds:.0f} s after it came")
