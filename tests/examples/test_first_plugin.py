"""The first example does what its README shows."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mooring.cli.main import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "01-first-plugin"


def transcripts() -> list[tuple[str, str]]:
    """(command, expected output) of every console block."""
    found = []
    for block in (EXAMPLE / "README.md").read_text().split("```console\n")[1:]:
        command, _, output = block.partition("```")[0].partition("\n")
        found.append((command.removeprefix("$ "), output))
    return found


@pytest.mark.parametrize(("command", "want"), transcripts(), ids=["refused without the label", "placed with it"])
def test_the_readme_is_true(
    command: str, want: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(EXAMPLE)
    code = run(shlex.split(command)[1:])
    assert capsys.readouterr().out == want
    assert code == (0 if "goes to" in want else 1)
