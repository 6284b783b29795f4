"""Events: which registration is about what happened, and what it is called (spec 3.8)."""

from __future__ import annotations

import pytest

from mooring.framework.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.framework.cycle_state import CycleState

A, R = ActionType, EventResource


def event(resource: EventResource, action: ActionType) -> ClusterEvent:
    return ClusterEvent(resource, action)


@pytest.mark.parametrize(
    ("registered", "happened", "covered"),
    [
        pytest.param((R.NODE, A.ADD), (R.NODE, A.ADD), True, id="the same"),
        pytest.param((R.NODE, A.ADD), (R.NODE, A.DELETE), False, id="another action"),
        pytest.param((R.NODE, A.ADD), (R.POD, A.ADD), False, id="another kind"),
        pytest.param((R.NODE, A.ADD | A.UPDATE_NODE_TAINT), (R.NODE, A.UPDATE_NODE_TAINT), True, id="one of several"),
        pytest.param((R.NODE, A.UPDATE), (R.NODE, A.UPDATE_NODE_LABEL), True, id="any update"),
        pytest.param((R.NODE, A.UPDATE), (R.NODE, A.ADD), False, id="an update is no addition"),
        pytest.param((R.POD, A.DELETE), (R.ASSIGNED_POD, A.DELETE), True, id="pods on nodes are pods"),
        pytest.param((R.POD, A.ADD), (R.UNSCHEDULABLE_POD, A.ADD), True, id="waiting pods are pods"),
        pytest.param((R.ASSIGNED_POD, A.ADD), (R.POD, A.ADD), False, id="not the other way round"),
        pytest.param((R.WILDCARD, A.ALL), (R.STORAGE_CLASS, A.ADD), True, id="everything"),
        pytest.param((R.WILDCARD, A.ADD), (R.NODE, A.ADD), True, id="any kind, one action"),
        pytest.param((R.WILDCARD, A.ADD), (R.NODE, A.DELETE), False, id="any kind, another action"),
    ],
)
def test_covers(
    registered: tuple[EventResource, ActionType], happened: tuple[EventResource, ActionType], covered: bool
) -> None:
    assert event(*registered).covers(event(*happened)) is covered


def test_labels() -> None:
    assert event(R.ASSIGNED_POD, A.DELETE).label == "AssignedPodDelete"
    assert event(R.NODE, A.UPDATE_NODE_TAINT).label == "NodeUpdateNodeTaint"
    assert ClusterEvent(R.NODE, A.ADD, "MyLabel").label == "MyLabel"


def test_updates_are_the_sum_of_their_kinds() -> None:
    parts = [action for action in ActionType if action not in (A.ADD, A.DELETE, A.UPDATE, A.ALL)]
    assert sum(parts) == A.UPDATE and A.UPDATE | A.ADD | A.DELETE == A.ALL


def test_cycle_state_clones_what_can_be_cloned_and_shares_the_rest() -> None:
    class Counter:
        def __init__(self, n: int = 0) -> None:
            self.n = n

        def clone(self) -> Counter:
            return Counter(self.n)

    state, shared = CycleState(), [1]
    state.write("counter", Counter(3))
    state.write("shared", shared)
    state.skip_filter.add("X")
    thought = state.clone()
    thought.read("counter").n = 4
    assert state.read("counter").n == 3 and thought.read("shared") is shared
    assert thought.skip_filter == {"X"} and state.read("missing") is None
