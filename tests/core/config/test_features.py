"""Feature gates: the table, and what --feature-gates may say."""

from __future__ import annotations

from pathlib import Path

import pytest

import mooring
from mooring.api.errors import UsageError
from mooring.core.config.features import DEFAULT_FEATURES, UNSUPPORTED, Features, check_supported, parse_feature_gates
from mooring.core.config.versions import V1_36, Stage

GATES = V1_36.gates


@pytest.mark.parametrize(
    ("name", "on", "stage", "locked"),
    [
        ("SchedulerQueueingHints", True, Stage.GA, True),
        ("DRAPrioritizedList", True, Stage.GA, False),
        ("SchedulerAsyncPreemption", True, Stage.BETA, False),
        ("SchedulerAsyncAPICalls", False, Stage.BETA, False),
        ("GenericWorkload", False, Stage.ALPHA, False),
    ],
)
def test_the_table(name: str, on: bool, stage: Stage, locked: bool) -> None:
    gate = GATES[name]
    assert (gate.default, gate.stage, gate.locked) == (on, stage, locked)
    assert DEFAULT_FEATURES[name] is on


def test_alpha_is_off_and_ga_is_on() -> None:
    assert all(gate.default is (gate.stage is Stage.GA) for gate in GATES.values() if gate.stage is not Stage.BETA)


@pytest.mark.parametrize(
    ("texts", "changed"),
    [
        pytest.param([], {}, id="nothing said"),
        pytest.param(["OpportunisticBatching=false"], {"OpportunisticBatching": False}, id="one gate"),
        pytest.param(["kube:OpportunisticBatching=false"], {"OpportunisticBatching": False}, id="with its component"),
        pytest.param(
            [" VolumeLimitScaling=true , GenericWorkload=1 "],
            {"VolumeLimitScaling": True, "GenericWorkload": True},
            id="several, with blanks and Go's booleans",
        ),
        pytest.param(["StorageCapacityScoring=true", "StorageCapacityScoring=false"], {}, id="the last word counts"),
        pytest.param(["SchedulerQueueingHints=true"], {}, id="a locked gate with its own value"),
        pytest.param(["WatchList=false"], {}, id="a gate of another component"),
    ],
)
def test_parse(texts: list[str], changed: dict[str, bool]) -> None:
    assert parse_feature_gates(texts).changed() == changed


def test_all_alpha_spares_what_is_named() -> None:
    features = parse_feature_gates(["AllAlpha=true,GangScheduling=false,WorkloadAwarePreemption=false"])
    assert features["GenericWorkload"]
    assert not features["GangScheduling"]
    assert not features["SchedulerAsyncAPICalls"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
            id="a locked gate",
        ),
        pytest.param(
            "GangSchedulin=true",
            "unrecognized feature gate: GangSchedulin; did you mean GangScheduling?",
            id="a misspelt gate",
        ),
        pytest.param(
            "GangScheduling",
            "missing bool value for GangScheduling; write GangScheduling=true or GangScheduling=false",
            id="no value",
        ),
        pytest.param(
            "GangScheduling=yes",
            'invalid value of GangScheduling=yes, found "yes", want true or false',
            id="not a boolean",
        ),
        pytest.param(
            "PodLevelResources=false",
            "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: "
            "[PodLevelResources]",
            id="a gate that another one needs",
        ),
        pytest.param("wardle:X=true", 'component not registered: wardle; only "kube" is', id="another component"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(UsageError) as e:
        parse_feature_gates([text])
    assert str(e.value) == f"--feature-gates: {message}"


def test_features_are_values() -> None:
    assert Features(GangScheduling=True) == Features(GangScheduling=True) != Features()
    assert hash(Features(GangScheduling=True)) == hash(Features(GangScheduling=True))
    with pytest.raises(KeyError):
        Features(Nonsense=True)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        pytest.param(
            {"GenericWorkload": True},
            "GenericWorkload=true is not supported: pod groups are scheduled as Kubernetes 1.37 does "
            "(--kubernetes-version 1.37)",
            id="what is not there cannot be switched on",
        ),
        pytest.param(
            {"DRAPartitionableDevices": False},
            "DRAPartitionableDevices=false is not supported: devices that share counters are always understood",
            id="what is always there cannot be switched off",
        ),
        pytest.param(
            {"DRAListTypeAttributes": True, "CoordinatedLeaderElection": True},
            "CoordinatedLeaderElection=true is not supported: leaders are elected by leases alone; "
            "DRAListTypeAttributes=true is not supported: attributes of devices that are lists are not understood",
            id="all are named",
        ),
    ],
)
def test_a_gate_that_cannot_be_heeded_is_refused(changed: dict[str, bool], message: str) -> None:
    with pytest.raises(UsageError) as e:
        check_supported(Features(**changed))
    assert str(e.value) == f"--feature-gates: {message}"


ANYWHERE = {
    "SchedulerAsyncAPICalls",
    "ClearingNominatedNodeNameAfterBinding",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge",
}


@pytest.mark.parametrize("name", [name for name, gate in GATES.items() if not gate.locked])
def test_every_gate_is_heeded_or_refused(name: str) -> None:
    """A gate that is accepted and named nowhere would be ignored in silence."""
    if name in UNSUPPORTED or name in V1_36.unsupported:
        with pytest.raises(UsageError):
            check_supported(Features(**{name: not GATES[name].default}))
        return
    check_supported(Features(**{name: not GATES[name].default}))
    source = Path(mooring.__file__).parent
    files = (path for path in source.rglob("*.py") if path.name != "features.py")
    assert name in ANYWHERE or any(f'"{name}"' in path.read_text() for path in files)
