"""Configurations of earlier days: what they become, and what is said about it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mooring.core.config.convert import ConversionNote, convert_document
from mooring.core.config.load import load_document
from mooring.core.config.types import API_VERSION, GROUP, KIND

WEIGHTS = (
    "profiles: the default weights of TaintToleration, NodeAffinity and InterPodAffinity are now 3, 2 and 2 "
    "(were 1); list them at plugins.multiPoint.enabled to keep the old ones"
)


def document(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": KIND, **fields}


def profile(version: str, **fields: Any) -> tuple[dict[str, Any], list[ConversionNote]]:
    converted, notes = convert_document(document(version, profiles=[fields]))
    load_document(converted)  # whatever comes out must load
    return converted["profiles"][0], notes[1:]


def _names(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_the_version_is_named_and_old_default_weights_are_mentioned(version: str) -> None:
    converted, notes = convert_document(document(version))
    assert converted == {"apiVersion": API_VERSION, "kind": KIND}
    want = [f"apiVersion: {GROUP}/{version} is now {API_VERSION}"]
    if version != "v1beta3":
        want.append(WEIGHTS)
    assert [str(note) for note in notes] == want


def test_weights_that_a_profile_says_itself_are_not_mentioned() -> None:
    weighted = [{"name": name, "weight": 1} for name in ("TaintToleration", "NodeAffinity", "InterPodAffinity")]
    _, notes = profile("v1beta2", plugins={"score": {"enabled": weighted}})
    assert notes == []
    _, notes = profile("v1beta2", plugins={"score": {"enabled": weighted[1:]}})
    assert [str(note) for note in notes] == [WEIGHTS]


def test_warnings_reach_the_caller() -> None:
    loaded = load_document(document("v1beta3"))
    assert loaded.warnings == (f"apiVersion: {GROUP}/v1beta3 is now {API_VERSION}",)


def test_the_original_is_left_alone() -> None:
    original = document(
        "v1beta1", healthzBindAddress="x", profiles=[{"plugins": {"filter": {"enabled": _names("NodeLabel")}}}]
    )
    before = copy.deepcopy(original)
    convert_document(original)
    assert original == before


def test_a_sample_plugin_of_one_s_own_stays() -> None:
    plugins = {
        "filter": {"enabled": _names("sample2")},
        "preScore": {"enabled": _names("sample2"), "disabled": _names("*")},
    }
    converted, _ = profile("v1beta1", schedulerName="sample-scheduler", plugins=copy.deepcopy(plugins))
    assert converted == {"schedulerName": "sample-scheduler", "plugins": plugins}


def test_removed_addresses_are_named() -> None:
    converted, notes = convert_document(document("v1beta1", healthzBindAddress="0.0.0.0:10251", metricsBindAddress=""))
    assert "healthzBindAddress" not in converted
    assert [(n.path, n.lost) for n in notes[1:3]] == [("healthzBindAddress", True), ("metricsBindAddress", True)]


@pytest.mark.parametrize(
    ("plugin", "strategy"),
    [
        ("NodeResourcesMostAllocated", "MostAllocated"),
        ("NodeResourcesLeastAllocated", "LeastAllocated"),
    ],
)
def test_resource_scorers_become_strategies(plugin: str, strategy: str) -> None:
    converted, notes = profile(
        "v1beta1",
        plugins={
            "score": {"enabled": [{"name": plugin, "weight": 5}], "disabled": _names("NodeResourcesLeastAllocated")}
        },
        pluginConfig=[{"name": plugin, "args": {"resources": [{"name": "cpu", "weight": 3}]}}],
    )
    assert converted["plugins"] == {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}]}}
    assert converted["pluginConfig"] == [
        {
            "name": "NodeResourcesFit",
            "args": {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 3}]}},
        }
    ]
    assert [n.path for n in notes[:3]] == [
        "profiles[0].plugins.score.enabled[0]",
        "profiles[0].plugins.score.disabled[0]",
        "profiles[0].pluginConfig[0]",
    ]


def test_a_capacity_ratio_keeps_its_shape_and_other_arguments_stay() -> None:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    converted, _ = profile(
        "v1beta1",
        plugins={"score": {"enabled": _names("RequestedToCapacityRatio")}},
        pluginConfig=[
            {"name": "RequestedToCapacityRatio", "args": {"shape": shape}},
            {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/x"]}},
        ],
    )
    assert converted["pluginConfig"] == [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}},
                "ignoredResources": ["example.com/x"],
            },
        }
    ]


def test_the_default_scorer_s_arguments_move_too() -> None:
    converted, _ = profile(
        "v1beta1", pluginConfig=[{"name": "NodeResourcesLeastAllocated", "args": {"resources": _names("gpu")}}]
    )
    [entry] = converted["pluginConfig"]
    assert entry["args"]["scoringStrategy"] == {"type": "LeastAllocated", "resources": _names("gpu")}


def test_switching_off_the_default_scorer_switches_off_its_heir() -> None:
    converted, notes = profile("v1beta1", plugins={"score": {"disabled": _names("NodeResourcesLeastAllocated")}})
    assert converted["plugins"]["score"]["disabled"] == _names("NodeResourcesFit")
    assert str(notes[0]) == (
        "profiles[0].plugins.score.disabled[0]: NodeResourcesLeastAllocated is now NodeResourcesFit"
    )


def test_two_strategies_together_have_no_equivalent() -> None:
    converted, notes = profile(
        "v1beta1",
        plugins={"score": {"enabled": _names("NodeResourcesMostAllocated", "NodeResourcesLeastAllocated")}},
    )
    assert converted["plugins"]["score"]["enabled"] == _names("NodeResourcesFit")
    assert [n.path for n in notes if n.lost] == ["profiles[0].plugins.score.enabled[1]"]


@pytest.mark.parametrize(
    ("plugin", "lost"),
    [
        ("EBSLimits", False),
        ("GCEPDLimits", False),
        ("AzureDiskLimits", False),
        ("CinderLimits", False),
        ("SelectorSpread", False),
        ("NodePreferAvoidPods", True),
        ("ServiceAffinity", True),
    ],
)
def test_plugins_that_are_gone(plugin: str, lost: bool) -> None:
    converted, notes = profile(
        "v1beta2",
        plugins={"filter": {"enabled": _names(plugin), "disabled": _names(plugin)}},
        pluginConfig=[{"name": plugin, "args": {}}],
    )
    assert converted == {"plugins": {"filter": {"enabled": []}}, "pluginConfig": []}
    assert [(n.path, n.lost) for n in notes[:3]] == [
        ("profiles[0].plugins.filter.enabled[0]", lost),
        ("profiles[0].plugins.filter.disabled[0]", False),
        ("profiles[0].pluginConfig[0]", lost),
    ]


def test_node_labels_become_added_affinity() -> None:
    converted, _ = profile(
        "v1beta1",
        plugins={"filter": {"enabled": _names("NodeLabel")}},
        pluginConfig=[
            {
                "name": "NodeLabel",
                "args": {"presentLabels": ["zone"], "absentLabels": ["old"], "presentLabelsPreference": ["ssd"]},
            }
        ],
    )
    [entry] = converted["pluginConfig"]
    assert entry == {
        "name": "NodeAffinity",
        "args": {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "zone", "operator": "Exists"},
                                {"key": "old", "operator": "DoesNotExist"},
                            ]
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}
                ],
            }
        },
    }


def test_the_version_of_arguments_is_raised() -> None:
    args = {"apiVersion": f"{GROUP}/v1beta2", "kind": "InterPodAffinityArgs", "hardPodAffinityWeight": 5}
    converted, notes = profile("v1beta2", pluginConfig=[{"name": "InterPodAffinity", "args": args}])
    assert converted["pluginConfig"][0]["args"]["apiVersion"] == API_VERSION
    assert notes[0].path == "profiles[0].pluginConfig[0].args.apiVersion"


def test_constraints_of_one_s_own_need_the_type_list() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    converted, notes = profile(
        "v1beta1", pluginConfig=[{"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}}]
    )
    assert converted["pluginConfig"][0]["args"]["defaultingType"] == "List"
    assert notes[0].path == "profiles[0].pluginConfig[0].args.defaultingType"


@pytest.mark.parametrize(
    "fields",
    [
        {"profiles": "x"},
        {"profiles": ["x"]},
        {"profiles": [{"plugins": []}]},
        {"profiles": [{"plugins": {"filter": "x"}}]},
        {"profiles": [{"plugins": {"filter": {"enabled": "x", "disabled": ["y"]}}}]},
        {"profiles": [{"pluginConfig": [3]}]},
        {"profiles": [{"pluginConfig": [{"name": ["x"], "args": 7}]}]},
        {"extenders": {"a": 1}},
    ],
)
def test_what_is_malformed_is_left_for_decoding_to_report(fields: dict[str, Any]) -> None:
    converted, _ = convert_document(document("v1beta1", **fields))
    assert {key: converted[key] for key in fields} == fields
