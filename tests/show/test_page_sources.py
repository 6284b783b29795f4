"""The page's sources: types hold, and every word that it says is there in three languages."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mooring.sim.library import find, names

SOURCES = Path(__file__).parents[2] / "ui" / "src"
LONGEST_LINE = 120
TEXTS = ("en.ts", "ja.ts", "zh.ts", "engine.ts")  # a text is one line, however long it is


def test_no_line_of_the_sources_is_long():
    """The types see to it that every message is there in three languages."""
    long = [
        f"{path.name}:{number}"
        for path in sorted(SOURCES.rglob("*.ts*"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > LONGEST_LINE and path.name not in TEXTS
    ]
    assert long == []


def test_every_message_is_used():
    """Messages that the page no longer uses are removed."""
    said = "".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.ts*"))
    keys = re.findall(r'^  "?([\w.]+)"?: ', (SOURCES / "messages" / "en.ts").read_text(encoding="utf-8"), re.MULTILINE)
    templates = set(re.findall(r"`([\w.]+\.)\$\{", said))
    unused = [key for key in keys if f'"{key}"' not in said and not any(key.startswith(each) for each in templates)]
    assert len(keys) > 150 and unused == []


def test_titles_of_all_stories_are_translated():
    known = (SOURCES / "messages" / "engine.ts").read_text(encoding="utf-8")
    assert [name for name in names() if f'"{find(name).title}"' not in known] == []


def test_types_hold(built_page: Path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the path; the page was built with another one")
    checker = built_page / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run([node, str(checker), "--noEmit"], cwd=built_page, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_units_in_typescript(built_page: Path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the path; the page was built with another one")
    run = [node, "tests/run.mjs"]
    done = subprocess.run(run, cwd=built_page, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_sources_are_formatted_and_clean(built_page: Path):
    checker = built_page / "node_modules" / ".bin" / "biome"
    if not checker.exists():
        pytest.skip("biome has no build for this machine")
    done = subprocess.run([str(checker), "check", "."], cwd=built_page, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lock_file_names_no_registry(built_page: Path):
    assert "http" not in re.sub(r'"(url|funding)": "[^"]*"', "", (built_page / "package-lock.json").read_text())
