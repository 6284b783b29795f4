"""Answers are read as Go reads them, and what is wrong is said in Go's words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.extender import wire
from mooring.extender.go_json import JsonSyntaxError, first_value_end
from mooring.framework.extender import ExtenderError


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


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"[]", "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult", id="a list"),
        pytest.param(
            b'"x"', "json: cannot unmarshal string into Go value of type v1.ExtenderFilterResult", id="a text"
        ),
        pytest.param(
            b'{"NodeNames":"a"}',
            "json: cannot unmarshal string into Go struct field ExtenderFilterResult.NodeNames of type []string",
            id="one name instead of a list",
        ),
        pytest.param(
            b'{"NodeNames":["a",1]}',
            "json: cannot unmarshal number into Go struct field ExtenderFilterResult.NodeNames of type string",
            id="a number among the names",
        ),
        pytest.param(
            b'{"FailedNodes":["a"]}',
            "json: cannot unmarshal array into Go struct field ExtenderFilterResult.FailedNodes of type "
            "v1.FailedNodesMap",
            id="failed nodes as a list",
        ),
        pytest.param(
            b'{"Error":{},"NodeNames":7}',
            "json: cannot unmarshal object into Go struct field ExtenderFilterResult.Error of type string",
            id="the first of two mistakes",
        ),
        pytest.param(
            b'{"Nodes":[]}',
            "json: cannot unmarshal array into Go struct field ExtenderFilterResult.Nodes of type v1.NodeList",
            id="nodes without a list around them",
        ),
    ],
)
def test_type_errors_of_a_filter(body: bytes, said: str) -> None:
    with pytest.raises(ExtenderError) as caught:
        wire.read_filter_answer(body)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"{}", wire.FilterAnswer(), id="nothing said"),
        pytest.param(b"null", wire.FilterAnswer(), id="null"),
        pytest.param(
            b'{"nodenames":["a"],"FAILEDNODES":{"b":"x"}}', wire.FilterAnswer(None, ["a"], {"b": "x"}), id="case"
        ),
        pytest.param(b'{"NodeNames":["a"]} and more', wire.FilterAnswer(None, ["a"]), id="what follows is skipped"),
        pytest.param(b'{"FailedNodes":{"a":null}}', wire.FilterAnswer(failed={"a": ""}), id="null is an empty text"),
        pytest.param(b'{"NodeNames":[null]}', wire.FilterAnswer(None, [""]), id="null is an empty name"),
        pytest.param(b'{"Nodes":{"Items":[{"a":1}]}}', wire.FilterAnswer([b'{"a":1}']), id="items as they came"),
        pytest.param(b'{"Nodes":{"items":null}}', wire.FilterAnswer([]), id="a list without items"),
        pytest.param(b'{"Nodes":null,"NodeNames":[]}', wire.FilterAnswer(None, []), id="no names are not no answer"),
        pytest.param(b'{"other":{"Error":"x"}}', wire.FilterAnswer(), id="unknown fields are skipped"),
    ],
)
def test_filter_answers(body: bytes, want: wire.FilterAnswer) -> None:
    assert wire.read_filter_answer(body) == want


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b'[{"Host":"a","Score":3}]', [("a", 3)], id="plain"),
        pytest.param(b'[{"host":"a","score":3}]', [("a", 3)], id="lower case"),
        pytest.param(b'[{"Host":"a"}]', [("a", 0)], id="no score is 0"),
        pytest.param(b"null", [], id="null"),
        pytest.param(b'[{"Host":"a","Score":-7},{"Host":"a","Score":1000}]', [("a", -7), ("a", 1000)], id="any number"),
    ],
)
def test_priorities(body: bytes, want: list[tuple[str, int]]) -> None:
    assert wire.read_priorities(body) == want


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(
            b'[{"Host":"a","Score":1.5}]',
            "json: cannot unmarshal number 1.5 into Go struct field HostPriority.Score of type int64",
            id="a fraction",
        ),
        pytest.param(
            b'[{"Host":"a","Score":"3"}]',
            "json: cannot unmarshal string into Go struct field HostPriority.Score of type int64",
            id="a text",
        ),
        pytest.param(
            b'[{"Host":"a","Score":9223372036854775808}]',
            "json: cannot unmarshal number 9223372036854775808 into Go struct field HostPriority.Score of type int64",
            id="too large",
        ),
        pytest.param(
            b'{"Host":"a"}',
            "json: cannot unmarshal object into Go value of type v1.HostPriorityList",
            id="an object",
        ),
        pytest.param(b'["a"]', "json: cannot unmarshal string into Go value of type v1.HostPriority", id="names"),
    ],
)
def test_type_errors_of_priorities(body: bytes, said: str) -> None:
    with pytest.raises(ExtenderError) as caught:
        wire.read_priorities(body)
    assert str(caught.value) == said


def test_requests_have_gos_names_and_nulls_in_gos_order() -> None:
    assert wire.args_with_names(b"{}", ["a"]) == b'{"Pod":{},"Nodes":null,"NodeNames":["a"]}'
    whole = b"".join(wire.args_with_nodes(b"{}", [b'{"x":1}', b'{"y":2}']))
    assert whole == b'{"Pod":{},"Nodes":{"metadata":{},"items":[{"x":1},{"y":2}]},"NodeNames":null}'
    assert wire.preemption_args(b"{}", uids={"n": (["u"], 1)}) == (
        b'{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}}'
    )
    assert wire.preemption_args(b"{}", victims={"n": ([b"{}"], 0)}) == (
        b'{"Pod":{},"NodeNameToVictims":{"n":{"Pods":[{}],"NumPDBViolations":0}},"NodeNameToMetaVictims":null}'
    )
    assert wire.binding_args("p", "d", "u", "n") == b'{"PodName":"p","PodNamespace":"d","PodUID":"u","Node":"n"}'


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


@given(st.binary(max_size=60))
def test_no_answer_breaks_the_reader(body: bytes) -> None:
    for read in (
        wire.read_filter_answer,
        wire.read_priorities,
        wire.read_preemption_answer,
        wire.read_binding_answer,
    ):
        try:
            read(body)
        except ExtenderError as error:
            assert "\n" not in str(error)
