"""Tables of plain text: quick where they can be, and the same as Rich prints them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from mooring.api import tables as text_tables
from mooring.api.tables import print_table, printed

CELLS = st.one_of(st.text("ab:[]/\\ 1", max_size=6), st.text(max_size=4), st.sampled_from(["", "web-1", "[b]x", ":x:"]))


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
def test_plain_tables_are_those_of_rich(rows: list[tuple[str, str]]) -> None:
    def draw(to: Console) -> None:
        print_table(to, ["NAME", "WHY"], rows)

    found = printed(draw)
    with patch.object(text_tables, "_lines", return_value=None):
        assert printed(draw) == found


@pytest.mark.parametrize("rows", [[], [("a", "1"), ("bb", "22")]], ids=["no rows", "two rows"])
def test_on_a_terminal_the_heading_is_bold_and_columns_are_aligned(rows: list[tuple[str, str]]) -> None:
    page = io.StringIO()
    print_table(Console(file=page, force_terminal=True, width=40, color_system="standard"), ["NAME", "WHY"], rows)
    assert page.getvalue() == "".join(["\x1b[1mNAME   WHY\x1b[0m\n", *["a      1\n", "bb     22\n"][: len(rows)]])


@pytest.mark.parametrize("width", [20, 1_000_000], ids=["narrow", "wide"])
def test_brackets_and_colons_are_text(width: int) -> None:
    page = io.StringIO()
    rows = [("p[/x]", "[red]1 node(s)"), ("a:pill:b", "é")]
    print_table(Console(file=page, width=width, emoji=False), ["NAME", "[b]"], rows)
    shown = " ".join(page.getvalue().split())
    assert shown.startswith("NAME [b] p[/x] [red]1 node(s) a:pill:b é")


def narrow(width: int, columns: list[str], *rows: tuple[str, ...]) -> list[str]:
    page = io.StringIO()
    print_table(Console(file=page, force_terminal=True, width=width, color_system=None), columns, rows)
    return page.getvalue().splitlines()


WHY = "0/11 nodes are available: 11 Insufficient cpu, which is a long story to tell"


def test_a_long_text_without_room_comes_below_its_row() -> None:
    rows = [("default/web-184", "unschedulable", "4m5s", WHY), ("default/web-185", "active", "1s", "")]
    assert narrow(60, ["POD", "QUEUE", "SINCE", "WHY"], *rows) == [
        "POD              QUEUE          SINCE",
        "  WHY",
        "default/web-184  unschedulable  4m5s",
        "  0/11 nodes are available: 11 Insufficient cpu, which is a",
        "  long story to tell",
        "default/web-185  active         1s",
    ]


def test_a_long_text_that_has_some_room_stays_in_its_row() -> None:
    assert narrow(60, ["NODES", "WHY"], ("11", WHY)) == [
        "NODES  WHY",
        "11     0/11 nodes are available: 11 Insufficient cpu, which",
        "       is a long story to tell",
    ]


def test_long_names_leave_room_for_the_other_columns() -> None:
    rows = [("default/" + "a-very-long-name-" * 4, "unschedulable", "NodeResourcesFit and others")]
    assert narrow(60, ["POD", "QUEUE", "BY"], *rows) == [
        "POD                             QUEUE          BY",
        "default/a-very-long-name-a-ver  unschedulable  NodeResources",
        "y-long-name-a-very-long-name-a                 Fit and",
        "-very-long-name-                               others",
    ]


@settings(max_examples=100, deadline=None)
@given(
    width=st.integers(26, 100),
    rows=st.lists(st.tuples(*[st.text("ab -/é漢1", max_size=90)] * 3), min_size=1, max_size=4),
)
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(width: int, rows: list[tuple[str, ...]]) -> None:
    lines = narrow(width, ["NAME", "KIND", "WHY"], *rows)
    assert all(cell_len(line) <= width for line in lines)

    def letters(texts: Iterable[str]) -> list[str]:
        return sorted("".join("".join(texts).split()))

    assert letters(lines) == letters(["NAME", "KIND", "WHY", *(cell for row in rows for cell in row)])


def test_a_heading_of_several_lines_is_as_wide_as_its_longest() -> None:
    page = io.StringIO()
    columns = ["NODE", "TOTAL", "Taint\nToleration", "Node\nResources\nBalanced\nAllocation"]
    to = Console(file=page, force_terminal=True, width=50, color_system=None)
    print_table(to, columns, [("worker-4", "413", "300", "72")])
    lines = [line.split() for line in page.getvalue().splitlines()]
    assert lines[-2:] == [["NODE", "TOTAL", "Toleration", "Allocation"], ["worker-4", "413", "300", "72"]]


def test_a_text_of_medium_length_is_folded_in_its_row() -> None:
    rows = [
        ("4", "node(s) didn't match Pod's node affinity/selector", "NodeAffinity", "w-1, w-2, w-3, w-4, w-5, w-6, w-7")
    ]
    assert narrow(80, ["NODES", "REFUSED BECAUSE", "PLUGIN", "WHICH"], *rows)[0].split()[-1] == "WHICH"
