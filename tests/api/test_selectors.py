"""Label selectors: nil selects nothing, empty everything, and each operator what upstream says."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.api.errors import ParseError
from mooring.api.meta import LabelSelector
from mooring.api.selectors import EVERYTHING, NOTHING, compile_selector, compile_set, parse_int64, requirement


def selector(**wire: Any) -> LabelSelector:
    pod = from_plain(
        Pod, {"spec": {"topologySpreadConstraints": [{"labelSelector": wire}]}}
    )  # the codec's way to a selector
    found = pod.spec.topology_spread_constraints[0].label_selector
    assert found is not None
    return found


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


WEB = {"app": "web", "tier": "front"}


@pytest.mark.parametrize(
    ("wire", "labels", "matches"),
    [
        pytest.param({}, WEB, True, id="empty matches everything"),
        pytest.param({}, {}, True, id="empty matches a pod without labels"),
        pytest.param({"matchLabels": {"app": "web"}}, WEB, True, id="equal label"),
        pytest.param({"matchLabels": {"app": "db"}}, WEB, False, id="other value"),
        pytest.param({"matchLabels": {"x": ""}}, WEB, False, id="an empty value is not a missing label"),
        pytest.param({"matchLabels": {"x": ""}}, {"x": ""}, True, id="an empty value matches an empty value"),
        pytest.param({"matchExpressions": [expression("app", "In", "db", "web")]}, WEB, True, id="In lists it"),
        pytest.param({"matchExpressions": [expression("x", "In", "web")]}, WEB, False, id="In needs the key"),
        pytest.param({"matchExpressions": [expression("app", "NotIn", "db")]}, WEB, True, id="NotIn another value"),
        pytest.param({"matchExpressions": [expression("app", "NotIn", "web")]}, WEB, False, id="NotIn this value"),
        pytest.param({"matchExpressions": [expression("x", "NotIn", "web")]}, WEB, True, id="NotIn holds without key"),
        pytest.param({"matchExpressions": [expression("app", "Exists")]}, WEB, True, id="Exists"),
        pytest.param({"matchExpressions": [expression("x", "Exists")]}, WEB, False, id="Exists needs the key"),
        pytest.param({"matchExpressions": [expression("x", "DoesNotExist")]}, WEB, True, id="DoesNotExist"),
        pytest.param({"matchExpressions": [expression("app", "DoesNotExist")]}, WEB, False, id="but it does"),
        pytest.param(
            {"matchLabels": {"app": "web"}, "matchExpressions": [expression("tier", "In", "back")]},
            WEB,
            False,
            id="all requirements must hold",
        ),
    ],
)
def test_matching(wire: dict[str, Any], labels: dict[str, str], matches: bool) -> None:
    assert compile_selector(selector(**wire)).matches(labels) is matches


def test_nil_matches_nothing() -> None:
    assert compile_selector(None) is NOTHING
    assert not NOTHING.matches({}) and not NOTHING.matches(WEB)
    assert not NOTHING.is_empty, "nothing is not the empty selector, which matches everything"


def test_empty_is_everything() -> None:
    assert compile_selector(selector()) == EVERYTHING and EVERYTHING.is_empty
    assert compile_set({}) == EVERYTHING


def test_equal_selectors_are_one_value_however_they_are_written() -> None:
    one = compile_selector(selector(matchLabels={"a": "1", "b": "2"}))
    other = compile_selector(selector(matchExpressions=[expression("b", "In", "2"), expression("a", "In", "1")]))
    assert one == other and hash(one) == hash(other)
    assert compile_selector(selector(matchExpressions=[expression("a", "In", "2", "1", "2")])) == compile_selector(
        selector(matchExpressions=[expression("a", "In", "1", "2")])
    )


def test_exact_pairs_are_what_every_match_carries() -> None:
    found = compile_selector(
        selector(matchLabels={"a": "1"}, matchExpressions=[expression("b", "In", "x", "y"), expression("c", "Exists")])
    )
    assert found.exact == (("a", "1"),)


def test_nothing_stays_nothing_when_it_is_narrowed() -> None:
    assert NOTHING.with_requirements(requirement("a", "Exists", [])) is NOTHING
    narrowed = EVERYTHING.with_requirements(requirement("a", "Exists", []))
    assert narrowed.matches({"a": ""}) and not narrowed.matches({})


@pytest.mark.parametrize(
    ("operator", "values", "node", "needle"),
    [
        pytest.param("Matches", ["x"], False, "not a valid label selector operator", id="unknown operator"),
        pytest.param("", [], False, "not a valid label selector operator", id="no operator"),
        pytest.param("Gt", ["1"], False, "not a valid label selector operator", id="Gt is for nodes only"),
        pytest.param("In", [], False, "values set can't be empty", id="In without values"),
        pytest.param("NotIn", [], False, "values set can't be empty", id="NotIn without values"),
        pytest.param("Exists", ["x"], False, "must be empty", id="Exists with values"),
        pytest.param("DoesNotExist", ["x"], False, "must be empty", id="DoesNotExist with values"),
        pytest.param("Gt", [], True, "exactly one value", id="Gt without a value"),
        pytest.param("Lt", ["1", "2"], True, "exactly one value", id="Lt with two values"),
        pytest.param("Gt", ["many"], True, "must be an integer", id="Gt with a word"),
        pytest.param("Gt", ["-1"], True, "a label value is expected", id="a number below zero is no label value"),
        pytest.param("In", ["x", "y" * 64], False, "a label value is expected", id="a value that no label can have"),
    ],
)
def test_what_the_api_refuses(operator: str, values: list[str], node: bool, needle: str) -> None:
    with pytest.raises(ParseError, match=needle):
        requirement("key", operator, values, node=node)


@pytest.mark.parametrize(
    ("operator", "operand", "value", "matches"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Gt", "5", "many", False),
        ("Gt", "5", None, False),
        ("Lt", "5", None, False),
        ("Gt", "5", "6.5", False),
        ("Gt", "9223372036854775806", "9223372036854775807", True),
        ("Gt", "1", "9223372036854775808", False),
        ("Gt", "5", "+6", True),
        ("Gt", "5", " 6", False),
    ],
)
def test_gt_and_lt_compare_int64s(operator: str, operand: str, value: str | None, matches: bool) -> None:
    assert requirement("n", operator, [operand], node=True).matches_value(value) is matches


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("-7", -7), ("+7", 7), ("007", 7), ("", None), ("-", None), ("1_0", None), ("٣", None), ("1e3", None),
     ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("-9223372036854775808", -(2**63))],
)  # fmt: skip
def test_parse_int64_reads_what_go_reads(text: str, value: int | None) -> None:
    assert parse_int64(text) == value
