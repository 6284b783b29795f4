"""Validation rules and their exact texts, as kube-scheduler gives them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.errors import ConfigError
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.profile import expand_all
from mooring.core.config.types import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.core.config.validation import validate_args


def problems(document: dict[str, Any], features: Features | None = None) -> list[str]:
    with pytest.raises(ConfigError) as e:
        config_from_dict(document, features or Features())
    return list(e.value.problems)


def _extenders(*names: str) -> dict[str, Any]:
    return {"extenders": [{"urlPrefix": "http://x", "managedResources": [{"name": name} for name in names]}]}


@pytest.mark.parametrize(
    ("document", "want"),
    [
        pytest.param(
            {"parallelism": 0},
            ["parallelism: Invalid value: 0: should be an integer value greater than zero"],
            id="no parallelism",
        ),
        pytest.param(
            {"clientConnection": {"burst": -1}},
            ["clientConnection.burst: Invalid value: -1: must be non-negative"],
            id="a negative burst",
        ),
        pytest.param(
            {"leaderElection": {"leaseDuration": "-1s", "renewDeadline": "-2s", "retryPeriod": "-3s"}},
            [
                'leaderElection.leaseDuration: Invalid value: "-1s": must be greater than zero',
                'leaderElection.renewDeadline: Invalid value: "-2s": must be greater than zero',
                'leaderElection.retryPeriod: Invalid value: "-3s": must be greater than zero',
            ],
            id="negative durations",
        ),
        pytest.param(
            {"leaderElection": {"leaseDuration": "10s"}},
            ['leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'],
            id="a lease that ends before it is renewed",
        ),
        pytest.param(
            {"leaderElection": {"resourceLock": "configmaps"}},
            ['leaderElection.resourceLock: Invalid value: "configmaps": resourceLock value must be "leases"'],
            id="a lock of old times",
        ),
        pytest.param(
            {"percentageOfNodesToScore": -1, "profiles": [{"percentageOfNodesToScore": 101}]},
            [
                "profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
                "percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
            ],
            id="percentages",
        ),
        pytest.param(
            {"podInitialBackoffSeconds": 20},
            [
                "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
            ],
            id="a backoff that shrinks",
        ),
        pytest.param(
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
            ["profiles[1].schedulerName: Duplicate value: profiles[0].schedulerName"],
            id="two profiles of one name",
        ),
        pytest.param(
            {
                "profiles": [
                    {"schedulerName": "a"},
                    {"schedulerName": "b", "plugins": {"queueSort": {"enabled": [{"name": "Other"}]}}},
                ]
            },
            ['profiles[1].plugins.queueSort: Invalid value: {"enabled":["Other"]}: must be the same for all profiles'],
            id="profiles that sort differently",
        ),
        pytest.param(
            {"profiles": [{"plugins": {"queueSort": {"enabled": [{"name": "A"}, {"name": "B"}]}}}]},
            ["profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled"],
            id="two queue sorts",
        ),
        pytest.param(
            {"profiles": [{"pluginConfig": [{"name": "NodeAffinity"}, {"name": "NodeAffinity"}]}]},
            ['profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"'],
            id="arguments given twice",
        ),
        pytest.param(
            {
                "profiles": [
                    {
                        "plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}},
                        "pluginConfig": [{"name": "GCEPDLimits"}],
                    }
                ]
            },
            [
                'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1" '
                '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")',
                'profiles[0].pluginConfig[0]: Invalid value: "GCEPDLimits": was invalid in version "v1" '
                '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")',
            ],
            id="removed plugins",
        ),
        pytest.param(
            {"extenders": [{"prioritizeVerb": "prioritize"}, {"bindVerb": "a"}, {"bindVerb": "b"}]},
            [
                "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
                'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
            ],
            id="extenders without weight, and two that bind",
        ),
        pytest.param(
            _extenders("cpu"),
            ['extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name'],
            id="a native resource cannot be managed",
        ),
        pytest.param(
            _extenders("example.com/gpu", "example.com/gpu"),
            [
                'extenders[0].managedResources[1].name: Invalid value: "example.com/gpu": '
                "duplicate extender managed resource name"
            ],
            id="a resource managed twice",
        ),
        pytest.param(
            _extenders("requests.example.com/gpu"),
            [
                'extenders[0].managedResources[0].name: Invalid value: "requests.example.com/gpu": '
                "is an invalid extended resource name"
            ],
            id="a quota's name is no resource",
        ),
        pytest.param(
            _extenders("/gpu"),
            ['extenders[0].managedResources[0].name: Invalid value: "/gpu": prefix part must be non-empty'],
            id="a name without prefix",
        ),
    ],
)
def test_rules(document: dict[str, Any], want: list[str]) -> None:
    assert problems(document) == want


def test_without_leader_election_nothing_about_it_is_checked() -> None:
    config_from_dict({"leaderElection": {"leaderElect": False, "leaseDuration": "-1s", "resourceLock": "x"}})


def test_several_mistakes_are_one_bracketed_text() -> None:
    with pytest.raises(ConfigError) as e:
        config_from_dict({"parallelism": 0, "percentageOfNodesToScore": 101})
    assert str(e.value) == (
        "[parallelism: Invalid value: 0: should be an integer value greater than zero, "
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]]"
    )


def _affinity(*requirements: dict[str, Any], fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    term: dict[str, Any] = {"matchExpressions": list(requirements)}
    if fields:
        term["matchFields"] = fields
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


_TERM = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
_OPERATORS = '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'


def _constraint(**changes: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **changes}


@pytest.mark.parametrize(
    ("plugin", "args", "want"),
    [
        pytest.param(
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1},
            [
                "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
                "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            ],
            id="candidates out of range",
        ),
        pytest.param(
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            [
                "minCandidateNodesPercentage: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesAbsolute",
                "minCandidateNodesAbsolute: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesPercentage",
            ],
            id="no candidates at all",
        ),
        pytest.param(
            "DynamicResources",
            {"filterTimeout": "-1s", "bindingTimeout": "500ms"},
            [
                'filterTimeout: Invalid value: "-1s": must be zero or positive',
                'bindingTimeout: Invalid value: "500ms": must be at least 1 second',
            ],
            id="timeouts",
        ),
        pytest.param(
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            ["hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
            id="a hard weight out of range",
        ),
        pytest.param(
            "NodeAffinity",
            _affinity({"key": "a", "operator": "Is"}),
            [f'{_TERM}.matchExpressions[0].operator: Unsupported value: "Is": supported values: {_OPERATORS}'],
            id="an operator that does not exist",
        ),
        pytest.param(
            "NodeAffinity",
            _affinity(
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "a", "operator": "Gt", "values": ["x"]},
            ),
            [
                f"{_TERM}.matchExpressions[0].values: Invalid value: []: "
                "for 'in', 'notin' operators, values set can't be empty",
                f'{_TERM}.matchExpressions[1].values: Invalid value: ["x"]: '
                "values set must be empty for exists and does not exist",
                f'{_TERM}.matchExpressions[2].values[0]: Invalid value: "x": '
                "for 'Gt', 'Lt' operators, the value must be an integer",
            ],
            id="operators with the wrong values",
        ),
        pytest.param(
            "NodeAffinity",
            _affinity(fields=[{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]),
            [f'{_TERM}.matchFields[0].values: Invalid value: ["a","b"]: must have one element'],
            id="a field with two values",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}, {"name": "cpu"}]},
            ["resources[0].weight: Invalid value: 2: must be 1", 'resources[1].name: Duplicate value: "cpu"'],
            id="balanced resources",
        ),
        pytest.param(
            "PodTopologySpread",
            {"defaultConstraints": [_constraint()]},
            ['defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
            id="system defaults and constraints of one's own",
        ),
        pytest.param(
            "PodTopologySpread",
            {"defaultingType": "Some"},
            ['defaultingType: Unsupported value: "Some": supported values: "System", "List"'],
            id="a defaulting type that does not exist",
        ),
        pytest.param(
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    _constraint(maxSkew=0, topologyKey=""),
                    _constraint(whenUnsatisfiable=""),
                    _constraint(topologyKey="b", whenUnsatisfiable="Maybe", labelSelector={}),
                    _constraint(),
                    _constraint(),
                ],
            },
            [
                "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                "defaultConstraints[0].topologyKey: Required value: can not be empty",
                "defaultConstraints[1].whenUnsatisfiable: Required value: can not be empty",
                'defaultConstraints[2].whenUnsatisfiable: Unsupported value: "Maybe": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"',
                "defaultConstraints[2].labelSelector: Forbidden: "
                "constraint must not define a selector, as they deduced for each pod",
                'defaultConstraints[4]: Duplicate value: "{zone, ScheduleAnyway}"',
            ],
            id="constraints",
        ),
        pytest.param(
            "VolumeBinding",
            {"bindTimeoutSeconds": -1, "shape": [{"utilization": 0, "score": 1}]},
            [
                "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
                'shape: Invalid value: [{"utilization":0,"score":1}]: '
                "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
            ],
            id="volume binding",
        ),
    ],
)
def test_arguments(plugin: str, args: dict[str, Any], want: list[str]) -> None:
    found = problems({"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]})
    assert found == [f"profiles[0].pluginConfig[0].args.{problem}" for problem in want]


def test_setting_what_a_gate_switched_off_is_a_mistake() -> None:
    document = {
        "profiles": [
            {"pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "1s", "bindingTimeout": "1s"}}]}
        ]
    }
    off = Features(DRASchedulerFilterTimeout=False, DRAResourceClaimDeviceStatus=False)
    at = "profiles[0].pluginConfig[0].args"
    assert problems(document, off) == [
        f"{at}.filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
        f"{at}.bindingTimeout: Forbidden: "
        "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled",
    ]


def _ratio(*points: tuple[int, int]) -> NodeResourcesFitArgs:
    shape = [UtilizationShapePoint(*point) for point in points]
    return NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type="RequestedToCapacityRatio", requested_to_capacity_ratio=RequestedToCapacityRatioParam(shape=shape)
        )
    )


_SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param(NodeResourcesFitArgs(), [], id="the defaults are fine"),
        pytest.param(_ratio((0, 0), (100, 10)), [], id="a proper shape is fine"),
        pytest.param(_ratio(), [f"{_SHAPE}: Required value: at least one point must be specified"], id="no shape"),
        pytest.param(
            _ratio((50, 0), (50, 5)),
            [f"{_SHAPE}[1].utilization: Invalid value: 50: values must be sorted in increasing order"],
            id="a shape that does not increase",
        ),
        pytest.param(
            _ratio((-1, 11)),
            [
                f"{_SHAPE}[0].utilization: Invalid value: -1: not in valid range [0, 100]",
                f"{_SHAPE}[0].score: Invalid value: 11: not in valid range [0, 10]",
            ],
            id="a shape out of range",
        ),
        pytest.param(
            NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="RequestedToCapacityRatio")),
            [
                "scoringStrategy.requestedToCapacityRatio: Required value: "
                "must be specified when type is RequestedToCapacityRatio"
            ],
            id="a ratio without its parameters",
        ),
        pytest.param(
            NodeResourcesFitArgs(
                scoring_strategy=ScoringStrategy(
                    type="LeastAllocated",
                    resources=[ResourceSpec("cpu", 101)],
                    requested_to_capacity_ratio=RequestedToCapacityRatioParam(),
                )
            ),
            [
                "scoringStrategy.resources[0].weight: Invalid value: 101: "
                "resource weight of cpu not in valid range (0, 100]",
                "scoringStrategy.requestedToCapacityRatio: Forbidden: "
                "must be nil when type is not RequestedToCapacityRatio",
            ],
            id="a heavy resource and parameters for nothing",
        ),
        pytest.param(
            NodeResourcesFitArgs(ignored_resource_groups=["a/b"]),
            ["ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'"],
            id="a group with a slash",
        ),
    ],
)
def test_fit_arguments(args: NodeResourcesFitArgs, want: list[str]) -> None:
    assert validate_args(args) == want


def test_fit_arguments_are_refused_when_the_plugin_is_built_not_before() -> None:
    document = {
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Bogus"}}}]}]
    }
    config = config_from_dict(document)
    with pytest.raises(ConfigError) as e:
        expand_all(config)
    assert str(e.value) == (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        'initializing plugin "NodeResourcesFit": scoringStrategy.type: Unsupported value: "Bogus": '
        'supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
    )
