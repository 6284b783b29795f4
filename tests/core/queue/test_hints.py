"""The hint decision, and which plugin listens to which events."""

from __future__ import annotations

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.core import Node
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource, Hint, on
from mooring.core.framework.extender import EXTENDER_PLUGIN
from mooring.core.framework.registry import resolve
from mooring.core.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
)
from mooring.core.queue.profile import (
    EVERYTHING,
    HintTable,
    MoveStrategy,
    PluginHint,
    QueueProfile,
    QueueRecorder,
    queue_profile,
    registered_hints,
    split_pod_event,
)
from mooring.core.queue.queued_pod import QueuedPodInfo


def yes(pod, old, new):
    return Hint.QUEUE


def no(pod, old, new):
    return Hint.SKIP


def broken(pod, old, new):
    raise RuntimeError("a bug")


def table(*hints, recorder=None, **more):
    profiles = [QueueProfile("default-scheduler", hints=hints)]
    profiles += [QueueProfile(name, hints=tuple(others)) for name, others in more.items()]
    return HintTable(profiles, VirtualClock(), recorder or QueueRecorder())


def refused(info, unschedulable=(), pending=(), name="a"):
    pod = QueuedPodInfo(info(name), 0.0, 1)
    pod.unschedulable_plugins, pod.pending_plugins = frozenset(unschedulable), frozenset(pending)
    return pod


SKIP, AFTER_BACKOFF, IMMEDIATELY = MoveStrategy


@pytest.mark.parametrize(
    ("hints", "unschedulable", "pending", "want"),
    [
        pytest.param([], (), (), AFTER_BACKOFF, id="a pod without rejectors is always retried"),
        pytest.param([("P", yes)], ("P",), (), AFTER_BACKOFF, id="a yes is worth an attempt after backoff"),
        pytest.param([("P", None)], ("P",), (), AFTER_BACKOFF, id="no hint at all is a yes"),
        pytest.param([("P", no)], ("P",), (), SKIP, id="a no is not"),
        pytest.param([("Q", yes)], ("P",), (), SKIP, id="plugins that did not refuse are not asked"),
        pytest.param([("P", no), ("Q", yes)], ("P", "Q"), (), AFTER_BACKOFF, id="one yes is enough"),
        pytest.param([("P", no), ("P", yes)], ("P",), (), AFTER_BACKOFF, id="a plugin may register twice"),
        pytest.param([("P", yes)], (), ("P",), IMMEDIATELY, id="a yes from a pending plugin skips backoff"),
        pytest.param([("P", yes), ("Q", yes)], ("P",), ("Q",), IMMEDIATELY, id="pending beats unschedulable, later"),
        pytest.param([("Q", yes), ("P", yes)], ("P",), ("Q",), IMMEDIATELY, id="pending beats unschedulable, first"),
        pytest.param([("P", yes), ("Q", no)], ("P",), ("Q",), AFTER_BACKOFF, id="a pending plugin's no leaves backoff"),
        pytest.param([("P", broken)], ("P",), (), AFTER_BACKOFF, id="a hint that fails counts as a yes"),
    ],
)
def test_decision(info, hints, unschedulable, pending, want):
    registered = [PluginHint(plugin, NODE_ADD, hint) for plugin, hint in hints]
    assert table(*registered).decide(refused(info, unschedulable, pending), NODE_ADD, None, Node()) is want


@pytest.mark.parametrize(
    ("event", "target", "want"),
    [
        pytest.param(UNSCHEDULABLE_TIMEOUT, None, AFTER_BACKOFF, id="a wildcard is for everyone"),
        pytest.param(FORCE_ACTIVATE, "a", AFTER_BACKOFF, id="a wildcard for this pod"),
        pytest.param(FORCE_ACTIVATE, "b", SKIP, id="a wildcard for another pod"),
    ],
)
def test_wildcards(info, pod, event, target, want):
    new = pod(target) if target else None
    assert table().decide(refused(info, ("P",)), event, None, new) is want


def test_other_profiles_hints_are_not_asked(info):
    hints = table(other=[PluginHint("P", NODE_ADD, yes)])
    assert hints.is_of_interest(NODE_ADD)
    assert hints.decide(refused(info, ("P",)), NODE_ADD, None, Node()) is SKIP


@pytest.mark.parametrize(
    ("resource", "action", "event", "want"),
    [
        pytest.param("POD", "ADD", ASSIGNED_POD_ADD, True, id="Pod covers assigned pods"),
        pytest.param("POD", "ADD", ASSIGNED_POD_DELETE, False, id="but only for its actions"),
        pytest.param("NODE", "ADD", ASSIGNED_POD_ADD, False, id="another resource"),
        pytest.param("WILDCARD", "ADD", ASSIGNED_POD_ADD, True, id="any resource"),
        pytest.param("WILDCARD", "ALL", ASSIGNED_POD_DELETE, True, id="anything at all"),
    ],
)
def test_interest(resource, action, event, want):
    registered = ClusterEvent(EventResource[resource], ActionType[action])
    assert table(PluginHint("P", registered)).is_of_interest(event) is want


def test_wildcard_events_interest_everyone():
    assert table().is_of_interest(UNSCHEDULABLE_TIMEOUT)


def test_hints_are_timed_on_request(info, meter):
    hints = table(PluginHint("P", NODE_ADD, no), PluginHint("Q", NODE_ADD, broken), recorder=meter)
    hints.decide(refused(info, ("P", "Q")), NODE_ADD, None, Node())
    assert meter.hints == {("P", "NodeAdd", "QueueSkip"): 1, ("Q", "NodeAdd", "Error"): 1}


# ---- registrations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("registrations", "want"),
    [
        pytest.param(
            [on(EventResource.NODE, ActionType.ADD, yes)], [("NodeUpdateNodeTaint", None)], id="new nodes only"
        ),
        pytest.param(
            [on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL, yes)],
            [("NodeUpdateNodeTaint", None)],
            id="new nodes among others",
        ),
        pytest.param([on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)], [], id="taints, too"),
        pytest.param(
            [on(EventResource.NODE, ActionType.ADD), on(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)],
            [],
            id="taints, in another registration",
        ),
        pytest.param([on(EventResource.NODE, ActionType.DELETE)], [], id="no new nodes"),
        pytest.param([on(EventResource.POD, ActionType.ADD)], [], id="nothing about nodes"),
    ],
)
def test_registering_for_new_nodes_includes_taints(registrations, want):
    added = registered_hints("P", registrations)[len(registrations) :]
    assert [(hint.event.label, hint.hint) for hint in added] == want
    assert len(registered_hints("P", registrations, implies_taints=False)) == len(registrations), "since 1.37"


class Gatekeeper:
    name = "Gatekeeper"

    def pre_enqueue(self, pod):
        raise AssertionError

    def events_to_register(self):
        return [on(EventResource.POD, ActionType.DELETE)]


class Silent:
    name = "Silent"

    def pre_enqueue(self, pod):
        raise AssertionError


class Content:
    name = "Content"

    def pre_enqueue(self, pod):
        raise AssertionError

    def events_to_register(self):
        return []


class OnlyScores:
    name = "OnlyScores"

    def score(self, state, pod, nodes):
        raise AssertionError

    def events_to_register(self):
        raise AssertionError("a plugin that rejects no pod is not asked")


def test_queue_profile_asks_the_plugins():
    gatekeeper = resolve(Gatekeeper())
    plugins = [gatekeeper, resolve(Content()), resolve(OnlyScores())]
    profile = queue_profile("s", plugins, pre_enqueue=[gatekeeper])
    assert profile.pre_enqueue == (gatekeeper,)
    assert [(hint.plugin, hint.event.label) for hint in profile.hints] == [("Gatekeeper", "PodDelete")]


def test_a_plugin_without_registrations_gets_all_events():
    profile = queue_profile("s", [resolve(Silent())], has_extenders=True)
    heard = {name: [h.event for h in profile.hints if h.plugin == name] for name in ("Silent", EXTENDER_PLUGIN)}
    assert heard["Silent"] == heard[EXTENDER_PLUGIN] == [registration.event for registration in EVERYTHING]


@pytest.mark.parametrize(
    ("action", "want"),
    [
        pytest.param(ActionType.DELETE, ["AssignedPodDelete"], id="others go"),
        pytest.param(ActionType.UPDATE_POD_TOLERATION, ["TargetPodUpdatePodToleration"], id="the pod tolerates more"),
        pytest.param(
            ActionType.UPDATE_POD_LABEL, ["AssignedPodUpdatePodLabel", "TargetPodUpdatePodLabel"], id="either's labels"
        ),
        pytest.param(ActionType.UPDATE, ["TargetPodUpdate"], id="any update is the pod's own"),
        pytest.param(ActionType.ALL, ["PodAll"], id="everything stays everything"),
    ],
)
def test_since_1_37_a_registration_says_whose_pod_it_means(action, want):
    assert [event.label for event in split_pod_event(ClusterEvent(EventResource.POD, action))] == want


def test_a_pods_own_updates_are_distinguished_from_new_pods():
    own = ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE)
    assert own.covers(ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_LABEL))
    assert not own.covers(ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE_POD_LABEL))
    assert not ClusterEvent(EventResource.TARGET_POD, ActionType.ALL).covers(
        ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)
    )
