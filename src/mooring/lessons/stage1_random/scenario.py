"""Lesson 1's scenario: five pods, five nodes, and one node that should have been left alone."""

from __future__ import annotations

from mooring.lessons.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("four nodes and node4, which somebody has cordoned for maintenance")
    for i in range(4):
        room.node(f"node{i}")
    room.node("node4", unschedulable=True)
    await room.start()
    room.say("five pods arrive that ask for schedulerName: mooring-lesson, and one that asks for another scheduler")
    room.pod("stranger", scheduler="somebody-else")
    for i in range(1, 6):
        room.pod(f"pod{i}")
        await room.wait_bound(f"pod{i}")
    room.note("Each pod got a score per node from a throw of dice and went where the highest was.")
    for i in range(1, 6):
        room.say(f"pod{i} is on {room.where(f'pod{i}')}; its event: {room.events(f'pod{i}', 'Scheduled')[0]}")
    room.note(
        "node4 is cordoned, and the dice do not care: a pod landed there. Lesson 2 teaches the scheduler to say no."
    )
    room.note("The pod named stranger is still pending. It asked for another scheduler, and this one leaves it alone.")
