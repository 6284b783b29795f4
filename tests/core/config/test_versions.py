"""Versions of Kubernetes: which there are, which one is nearest, and how they differ."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mooring
from mooring.api.errors import ConfigError, UsageError
from mooring.api.type_table import types
from mooring.core.config.defaults import default_plugins
from mooring.core.config.features import Features, parse_feature_gates
from mooring.core.config.load import config_from_dict, examine
from mooring.core.config.profile import expand_all
from mooring.core.config.types import (
    API_VERSION,
    KIND,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from mooring.core.config.validation import validate_args
from mooring.core.config.versions import (
    CHANGES,
    V1_34,
    V1_35,
    V1_36,
    V1_37,
    V1_38,
    VERSIONS,
    KubernetesVersion,
    Stage,
    differences,
    nearest_version,
    parse_version,
)

OLDEST, *_, NEWEST = VERSIONS.values()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("1.36", V1_36, id="major and minor"),
        pytest.param("v1.37.0-rc.1", V1_37, id="a tag"),
        pytest.param("1.37+", V1_37, id="a provider's"),
    ],
)
def test_a_version_that_is_asked_for(text: str, version: KubernetesVersion) -> None:
    assert parse_version(text) is version


@pytest.mark.parametrize("text", ["1.33", "1.39", "2.36", "", "new", "137"])
def test_a_version_that_there_is_not(text: str) -> None:
    with pytest.raises(UsageError) as e:
        parse_version(text)
    assert str(e.value) == f"--kubernetes-version: found {text!r}, expected one of {', '.join(VERSIONS)}"


@pytest.mark.parametrize(
    ("release", "version", "warning"),
    [
        pytest.param((0, 0), V1_36, "", id="a cluster that does not say"),
        pytest.param((1, 36), V1_36, "", id="one that there is"),
        pytest.param(
            (1, 38),
            NEWEST,
            "1.38 is a preview here: it has what was merged or announced upstream by September 2026",
            id="one that is not released",
        ),
        pytest.param(
            (1, 30),
            OLDEST,
            f"the cluster is Kubernetes 1.30; deciding as {OLDEST}, the nearest version: "
            f"features and texts that came with {OLDEST} or before may differ",
            id="older than the oldest",
        ),
        pytest.param(
            (1, 50),
            NEWEST,
            f"the cluster is Kubernetes 1.50; deciding as {NEWEST}, the nearest version: "
            f"what changed after {NEWEST} is not known here",
            id="newer than the newest",
        ),
    ],
)
def test_the_nearest_version(release: tuple[int, int], version: KubernetesVersion, warning: str) -> None:
    assert nearest_version(release) == (version, warning)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("StorageCapacityScoring", (False, Stage.ALPHA, False), (True, Stage.BETA, False)),
        ("VolumeLimitScaling", (False, Stage.ALPHA, False), (True, Stage.BETA, False)),
        ("DRADeviceTaintRules", (False, Stage.BETA, False), (True, Stage.GA, False)),
        ("DRAPrioritizedList", (True, Stage.GA, False), (True, Stage.GA, True)),
        ("NodeDeclaredFeatures", (True, Stage.BETA, False), (True, Stage.GA, True)),
        ("GenericWorkload", (False, Stage.ALPHA, False), (False, Stage.BETA, False)),
        ("TaintTolerationComparisonOperators", (False, Stage.ALPHA, False), (False, Stage.ALPHA, False)),
        ("SchedulerQueueingHints", (True, Stage.GA, True), None),
        ("CompositePodGroup", None, (False, Stage.ALPHA, False)),
    ],
)
def test_gates_by_version(name: str, before: object, after: object) -> None:
    for version, want in ((V1_36, before), (V1_37, after)):
        gate = version.gates.get(name)
        assert (None if gate is None else (gate.default, gate.stage, gate.locked)) == want


def test_a_merged_gate_is_what_it_was_merged_into() -> None:
    assert not Features(V1_37)["GangScheduling"]
    assert Features(V1_37, GenericWorkload=True)["GangScheduling"]
    assert not Features(V1_36, GenericWorkload=True)["GangScheduling"]


def test_a_gate_of_another_version_is_off_and_cannot_be_set() -> None:
    assert not Features(V1_36)["CompositePodGroup"]
    with pytest.raises(KeyError):
        Features(V1_36, CompositePodGroup=True)
    with pytest.raises(UsageError) as e:
        parse_feature_gates(["SchedulerQueueingHints=true"], V1_37)
    assert str(e.value) == (
        "--feature-gates: unrecognized feature gate: SchedulerQueueingHints; "
        "Kubernetes 1.34, 1.35, 1.36 have it, 1.37 has not"
    )


def test_changes_are_no_gates() -> None:
    assert Features(V1_37)["DeallocationIsSilent"] and not Features(V1_36)["DeallocationIsSilent"]
    assert not set(CHANGES) & {name for version in VERSIONS.values() for name in version.gates}
    with pytest.raises(UsageError):
        parse_feature_gates(["DeallocationIsSilent=true"], V1_37)
    with pytest.raises(KeyError):
        Features()["Nonsense"]


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_every_change_is_heeded_somewhere(name: str) -> None:
    source = Path(mooring.__file__).parent
    files = (path for path in source.rglob("*.py") if path.name != "versions.py")
    assert any(f'"{name}"' in path.read_text() for path in files)


def test_only_one_place_knows_versions() -> None:
    """Nothing that decides asks which version it is: it asks for a gate or a change by name."""
    source = Path(mooring.__file__).parent / "core"
    for package in ("plugins", "engine", "framework", "queue", "state"):
        for path in (source / package).rglob("*.py"):
            text = path.read_text()
            assert "V1_3" not in text and "version.minor" not in text, path


def test_default_order() -> None:
    first = {version: [plugin.name for plugin in default_plugins(Features(version))][2:4] for version in (V1_36, V1_37)}
    assert first == {V1_36: ["NodeUnschedulable", "NodeName"], V1_37: ["NodeName", "NodeUnschedulable"]}


def test_a_plugin_runs_only_where_its_version_lets_it() -> None:
    document = {"profiles": [{"plugins": {"preFilter": {"enabled": [{"name": "NodeName"}]}}}]}
    expanded = expand_all(config_from_dict(document, Features(V1_37)), version=V1_37)
    assert expanded["default-scheduler"]["preFilter"][0] == ("NodeName", 0)
    with pytest.raises(ConfigError, match="NodeName"):
        expand_all(config_from_dict(document), version=V1_36)


@pytest.mark.parametrize(
    ("strategy", "version", "problem"),
    [
        pytest.param("LeastAllocated", V1_36, "must be nil when type is not RequestedToCapacityRatio", id="1.36"),
        pytest.param("LeastAllocated", V1_35, "", id="1.35 lets it pass"),
    ],
)
def test_a_capacity_ratio_without_its_strategy(strategy: str, version: KubernetesVersion, problem: str) -> None:
    ratio = RequestedToCapacityRatioParam([UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10)])
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(strategy, [ResourceSpec("cpu", 1)], ratio))
    problems = validate_args(args, features=Features(version))
    assert bool(problems) == bool(problem)
    assert all(problem in each for each in problems)


def test_what_differs_between_two_versions() -> None:
    found = {change.name: change for change in differences(V1_35, V1_36)}
    assert found["BalanceCountsImprovement"].upstream == "kubernetes#135573"
    assert found["NodeDeclaredFeatures"].says == "ALPHA off → BETA on"
    assert "NodeNameComesFirst" not in found
    assert not list(differences(V1_36, V1_36))
    both = {change.name for change in differences(V1_35, V1_37)}
    assert {change.name for change in CHANGES.values() if change.since in (36, 37)} <= both


def test_every_change_names_its_upstream_change() -> None:
    assert all(re.fullmatch(r"kubernetes#\d{6}", change.upstream) for change in CHANGES.values())


@pytest.mark.parametrize(
    ("version", "unknown"),
    [
        pytest.param(V1_35, ["placementFeasible", "placementScore", "podGroupPostFilter"], id="1.35"),
        pytest.param(V1_36, ["placementFeasible", "podGroupPostFilter"], id="1.36"),
        pytest.param(V1_37, ["placementFeasible"], id="1.37"),
        pytest.param(V1_38, [], id="1.38"),
    ],
)
def test_fields_that_a_version_does_not_know(version: KubernetesVersion, unknown: list[str]) -> None:
    plugins = {
        "placementGenerate": {},
        "placementScore": {"enabled": [{"name": "NodeResourcesFit"}]},
        "placementFeasible": {"disabled": [{"name": "*"}]},
        "podGroupPostFilter": {"disabled": [{"name": "*"}]},
    }
    document = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"plugins": plugins}]}
    _, problems = examine(document, Features(version))
    where = f"in Kubernetes {version}"
    assert problems == [
        f'strict decoding error: unknown field "profiles[0].plugins.{name}" {where}' for name in unknown
    ]


def test_every_field_of_the_api_that_came_later_is_in_the_table_of_types() -> None:
    known = {f"{name}.{field}" for name, described in types().items() for field in described.fields}
    assert V1_34.later_api_fields <= known
    assert V1_37.later_api_fields == frozenset()
    assert V1_36.later_api_fields < V1_35.later_api_fields < V1_34.later_api_fields
