"""The rules for what scheduling reads, as tables: a fragment, and the fields that are wrong in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.controlplane.registry.validation import (
    validate_affinity,
    validate_gates,
    validate_label_selector,
    validate_node_selector,
    validate_node_term,
    validate_spread,
    validate_taints,
    validate_tolerations,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def wrong(check: Callable[[Any, str], Any], value: Any) -> list[str]:
    """Which fields are wrong, below ``x``, and of which kind the mistake is."""
    return [f"{cause.field.removeprefix('x')} {cause.reason.removeprefix('FieldValue')}" for cause in check(value, "x")]


def expression(operator: str, *values: str, key: str = "a") -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(None, [], id="no selector"),
        pytest.param({}, [], id="an empty selector"),
        pytest.param({"matchLabels": {"a": "b"}}, [], id="labels"),
        pytest.param({"matchLabels": {"a b": "c"}}, [".matchLabels Invalid"], id="a bad label"),
        pytest.param({"matchExpressions": [expression("In", "b")]}, [], id="in"),
        pytest.param(
            {"matchExpressions": [expression("In")]}, [".matchExpressions[0].values Required"], id="in nothing"
        ),
        pytest.param(
            {"matchExpressions": [expression("NotIn")]}, [".matchExpressions[0].values Required"], id="not in nothing"
        ),
        pytest.param(
            {"matchExpressions": [expression("Exists", "b")]},
            [".matchExpressions[0].values Forbidden"],
            id="exists with a value",
        ),
        pytest.param(
            {"matchExpressions": [expression("Gt", "5")]},
            [".matchExpressions[0].operator Invalid"],
            id="greater than is for nodes only",
        ),
        pytest.param(
            {"matchExpressions": [expression("Exists"), expression("Exists", key="-")]},
            [".matchExpressions[1].key Invalid"],
            id="a bad key",
        ),
        pytest.param(
            {"matchExpressions": [expression("In", "ok", "not ok")]},
            [".matchExpressions[0].values[1] Invalid"],
            id="a bad value",
        ),
    ],
)
def test_label_selectors(selector: Any, want: list[str]) -> None:
    assert wrong(validate_label_selector, selector) == want


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param({}, [], id="an empty term"),
        pytest.param({"matchExpressions": [expression("Gt", "5")]}, [], id="greater than"),
        pytest.param(
            {"matchExpressions": [expression("Lt", "5", "6")]},
            [".matchExpressions[0].values Required"],
            id="less than two values",
        ),
        pytest.param(
            {"matchExpressions": [expression("In")]}, [".matchExpressions[0].values Required"], id="in nothing"
        ),
        pytest.param(
            {"matchExpressions": [expression("DoesNotExist", "b")]},
            [".matchExpressions[0].values Forbidden"],
            id="does not exist, with a value",
        ),
        pytest.param(
            {"matchExpressions": [expression("Like", "b")]},
            [".matchExpressions[0].operator Invalid"],
            id="no such operator",
        ),
        pytest.param(
            {"matchExpressions": [expression("Exists", key="")]}, [".matchExpressions[0].key Invalid"], id="no key"
        ),
        pytest.param({"matchFields": [expression("In", "n", key="metadata.name")]}, [], id="a node by name"),
        pytest.param(
            {"matchFields": [expression("In", "n", key="spec.x")]}, [".matchFields[0].key Invalid"], id="another field"
        ),
        pytest.param(
            {"matchFields": [expression("In", "n", "m", key="metadata.name")]},
            [".matchFields[0].values Required"],
            id="two names",
        ),
        pytest.param(
            {"matchFields": [expression("Exists", key="metadata.name")]},
            [".matchFields[0].operator Invalid"],
            id="a name that exists",
        ),
    ],
)
def test_node_terms(term: Any, want: list[str]) -> None:
    assert wrong(validate_node_term, term) == want
    inside = [f".nodeSelectorTerms[0]{each}" for each in want]
    assert wrong(validate_node_selector, {"nodeSelectorTerms": [term]}) == inside


def test_a_node_selector_needs_a_term() -> None:
    assert wrong(validate_node_selector, {}) == [".nodeSelectorTerms Required"]


def pod_term(**more: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, **more}


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param(pod_term(), [], id="a term"),
        pytest.param(pod_term(topologyKey=""), [".topologyKey Required"], id="no topology key"),
        pytest.param(pod_term(topologyKey="a b"), [".topologyKey Invalid"], id="a bad topology key"),
        pytest.param(
            pod_term(namespaceSelector={"matchLabels": {"a b": ""}}),
            [".namespaceSelector.matchLabels Invalid"],
            id="a bad namespace selector",
        ),
        pytest.param(pod_term(matchLabelKeys=["x"], mismatchLabelKeys=["y"]), [], id="label keys"),
        pytest.param(
            pod_term(matchLabelKeys=["x"], mismatchLabelKeys=["x"]),
            [".matchLabelKeys Invalid"],
            id="a key that should and should not match",
        ),
        pytest.param(
            pod_term(labelSelector=None, matchLabelKeys=["x"], mismatchLabelKeys=["y"]),
            [".matchLabelKeys Forbidden", ".mismatchLabelKeys Forbidden"],
            id="label keys without a selector",
        ),
    ],
)
@pytest.mark.parametrize("name", ["podAffinity", "podAntiAffinity"])
def test_pod_affinity(name: str, term: Any, want: list[str]) -> None:
    required = {name: {REQUIRED: [term]}}
    assert wrong(validate_affinity, required) == [f".{name}.{REQUIRED}[0]{each}" for each in want]
    preferred = {name: {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}
    inside = [f".{name}.{PREFERRED}[0].podAffinityTerm{each}" for each in want]
    assert wrong(validate_affinity, preferred) == inside


@pytest.mark.parametrize(("weight", "fits"), [(1, True), (100, True), (0, False), (101, False), (-1, False)])
@pytest.mark.parametrize(
    ("name", "body"),
    [("nodeAffinity", {"preference": {}}), ("podAffinity", {"podAffinityTerm": pod_term()})],
    ids=["nodes", "pods"],
)
def test_weights(name: str, body: dict[str, Any], weight: int, fits: bool) -> None:
    found = wrong(validate_affinity, {name: {PREFERRED: [{"weight": weight, **body}]}})
    assert found == ([] if fits else [f".{name}.{PREFERRED}[0].weight Invalid"])


def test_node_affinity_looks_into_preferences() -> None:
    preferred = [{"weight": 5, "preference": {"matchExpressions": [expression("In")]}}]
    assert wrong(validate_affinity, {"nodeAffinity": {PREFERRED: preferred}}) == [
        f".nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values Required"
    ]


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param({"key": "a", "operator": "Exists"}, [], id="exists"),
        pytest.param({"operator": "Exists"}, [], id="everything"),
        pytest.param({"key": "a", "value": "b"}, [], id="equal is meant"),
        pytest.param({"value": "b"}, ["[0].operator Invalid"], id="no key and no Exists"),
        pytest.param({"key": "a b", "operator": "Exists"}, ["[0].key Invalid"], id="a bad key"),
        pytest.param(
            {"key": "a", "operator": "Exists", "value": "b"}, ["[0].operator Invalid"], id="exists with a value"
        ),
        pytest.param({"key": "a", "operator": "Like"}, ["[0].operator NotSupported"], id="no such operator"),
        pytest.param(
            {"key": "a", "operator": "Exists", "effect": "Never"}, ["[0].effect NotSupported"], id="no effect"
        ),
        pytest.param(
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, [], id="for a while"
        ),
        pytest.param(
            {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5},
            ["[0].effect Invalid"],
            id="seconds without eviction",
        ),
    ],
)
def test_tolerations(toleration: Any, want: list[str]) -> None:
    assert wrong(validate_tolerations, [toleration]) == want


@pytest.mark.parametrize(
    ("taints", "want"),
    [
        pytest.param([{"key": "a", "effect": "NoSchedule"}], [], id="a taint"),
        pytest.param([{"key": "a", "value": "b", "effect": "NoExecute"}], [], id="with a value"),
        pytest.param([{"key": "a b", "effect": "NoSchedule"}], ["[0].key Invalid"], id="a bad key"),
        pytest.param([{"key": "a", "value": "-", "effect": "NoSchedule"}], ["[0].value Invalid"], id="a bad value"),
        pytest.param([{"key": "a"}], ["[0].effect Required"], id="no effect"),
        pytest.param([{"key": "a", "effect": "Never"}], ["[0].effect NotSupported"], id="an unknown effect"),
        pytest.param(
            [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "b"}],
            ["[1] Duplicate"],
            id="twice the same key and effect",
        ),
        pytest.param(
            [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}], [], id="one key, two effects"
        ),
    ],
)
def test_taints(taints: Any, want: list[str]) -> None:
    assert wrong(validate_taints, taints) == want


def constraint(**more: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **more}


@pytest.mark.parametrize(
    ("constraints", "want"),
    [
        pytest.param([constraint()], [], id="a constraint"),
        pytest.param([constraint(maxSkew=0)], ["[0].maxSkew Invalid"], id="no skew"),
        pytest.param([constraint(topologyKey="")], ["[0].topologyKey Required"], id="no key"),
        pytest.param([constraint(topologyKey="a b")], ["[0].topologyKey Invalid"], id="a bad key"),
        pytest.param([constraint(whenUnsatisfiable="")], ["[0].whenUnsatisfiable NotSupported"], id="no consequence"),
        pytest.param([constraint(), constraint()], ["[1].{topologyKey, whenUnsatisfiable} Duplicate"], id="twice"),
        pytest.param([constraint(), constraint(whenUnsatisfiable="ScheduleAnyway")], [], id="hard and soft"),
        pytest.param([constraint(minDomains=2)], [], id="domains"),
        pytest.param([constraint(minDomains=0)], ["[0].minDomains Invalid"], id="no domains"),
        pytest.param(
            [constraint(minDomains=2, whenUnsatisfiable="ScheduleAnyway")],
            ["[0].minDomains Invalid"],
            id="domains of a wish",
        ),
        pytest.param([constraint(nodeAffinityPolicy="Maybe")], ["[0].nodeAffinityPolicy NotSupported"], id="a policy"),
        pytest.param([constraint(nodeTaintsPolicy="Maybe")], ["[0].nodeTaintsPolicy NotSupported"], id="another"),
        pytest.param([constraint(nodeTaintsPolicy="Honor", nodeAffinityPolicy="Ignore")], [], id="both policies"),
        pytest.param(
            [constraint(matchLabelKeys=["a"])], ["[0].matchLabelKeys Forbidden"], id="label keys without a selector"
        ),
        pytest.param(
            [constraint(labelSelector={"matchLabels": {"-": ""}})],
            ["[0].labelSelector.matchLabels Invalid"],
            id="a bad selector",
        ),
    ],
)
def test_spread_constraints(constraints: Any, want: list[str]) -> None:
    assert wrong(validate_spread, constraints) == want


@pytest.mark.parametrize(
    ("gates", "want"),
    [
        ([{"name": "e.com/a"}, {"name": "b"}], []),
        ([{"name": ""}], ["[0] Invalid"]),
        ([{"name": "a b"}], ["[0] Invalid"]),
        ([{"name": "a"}, {"name": "a"}], ["[1] Duplicate"]),
    ],
    ids=["two gates", "no name", "a bad name", "twice"],
)
def test_gates(gates: Any, want: list[str]) -> None:
    assert wrong(validate_gates, gates) == want
