"""What the page can play: the stories and the lessons that come with mooring."""

from __future__ import annotations

import tempfile
from pathlib import Path

from mooring.errors import InputError
from mooring.lessons.course import lesson, play
from mooring.lessons.words import Words
from mooring.sim.library import find, names
from mooring.ui.shown import Shown
from mooring.ui.source import RecordBytes
from mooring.ui.story import played

LESSONS = {f"lesson-{number}": number for number in range(1, 8)}


class BuiltInStories:
    """Plays each in virtual time, in a cluster of its own."""

    def titles(self, language: str) -> dict[str, str]:
        lessons = {name: lesson_title(number, language) for name, number in LESSONS.items()}
        return {name: find(name).title or name for name in names()} | lessons

    def play(self, name: str, language: str) -> Shown:
        if name in LESSONS:
            return _lesson(LESSONS[name], language)
        if name not in names():  # nothing that somebody names is read from the disk
            raise InputError(f"no story {name!r}; expected one of {', '.join((*names(), *LESSONS))}")
        return played(find(name))


def lesson_title(number: int, language: str) -> str:
    words = Words(language)
    return words("Lesson {number}: {title}", number=number, title=words(lesson(number).title))


def _lesson(number: int, language: str) -> Shown:
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        path = Path(folder) / "lesson.mooring"
        play(lesson(number), lambda at_s, who, text: None, record=str(path), words=Words(language))
        source = RecordBytes(path.read_bytes())
    shown = Shown(lesson_title(number, language), source, guide=f"learn {number}")
    shown.refresh()
    return shown
