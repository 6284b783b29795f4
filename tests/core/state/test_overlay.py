"""A fork's nodes by name and by row: own entries over those of the parent, which stay as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.core.state.sharing import Overlay, OverlayList


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers()),
    st.lists(st.tuples(st.sampled_from(["set", "delete", "look", "count"]), st.sampled_from("abcde"), st.integers())),
)
def test_an_overlay_is_a_dictionary(below: dict[str, int], steps: list[tuple[str, str, int]]) -> None:
    overlay, model, before = Overlay(below), dict(below), dict(below)
    for action, key, value in steps:
        if action == "set":
            overlay[key] = model[key] = value
        elif action == "delete" and key in model:
            del overlay[key], model[key]
        elif action == "count":
            assert len(overlay) == len(model) and dict(overlay.items()) == model
        else:
            assert overlay.get(key) == model.get(key) and (key in overlay) == (key in model)
    assert list(overlay.items()) == list(model.items()) and list(overlay.values()) == list(model.values())
    assert below == before


def test_a_missing_entry_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Overlay[int]({})["a"]
    with pytest.raises(KeyError):
        del Overlay[int]({"a": 1})["b"]


def test_an_overlay_over_an_overlay() -> None:
    first = Overlay[int]({"a": 1, "b": 2})
    first["b"] = 3
    second = Overlay(first)
    second["c"] = 4
    del second["a"]
    assert dict(second) == {"b": 3, "c": 4} and dict(first) == {"a": 1, "b": 3}


def test_a_list_with_some_entries_replaced() -> None:
    below = ["a", "b", "c"]
    overlay = OverlayList(below)
    overlay[1] = "B"
    assert (overlay[1], overlay[2], len(overlay), list(overlay)) == ("B", "c", 3, ["a", "B", "c"])
    assert below == ["a", "b", "c"]
    with pytest.raises(IndexError):
        overlay[3]
