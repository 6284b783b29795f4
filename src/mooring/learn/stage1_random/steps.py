"""The scenario of lesson 1's steps: two nodes, one pod, and what kubectl shows of it."""

from __future__ import annotations

from mooring.learn.classroom import Classroom


async def scenario(room: Classroom) -> None:
    room.say("two nodes; the scheduler starts")
    room.node("node0")
    room.node("node1")
    await room.start()
    room.say("nginx arrives")
    room.pod("nginx")
    await room.pass_time(26)
    room.kubectl("get pod nginx")
    room.kubectl("describe pod nginx")
    node = room.where("nginx")
    if node and room.events("nginx", "Scheduled"):
        room.note("nginx runs on {node}, and its event tells people where that came from.", node=node)
    elif node:
        room.note(
            "The Binding has set spec.nodeName, and the kubelet of {node} runs nginx. No event says so yet.", node=node
        )
    elif room.logged("is chosen for"):
        room.note("A node is chosen, and nginx is still Pending: a choice that is not written changes nothing.")
    elif room.logged("queued: "):
        room.note("The scheduler knows the nodes and has queued nginx; no code takes it out of the queue.")
    else:
        room.note("The scheduler runs and does nothing, so nginx stays Pending.")
    room.say("quit: the scheduler is told to stop")
    await room.quit()
