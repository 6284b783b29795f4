"""Answers are read as Go reads them, and what is wrong is said in Go's words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.core.framework.extender import ExtenderError
from mooring.net.extender import wire
from mooring.net.extender.go_json import FilterAnswer, MetaVictims


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
        pytest.param(b"{}", FilterAnswer(), id="nothing said"),
        pytest.param(b"null", FilterAnswer(), id="null"),
        pytest.param(b'{"nodenames":["a"],"FAILEDNODES":{"b":"x"}}', FilterAnswer(None, ["a"], {"b": "x"}), id="case"),
        pytest.param(b'{"NodeNames":["a"]} and more', FilterAnswer(None, ["a"]), id="what follows is skipped"),
        pytest.param(b'{"FailedNodes":{"a":null}}', FilterAnswer(failed={"a": ""}), id="null is an empty text"),
        pytest.param(b'{"NodeNames":[null]}', FilterAnswer(None, [""]), id="null is an empty name"),
        pytest.param(b'{"Nodes":{"Items":[{"a":1}]}}', FilterAnswer([b'{"a":1}']), id="items as they came"),
        pytest.param(b'{"Nodes":{"items":null}}', FilterAnswer([]), id="a list without items"),
        pytest.param(b'{"Nodes":null,"NodeNames":[]}', FilterAnswer(None, []), id="no names are not no answer"),
        pytest.param(b'{"other":{"Error":"x"}}', FilterAnswer(), id="unknown fields are skipped"),
    ],
)
def test_filter_answers(body: bytes, want: FilterAnswer) -> None:
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


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"{}", {}, id="nothing"),
        pytest.param(b"null", {}, id="null"),
        pytest.param(b'{"NodeNameToMetaVictims":null}', {}, id="no nodes"),
        pytest.param(
            b'{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"},{"uid":"v"}],"NumPDBViolations":2}}}',
            {"n": MetaVictims(("u", "v"), 2)},
            id="two pods",
        ),
        pytest.param(b'{"nodenametometavictims":{"n":null}}', {"n": MetaVictims((), 0)}, id="a node without pods"),
        pytest.param(
            b'{"NodeNameToMetaVictims":{"n":{"Pods":[null,{}]}}}', {"n": MetaVictims(("", ""), 0)}, id="no uids"
        ),
    ],
)
def test_preemption_answers(body: bytes, want: dict[str, MetaVictims]) -> None:
    assert wire.read_preemption_answer(body) == want


PATH = "NodeNameToMetaVictims"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"[]", "array into Go value of type v1.ExtenderPreemptionResult", id="a list"),
        pytest.param(
            b'{"NodeNameToMetaVictims":[]}',
            f"array into Go struct field ExtenderPreemptionResult.{PATH} of type map[string]*v1.MetaVictims",
            id="nodes as a list",
        ),
        pytest.param(
            b'{"NodeNameToMetaVictims":{"n":7}}',
            f"number into Go struct field ExtenderPreemptionResult.{PATH} of type v1.MetaVictims",
            id="a number of victims",
        ),
        pytest.param(
            b'{"NodeNameToMetaVictims":{"n":{"Pods":"u"}}}',
            f"string into Go struct field MetaVictims.{PATH}.Pods of type []*v1.MetaPod",
            id="one uid",
        ),
        pytest.param(
            b'{"NodeNameToMetaVictims":{"n":{"Pods":["u"]}}}',
            f"string into Go struct field MetaVictims.{PATH}.Pods of type v1.MetaPod",
            id="uids without objects",
        ),
        pytest.param(
            b'{"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":7}]}}}',
            f"number into Go struct field MetaPod.{PATH}.Pods.UID of type string",
            id="a number as uid",
        ),
        pytest.param(
            b'{"NodeNameToMetaVictims":{"n":{"NumPDBViolations":1.5}}}',
            f"number 1.5 into Go struct field MetaVictims.{PATH}.NumPDBViolations of type int64",
            id="half a violation",
        ),
    ],
)
def test_type_errors_of_preemption(body: bytes, said: str) -> None:
    with pytest.raises(ExtenderError) as caught:
        wire.read_preemption_answer(body)
    assert str(caught.value) == f"json: cannot unmarshal {said}"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(b"{}", "", id="nothing"),
        pytest.param(b"null", "", id="null"),
        pytest.param(b'{"Error":""}', "", id="no error"),
        pytest.param(b'{"error":"taken"}', "taken", id="an error"),
        pytest.param(b'{"Error":null}', "", id="null as an error"),
    ],
)
def test_binding_answers(body: bytes, error: str) -> None:
    assert wire.read_binding_answer(body) == error


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


READERS = (
    wire.read_filter_answer,
    wire.read_priorities,
    wire.read_preemption_answer,
    wire.read_binding_answer,
)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"[" * 100_000, "invalid character '[' exceeded max depth", id="deeper than Go goes"),
        pytest.param(b'{"x":' * 100_000, "invalid character '{' exceeded max depth", id="deeper with objects"),
        pytest.param(b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", "exceeded max depth", id="deeper than Python goes"),
        pytest.param(b"[" * 5000, "unexpected EOF", id="deep and cut"),
    ],
)
def test_deep_answers_are_an_error_and_nothing_worse(read: Callable[[bytes], object], body: bytes, said: str) -> None:
    with pytest.raises(ExtenderError) as caught:
        read(body)
    assert str(caught.value) == said


def test_numbers_without_end_are_read_or_named() -> None:
    digits = b"9" * 10_000
    assert wire.read_filter_answer(b'{"NodeNames":["a"],"other":' + digits + b"}").node_names == ["a"]
    with pytest.raises(ExtenderError, match="cannot unmarshal number 999"):
        wire.read_priorities(b'[{"Host":"a","Score":' + digits + b"}]")


@given(st.binary(max_size=60))
def test_no_answer_breaks_the_reader(body: bytes) -> None:
    for read in READERS:
        try:
            read(body)
        except ExtenderError as error:
            assert "\n" not in str(error)
