"""Which plugins run where: the table of defaults, the merge rules, and the startup errors."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.api.errors import ConfigError
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict, default_config
from mooring.core.config.profile import IN_TREE_POINTS, effective_args, expand, expand_all
from mooring.core.config.types import DefaultPreemptionArgs, NodeResourcesFitArgs, Plugin, PluginConfig, PluginSet

DEFAULTS = {
    "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption",
    "queueSort": "PrioritySort",
    "preFilter": "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone "
    "PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures",
    "filter": "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions "
    "NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources "
    "NodeDeclaredFeatures",
    "postFilter": "DynamicResources DefaultPreemption",
    "preScore": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity "
    "NodeResourcesBalancedAllocation",
    "score": "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity "
    "DynamicResources NodeResourcesBalancedAllocation ImageLocality",
    "reserve": "VolumeBinding DynamicResources",
    "permit": "",
    "preBind": "VolumeBinding DynamicResources",
    "bind": "DefaultBinder",
    "postBind": "",
    "placementGenerate": "",
    "placementScore": "NodeResourcesFit",
}
DEFAULT_WEIGHTS = [3, 2, 1, 1, 2, 2, 2, 1, 1]


YOURS = "; if it is your own, say where it is with --plugin"


def names(plugins: dict[str, Any] | None, point: str, **config: Any) -> list[str]:
    profile: dict[str, Any] = {"plugins": plugins} if plugins is not None else {}
    loaded = config_from_dict({"profiles": [profile], **config})
    return [name for name, _ in expand(loaded.profiles[0], IN_TREE_POINTS)[point]]


def weights(plugins: dict[str, Any]) -> dict[str, int]:
    loaded = config_from_dict({"profiles": [{"plugins": plugins}]})
    return dict(expand(loaded.profiles[0], IN_TREE_POINTS)["score"])


@pytest.mark.parametrize("point", DEFAULTS)
def test_the_default_profile_runs_what_the_specification_lists(point: str) -> None:
    assert names(None, point) == DEFAULTS[point].split()


def test_the_default_weights() -> None:
    score = expand(default_config().profiles[0], IN_TREE_POINTS)["score"]
    assert [weight for _, weight in score] == DEFAULT_WEIGHTS


def test_weights_are_zero_where_nothing_is_scored() -> None:
    expanded = expand(default_config().profiles[0], IN_TREE_POINTS)
    assert {weight for _, weight in expanded["filter"]} == {0}


def test_gates_add_and_remove_default_plugins() -> None:
    features = Features(NodeDeclaredFeatures=False, GangScheduling=True, TopologyAwareWorkloadScheduling=True)
    expanded = expand(default_config(features).profiles[0], IN_TREE_POINTS)
    assert "NodeDeclaredFeatures" not in dict(expanded["filter"])
    assert dict(expanded["permit"]) == {"GangScheduling": 0}
    assert dict(expanded["placementGenerate"]) == {"TopologyPlacementGenerator": 0}
    assert dict(expanded["placementScore"]) == {"NodeResourcesFit": 1, "PodGroupPodsCount": 1}


@pytest.mark.parametrize(
    ("plugins", "point", "want"),
    [
        pytest.param(
            {"score": {"disabled": [{"name": "ImageLocality"}]}},
            "score",
            [n for n in DEFAULTS["score"].split() if n != "ImageLocality"],
            id="a plugin disabled at a point is gone from that point",
        ),
        pytest.param(
            {"score": {"disabled": [{"name": "TaintToleration"}]}},
            "filter",
            DEFAULTS["filter"].split(),
            id="a plugin disabled at a point stays at the others",
        ),
        pytest.param(
            {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}},
            "filter",
            [n for n in DEFAULTS["filter"].split() if n != "TaintToleration"],
            id="a plugin disabled at multiPoint is gone everywhere",
        ),
        pytest.param({"score": {"disabled": [{"name": "*"}]}}, "score", [], id="a star empties the point"),
        pytest.param(
            {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality"}]}},
            "score",
            ["ImageLocality"],
            id="after a star only what is listed runs",
        ),
        pytest.param(
            {"score": {"enabled": [{"name": "ImageLocality", "weight": 5}]}},
            "score",
            ["ImageLocality", *DEFAULTS["score"].split()[:-1]],
            id="listing a default at a point moves it to the front",
        ),
        pytest.param(
            {"multiPoint": {"enabled": [{"name": "TaintToleration", "weight": 9}]}},
            "score",
            DEFAULTS["score"].split(),
            id="re-listing a default at multiPoint keeps its position",
        ),
        pytest.param(
            {
                "multiPoint": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": n} for n in ("PrioritySort", "DefaultBinder", "ImageLocality")],
                },
                "score": {"enabled": [{"name": "NodeAffinity"}, {"name": "ImageLocality"}]},
            },
            "score",
            ["ImageLocality", "NodeAffinity"],
            id="overrides come first, other explicit plugins last",
        ),
    ],
)
def test_order_at_a_point(plugins: dict[str, Any], point: str, want: list[str]) -> None:
    assert names(plugins, point) == want


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param(
            {"multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 7}]}}, 7, id="multiPoint's weight"
        ),
        pytest.param({"score": {"enabled": [{"name": "ImageLocality", "weight": 5}]}}, 5, id="the point's weight"),
        pytest.param(
            {
                "multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 7}]},
                "score": {"enabled": [{"name": "ImageLocality", "weight": 5}]},
            },
            5,
            id="the point's weight beats multiPoint's",
        ),
        pytest.param({"score": {"enabled": [{"name": "ImageLocality", "weight": 0}]}}, 1, id="weight 0 counts as 1"),
        pytest.param({"score": {"enabled": [{"name": "ImageLocality"}]}}, 1, id="no weight counts as 1"),
    ],
)
def test_weights(plugins: dict[str, Any], want: int) -> None:
    assert weights(plugins)["ImageLocality"] == want


def _enabled(*plugin_names: str) -> dict[str, Any]:
    return {"enabled": [{"name": n} for n in plugin_names]}


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param(
            {"score": _enabled("Nope")}, f'ScorePlugin "Nope" does not exist{YOURS}', id="an unknown plugin at a point"
        ),
        pytest.param(
            {"multiPoint": _enabled("Nope")},
            f'PreFilterPlugin "Nope" does not exist{YOURS}',
            id="an unknown plugin at multiPoint",
        ),
        pytest.param(
            {"score": _enabled("ImageLocality", "ImageLocality")},
            'plugin "ImageLocality" already registered as "ScorePlugin"',
            id="a plugin twice at a point",
        ),
        pytest.param(
            {"multiPoint": {"disabled": [{"name": "*"}], **_enabled("ImageLocality", "ImageLocality")}},
            'plugin "ImageLocality" already registered as "ScorePlugin"',
            id="a plugin twice at multiPoint",
        ),
        pytest.param(
            {"filter": _enabled("ImageLocality")},
            'plugin "ImageLocality" does not extend FilterPlugin plugin',
            id="a plugin where it cannot run",
        ),
        pytest.param(
            {"queueSort": {"disabled": [{"name": "*"}]}},
            'only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0',
            id="no queue sort",
        ),
        pytest.param(
            {"bind": {"disabled": [{"name": "*"}]}},
            'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
            id="no bind",
        ),
    ],
)
def test_startup_errors_are_upstreams(plugins: dict[str, Any], want: str) -> None:
    config = config_from_dict({"profiles": [{"plugins": plugins}]})
    with pytest.raises(ConfigError) as e:
        expand_all(config)
    assert str(e.value) == f"initializing profiles: creating profile for scheduler name default-scheduler: {want}"


def test_weights_that_could_overflow_a_score_are_refused() -> None:
    profile = default_config().profiles[0]
    heavy = PluginSet(enabled=[Plugin("ImageLocality", 2**56), Plugin("NodeAffinity", 2**56)])
    with pytest.raises(ConfigError, match="total score of Score plugins could overflow"):
        expand(replace(profile, plugins=replace(profile.plugins, score=heavy)), IN_TREE_POINTS)


def test_repeated_arguments_are_refused() -> None:
    profile = default_config().profiles[0]
    twice = replace(profile, plugin_config=[*profile.plugin_config, PluginConfig("NodeAffinity")])
    with pytest.raises(ConfigError, match=r"^repeated config for plugin NodeAffinity$"):
        expand(twice, IN_TREE_POINTS)


def test_a_name_that_is_like_another_gets_a_suggestion() -> None:
    config = config_from_dict({"profiles": [{"plugins": {"score": _enabled("ImageLocalty")}}]})
    with pytest.raises(ConfigError, match=r'ScorePlugin "ImageLocalty" does not exist; did you mean ImageLocality\?$'):
        expand(config.profiles[0], IN_TREE_POINTS)


def test_a_name_that_is_like_no_other_may_be_a_plugin_of_ones_own() -> None:
    config = config_from_dict({"profiles": [{"plugins": {"filter": _enabled("Mine")}}]})
    with pytest.raises(ConfigError, match=r'"Mine" does not exist; if it is your own, say where it is with --plugin$'):
        expand(config.profiles[0], IN_TREE_POINTS)


def test_the_mistakes_of_all_profiles_are_reported() -> None:
    config = config_from_dict(
        {
            "profiles": [
                {"schedulerName": "a", "plugins": {"score": _enabled("One")}},
                {"schedulerName": "b", "plugins": {"filter": _enabled("Two")}},
            ]
        }
    )
    with pytest.raises(ConfigError) as e:
        expand_all(config)
    assert [p.rpartition(": ")[2] for p in e.value.problems] == [
        f'ScorePlugin "One" does not exist{YOURS}',
        f'FilterPlugin "Two" does not exist{YOURS}',
    ]


def test_all_mistakes_of_a_profile_are_reported_each_once() -> None:
    plugins = {
        "score": _enabled("One", "ImageLocality", "ImageLocality"),
        "filter": _enabled("One", "ImageLocality"),
        "multiPoint": _enabled("Two"),
    }
    with pytest.raises(ConfigError) as e:
        expand(config_from_dict({"profiles": [{"plugins": plugins}]}).profiles[0], IN_TREE_POINTS)
    assert e.value.problems == (
        f'FilterPlugin "One" does not exist{YOURS}',
        'plugin "ImageLocality" does not extend FilterPlugin plugin',
        'plugin "ImageLocality" already registered as "ScorePlugin"',
        f'PreFilterPlugin "Two" does not exist{YOURS}',
    )


def test_arguments_are_typed_and_complete() -> None:
    config = config_from_dict(
        {"profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": {"minCandidateNodesAbsolute": 7}}]}]}
    )
    profile = config.profiles[0]
    assert effective_args(profile, "DefaultPreemption") == DefaultPreemptionArgs(10, 7)
    assert effective_args(profile, "NodeResourcesFit") == NodeResourcesFitArgs()
    assert effective_args(profile, "ImageLocality") is None


def test_arguments_of_strangers_are_passed_on_as_they_are() -> None:
    config = config_from_dict({"profiles": [{"pluginConfig": [{"name": "Mine", "args": {"deep": [1, {"x": "y"}]}}]}]})
    assert effective_args(config.profiles[0], "Mine") == {"deep": [1, {"x": "y"}]}
