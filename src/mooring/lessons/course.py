"""The course: its lessons, and how to play one."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mooring.errors import UsageError
from mooring.lessons.classroom import Say, SchedulerLog, open_classroom
from mooring.sim.virtual_time import run_virtual

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Lesson:
    """One of the seven."""

    number: int
    slug: str
    title: str
    new: str

    @property
    def folder(self) -> Path:
        return HERE / f"stage{self.number}_{self.slug}"

    @property
    def source(self) -> Path:
        return self.folder / "scheduler.py"

    @property
    def text(self) -> Path:
        return self.folder / "README.md"

    def module(self, name: str) -> types.ModuleType:
        """Import one of the lesson's modules: scheduler, scenario, check or solution."""
        return importlib.import_module(f"mooring.lessons.{self.folder.name}.{name}")


LESSONS: tuple[Lesson, ...] = (
    Lesson(1, "random", "any node will do", "watch, choose by dice, bind, emit the event"),
    Lesson(2, "filter", "filter plugins", "NodeUnschedulable says no, and the pod is told why"),
    Lesson(3, "score", "score plugins", "NodeNumber: pod8 prefers node8"),
    Lesson(4, "prescore", "pre-score plugins", "work that is done once per pod, not once per node"),
    Lesson(5, "permit", "permit plugins", "pods wait for permission and are bound in the background"),
    Lesson(6, "queue", "a scheduling queue", "active, backoff, unschedulable: no pod is lost"),
    Lesson(7, "events", "event handlers", "what happens in the cluster wakes the pods it can help"),
)


def lesson(number: int) -> Lesson:
    """Return a lesson by its number."""
    if not 1 <= number <= len(LESSONS):
        raise UsageError(f"lesson {number}: there are lessons 1 to {len(LESSONS)}")
    return LESSONS[number - 1]


@contextlib.contextmanager
def listening(say: Say) -> Iterator[None]:
    """Hand the log lines of lessons' schedulers to ``say``, and to nobody else."""
    log = logging.getLogger("lesson")
    handler = SchedulerLog(say)
    before = (log.level, log.propagate)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]


Tell = Callable[[float, str, str], None]
"""When (seconds since the beginning), who, and what."""


def play(
    which: Lesson,
    tell: Tell,
    *,
    module: types.ModuleType | None = None,
    real_time: bool = False,
) -> None:
    """Play a lesson's scenario on an embedded control plane, with its own scheduler or another; in virtual time."""

    async def main() -> None:
        began = asyncio.get_running_loop().time()

        def say(who: str, text: str) -> None:
            tell(asyncio.get_running_loop().time() - began, who, text)

        with listening(say):
            async with open_classroom(module or which.module("scheduler"), say) as room:
                await which.module("scenario").scenario(room)

    if real_time:
        asyncio.run(main())
    else:
        run_virtual(main(), has_sockets=True)
