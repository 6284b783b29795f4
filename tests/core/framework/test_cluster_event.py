"""Events: which registration is about what happened, and what it is called (spec 3.8)."""

from __future__ import annotations

import pytest

from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventRegistration, EventResource, Hint, on

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
        pytest.param((R.NODE, A.UPDATE_NODE_LABEL), (R.NODE, A.UPDATE), False, id="one update is not any"),
        pytest.param((R.NODE, A.UPDATE), (R.NODE, A.ADD), False, id="an update is no addition"),
        pytest.param((R.POD, A.DELETE), (R.ASSIGNED_POD, A.DELETE), True, id="pods on nodes are pods"),
        pytest.param((R.POD, A.ADD), (R.UNSCHEDULABLE_POD, A.ADD), True, id="waiting pods are pods"),
        pytest.param((R.ASSIGNED_POD, A.ADD), (R.POD, A.ADD), False, id="not the other way round"),
        pytest.param((R.WILDCARD, A.ALL), (R.STORAGE_CLASS, A.ADD), True, id="everything"),
        pytest.param((R.WILDCARD, A.ADD), (R.NODE, A.ADD), True, id="any kind, one action"),
        pytest.param((R.WILDCARD, A.ADD), (R.NODE, A.DELETE), False, id="any kind, another action"),
        pytest.param((R.RESOURCE_CLAIM, A.ALL), (R.RESOURCE_SLICE, A.ADD), False, id="kinds of one group differ"),
    ],
)
def test_covers(
    registered: tuple[EventResource, ActionType], happened: tuple[EventResource, ActionType], covered: bool
) -> None:
    assert event(*registered).covers(event(*happened)) is covered


@pytest.mark.parametrize(
    ("resource", "action", "custom", "label"),
    [
        pytest.param(R.ASSIGNED_POD, A.DELETE, "", "AssignedPodDelete", id="kind and action"),
        pytest.param(R.NODE, A.UPDATE_NODE_TAINT, "", "NodeUpdateNodeTaint", id="a part of an update"),
        pytest.param(R.RESOURCE_CLAIM, A.UPDATE, "", "resource.k8s.io/ResourceClaimUpdate", id="with its group"),
        pytest.param(R.WILDCARD, A.ALL, "", "*All", id="everything"),
        pytest.param(R.NODE, A.ADD | A.UPDATE_NODE_LABEL, "", "Node9", id="several actions have no name"),
        pytest.param(R.NODE, A.ADD, "MyLabel", "MyLabel", id="a name of its own"),
    ],
)
def test_labels(resource: EventResource, action: ActionType, custom: str, label: str) -> None:
    assert ClusterEvent(resource, action, custom).label == label


def test_updates_are_the_sum_of_their_kinds() -> None:
    parts = [action for action in ActionType if action not in (A.ADD, A.DELETE, A.UPDATE, A.ALL)]
    assert sum(parts) == A.UPDATE and A.UPDATE | A.ADD | A.DELETE == A.ALL


@pytest.mark.parametrize(
    ("resource", "action", "is_wildcard"),
    [(R.WILDCARD, A.ALL, True), (R.WILDCARD, A.ADD, False), (R.NODE, A.ALL, False)],
    ids=["everything", "one action", "one kind"],
)
def test_what_a_wildcard_is(resource: EventResource, action: ActionType, is_wildcard: bool) -> None:
    assert event(resource, action).is_wildcard is is_wildcard


def test_events_are_values() -> None:
    assert event(R.NODE, A.ADD) == event(R.NODE, A.ADD) != event(R.NODE, A.DELETE)
    assert len({event(R.NODE, A.ADD), event(R.NODE, A.ADD), event(R.POD, A.ADD)}) == 2
    assert ClusterEvent(R.NODE, A.ADD, "Mine") != event(R.NODE, A.ADD)


def test_a_registration_has_a_hint_or_none() -> None:
    hint = lambda pod, old, new: Hint.SKIP  # noqa: E731
    assert on(R.NODE, A.ADD) == EventRegistration(event(R.NODE, A.ADD), None)
    assert on(R.NODE, A.ADD, hint).hint is hint
