"""The rules of the scheduling queue, one by one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mooring.api.core import Node, Toleration
from mooring.api.meta import ObjectMeta
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventResource, Hint
from mooring.core.queue.events import ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, NODE_ADD, NODE_DELETE
from mooring.core.queue.nominator import QueueNominator
from mooring.core.queue.profile import PluginHint, QueueProfile
from mooring.core.queue.scheduling_queue import QueueOptions, SchedulingQueue

NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
POD_UPDATE = ClusterEvent(EventResource.POD, ActionType.UPDATE)
TOLERATION = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
P_HEARS_OF_NODES = PluginHint("P", NODE_ADD)
NODE = Node(metadata=ObjectMeta(name="n1"))


def name(info):
    return None if info is None else info.pod_info.pod.metadata.name


def pop_name(queue):
    return name(queue.pop())


def fail(queue, info, *plugins, pending=(), message=""):
    """Add a pod, try it, and let these plugins refuse it."""
    queue.add(info)
    return retry(queue, *plugins, pending=pending, message=message)


def retry(queue, *plugins, pending=(), message=""):
    popped = queue.pop()
    queue.add_unschedulable_if_not_present(
        popped, unschedulable_plugins=plugins, pending_plugins=pending, message=message
    )
    return popped


def place(queue, pod_name):
    """Where a pod is, by looking into all parts: it must be in exactly one."""
    key = f"default/{pod_name}"
    places = []
    if key in queue._active:
        places.append("active")
    if key in queue._backoff:
        places.append("backoff")
    if key in queue._unschedulable:
        places.append("gated" if queue._unschedulable.get(key).is_gated else "unschedulable")
    if f"uid-{pod_name}" in queue._in_flight:
        places.append("in-flight")
    assert len(places) < 2, places
    return places[0] if places else None


# ---- popping ---------------------------------------------------------------------------------------------------------


def test_important_pods_first_then_first_come(make_queue, info, clock):
    queue = make_queue()
    for pod_name, priority in [("a", None), ("b", 10), ("c", 10), ("d", -1), ("e", 0)]:
        queue.add(info(pod_name, priority=priority))
        clock.advance(0.1)
    assert [pop_name(queue) for _ in range(6)] == ["b", "c", "a", "e", "d", None]


def test_pods_of_one_instant_are_first_come_first_served(make_queue, info):
    queue = make_queue()
    names = [f"pod-{i}" for i in (5, 3, 9, 1)]
    for pod_name in names:
        queue.add(info(pod_name))
    assert [pop_name(queue) for _ in names] == names


def test_the_first_profiles_order_holds_for_all(clock, info):
    last_come = QueueProfile("default-scheduler", sort_key=lambda priority, timestamp: -timestamp)
    queue = SchedulingQueue([last_come, QueueProfile("other")], clock)
    for pod_name in "ab":
        queue.add(info(pod_name))
        clock.advance(1)
    assert [pop_name(queue), pop_name(queue)] == ["b", "a"]
    assert queue.handles("other") and not queue.handles("unknown")


def test_pop_counts_attempts_and_cycles(make_queue, info, clock):
    queue = make_queue()
    queue.add(info("a"))
    first_ready = clock.now()
    clock.advance(1)
    popped = queue.pop()
    assert (popped.attempts, popped.initial_attempt_timestamp) == (1, first_ready)
    queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["P"])
    queue.activate([popped.pod_info.pod])
    popped = queue.pop()
    assert (popped.attempts, popped.initial_attempt_timestamp) == (2, first_ready)


def test_a_failed_pod_goes_behind_its_equals(make_queue, info, pod, clock):
    queue = make_queue()
    fail(queue, info("old"), "P")
    clock.advance(1)
    queue.add(info("new"))
    clock.advance(30)
    retry_later = queue.pop()
    queue.add_unschedulable_if_not_present(retry_later, unschedulable_plugins=["P"])
    queue.activate([pod("old"), pod("new")])
    assert [pop_name(queue), pop_name(queue)] == ["old", "new"]


def test_nothing_to_do_lets_rejected_pods_off_their_backoff(make_queue, info, meter):
    queue = make_queue(P_HEARS_OF_NODES)
    fail(queue, info("refused"), "P")
    fail(queue, info("broken"))
    queue.move_all(NODE_ADD, None, NODE)
    assert (place(queue, "refused"), place(queue, "broken")) == ("backoff", "backoff")
    assert queue.has_ready
    assert [pop_name(queue), pop_name(queue)] == ["refused", None]
    assert not queue.has_ready
    assert meter.incoming["active", "PopFromBackoffQ"] == 1


def test_backoff_is_not_cut_short_while_others_are_ready(make_queue, info):
    queue = make_queue(P_HEARS_OF_NODES)
    fail(queue, info("refused", priority=100), "P")
    queue.move_all(NODE_ADD, None, NODE)
    queue.add(info("ready"))
    assert [pop_name(queue), pop_name(queue)] == ["ready", "refused"]


def test_backoff_is_kept_when_popping_early_is_off(make_queue, info, clock):
    queue = make_queue(P_HEARS_OF_NODES, options=QueueOptions(pop_from_backoff=False))
    fail(queue, info("refused"), "P")
    queue.move_all(NODE_ADD, None, NODE)
    assert queue.pop() is None and not queue.has_ready
    clock.advance(1.1)
    queue.run_timers()
    assert pop_name(queue) == "refused"


# ---- after an attempt ------------------------------------------------------------------------------------------------


def test_a_refused_pod_waits_for_an_event(make_queue, info):
    queue = make_queue()
    fail(queue, info("a"), "P")
    assert place(queue, "a") == "unschedulable"


def test_a_pod_whose_attempt_broke_is_retried_by_time_alone(make_queue, info, clock):
    queue = make_queue()
    ends = []
    broken = fail(queue, info("a"))
    for _ in range(4):
        assert place(queue, "a") == "backoff"
        ends.append(queue.next_wakeup())
        clock.advance_to(queue.next_wakeup())
        queue.run_timers()
        assert place(queue, "a") == "active"
        retry(queue)
    assert ends == [1002, 1005, 1010, 1019]  # 1, 2, 4 and 8 seconds; the second of the end still counts
    assert (broken.consecutive_errors_count, broken.unschedulable_count) == (5, 0)


def test_a_rejection_ends_a_series_of_errors(make_queue, info, pod):
    queue = make_queue()
    tried = fail(queue, info("a"))
    queue.activate([pod("a")])
    retry(queue, "P")
    assert (tried.consecutive_errors_count, tried.unschedulable_count) == (0, 1)
    queue.activate([pod("a")])
    retry(queue)
    assert (tried.consecutive_errors_count, tried.unschedulable_count) == (1, 1)


def test_the_newest_version_comes_back(make_queue, info):
    queue = make_queue()
    queue.add(info("a"))
    newest = info("a", labels={"x": "y"})
    queue.add_unschedulable_if_not_present(queue.pop(), unschedulable_plugins=["P"], pod=newest)
    assert queue.get("default/a").pod_info is newest
    assert not queue.is_in_flight("uid-a")


def test_a_pod_that_is_in_a_queue_already_stays_there(make_queue, info, caplog):
    queue = make_queue()
    queue.add(info("a"))
    popped = queue.pop()
    queue.add(info("a", uid="uid-recreated"))
    queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["P"])
    assert "already present" in caplog.text
    assert queue.get("default/a").uid == "uid-recreated" and place(queue, "a") == "active"
    assert not queue.is_in_flight("uid-a")


@pytest.mark.parametrize(
    ("event", "plugins", "pending", "want"),
    [
        pytest.param(NODE_ADD, ("P",), (), "backoff", id="an event that helps is made up for"),
        pytest.param(NODE_ADD, ("Q",), (), "unschedulable", id="one that is not for the plugin is not"),
        pytest.param(NODE_DELETE, ("P",), (), "unschedulable", id="an unregistered one is not kept"),
        pytest.param(NODE_ADD, (), ("P",), "active", id="a pending plugin needs no backoff"),
        pytest.param(NODE_ADD, ("Q",), ("P",), "active", id="among others, too"),
        pytest.param(NODE_ADD, (), (), "backoff", id="after an error events do not matter"),
    ],
)
def test_events_during_the_attempt(make_queue, info, event, plugins, pending, want):
    queue = make_queue(P_HEARS_OF_NODES)
    queue.add(info("a"))
    popped = queue.pop()
    queue.move_all(event, None, NODE)
    queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=plugins, pending_plugins=pending)
    assert place(queue, "a") == want


def test_events_before_the_attempt_do_not_count(make_queue, info):
    queue = make_queue(P_HEARS_OF_NODES)
    queue.add(info("earlier"))
    queue.add(info("a"))
    queue.pop()
    queue.move_all(NODE_ADD, None, NODE)
    retry(queue, "P")
    assert place(queue, "a") == "unschedulable"


def test_a_pending_plugins_yes_is_looked_for_among_all_missed_events(make_queue, info):
    queue = make_queue(P_HEARS_OF_NODES, PluginHint("Q", NODE_LABEL))
    queue.add(info("a"))
    popped = queue.pop()
    queue.move_all(NODE_ADD, None, NODE)
    queue.move_all(NODE_LABEL, NODE, NODE)
    queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["P"], pending_plugins=["Q"])
    assert place(queue, "a") == "active"


def test_done_forgets_a_pod(make_queue, info):
    queue = make_queue()
    queue.add(info("a"))
    queue.done(queue.pop().uid)
    assert place(queue, "a") is None
    assert queue.next_wakeup() is None


# ---- events ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waited_s", "want"),
    [
        pytest.param(0.0, "backoff", id="immediately: it backs off"),
        pytest.param(1.7, "backoff", id="during the second in which backoff ends: it still does"),
        pytest.param(1.8, "active", id="afterwards: it is ready"),
    ],
)
def test_where_an_event_takes_a_waiting_pod(make_queue, info, clock, waited_s, want):
    queue = make_queue(P_HEARS_OF_NODES)
    fail(queue, info("a"), "P")
    clock.advance_to(1_000.2 + waited_s)
    queue.move_all(NODE_ADD, None, NODE)
    assert place(queue, "a") == want


def test_hints_see_the_pod_and_both_versions(make_queue, info):
    seen = []

    def hint(pod, old, new):
        seen.append((pod.metadata.name, old, new))
        return Hint.SKIP

    queue = make_queue(PluginHint("P", NODE_LABEL, hint))
    fail(queue, info("a"), "P")
    fail(queue, info("b"), "Q")
    queue.move_all(NODE_LABEL, NODE, NODE)
    assert seen == [("a", NODE, NODE)]
    assert place(queue, "a") == "unschedulable"


def test_pods_of_other_profiles_do_not_hear(clock, info):
    queue = SchedulingQueue(
        [QueueProfile("default-scheduler"), QueueProfile("other", hints=(P_HEARS_OF_NODES,))], clock
    )
    fail(queue, info("a"), "P")
    mine = info("b")
    mine.pod.spec.scheduler_name = "other"
    fail(queue, mine, "P")
    queue.move_all(NODE_ADD, None, NODE)
    assert (place(queue, "a"), place(queue, "b")) == ("unschedulable", "backoff")


def test_a_pre_check_restricts_which_pods_move(make_queue, info):
    queue = make_queue(PluginHint("P", ClusterEvent(EventResource.POD, ActionType.DELETE)))
    for pod_name, priority in [("low", 1), ("high", 10)]:
        fail(queue, info(pod_name, priority=priority), "P")
    queue.move_all(ASSIGNED_POD_DELETE, info("x").pod, None, pre_check=lambda pod: pod.priority <= 5)
    assert (place(queue, "low"), place(queue, "high")) == ("backoff", "unschedulable")


def test_events_cost_nothing_for_pods_that_do_not_care(make_queue, info):
    """Ten thousand pods wait; an event for one of them asks one hint."""
    asked = []
    queue = make_queue(
        PluginHint("Few", ASSIGNED_POD_ADD, lambda pod, old, new: asked.append(pod.name) or Hint.SKIP),
        PluginHint("Many", NODE_ADD, lambda pod, old, new: asked.append(pod.name) or Hint.SKIP),
    )
    for i in range(500):
        fail(queue, info(f"pod-{i}"), "Many")
    fail(queue, info("special"), "Few", "Many")
    queue.move_all(ASSIGNED_POD_ADD, None, info("x").pod)
    assert asked == ["special"]


def test_on_ready_is_called_for_pods_that_can_be_popped_now_or_after_their_backoff(make_queue, info, clock):
    queue = make_queue(P_HEARS_OF_NODES)
    calls = []
    queue.on_ready = lambda: calls.append(clock.now())
    queue.add(info("a"))
    assert len(calls) == 1
    retry(queue, "P")
    assert len(calls) == 1
    queue.move_all(NODE_ADD, None, NODE)
    assert len(calls) == 2  # in backoff, but it would be popped
    retry(queue)
    assert len(calls) == 3  # after an error it really waits, and the owner has to look at ``next_wakeup`` again
    assert queue.pop() is None
    clock.advance(10)
    queue.run_timers()
    assert len(calls) == 4


# ---- gates -----------------------------------------------------------------------------------------------------------


def test_a_gated_pod_is_not_tried(make_queue, info, gate, meter):
    queue = make_queue(gates=[gate("Open"), gate("Closed", {"a"}), gate("Later", {"a"})])
    queue.add(info("a"))
    waiting = queue.get("default/a")
    assert place(queue, "a") == "gated" and queue.pop() is None
    assert (waiting.gating_plugin, waiting.unschedulable_plugins) == ("Closed", {"Closed"})
    assert waiting.message == "Closed is closed"
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    assert meter.incoming == {("unschedulable", "UnschedulablePodAdd"): 1}
    assert meter.unschedulable == {("Closed", "default-scheduler"): 1}


def test_the_gating_plugin_is_asked_first(make_queue, info, gate):
    first, second = gate("First"), gate("Second", {"a"})
    queue = make_queue(PluginHint("Second", NODE_ADD), gates=[first, second])
    queue.add(info("a"))
    queue.move_all(NODE_ADD, None, NODE)
    assert (first.asked, second.asked) == (["a"], ["a", "a"])
    second.closed_for.clear()
    first.closed_for.add("a")
    queue.move_all(NODE_ADD, None, NODE)
    assert queue.get("default/a").gating_plugin == "First"
    assert queue.get("default/a").unschedulable_plugins == {"First", "Second"}


@pytest.mark.parametrize(
    ("event", "want"),
    [
        pytest.param(NODE_ADD, "active", id="an event of the gating plugin frees it"),
        pytest.param(NODE_LABEL, "gated", id="an event of a plugin that refused it does not"),
        pytest.param(NODE_DELETE, "gated", id="an unregistered event does not"),
    ],
)
def test_gated_pods_react_to_their_gate_only(make_queue, info, gate, clock, event, want):
    door = gate("Door")
    queue = make_queue(PluginHint("Door", NODE_ADD), PluginHint("P", NODE_LABEL), gates=[door])
    fail(queue, info("a"), "P")
    door.closed_for.add("a")
    queue.activate([queue.get("default/a").pod_info.pod])
    assert place(queue, "a") == "gated"
    door.closed_for.clear()
    clock.advance(10)
    queue.move_all(event, NODE, NODE)
    assert place(queue, "a") == want


def test_a_pod_behind_a_closed_gate_is_skipped_until_it_may_open(make_queue, info, gate):
    door = gate("Door", {"a", "b"})
    queue = make_queue(PluginHint("Door", NODE_ADD), gates=[door])
    shut = {("Door", "default/a")}
    queue.preemptions = SimpleNamespace(holds_back=lambda plugin, key: (plugin, key) in shut)
    for name in ("a", "b"):
        queue.add(info(name))
    door.asked.clear()
    queue.move_all(NODE_ADD, None, NODE)
    assert door.asked == ["b"]
    shut.clear()
    queue.opened("Another", "default/a")
    queue.opened("Door", "default/nobody")
    queue.move_all(NODE_ADD, None, NODE)
    assert door.asked == ["b", "b"]
    queue.opened("Door", "default/a")
    door.closed_for.clear()
    queue.move_all(NODE_ADD, None, NODE)
    assert (place(queue, "a"), place(queue, "b")) == ("active", "active")


def test_a_hint_that_says_no_still_lets_others_ungate(make_queue, info, gate, clock):
    """DefaultPreemption registers an event with a hint that always says no, to have gated pods looked at."""
    door = gate("Door", {"a"})
    deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
    queue = make_queue(
        PluginHint("Door", deleted, lambda pod, old, new: Hint.SKIP), PluginHint("P", deleted), gates=[door]
    )
    door.closed_for.clear()
    fail(queue, info("a"), "P")
    door.closed_for.add("a")
    queue.activate([queue.get("default/a").pod_info.pod])
    door.closed_for.clear()
    clock.advance(10)
    queue.move_all(ASSIGNED_POD_DELETE, info("x").pod, None)
    assert place(queue, "a") == "active"


@pytest.mark.parametrize(
    ("refused_by", "asked"),
    [
        pytest.param((), [], id="the gate's own hint says no"),
        pytest.param(("P",), ["a"], id="there are other hints to ask"),
    ],
)
def test_one_hint_is_asked_before_the_gate_and_several_after_it(make_queue, info, gate, refused_by, asked):
    door = gate("Door")
    queue = make_queue(PluginHint("Door", NODE_ADD, lambda *_: Hint.SKIP), P_HEARS_OF_NODES, gates=[door])
    if refused_by:
        fail(queue, info("a"), *refused_by)
    door.closed_for.add("a")
    if refused_by:
        queue.activate([queue.get("default/a").pod_info.pod])
    else:
        queue.add(info("a"))
    door.asked.clear()
    queue.move_all(NODE_ADD, None, NODE)
    assert (place(queue, "a"), door.asked) == ("gated", asked)


def test_gates_are_asked_on_the_way_into_backoff_and_not_again(make_queue, info, gate, clock):
    door = gate("Door")
    queue = make_queue(P_HEARS_OF_NODES, gates=[door])
    fail(queue, info("a"), "P")
    door.asked.clear()
    queue.move_all(NODE_ADD, None, NODE)
    assert place(queue, "a") == "backoff" and door.asked == ["a"]
    clock.advance(2)
    queue.run_timers()
    assert place(queue, "a") == "active" and door.asked == ["a"]


def test_a_closed_gate_diverts_from_backoff(make_queue, info, gate):
    door = gate("Door")
    queue = make_queue(P_HEARS_OF_NODES, gates=[door])
    fail(queue, info("a"), "P")
    door.closed_for.add("a")
    queue.move_all(NODE_ADD, None, NODE)
    assert place(queue, "a") == "gated"


def test_a_gatekeeper_that_fails_keeps_only_its_pod(make_queue, info, gate):
    class Broken:
        name = "Broken"

        def pre_enqueue(self, pod):
            if pod.metadata.name == "a":
                raise RuntimeError("a bug")
            return gate("Open").pre_enqueue(pod)

    queue = make_queue(gates=[Broken()])
    queue.add(info("a"))
    queue.add(info("b"))
    assert pop_name(queue) == "b"
    assert queue.get("default/a").message.startswith('running PreEnqueue plugin "Broken": RuntimeError: a bug (test_')


# ---- updates, deletes, activation ------------------------------------------------------------------------------------


def changed(info, pod_name="a", **kwargs):
    return info(pod_name, **kwargs)


def tolerant(info):
    new = info("a")
    new.pod.spec.tolerations = [Toleration(key="k", operator="Exists")]
    return new


def test_an_unknown_pods_update_takes_it_in(make_queue, info, pod):
    queue = make_queue()
    queue.update(pod("a"), info("a"))
    assert place(queue, "a") == "active"


def test_an_update_in_the_active_queue_moves_the_pod(make_queue, info, pod):
    queue = make_queue()
    queue.add(info("a"))
    queue.add(info("b", priority=1))
    queue.update(pod("a"), info("a", priority=2))
    assert [pop_name(queue), pop_name(queue), queue.pop()] == ["a", "b", None]


def test_an_update_in_backoff_keeps_the_pod_there(make_queue, info, pod):
    queue = make_queue()
    fail(queue, info("a"))
    new = tolerant(info)
    queue.update(pod("a"), new)
    assert place(queue, "a") == "backoff" and queue.get("default/a").pod_info is new


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param(("P",), "backoff", id="the plugin that cares about it"),
        pytest.param(("Q",), "unschedulable", id="a plugin that cares about another change"),
        pytest.param(("U",), "backoff", id="a plugin that cares about any update"),
    ],
)
def test_an_update_can_wake_the_pod_itself(make_queue, info, pod, plugins, want):
    queue = make_queue(PluginHint("P", TOLERATION), PluginHint("Q", LABEL), PluginHint("U", POD_UPDATE))
    fail(queue, info("a"), *plugins)
    fail(queue, info("other"), *plugins)
    queue.update(pod("a"), tolerant(info))
    assert (place(queue, "a"), place(queue, "other")) == (want, "unschedulable")


def test_of_several_changes_the_second_may_wake_it(make_queue, info, pod):
    queue = make_queue(PluginHint("P", LABEL, lambda *_: Hint.SKIP), PluginHint("P", TOLERATION))
    fail(queue, info("a"), "P")
    new = tolerant(info)
    new.pod.metadata.labels = {"x": "y"}
    queue.update(pod("a"), new)
    assert place(queue, "a") == "backoff"


def test_an_update_in_flight_is_remembered(make_queue, info, pod):
    queue = make_queue(PluginHint("P", TOLERATION))
    queue.add(info("a"))
    popped = queue.pop()
    new = tolerant(info)
    queue.update(pod("a"), new)
    assert place(queue, "a") == "in-flight"
    queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["P"], pod=new)
    assert place(queue, "a") == "backoff"


def test_adding_twice_is_an_update(make_queue, info):
    queue = make_queue(PluginHint("P", TOLERATION))
    fail(queue, info("a"), "P")
    queue.add(tolerant(info))
    assert place(queue, "a") == "backoff"
    assert pop_name(queue) == "a"
    queue.add(info("a"))
    assert place(queue, "a") == "in-flight"


@pytest.mark.parametrize("where", ["active", "backoff", "unschedulable", "gated"])
def test_a_deleted_pod_is_gone(make_queue, info, pod, gate, meter, where):
    queue = make_queue(gates=[gate("Door", {"a"} if where == "gated" else set())])
    queue.add(info("a", nominated="n1"))
    if where in ("backoff", "unschedulable"):
        retry(queue, *(["P"] if where == "unschedulable" else []))
    assert place(queue, "a") == where
    queue.delete(pod("a"))
    queue.delete(pod("a"))
    assert place(queue, "a") is None and queue.pop() is None
    assert queue.nominator.node_of("uid-a") is None
    assert set(meter.unschedulable.values()) <= {0}


def test_a_pod_that_is_set_back_really_waits(make_queue, info, pod, meter):
    queue = make_queue()
    queue.add(info("a"))
    retry(queue, "P")
    assert place(queue, "a") == "unschedulable"
    queue.set_back(pod("a"))
    assert place(queue, "a") == "backoff" and meter.incoming["backoff", "PreemptionBroke"] == 1
    assert set(meter.unschedulable.values()) <= {0}, "no plugin keeps it waiting any more"
    assert queue.pop() is None, "its backoff is not skipped, as after any attempt that failed"
    queue.set_back(pod("never-heard-of"))


@pytest.mark.parametrize("where", ["unschedulable", "backoff", "active", "unknown"])
def test_activate(make_queue, info, pod, meter, where):
    queue = make_queue()
    if where != "unknown":
        queue.add(info("a"))
    if where in ("unschedulable", "backoff"):
        retry(queue, *(["P"] if where == "unschedulable" else []))
    queue.activate([pod("a")])
    assert place(queue, "a") == (None if where == "unknown" else "active")
    assert meter.incoming["active", "ForceActivate"] == (where in ("unschedulable", "backoff"))


def test_activating_a_pod_in_flight_retries_it_afterwards(make_queue, info, pod):
    queue = make_queue()
    for pod_name in "ab":
        queue.add(info(pod_name))
    flying = [queue.pop(), queue.pop()]
    queue.activate([pod("a")])
    for popped in flying:
        queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["P"])
    assert (place(queue, "a"), place(queue, "b")) == ("backoff", "unschedulable")


def test_a_nomination_follows_the_pod(make_queue, info, pod):
    queue = make_queue()
    queue.add(info("a", nominated="n1"))
    assert [each.pod.name for each in queue.nominator.nominated_pods("n1")] == ["a"]
    queue.update(pod("a", nominated="n1"), info("a", nominated="n2"))
    assert list(queue.nominator.nominated_nodes()) == ["n2"]
    popped = queue.pop()
    assert list(queue.nominator.nominated_pods("n2")) == []
    queue.add_unschedulable_if_not_present(popped, unschedulable_plugins=["P"])
    queue.nominator.add(popped.pod_info.pod, "n3")
    assert [each.pod.name for each in queue.nominator.nominated_pods("n3")] == ["a"]


def test_nominations_need_a_pod_that_exists(make_queue, info):
    queue = make_queue(nominator=QueueNominator(known=lambda key: None))
    queue.add(info("a", nominated="n1"))
    assert queue.nominator.node_of("uid-a") is None


# ---- timers ----------------------------------------------------------------------------------------------------------


def test_backoff_ends_at_a_whole_second(make_queue, info, clock, meter):
    queue = make_queue(P_HEARS_OF_NODES)
    fail(queue, info("a"), "P")
    queue.move_all(NODE_ADD, None, NODE)
    assert queue.next_wakeup() == 1002.0  # failed at 1000.2, ends at 1001, seen at the second after
    clock.advance_to(1001.99)
    queue.run_timers()
    assert place(queue, "a") == "backoff"
    clock.advance_to(1002.0)
    queue.run_timers()
    assert place(queue, "a") == "active"
    assert meter.incoming["active", "BackoffComplete"] == 1


def test_long_waiters_are_tried_again(make_queue, info, clock, meter):
    queue = make_queue()
    clock.advance(10)
    fail(queue, info("a"), "P")
    clock.advance(1)
    fail(queue, info("b"), "P")
    started = 1000.2
    assert queue.next_wakeup() == pytest.approx(started + 330)  # the first of the 30 s rounds after 10 + 300
    clock.advance_to(queue.next_wakeup())
    queue.run_timers()
    assert (place(queue, "a"), place(queue, "b")) == ("active", "active")
    assert queue.get("default/a").was_flushed
    assert meter.incoming["active", "UnschedulableTimeout"] == 2


def test_between_rounds_no_pod_is_flushed(make_queue, info, clock):
    """However often the timers run, long waiters are only looked at every 30 seconds."""
    queue = make_queue()
    clock.advance(1)
    fail(queue, info("a"), "P")
    moved_after_s = None
    for second in range(2, 400):
        clock.advance(1)
        queue.run_timers()
        if moved_after_s is None and place(queue, "a") == "active":
            moved_after_s = second
    assert moved_after_s == 330


def test_exactly_the_limit_is_not_too_long(make_queue, info, clock):
    queue = make_queue()
    fail(queue, info("a"), "P")
    clock.advance(300)
    queue.flush_unschedulable_left_over()
    assert place(queue, "a") == "unschedulable"


def test_a_gated_pod_is_looked_at_again_after_the_timeout(make_queue, info, gate, clock):
    door = gate("Door", {"a"})
    queue = make_queue(gates=[door])
    queue.add(info("a"))
    wakeup = queue.next_wakeup()
    clock.advance_to(wakeup)
    queue.run_timers()
    assert place(queue, "a") == "gated" and not queue.get("default/a").was_flushed
    assert door.asked == ["a", "a"]
    assert queue.next_wakeup() > wakeup  # the clock of its patience starts anew
    door.closed_for.clear()
    clock.advance_to(queue.next_wakeup())
    queue.run_timers()
    assert place(queue, "a") == "active"


def test_a_failed_attempt_clears_the_mark_of_the_flush(make_queue, info, clock):
    queue = make_queue()
    flushed = fail(queue, info("a"), "P")
    clock.advance(310)
    queue.run_timers()
    retry(queue, "P")
    assert not flushed.was_flushed
    assert queue.next_wakeup() > clock.now() + 290


# ---- looking ---------------------------------------------------------------------------------------------------------


def test_pending_pods_lists_pods_with_reasons_and_events(make_queue, info, gate, clock):
    queue = make_queue(
        PluginHint("P", ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
        PluginHint("Door", ClusterEvent(EventResource.POD, ActionType.DELETE)),
        gates=[gate("Door", {"gated"})],
    )
    fail(queue, info("refused", priority=7), "P", "Q", message="0/3 nodes are available")
    fail(queue, info("broken"), message="oh")
    queue.add(info("gated"))
    queue.add(info("flying"))
    queue.pop()
    clock.advance(0.5)
    queue.add(info("ready"))
    seen = {pod.name: pod for pod in queue.pending_pods()}
    assert {pod_name: pod.queue for pod_name, pod in seen.items()} == {
        "ready": "active",
        "broken": "backoff",
        "refused": "unschedulable",
        "gated": "gated",
        "flying": "in-flight",
    }
    refused = seen["refused"]
    assert (refused.priority, refused.attempts, refused.plugins) == (7, 1, ("P", "Q"))
    assert refused.message == "0/3 nodes are available"
    assert refused.wakes == ("NodeAdd", "NodeUpdateNodeLabel")
    assert refused.since == pytest.approx(1000.2)
    assert seen["gated"].wakes == ("PodDelete",) and seen["gated"].message == "Door is closed"
    assert seen["broken"].backoff_left_s == pytest.approx(0.3)
    assert seen["ready"].wakes == ()
    assert queue.counts() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 1}


def test_metrics_of_a_pods_life(make_queue, info, meter, clock):
    queue = make_queue(P_HEARS_OF_NODES)
    fail(queue, info("a"), "P", pending=["Q"])
    assert meter.unschedulable == {("P", "default-scheduler"): 1, ("Q", "default-scheduler"): 1}
    queue.move_all(NODE_ADD, None, NODE)
    queue.pop()
    assert set(meter.unschedulable.values()) == {0}
    assert meter.incoming == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "PopFromBackoffQ"): 1,
    }
    assert meter.in_flight["PodPopped"] == 1
    queue.done("uid-a")
    assert meter.in_flight["PodPopped"] == 0


def test_another_configuration_gives_everyone_another_chance(clock, info, gate):
    queue = SchedulingQueue([QueueProfile("default-scheduler"), QueueProfile("other")], clock)
    fail(queue, info("refused"), "P")
    theirs = info("theirs")
    theirs.pod.spec.scheduler_name = "other"
    queue.add(theirs)
    door = gate("Door", {"late"})
    queue.replace_profiles([QueueProfile("default-scheduler", pre_enqueue=(door,), hints=(P_HEARS_OF_NODES,))])
    assert (place(queue, "refused"), place(queue, "theirs")) == ("backoff", None)
    assert not queue.handles("other")
    queue.add(info("late"))
    assert place(queue, "late") == "gated"
    retry(queue, "P")
    queue.move_all(NODE_ADD, None, NODE)
    assert place(queue, "refused") == "backoff"
