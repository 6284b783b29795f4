"""Selectors: label selectors as text and as objects, field selectors, and the way back to text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.controlplane.storage import selectors
from mooring.controlplane.types.status import StatusError


@pytest.mark.parametrize(
    ("key", "fits"),
    [
        ("app", True), ("app.kubernetes.io/name", True), ("A", True), ("a_b.c-d", True), ("", False), ("/a", False),
        ("a/", False), ("a/b/c", False), ("A.com/x", False), ("-a", False), ("a-", False), ("x" * 63, True),
        ("x" * 64, False), ("e" * 254 + "/x", False), ("a b", False), ("é", False), ("a\n", False),
    ],
)  # fmt: skip
def test_label_keys(key: str, fits: bool) -> None:
    assert selectors.is_label_key(key) is fits


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("", True),
        ("web", True),
        ("1.0", True),
        ("x" * 63, True),
        ("x" * 64, False),
        ("-", False),
        ("a b", False),
        ("a\n", False),
    ],
)
def test_label_values(value: str, fits: bool) -> None:
    assert selectors.is_label_value(value) is fits


LABELS = {"app": "web", "tier": "front", "count": "5"}


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("app=web", True), ("app==web", True), ("app!=web", False), ("app", True), ("!app", False), ("!zone", True),
        ("app in (web,db)", True), ("app notin (web)", False), ("zone notin (a)", True), ("zone!=a", True),
        ("app=web,tier=front", True), ("app=web,tier=back", False), ("count>4", True), ("count<5", False),
        ("", True), (" app = web , tier ", True), ("app in ()", False), ("app=", False),
    ],
)  # fmt: skip
def test_label_selectors(selector: str, want: bool) -> None:
    assert selectors.parse_labels(selector).matches(LABELS) is want


@pytest.mark.parametrize(
    "selector", ["app in web", "=web", "a b", "app in (a", "a=b=c", "count>x", "a,,b", "a=b,", "/x", "a=é"]
)
def test_selectors_that_make_no_sense(selector: str) -> None:
    with pytest.raises(StatusError) as refused:
        selectors.parse_labels(selector)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({"count": "6"}, True),
        ({"count": "5"}, False),
        ({"count": "x"}, False),
        ({"count": "9" * 63}, False),  # no int64: upstream does not compare it
        ({}, False),
    ],
)
def test_greater_than(labels: dict[str, str], want: bool) -> None:
    assert selectors.parse_labels("count>5").matches(labels) is want
    assert selectors.parse_labels("count<5").matches({"count": "4"})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("a in (b", "expected: '\\)'", id="an open bracket"),
        pytest.param("a in b", "expected: '\\('", id="no bracket"),
        pytest.param("a in (b c)", "expected: ',' or '\\)'", id="no comma"),
        pytest.param("a in (=)", "expected: ',' or '\\)'", id="an operator for a value"),
        pytest.param("!", "expected: identifier", id="not what"),
        pytest.param("a=b c", "expected: ',' or 'end of string'", id="two words"),
        pytest.param("a=(", "expected: identifier", id="a bracket for a value"),
        pytest.param("a>b", "must be an integer", id="more than a word"),
        pytest.param("a>" + "9" * 30, "must be an integer", id="more than a number can be"),
        pytest.param("a=b,", "identifier after ','", id="a comma at the end"),
        pytest.param("-=b", "invalid label key", id="a bad key"),
        pytest.param("a=é", "invalid label value", id="a bad value"),
        pytest.param("a(b)", "expected: in, notin", id="no operator"),
    ],
)
def test_what_cannot_be_read(text: str, want: str) -> None:
    with pytest.raises(StatusError, match=want) as refused:
        selectors.parse_labels(text)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("selector", "labels", "want"),
    [
        pytest.param({}, {"a": "1"}, True, id="an empty selector takes all"),
        pytest.param({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True, id="a label"),
        pytest.param({"matchLabels": {"a": "1"}}, {"a": "2"}, False, id="another value"),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True, id="not there"),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True, id="not in"),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True, id="exists, empty"),
    ],
)
def test_selector_objects(selector: Any, labels: dict[str, str], want: bool) -> None:
    parsed = selectors.from_object(selector)
    assert parsed is not None and parsed.matches(labels) is want


def test_no_selector_and_one_that_makes_no_sense_select_nothing() -> None:
    assert selectors.from_object(None) is None
    assert selectors.from_object({"matchExpressions": [{"key": "a", "operator": "Like"}]}) is None


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        (None, ""),
        ({}, ""),
        ({"b": "2", "a": "1"}, "a=1,b=2"),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"matchExpressions": [{"key": "b", "operator": "Exists"}], "matchLabels": {"c": "1", "a": "1"}}, "a=1,b,c=1"),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}, "a in (x,y)"),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}, "a notin (x)"),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, "!a"),
    ],
)
def test_a_selector_as_text(selector: Any, want: str) -> None:
    assert selectors.text_of(selector) == want


NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.lists(NAMES, min_size=1, max_size=3)
EXPRESSIONS = st.builds(
    lambda key, operator, values: (
        {"key": key, "operator": operator, **({"values": values} if operator in ("In", "NotIn") else {})}
    ),
    NAMES,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    VALUES,
)


@settings(max_examples=200)
@given(st.dictionaries(NAMES, NAMES), st.lists(EXPRESSIONS, max_size=3), st.dictionaries(NAMES, NAMES))
def test_the_text_of_a_selector_selects_the_same(
    match_labels: dict[str, str], expressions: list[Any], labels: dict[str, str]
) -> None:
    selector = {"matchLabels": match_labels, "matchExpressions": expressions}
    as_object = selectors.from_object(selector)
    assert as_object is not None
    assert selectors.parse_labels(selectors.text_of(selector)).matches(labels) == as_object.matches(labels)


# Fields

SUPPORTED = frozenset(("metadata.name", "spec.nodeName"))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", ()),
        ("metadata.name=a", (("metadata.name", True, "a"),)),
        ("metadata.name==a", (("metadata.name", True, "a"),)),
        ("spec.nodeName!=", (("spec.nodeName", False, ""),)),
        ("metadata.name=a,spec.nodeName=b", (("metadata.name", True, "a"), ("spec.nodeName", True, "b"))),
        (r"metadata.name=a\,b\=c\\d", (("metadata.name", True, r"a,b=c\d"),)),
        ("metadata.name=a=b", (("metadata.name", True, "a=b"),)),
    ],
)
def test_field_selectors(text: str, want: Any) -> None:
    assert selectors.parse_fields(text, SUPPORTED, "Pod").terms == want


@pytest.mark.parametrize("text", ["metadata.name", "spec.x=1", "=a", "!"])
def test_field_selectors_that_are_refused(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        selectors.parse_fields(text, SUPPORTED, "Pod")
    assert refused.value.code == 400


def test_a_field_that_is_pinned_down() -> None:
    found = selectors.parse_fields("spec.nodeName!=a,metadata.name=b", SUPPORTED, "Pod")
    assert found.exactly("metadata.name") == "b"
    assert found.exactly("spec.nodeName") is None
    assert found.matches({"metadata.name": "b", "spec.nodeName": "c"}.__getitem__)
    assert not found.matches({"metadata.name": "b", "spec.nodeName": "a"}.__getitem__)


def test_selectors_that_choose_nothing_away_are_false() -> None:
    assert selectors.EVERYTHING.is_empty and not selectors.ANY_FIELDS
    assert selectors.parse_labels("a") and selectors.parse_fields("metadata.name=a", SUPPORTED, "Pod")
