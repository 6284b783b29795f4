"""Does the exercise of lesson 5 work: pods do not wait for permission for ever?"""

from __future__ import annotations

from mooring.lessons.checking import Check
from mooring.lessons.classroom import Classroom, Missing


def _cluster(room: Classroom) -> None:
    for i in range(10):
        room.node(f"node{i}")


async def _in_time(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("pod3")
    if not await room.wait_bound("pod3"):
        raise Missing("pod3 has to wait 3 seconds only, and was not bound")
    if not 2.9 <= room.bound_at["pod3"] <= 3.5:
        raise Missing(f"pod3 was bound after {room.bound_at['pod3']:.1f} s; 3 would be right")


async def _too_late(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("pod8")
    if await room.wait_bound("pod8", within_s=60):
        raise Missing(f"pod8 was bound after {room.bound_at['pod8']:.0f} s; after 5 the answer should have been no")


async def _says_why(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("pod8")
    message = await room.wait_event("pod8", "FailedScheduling", within_s=60)
    if "timeout" not in message:
        raise Missing(f"the FailedScheduling event should speak of a timeout; it says: {message or '(there is none)'}")


async def _in_background(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    for name in ("pod9", "pod2", "pod0"):
        room.pod(name)
    await room.pass_time(60)
    if list(room.bound_at) != ["pod0", "pod2"]:
        raise Missing(f"of pod9, pod2 and pod0 the last two should be bound, pod0 first; bound: {list(room.bound_at)}")
    if room.bound_at["pod2"] > 2.5:
        raise Missing(f"pod2 was bound after {room.bound_at['pod2']:.1f} s; it should not wait for pod9")


CHECKS = (
    Check("a pod that is allowed in time is bound", _in_time, "the clock starts when the pod begins to wait"),
    Check(
        "a pod that is not allowed within 5 seconds is not bound",
        _too_late,
        "asyncio.wait((waiting.verdict,), timeout=5.0) in wait_on_permit comes back in any case; then waiting.reject",
    ),
    Check("its event says that it was a timeout", _says_why, "the reason that is given to reject ends up in the event"),
    Check("nobody else waits with it", _in_background, "wait in the binding cycle, not in schedule_one"),
)
