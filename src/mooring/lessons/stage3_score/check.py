"""Does the exercise of lesson 3 work: a second score plugin that spreads pods?"""

from __future__ import annotations

from collections import Counter

from mooring.lessons.checking import Check
from mooring.lessons.classroom import Classroom, Missing


async def _spreads(room: Classroom) -> None:
    for name in ("blue", "green", "red"):
        room.node(name)
    await room.start()
    for name in ("a", "b", "c", "d", "e", "f"):
        room.pod(name)
        if not await room.wait_bound(name):
            raise Missing(f"the pod named {name} is pending although three nodes are open")
    counts = Counter(room.where(name) for name in room.pod_names())
    if set(counts.values()) != {2}:
        raise Missing(f"six pods on three equal nodes should be two on each; they are {dict(sorted(counts.items()))}")


async def _everybody_counts(room: Classroom) -> None:
    room.node("busy")
    room.node("idle")
    for i in range(4):
        room.pod(f"theirs-{'abcd'[i]}", scheduler="somebody-else", nodeName="busy")
    await room.start()
    for name in ("x", "y", "z"):
        room.pod(name)
        if (node := await room.wait_bound(name)) != "idle":
            raise Missing(f"the node named busy has four pods of another scheduler, and {name} is on {node or 'none'}")


async def _number_wins(room: Classroom) -> None:
    for i in range(7, 10):
        room.node(f"node{i}")
    for letter in "abc":
        room.pod(f"there-{letter}", scheduler="somebody-else", nodeName="node8")
    await room.start()
    room.pod("pod8")
    if (node := await room.wait_bound("pod8")) != "node8":
        raise Missing(f"pod8 is on {node or 'none'}; NodeNumber should outweigh a difference of three pods")


CHECKS = (
    Check(
        "pods without a digit are spread evenly",
        _spreads,
        "write a class LeastPods(Plugin) with a score that falls with the number of pods; self.pods knows all pods",
    ),
    Check(
        "pods of other schedulers count too",
        _everybody_counts,
        "count every pod whose spec.node_name is the node's name, whoever put it there",
    ),
    Check("NodeNumber still wins", _number_wins, "that is what weight is for: raise NodeNumber's"),
)
