"""Does the exercise of lesson 6 work: the active part is sorted by priority?"""

from __future__ import annotations

from mooring.lessons.checking import Check
from mooring.lessons.classroom import Classroom, Missing


def _cluster(room: Classroom) -> None:
    room.node("plain")  # no digit: nobody waits for permission
    for name, value in (("low", 10), ("middle", 500), ("high", 1000)):
        room.priority_class(name, value)


async def _by_priority(room: Classroom) -> None:
    _cluster(room)
    for pod, priority in (("a", "low"), ("b", "high"), ("c", "middle")):
        room.pod(pod, priorityClassName=priority)
    room.pod("d")
    await room.start()
    await room.pass_time(5)
    if room.binding_order != ["b", "c", "a", "d"]:
        raise Missing(f"b (1000), c (500), a (10), d (0) would be right; the order was {', '.join(room.binding_order)}")


async def _by_arrival(room: Classroom) -> None:
    _cluster(room)
    for pod in ("a", "b", "c", "d", "e"):
        room.pod(pod, priorityClassName="middle")
    await room.start()
    await room.pass_time(5)
    if room.binding_order != ["a", "b", "c", "d", "e"]:
        raise Missing(f"five equal pods should keep their order; it was {', '.join(room.binding_order)}")


async def _nobody_lost(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.fail_next_binding()
    room.pod("unlucky", priorityClassName="low")
    if not await room.wait_bound("unlucky", within_s=30):
        raise Missing("a pod whose binding failed once was not tried again")
    room.pod("gone", priorityClassName="low")
    room.delete_pod("gone")
    room.pod("next", priorityClassName="high")
    if not await room.wait_bound("next", within_s=30):
        raise Missing("after a pod was deleted the next one was not scheduled")


CHECKS = (
    Check(
        "the pod with the highest priority is next",
        _by_priority,
        "pod.priority is a number; heapq keeps a list sorted if QueuedPodInfo knows __lt__",
    ),
    Check(
        "among equals, who came first is next", _by_arrival, "compare a counter of arrivals when priorities are equal"
    ),
    Check("failed and deleted pods are treated as before", _nobody_lost, "delete has to keep the heap a heap: heapify"),
)
