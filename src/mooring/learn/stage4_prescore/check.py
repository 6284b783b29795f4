"""Checks the exercise of lesson 4: a pre-score plugin that skips scoring."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from mooring.learn.checking import LessonCheck
from mooring.learn.classroom import Classroom, Missing

NODES = 10


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
    for i in range(NODES):
        room.node(f"node{i}")


def _counting_plugin(room: Classroom, name: str, skips: str = "") -> list[str]:
    """Hand in a plugin that notes what it scores; with ``skips`` it skips pods whose name begins so."""
    asked: list[str] = []
    status = room.module.Status

    def pre_score(self: Any, state: Any, pod: Any, nodes: Any) -> Any:
        return status("Skip") if pod.metadata.name.startswith(skips) else status()

    def score(self: Any, state: Any, pod: Any, node: Any) -> int:
        asked.append(pod.metadata.name)
        return 0

    room.plugin(name, score=score, **({"pre_score": pre_score} if skips else {}))
    return asked


async def _skips(room: Classroom) -> None:
    _cluster(room)
    with _counted(room) as asked:
        await room.start()
        room.pod("web")
        if not await room.wait_bound("web"):
            raise Missing("the pod named web is pending; a plugin that skips should not keep it from being placed")
        if asked:
            raise Missing(
                "NodeNumber.score was called {count} times for web, which has no digit; it should be 0",
                count=len(asked),
            )


async def _scores(room: Classroom) -> None:
    _cluster(room)
    with _counted(room) as asked:
        await room.start()
        for i in (8, 0):
            asked.clear()
            room.pod(f"pod{i}")
            if await room.wait_bound(f"pod{i}") != f"node{i}":
                raise Missing(
                    "pod{i} is on {seen}, and should be on node{i} as before", i=i, seen=room.shown(f"pod{i}")
                )
            if len(asked) != NODES:
                raise Missing(
                    "NodeNumber.score was called {count} times for pod{i}; it should be once for each of {nodes} nodes",
                    count=len(asked),
                    i=i,
                    nodes=NODES,
                )


async def _every_plugin_may_skip(room: Classroom) -> None:
    _cluster(room)
    unskippable = _counting_plugin(room, "AlwaysScores")
    asked = _counting_plugin(room, "SkipsWeb", skips="web")  # the first of all plugins
    await room.start()
    for name in ("web", "pod3"):
        room.pod(name)
        if not await room.wait_bound(name):
            raise Missing("the pod named {pod} is pending after a plugin of the checker's skipped it", pod=name)
    if asked != ["pod3"] * NODES:
        raise Missing(
            "a plugin of the checker's skips web and no other pod; its score was called for {seen}",
            seen=", ".join(sorted(set(asked))) or "<none>",
        )
    if unskippable.count("web") != NODES:
        raise Missing(
            "a plugin without a pre_score of its own was asked {count} times about web instead of {nodes}",
            count=unskippable.count("web"),
            nodes=NODES,
        )
    if room.where("pod3") != "node3":
        raise Missing("pod3 is on {seen}, and should be on node3", seen=room.shown("pod3"))


async def _anew(room: Classroom) -> None:
    _cluster(room)
    await room.start()
    room.pod("web")
    await room.wait_bound("web")
    for i in (3, 6):
        room.pod(f"pod{i}")
        if await room.wait_bound(f"pod{i}") != f"node{i}":
            raise Missing(
                "after web was skipped, pod{i} went to {seen} instead of node{i}", i=i, seen=room.shown(f"pod{i}")
            )


CHECKS = (
    LessonCheck(
        "a pod without a digit is not scored by NodeNumber",
        _skips,
        (
            'let pre_score return a Status; its code is "Skip" if the pod has no digit',
            "find_node calls pre_score: keep the plugins whose status is not Skip, and score with those only",
        ),
    ),
    LessonCheck(
        "a pod with a digit is scored on every node",
        _scores,
        ("skip only if there is no digit; the digit 0 is one, and `not 0` is true: compare with None",),
    ),
    LessonCheck(
        "every plugin may skip, by its status and not by its name",
        _every_plugin_may_skip,
        (
            "look at the status that pre_score returns, for every plugin in the same way",
            "Plugin.pre_score, for plugins that do not override it, returns SUCCESS; one Skip concerns one plugin",
        ),
    ),
    LessonCheck(
        "skipping holds for one pod only",
        _anew,
        ("keep the list of skipped plugins per attempt, as a local variable, not in self",),
    ),
)
