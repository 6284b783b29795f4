"""Metadata: names, labels, annotations, owners, finalizers, as every kind has them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mooring.controlplane.registry.validation import (
    generated_name,
    immutable,
    name_problems,
    parse_time,
    validate,
    validate_update,
)


@pytest.mark.parametrize(
    ("style", "name", "fits"),
    [
        ("subdomain", "web", True),
        ("subdomain", "web.example.com", True),
        ("subdomain", "a" * 253, True),
        ("subdomain", "a" * 254, False),
        ("subdomain", "Web", False),
        ("subdomain", "-web", False),
        ("subdomain", "web-", False),
        ("subdomain", "we_b", False),
        ("subdomain", "web..x", False),
        ("subdomain", "web\n", False),
        ("label", "web", True),
        ("label", "a" * 63, True),
        ("label", "a" * 64, False),
        ("label", "web.x", False),
        ("path", "system:node:x", True),
        ("path", "a/b", False),
        ("path", "a%b", False),
        ("path", ".", False),
        ("path", "..", False),
    ],
)
def test_names(style: str, name: str, fits: bool) -> None:
    assert (not name_problems("metadata.name", name, style)) is fits


OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        pytest.param({}, [], id="nothing more"),
        pytest.param({"name": ""}, ["metadata.name"], id="no name"),
        pytest.param({"namespace": ""}, ["metadata.namespace"], id="no namespace"),
        pytest.param({"labels": {"a/b/c": "x"}}, ["metadata.labels"], id="a key with two slashes"),
        pytest.param({"labels": {"a": "x" * 64}}, ["metadata.labels"], id="a value that is too long"),
        pytest.param({"labels": {"a": "-x"}}, ["metadata.labels"], id="a value that begins with a dash"),
        pytest.param({"labels": {"": "x"}}, ["metadata.labels"], id="an empty key"),
        pytest.param({"labels": {"a": ""}}, [], id="an empty value"),
        pytest.param({"annotations": {"A/B": "anything at all"}}, [], id="annotations may say anything"),
        pytest.param({"annotations": {"a b": "x"}}, ["metadata.annotations"], id="an annotation's key may not"),
        pytest.param(
            {"annotations": {"a": "x" * 262144}}, ["metadata.annotations"], id="annotations that are too long"
        ),
        pytest.param({"ownerReferences": [OWNER]}, [], id="an owner"),
        pytest.param(
            {"ownerReferences": [{**OWNER, "uid": ""}]}, ["metadata.ownerReferences[0].uid"], id="an owner without uid"
        ),
        pytest.param(
            {"ownerReferences": [OWNER, {"uid": "u"}]},
            [f"metadata.ownerReferences[1].{name}" for name in ("apiVersion", "kind", "name")],
            id="an owner with a uid only",
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "controller": True, "uid": "v"}]},
            ["metadata.ownerReferences"],
            id="two controllers",
        ),
        pytest.param({"finalizers": ["e.com/a", "b"]}, [], id="finalizers"),
        pytest.param({"finalizers": ["a b"]}, ["metadata.finalizers"], id="a finalizer with a space"),
        pytest.param({"finalizers": ["a", "a"]}, ["metadata.finalizers"], id="a finalizer twice"),
    ],
)
def test_validation(metadata: dict[str, Any], want: list[str]) -> None:
    found = validate({"name": "a", "namespace": "n", **metadata}, is_namespaced=True, style="subdomain")
    assert [cause.field for cause in found] == want


@pytest.mark.parametrize(
    ("new", "old", "is_allowed"),
    [
        pytest.param(["a", "b"], ["a"], False, id="a new finalizer while going"),
        pytest.param(["a"], ["a", "b"], True, id="one less while going"),
        pytest.param(["a"], ["a"], True, id="the same"),
    ],
)
def test_finalizers_of_an_object_that_is_going(new: list[str], old: list[str], is_allowed: bool) -> None:
    before = {"deletionTimestamp": "t", "finalizers": old}
    assert (not validate_update({"finalizers": new}, before)) is is_allowed
    assert not validate_update({"finalizers": new}, {"finalizers": old}), "it may have more while it stays"


def test_generated_names_fit_and_differ() -> None:
    rng = random.Random(0)
    names = {generated_name("web-", rng) for _ in range(50)}
    assert len(names) == 50
    assert all(not name_problems("", name, "label") for name in names)
    assert len(generated_name("x" * 100, rng)) == 63


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T01:00:10+01:00", 10.0),
        ("1970-01-01T00:00:10.5Z", 10.5),
        ("", None),
        ("soon", None),
        ("2026-13-01T00:00:00Z", None),
    ],
)
def test_times(text: str, want: float | None) -> None:
    assert parse_time(text) == want


@pytest.mark.parametrize(
    ("new", "old", "path", "changed"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 1}}, "spec.a", False),
        ({"spec": {"a": 2}}, {"spec": {"a": 1}}, "spec.a", True),
        ({}, {"spec": {"a": 1}}, "spec.a", True),
        ({}, {}, "spec.a", False),
        ({"spec": None}, {}, "spec.a", False),
    ],
)
def test_what_may_not_change(new: Any, old: Any, path: str, changed: bool) -> None:
    assert bool(immutable(new, old, path)) is changed
