"""What Go says about JSON that it cannot read, and where it stops reading."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.core.framework.extender import ExtenderError
from mooring.net.extender import wire
from mooring.net.extender.go_json import MAX_DEPTH, Float, JsonSyntaxError, first_value_end, go_kind


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"", "EOF", id="nothing"),
        pytest.param(b" \n", "EOF", id="only space"),
        pytest.param(b"{not json", "invalid character 'n' looking for beginning of object key string", id="bare key"),
        pytest.param(b"<html>", "invalid character '<' looking for beginning of value", id="a web page"),
        pytest.param(b'{"a"', "unexpected EOF", id="cut after a key"),
        pytest.param(b'{"a" 1}', "invalid character '1' after object key", id="no colon"),
        pytest.param(b'{"a":1 "b"}', "invalid character '\"' after object key:value pair", id="no comma"),
        pytest.param(b"[1 2]", "invalid character '2' after array element", id="no comma in a list"),
        pytest.param(b"tru ", "invalid character ' ' in literal true (expecting 'e')", id="half a literal"),
        pytest.param(b'"a\nb"', "invalid character '\\n' in string literal", id="a line break in a string"),
        pytest.param(b'"\\x"', "invalid character 'x' in string escape code", id="an unknown escape"),
        pytest.param(b'"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape", id="not hexadecimal"),
        pytest.param(b"-x", "invalid character 'x' in numeric literal", id="a sign without digits"),
        pytest.param(b"1.x", "invalid character 'x' after decimal point in numeric literal", id="no fraction"),
        pytest.param(b"1ex", "invalid character 'x' in exponent of numeric literal", id="no exponent"),
        pytest.param(b"{'a':1}", "invalid character '\\'' looking for beginning of object key string", id="quotes"),
        pytest.param(b"[NaN]", "invalid character 'N' looking for beginning of value", id="not a number"),
        pytest.param(b"[1,]", "invalid character ']' looking for beginning of value", id="a comma too many"),
    ],
)
def test_syntax_errors(body: bytes, said: str) -> None:
    with pytest.raises(ExtenderError) as caught:
        wire.read_filter_answer(body)
    assert str(caught.value) == said


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values, st.integers(0, 40))
def test_the_scanner_takes_what_is_json_and_nothing_that_is_cut(value: object, cut: int) -> None:
    text = json.dumps(value)
    assert first_value_end(text + " x") == len(text)
    if 0 < cut < len(text) and text[0] in '{["':
        with pytest.raises(JsonSyntaxError):
            first_value_end(text[:-cut])


@pytest.mark.parametrize(
    ("text", "end"),
    [
        pytest.param("{} and more", 2, id="an object"),
        pytest.param(" [1] ]", 4, id="a list after a space"),
        pytest.param("12 34", 2, id="a number"),
        pytest.param('"a\\"b" c', 6, id="a text with a quote in it"),
        pytest.param("nullnull", 4, id="a literal"),
        pytest.param("-0.5e+10,", 8, id="a number with everything"),
    ],
)
def test_where_the_first_value_ends(text: str, end: int) -> None:
    assert first_value_end(text) == end


@pytest.mark.parametrize(
    ("opening", "closing", "said"),
    [
        pytest.param("[", "]", "invalid character '[' exceeded max depth", id="lists"),
        pytest.param('{"a":', "}", "invalid character '{' exceeded max depth", id="objects"),
    ],
)
def test_depth_has_an_end(opening: str, closing: str, said: str) -> None:
    deepest = opening * MAX_DEPTH + "1" + closing * MAX_DEPTH
    assert first_value_end(deepest) == len(deepest)
    with pytest.raises(JsonSyntaxError) as caught:
        first_value_end(opening + deepest + closing)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("value", "kind"),
    [(True, "bool"), (1, "number"), (Float("1.5"), "number"), ("x", "string"), ([], "array"), ({}, "object")],
)
def test_what_type_errors_call_a_value(value: object, kind: str) -> None:
    assert go_kind(value) == kind
