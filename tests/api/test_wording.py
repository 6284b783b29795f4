"""Selectors, taints and labels in words."""

from __future__ import annotations

import pytest

from mooring.api.codec import from_plain
from mooring.api.core import Taint
from mooring.api.meta import LabelSelector
from mooring.api.text import count_of, expression_text, label_fact, missing_label_fact, selector_text, taint_text


@pytest.mark.parametrize(("count", "want"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_count(count: int, want: str) -> None:
    assert count_of(count, "node") == want


@pytest.mark.parametrize(
    ("operator", "values", "want"),
    [
        pytest.param("In", ["ssd"], "disk=ssd", id="one value"),
        pytest.param("In", ["ssd", "nvme"], "disk In (ssd, nvme)", id="several values"),
        pytest.param("NotIn", ["hdd"], "disk!=hdd", id="not one value"),
        pytest.param("NotIn", ["hdd", "tape"], "disk NotIn (hdd, tape)", id="not several values"),
        pytest.param("Exists", [], "disk", id="any value"),
        pytest.param("DoesNotExist", [], "!disk", id="no value"),
        pytest.param("Gt", ["8"], "disk Gt 8", id="a larger value"),
    ],
)
def test_expression(operator: str, values: list[str], want: str) -> None:
    assert expression_text("disk", operator, values) == want


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param(None, "no pods", id="no selector"),
        pytest.param({}, "all pods", id="an empty selector"),
        pytest.param(
            {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            "app=web,tier",
            id="labels and expressions",
        ),
    ],
)
def test_selector(selector: dict[str, object] | None, want: str) -> None:
    assert selector_text(None if selector is None else from_plain(LabelSelector, selector)) == want


@pytest.mark.parametrize(
    ("taint", "want"),
    [
        pytest.param(Taint(key="a", value="b", effect="NoSchedule"), "a=b:NoSchedule", id="with a value"),
        pytest.param(Taint(key="a", effect="NoExecute"), "a:NoExecute", id="without a value"),
    ],
)
def test_taint(taint: Taint, want: str) -> None:
    assert taint_text(taint) == want


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param([{"a": "x"}], "a is x on 1 node", id="one node"),
        pytest.param([{"a": "x"}, {"b": ""}], "a is x on 1 node; 1 node without it", id="some lack it"),
        pytest.param([{"a": ""}, {"a": ""}], "a is empty on 2 nodes", id="an empty value"),
        pytest.param(
            [{"a": str(i)} for i in range(7)],
            "a is 0 on 1 node, 1 on 1, 2 on 1, 3 on 1, and 3 other values",
            id="many values",
        ),
        pytest.param([{"b": "x"}], "no node has the label a", id="no node has it"),
    ],
)
def test_label_facts(labels: list[dict[str, str]], want: str) -> None:
    assert label_fact("a", labels) == want


def test_a_label_that_was_perhaps_meant() -> None:
    assert label_fact("dissk", [{"disk": "ssd"}]) == "no node has the label dissk; did you mean disk?"


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param([{"rack": "1"}], "", id="all have it"),
        pytest.param([{"rack": "1"}, {}, {}], "2 of 3 nodes without the label rack", id="some lack it"),
        pytest.param([{}], "no node has the label rack", id="all lack it"),
    ],
)
def test_a_label_that_nodes_lack(labels: list[dict[str, str]], want: str) -> None:
    assert missing_label_fact("rack", labels) == want
