"""Checks the exercise of lesson 6: the active part is sorted by priority."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.learn.checking import LessonCheck
from mooring.learn.classroom import Classroom, Missing

PRIORITIES = (5, 40, 20, 40, 90, 10, 70, 20, 60, 30)


def _cluster(room: Classroom) -> None:
    room.node("plain")  # no digit: no pod waits for permission
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
        raise Missing(
            "the order should be b (1000), c (500), a (10), d (0); it was {seen}", seen=", ".join(room.binding_order)
        )


async def _by_arrival(room: Classroom) -> None:
    _cluster(room)
    names = list("abcdefghi")
    for pod in names:
        room.pod(pod, priorityClassName="middle")
    await room.start()
    await room.pass_time(5)
    if room.binding_order != names:
        raise Missing("nine equal pods should keep their order; it was {seen}", seen=", ".join(room.binding_order))


def _infos(room: Classroom) -> list[Any]:
    """Ten pods of different priorities as the learner's queue knows them."""
    return [
        room.module.QueuedPodInfo(
            from_plain(
                Pod,
                {"metadata": {"name": f"p{i}", "namespace": "default", "uid": f"u{i}"}, "spec": {"priority": value}},
            )
        )
        for i, value in enumerate(PRIORITIES)
    ]


async def _popped(queue: Any) -> list[str]:
    """All pods of a queue in the order of ``pop``."""
    found: list[str] = []
    while True:
        try:
            info = await asyncio.wait_for(queue.pop(), 1.0)
        except TimeoutError:
            return found
        found.append(info.pod.metadata.name)


async def _order_after_delete(room: Classroom) -> None:
    order = sorted(range(len(PRIORITIES)), key=lambda i: -PRIORITIES[i])  # sorted keeps the order of equals
    for gone in range(len(PRIORITIES)):
        queue, infos = room.module.SchedulingQueue(), _infos(room)
        for info in infos:
            queue.add(info)
        queue.delete(infos[gone].pod)
        seen = await _popped(queue)
        if f"p{gone}" in seen:
            raise Missing("a pod that was deleted while it was in active was taken out by pop all the same")
        if seen != [f"p{i}" for i in order if i != gone]:
            raise Missing(
                "priorities {priorities}: after the deletion of one of them pop gave {seen}",
                priorities=", ".join(map(str, PRIORITIES)),
                seen=", ".join(str(PRIORITIES[int(name[1:])]) for name in seen),
            )


async def _delete_touches_no_other_pod(room: Classroom) -> None:
    for part in ("backoff", "unschedulable"):
        queue = room.module.SchedulingQueue()
        deleted, other = _infos(room)[:2]
        waiting = getattr(queue, part)
        for info in (deleted, other):
            waiting[info.pod.metadata.uid] = info
        queue.delete(deleted.pod)
        if list(waiting) != [other.pod.metadata.uid]:
            raise Missing("one of two pods in {part} was deleted; {count} are left", part=part, count=len(waiting))


async def _delete_takes_one_pod(room: Classroom) -> None:
    await _order_after_delete(room)
    await _delete_touches_no_other_pod(room)


async def _no_pod_is_lost(room: Classroom) -> None:
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
    room.cordon("plain")
    await room.settle()
    room.pod("refused", priorityClassName="high")
    await room.wait_event("refused", "FailedScheduling")
    room.uncordon("plain")
    if not await room.wait_bound("refused", within_s=330):
        raise Missing("a pod that was refused was not tried again after five minutes")


CHECKS = (
    LessonCheck(
        "the pod with the highest priority is next",
        _by_priority,
        (
            "pod.priority is a number; add and pop decide which pod is next",
            "heapq keeps the smallest item of a list first; heappush and heappop work with anything that knows <",
            "give QueuedPodInfo a method __lt__ that is true if self should come before other",
        ),
    ),
    LessonCheck(
        "among equals, the pod that came first is next",
        _by_arrival,
        (
            "a heap does not keep the order of equals: compare something else when priorities are equal",
            "a counter that grows with every QueuedPodInfo: itertools.count()",
        ),
    ),
    LessonCheck(
        "a deleted pod leaves active, and the others keep their order",
        _delete_takes_one_pod,
        (
            "delete has to look into active, not only into backoff and unschedulable",
            "after removing an item from the list, call heapq.heapify",
        ),
    ),
    LessonCheck(
        "failed and deleted pods are treated as before",
        _no_pod_is_lost,
        ("add, backoff and flush stay as they are; whatever enters active goes through add",),
    ),
)
