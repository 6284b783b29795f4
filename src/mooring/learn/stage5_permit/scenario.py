"""Lesson 5's scenario: a binding that takes long, then pods that wait for permission."""

from __future__ import annotations

from mooring.learn.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("one node, named plain; the API server takes 3 seconds for the binding of slow")
    room.node("plain")
    await room.start()
    room.slow_next_binding(3)
    room.say("slow arrives, and right after it quick")
    room.pod("slow")
    room.pod("quick")
    await room.wait_bound("slow")
    await room.wait_bound("quick")
    waited = room.bound_at["quick"]
    if waited >= 3:
        room.note(
            "quick was bound after {seconds:.0f} s: the scheduler waited for the binding of slow.", seconds=waited
        )
    else:
        room.note(
            "quick was bound after {seconds:.0f} s: the binding of slow was written in the background.", seconds=waited
        )
    room.say("node0 to node9 join; then pod7, pod2 and pod0 arrive")
    for i in range(10):
        room.node(f"node{i}")
    await room.settle()
    arrived = room.elapsed_s
    pods = ("pod7", "pod2", "pod0")
    for name in pods:
        room.pod(name)
    await room.wait_bound("pod7")
    for name in sorted(pods, key=lambda name: room.bound_at.get(name, 0.0)):
        room.say(
            "{pod} was bound to {node} {seconds:.0f} s after it arrived",
            pod=name,
            node=room.shown(name),
            seconds=room.bound_at.get(name, 0.0) - arrived,
        )
    if room.bound_at["pod2"] < room.bound_at["pod7"]:
        room.note("pod7 arrived first and was bound last. It waited for permission, and no other pod waited with it.")
    elif not room.logged("waits for"):
        room.note("No pod waited: this scheduler has no extension point that could ask a pod to wait.")
    room.kubectl("get pods -o wide")
