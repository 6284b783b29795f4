"""The calls of the cluster and the queue, in their order."""

from __future__ import annotations

from copy import deepcopy

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.codec import from_plain
from mooring.api.core import Namespace, Node, Pod, Service, Taint
from mooring.api.meta import ObjectMeta
from mooring.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.core.queue.profile import PluginHint, QueueProfile
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.state.cluster import ClusterState
from mooring.live.event_handlers import EventHandlers


class Watched(SchedulingQueue):
    """A queue that records its calls, and how many nodes and pods the cluster had at that moment."""

    def __init__(self, cluster):
        anything = ClusterEvent(EventResource.WILDCARD, ActionType.ALL)
        profile = QueueProfile("default-scheduler", hints=(PluginHint("P", anything),))
        super().__init__([profile], VirtualClock(100.0))
        self.cluster = cluster
        self.told = []

    def _note(self, what, *about):
        self.told.append((what, *about))

    def add(self, pod):
        self._note("add", pod.pod.name)
        super().add(pod)

    def update(self, old, new):
        self._note("update", new.pod.name)
        super().update(old, new)

    def delete(self, pod):
        self._note("delete", pod.name)
        super().delete(pod)

    def move_all(self, event, old=None, new=None, pre_check=None):
        known = [pod.pod.name for pod in self.cluster.pods()]
        nodes = [name for name, info in self.cluster.table.nodes.items() if info.node is not None]
        self._note(event.label, old and old.name, new and new.name, tuple(known), tuple(nodes))
        super().move_all(event, old, new, pre_check)

    @property
    def labels(self):
        return [entry[0] for entry in self.told]


@pytest.fixture
def cluster():
    return ClusterState()


@pytest.fixture
def queue(cluster):
    return Watched(cluster)


@pytest.fixture
def handlers(cluster, queue):
    return EventHandlers(cluster, queue)


def make_pod(
    name="a",
    *,
    version="1",
    node="",
    nominated="",
    priority=0,
    phase="Pending",
    uid="",
    scheduler="default-scheduler",
    **meta,
):
    return from_plain(
        Pod,
        {
            "metadata": {"name": name, "namespace": "d", "uid": uid or f"u-{name}", "resourceVersion": version, **meta},
            "spec": {"nodeName": node, "schedulerName": scheduler, "priority": priority, "containers": [{"name": "c"}]},
            "status": {"phase": phase, "nominatedNodeName": nominated},
        },
    )


def make_node(name="n1", version="1", **labels):
    return Node(metadata=ObjectMeta(name=name, uid=f"u-{name}", resource_version=version, labels=labels))


# ---- pods ------------------------------------------------------------------------------------------------------------


def test_a_running_pod_is_counted_before_the_queue_is_notified(handlers, queue):
    handlers.put(make_pod(node="n1"))
    assert queue.told == [("AssignedPodAdd", None, "a", ("a",), ())]
    assert handlers.pods["d/a"].node_name == "n1"


def test_a_pending_pod_is_queued(handlers, queue):
    handlers.put(make_pod())
    assert queue.told == [("add", "a")]
    assert queue.pop().uid == "u-a"


def test_other_schedulers_pods_are_only_remembered(handlers, queue):
    handlers.put(make_pod(scheduler="other"))
    handlers.put(make_pod(scheduler="other", version="2"))
    assert queue.told == [] and "d/a" in handlers.pods
    handlers.delete(make_pod(scheduler="other"))
    assert queue.told == [] and not handlers.pods


def test_gangs_hear_of_their_members(cluster, queue):
    handlers = EventHandlers(cluster, queue)
    handlers.gang_scheduling = True
    handlers.put(make_pod())
    assert queue.labels == ["add", "UnschedulablePodAdd"]


def test_each_change_of_a_running_pod_is_an_event(handlers, queue, cluster):
    handlers.put(make_pod(node="n1"))
    queue.told.clear()
    changed = make_pod(node="n1", version="2", labels={"x": "y"})
    changed.spec.tolerations = [
        from_plain(type(changed.spec), {"tolerations": [{"operator": "Exists"}]}).tolerations[0]
    ]
    handlers.put(changed)
    assert queue.labels == ["AssignedPodUpdatePodLabel", "AssignedPodUpdatePodToleration"]
    assert cluster.pod("u-a").pod is changed


def test_a_binding_confirms_the_pod_and_empties_the_queue(handlers, queue, cluster):
    handlers.put(make_pod())
    queue.told.clear()
    handlers.put(make_pod(node="n1", version="2"))
    assert queue.told == [("AssignedPodAdd", None, "a", ("a",), ()), ("delete", "a")]
    assert queue.pop() is None


def test_a_binding_confirms_an_assumed_pod(handlers, queue, cluster):
    handlers.put(make_pod())
    popped = queue.pop()
    cluster.assume(popped.pod_info, "n1")
    handlers.put(make_pod(node="n1", version="2"))
    assert not cluster.is_assumed("u-a") and cluster.pod("u-a").pod.node_name == "n1"


def test_a_pod_whose_binding_the_server_has_lost_waits_again(handlers, queue, cluster):
    """The API server was restored from an older state: kube-scheduler forgets such a pod."""
    handlers.put(make_pod())
    queue.done(queue.pop().uid)
    handlers.put(make_pod(node="n1", version="2"))
    queue.told.clear()
    handlers.put(make_pod())
    assert queue.told == [("AssignedPodDelete", "a", None, (), ()), ("add", "a")]
    assert cluster.pod("u-a") is None
    assert queue.pop().uid == "u-a"


def test_a_pod_that_is_on_another_node_since_the_server_was_restored_leaves_its_node(handlers, queue, cluster):
    handlers.put(make_pod(node="n1"))
    queue.told.clear()
    handlers.put(make_pod(node="n2", version="3"))
    assert queue.labels == ["AssignedPodDelete", "AssignedPodAdd"]
    assert cluster.pod("u-a").pod.node_name == "n2"


def test_a_pending_pods_update_reaches_the_queue(handlers, queue):
    handlers.put(make_pod())
    queue.told.clear()
    handlers.put(make_pod(version="2", labels={"x": "y"}))
    assert queue.told == [("update", "a")]
    assert queue.get("d/a").pod_info.pod.labels == {"x": "y"}


@pytest.mark.parametrize("make", [make_pod, make_node], ids=["pod", "node"])
def test_the_same_version_twice_is_no_news(handlers, queue, make):
    handlers.put(make())
    queue.told.clear()
    handlers.put(make())
    assert queue.told == []


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param("n1", "n2", True, id="promised another node"),
        pytest.param("n1", "", True, id="promised none any more"),
        pytest.param("n1", "n1", False, id="promised the same"),
        pytest.param("", "n1", False, id="promised one for the first time"),
    ],
)
def test_a_promise_that_changes_frees_the_node_for_the_less_important(handlers, queue, before, after, want):
    for name, priority in [("low", 1), ("high", 9)]:
        handlers.put(make_pod(name, priority=priority))
    for _ in range(2):
        queue.add_unschedulable_if_not_present(queue.pop(), unschedulable_plugins=["P"])
    handlers.put(make_pod(nominated=before, priority=5))
    queue.pop()
    queue.done("u-a")
    queue.told.clear()
    handlers.put(make_pod(nominated=after, priority=5, version="2"))
    assert ("AssignedPodDelete" in queue.labels) is want
    assert (queue.counts()["backoff"], queue.counts()["unschedulable"]) == ((1, 1) if want else (0, 2))
    assert queue.get("d/high") in list(queue._unschedulable)


def test_a_deleted_pod_is_not_counted_when_the_queue_is_notified(handlers, queue):
    handlers.put(make_pod(node="n1"))
    queue.told.clear()
    handlers.delete(make_pod(node="n1"))
    assert queue.told == [("AssignedPodDelete", "a", None, (), ())]
    assert handlers.pods == {}


@pytest.mark.parametrize(
    ("grace_s", "finalizers", "told"),
    [
        pytest.param(30, [], 1, id="it has time left"),
        pytest.param(0, ["example.com/held"], 1, id="something holds it"),
        pytest.param(0, [], 0, id="its end is what comes next"),
    ],
)
def test_the_preemptor_is_notified_when_its_victim_is_gone(cluster, queue, grace_s, finalizers, told):
    left = []
    handlers = EventHandlers(cluster, queue)
    handlers._on_leaving = left.append
    running = make_pod(node="n")
    handlers.put(running)
    going = deepcopy(running)
    going.metadata.resource_version = "2"
    going.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    going.metadata.deletion_grace_period_seconds = grace_s
    going.metadata.finalizers = finalizers
    handlers.put(going)
    assert left == [running.key] * told
    handlers.delete(going)
    assert left == [running.key] * (told + 1)


def test_a_pending_pod_that_is_gone_leaves_the_queue(handlers, queue):
    handlers.put(make_pod())
    handlers.delete(make_pod())
    assert queue.labels == ["add", "delete"]
    assert queue.pop() is None


def test_a_nominated_pod_that_is_gone_frees_its_node(handlers, queue):
    handlers.put(make_pod(nominated="n1"))
    queue.told.clear()
    handlers.delete(make_pod(nominated="n1"))
    assert queue.labels == ["delete", "AssignedPodDelete"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_as_good_as_gone(handlers, queue, cluster, phase):
    handlers.put(make_pod(node="n1"))
    handlers.put(make_pod(node="n1", version="2", phase=phase))
    assert queue.labels == ["AssignedPodAdd", "AssignedPodDelete"]
    assert cluster.pods() == [] and not handlers.pods


def test_a_recreated_pod_of_the_same_name_is_another_pod(handlers, queue, cluster):
    handlers.put(make_pod(node="n1"))
    handlers.put(make_pod(uid="u-new", version="9"))
    assert queue.labels == ["AssignedPodAdd", "AssignedPodDelete", "add"]
    assert cluster.pods() == [] and queue.pop().uid == "u-new"


def test_late_news_of_a_namesake_does_no_harm(handlers, queue):
    handlers.put(make_pod(uid="u-new"))
    handlers.delete(make_pod(uid="u-old"))
    assert handlers.pods["d/a"].uid == "u-new" and queue.pop().uid == "u-new"


def test_bound_and_deleted_before_either_event(handlers, queue):
    handlers.put(make_pod())
    handlers.delete(make_pod(node="n1"))
    assert queue.labels == ["add", "delete", "AssignedPodDelete"]
    assert queue.pop() is None


def test_deleting_what_was_never_known_is_no_mistake(handlers, cluster):
    for obj in (make_pod(), make_pod(node="n1"), make_node(), Service(metadata=ObjectMeta(name="s", namespace="d"))):
        handlers.delete(obj)
    assert cluster.pods() == []


def test_pods_of_a_profile_that_is_new_are_taken_in(handlers, queue, cluster):
    for name, scheduler, node in [("mine", "default-scheduler", ""), ("new", "late", ""), ("runs", "late", "n1")]:
        handlers.put(make_pod(name, scheduler=scheduler, node=node))
    handlers.put(make_pod("other", scheduler="unknown"))
    queue.pop()
    queue.replace_profiles([QueueProfile("default-scheduler"), QueueProfile("late")])
    queue.told.clear()
    handlers.take_in_pending()
    handlers.take_in_pending()
    assert queue.told == [("add", "new")]


# ---- assumed pods ----------------------------------------------------------------------------------------------------


@pytest.fixture
def assumed(handlers, queue, cluster):
    """A pod that is being bound to n1."""
    handlers.put(make_node())
    handlers.put(make_pod())
    cluster.assume(queue.pop().pod_info, "n1")
    queue.told.clear()
    return "u-a"


def test_an_assumed_pods_status_is_of_no_interest(handlers, queue, cluster, assumed):
    handlers.put(make_pod(version="2", nominated="n1"))
    assert queue.told == [] and cluster.is_assumed(assumed)


def test_an_assumed_pod_that_is_being_deleted_is_forgotten(handlers, queue, cluster, assumed):
    handlers.put(make_pod(version="2", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert queue.told == [("AssignedPodDelete", "a", None, (), ("n1",))]
    assert not cluster.is_assumed(assumed)
    handlers.put(make_pod(version="3", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert queue.labels == ["AssignedPodDelete", "update"]


def test_an_assumed_pod_that_is_gone_is_forgotten(handlers, queue, cluster, assumed):
    handlers.delete(make_pod())
    assert queue.labels == ["delete", "AssignedPodDelete"]
    assert cluster.pods() == []


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "terminating"])
def test_the_preemptor_of_an_assumed_pod_is_notified_before_the_queue(handlers, queue, assumed, monkeypatch, is_gone):
    monkeypatch.setattr(handlers, "_on_leaving", lambda key: queue.told.append(("leaves", key)))
    if is_gone:
        handlers.delete(make_pod())
    else:
        handlers.put(make_pod(version="2", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert [told[0] for told in queue.told][-2:] == ["leaves", "AssignedPodDelete"]


def test_the_move_for_an_assumed_pod_says_where_it_was(handlers, queue, assumed, monkeypatch):
    moved = []
    monkeypatch.setattr(queue, "move_all", lambda event, old, new, pre_check=None: moved.append(old.node_name))
    handlers.delete(make_pod())
    assert moved == ["n1"]


def test_an_assumed_pod_that_waits_on_permit_is_rejected_instead(cluster, queue):
    rejected = []
    handlers = EventHandlers(cluster, queue)
    handlers._reject_waiting_pod = lambda uid: rejected.append(uid) or True
    handlers.put(make_pod())
    cluster.assume(queue.pop().pod_info, "n1")
    handlers.delete(make_pod())
    assert rejected == ["u-a"] and cluster.is_assumed("u-a")  # its binding cycle will clean up
    assert queue.labels[-1] == "AssignedPodDelete"


# ---- nodes -----------------------------------------------------------------------------------------------------------


def test_a_node_exists_when_the_queue_is_notified(handlers, queue):
    handlers.put(make_node())
    assert queue.told == [("NodeAdd", None, "n1", (), ("n1",))]


def test_each_change_of_a_node_is_an_event(handlers, queue, cluster):
    handlers.put(make_node())
    queue.told.clear()
    changed = make_node(version="2", zone="a")
    changed.spec.taints = [Taint("k", "", "NoSchedule")]
    changed.status.declared_features = ["F"]
    handlers.put(changed)
    assert queue.labels == ["NodeUpdateNodeLabel", "NodeUpdateNodeTaint", "NodeUpdateNodeDeclaredFeature"]
    assert cluster.table.nodes["n1"].node is changed


def test_declared_features_can_be_switched_off(cluster, queue):
    handlers = EventHandlers(cluster, queue)
    handlers.declared_features = False
    handlers.put(make_node())
    changed = deepcopy(make_node(version="2"))
    changed.status.declared_features = ["F"]
    handlers.put(changed)
    assert queue.labels == ["NodeAdd"]


def test_a_heartbeat_is_stored_silently(handlers, queue, cluster):
    handlers.put(make_node())
    handlers.put(make_node(version="2"))
    assert queue.labels == ["NodeAdd"]
    assert cluster.table.nodes["n1"].node.metadata.resource_version == "2"


def test_the_queue_is_notified_of_a_lost_node_before_it_is_removed(handlers, queue, cluster):
    handlers.put(make_node())
    queue.told.clear()
    handlers.delete(make_node())
    assert queue.told == [("NodeDelete", "n1", None, (), ("n1",))]
    assert cluster.table.nodes.get("n1") is None or cluster.table.nodes["n1"].node is None


def test_a_node_that_comes_after_its_pod_is_new(handlers, queue):
    handlers.put(make_pod(node="n1"))
    handlers.put(make_node())
    assert queue.labels == ["AssignedPodAdd", "NodeAdd"]


# ---- everything else -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        (PersistentVolume, "PersistentVolume"),
        (PersistentVolumeClaim, "PersistentVolumeClaim"),
        (CSINode, "storage.k8s.io/CSINode"),
        (CSIDriver, "storage.k8s.io/CSIDriver"),
        (VolumeAttachment, "storage.k8s.io/VolumeAttachment"),
        (CSIStorageCapacity, "storage.k8s.io/CSIStorageCapacity"),
        (StorageClass, "storage.k8s.io/StorageClass"),
        (ResourceClaim, "resource.k8s.io/ResourceClaim"),
        (ResourceSlice, "resource.k8s.io/ResourceSlice"),
        (DeviceClass, "resource.k8s.io/DeviceClass"),
    ],
)
def test_other_kinds_come_change_and_go(handlers, queue, cluster, kind, label):
    def make(version):
        return kind(metadata=ObjectMeta(name="x", namespace="d", uid="u", resource_version=version))

    handlers.put(make("1"))
    handlers.put(make("1"))
    second = make("2")
    handlers.put(second)
    assert cluster.objects.get(kind, "d/x") is second
    handlers.delete(make("3"))
    handlers.delete(make("3"))
    assert queue.labels == [f"{label}Add", f"{label}Update", f"{label}Delete"]
    assert cluster.objects.get(kind, "d/x") is None


def test_kinds_that_wake_no_pod_are_only_cached(handlers, queue, cluster):
    handlers.put(Namespace(metadata=ObjectMeta(name="d", labels={"x": "y"})))
    handlers.put(Service(metadata=ObjectMeta(name="s")))
    assert queue.told == []
    assert cluster.namespace_labels("d") == {"x": "y"}


# ---- how long it takes -----------------------------------------------------------------------------------------------


class Ticking(VirtualClock):
    """A clock by which everything takes a second."""

    def monotonic(self):
        self.advance(1.0)
        return super().monotonic()


@pytest.fixture
def timed(cluster, queue):
    """Handlers, and the calls of their observer: labels and seconds."""
    told = []
    handlers = EventHandlers(cluster, queue)
    handlers.observe(lambda *what: told.append(what), Ticking())
    return handlers, told


@pytest.mark.parametrize(
    ("before", "event", "want"),
    [
        pytest.param((), make_pod(), ["UnschedulablePodAdd"], id="a pending pod"),
        pytest.param((), make_pod(node="n1"), ["AssignedPodAdd"], id="a running pod"),
        pytest.param((), make_pod(scheduler="other"), [], id="a pod of another scheduler"),
        pytest.param(
            (make_pod(),), make_pod(version="2", node="n1"), ["AssignedPodAdd", "UnschedulablePodDelete"], id="bound"
        ),
        pytest.param(
            (make_pod(),),
            make_pod(version="2", labels={"a": "b"}),
            ["UnschedulablePodUpdate", "UnschedulablePodUpdatePodLabel"],
            id="a pending pod's labels",
        ),
        pytest.param((make_pod(),), make_pod(version="2"), ["UnschedulablePodUpdate"], id="nothing that has a name"),
        pytest.param(
            (make_pod(node="n1"),),
            make_pod(version="2", node="n1", labels={"a": "b"}),
            ["AssignedPodUpdate", "AssignedPodUpdatePodLabel"],
            id="a running pod's labels",
        ),
        pytest.param((), make_node(), ["NodeAdd"], id="a node"),
        pytest.param((make_node(),), make_node(version="2"), [], id="a heartbeat"),
        pytest.param((make_node(),), make_node(version="2", zone="a"), ["NodeUpdateNodeLabel"], id="a node's labels"),
        pytest.param(
            (), StorageClass(metadata=ObjectMeta(name="s")), ["storage.k8s.io/StorageClassAdd"], id="another kind"
        ),
    ],
)
def test_events_are_timed_under_upstreams_labels(timed, before, event, want):
    handlers, told = timed
    for obj in before:
        handlers.put(obj)
    told.clear()
    handlers.put(event)
    assert sorted(label for label, _ in told) == want
    assert all(seconds > 0 for _, seconds in told)


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(make_pod(), "UnschedulablePodDelete", id="a pending pod"),
        pytest.param(make_pod(node="n1"), "AssignedPodDelete", id="a running pod"),
        pytest.param(make_node(), "NodeDelete", id="a node"),
        pytest.param(
            StorageClass(metadata=ObjectMeta(name="s")), "storage.k8s.io/StorageClassDelete", id="another kind"
        ),
    ],
)
def test_deletions_are_timed(timed, obj, want):
    handlers, told = timed
    handlers.put(obj)
    told.clear()
    handlers.delete(obj)
    assert told == [(want, 1.0)]


def test_each_change_of_a_node_counts_its_own_time_and_that_of_taking_it_over(timed):
    handlers, told = timed
    handlers.put(make_node())
    told.clear()
    changed = make_node(version="2", zone="a")
    changed.spec.unschedulable = False
    changed.metadata.annotations = {"a": "b"}
    handlers.put(changed)
    assert told == [("NodeUpdateNodeLabel", 2.0), ("NodeUpdateNodeAnnotation", 2.0)]
