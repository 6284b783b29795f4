"""Kubernetes' CEL functions, called as the CEL library calls them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.plugins.devices.cel_functions import CelBudget, CelFunctionError, Encoded, encode_version, functions


def call(name: str, *arguments: Any, types: str = "", budget: CelBudget | None = None) -> Any:
    """Call the overload with these parameter types, or the first one with as many parameters."""
    for each in functions(budget or CelBudget()):
        fits = " ".join(each.parameters) == types if types else len(each.parameters) == len(arguments)
        if each.name == name and fits:
            return each.call(*arguments)
    raise AssertionError(f"no {name}({types or len(arguments)})")


def quantity(text: str) -> Encoded:
    found: Encoded = call("quantity", text)
    return found


@pytest.mark.parametrize(
    ("name", "arguments", "want"),
    [
        pytest.param("compareTo", (quantity("1Gi"), quantity("1024Mi")), 0, id="equal quantities"),
        pytest.param("compareTo", (quantity("1"), quantity("1500m")), -1, id="a fraction is more"),
        pytest.param("isLessThan", (quantity("1"), quantity("2")), True, id="less"),
        pytest.param("isGreaterThan", (quantity("1"), quantity("2")), False, id="not greater"),
        pytest.param("sign", (quantity("-1m"),), -1, id="a sign"),
        pytest.param("isInteger", (quantity("1500m"),), False, id="no integer"),
        pytest.param("isInteger", (quantity("9223372036854775808"),), False, id="an integer that is too large"),
        pytest.param("asInteger", (quantity("2k"),), 2000, id="as an integer"),
        pytest.param("asApproximateFloat", (quantity("1500m"),), 1.5, id="as a float"),
        pytest.param("add", (quantity("1"), quantity("500m")), quantity("1500m"), id="a sum"),
        pytest.param("sub", (quantity("1"), quantity("500m")), quantity("500m"), id="a difference"),
        pytest.param("isQuantity", ("1.5Gi",), True, id="a quantity"),
        pytest.param("isQuantity", ("much",), False, id="no quantity"),
        pytest.param("isSemver", ("1.2.3",), True, id="a version"),
        pytest.param("isSemver", ("v1.2", True), True, id="a version when normalised"),
        pytest.param("isSemver", ("v1.2", False), False, id="not when not"),
        pytest.param("major", (encode_version("3.2.1"),), 3, id="the major version"),
        pytest.param("patch", (encode_version("3.2.1"),), 1, id="the patch version"),
        pytest.param("isSorted", ([1, 1, 2],), True, id="sorted"),
        pytest.param("isSorted", ([2, 1],), False, id="not sorted"),
        pytest.param("min", ([3, 1, 2],), 1, id="the least"),
        pytest.param("indexOf", (["a", "b", "a"], "a"), 0, id="the first place in a list"),
        pytest.param("lastIndexOf", (["a", "b", "a"], "a"), 2, id="the last place in a list"),
        pytest.param("indexOf", (["a"], "x"), -1, id="nowhere in a list"),
        pytest.param("slice", ([1, 2, 3], 1, 3), [2, 3], id="a part of a list"),
        pytest.param("flatten", ([[1], [2, [3]]],), [1, 2, [3]], id="one level flatter"),
        pytest.param("flatten", ([[1], [2, [3]]], 2), [1, 2, 3], id="two levels flatter"),
        pytest.param("reverse", ([1, 2],), [2, 1], id="backwards"),
        pytest.param("sets.equivalent", ([1, 2, 2], [2, 1]), True, id="equal sets"),
        pytest.param("sets.intersects", ([1], [2]), False, id="sets without a common element"),
        pytest.param("charAt", ("abc", 3), "", id="the character after the last"),
        pytest.param("substring", ("abcd", 1, 3), "bc", id="a part of a text"),
        pytest.param("lowerAscii", ("ÄB",), "Äb", id="only ASCII letters change"),
        pytest.param("split", ("a,b,c", ",", 2), ["a", "b,c"], id="split at most once"),
        pytest.param("split", ("abc", ""), ["a", "b", "c"], id="split into characters"),
        pytest.param("split", ("a,b", ",", 0), [], id="split into nothing"),
        pytest.param("trim", ("  a ",), "a", id="without spaces around"),
        pytest.param("join", (["a", "b"], "-"), "a-b", id="joined"),
        pytest.param("replace", ("aaa", "a", "b", 2), "bba", id="replaced twice"),
    ],
)
def test_what_it_returns(name: str, arguments: tuple[Any, ...], want: Any) -> None:
    assert call(name, *arguments) == want


def test_functions_of_one_name_are_distinguished_by_their_types() -> None:
    assert call("indexOf", "abcb", "b", types="string string") == 1
    assert call("lastIndexOf", "abcb", "b", 2, types="string string int") == 1
    assert call("add", quantity("1"), 2, types="quantity int") == quantity("3")


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        pytest.param("asInteger", (quantity("1500m"),), "cannot convert value to integer", id="a fraction"),
        pytest.param("compareTo", (quantity("1"), encode_version("1.0.0")), "no such overload", id="types that differ"),
        pytest.param("sign", ("1",), "no such overload", id="a text is no quantity"),
        pytest.param("charAt", ("abc", 4), "index out of range: 4", id="a character too far"),
        pytest.param(
            "substring", ("abc", 2, 1), "invalid substring range. start: 2, end: 1", id="an end before the start"
        ),
        pytest.param("join", (["a", 1],), "no such overload", id="joining what is no text"),
        pytest.param("semver", ("1",), "No Major.Minor.Patch elements found", id="a version too short"),
    ],
)
def test_what_it_fails_with(name: str, arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(CelFunctionError) as error:
        call(name, *arguments)
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("lists.range", (11,), id="numbers"),
        pytest.param("join", (["abc", "def"], "-----"), id="a joined text"),
        pytest.param("replace", ("aaa", "a", "0123"), id="a text that grows"),
        pytest.param("distinct", (list(range(6)),), id="comparisons"),
    ],
)
def test_what_is_built_is_charged(name: str, arguments: tuple[Any, ...]) -> None:
    budget = CelBudget()
    budget.left = 10
    with pytest.raises(CelFunctionError, match="actual cost limit exceeded"):
        call(name, *arguments, budget=budget)
    budget.reset()
    assert call(name, *arguments, budget=budget)
