"""Feature gates: the table, and what --feature-gates may say."""

from __future__ import annotations

import pytest

from mooring.config.features import DEFAULT_FEATURES, GATES, Features, Stage, parse_feature_gates
from mooring.errors import UsageError


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
        pytest.param(["NodeDeclaredFeatures=false"], {"NodeDeclaredFeatures": False}, id="one gate"),
        pytest.param(["kube:NodeDeclaredFeatures=false"], {"NodeDeclaredFeatures": False}, id="with its component"),
        pytest.param(
            [" VolumeLimitScaling=true , GenericWorkload=1 "],
            {"VolumeLimitScaling": True, "GenericWorkload": True},
            id="several, with blanks and Go's booleans",
        ),
        pytest.param(["GangScheduling=true", "GangScheduling=false"], {}, id="the last word counts"),
        pytest.param(["SchedulerQueueingHints=true"], {}, id="a locked gate with its own value"),
        pytest.param(["WatchList=false"], {}, id="somebody else's gate"),
    ],
)
def test_parse(texts: list[str], changed: dict[str, bool]) -> None:
    assert parse_feature_gates(texts).changed() == changed


def test_all_alpha_spares_what_is_named() -> None:
    features = parse_feature_gates(["AllAlpha=true,GangScheduling=false"])
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
            'unrecognized feature gate: GangSchedulin; did you mean "GangScheduling"?',
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
