"""The page's sources: types hold, and every word that it says is there in three languages."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "ui" / "src"
SAID = re.compile(r'\bsay\("([^"]+)"')
TITLES = re.compile(r'title: "([A-Z]\w+)", learn')
NAMED = re.compile(r'\bname: "([a-z ]+)", (?:unit|colour)')
TABLE = re.compile(r'(?:"((?:[^"\\]|\\.)+)"|\b(\w+)):\s+"')
UNTRANSLATED = {"cpu", "memory"}  # names of the API


def words(language: str) -> set[str]:
    text = (SOURCES / "words.ts").read_text(encoding="utf-8")
    table = text.split(f"const {language}: ")[1].split("\n};")[0]
    return {quoted or plain for quoted, plain in TABLE.findall(table)}


def said() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.glob("*.tsx")]
    found = {word for text in texts for pattern in (SAID, TITLES, NAMED) for word in pattern.findall(text)}
    return found - UNTRANSLATED


@pytest.mark.parametrize("language", ["JA", "ZH"])
def test_every_word_is_translated(language: str):
    assert len(said()) > 80
    assert said() - words(language) == set()


def test_both_languages_have_the_same_words():
    assert words("JA") == words("ZH")


def test_types_hold(built_page: Path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the path; the page was built with another one")
    checker = built_page / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run([node, str(checker), "--noEmit"], cwd=built_page, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_sources_are_formatted_and_clean(built_page: Path):
    checker = built_page / "node_modules" / ".bin" / "biome"
    if not checker.exists():
        pytest.skip("biome has no build for this machine")
    done = subprocess.run([str(checker), "check", "."], cwd=built_page, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lock_file_names_no_registry(built_page: Path):
    assert "http" not in re.sub(r'"(url|funding)": "[^"]*"', "", (built_page / "package-lock.json").read_text())
