"""The fragments of the changelog: towncrier finds every one of them and puts them together."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "changelog.d"
OTHER = {"README.md", "template.md.jinja"}
TYPES = {
    kind["directory"]: kind["name"]
    for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
}
FRAGMENTS = sorted(path for path in FOLDER.iterdir() if path.name not in OTHER)


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_one_sentence_of_a_known_type(path: Path) -> None:
    topic, kind, suffix = path.name.split(".")
    assert topic and suffix == "md"
    assert kind in TYPES
    text = path.read_text().strip()
    assert text and "\n" not in text
    assert text.endswith((".", ")")), "a sentence"


def test_every_fragment_comes_out_under_its_heading() -> None:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "2026-01-02"]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines = made.splitlines()
    assert lines[0] == "## 9.9.9 (2026-01-02)"
    found: dict[str, set[str]] = {}
    heading = ""
    for line in lines[1:]:
        if line.startswith("### "):
            heading = line.removeprefix("### ")
        elif line:
            found.setdefault(heading, set()).add(line.removeprefix("- "))
    want: dict[str, set[str]] = {}
    for path in FRAGMENTS:
        want.setdefault(TYPES[path.name.split(".")[1]], set()).add(path.read_text().strip())
    assert found == want
