"""The place in a plugin's code where something went wrong."""

from __future__ import annotations

import json

from mooring.core.framework.cycle_state import place_of


def fail_inside_a_library() -> None:
    json.loads("{")


def raised(function) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_the_line_of_the_plugin_is_named_not_that_of_the_library_it_calls():
    line = fail_inside_a_library.__code__.co_firstlineno + 1
    assert place_of(raised(fail_inside_a_library), {__name__}) == f" (test_traces.py:{line})"


def test_without_a_running_plugin_there_is_no_place():
    assert place_of(raised(fail_inside_a_library), {"another_plugin"}) == ""
    assert place_of(ValueError("raised nowhere"), {__name__}) == ""
