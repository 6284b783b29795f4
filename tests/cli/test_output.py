"""One value, three renderings."""

from __future__ import annotations

import enum
import io
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from rich.console import Console

from mooring.cli.output import emit, plain, print_table, read_input
from mooring.errors import InputError


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


def test_a_table_has_no_trailing_blanks_and_is_not_cut() -> None:
    to = Console(file=io.StringIO(), width=1_000_000)
    print_table(to, ("NAME", "WHY"), [("a", "x" * 300), ("long-name", "")])
    assert isinstance(to.file, io.StringIO)
    assert to.file.getvalue() == f"NAME        WHY\na           {'x' * 300}\nlong-name\n"


def test_a_file_that_is_not_there_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^/does/not/exist: no such file or directory$"):
        read_input("/does/not/exist")
