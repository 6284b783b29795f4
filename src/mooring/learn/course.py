"""The course: its lessons, and how to play one."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import types
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mooring.api.errors import UsageError
from mooring.controlplane.server import ControlPlane
from mooring.core.config.features import DEFAULT_FEATURES
from mooring.core.config.load import default_config
from mooring.learn.classroom import Classroom, Say, Words, open_classroom
from mooring.net.kinds import SCHEDULER_KINDS
from mooring.record.files import WholeWrites, create
from mooring.record.recorder import Immediately
from mooring.record.watching import WatchRecorder
from mooring.sim.backend import StoreFeed
from mooring.sim.virtual_time import LoopClock, run_virtual

# --------------------------------------------------------------------------------------------------------------------
# A record of a lesson: its scheduler is the learner's own, so what it does is read from the cluster.


@contextlib.contextmanager
def recording(plane: ControlPlane, path: str | None) -> Iterator[Say]:
    """Record what happens in the cluster, if a path is given. What is said goes into the record as well."""
    if path is None:
        yield lambda who, text: None
        return
    now = LoopClock(asyncio.get_running_loop()).now
    output = Immediately(WholeWrites(create(path)))
    recorder = WatchRecorder(output, default_config(), DEFAULT_FEATURES, now, source="lesson")
    recorder.is_synced = True
    feed = StoreFeed(plane.store, SCHEDULER_KINDS, recorder)
    feed.start()
    try:
        yield lambda who, text: recorder.note(text, who)
    finally:
        feed.stop()
        recorder.close()


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
    def scenario(self) -> Path:
        return self.folder / "scenario.py"

    def text(self, language: str = "en") -> Path:
        return self.folder / ("README.md" if language == "en" else f"README.{language}.md")

    @property
    def page(self) -> str:
        """The name of its text in docs/learn."""
        return f"{self.number}-{self.slug}.md"

    @property
    def steps(self) -> list[Path]:
        """Schedulers that lead to this one, each complete; the lesson's own is the last."""
        found = sorted(self.folder.glob("step[0-9].py"))
        return [*found, self.source] if found else []

    def module(self, name: str) -> types.ModuleType:
        """Import one of the lesson's modules: scheduler, scenario or check."""
        return importlib.import_module(f"mooring.learn.{self.folder.name}.{name}")

    @property
    def solution(self) -> str:
        """The source of one solution of the exercise; it is stored as a unified diff against the scheduler."""
        patch = (self.folder / "solution.patch").read_text(encoding="utf-8")
        return patched(self.source.read_text(encoding="utf-8"), patch)


def patched(source: str, patch: str) -> str:
    """Apply a unified diff without file headers; every line that it keeps or removes must be where it says."""
    before, after, at = source.splitlines(keepends=True), list[str](), 0
    for line in patch.splitlines(keepends=True):
        if line.startswith("@@"):
            start = int(line.split()[1].partition(",")[0].removeprefix("-")) - 1
            after += before[at:start]
            at = start
            continue
        sign, text = line[0], line[1:]
        if sign in " -":
            if before[at : at + 1] != [text]:
                raise ValueError(f"line {at + 1}: the patch expects {text!r}")
            at += 1
        if sign in " +":
            after.append(text)
    return "".join(after + before[at:])


LESSONS: tuple[Lesson, ...] = (
    Lesson(1, "random", "any node will do", "watch, choose by dice, bind, emit the event"),
    Lesson(2, "filter", "filter plugins", "NodeUnschedulable refuses nodes, and the event says why"),
    Lesson(3, "score", "score plugins", "NodeNumber: pod8 prefers node8"),
    Lesson(4, "prescore", "pre-score plugins", "work that is done once per pod, not once per node"),
    Lesson(5, "permit", "permit plugins", "pods wait for permission and are bound in the background"),
    Lesson(6, "queue", "a scheduling queue", "active, backoff, unschedulable: no pod is lost"),
    Lesson(7, "events", "event handlers", "events in the cluster wake the pods that they can help"),
)


@dataclass(frozen=True, slots=True)
class Chapter:
    """A text after the lessons, about the real engine."""

    number: int
    slug: str
    title: str

    @property
    def page(self) -> str:
        """The name of its text in docs/learn."""
        return f"{self.number}-{self.slug}.md"

    def text(self, language: str = "en") -> Path:
        """Its text in a language, or in English where there is no translation."""
        translated = HERE / "chapters" / language / self.page
        return translated if translated.exists() else HERE / "chapters" / "en" / self.page


CHAPTERS: tuple[Chapter, ...] = (
    Chapter(8, "first-plugin", "your first plugin"),
    Chapter(9, "first-extender", "your first extender"),
    Chapter(10, "read-the-real-one", "read the real one, from main to leader election"),
    Chapter(11, "preemption", "preemption: make room for a more important pod"),
    Chapter(12, "why-is-my-pod-pending", "why is my pod pending?"),
    Chapter(13, "four-ways", "four ways to extend a scheduler, and their price"),
    Chapter(14, "pod-groups", "all or none: pod groups"),
)


def lesson(number: int) -> Lesson:
    """Return a lesson by its number."""
    if not 1 <= number <= len(LESSONS):
        raise UsageError(f"lesson {number}: there are lessons 1 to {len(LESSONS)}")
    return LESSONS[number - 1]


Tell = Callable[[float, str, str], None]
"""Seconds since the beginning, speaker and text."""

Scenario = Callable[[Classroom], Awaitable[None]]


def play(
    which: Lesson,
    tell: Tell,
    *,
    module: types.ModuleType | None = None,
    scenario: Scenario | None = None,
    real_time: bool = False,
    words: Words | None = None,
    record: str | None = None,
) -> None:
    """Play a scenario in a classroom, in virtual time; without others, scheduler and scenario are the lesson's.

    ``record`` is the path of a record to write.
    """

    async def main() -> None:
        began = asyncio.get_running_loop().time()
        notes: list[Say] = []  # the record's, while it is open

        def say(who: str, text: str) -> None:
            tell(asyncio.get_running_loop().time() - began, who, text)
            for note in notes:
                note(who, text)

        async with open_classroom(module or which.module("scheduler"), say, words=words) as room:
            with recording(room.plane, record) as note:
                notes.append(note)
                await (scenario or which.module("scenario").scenario)(room)
                notes.clear()

    if real_time:
        asyncio.run(main())
    else:
        run_virtual(main(), has_sockets=True)


# --------------------------------------------------------------------------------------------------------------------
# Which exercises a learner has solved: one small file in the home directory.


def place() -> Path:
    """Where it is kept: in $XDG_STATE_HOME, else in ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "mooring" / "course.json"


def solved() -> set[int]:
    """The lessons whose exercises are solved; a file that cannot be read counts for none."""
    try:
        found = json.loads(place().read_text(encoding="utf-8"))
        return {number for number in found["solved"] if isinstance(number, int)}
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return set()


def remember(number: int) -> None:
    """Note a solved exercise. If the home directory cannot be written, it is not remembered."""
    with contextlib.suppress(OSError, RuntimeError):
        target = place()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps({"solved": sorted(solved() | {number})}), encoding="utf-8")
