"""Loading: strictness, versions, defaults. Texts are upstream's where upstream has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import ConfigError, InputError
from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict, default_config, load_config, load_config_file
from mooring.core.config.types import (
    DynamicResourcesArgs,
    ExtenderManagedResource,
    KubeSchedulerProfile,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

V1 = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

DURATION = 'expected a duration in quotes such as "15s" or "1m30s"'


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as e:
        load_config(text)
    return list(e.value.problems)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("foo: 1\n", ['strict decoding error: unknown field "foo"'], id="an unknown field"),
        pytest.param(
            "profiles:\n- foo: 1\n  plugins: {scor: {}}\n",
            ['strict decoding error: unknown field "profiles[0].foo", unknown field "profiles[0].plugins.scor"'],
            id="unknown fields deep inside have their path",
        ),
        pytest.param(
            "parallelism: 1\nparallelism: 2\n",
            ['strict decoding error: line 4: key "parallelism" already set in map'],
            id="a field written twice",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: "
            "{requestedToCapacityRatio: {shape: [{Utilization: 1, Score: 2}]}}}}]}]\n",
            [
                "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: "
                "decoding args for plugin NodeResourcesFit: strict decoding error: "
                'unknown field "scoringStrategy.requestedToCapacityRatio.shape[0].Score", '
                'unknown field "scoringStrategy.requestedToCapacityRatio.shape[0].Utilization"'
            ],
            id="unknown fields in arguments",
        ),
        pytest.param(
            "profiles: [{pluginConfig: [{name: DefaultPreemption, args: "
            "{apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs}}]}]\n",
            [
                "decoding .profiles[0].pluginConfig[0]: args for plugin DefaultPreemption were not of type "
                "DefaultPreemptionArgs.kubescheduler.config.k8s.io, "
                "got InterPodAffinityArgs.kubescheduler.config.k8s.io"
            ],
            id="arguments of another plugin",
        ),
        pytest.param(
            "parallelism: many\nprofiles: {}\nleaderElection: {leaseDuration: 15, retryPeriod: 2}\n"
            "clientConnection: {qps: fast}\nenableProfiling: 1\n",
            [
                'parallelism: Invalid value: "many": expected an integer',
                "profiles: Invalid value: {}: expected a list",
                f"leaderElection.leaseDuration: Invalid value: 15: {DURATION}",
                f"leaderElection.retryPeriod: Invalid value: 2: {DURATION}",
                'clientConnection.qps: Invalid value: "fast": expected a number',
                "enableProfiling: Invalid value: 1: expected true or false",
            ],
            id="every wrong type is reported",
        ),
        pytest.param(
            "leaderElection: {leaseDuration: 15x}\n",
            [
                'leaderElection.leaseDuration: Invalid value: "15x": time: unknown unit "x" in duration "15x"; '
                'expected one such as "15s" or "1m30s"'
            ],
            id="a duration that does not parse",
        ),
        pytest.param(
            "parallelism: 3000000000\n",
            ["parallelism: Invalid value: 3000000000: does not fit a 32-bit integer"],
            id="an integer that is too large",
        ),
        pytest.param(
            "extenders: [{tlsConfig: {keyData: '!!secret!!'}}]\n",
            ["extenders[0].tlsConfig.keyData: Invalid value: expected base64 text"],
            id="a key that is no base64 is not quoted back",
        ),
        pytest.param(
            "profiles: [{schedulerName: 5}]\n",
            ["profiles[0].schedulerName: Invalid value: 5: expected a string"],
            id="a number is no string",
        ),
    ],
)
def test_strict_decoding(text: str, want: list[str]) -> None:
    assert problems(V1 + text) == want


def test_unknown_fields_and_broken_rules_are_reported_together() -> None:
    assert problems(V1 + "foo: 1\nparallelism: 0\nprofiles: [{schedulerName: 5, percentageOfNodesToScore: 101}]\n") == [
        'strict decoding error: unknown field "foo"',
        "profiles[0].schedulerName: Invalid value: 5: expected a string",
        "parallelism: Invalid value: 0: should be an integer value greater than zero",
        "profiles[0].percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ]


def test_duplicates_in_json() -> None:
    text = (
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",'
        ' "parallelism": 1, "parallelism": 2}'
    )
    assert problems(text) == ['strict decoding error: duplicate field "parallelism"']


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "parallelism: 1\n",
            "Object 'Kind' is missing; expected kind: KubeSchedulerConfiguration and "
            "apiVersion: kubescheduler.config.k8s.io/v1",
            id="no kind",
        ),
        pytest.param(
            "kind: KubeSchedulerConfiguration\n",
            "Object 'apiVersion' is missing; expected apiVersion: kubescheduler.config.k8s.io/v1",
            id="no version",
        ),
        pytest.param(
            "apiVersion: kubescheduler.config.k8s.io/v2\nkind: KubeSchedulerConfiguration\n",
            'no kind "KubeSchedulerConfiguration" is registered for version "kubescheduler.config.k8s.io/v2"; '
            "expected kind KubeSchedulerConfiguration, version kubescheduler.config.k8s.io/v1 "
            "(v1beta1 to v1beta3 are converted)",
            id="an unknown version",
        ),
        pytest.param(
            "kind: Policy\napiVersion: v1\n",
            "this is a scheduling Policy, which Kubernetes 1.23 removed; `mooring config convert` turns it into "
            "a KubeSchedulerConfiguration",
            id="a policy",
        ),
        pytest.param(
            "kind: ConfigMap\napiVersion: v1\ndata: {scheduler.yaml: text}\n",
            "this is a ConfigMap; the configuration is in its data (keys: scheduler.yaml), take it out first",
            id="a config map",
        ),
        pytest.param(
            "", "empty; expected a KubeSchedulerConfiguration (apiVersion: kubescheduler.config.k8s.io/v1)", id="empty"
        ),
        pytest.param("- a\n", "expected a KubeSchedulerConfiguration object, found list", id="a list"),
        pytest.param(V1 + "---\n" + V1, "line 4: a second document starts here; expected only one", id="two documents"),
    ],
)
def test_what_is_no_configuration(text: str, want: str) -> None:
    assert problems(text) == [want]


def test_problems_in_a_file_begin_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(V1 + "parallelism: 0\npodInitialBackoffSeconds: 0\n")
    with pytest.raises(ConfigError) as e:
        load_config_file(path)
    assert str(e.value) == (
        f"[{path}: parallelism: Invalid value: 0: should be an integer value greater than zero, "
        f"{path}: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0]"
    )


def test_a_missing_file_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^/does/not/exist: no such file or directory$"):
        load_config_file("/does/not/exist")


def test_none_and_nothing_are_the_default() -> None:
    assert config_from_dict(None) == config_from_dict({}) == default_config() == load_config(V1).config


def test_null_means_not_said() -> None:
    assert config_from_dict({"parallelism": None, "profiles": None, "leaderElection": None}) == default_config()


def test_a_float_that_is_an_integer_is_one() -> None:
    assert load_config(V1 + "parallelism: 1e3\n").config.parallelism == 1000


def test_one_profile_may_be_nameless_but_not_two() -> None:
    assert config_from_dict({"profiles": [{}]}).profiles[0].scheduler_name == "default-scheduler"
    with pytest.raises(ConfigError) as e:
        config_from_dict({"profiles": [{}, {"schedulerName": "b"}]})
    assert str(e.value) == "profiles[0].schedulerName: Required value"


def _args(name: str, args: dict[str, Any] | None, features: Features | None = None) -> Any:
    document: dict[str, Any] = {"profiles": [{"pluginConfig": [{"name": name, "args": args}]}]}
    profile: KubeSchedulerProfile = config_from_dict(document, features or Features()).profiles[0]
    return next(entry.args for entry in profile.plugin_config if entry.name == name)


@pytest.mark.parametrize(
    ("name", "args", "want"),
    [
        pytest.param("NodeResourcesFit", None, NodeResourcesFitArgs(), id="no arguments are the defaults"),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated"}},
            NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="MostAllocated")),
            id="a strategy without resources scores cpu and memory",
        ),
        pytest.param(
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 0}]}},
            NodeResourcesFitArgs(
                scoring_strategy=ScoringStrategy(type="MostAllocated", resources=[ResourceSpec("cpu", 1)])
            ),
            id="a resource's weight 0 counts as 1",
        ),
        pytest.param(
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "gpu"}]},
            NodeResourcesBalancedAllocationArgs(resources=[ResourceSpec("gpu", 1)]),
            id="a resource's missing weight is 1",
        ),
        pytest.param(
            "PodTopologySpread",
            {"defaultingType": ""},
            PodTopologySpreadArgs(),
            id="an empty defaulting type is System",
        ),
        pytest.param(
            "DynamicResources",
            {"filterTimeout": "0s"},
            DynamicResourcesArgs(filter_timeout=0.0, binding_timeout=600.0),
            id="a timeout of zero stays zero",
        ),
    ],
)
def test_arguments_are_completed(name: str, args: dict[str, Any] | None, want: Any) -> None:
    assert _args(name, args) == want


def test_gates_decide_about_some_defaults() -> None:
    off = Features(DRASchedulerFilterTimeout=False, DRADeviceBindingConditions=False)
    assert _args("DynamicResources", None, off) == DynamicResourcesArgs()
    on = Features(StorageCapacityScoring=True)
    shape = [UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)]
    assert _args("VolumeBinding", None, on) == VolumeBindingArgs(shape=shape)


@pytest.mark.parametrize(
    ("document", "want"),
    [
        pytest.param({}, (True, True), id="both on by default"),
        pytest.param({"enableProfiling": False}, (False, False), id="contention profiling follows"),
        pytest.param({"enableContentionProfiling": False}, (True, False), id="unless it is said"),
    ],
)
def test_profiling(document: dict[str, Any], want: tuple[bool, bool]) -> None:
    config = config_from_dict(document)
    assert (config.enable_profiling, config.enable_contention_profiling) == want


def test_zeros_that_stand_for_defaults() -> None:
    config = config_from_dict(
        {"leaderElection": {"leaseDuration": "0s", "resourceName": ""}, "clientConnection": {"qps": 0, "burst": 0}}
    )
    assert config.leader_election == default_config().leader_election
    assert config.client_connection == default_config().client_connection


def test_extenders_are_read() -> None:
    config = config_from_dict(
        {
            "extenders": [
                {
                    "urlPrefix": "https://x/",
                    "enableHTTPS": True,
                    "httpTimeout": "250ms",
                    "tlsConfig": {"caData": "Y2E=", "caFile": "ca.pem"},
                    "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
                },
                {"urlPrefix": "http://y"},
            ]
        }
    )
    first, second = config.extenders
    assert first.enable_https
    assert first.request_timeout_s == 0.25
    assert first.tls_config is not None
    assert (first.tls_config.ca_data, first.tls_config.ca_file) == (b"ca", "ca.pem")
    assert first.managed_resources == [ExtenderManagedResource("example.com/gpu", True)]
    assert second.request_timeout_s == 5.0
