"""Checks the exercise of lesson 3: a second score plugin that spreads pods."""

from __future__ import annotations

from collections import Counter

from mooring.learn.checking import LessonCheck
from mooring.learn.classroom import Classroom, Missing


async def _spreads(room: Classroom) -> None:
    for name in ("blue", "green", "red"):
        room.node(name)
    await room.start()
    for name in ("a", "b", "c", "d", "e", "f", "g", "h", "i"):
        room.pod(name)
        if not await room.wait_bound(name):
            raise Missing("the pod named {pod} is pending although three nodes are open", pod=name)
    counts = Counter(room.where(name) for name in room.pod_names())
    if set(counts.values()) != {3}:
        seen = ", ".join(f"{node}: {count}" for node, count in sorted(counts.items()))
        raise Missing("nine pods on three equal nodes should be three on each; they are {seen}", seen=seen)


async def _is_a_plugin(room: Classroom) -> None:
    room.node("blue")
    await room.start()
    names = [plugin.name for plugin in room.scheduler.plugins]
    if "LeastPods" not in names or "NodeNumber" not in names:
        raise Missing("self.plugins holds {names}; it should hold LeastPods and NodeNumber", names=", ".join(names))


async def _all_pods_count(room: Classroom) -> None:
    room.node("busy")
    room.node("idle")
    for letter in "abcd":
        room.pod(f"theirs-{letter}", scheduler="another-scheduler", nodeName="busy")
    await room.start()
    for name in ("x", "y", "z"):
        room.pod(name)
        if await room.wait_bound(name) != "idle":
            raise Missing(
                "the node named busy has four pods of another scheduler, and {pod} is on {seen}",
                pod=name,
                seen=room.shown(name),
            )


async def _deleted_pods_do_not_count(room: Classroom) -> None:
    room.node("blue")
    room.node("red")
    for letter in "abcdef":
        room.pod(f"old-{letter}", scheduler="another-scheduler", nodeName="blue")
    room.pod("there", scheduler="another-scheduler", nodeName="red")
    await room.start()
    room.pod("first")
    await room.wait_bound("first")
    for letter in "abcdef":
        room.delete_pod(f"old-{letter}")
    await room.settle()
    room.pod("second")
    if await room.wait_bound("second") != "blue":
        raise Missing("all pods of blue were deleted, and the next pod still went to {seen}", seen=room.shown("second"))


async def _number_wins(room: Classroom) -> None:
    for i in range(7, 10):
        room.node(f"node{i}")
    for i in range(30):
        room.pod(f"there-{i}", scheduler="another-scheduler", nodeName="node8")
    await room.start()
    room.pod("pod8")
    if await room.wait_bound("pod8") != "node8":
        raise Missing(
            "pod8 is on {seen}; NodeNumber should outweigh a difference of thirty pods", seen=room.shown("pod8")
        )


CHECKS = (
    LessonCheck(
        "pods without a digit are spread evenly",
        _spreads,
        (
            "a score plugin is a class with a name and a method score; more points are better",
            "count the pods whose spec.node_name is the node's name; the score falls with that number",
            "a plugin does not know the scheduler: hand self.pods to its __init__, after the informer was made",
        ),
    ),
    LessonCheck(
        "it is a plugin named LeastPods, beside NodeNumber",
        _is_a_plugin,
        ("the loop and select_host stay as they are; the plugin goes into self.plugins",),
    ),
    LessonCheck(
        "pods of other schedulers count too",
        _all_pods_count,
        ("count every pod with this spec.node_name, whichever scheduler put it there",),
    ),
    LessonCheck(
        "deleted pods no longer count",
        _deleted_pods_do_not_count,
        ("count anew for every score: the informer knows the pods of this moment",),
    ),
    LessonCheck(
        "NodeNumber still wins",
        _number_wins,
        (
            "a total is the sum of score times weight",
            "raise NodeNumber's weight: 10 points times the weight have to exceed what LeastPods can give",
        ),
    ),
)
