"""Columns that grow: readers get what is new, bounded, and in an order that they can use."""

from __future__ import annotations

import pytest

from mooring.show import timeline as columns
from mooring.show.timeline import ColumnTable, Texts, encode

from .decoding import decode


def tables() -> columns.Tables:
    names, rows = Texts(), ColumnTable(time="d", name="i", flag="B")
    for i in range(5):
        rows.add(i / 2, names.number(f"name-{i % 3}"), i % 2)
    return {"names": names, "rows": rows}


def test_a_new_reader_gets_everything():
    header, found = decode(encode(tables(), [0, 0], last="rows"))
    assert header["whole"]
    assert found["names"] == ["name-0", "name-1", "name-2"]
    assert found["rows"]["time"].tolist() == [0, 0.5, 1, 1.5, 2]
    assert found["rows"]["name"].tolist() == [0, 1, 2, 0, 1]


def test_a_reader_gets_only_what_is_new_to_it():
    _, found = decode(encode(tables(), [2, 4], last="rows"))
    assert found["names"] == ["name-2"]
    assert found["rows"]["time"].tolist() == [2]


def test_a_message_is_bounded_and_rows_come_after_what_they_refer_to(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columns, "MAX_ROWS", 2)
    all_tables, have, seen = tables(), [0, 0], []
    while True:
        header, found = decode(encode(all_tables, have, last="rows"))
        have = [have[0] + len(found["names"]), have[1] + len(found["rows"]["name"])]
        assert all(row < have[0] for row in found["rows"]["name"])
        assert max(len(found["names"]), len(found["rows"]["name"])) <= 2
        seen += found["rows"]["name"].tolist()
        if header["whole"]:
            break
    assert seen == [0, 1, 2, 0, 1]


def test_texts_are_numbered_once():
    texts = Texts()
    assert [texts.number(each) for each in ("a", "b", "a")] == [0, 1, 0]
