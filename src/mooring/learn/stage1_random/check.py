"""Checks the exercise of lesson 1: a predicate for spec.nodeSelector."""

from __future__ import annotations

from mooring.learn.checking import LessonCheck
from mooring.learn.classroom import Classroom, Missing

PODS = 8  # enough that a random choice cannot pass by luck


async def _expect(room: Classroom, selector: dict[str, str], node: str) -> None:
    """All pods with this nodeSelector go to this node."""
    for i in range(PODS):
        name = f"pod-{i}"
        room.pod(name, nodeSelector=selector)
        if await room.wait_bound(name, within_s=5) != node:
            raise Missing(
                "{pod} asks for {selector} and is on {seen}; only {node} has that",
                pod=name,
                selector=_shown(selector),
                seen=room.shown(name),
                node=node,
            )


def _shown(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


async def _goes_to_the_match(room: Classroom) -> None:
    for i in range(6):
        room.node(f"node{i}", labels={"disk": "ssd" if i == 4 else "hdd", "zone": "a"})
    await room.start()
    await _expect(room, {"disk": "ssd"}, "node4")


async def _all_labels_count(room: Classroom) -> None:
    room.node("near", labels={"disk": "ssd", "zone": "a"})
    room.node("big", labels={"disk": "hdd", "zone": "b"})
    room.node("both", labels={"disk": "ssd", "zone": "b"})
    await room.start()
    await _expect(room, {"disk": "ssd", "zone": "b"}, "both")


async def _key_and_value_count(room: Classroom) -> None:
    room.node("other-key", labels={"tier": "ssd"})
    room.node("longer-value", labels={"disk": "ssd-slow"})
    room.node("shorter-value", labels={"disk": "s"})
    room.node("exact", labels={"disk": "ssd"})
    await room.start()
    await _expect(room, {"disk": "ssd"}, "exact")


async def _no_match_waits(room: Classroom) -> None:
    for i in range(3):
        room.node(f"node{i}", labels={"disk": "hdd"})
    await room.start()
    for name, selector in (("other-value", {"disk": "tape"}), ("other-key", {"gpu": "yes"}), ("empty", {"gpu": ""})):
        room.pod(name, nodeSelector=selector)
        if node := await room.wait_bound(name, within_s=5):
            raise Missing(
                "{pod} asks for {selector}; no node has that, and yet it is on {node}",
                pod=name,
                selector=_shown(selector),
                node=node,
            )


async def _others_still_go(room: Classroom) -> None:
    room.node("plain")
    room.node("labelled", labels={"disk": "ssd"})
    await room.start()
    for i in range(PODS):
        room.pod(f"pod-{i}")
        if not await room.wait_bound(f"pod-{i}", within_s=5):
            raise Missing("a pod without a nodeSelector is pending; pod.spec.node_selector is None for such a pod")
    if len({room.where(f"pod-{i}") for i in range(PODS)}) != 2:
        raise Missing("{count} pods without a nodeSelector all went to one of two nodes; dice use both", count=PODS)


CHECKS = (
    LessonCheck(
        "a pod with a nodeSelector goes to the node that has the label",
        _goes_to_the_match,
        (
            "a predicate is a function (pod, node) -> bool; the list self.predicates holds those that are asked",
            "compare pod.spec.node_selector with node.metadata.labels; both are dicts, the first may be None",
            "for each key and value of the selector: node.metadata.labels.get(key) == value",
        ),
    ),
    LessonCheck(
        "every label of the nodeSelector counts",
        _all_labels_count,
        ("one label that differs is enough to refuse the node", "all(...) instead of any(...), over all items"),
    ),
    LessonCheck(
        "key and value both have to be equal",
        _key_and_value_count,
        ("look up the key in the node's labels, then compare the value with ==",),
    ),
    LessonCheck(
        "a pod that no node matches stays pending",
        _no_match_waits,
        ("a label that the node does not have is no match either, not even for an empty value",),
    ),
    LessonCheck(
        "a pod without a nodeSelector goes anywhere",
        _others_still_go,
        ("treat None like an empty dict: (pod.spec.node_selector or {})",),
    ),
)
