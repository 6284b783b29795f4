"""``mooring learn N --ui``: a lesson, played first, then told step by step on the page."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.lessons.course import Lesson
    from mooring.lessons.words import Words


def show_lesson(which: Lesson, words: Words, options: dict[str, Any]) -> None:
    """Play a lesson and serve its page until Ctrl-C; ``options`` are those of the play."""
    from mooring.cli.page_stories import BuiltInStories
    from mooring.cli.ui import serve_until_interrupted
    from mooring.lessons.course import play
    from mooring.ui.bundle import page_files
    from mooring.ui.shown import Shown
    from mooring.ui.source import RecordFile

    page_files()  # before anything is played
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        path = options["record"] or str(Path(folder) / "lesson.mooring")
        play(which, lambda at_s, who, text: None, **{**options, "record": path})
        title = words("Lesson {number}: {title}", number=which.number, title=words(which.title))
        shown = Shown(title, RecordFile(path), guide=f"learn {which.number}")
        shown.refresh()
        asyncio.run(serve_until_interrupted([shown], stories=BuiltInStories()))
