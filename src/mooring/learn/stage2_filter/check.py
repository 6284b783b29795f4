"""Checks the exercise of lesson 2: a filter plugin TaintToleration."""

from __future__ import annotations

from mooring.learn.checking import LessonCheck
from mooring.learn.classroom import Classroom, Missing

REASON = "node(s) had untolerated taint(s)"
DB = "dedicated=db:NoSchedule"


def _taint(text: str) -> dict[str, str]:
    """Read a taint as kubectl writes it: key=value:effect."""
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


async def _case(room: Classroom, taints: list[str], tolerations: list[dict[str, str]], *, tolerated: bool) -> None:
    """A node with these taints, alone, takes a pod with these tolerations, or does not."""
    number = len(room.pod_names())
    node, pod = f"node-{number}", f"pod-{number}"
    room.node(node, taints=[_taint(text) for text in taints])
    await room.settle()
    room.pod(pod, tolerations=tolerations)
    was_bound = bool(await room.wait_bound(pod, within_s=5))
    if tolerated and not was_bound:
        raise Missing(
            "the tolerations {tolerations} tolerate {taints}, and the pod is pending", **_shown(taints, tolerations)
        )
    if was_bound and not tolerated:
        raise Missing(
            "the tolerations {tolerations} do not tolerate {taints}, and yet the pod was bound",
            **_shown(taints, tolerations),
        )
    room.delete_node(node)
    await room.settle()


def _shown(taints: list[str], tolerations: list[dict[str, str]]) -> dict[str, str]:
    each = ("{" + ", ".join(f"{key}: {value}" for key, value in one.items()) + "}" for one in tolerations)
    return {"taints": ", ".join(taints), "tolerations": "[" + ", ".join(each) + "]"}


async def _refused(room: Classroom) -> None:
    await room.start()
    for taint in (DB, "dedicated=db:NoExecute"):
        await _case(room, [taint], [], tolerated=False)
    await _case(room, [], [], tolerated=True)


async def _says_why(room: Classroom) -> None:
    room.node("tainted", taints=[_taint(DB)])
    room.node("cordoned", unschedulable=True)
    await room.start()
    room.pod("web")
    message = await room.wait_event("web", "FailedScheduling")
    want = f"0/2 nodes are available: 1 {REASON}, 1 node(s) were unschedulable."
    if message != want:
        raise Missing("the event should be: {want} It is: {seen}", want=want, seen=message or "<none>")


async def _tolerated(room: Classroom) -> None:
    await room.start()
    for toleration in (
        {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "db"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Exists"},
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
    ):
        await _case(room, [DB], [toleration], tolerated=True)


async def _does_not_fit(room: Classroom) -> None:
    await room.start()
    for toleration in (
        {"key": "dedicated", "operator": "Equal", "value": "cache"},
        {"key": "dedicated", "value": "cache"},
        {"key": "reserved", "operator": "Equal", "value": "db"},
        {"key": "reserved", "operator": "Exists"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
        {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoExecute"},
        {"operator": "Exists", "effect": "NoExecute"},
    ):
        await _case(room, [DB], [toleration], tolerated=False)


async def _several(room: Classroom) -> None:
    await room.start()
    first, second = {"key": "dedicated", "operator": "Exists"}, {"key": "gpu", "operator": "Exists"}
    taints = [DB, "gpu=yes:NoExecute"]
    await _case(room, taints, [first], tolerated=False)
    await _case(room, taints, [second], tolerated=False)
    await _case(room, taints, [second, first], tolerated=True)
    await _case(room, taints, [{"key": "other", "operator": "Exists"}, {"operator": "Exists"}], tolerated=True)


async def _prefer(room: Classroom) -> None:
    await room.start()
    soft = "dedicated=db:PreferNoSchedule"
    await _case(room, [soft], [], tolerated=True)
    await _case(room, [soft, "gpu=yes:NoSchedule"], [], tolerated=False)
    await _case(room, ["gpu=yes:NoSchedule", soft], [{"key": "gpu", "operator": "Exists"}], tolerated=True)


CHECKS = (
    LessonCheck(
        "nodes with an untolerated NoSchedule or NoExecute taint are refused",
        _refused,
        (
            "a filter plugin is a class with a name and a method filter; self.plugins holds those that are asked",
            "node.spec.taints is a list; each taint has .key, .value and .effect",
            "a taint with effect NoSchedule or NoExecute that no toleration covers refuses the node",
        ),
    ),
    LessonCheck(
        "the event counts the reason in upstream's words",
        _says_why,
        ("the reason is exactly: node(s) had untolerated taint(s); NodeUnschedulable stays in self.plugins",),
    ),
    LessonCheck(
        "all ways of tolerating work",
        _tolerated,
        (
            "an empty field of a toleration is the more general one: no effect means every effect",
            "no operator means Equal; Exists ignores the value; Exists without a key covers every key",
        ),
    ),
    LessonCheck(
        "a toleration of another key, value or effect does not help",
        _does_not_fit,
        (
            "key, value and effect each have to fit; Exists skips the comparison of values only",
            "an effect that is set has to be equal, for Exists too",
        ),
    ),
    LessonCheck(
        "every taint needs a toleration, and each may have its own",
        _several,
        ("all taints, any toleration: all(any(tolerates(t, taint) for t in tolerations) for taint in taints)",),
    ),
    LessonCheck(
        "PreferNoSchedule refuses nothing",
        _prefer,
        ("skip such a taint and look at the next one; it should cost points, which is a score plugin's work",),
    ),
)
