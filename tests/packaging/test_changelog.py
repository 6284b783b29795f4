"""CHANGELOG.md and its fragments: towncrier puts a release above the earlier ones; a release copies its section."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "changelog.d"
OTHER = {"README.md", "template.md.jinja"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TYPES = {kind["directory"]: kind["name"] for kind in PROJECT["tool"]["towncrier"]["type"]}


def test_a_fragment_is_one_sentence_of_a_known_type() -> None:
    for path in sorted(FOLDER.iterdir()):
        if path.name in OTHER:
            continue
        topic, kind, suffix = path.name.split(".")
        assert topic and suffix == "md", path.name
        assert kind in TYPES, path.name
        text = path.read_text().strip()
        assert text and "\n" not in text, path.name
        assert text.endswith((".", ")")), path.name


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "changelog.d").mkdir()
    shutil.copy(FOLDER / "template.md.jinja", tmp_path / "changelog.d")
    return tmp_path


def test_a_new_release_goes_above_the_earlier_ones(project: Path) -> None:
    for kind, name in TYPES.items():
        (project / "changelog.d" / f"topic.{kind}.md").write_text(f"One thing was {name.lower()}.\n")
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", "9.9.9", "--date", "2026-01-02"]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    text = (project / "CHANGELOG.md").read_text()
    made = text[text.index("## 9.9.9") : text.index("## 0.1.0")]
    want = "".join(f"### {name}\n\n- One thing was {name.lower()}.\n\n" for _, name in sorted(TYPES.items()))
    assert "".join(made.split()) == "".join(f"## 9.9.9 (2026-01-02) {want}".split())


def test_the_changelog_has_a_section_for_this_version() -> None:
    """``scripts/release`` copies it to ``dist/CHANGES.md``."""
    version = PROJECT["project"]["version"]
    command = next(line for line in (ROOT / "scripts/release").read_text().splitlines() if line.startswith("awk"))
    script = f"version={version}\n" + command.replace("> dist/CHANGES.md", "")
    made = subprocess.run(["bash", "-c", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    headings = [line for line in made.splitlines() if line.startswith("## ")]
    assert len(headings) == 1
    assert headings[0].startswith(f"## {version} (")
    assert "### Added" in made
