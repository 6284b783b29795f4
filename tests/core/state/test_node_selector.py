"""Node selectors over columns say what they say about one node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.codec import from_plain
from mooring.api.core import NodeSelector, Pod
from mooring.core.state.node_selector import NodeRequirements, compile_node_selector
from mooring.testing import make_cluster, make_node, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def selector(*terms: dict[str, Any]) -> NodeSelector:
    wire = {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}}
    found = from_plain(Pod, wire).spec.affinity.node_affinity.required
    assert isinstance(found, NodeSelector)
    return found


def on(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, *names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


CLUSTER = make_cluster(
    make_node("a", labels={"disk": "ssd", "gen": "7"}),
    make_node("b", labels={"disk": "hdd", "gen": "seven"}),
    make_node("c", labels={"gen": "9"}),
)


@pytest.mark.parametrize(
    ("terms", "matching"),
    [
        pytest.param([], "", id="a selector without terms matches nothing"),
        pytest.param([{}], "", id="an empty term matches nothing"),
        pytest.param([{}, on("disk", "In", "ssd")], "a", id="an empty term does not spoil the others"),
        pytest.param([on("disk", "In", "ssd", "hdd")], "ab", id="In"),
        pytest.param([on("disk", "In", "tape")], "", id="In a value that no node has"),
        pytest.param([on("disk", "NotIn", "ssd")], "bc", id="NotIn holds where the label is missing"),
        pytest.param([on("disk", "Exists")], "ab", id="Exists"),
        pytest.param([on("disk", "DoesNotExist")], "c", id="DoesNotExist"),
        pytest.param([on("gen", "Gt", "7")], "c", id="Gt needs a label that is an integer"),
        pytest.param([on("gen", "Lt", "9")], "a", id="Lt as well"),
        pytest.param([on("disk", "In", "ssd"), on("gen", "In", "9")], "ac", id="terms are alternatives"),
        pytest.param([{**on("disk", "Exists"), **named("In", "b")}], "b", id="within a term all must hold"),
        pytest.param([named("In", "c")], "c", id="by name"),
        pytest.param([named("NotIn", "c")], "ab", id="by any other name"),
        pytest.param([named("In", "nobody")], "", id="a name that is not there"),
        pytest.param([named("In", "a", "b")], "", id="two names do not parse, so the term matches nothing"),
        pytest.param([named("Exists")], "", id="another operator on a field does not parse"),
        pytest.param(
            [on("disk", "Fits", "x"), on("gen", "In", "9")], "c", id="a term that does not parse is passed over"
        ),
    ],
)
def test_matching(terms: list[dict[str, Any]], matching: str) -> None:
    compiled = compile_node_selector(selector(*terms))
    rows = CLUSTER.nodes()
    mask = dict(zip((info.name for info in rows.infos), compiled.mask(rows).tolist(), strict=True))
    assert {name for name, hit in mask.items() if hit} == set(matching)
    for info in rows.infos:
        assert compiled.matches(info.name, info.labels) == mask[info.name], "the same question about one node"


def test_node_selector_and_required_affinity_must_both_hold() -> None:
    pod = make_pod(spec={"nodeSelector": {"disk": "ssd"}, "affinity": {"nodeAffinity": {REQUIRED: {
        "nodeSelectorTerms": [on("gen", "Exists")]}}}})  # fmt: skip
    requirements = NodeRequirements(pod.spec)
    assert requirements.mask(CLUSTER.nodes()).tolist() == [True, False, False]
    assert requirements.matches("a", {"disk": "ssd", "gen": "1"}) and not requirements.matches("a", {"disk": "ssd"})


def test_no_requirement_goes_anywhere() -> None:
    assert NodeRequirements(make_pod(spec={"nodeSelector": {}}).spec).is_empty
    assert NodeRequirements(make_pod().spec).mask(CLUSTER.nodes()).all()


_LABELS = st.dictionaries(st.sampled_from(["disk", "gen"]), st.sampled_from(["ssd", "7", "x", ""]))
_EXPRESSIONS = st.builds(
    lambda key, op, value: on(key, op, *([value] if op in ("In", "NotIn", "Gt", "Lt") else [])),
    st.sampled_from(["disk", "gen"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.sampled_from(["ssd", "7", "5"]),
)


@given(st.lists(_LABELS, min_size=1, max_size=4), st.lists(_EXPRESSIONS, max_size=3))
def test_columns_and_single_nodes_agree(labels: list[dict[str, str]], terms: list[dict[str, Any]]) -> None:
    cluster = make_cluster(*(make_node(f"n{i}", labels=own) for i, own in enumerate(labels)))
    compiled = compile_node_selector(selector(*terms))
    rows = cluster.nodes()
    assert compiled.mask(rows).tolist() == [compiled.matches(info.name, info.labels) for info in rows.infos]
