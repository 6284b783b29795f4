"""What is found in answers: problems that a scheduler has with them, and warnings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.net.extender.conformance import (
    Check,
    check_filter,
    check_preemption,
    check_scores,
    node_names,
    odd_spellings,
    says_error,
)
from mooring.net.extender.http_client import ExtenderReply

OFFERED = ["a", "b"]


def reply(value: Any, status: int = 200) -> ExtenderReply:
    return ExtenderReply(status, value if isinstance(value, bytes) else json.dumps(value).encode())


def nodes(*names: str) -> dict[str, Any]:
    return {"Nodes": {"items": [{"metadata": {"name": name}} for name in names]}}


@pytest.mark.parametrize(
    ("answer", "by_name", "problem"),
    [
        pytest.param({"NodeNames": ["a", "b"]}, True, "", id="all names"),
        pytest.param({"NodeNames": [], "FailedNodes": {"a": "x", "b": "y"}}, True, "", id="none, with reasons"),
        pytest.param(nodes("a", "b"), False, "", id="all nodes"),
        pytest.param(reply({}, 500), True, "status 500: a scheduler reads only answers with 200", id="another status"),
        pytest.param(b"oops", True, "a scheduler would say: invalid character 'o'", id="not JSON"),
        pytest.param([], True, "a scheduler would say: json: cannot unmarshal array", id="another type"),
        pytest.param({"Error": "unhappy"}, True, "Error: unhappy", id="an error"),
        pytest.param({}, True, "answers with neither NodeNames nor Nodes", id="nothing"),
        pytest.param({}, False, "answers with no Nodes, so that no node is kept", id="no nodes"),
        pytest.param({"NodeNames": ["a"]}, False, "answers with NodeNames only", id="names where nodes were sent"),
        pytest.param({"NodeNames": ["c"]}, True, "keeps 'c', which was not offered", id="a stranger"),
        pytest.param(nodes("c"), False, "keeps 'c', which was not offered", id="a strange node"),
        pytest.param({"NodeNames": ["a", "a"]}, True, "keeps a node twice", id="one twice"),
    ],
)
def test_problems_of_a_filter(answer: Any, by_name: bool, problem: str) -> None:
    check = Check("x")
    check_filter(check, answer if isinstance(answer, ExtenderReply) else reply(answer), OFFERED, by_name=by_name)
    assert check.passed is not bool(problem)
    assert [found.startswith(problem) for found in check.problems] == ([True] if problem else [])


@pytest.mark.parametrize(
    ("answer", "by_name", "warning"),
    [
        pytest.param({"NodeNames": ["a"]}, True, "1 of 2 nodes are dropped without a reason", id="no reason"),
        pytest.param(nodes("a", "b"), True, "answers with Nodes where names were sent", id="nodes for names"),
        pytest.param(
            {"NodeNames": ["a", "b"], "FailedNodes": {"z": ""}}, True, "gives a reason for 'z'", id="a strange reason"
        ),
        pytest.param(
            {"NodeNames": ["a"], "FailedNodes": {"b": ""}, "FailedAndUnresolvableNodes": {"b": ""}},
            True,
            "'b' is in FailedNodes and FailedAndUnresolvableNodes",
            id="refused twice",
        ),
        pytest.param(
            {"NodeNames": ["a", "b"], "FailedNodes": {"b": ""}}, True, "'b' is kept and refused", id="kept and refused"
        ),
        pytest.param({"nodenames": ["a", "b"]}, True, "field 'nodenames': 'NodeNames' is its name", id="its spelling"),
    ],
)
def test_warnings_of_a_filter(answer: Any, by_name: bool, warning: str) -> None:
    check = Check("x")
    check_filter(check, reply(answer), OFFERED, by_name=by_name)
    assert check.passed and len(check.warnings) == 1 and check.warnings[0].startswith(warning)


def scores(*pairs: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"Host": host, "Score": score} for host, score in pairs]


@pytest.mark.parametrize(
    ("answer", "problems", "warnings"),
    [
        pytest.param(scores(("a", 0), ("b", 10)), [], [], id="from 0 to 10"),
        pytest.param(scores(("a", 11), ("b", 1)), [], ["a gets 11; scores go from 0 to 10"], id="too many"),
        pytest.param(scores(("a", -1), ("b", 1)), [], ["a gets -1; scores go"], id="too few"),
        pytest.param(scores(("a", 1)), [], ["1 of 2 nodes get no score"], id="not all"),
        pytest.param(scores(("a", 1), ("b", 1), ("c", 1)), [], ["scores 'c', which was not offered"], id="a stranger"),
        pytest.param(scores(("a", 1), ("b", 1), ("a", 2)), ["scores a node twice"], [], id="one twice"),
        pytest.param(reply([], 404), ["status 404: a scheduler then continues"], [], id="another status"),
        pytest.param({"a": 1}, ["a scheduler would say: json: cannot unmarshal object"], [], id="a mapping"),
        pytest.param([{"Host": "a", "Score": 1.5}], ["a scheduler would say: json: cannot"], [], id="a fraction"),
    ],
)
def test_scores(answer: Any, problems: list[str], warnings: list[str]) -> None:
    check = Check("x")
    check_scores(check, answer if isinstance(answer, ExtenderReply) else reply(answer), OFFERED)
    for found, wanted in ((check.problems, problems), (check.warnings, warnings)):
        assert len(found) == len(wanted) and all(map(str.startswith, found, wanted)), found


def victims(**uids: list[str]) -> dict[str, Any]:
    return {"NodeNameToMetaVictims": {node: {"Pods": [{"UID": uid} for uid in found]} for node, found in uids.items()}}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(victims(a=["u"]), "", id="one node"),
        pytest.param(victims(), "", id="no node"),
        pytest.param(victims(z=["u"]), "answers with 'z', which was not offered", id="a stranger"),
        pytest.param(victims(a=[]), "leaves a without victims", id="none"),
        pytest.param(reply({}, 500), "status 500: preemption then fails", id="another status"),
        pytest.param([], "a scheduler would say: json: cannot unmarshal array", id="another type"),
    ],
)
def test_preemption(answer: Any, problem: str) -> None:
    check = Check("x")
    check_preemption(check, answer if isinstance(answer, ExtenderReply) else reply(answer), OFFERED)
    assert [found.startswith(problem) for found in check.problems] == ([True] if problem else [])


@pytest.mark.parametrize(
    ("body", "odd"),
    [
        pytest.param(b'{"Host":1}', [], id="its name"),
        pytest.param(b'[{"host":1},{"HOST":2}]', ["HOST", "host"], id="two spellings in a list"),
        pytest.param(b'{"other":1}', [], id="another field"),
        pytest.param(b'["host"]', [], id="no object"),
        pytest.param(b"oops", [], id="not JSON"),
    ],
)
def test_spellings(body: bytes, odd: list[str]) -> None:
    assert odd_spellings(body, ("Host",)) == [f"field {key!r}: 'Host' is its name" for key in odd]


@pytest.mark.parametrize(
    ("body", "does"),
    [(b'{"Error":"x"}', True), (b'{"error":"x"}', True), (b'{"Error":""}', False), (b"[]", False), (b"oops", True)],
)
def test_whether_an_answer_says_that_it_is_none(body: bytes, does: bool) -> None:
    assert says_error(body) is does


def test_names_of_nodes() -> None:
    assert node_names([b'{"metadata":{"name":"a"}}', b"{}", b"null", b'{"metadata":null}']) == ["a", "", "", ""]
