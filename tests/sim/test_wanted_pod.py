"""What a story expects of a pod: how it is said, and how a pod differs from it."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.sim.scenario import WantedPod


def a_pod(node: str = "", phase: str = "Pending", message: str = "", nominated: str = "") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "False"}, *([condition] if message else [])],
            **({"nominatedNodeName": nominated} if nominated else {}),
        },
    }


def wanted(**fields: Any) -> WantedPod:
    return WantedPod(**{"nodes": None, "phase": None, "pending": None, "nominated": None, **fields})


FULL = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.mark.parametrize(
    ("want", "pod", "difference"),
    [
        pytest.param(wanted(), None, "it does not exist", id="no pod"),
        pytest.param(wanted(), a_pod(), "", id="any pod"),
        pytest.param(wanted(nodes=["a"]), a_pod("a"), "", id="on its node"),
        pytest.param(wanted(nodes=["a", "b"]), a_pod("b"), "", id="on one of two"),
        pytest.param(wanted(nodes=["a"]), a_pod("b"), "it is on b", id="on another"),
        pytest.param(wanted(nodes=["a"]), a_pod(), "it has no node: it was not tried yet", id="not tried"),
        pytest.param(wanted(nodes=["a"]), a_pod(message=FULL), f"it has no node: {FULL}", id="refused"),
        pytest.param(wanted(nodes=[""]), a_pod(), "", id="no node, as expected"),
        pytest.param(wanted(nodes=[""]), a_pod("a"), "it is on a", id="a node that was not expected"),
        pytest.param(wanted(phase="Running"), a_pod("a", "Running"), "", id="in its phase"),
        pytest.param(wanted(phase="Running"), a_pod("a"), "it is Pending", id="in another phase"),
        pytest.param(wanted(pending=True), a_pod(message=FULL), "", id="pending"),
        pytest.param(wanted(pending=True), a_pod(), "it was not tried yet", id="pending, but not tried"),
        pytest.param(wanted(pending=True), a_pod("a"), "it is on a", id="pending, but placed"),
        pytest.param(wanted(pending="Insufficient cpu"), a_pod(message=FULL), "", id="pending because of cpu"),
        pytest.param(wanted(pending="memory"), a_pod(message=FULL), f"it says {FULL!r}", id="for another reason"),
        pytest.param(wanted(pending="memory"), a_pod(), "it does not say why it waits", id="for no reason yet"),
        pytest.param(wanted(pending=False), a_pod("a"), "", id="not pending"),
        pytest.param(wanted(pending=False), a_pod(message=FULL), f"it has no node: {FULL}", id="still pending"),
        pytest.param(wanted(nominated="a"), a_pod(nominated="a"), "", id="nominated"),
        pytest.param(wanted(nominated="a"), a_pod(), "its nominated node is none", id="not nominated"),
        pytest.param(
            wanted(nominated=""), a_pod(nominated="a"), "its nominated node is a", id="nominated all the same"
        ),
    ],
)
def test_how_a_pod_differs(want: WantedPod, pod: dict[str, Any] | None, difference: str) -> None:
    assert want.compare(pod) == difference


@pytest.mark.parametrize(
    ("want", "text"),
    [
        pytest.param(wanted(), "exists", id="nothing"),
        pytest.param(wanted(nodes=["a", "b"]), "is on a or b", id="nodes"),
        pytest.param(wanted(nodes=[""]), "has no node", id="no node"),
        pytest.param(wanted(phase="Running", nodes=["a"]), "is on a and is Running", id="two things"),
        pytest.param(wanted(pending=True), "is pending", id="pending"),
        pytest.param(wanted(pending="cpu"), 'is pending because "cpu"', id="for a reason"),
        pytest.param(wanted(nominated="a"), "is nominated to a", id="nominated"),
        pytest.param(wanted(nominated=""), "is nominated to no node", id="not nominated"),
    ],
)
def test_the_text_of_an_expectation(want: WantedPod, text: str) -> None:
    assert str(want) == text
