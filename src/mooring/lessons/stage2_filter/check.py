"""Does the exercise of lesson 2 work: a filter plugin TaintToleration?"""

from __future__ import annotations

from typing import Any

from mooring.lessons.checking import Check
from mooring.lessons.classroom import Classroom, Missing

REASON = "node(s) had untolerated taint(s)"


def _taint(effect: str = "NoSchedule") -> list[dict[str, str]]:
    return [{"key": "dedicated", "value": "db", "effect": effect}]


async def _refused(room: Classroom) -> None:
    room.node("tainted1", taints=_taint())
    room.node("tainted2", taints=_taint("NoExecute"))
    await room.start()
    room.pod("web")
    if node := await room.wait_bound("web", within_s=5):
        raise Missing(f"web tolerates nothing and is on {node}, which has a taint")


async def _says_why(room: Classroom) -> None:
    room.node("tainted", taints=_taint())
    room.node("cordoned", unschedulable=True)
    await room.start()
    room.pod("web")
    message = await room.wait_event("web", "FailedScheduling")
    want = f"0/2 nodes are available: 1 {REASON}, 1 node(s) were unschedulable."
    if message != want:
        raise Missing(f"the event should say: {want} It says: {message or '(there is no FailedScheduling event)'}")


async def _tolerated(room: Classroom) -> None:
    room.node("tainted", taints=_taint())
    await room.start()
    ways: dict[str, dict[str, Any]] = {
        "equal": {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
        "default-operator": {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
        "exists": {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
        "any-effect": {"key": "dedicated", "operator": "Exists"},
        "everything": {"operator": "Exists"},
    }
    for name, toleration in ways.items():
        room.pod(name, tolerations=[toleration])
        if not await room.wait_bound(name, within_s=5):
            raise Missing(
                f"the toleration {toleration} tolerates the taint dedicated=db:NoSchedule, and its pod is pending"
            )


async def _other_value(room: Classroom) -> None:
    room.node("tainted", taints=_taint())
    await room.start()
    room.pod("cache", tolerations=[{"key": "dedicated", "operator": "Equal", "value": "cache"}])
    if await room.wait_bound("cache", within_s=5):
        raise Missing("a toleration of dedicated=cache was taken for one of dedicated=db")


async def _prefer(room: Classroom) -> None:
    room.node("soft", taints=_taint("PreferNoSchedule"))
    await room.start()
    room.pod("web")
    if not await room.wait_bound("web", within_s=5):
        raise Missing("PreferNoSchedule is a wish: it should cost points (a score plugin's work), never refuse a node")


CHECKS = (
    Check(
        "nodes with an untolerated NoSchedule or NoExecute taint are refused",
        _refused,
        "write a class TaintToleration(Plugin) whose filter looks at node.spec.taints, and put it into plugins",
    ),
    Check("the event counts the reason in upstream's words", _says_why, f'the reason is "{REASON}"'),
    Check(
        "all ways of tolerating work",
        _tolerated,
        "an empty operator means Equal, an empty effect means every effect, Exists with an empty key means everything",
    ),
    Check("a toleration of another value does not help", _other_value, "Equal compares key and value"),
    Check("PreferNoSchedule refuses nothing", _prefer, "only NoSchedule and NoExecute are for filters"),
)
