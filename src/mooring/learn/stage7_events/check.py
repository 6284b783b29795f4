"""Checks the exercise of lesson 7: queueing hints."""

from __future__ import annotations

from typing import Any

from mooring.learn.checking import LessonCheck
from mooring.learn.classroom import Classroom, Missing


async def _refused(room: Classroom, *names: str) -> None:
    """Wait until these pods were refused once, and their backoff is over."""
    for name in names:
        room.pod(name)
        if not await room.wait_event(name, "FailedScheduling"):
            raise Missing("no node may take {pod}, and there is no FailedScheduling event", pod=name)
    await room.pass_time(15)


async def _closed_cluster(room: Classroom) -> None:
    for name in ("blue", "green", "red"):
        room.node(name, unschedulable=True)
    await room.start()
    await _refused(room, "web")


def _no_more_attempts(room: Classroom, what: str) -> None:
    attempts = len(room.events("web", "FailedScheduling"))
    if attempts != 1 or room.where("web"):
        raise Missing(
            "{what}: web was tried again {count} time(s); it should be 0", what=room.words(what), count=attempts - 1
        )


async def _labels(room: Classroom) -> None:
    await _closed_cluster(room)
    for i in range(3):
        room.label_node("blue", "round", str(i))
        await room.pass_time(15)
    _no_more_attempts(room, "a cordoned node got three labels")


async def _closed_node(room: Classroom) -> None:
    await _closed_cluster(room)
    room.node("yellow", unschedulable=True)
    await room.pass_time(15)
    _no_more_attempts(room, "a cordoned node joined")


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
    await _refused(room, "late", "later")
    room.uncordon("red")
    for name in ("web", "late", "later"):
        if await room.wait_bound(name, within_s=15) != "red":
            raise Missing("red was uncordoned, and the pod named {pod} is still pending", pod=name)


def _needs_a_key(room: Classroom, name: str, **members: Any) -> None:
    """Hand in a plugin that refuses nodes without the label key; its hint looks at the new node."""
    status = room.module.Status

    def may(self: Any, state: Any, pod: Any, node: Any) -> Any:
        return status() if "key" in node.metadata.labels else status("Unschedulable", "node(s) had no key")

    plugin = room.plugin(name, **{"filter": may, "events": ("NodeUpdate",), **members})
    room.scheduler.plugins.remove(plugin)
    room.scheduler.plugins.append(plugin)  # the last: a cordoned node is refused by NodeUnschedulable


async def _asks_the_plugin(room: Classroom) -> None:
    room.node("blue")

    def hint(self: Any, pod: Any, old: Any, new: Any) -> bool:
        return "key" in new.metadata.labels and old is not None and "key" not in old.metadata.labels

    _needs_a_key(room, "NeedsKey", queueing_hint=hint)
    await room.start()
    await _refused(room, "web")
    room.label_node("blue", "colour", "blue")
    await room.pass_time(15)
    _no_more_attempts(room, "the hint of a plugin of the checker's says no")
    room.label_node("blue", "key", "yes")
    if await room.wait_bound("web", within_s=15) != "blue":
        raise Missing("the hint of a plugin of the checker's says yes, and web is still pending")


async def _only_who_refused(room: Classroom) -> None:
    room.plugin("Eager", events=("NodeAdd", "NodeUpdate"), queueing_hint=lambda self, pod, old, new: True)
    await _closed_cluster(room)
    room.label_node("blue", "round", "1")
    await room.pass_time(15)
    _no_more_attempts(room, "a plugin that refused nothing has a hint that says yes")


async def _was_open_before(room: Classroom) -> None:
    room.node("blue")
    room.node("red", unschedulable=True)
    _needs_a_key(room, "NeverHelped", events=(), queueing_hint=lambda self, pod, old, new: False)
    await room.start()
    await _refused(room, "web")
    room.label_node("blue", "round", "1")
    await room.pass_time(15)
    _no_more_attempts(room, "an open node, refused by another plugin, got a label")


async def _registered_events_only(room: Classroom) -> None:
    room.node("blue")
    _needs_a_key(room, "Deaf", events=(), queueing_hint=lambda self, pod, old, new: True)
    await room.start()
    await _refused(room, "web")
    room.label_node("blue", "round", "1")
    await room.pass_time(15)
    _no_more_attempts(room, "a plugin has registered no event, and its hint says yes")


async def _without_a_hint(room: Classroom) -> None:
    room.node("blue")
    _needs_a_key(room, "NoHint")
    await room.start()
    await _refused(room, "web")
    room.label_node("blue", "key", "yes")
    if await room.wait_bound("web", within_s=15) != "blue":
        raise Missing("a plugin without a hint of its own has registered NodeUpdate; it came, and web is still pending")


CHECKS = (
    LessonCheck(
        "a label change of a cordoned node wakes no pod",
        _labels,
        (
            "the handlers know the old and the new node: hand both on, down to the queue",
            "give Plugin a method queueing_hint(self, pod, old, new) -> bool, which is asked before a pod is woken",
            "NodeUnschedulable overrides it: true if the new node is open and the old one was not",
        ),
    ),
    LessonCheck(
        "a new node that is cordoned wakes no pod",
        _closed_node,
        ("for a new node there is no old one: pass None, and ask the hint too",),
    ),
    LessonCheck(
        "uncordoning a node wakes the pod",
        _uncordon,
        ("old.spec.unschedulable was true, new.spec.unschedulable is false or None",),
    ),
    LessonCheck("a new open node wakes the pod", _open_node, ("old is None: that counts as not open before",)),
    LessonCheck(
        "a node that was open before wakes no pod",
        _was_open_before,
        ("NodeUnschedulable did not refuse that node: look at the old node as well",),
    ),
    LessonCheck("every pod that it can help is woken", _all_of_them, ("ask for each pod; do not stop at the first",)),
    LessonCheck(
        "the hint is the plugin's: each plugin has its own",
        _asks_the_plugin,
        (
            "ask plugin.queueing_hint(pod, old, new), with the arguments in this order",
            "the handlers should not look at unschedulable: that is the business of one plugin",
        ),
    ),
    LessonCheck(
        "only plugins that refused the pod are asked",
        _only_who_refused,
        ("info.refused_by has their names; at least one of them has to say yes",),
    ),
    LessonCheck(
        "a hint counts only for events that its plugin has registered",
        _registered_events_only,
        ("event in plugin.events comes first, as before; then the hint",),
    ),
    LessonCheck(
        "a plugin without a hint of its own is helped by every event it has registered",
        _without_a_hint,
        ("Plugin.queueing_hint, for plugins that do not override it, returns True",),
    ),
)
