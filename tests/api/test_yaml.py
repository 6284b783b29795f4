"""YAML as kubectl reads and writes it."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import yaml
from mooring.api.errors import InputError


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2001-01-01", "2001-01-01", id="a date is a string"),
        pytest.param("12:30", "12:30", id="no base-60 numbers"),
        pytest.param("1e3", 1000.0, id="an exponent makes a number"),
        pytest.param("100m", "100m", id="a quantity is a string"),
        pytest.param("1_000", 1000, id="underscores"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("0o17", 15, id="octal"),
        pytest.param("017", 15, id="octal of old times"),
        pytest.param("0b101", 5, id="binary"),
        pytest.param("08", 8.0, id="no octal, but a float"),
        pytest.param("-0", 0, id="minus nothing"),
        pytest.param("+.5", 0.5, id="a bare fraction"),
        pytest.param("1.", 1.0, id="a bare point"),
        pytest.param("-.inf", -math.inf, id="infinity"),
        pytest.param("yes", True, id="yes is true"),
        pytest.param("Off", False, id="off is false"),
        pytest.param("n", False, id="n is false"),
        pytest.param("nO", "nO", id="mixed case is a string"),
        pytest.param("~", None, id="null"),
        pytest.param("", None, id="nothing"),
        pytest.param("'1'", "1", id="quotes make strings"),
        pytest.param("!!str 1", "1", id="a tag makes a string"),
        pytest.param("!!float 1", 1, id="a tag that agrees"),
        pytest.param("99999999999999999999", 1e20, id="what does not fit 64 bits is a float"),
        pytest.param("1" * 400, "1" * 400, id="what fits no float is a string"),
        pytest.param("0x", "0x", id="a prefix alone is a string"),
        pytest.param("+", "+", id="a sign alone is a string"),
    ],
)
def test_scalars(text: str, want: Any) -> None:
    assert yaml.load(f"a: {text}") == {"a": want}


def test_not_a_number() -> None:
    assert math.isnan(yaml.load("a: .nan")["a"])


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("yes: 1\n2: b\n1.5: c\n", {"true": 1, "2": "b", "1.5": "c"}, id="keys are strings"),
        pytest.param("a: &x {b: 1}\nc: *x\n", {"a": {"b": 1}, "c": {"b": 1}}, id="aliases"),
        pytest.param(
            "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}, id="merge"
        ),
        pytest.param('{"a": [1, "x", null, true]}', {"a": [1, "x", None, True]}, id="JSON"),
        pytest.param("{a: b}", {"a": "b"}, id="what looks like JSON but is YAML"),
        pytest.param("\ufeffa: 1", {"a": 1}, id="a byte order mark"),
        pytest.param("# nothing\n", None, id="only a comment"),
    ],
)
def test_documents(text: str, want: Any) -> None:
    assert yaml.load(text) == want
    assert yaml.load(text.encode()) == want


def test_empty_documents_are_left_out() -> None:
    assert yaml.load_all("---\na: 1\n---\n---\n# c\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


def test_an_alias_is_a_copy() -> None:
    value = yaml.load("a: &x [1]\nb: *x\n")
    value["a"].append(2)
    assert value["b"] == [1]


def test_keys_written_twice_are_noted_and_the_last_one_counts() -> None:
    [document] = yaml.load_documents("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    assert document.value == {"a": 3, "b": {"c": 2}}
    assert document.duplicates == ('line 2: key "c" already set in map', 'line 3: key "a" already set in map')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "a: [",
            "f: line 2, column 1: not valid YAML: while parsing a flow node, did not find expected node content",
            id="an open bracket",
        ),
        pytest.param(
            "a: b: c",
            "f: line 1, column 5: not valid YAML: mapping values are not allowed in this context",
            id="a colon too many",
        ),
        pytest.param(
            "a: *x", "f: line 1, column 4: unknown anchor 'x', or an alias inside what it refers to", id="no anchor"
        ),
        pytest.param(
            "a: &x [*x]", "f: line 1, column 8: unknown anchor 'x', or an alias inside what it refers to", id="a loop"
        ),
        pytest.param(
            "? [a]\n: b", "f: line 1, column 3: a key must be a string, found a collection", id="a list as key"
        ),
        pytest.param("~: b", "f: line 1, column 1: a key must be a string, found null", id="null as key"),
        pytest.param("!!int x", 'f: line 1, column 1: cannot read "x" as int', id="a tag that disagrees"),
        pytest.param(
            "<<: 3", "f: line 1, column 5: map merge requires map or sequence of maps as the value", id="a bad merge"
        ),
        pytest.param(
            "a: 1\n---\nb: 2", "f: line 3: a second document starts here; expected only one", id="two documents"
        ),
        pytest.param(
            "{a: " * 300, "f: line 1, column 801: nested too deeply; expected at most 200 levels", id="too deep"
        ),
    ],
)
def test_mistakes_are_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as e:
        yaml.load(text, "f")
    assert str(e.value) == message


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(InputError, match=r"^f: not UTF-8 text \(byte 3\); expected YAML or JSON$"):
        yaml.load(b"a: \xff", "f")


def test_a_compressed_file_is_named_as_such() -> None:
    with pytest.raises(InputError, match=r"^f: compressed with gzip; expected YAML or JSON: decompress it first$"):
        yaml.load(gzip.compress(b"a: 1"), "f")


def test_depth_does_not_take_the_process_down() -> None:
    for text in ("[" * 200_000, "- " * 200_000, "a: " + "[" * 200_000):
        with pytest.raises(InputError, match="nested too deeply"):
            yaml.load(text)


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        pytest.param("[" * 200 + "]" * 200, True, id="200 levels of JSON"),
        pytest.param("[" * 201 + "]" * 201, False, id="201 levels of JSON"),
        pytest.param('{"a":' * 900 + "1" + "}" * 900, False, id="JSON that Python would still read"),
        pytest.param("a: " + "[" * 199 + "]" * 199, True, id="200 levels of YAML"),
        pytest.param("a: " + "[" * 200 + "]" * 200, False, id="201 levels of YAML"),
        pytest.param(
            "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 199)),
            True,
            id="200 levels by aliases",
        ),
        pytest.param(
            "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 200)),
            False,
            id="201 levels by aliases",
        ),
        pytest.param(
            "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{b: *a{i - 1}}}\n" for i in range(1, 5000)),
            False,
            id="thousands of levels by aliases",
        ),
        pytest.param("a: &a [[[x]]]\nb: " + "[" * 197 + "*a" + "]" * 197, False, id="an alias at the bottom"),
        pytest.param("a: &a [[[x]]]\nb: " + "[" * 196 + "*a" + "]" * 196, True, id="an alias just above the bottom"),
    ],
)
def test_depth_is_the_same_however_it_is_written(text: str, is_allowed: bool) -> None:
    with contextlib.nullcontext() if is_allowed else pytest.raises(InputError, match="nested too deeply"):
        yaml.load(text)


def test_half_a_character_is_refused() -> None:
    assert yaml.load(r'{"a": "\ud83d\ude00"}') == {"a": "😀"}
    with pytest.raises(InputError, match="line 1, column 10: not valid YAML"):
        yaml.load(r'{"a": "\ud83d"}')


def test_a_merge_that_doubles_is_refused() -> None:
    text = "a0: &a0 {x: 1}\n"
    text += "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40))
    with pytest.raises(InputError, match="aliases make this document too large"):
        yaml.load(text)


def test_aliases_cannot_blow_a_document_up() -> None:
    levels = "abcdefghi"
    text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for below, level in itertools.pairwise(levels):
        text += f"{level}: &{level} [{', '.join([f'*{below}'] * 10)}]\n"
    with pytest.raises(InputError, match="aliases make this document too large"):
        yaml.load(text)


def test_dump_looks_like_kubectl() -> None:
    value = {"b": ["x", {"z": 1}], "a": "", "n": "yes", "e": {}, "l": [], "t": "1e3", "m": "two\nlines\n", "f": 1.5}
    assert yaml.dump(value) == (
        'a: ""\nb:\n- x\n- z: 1\ne: {}\nf: 1.5\nl: []\nm: |\n  two\n  lines\n"n": "yes"\nt: "1e3"\n'
    )


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff\ufffe\uffff"))
    | st.sampled_from(
        ["yes", "n", "~", "null", "1e3", "0x1", "012", "<<", "2001-01-01", "12:30", "-", "", " a ", "a: b"]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abyn01.~<", max_size=5), inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1), _values, max_size=4))
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    documents = yaml.load_all(yaml.dump(value))
    assert documents == [value]


# ---- lines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        pytest.param("a: 1\nb: 2\n", ("b",), 2, id="a field"),
        pytest.param("a:\n- x\n- y: 1\n  z: 2\n", ("a", 1, "z"), 4, id="a field of a list entry"),
        pytest.param("a:\n- x\n-\n  y: 1\n", ("a", 1), 4, id="an entry begins with its value"),
        pytest.param("a: {b: 1,\n  c: 2}\n", ("a", "c"), 2, id="flow style"),
        pytest.param('{"a": 1,\n\t"b": [1,\n 2]}', ("b", 1), 3, id="JSON"),
    ],
)
def test_lines_of_fields(text: str, path: tuple[str | int, ...], line: int) -> None:
    (document,) = yaml.load_documents(text, lines=True)
    assert document.lines is not None
    assert document.lines[path] == line
    assert yaml.load_documents(text)[0].lines is None


def test_every_document_has_its_own_lines() -> None:
    first, second = yaml.load_documents("a: 1\n---\nb: &x {c: 1}\nd: *x\n", lines=True)
    assert first.lines == {("a",): 1}
    assert second.lines == {("b",): 3, ("b", "c"): 3, ("d",): 4}
