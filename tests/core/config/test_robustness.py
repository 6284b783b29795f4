"""Whatever is written, the answer is a configuration or a ConfigError: never another exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import yaml
from mooring.api.errors import ConfigError
from mooring.core.config.convert import convert_document
from mooring.core.config.load import config_from_dict, load_document
from mooring.core.config.policy import convert_policy
from mooring.core.config.profile import expand_all
from mooring.core.config.wire import to_wire

_DEFAULT = yaml.load((Path(__file__).parent / "data" / "default-config.yaml").read_text())
_WORDS = st.sampled_from(
    ["", "name", "args", "enabled", "disabled", "*", "score", "NodeResourcesFit", "NodeLabel", "ServiceAffinity",
     "RequestedToCapacityRatio", "PodTopologySpread", "defaultConstraints", "shape", "15s", "x" * 70, "a/b/c", "é",
     "-1s", "labels", "label", "presence", "resources", "presentLabels"]
)  # fmt: skip
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.just(10**400) | st.floats(allow_nan=False) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += _places(item, (*path, key))
    return found


_PLACES = st.sampled_from(_places(_DEFAULT))


def _changed(changes: list[tuple[tuple[str | int, ...], Any]]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(_DEFAULT))
    for path, value in changes:
        at: Any = document
        try:
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    return document


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(_PLACES, _json), min_size=1, max_size=3))
def test_a_damaged_configuration(changes: list[tuple[tuple[str | int, ...], Any]]) -> None:
    document = _changed(changes)
    try:
        config = load_document(document).config
        expand_all(config)
    except ConfigError as e:
        assert e.problems
        assert all("\n" not in problem for problem in e.problems)
    else:
        # What was accepted is written, read and written again without a difference.
        written = to_wire(config)
        assert to_wire(config_from_dict(written)) == written


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["profiles", "extenders", "parallelism", "healthzBindAddress"]), _json))
def test_a_damaged_old_configuration(fields: dict[str, Any]) -> None:
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1beta1", "kind": "KubeSchedulerConfiguration", **fields}
    converted, notes = convert_document(document)
    assert notes
    try:
        load_document(converted)
    except ConfigError as e:
        assert e.problems


_entries = st.lists(
    st.fixed_dictionaries(
        {"name": _json},
        optional={
            "weight": st.integers(-1, 5),
            "argument": st.dictionaries(
                st.sampled_from(
                    ["labelsPresence", "labelPreference", "serviceAffinity", "requestedToCapacityRatioArguments"]
                ),
                _json,
            ),
        },
    ),
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "predicates": _entries | _json,
            "priorities": _entries | _json,
            "extenders": _json
            | st.lists(st.dictionaries(_WORDS | st.just("httpTimeout"), _json, max_size=3), max_size=2),
            "hardPodAffinitySymmetricWeight": _json,
            "alwaysCheckAllPredicates": _json,
        },
    )
)
def test_a_damaged_policy(fields: dict[str, Any]) -> None:
    try:
        converted, _ = convert_policy({"kind": "Policy", "apiVersion": "v1", **fields})
        load_document(converted)
    except ConfigError as e:
        assert e.problems
