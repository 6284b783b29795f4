"""Status patches: only what changes is sent, as recorded from kube-scheduler."""

from __future__ import annotations

import pytest

from mooring.api.core import Pod, PodStatus
from mooring.api.meta import Condition, ObjectMeta
from mooring.live.status_patch import disruption_target, is_condition_current, pod_scheduled, status_patch

NOW = 1_794_774_338.5
STAMP = "2026-11-15T20:25:38Z"
OLD = Condition("PodScheduled", "False", "Unschedulable", "no room", 1, "2026-01-01T00:00:00Z")
READY = Condition("Ready", "True")


def make_pod(*conditions, nominated="", generation=1):
    status = PodStatus(conditions=list(conditions), nominated_node_name=nominated)
    return Pod(metadata=ObjectMeta(name="p", namespace="d", generation=generation), status=status)


def whole(message="no room", **more):
    return {
        "lastProbeTime": None,
        "lastTransitionTime": STAMP,
        "message": message,
        "observedGeneration": 1,
        "reason": "Unschedulable",
        "status": "False",
        "type": "PodScheduled",
        **more,
    }


ORDER = "$setElementOrder/conditions"


@pytest.mark.parametrize(
    ("pod", "message", "nominated", "want"),
    [
        pytest.param(make_pod(), "no room", None, {"conditions": [whole()]}, id="the first condition is sent whole"),
        pytest.param(make_pod(OLD), "no room", None, None, id="the same again is not sent"),
        pytest.param(
            make_pod(OLD),
            "no room at all",
            None,
            {ORDER: [{"type": "PodScheduled"}], "conditions": [{"message": "no room at all", "type": "PodScheduled"}]},
            id="of a known condition only what changed is sent",
        ),
        pytest.param(
            make_pod(READY),
            "no room",
            None,
            {ORDER: [{"type": "Ready"}, {"type": "PodScheduled"}], "conditions": [whole()]},
            id="beside another condition the order is said",
        ),
        pytest.param(
            make_pod(Condition("PodScheduled", "True")),
            "no room",
            None,
            {
                ORDER: [{"type": "PodScheduled"}],
                "conditions": [
                    {
                        "lastTransitionTime": STAMP,
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "no room",
                        "observedGeneration": 1,
                        "type": "PodScheduled",
                    }
                ],
            },
            id="the time moves when the status does",
        ),
        pytest.param(
            make_pod(),
            "no room",
            "node-1",
            {"conditions": [whole()], "nominatedNodeName": "node-1"},
            id="a nomination goes along",
        ),
        pytest.param(
            make_pod(OLD, nominated="node-1"),
            "no room",
            "",
            {"nominatedNodeName": None},
            id="a nomination is taken back",
        ),
        pytest.param(
            make_pod(OLD, generation=2),
            "no room",
            "node-1",
            {
                ORDER: [{"type": "PodScheduled"}],
                "conditions": [{"observedGeneration": 2, "type": "PodScheduled"}],
                "nominatedNodeName": "node-1",
            },
            id="the generation goes along with a nomination",
        ),
        pytest.param(make_pod(OLD, generation=2), "no room", None, None, id="the generation alone is not sent"),
        pytest.param(
            make_pod(OLD),
            "",
            None,
            {ORDER: [{"type": "PodScheduled"}], "conditions": [{"message": None, "type": "PodScheduled"}]},
            id="an empty message is taken back",
        ),
        pytest.param(make_pod(OLD, nominated="node-1"), "no room", None, None, id="a nomination is left alone"),
        pytest.param(make_pod(OLD, nominated="n"), "no room", "n", None, id="the same nomination is not sent"),
        pytest.param(
            make_pod(OLD, generation=2),
            "other",
            None,
            {
                ORDER: [{"type": "PodScheduled"}],
                "conditions": [{"message": "other", "observedGeneration": 2, "type": "PodScheduled"}],
            },
            id="the generation goes along when something else changes",
        ),
    ],
)
def test_pod_scheduled(pod, message, nominated, want):
    condition = pod_scheduled(pod, "Unschedulable", message)
    patch = status_patch(pod, NOW, condition=condition, nominated_node=nominated)
    assert patch == (None if want is None else {"status": want})


def test_a_nomination_alone():
    assert status_patch(make_pod(), NOW, nominated_node="a") == {"status": {"nominatedNodeName": "a"}}


def test_a_victim_has_a_condition_that_names_the_preemptor():
    patch = status_patch(make_pod(), NOW, condition=disruption_target(make_pod(), "mine"))
    (condition,) = patch["status"]["conditions"]
    assert condition == whole(
        "mine: preempting to accommodate a higher priority pod",
        reason="PreemptionByScheduler",
        status="True",
        type="DisruptionTarget",
    )


@pytest.mark.parametrize("known", [(), (READY,), (OLD,), (READY, OLD)])
@pytest.mark.parametrize("there", ["", "a"])
@pytest.mark.parametrize("nominated", [None, "", "a", "b"])
@pytest.mark.parametrize(
    ("reason", "message"), [("Unschedulable", "no room"), ("SchedulerError", "no room"), ("Unschedulable", "x")]
)
def test_a_current_condition_needs_no_patch(known, there, nominated, reason, message):
    pod = make_pod(*known, nominated=there)
    patch = status_patch(pod, NOW, condition=pod_scheduled(pod, reason, message), nominated_node=nominated)
    assert is_condition_current(pod, reason, message, nominated) == (patch is None)
