"""The group queue driven at random: no pod is lost or in two places, and a group's pods are never split up."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.api.clock import VirtualClock
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource, Hint
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.queue.pod_group_queue import PodGroupQueue
from mooring.core.queue.profile import PluginHint, QueueProfile
from mooring.core.queue.queued_pod import QueuedPodGroupInfo
from mooring.core.state.cluster import group_of
from mooring.core.state.pod_info import PodInterner
from mooring.testing import make_node, make_pod, make_pod_group

NAMES = ("g", "h", "")
STATUSES = (SUCCESS, Status.unschedulable("no"), Status.error("broke"))
EVENTS = [ClusterEvent(EventResource.NODE, action) for action in (ActionType.ADD, ActionType.DELETE)]


class Door:
    name = "Door"

    def __init__(self) -> None:
        self.closed_for: set[str] = set()

    def pre_enqueue(self, pod):
        return Status.unresolvable("closed") if pod.uid in self.closed_for else SUCCESS


class GroupQueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock, self.door = VirtualClock(100.0), Door()
        hints = (PluginHint("Door", EVENTS[0]), PluginHint("Fit", EVENTS[1], lambda *_: Hint.QUEUE))
        self.queue = PodGroupQueue([QueueProfile("default-scheduler", (self.door,), hints)], self.clock)
        self.interner = PodInterner()
        self.alive = {}  # uid -> pod: all that must be in some part
        self.known = set()  # names of groups
        self.trying = None  # the entity that is being tried
        self.serial = 0

    @rule(group=st.sampled_from(NAMES), count=st.integers(1, 3), gated=st.booleans())
    def create(self, group, count, gated):
        for _ in range(count):
            self.serial += 1
            pod = make_pod(f"p{self.serial}", group=group)
            self.alive[pod.uid] = pod
            if gated:
                self.door.closed_for.add(pod.uid)
            self.queue.add(self.interner.info(pod))

    @rule(name=st.sampled_from(NAMES[:2]))
    def put_group(self, name):
        self.known.add(name)
        self.queue.put_group(make_pod_group(name))

    @rule(name=st.sampled_from(NAMES[:2]))
    def delete_group(self, name):
        self.known.discard(name)
        self.queue.delete_group(make_pod_group(name))

    @precondition(lambda self: self.alive)
    @rule(pick=st.integers(0, 99))
    def delete(self, pick):
        uid = sorted(self.alive)[pick % len(self.alive)]
        self.queue.delete(self.alive.pop(uid))

    @precondition(lambda self: self.alive)
    @rule(pick=st.integers(0, 99))
    def open_or_close(self, pick):
        self.door.closed_for ^= {sorted(self.alive)[pick % len(self.alive)]}

    @precondition(lambda self: self.alive)
    @rule(pick=st.integers(0, 99))
    def activate(self, pick):
        self.queue.activate([self.alive[sorted(self.alive)[pick % len(self.alive)]]])

    @precondition(lambda self: self.trying is None and self.queue.has_ready)
    @rule()
    def pop(self):
        self.trying = self.queue.pop()

    @precondition(lambda self: self.trying is not None)
    @rule(status=st.sampled_from(STATUSES), placed=st.integers(0, 3), refused=st.booleans())
    def finish(self, status, placed, refused):
        """An attempt ends: of a group some pods may be placed, if it succeeds; the others come back."""
        plugins = ("Fit",) if refused else ()
        members = [*self.trying.members]
        placed = placed if status.is_success else 0
        for i, member in enumerate(members):
            if i < placed or member.uid not in self.alive:
                self.alive.pop(member.uid, None)
                self.queue.done(member.uid)
            else:
                self.queue.add_unschedulable_if_not_present(member, unschedulable_plugins=plugins)
        if isinstance(self.trying, QueuedPodGroupInfo):
            self.queue.finish_group(self.trying, status)
        self.trying = None

    @rule(event=st.sampled_from(EVENTS))
    def happen(self, event):
        self.queue.move_all(event, None, make_node("n"))

    @rule(seconds=st.sampled_from([0.5, 3.0, 40.0, 400.0]))
    def wait(self, seconds):
        self.clock.advance(seconds)
        self.queue.run_timers()

    @invariant()
    def everyone_is_in_exactly_one_place(self):
        found = [each.uid for each in self.queue.pending_pods()]
        assert len(found) == len(set(found))
        trying = {member.uid for member in self.trying.members} if self.trying is not None else set()
        assert set(found) - trying == set(self.alive) - trying

    @invariant()
    def a_group_waits_together(self):
        """All pods of a known group are in one part of the queue, unless the group is being tried."""
        places = {}
        for each in self.queue.pending_pods():
            if each.uid in self.alive and (group := group_of(self.alive[each.uid])):
                places.setdefault(group.partition("/")[2], set()).add(each.queue)
        for name, found in places.items():
            waiting = found - {"in-flight", "pending"}
            if name not in self.known:
                assert waiting <= {"incomplete"}
            else:
                assert len(waiting) <= 1 and "incomplete" not in waiting
                assert "pending" not in found or self.trying is not None

    @invariant()
    def only_open_doors_are_passed(self):
        for each in self.queue.pending_pods():
            if each.queue == "gated" and not self.queue.get(f"{each.namespace}/{each.name}"):
                raise AssertionError("a gated pod can be looked up")

    @invariant()
    def counts_agree(self):
        counts = self.queue.counts()
        waiting = [each.queue for each in self.queue.pending_pods() if each.queue != "in-flight"]
        assert {place: count for place, count in counts.items() if count} == {
            place: waiting.count(place) for place in set(waiting)
        }


TestGroupQueueMachine = GroupQueueMachine.TestCase
TestGroupQueueMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
