"""The space of a search: what a file may say, and how a point becomes a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api import yaml
from mooring.api.errors import InputError
from mooring.ask.tune import DEFAULT_SPACE, Dimension, configured, read_space
from mooring.core.config.load import config_from_dict
from mooring.core.config.profile import expand_all
from mooring.core.engine.in_tree import in_tree_registry


def score_weights(document: Any) -> dict[str, int]:
    config = config_from_dict(document)
    expanded = expand_all(config, in_tree_registry().points())
    return dict(expanded["default-scheduler"]["score"])


def test_what_is_searched_without_a_file() -> None:
    assert [dimension.name for dimension in read_space(DEFAULT_SPACE)] == [
        "weights.NodeResourcesFit",
        "weights.NodeResourcesBalancedAllocation",
        "weights.PodTopologySpread",
        "strategy",
        "arguments.PodTopologySpread.defaultingType",
    ]


def test_ranges_and_choices() -> None:
    text = "weights: {A: [0, 5]}\narguments: {B.x.y: [0.5, 2], B.z: {choices: [true, false]}}\n"
    assert read_space(yaml.load(text)) == [
        Dimension("weights.A", low=0, high=5),
        Dimension("arguments.B.x.y", low=0.5, high=2),
        Dimension("arguments.B.z", (True, False)),
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("[]", "expected a space with the fields", id="no mapping"),
        pytest.param("weight: {A: [0, 5]}", "weight: no such field", id="a misspelt field"),
        pytest.param("weights: {A: [5, 5]}", "weights.A: found [5, 5], expected [LOW, HIGH]", id="an empty range"),
        pytest.param("weights: {A: [0, 1000]}", "weights.A: expected [LOW, HIGH], whole numbers", id="too large"),
        pytest.param("weights: {A: [0.5, 1]}", "weights.A: expected [LOW, HIGH], whole numbers", id="no whole number"),
        pytest.param("arguments: {A: [0, 1]}", "arguments.A: expected Plugin.field", id="no field"),
        pytest.param("strategies: []", "strategy: found", id="no strategy"),
    ],
)
def test_a_mistake_is_reported(text: str, want: str) -> None:
    with pytest.raises(InputError) as caught:
        read_space(yaml.load(text))
    assert want in str(caught.value)


@pytest.mark.parametrize(
    ("base", "values", "weights"),
    [
        pytest.param(
            None, {"weights.NodeResourcesFit": 7}, {"NodeResourcesFit": 7, "TaintToleration": 3}, id="a weight"
        ),
        pytest.param(
            None, {"weights.ImageLocality": 0}, {"ImageLocality": None, "NodeResourcesFit": 1}, id="no weight"
        ),
        pytest.param(
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": 5}]}}}]},
            {"weights.ImageLocality": 2},
            {"ImageLocality": 2, "NodeResourcesFit": 1},
            id="named at the point",
        ),
        pytest.param(
            {"profiles": [{"plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}}]},
            {"weights.ImageLocality": 2},
            {"ImageLocality": 2},
            id="disabled before",
        ),
    ],
)
def test_weights_of_a_point(base: Any, values: dict[str, int], weights: dict[str, int | None]) -> None:
    before = repr(base)
    found = score_weights(configured(base, values))
    assert {name: found.get(name) for name in weights} == weights
    assert repr(base) == before, "the base stays as it is"


def test_strategies_and_arguments_of_a_point() -> None:
    base = {"profiles": [{"pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 3}}]}]}
    values = {
        "strategy": "MostAllocated",
        "arguments.InterPodAffinity.hardPodAffinityWeight": 50,
        "arguments.InterPodAffinity.ignorePreferredTermsOfExistingPods": True,
    }
    document = configured(base, values)
    config_from_dict(document)
    assert {each["name"]: each["args"] for each in document["profiles"][0]["pluginConfig"]} == {
        "NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}},
        "InterPodAffinity": {"hardPodAffinityWeight": 50, "ignorePreferredTermsOfExistingPods": True},
    }
