"""The queue driven at random: no pod is lost, none is in two places, and time and events do what they promise."""

from __future__ import annotations

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mooring.api.clock import VirtualClock
from mooring.api.core import Node, Pod, PodSpec
from mooring.api.meta import ObjectMeta
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource, Hint
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.queue.profile import PluginHint, QueueProfile, QueueRecorder
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.state.pod_info import PodInterner

PICK = st.integers(0, 99)
PLUGINS = ("A", "B", "C")
ACTIONS = {
    "A": ActionType.ADD,
    "B": ActionType.ADD | ActionType.UPDATE_NODE_LABEL,
    "C": ActionType.DELETE,
}
EVENTS = [
    ClusterEvent(EventResource.NODE, action)
    for action in (ActionType.ADD, ActionType.DELETE, ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_NODE_TAINT)
]


def hint_of(plugin):
    """A plugin says yes if the node's name begins with its name."""
    return lambda pod, old, new: Hint.QUEUE if (new or old).metadata.name.startswith(plugin) else Hint.SKIP


class Door:
    name = "Door"

    def __init__(self):
        self.closed_for = set()

    def pre_enqueue(self, pod):
        return Status.unresolvable("closed") if pod.metadata.uid in self.closed_for else SUCCESS


class Balance(QueueRecorder):
    """A meter whose gauges must come back to zero."""

    wants_hint_durations = False

    def __init__(self):
        self.rejectors = {}
        self.in_flight = {}

    def incoming_pod(self, queue, event):
        assert queue in ("active", "backoff", "unschedulable")

    def unschedulable_pods(self, plugin, profile, change):
        self.rejectors[plugin] = self.rejectors.get(plugin, 0) + change

    def in_flight_events(self, event, change):
        self.in_flight[event] = self.in_flight.get(event, 0) + change


class QueueMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.clock = VirtualClock(100.5)
        self.door = Door()
        self.meter = Balance()
        hints = [PluginHint(p, ClusterEvent(EventResource.NODE, ACTIONS[p]), hint_of(p)) for p in PLUGINS]
        hints.append(PluginHint("Door", ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)))
        self.queue = SchedulingQueue(
            [QueueProfile("s", pre_enqueue=(self.door,), hints=tuple(hints))], self.clock, recorder=self.meter
        )
        self.interner = PodInterner()
        self.alive = {}  # uid -> pod: all that must be in some part
        self.in_flight = {}  # uid -> (info, events missed so far)
        self.serial = 0

    # ---- what can happen

    def choose(self, among, pick):
        return sorted(among)[pick % len(among)]

    @rule(priority=st.integers(0, 2), count=st.integers(1, 3), gated=st.booleans())
    def create(self, priority, count, gated):
        for _ in range(count):
            self.serial += 1
            meta = ObjectMeta(name=f"p{self.serial}", namespace="n", uid=f"u{self.serial}")
            pod = Pod(metadata=meta, spec=PodSpec(scheduler_name="s", priority=priority))
            if gated:
                self.door.closed_for.add(pod.uid)
            self.alive[pod.uid] = pod
            self.queue.add(self.interner.info(pod))

    @precondition(lambda self: self.alive)
    @rule(pick=PICK, labels=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy")))
    def update(self, pick, labels):
        uid = self.choose(self.alive, pick)
        old = self.alive[uid]
        new = Pod(metadata=ObjectMeta(name=old.name, namespace="n", uid=uid, labels=labels), spec=old.spec)
        self.alive[uid] = new
        self.queue.update(old, self.interner.info(new))

    @precondition(lambda self: self.alive)
    @rule(pick=PICK)
    def delete(self, pick):
        self.queue.delete(self.alive.pop(self.choose(self.alive, pick)))

    @precondition(lambda self: self.queue.has_ready)
    @rule(count=st.integers(1, 3))
    def pop(self, count):
        for _ in range(count):
            want = self.expected_next()
            info = self.queue.pop()
            assert (info.uid if info else None) == want
            if info is not None:
                self.in_flight[info.uid] = (info, [])

    @precondition(lambda self: self.in_flight)
    @rule(pick=PICK, plugins=st.sets(st.sampled_from(PLUGINS)), pending=st.booleans())
    def come_back(self, pick, plugins, pending):
        info, missed = self.in_flight.pop(self.choose(self.in_flight, pick))
        if info.uid not in self.alive:
            self.queue.done(info.uid)
            return
        before = (info.unschedulable_count, info.consecutive_errors_count)
        self.queue.add_unschedulable_if_not_present(
            info,
            unschedulable_plugins=() if pending else plugins,
            pending_plugins=plugins if pending else (),
            pod=self.interner.info(self.alive[info.uid]),
        )
        if plugins:
            assert (info.unschedulable_count, info.consecutive_errors_count) == (before[0] + 1, 0)
        else:
            assert (info.unschedulable_count, info.consecutive_errors_count) == (before[0], before[1] + 1)
        asked_for = "wildcard" in missed
        helps = any(says_yes(plugin, *each) for plugin in plugins for each in missed if each != "wildcard")
        if not (helps or asked_for or not plugins):
            want = "unschedulable"
        elif info.uid in self.door.closed_for:
            want = "gated"
        else:
            want = "active" if helps and pending else "backoff"
        assert self.place(info.uid) == want

    @precondition(lambda self: self.in_flight)
    @rule(pick=PICK)
    def bound(self, pick):
        info, _ = self.in_flight.pop(self.choose(self.in_flight, pick))
        self.alive.pop(info.uid, None)
        self.queue.done(info.uid)

    @rule(event=st.sampled_from(EVENTS), name=st.sampled_from(["A1", "B1", "C1", "D1"]))
    def happen(self, event, name):
        node = Node(metadata=ObjectMeta(name=name))
        waiting = {info.uid: info for info in self.queue._unschedulable}
        self.queue.move_all(event, node, node)
        for _, missed in self.in_flight.values():
            missed.append((event, node))
        for uid, info in waiting.items():
            self.check_woken(uid, info, event, node)

    def check_woken(self, uid, info, event, node):
        stays = "gated" if info.is_gated else "unschedulable"
        helps = any(says_yes(plugin, event, node) for plugin in info.rejectors)
        if uid in self.door.closed_for:
            assert self.place(uid) == ("gated" if helps else stays)
        elif event.action == ActionType.UPDATE_NODE_TAINT and "Door" in info.rejectors:
            assert self.place(uid) in ("active", "backoff")
        elif stays == "unschedulable":
            assert self.place(uid) in (("active", "backoff") if helps else ("unschedulable",))

    @precondition(lambda self: self.alive)
    @rule(pick=PICK)
    def turn_door(self, pick):
        self.door.closed_for ^= {self.choose(self.alive, pick)}

    @precondition(lambda self: self.alive)
    @rule(pick=PICK)
    def activate(self, pick):
        uid = self.choose(self.alive, pick)
        self.queue.activate([self.alive[uid]])
        if uid in self.in_flight:
            self.in_flight[uid][1].append("wildcard")

    @rule(seconds=st.sampled_from([0.1, 0.9, 1.0, 3.3, 40.0]))
    def wait(self, seconds):
        until = self.clock.now() + seconds
        for _ in range(1_000):
            due = self.queue.next_wakeup()
            if due is None or due > until:
                break
            self.clock.advance_to(due)
            flushes = self.meter.in_flight.get("UnschedulableTimeout", 0)
            self.queue.run_timers()
            if self.meter.in_flight.get("UnschedulableTimeout", 0) > flushes:
                for _, missed in self.in_flight.values():
                    missed.append("wildcard")
            after = self.queue.next_wakeup()
            assert after is None or after > self.clock.now(), "timers that ran must not be due again immediately"
        else:
            raise AssertionError("timers do not come to rest")
        self.clock.advance_to(until)

    @precondition(lambda self: self.alive)
    @rule()
    def wait_very_long(self):
        """After the longest wait, every pod that may be tried is ready."""
        self.wait(400.0)
        for info in self.queue._unschedulable:
            assert info.is_gated, info

    # ---- what must always hold

    def place(self, uid):
        key = self.alive[uid].key
        queue = self.queue
        places = [name for name in ("active", "backoff", "unschedulable") if key in getattr(queue, f"_{name}")]
        if queue.is_in_flight(uid):
            places.append("in-flight")
        assert len(places) == 1, (uid, places)
        return "gated" if places == ["unschedulable"] and queue.get(key).is_gated else places[0]

    def expected_next(self):
        active = list(self.queue._active.in_order())
        if active:
            return min(active, key=lambda info: (-info.priority, info.timestamp, info.sequence)).uid
        early = [info for info in self.queue._backoff.pods() if info.rejectors]
        return (
            min(early, key=lambda i: (i.backoff_expiration, -i.priority, i.timestamp, i.sequence)).uid
            if early
            else None
        )

    @invariant()
    def everyone_is_somewhere(self):
        for uid in self.alive:
            self.place(uid)
        waiting = sum(self.queue.counts().values())
        assert waiting + len(self.in_flight) == len(self.alive) + sum(uid not in self.alive for uid in self.in_flight)

    @invariant()
    def backoff_is_what_the_formula_says(self):
        for info in self.queue._backoff.pods():
            count = info.consecutive_errors_count or info.unschedulable_count
            assert count > 0
            assert info.backoff_expiration == math.floor(info.timestamp + min(10, 2 ** (count - 1)))

    @invariant()
    def whoever_waits_for_an_event_was_refused(self):
        for info in self.queue._unschedulable:
            assert info.rejectors

    @invariant()
    def gauges_match(self):
        waiting = [*self.queue._active.in_order(), *self.queue._backoff.pods(), *self.queue._unschedulable]
        for plugin, count in self.meter.rejectors.items():
            assert count == sum(plugin in info.rejectors for info in waiting), plugin
        assert self.meter.in_flight.get("PodPopped", 0) == len(self.in_flight)
        if not self.in_flight:
            assert not any(self.meter.in_flight.values())


def says_yes(plugin, event, node):
    if plugin not in ACTIONS or not ACTIONS[plugin] & event.action:
        return False
    return node.metadata.name.startswith(plugin)


QueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestQueueMachine = QueueMachine.TestCase
