"""The smaller parts: events in flight, nominations, drawers of waiting pods, what people see."""

from __future__ import annotations

import pytest

from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.core.queue.events import ASSIGNED_POD_ADD, NODE_ADD, NODE_DELETE, InFlight
from mooring.core.queue.nominator import QueueNominator
from mooring.core.queue.pending import wake_labels
from mooring.core.queue.profile import QueueRecorder
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.queue.sub_queues import UnschedulablePods

# ---- in flight -------------------------------------------------------------------------------------------------------


def test_events_before_anybody_flies_are_not_kept(info):
    flying = InFlight(QueueRecorder())
    flying.note(NODE_ADD, None, None)
    flying.start(QueuedPodInfo(info("a"), 0.0, 1))
    assert flying.since("uid-a") == []
    assert flying.since("uid-b") is None


def test_each_pod_sees_what_came_after_it(info, meter):
    flying = InFlight(meter)
    flying.start(QueuedPodInfo(info("a"), 0.0, 1))
    flying.note(NODE_ADD, None, None)
    flying.start(QueuedPodInfo(info("b"), 0.0, 2))
    flying.note(NODE_DELETE, None, None)
    assert [event for event, _, _ in flying.since("uid-a")] == [NODE_ADD, NODE_DELETE]
    assert [event for event, _, _ in flying.since("uid-b")] == [NODE_DELETE]
    flying.done("uid-a")
    assert flying.event_count == 1  # what only a could have asked for is gone
    assert [event for event, _, _ in flying.since("uid-b")] == [NODE_DELETE]
    assert meter.in_flight == {"PodPopped": 1, "NodeAdd": 0, "NodeDelete": 1}
    flying.done("uid-b")
    flying.done("uid-b")
    assert flying.event_count == 0
    assert set(meter.in_flight.values()) == {0}


def test_a_younger_pod_leaving_keeps_the_older_ones_events(info):
    flying = InFlight(QueueRecorder())
    for name in "ab":
        flying.start(QueuedPodInfo(info(name), 0.0, 1))
    flying.note(NODE_ADD, None, None)
    flying.done("uid-b")
    assert [event for event, _, _ in flying.since("uid-a")] == [NODE_ADD]


def test_the_same_pod_cannot_fly_twice(info):
    flying = InFlight(QueueRecorder())
    assert flying.start(QueuedPodInfo(info("a"), 0.0, 1))
    assert not flying.start(QueuedPodInfo(info("a"), 0.0, 2))


# ---- nominations -----------------------------------------------------------------------------------------------------


def nominator(info, *names):
    waiting = {f"default/{name}": info(name) for name in names}
    return QueueNominator(waiting.get), waiting


def names_on(nominations, node):
    return [pod.pod.metadata.name for pod in nominations.nominated_pods(node)]


@pytest.mark.parametrize(
    ("status", "given", "want"),
    [
        pytest.param("n1", None, "n1", id="without a word the status decides"),
        pytest.param("", None, None, id="and if it says nothing, there is no nomination"),
        pytest.param("n1", "n2", "n2", id="a given node overrides the status"),
        pytest.param("n1", "", "", id="even an empty one"),
    ],
)
def test_nominate(info, pod, status, given, want):
    nominations, _ = nominator(info, "a")
    nominations.add(pod("a", nominated=status), given)
    assert nominations.node_of("uid-a") == want
    assert list(nominations.nominated_nodes()) == ([want] if want else [])


def test_nominations_are_listed_in_order_and_only_once(info, pod):
    nominations, _ = nominator(info, "a", "b")
    nominations.add(pod("a"), "n1")
    nominations.add(pod("b"), "n1")
    nominations.add(pod("b"), "n1")
    assert names_on(nominations, "n1") == ["a", "b"]
    nominations.add(pod("a"), "n2")
    assert (names_on(nominations, "n1"), names_on(nominations, "n2")) == (["b"], ["a"])
    nominations.withdraw("uid-b")
    nominations.withdraw("uid-unknown")
    assert list(nominations.nominated_nodes()) == ["n2"]


def test_a_pod_in_flight_is_not_listed(info, pod):
    nominations, waiting = nominator(info, "a")
    nominations.add(pod("a"), "n1")
    waiting.clear()
    assert names_on(nominations, "n1") == []


@pytest.mark.parametrize("known", [None, "assigned"], ids=["gone", "running already"])
def test_who_needs_no_node_gets_none(info, pod, known):
    assigned = pod("a")
    assigned.spec.node_name = "n9"
    nominations = QueueNominator(lambda key: info("a"), lambda key: assigned if known else None)
    nominations.add(pod("a"), "n1")
    assert nominations.node_of("uid-a") is None


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param("", "", "memory", id="neither says anything: what was promised in memory stands"),
        pytest.param("", "n2", "n2", id="the API server names one"),
        pytest.param("n1", "n2", "n2", id="the API server names another"),
        pytest.param("n1", "", None, id="the API server clears it"),
    ],
)
def test_update_of_a_nominated_pod(info, pod, before, after, want):
    nominations, _ = nominator(info, "a")
    nominations.add(pod("a"), "memory")
    nominations.update(pod("a", nominated=before), pod("a", nominated=after))
    assert nominations.node_of("uid-a") == want


# ---- drawers ---------------------------------------------------------------------------------------------------------


def waiting(info, name, *plugins, gate="", timestamp=0.0):
    pod = QueuedPodInfo(info(name), timestamp, 1)
    pod.unschedulable_plugins = frozenset(plugins)
    pod.gating_plugin = gate
    return pod


def test_pods_lie_with_the_plugins_that_refused_them(info):
    pods = UnschedulablePods()
    assert pods.put(waiting(info, "a", "P", "Q"))
    pods.put(waiting(info, "b", "Q"))
    pods.put(waiting(info, "c", "Q", "G", gate="G"))
    assert list(pods.rejected_by("default-scheduler", "P")) == ["default/a"]
    assert list(pods.rejected_by("default-scheduler", "Q")) == ["default/a", "default/b"]
    assert list(pods.gated_by("G")) == ["default/c"]
    assert not pods.gated_by("Q") and not pods.rejected_by("other", "P")
    assert (len(pods), pods.gated_count) == (3, 1)


def test_a_refiled_pod_leaves_its_old_drawers(info):
    pods = UnschedulablePods()
    pod = waiting(info, "a", "P")
    pods.put(pod)
    pod.unschedulable_plugins, pod.gating_plugin = frozenset(("P", "G")), "G"
    assert not pods.put(pod)
    assert not pods.rejected_by("default-scheduler", "P")
    assert pods.gated_count == 1
    pod.gating_plugin = ""  # removing must not depend on what has become of the pod
    assert pods.remove(pod.key) is pod
    assert (len(pods), pods.gated_count) == (0, 0)
    assert not pods.gated_by("G")


def test_the_oldest_is_found_without_looking_at_all(info):
    pods = UnschedulablePods()
    assert pods.oldest_touch() is None
    early, late = waiting(info, "a", "P", timestamp=1.0), waiting(info, "b", "P", timestamp=2.0)
    pods.put(late)
    pods.put(early)
    assert pods.oldest_touch() == 1.0
    early.flush_timestamp = 5.0
    pods.put(early)
    assert pods.oldest_touch() == 2.0
    pods.remove(late.key)
    assert pods.oldest_touch() == 5.0


def test_ages_of_pods_that_left_do_not_pile_up(info):
    pods = UnschedulablePods()
    pod = waiting(info, "a", "P")
    for _ in range(1_000):
        pods.put(pod)
    assert len(pods._oldest) < 100
    assert pods.oldest_touch() == 0.0


# ---- what people see -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "want"),
    [
        pytest.param([NODE_ADD, NODE_ADD], ("NodeAdd",), id="each label once"),
        pytest.param(
            [ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT), ASSIGNED_POD_ADD],
            ("NodeAdd", "NodeUpdateNodeTaint", "AssignedPodAdd"),
            id="actions are spelt out",
        ),
        pytest.param([ClusterEvent(EventResource.POD, ActionType.ALL)], ("PodAll",), id="all stays one label"),
        pytest.param(
            [ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD | ActionType.UPDATE)],
            ("storage.k8s.io/StorageClassAdd", "storage.k8s.io/StorageClassUpdate"),
            id="any update is one label",
        ),
    ],
)
def test_wake_labels(events, want):
    assert wake_labels(events) == want
