"""Checks the exercise of lesson 5: pods do not wait for permission for ever."""

from __future__ import annotations

from typing import Any

from mooring.learn.checking import LessonCheck
from mooring.learn.classroom import Classroom, Missing


def _cluster(room: Classroom) -> None:
    for i in range(10):
        room.node(f"node{i}")


def _never_allows(room: Classroom, name: str) -> None:
    """Hand in a plugin that lets pods named stuck wait, and never allows them."""
    status = room.module.Status

    def permit(self: Any, state: Any, pod: Any, node: Any) -> Any:
        return status("Wait", "for ever") if pod.metadata.name.startswith("stuck") else status()

    room.plugin(name, permit=permit)


async def _too_late(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("pod8")
    if await room.wait_bound("pod8", within_s=60):
        raise Missing("pod8 was bound after {at:.0f} s; after 5 s it should be rejected", at=room.bound_at["pod8"])


async def _in_time(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("pod3")
    if not await room.wait_bound("pod3"):
        raise Missing("pod3 has to wait 3 seconds only, and was not bound")
    if not 2.9 <= room.bound_at["pod3"] <= 3.5:
        raise Missing("pod3 was bound after {at:.1f} s; it should be 3", at=room.bound_at["pod3"])


async def _after_five_seconds(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("pod8")
    message = await room.wait_event("pod8", "FailedScheduling", within_s=60)
    if "timeout" not in message:
        raise Missing("the FailedScheduling event should speak of a timeout; it is: {seen}", seen=message or "<none>")
    if not 4.9 <= room.elapsed_s <= 5.5:
        raise Missing("pod8 was rejected after {at:.1f} s; it should wait 5 s first", at=room.elapsed_s)


async def _every_plugin(room: Classroom) -> None:
    room.node("node0")
    _never_allows(room, "Stubborn")
    _never_allows(room, "Silent")
    await room.start()
    room.pod("stuck")
    if not await room.wait_event("stuck", "FailedScheduling", within_s=60):
        raise Missing("two plugins of the checker's never allow the pod named stuck, and it was never rejected")
    if not 4.9 <= room.elapsed_s <= 5.5:
        raise Missing(
            "stuck was rejected after {at:.1f} s; it should be 5, however many plugins wait", at=room.elapsed_s
        )
    await room.pass_time(30)
    if node := room.where("stuck"):
        raise Missing("stuck was rejected and then bound to {node} all the same", node=node)
    if waiting := getattr(room.scheduler, "waiting_pods", None):
        raise Missing("{count} pod(s) are still in waiting_pods after the rejection", count=len(waiting))


async def _in_background(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    for name in ("pod9", "pod2", "pod0"):
        room.pod(name)
    await room.pass_time(60)
    if list(room.bound_at) != ["pod0", "pod2"]:
        raise Missing(
            "of pod9, pod2 and pod0 the last two should be bound, pod0 first; bound: {seen}",
            seen=", ".join(room.bound_at) or "<none>",
        )
    if room.bound_at["pod2"] > 2.5:
        raise Missing("pod2 was bound after {at:.1f} s; it should not wait for pod9", at=room.bound_at["pod2"])


CHECKS = (
    LessonCheck(
        "a pod that is not allowed within 5 seconds is not bound",
        _too_late,
        (
            "wait_on_permit is the place: it waits for the verdict without end",
            "asyncio.wait(..., timeout=...) comes back in any case and leaves the verdict alone",
            "if the verdict is not there by then, reject the pod: WaitingPod.reject raises in the binding cycle",
        ),
    ),
    LessonCheck("a pod that is allowed in time is bound", _in_time, ("a permission in time is as good as before",)),
    LessonCheck(
        "it is rejected after 5 seconds, and its event speaks of a timeout",
        _after_five_seconds,
        (
            "the plugin still answers Wait: the limit is in the scheduler, not in NodeNumber",
            "the reason that is given to reject ends up in the event",
        ),
    ),
    LessonCheck(
        "the limit holds for every plugin, and for all of them together",
        _every_plugin,
        ("one wait of 5 s for the verdict, not one for each plugin; waiting.pending has the names",),
    ),
    LessonCheck("no other pod waits with it", _in_background, ("wait in the binding cycle, not in schedule_one",)),
)
