"""One value, three renderings."""

from __future__ import annotations

import enum
import io
import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

from mooring.api.errors import InputError
from mooring.cli.output import console, emit, plain, print_facts, print_table, read_input, to_json
from mooring.cli.streams import say


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    colour: Colour


class Wire(msgspec.Struct, rename="camel"):
    node_name: str


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(Point(1, Colour.RED), {"x": 1, "colour": "red"}, id="a dataclass with an enum"),
        pytest.param(Wire("a"), {"nodeName": "a"}, id="a struct under its wire names"),
        pytest.param({Colour.RED: {2, 1}}, {"red": [1, 2]}, id="sets are sorted and keys are strings"),
        pytest.param((np.int64(3), np.array([1.5])), [3, [1.5]], id="NumPy values"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_plain(value: Any, want: Any) -> None:
    assert plain(value) == want


@pytest.mark.parametrize(
    ("output", "want"),
    [
        pytest.param("json", '{\n  "b": 1,\n  "a": "é"\n}\n', id="json keeps the order and the letters"),
        pytest.param("yaml", "b: 1\na: é\n", id="yaml keeps the order and the letters"),
        pytest.param("table", "drawn\n", id="a table is drawn by the command"),
    ],
)
def test_emit(output: str, want: str, capsys: pytest.CaptureFixture[str]) -> None:
    emit({"b": 1, "a": "é"}, output, lambda to: to.print("drawn"))
    assert capsys.readouterr().out == want


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


COMMANDS = "a\x1b]0;title\x07b\x1b[2Jc\x9b31md\x7f"  # a terminal would obey these


@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["into a file", "on a terminal"])
def test_what_a_cluster_says_cannot_command_the_terminal(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = stream(), stream()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    to = console()
    to.print("[bold red]ours[/]", markup=True)
    print_table(to, ["POD", "WHY"], [(Text(COMMANDS), COMMANDS), ("[x]", "y")])
    emit({COMMANDS: COMMANDS}, "json", lambda to: None)
    emit({COMMANDS: COMMANDS}, "yaml", lambda to: None)
    say(COMMANDS)
    said = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()) + err.getvalue()  # without our colours
    assert [c for c in said if not c.isprintable() and c != "\n"] == []
    assert "a\N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}b" in err.getvalue()


def test_a_line_of_progress_is_still_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    to = console()
    to.print("so\rfar", end="\r")
    assert to.file.getvalue() == "sofar\r"  # type: ignore[attr-defined]


def test_json_still_says_what_was_there() -> None:
    assert json.loads(to_json({"x": COMMANDS})) == {"x": COMMANDS}


def test_a_table_has_no_trailing_blanks_and_is_not_cut() -> None:
    to = Console(file=io.StringIO(), width=1_000_000)
    print_table(to, ("NAME", "WHY"), [("a", "x" * 300), ("long-name", "")])
    assert isinstance(to.file, io.StringIO)
    assert to.file.getvalue() == f"NAME        WHY\na           {'x' * 300}\nlong-name\n"


def test_a_file_that_is_not_there_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^/does/not/exist: no such file or directory$"):
        read_input("/does/not/exist")


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)


def lines_of(to: Console) -> list[str]:
    assert isinstance(to.file, io.StringIO)
    return [line.rstrip() for line in to.file.getvalue().splitlines()]


def test_columns_move_together_before_anything_is_folded() -> None:
    row = ("default/web-6c5f7d4-x2x9k", "unschedulable", "NodeResourcesFit")
    wide, narrow = terminal(80), terminal(58)
    for to in (wide, narrow):
        print_table(to, ("POD", "QUEUE", "REFUSED BY"), [row])
    assert lines_of(wide)[1] == "default/web-6c5f7d4-x2x9k   unschedulable   NodeResourcesFit"
    assert lines_of(narrow)[1] == "default/web-6c5f7d4-x2x9k  unschedulable  NodeResourcesFit"


def test_the_first_column_is_folded_last() -> None:
    to = terminal(40)
    print_table(to, ("POD", "WHY"), [("default/web-6c5f7d4-x2x9k", "there is no room for it")])
    first, second, *_ = lines_of(to)[1:]
    assert first.startswith("default/web-6c5f7d4-x2x9k  there is")
    assert second.startswith(" " * 25)


def test_facts_stand_side_by_side_and_fold_below_each_other() -> None:
    to = terminal(30)
    print_facts(to, {"Why": "there is no room for it on any node", "Empty": "", "Queue": "active"})
    assert lines_of(to) == [
        "  Why:    there is no room for",
        "          it on any node",
        "  Queue:  active",
    ]


def test_markup_in_facts_is_text() -> None:
    to = Console(file=io.StringIO(), width=1000)
    print_facts(to, {"Why": "[bold]no[/bold]"})
    assert lines_of(to) == ["  Why:  [bold]no[/bold]"]


def test_a_console_without_a_terminal_neither_colours_nor_wraps(capsys: pytest.CaptureFixture[str]) -> None:
    to = console()
    to.print("x" * 500, style="red")
    assert capsys.readouterr().out == "x" * 500 + "\n"
    console(stderr=True).print("aside")
    assert capsys.readouterr().err == "aside\n"


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    assert read_input("-") == b"\xff"
