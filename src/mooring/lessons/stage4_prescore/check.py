"""Does the exercise of lesson 4 work: a pre-score plugin that skips scoring?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mooring.lessons.checking import Check
from mooring.lessons.classroom import Classroom, Missing


@contextlib.contextmanager
def _counted(room: Classroom) -> Iterator[list[str]]:
    """Note the names of pods for which NodeNumber.score is called."""
    plugin = getattr(room.module, "NodeNumber", None)
    score = getattr(plugin, "score", None)
    if plugin is None or score is None:
        raise Missing("there is no NodeNumber.score any more; keep it, the exercise is about calling it less often")
    asked: list[str] = []

    def counting(self: Any, state: Any, pod: Any, *rest: Any, **options: Any) -> Any:
        asked.append(pod.metadata.name)
        return score(self, state, pod, *rest, **options)

    plugin.score = counting
    try:
        yield asked
    finally:
        plugin.score = score


def _cluster(room: Classroom) -> None:
    for i in range(10):
        room.node(f"node{i}")


async def _skips(room: Classroom) -> None:
    _cluster(room)
    with _counted(room) as asked:
        await room.start()
        room.pod("web")
        if not await room.wait_bound("web"):
            raise Missing("the pod named web is pending; who has no opinion should not stand in the way")
        if asked:
            raise Missing(
                f"NodeNumber.score was called {len(asked)} times for web, which has no digit; 0 would be right"
            )


async def _scores(room: Classroom) -> None:
    _cluster(room)
    with _counted(room) as asked:
        await room.start()
        room.pod("pod8")
        if (node := await room.wait_bound("pod8")) != "node8":
            raise Missing(f"pod8 is on {node or 'none'}, and should be on node8 as before")
        if len(asked) != 10:
            raise Missing(
                f"NodeNumber.score was called {len(asked)} times for pod8; once for each of 10 nodes is right"
            )


async def _anew(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("web")
    await room.wait_bound("web")
    for i in (3, 6):
        room.pod(f"pod{i}")
        if (node := await room.wait_bound(f"pod{i}")) != f"node{i}":
            raise Missing(f"after web was skipped, pod{i} went to {node or 'none'} instead of node{i}")


CHECKS = (
    Check(
        "a pod without a digit is not scored by NodeNumber",
        _skips,
        'let pre_score return a Status, "Skip" if there is no digit, and leave such plugins out of scoring',
    ),
    Check("a pod with a digit is scored on every node", _scores, "skip only what said Skip"),
    Check("skipping holds for one pod only", _anew, "keep the list of skipped plugins per attempt, not per scheduler"),
)
