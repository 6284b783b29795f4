"""Policy files, which Kubernetes 1.23 removed: what they become, and what has no equivalent."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.errors import ConfigError
from mooring.core.config.load import load_document
from mooring.core.config.policy import convert_policy, is_policy
from mooring.core.config.profile import IN_TREE_POINTS, Expanded, effective_args, expand
from mooring.core.config.types import KubeSchedulerProfile


def policy(**fields: Any) -> dict[str, Any]:
    return {"kind": "Policy", "apiVersion": "v1", **fields}


def loaded(**fields: Any) -> tuple[KubeSchedulerProfile, Expanded]:
    converted, _ = convert_policy(policy(**fields))
    profile = load_document(converted).config.profiles[0]
    return profile, expand(profile, IN_TREE_POINTS)


def lost(**fields: Any) -> list[str]:
    return [str(note) for note in convert_policy(policy(**fields))[1] if note.lost]


def _names(expanded: Expanded, point: str) -> set[str]:
    return {name for name, _ in expanded[point]}


_NEWER = {"DynamicResources", "NodeDeclaredFeatures"}
_MANDATORY = {"TaintToleration", "NodeUnschedulable"}


@pytest.mark.parametrize(
    ("predicates", "want"),
    [
        pytest.param([], set(), id="none but the mandatory ones"),
        pytest.param(["PodFitsResources"], {"NodeResourcesFit"}, id="resources"),
        pytest.param(["PodFitsHostPorts"], {"NodePorts"}, id="ports"),
        pytest.param(["PodFitsPorts"], {"NodePorts"}, id="ports by their oldest name"),
        pytest.param(
            ["GeneralPredicates"], {"NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"}, id="the general four"
        ),
        pytest.param(["MatchInterPodAffinity", "EvenPodsSpread"], {"InterPodAffinity", "PodTopologySpread"}, id="pods"),
        pytest.param(
            ["NoDiskConflict", "NoVolumeZoneConflict", "CheckVolumeBinding", "MaxCSIVolumeCountPred"],
            {"VolumeRestrictions", "VolumeZone", "VolumeBinding", "NodeVolumeLimits"},
            id="volumes",
        ),
        pytest.param(["MaxEBSVolumeCount"], {"NodeVolumeLimits"}, id="a cloud's limit"),
        pytest.param(["CheckNodeMemoryPressure"], set(), id="a condition that is a taint today"),
    ],
)
def test_predicates_choose_the_filters(predicates: list[str], want: set[str]) -> None:
    _, expanded = loaded(predicates=[{"name": name} for name in predicates])
    assert _names(expanded, "filter") == want | _MANDATORY | _NEWER


def test_without_predicates_the_default_filters_run() -> None:
    _, expanded = loaded(priorities=[])
    assert len(expanded["filter"]) == 14


def test_without_priorities_the_default_scores_run() -> None:
    _, expanded = loaded(predicates=[])
    assert _names(expanded, "score") >= {"TaintToleration", "InterPodAffinity", "ImageLocality", "NodeResourcesFit"}


def test_priorities_choose_the_scores_and_their_weights() -> None:
    _, expanded = loaded(
        priorities=[
            {"name": "LeastRequestedPriority", "weight": 4},
            {"name": "InterPodAffinityPriority", "weight": 2},
            {"name": "SelectorSpreadPriority", "weight": 3},
        ]
    )
    known = dict(expanded["score"])
    assert {name: known[name] for name in ("NodeResourcesFit", "InterPodAffinity", "PodTopologySpread")} == {
        "NodeResourcesFit": 4,
        "InterPodAffinity": 2,
        "PodTopologySpread": 3,
    }
    assert known.keys() == {
        "NodeResourcesFit",
        "InterPodAffinity",
        "PodTopologySpread",
        "VolumeBinding",
        "DynamicResources",
    }
    assert "TaintToleration" in _names(expanded, "filter")


def test_the_weight_of_even_spreading_beats_the_older_priority() -> None:
    priorities = [{"name": "EvenPodsSpreadPriority", "weight": 7}, {"name": "SelectorSpreadPriority", "weight": 3}]
    for order in (priorities, priorities[::-1]):
        assert dict(loaded(priorities=order)[1]["score"])["PodTopologySpread"] == 7


@pytest.mark.parametrize(
    ("priority", "strategy"),
    [
        ({"name": "MostRequestedPriority"}, "MostAllocated"),
        (
            {
                "name": "anything",
                "argument": {
                    "requestedToCapacityRatioArguments": {
                        "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                        "resources": [{"name": "example.com/gpu", "weight": 3}],
                    }
                },
            },
            "RequestedToCapacityRatio",
        ),
    ],
)
def test_resource_priorities_become_strategies(priority: dict[str, Any], strategy: str) -> None:
    profile, _ = loaded(priorities=[{**priority, "weight": 1}])
    fit = effective_args(profile, "NodeResourcesFit").scoring_strategy
    assert fit.type == strategy
    if strategy == "RequestedToCapacityRatio":
        assert [(r.name, r.weight) for r in fit.resources] == [("example.com/gpu", 3)]
        assert [(p.utilization, p.score) for p in fit.requested_to_capacity_ratio.shape] == [(0, 0), (100, 10)]


def test_labels_become_added_affinity() -> None:
    profile, expanded = loaded(
        predicates=[
            {"name": "Zoned", "argument": {"labelsPresence": {"labels": ["zone"], "presence": True}}},
            {"name": "NotOld", "argument": {"labelsPresence": {"labels": ["old"], "presence": False}}},
        ],
        priorities=[{"name": "Fast", "weight": 5, "argument": {"labelPreference": {"label": "ssd", "presence": True}}}],
    )
    affinity = effective_args(profile, "NodeAffinity").added_affinity
    [term] = affinity.required.node_selector_terms
    assert [(e.key, e.operator) for e in term.match_expressions] == [("zone", "Exists"), ("old", "DoesNotExist")]
    [preferred] = affinity.preferred
    assert (preferred.weight, preferred.preference.match_expressions[0].key) == (5, "ssd")
    assert "NodeAffinity" in _names(expanded, "filter") & _names(expanded, "score")


def test_extenders_and_the_hard_weight_come_along() -> None:
    converted, notes = convert_policy(
        policy(
            extenders=[
                {
                    "urlPrefix": "http://127.0.0.1:8888/",
                    "filterVerb": "filter",
                    "enableHttps": False,
                    "httpTimeout": 100000000,
                    "apiVersion": "v1beta1",
                }
            ],
            hardPodAffinitySymmetricWeight=10,
        )
    )
    assert converted["extenders"] == [
        {"urlPrefix": "http://127.0.0.1:8888/", "filterVerb": "filter", "enableHTTPS": False, "httpTimeout": "100ms"}
    ]
    assert [n.path for n in notes if n.lost] == ["extenders[0].apiVersion"]
    config = load_document(converted).config
    assert effective_args(config.profiles[0], "InterPodAffinity").hard_pod_affinity_weight == 10
    assert config.extenders[0].request_timeout_s == 0.1


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        pytest.param({"predicates": [{"name": "CheckNothing"}]}, "predicates[0]", id="an unknown predicate"),
        pytest.param(
            {"predicates": [{"name": "x", "argument": {"serviceAffinity": {"labels": ["rack"]}}}]},
            "predicates[0]",
            id="service affinity",
        ),
        pytest.param({"priorities": [{"name": "Nice", "weight": 1}]}, "priorities[0]", id="an unknown priority"),
        pytest.param(
            {"priorities": [{"name": "NodePreferAvoidPodsPriority", "weight": 10000}]}, "priorities[0]", id="avoidance"
        ),
        pytest.param(
            {"priorities": [{"name": "x", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "rack"}}}]},
            "priorities[0]",
            id="service anti-affinity",
        ),
        pytest.param(
            {
                "priorities": [
                    {"name": "LeastRequestedPriority", "weight": 1},
                    {"name": "MostRequestedPriority", "weight": 1},
                ]
            },
            "priorities[1]",
            id="two resource strategies",
        ),
        pytest.param({"alwaysCheckAllPredicates": True}, "alwaysCheckAllPredicates", id="checking everything"),
    ],
)
def test_fields_without_an_equivalent_are_reported(fields: dict[str, Any], path: str) -> None:
    [note] = lost(**fields)
    assert note.startswith(f"{path}: ")


def test_equal_priority_is_not_missed() -> None:
    assert lost(priorities=[{"name": "EqualPriority", "weight": 1}]) == []


def test_all_mistakes_are_reported_together() -> None:
    with pytest.raises(ConfigError) as e:
        convert_policy(policy(foo=1, predicates="x", priorities=[{"name": "ImageLocalityPriority", "weight": 0}]))
    assert e.value.problems == (
        'strict decoding error: unknown field "foo"',
        'predicates: Invalid value: "x": expected a list of objects',
        "priorities[0].weight: Invalid value: 0: should be a positive integer",
    )


@pytest.mark.parametrize(
    ("document", "want"),
    [
        ({"kind": "Policy"}, True),
        ({"predicates": []}, True),
        ({"priorities": []}, True),
        ({"kind": "KubeSchedulerConfiguration", "predicates": []}, False),
        ({}, False),
    ],
)
def test_recognising_a_policy(document: dict[str, Any], want: bool) -> None:
    assert is_policy(document) is want
