"""A Python file that is not on the module path, run as a module; and the line in it where something went wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mooring.api.errors import PluginError
from mooring.core.config.plugin_loading import load_module, problem_in, split_reference

PREFIX = "mooring_test_source"


@pytest.fixture(autouse=True)
def forget_modules():
    yield
    for name in [name for name in sys.modules if name.startswith(PREFIX)]:
        del sys.modules[name]


def written(tmp_path: Path, text: str, name: str = "mine.py") -> str:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)


@pytest.mark.parametrize(
    ("reference", "want"),
    [
        ("file.py", ("file.py", "")),
        ("file.py:Class", ("file.py", "Class")),
        ("package.module:Class", ("package.module", "Class")),
        ("Name", ("Name", "")),
        ("c:/plugins/file.py", ("c:/plugins/file.py", "")),
        (":Class", ("", "Class")),
        ("module:", ("module", "")),
    ],
)
def test_a_reference_names_a_place_and_perhaps_a_class(reference: str, want: tuple[str, str]) -> None:
    assert split_reference(reference) == want


def test_a_file_becomes_a_module(tmp_path: Path) -> None:
    place = written(tmp_path, "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: 'int' = 3\n")
    module = load_module(place, PREFIX, "plugin")
    assert module.A().x == 3 and sys.modules[module.__name__] is module


def test_a_file_is_run_once_however_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = written(tmp_path, "seen = []\n")
    module = load_module(place, PREFIX, "plugin")
    monkeypatch.chdir(tmp_path)
    assert load_module("mine.py", PREFIX, "plugin") is module


def test_files_of_one_name_get_modules_of_their_own(tmp_path: Path) -> None:
    first, second = written(tmp_path, "x = 1\n", "a/mine.py"), written(tmp_path, "x = 2\n", "b/mine.py")
    assert [load_module(place, PREFIX, "plugin").x for place in (first, second)] == [1, 2]


def test_a_file_that_fails_leaves_no_module_behind_and_can_be_tried_again(tmp_path: Path) -> None:
    place = written(tmp_path, "1 / 0\n")
    with pytest.raises(PluginError):
        load_module(place, PREFIX, "plugin")
    assert not [name for name in sys.modules if name.startswith(PREFIX)]
    written(tmp_path, "x = 1\n")
    assert load_module(place, PREFIX, "plugin").x == 1


def test_what_ends_the_process_ends_it(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        load_module(written(tmp_path, "raise SystemExit(3)\n"), PREFIX, "plugin")
    assert not [name for name in sys.modules if name.startswith(PREFIX)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("x = 1\n\n1 / 0\n", "line 3: ZeroDivisionError: division by zero", id="at the top"),
        pytest.param("def f():\n    return 1 / 0\n\nf()\n", "line 2: ZeroDivisionError", id="in a function"),
        pytest.param("import json\njson.loads('x')\n", "line 2: JSONDecodeError", id="in code that the file calls"),
        pytest.param("class A(:\n", "line 1: invalid syntax", id="not Python"),
        pytest.param(
            "from mooring import sdk\nsdk.Traits(signed=True)\n",
            "line 2: Traits has no signed; did you mean signs?",
            id="an error of mooring's own needs no type",
        ),
    ],
)
def test_the_line_where_it_went_wrong(tmp_path: Path, text: str, problem: str) -> None:
    place = written(tmp_path, text)
    with pytest.raises(PluginError) as caught:
        load_module(place, PREFIX, "plugin mine")
    assert str(caught.value).startswith(f"plugin mine: {place}, {problem}")


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        pytest.param("gone.py", "plugin mine: there is no file gone.py", id="no file"),
        pytest.param("gone.module", "plugin mine: there is no module gone; is it installed?", id="no module"),
    ],
)
def test_a_place_where_nothing_is(place: str, problem: str) -> None:
    with pytest.raises(PluginError) as caught:
        load_module(place, PREFIX, "plugin mine")
    assert str(caught.value).startswith(problem)


def test_an_error_that_never_passed_through_the_file() -> None:
    assert problem_in(ValueError("odd"), "mine.py") == "mine.py: ValueError: odd"
