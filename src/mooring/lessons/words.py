"""What the course says, in three languages.

The code holds the English text; it is the key under which a catalogue holds the others. A text without an entry stays
English, so a learner's own scenario needs no catalogue.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path

from mooring.errors import UsageError

LANGUAGES = ("en", "ja", "zh")


class Words:
    """Texts in one language."""

    def __init__(self, language: str = "en") -> None:
        if language not in LANGUAGES:
            raise UsageError(f"--lang {language}: the course is written in {', '.join(LANGUAGES)}")
        self.language = language

    def __call__(self, text: str, /, **values: object) -> str:
        """Return a text in this language, with its ``{names}`` filled in."""
        found = _catalogue(self.language).get(text, text)
        return found.format(**values) if values else found


@functools.cache
def _catalogue(language: str) -> Mapping[str, str]:
    """English texts and what stands for them, from ``words_<language>.json``; none for English itself."""
    path = Path(__file__).with_name(f"words_{language}.json")
    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def language_of(environ: Mapping[str, str] = os.environ) -> str:
    """Return the course's language that the locale asks for, as programs look it up: LC_ALL, LC_MESSAGES, LANG."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environ.get(name):
            return value[:2] if value[:2] in LANGUAGES else "en"
    return "en"
