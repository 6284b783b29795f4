"""Does the exercise of lesson 1 work: a predicate for spec.nodeSelector?"""

from __future__ import annotations

from mooring.lessons.checking import Check
from mooring.lessons.classroom import Classroom, Missing


def _cluster(room: Classroom) -> None:
    for i in range(6):
        room.node(f"node{i}", labels={"disk": "ssd", "zone": "a"} if i == 4 else {"disk": "hdd", "zone": "a"})


async def _goes_to_the_match(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    for i in range(1, 6):
        room.pod(f"fast{i}", nodeSelector={"disk": "ssd"})
        node = await room.wait_bound(f"fast{i}")
        if node != "node4":
            raise Missing(f"fast{i} asks for disk=ssd and is {_at(node)}; only node4 has that label")


async def _all_labels_count(room: Classroom) -> None:
    _cluster(room)
    room.node("other", labels={"disk": "ssd", "zone": "b"})
    await room.start()
    for i in range(1, 6):
        room.pod(f"picky{i}", nodeSelector={"disk": "ssd", "zone": "b"})
        node = await room.wait_bound(f"picky{i}")
        if node != "other":
            raise Missing(
                f"picky{i} asks for disk=ssd and zone=b and is {_at(node)}; only the node named other has both"
            )


async def _no_match_waits(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("impossible", nodeSelector={"disk": "tape"})
    if node := await room.wait_bound("impossible", within_s=5):
        raise Missing(f"impossible asks for disk=tape, no node has that, and yet it is {_at(node)}")


async def _others_still_go(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("plain")
    if not await room.wait_bound("plain"):
        raise Missing("a pod without a nodeSelector is pending; pod.spec.node_selector is None for such a pod")


def _at(node: str) -> str:
    return f"on {node}" if node else "pending"


CHECKS = (
    Check(
        "a pod with a nodeSelector goes to the node that has the label",
        _goes_to_the_match,
        "write a predicate that compares pod.spec.node_selector with node.metadata.labels, and put it into predicates",
    ),
    Check("every label of the nodeSelector counts", _all_labels_count, "one label that differs is enough for a no"),
    Check(
        "a pod that no node matches stays pending", _no_match_waits, "a label the node does not have is a no as well"
    ),
    Check("a pod without a nodeSelector goes anywhere", _others_still_go, "treat None like an empty dict"),
)
