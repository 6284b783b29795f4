"""Every story of mooring prints what was recorded; ``pytest --rewrite`` records anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.sim.library import names

from .transcripts import Block, play, read, written

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
FILES = sorted(HERE.glob("*.txt"))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in FILES])
def test_a_transcript_is_what_the_commands_print(
    path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.chdir(REPOSITORY)
    played = [play(block.command) for block in read(path)]
    if pytestconfig.getoption("--rewrite"):
        path.write_text(written(played), encoding="utf-8")
    assert written(played) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", names())
def test_every_story_has_a_transcript(name: str) -> None:
    path = HERE / f"{name}.txt"
    assert path.exists(), f"write {path.name} with the command, a line of ---- and nothing, then pytest --rewrite"
    assert read(path)[0].command == f"mooring scenario run --virtual-time {name}"


def test_how_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    blocks = [Block("mooring one", "first\n\nthird\n"), Block("mooring two", "\n")]
    path.write_text(written(blocks))
    assert path.read_text() == "mooring one\n----\nfirst\n\nthird\n\nmooring two\n----\n\n"
    assert read(path) == blocks
    path.write_text("no command\n")
    with pytest.raises(ValueError, match="expected a command in the first line"):
        read(path)


def test_errors_and_exit_codes_are_part_of_it() -> None:
    assert play("mooring scenario show nothing-like-it").output.endswith("zone-spread\nexit code 2\n")
