"""Tables of plain text: quick where they can be, and the same as Rich prints them."""

from __future__ import annotations

import io
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mooring import text_tables
from mooring.text_tables import print_table, printed

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
