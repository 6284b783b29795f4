"""What can be checked of docs/style.md: word budgets, and phrases that a reader would stumble over."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from .texts import REPOSITORY, outside_of_code

DOCS = REPOSITORY / "docs"
GENERATED = {
    *runpy.run_path(str(REPOSITORY / "scripts" / "docs_pages.py"))["PAGES"],
    "parity.md",
    "reference/formats.md",
}
PAGES = {
    str(page.relative_to(DOCS)): page.read_text(encoding="utf-8")
    for page in sorted(DOCS.rglob("*.md"))
    if not {"ja", "zh"} & set(page.parts)
}
WRITTEN = {name: text for name, text in PAGES.items() if name not in GENERATED}

TOTAL = 35_000  # words outside of code blocks, the course included
PAGE = 1_000
LARGER = {"performance.md": 1_900, "architecture/kept.md": 1_300, "learn/10-read-the-real-one.md": 1_100}
README = 700  # of all words, code blocks included

PHRASES = [
    r"\bwhoever\b",
    r"\bby lot\b",
    r"\bso many\b",
    r"\bin thought\b",
    r"\bhappenings\b",
    r"\b(?:lease back|back (?:its|the|a) lease)\b",
    r"\b(?:stands?|standing) still\b",
    r"\bis nobody'?s?\b",
    r"(?-i:\bWho (?:gives|stops|refuses|waits|wants|begins|looks|needs|asks|stays|goes)\b)",
    r"\btold that\b",
    r"\b(?:is|are|was|were) told\b",
    r"\bsomebody\b",
    r"(?-i:\b[Nn]obody\b)",
    r"\bcomes? again\b",
    r"\bgoes on\b",
    r"\bgiv(?:en?|es) back\b",
    r"\bwould be right\b",
    r"\bfor want of\b",
    r"\bas ever\b",
]
BANNED = re.compile("|".join(PHRASES), re.IGNORECASE)


def words(text: str) -> int:
    return len(outside_of_code(text).split())


def test_the_documentation_stays_within_its_budget() -> None:
    assert sum(map(words, WRITTEN.values())) <= TOTAL


def test_all_pages_together_stay_within_the_budget_without_their_tables() -> None:
    lines = (line for text in PAGES.values() for line in outside_of_code(text).splitlines() if line[:1] != "|")
    assert sum(len(line.split()) for line in lines) <= TOTAL


@pytest.mark.parametrize("name", WRITTEN)
def test_a_page_stays_within_its_budget(name: str) -> None:
    assert words(WRITTEN[name]) <= LARGER.get(name, PAGE)


def test_the_readme_can_be_read_in_a_minute_or_three() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").split()) <= README


TEXTS = [
    *(DOCS / name for name in WRITTEN if name != "style.md"),
    *sorted((REPOSITORY / "decisions").glob("*.md")),
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_text_has_none_of_the_phrases(path: Path) -> None:
    assert BANNED.findall(outside_of_code(path.read_text(encoding="utf-8"))) == []


GUIDES = [name for name in WRITTEN if "/" not in name or name.startswith(("extend/", "run/"))]
NOT_GUIDES = re.compile(r"index|glossary|style|run/security|why")


@pytest.mark.parametrize("name", [name for name in GUIDES if not NOT_GUIDES.search(name) or name == "run/index.md"])
def test_a_guide_begins_with_the_question_of_its_reader(name: str) -> None:
    title = WRITTEN[name].splitlines()[0]
    assert re.fullmatch(r"# .+\?", title), title


# The course's schedulers have texts of their own, which their explained differences quote.
SOURCES = [path for path in sorted((REPOSITORY / "src/mooring").rglob("*.py")) if "learn" not in path.parts]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_module_has_none_of_the_phrases(path: Path) -> None:
    assert BANNED.findall(path.read_text(encoding="utf-8")) == []
