"""Does the exercise of lesson 7 work: queueing hints?"""

from __future__ import annotations

from mooring.lessons.checking import Check
from mooring.lessons.classroom import Classroom, Missing


async def _closed_cluster(room: Classroom) -> None:
    for name in ("blue", "green", "red"):
        room.node(name, unschedulable=True)
    await room.start()
    room.pod("web")
    if not await room.wait_event("web", "FailedScheduling"):
        raise Missing("all nodes are cordoned, and there is no FailedScheduling event")
    await room.pass_time(15)


async def _labels(room: Classroom) -> None:
    await _closed_cluster(room)
    for i in range(3):
        room.label_node("blue", "round", str(i))
        await room.pass_time(15)
    if (attempts := len(room.events("web", "FailedScheduling"))) != 1:
        raise Missing(
            f"three label changes of a cordoned node led to {attempts - 1} attempts in vain; 0 would be right"
        )


async def _closed_node(room: Classroom) -> None:
    await _closed_cluster(room)
    room.node("yellow", unschedulable=True)
    await room.pass_time(15)
    if (attempts := len(room.events("web", "FailedScheduling"))) != 1:
        raise Missing(f"a new node that is cordoned led to {attempts - 1} attempts in vain; 0 would be right")


async def _uncordon(room: Classroom) -> None:
    await _closed_cluster(room)
    room.uncordon("green")
    if await room.wait_bound("web", within_s=15) != "green":
        raise Missing("green was uncordoned, and web is still pending")


async def _open_node(room: Classroom) -> None:
    await _closed_cluster(room)
    room.node("yellow")
    if await room.wait_bound("web", within_s=15) != "yellow":
        raise Missing("an open node joined, and web is still pending")


async def _all_of_them(room: Classroom) -> None:
    await _closed_cluster(room)
    room.pod("late")
    await room.pass_time(15)
    room.uncordon("red")
    for name in ("web", "late"):
        if await room.wait_bound(name, within_s=15) != "red":
            raise Missing(f"red was uncordoned, and the pod named {name} is still pending")


CHECKS = (
    Check(
        "a label change of a cordoned node wakes nobody",
        _labels,
        "give Plugin a method queueing_hint(pod, old, new) and let NodeUnschedulable compare old and new",
    ),
    Check("a new node that is cordoned wakes nobody", _closed_node, "for a new node there is no old one: pass None"),
    Check("uncordoning wakes", _uncordon, "old.spec.unschedulable was true, new.spec.unschedulable is false"),
    Check("a new open node wakes", _open_node, "hand node_added's node to the hint as well"),
    Check("every pod it can help is woken", _all_of_them, "ask for each pod; do not stop at the first"),
)
