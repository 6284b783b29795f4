"""A pod group in the queue: one entity, wherever its pods come from."""

from __future__ import annotations

import pytest

from mooring.api.clock import VirtualClock
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.queue.pod_group_queue import PodGroupQueue
from mooring.core.queue.profile import PluginHint, QueueProfile
from mooring.core.queue.queued_pod import QueuedPodGroupInfo
from mooring.core.state.pod_info import PodInterner
from mooring.testing import make_pod, make_pod_group

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
INTERNER = PodInterner()
GROUP = make_pod_group("g", gang=2)


class Door:
    name = "Door"

    def __init__(self) -> None:
        self.closed_for: set[str] = set()

    def pre_enqueue(self, pod):
        return Status.unresolvable("closed") if pod.name in self.closed_for else SUCCESS


class Queue(PodGroupQueue):
    def __init__(self, clock: VirtualClock) -> None:
        self.door = Door()
        hints = (PluginHint("Door", NODE_ADD), PluginHint("Fit", NODE_ADD))
        super().__init__([QueueProfile("default-scheduler", (self.door,), hints)], clock)

    def put(self, *names: str, group: str = "g", priority: int = 0) -> None:
        for name in names:
            self.add(INTERNER.info(make_pod(name, group=group, priority=priority)))

    def where(self) -> dict[str, str]:
        return {each.name: each.queue for each in self.pending_pods()}

    def fail(self, entity: QueuedPodGroupInfo, *plugins: str) -> None:
        for member in [*entity.members]:
            self.add_unschedulable_if_not_present(member, unschedulable_plugins=plugins)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1_000.0)


@pytest.fixture
def queue(clock) -> Queue:
    return Queue(clock)


def names(entity) -> list[str]:
    return [member.pod_info.pod.name for member in entity.members]


def test_pods_wait_apart_until_their_group_is_known(queue):
    queue.put("a", "b")
    assert queue.where() == {"a": "incomplete", "b": "incomplete"}
    assert queue.pop() is None
    queue.put_group(GROUP)
    assert queue.where() == {"a": "active", "b": "active"}


def test_a_group_is_popped_as_one_with_its_pods_in_the_order_in_which_they_came(queue):
    queue.put_group(GROUP)
    queue.put("b", "a")
    entity = queue.pop()
    assert isinstance(entity, QueuedPodGroupInfo)
    assert names(entity) == ["b", "a"]
    assert queue.pop() is None
    assert queue.where() == {"b": "in-flight", "a": "in-flight"}


def test_a_group_is_ordered_by_its_own_priority(queue):
    queue.put_group(make_pod_group("g", priority=5))
    queue.put_group(make_pod_group("h", priority=7))
    queue.put("a", group="g", priority=5)
    queue.put("b", group="h", priority=7)
    queue.add(INTERNER.info(make_pod("alone", priority=6)))
    popped = [queue.pop() for _ in range(3)]
    assert [names(each) for each in popped] == [["b"], ["alone"], ["a"]]


def test_one_gated_pod_gates_the_whole_group(queue):
    queue.put_group(GROUP)
    queue.door.closed_for = {"b"}
    queue.put("a", "b")
    assert queue.where() == {"a": "gated", "b": "gated"}
    queue.door.closed_for = set()
    queue.move_all(NODE_ADD)
    assert queue.where() == {"a": "active", "b": "active"}


def test_a_pod_that_comes_while_its_group_is_tried_waits_for_the_end_of_it(queue):
    queue.put_group(GROUP)
    queue.put("a", "b")
    entity = queue.pop()
    queue.put("late")
    assert queue.where()["late"] == "pending"
    for member in entity.members:
        queue.done(member.uid)
    queue.finish_group(entity, SUCCESS)
    assert queue.where() == {"late": "active"}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(Status.unschedulable("no"), "backoff", id="a group that was refused backs off"),
        pytest.param(Status.error("broke"), "backoff", id="so does one whose attempt broke"),
        pytest.param(SUCCESS, "active", id="after a success the rest is tried immediately"),
    ],
)
def test_where_a_group_goes_after_an_attempt(queue, clock, status, want):
    queue.put_group(GROUP)
    queue.put("a", "b")
    entity = queue.pop()
    queue.fail(entity, "Fit")
    queue.finish_group(entity, status)
    assert queue.where() == {"a": want, "b": want}
    if want == "backoff":
        assert queue.pop() is None, "a group is not let off its backoff"
        clock.advance(2.0)
        queue.run_timers()
    assert names(queue.pop()) == ["a", "b"]


def test_a_group_with_refused_pods_keeps_its_place_after_a_success(queue, clock):
    queue.put_group(GROUP)
    queue.put("a", "b")
    first = queue.pop()
    clock.advance(1.0)
    queue.add(INTERNER.info(make_pod("alone")))
    queue.fail(first)
    queue.finish_group(first, SUCCESS)
    assert names(queue.pop()) == ["a", "b"], "it came before the other pod"


def test_pods_that_were_tried_more_often_come_first(queue):
    queue.put_group(GROUP)
    queue.put("a", "b")
    entity = queue.pop()
    queue.put("early-bird")
    queue.fail(entity)
    queue.finish_group(entity, SUCCESS)
    assert names(queue.pop()) == ["a", "b", "early-bird"]


def test_a_group_that_goes_leaves_its_pods_waiting_for_it(queue):
    queue.put_group(GROUP)
    queue.put("a", "b")
    queue.delete_group(GROUP)
    assert queue.where() == {"a": "incomplete", "b": "incomplete"}
    queue.put_group(GROUP)
    assert names(queue.pop()) == ["a", "b"]


def test_a_deleted_pod_leaves_its_group(queue):
    queue.put_group(GROUP)
    queue.put("a", "b")
    queue.delete(make_pod("a", group="g"))
    assert queue.where() == {"b": "active"}
    queue.delete(make_pod("b", group="g"))
    assert queue.pop() is None and not queue.where()


def test_one_activated_pod_activates_its_group(queue):
    queue.put_group(GROUP)
    queue.put("a", "b")
    entity = queue.pop()
    queue.fail(entity, "Fit")
    queue.finish_group(entity, Status.unschedulable("no"))
    queue.activate([make_pod("b", group="g")])
    assert queue.where() == {"a": "active", "b": "active"}


def test_pods_and_entities_are_counted_apart(queue):
    queue.put_group(GROUP)
    queue.put("a", "b")
    queue.put("c", group="unknown")
    queue.add(INTERNER.info(make_pod("alone")))
    counts = queue.counts()
    assert (counts["active"], counts["incomplete"]) == (3, 1)
    assert queue.entity_counts()["active"] == {"pod": 1, "podgroup": 1}


def test_pods_without_a_group_go_their_way(queue):
    queue.add(INTERNER.info(make_pod("alone")))
    info = queue.pop()
    queue.add_unschedulable_if_not_present(info, unschedulable_plugins=["Fit"])
    assert queue.where() == {"alone": "unschedulable"}
    queue.move_all(NODE_ADD)
    assert queue.where() == {"alone": "backoff"}


def test_a_group_that_is_refused_again_and_again_is_quiet_until_something_happens(queue, clock):
    queue.put_group(GROUP)
    queue.put("a", "b")
    assert not queue.is_quiet
    entity = queue.pop()
    queue.fail(entity, "Fit")
    queue.finish_group(entity, Status.unschedulable("no"))
    assert queue.is_quiet
    queue.move_all(NODE_ADD)
    assert not queue.is_quiet


def test_a_pod_that_backs_off_is_not_quiet(queue):
    queue.add(INTERNER.info(make_pod("alone")))
    queue.add_unschedulable_if_not_present(queue.pop())
    assert not queue.is_quiet
