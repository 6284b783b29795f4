"""What the cycle tells its observer ends up in the metrics that dashboards read."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from mooring.api.clock import VirtualClock
from mooring.core.config.features import Features
from mooring.core.config.load import default_config
from mooring.core.framework.status import SUCCESS, Code, Status
from mooring.core.queue.profile import QueueProfile
from mooring.core.queue.scheduling_queue import SchedulingQueue
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState
from mooring.live.meters import SAMPLED, Meters
from mooring.live.metrics import FOLD, SchedulerMetrics
from mooring.live.observer import Room
from mooring.testing import Scheduler, make_node, make_pod


def watched(*objects, config=None):
    """A scheduler whose default profile is watched, and a function that reads one sample."""
    scheduler = Scheduler(*objects, config=config)
    meters = Meters(SchedulerMetrics())
    meters.follow(SchedulingQueue([], scheduler.clock), scheduler.cluster)
    scheduler.profiles["default-scheduler"].observer = meters.profile("default-scheduler")

    def sample(name, *labels):
        for line in meters.render().decode().splitlines():
            if line.startswith(f"{name}{{") and all(label in line for label in labels):
                return float(re.split(r"\s", line)[-1])
        return None

    return scheduler, meters, sample


POINT = "scheduler_framework_extension_point_duration_seconds_count"
EVALUATION = "scheduler_plugin_evaluation_total"


def test_a_placement_is_timed_at_every_point():
    scheduler, _, sample = watched(make_node("a"), make_node("b"))
    scheduler.decide(make_pod(cpu="1"))
    for point in ("PreFilter", "Filter", "PreScore", "Score"):
        assert sample(POINT, f'extension_point="{point}"', 'status="Success"') == 1
    assert sample(POINT, 'extension_point="PostFilter"') is None


def test_a_refusal_is_timed_with_its_status():
    scheduler, _, sample = watched(make_node("a", cpu="1"))
    scheduler.decide(make_pod(cpu="2"))
    assert sample(POINT, 'extension_point="Filter"', 'status="Success"') == 1, "upstream says so, too"
    assert sample(POINT, 'extension_point="PostFilter"', 'status="Unschedulable"') == 1
    assert sample(POINT, 'extension_point="Score"') is None


def test_plugins_that_bow_out_are_not_counted():
    scheduler, _, sample = watched(make_node("a"), make_node("b"), make_node("c"))
    for _ in range(2):
        scheduler.decide(make_pod(cpu="1"))
    assert sample(EVALUATION, 'plugin="NodeResourcesFit"', 'extension_point="PreFilter"') == 2
    assert sample(EVALUATION, 'plugin="NodePorts"', 'extension_point="PreFilter"') is None
    assert sample(EVALUATION, 'plugin="NodeResourcesFit"', 'extension_point="Filter"') == 6, "once per node"
    assert sample(EVALUATION, 'plugin="NodePorts"', 'extension_point="Filter"') is None
    assert sample(EVALUATION, 'plugin="ImageLocality"', 'extension_point="Score"') == 6


def test_a_reset_starts_again_and_keeps_counting():
    scheduler, meters, sample = watched(make_node("a"), make_node("b"))
    scheduler.decide(make_pod(cpu="1"))
    meters.reset()
    assert sample(POINT, 'extension_point="Filter"') is None
    scheduler.decide(make_pod(cpu="1"))
    assert sample(POINT, 'extension_point="Filter"') == 1
    assert sample(EVALUATION, 'plugin="NodeResourcesFit"', 'extension_point="PreFilter"') == 1


# ---- single plugins --------------------------------------------------------------------------------------------------

PLUGIN = "scheduler_plugin_execution_duration_seconds_count"


def test_plugins_are_timed_in_one_of_ten_attempts():
    scheduler, _, sample = watched(make_node("a"), make_node("b"))
    labels = ('plugin="NodeResourcesFit"', 'extension_point="PreFilter"', 'status="Success"')
    scheduler.decide(make_pod(cpu="1"))
    assert sample(PLUGIN, *labels) == 1
    for _ in range(SAMPLED - 1):
        scheduler.decide(make_pod(cpu="1"))
    assert sample(PLUGIN, *labels) == 1
    scheduler.decide(make_pod(cpu="1"))
    assert sample(PLUGIN, *labels) == 2


def test_every_plugin_of_a_timed_attempt_is_observed():
    scheduler, _, sample = watched(make_node("a"), make_node("b"))
    scheduler.decide(make_pod(cpu="1"))
    for plugin, point, status in (
        ("NodePorts", "PreFilter", "Skip"),
        ("NodeResourcesFit", "Filter", "Success"),
        ("TaintToleration", "PreScore", "Success"),
        ("NodeResourcesBalancedAllocation", "Score", "Success"),
        ("TaintToleration", "ScoreExtensionNormalize", "Success"),
    ):
        found = sample(PLUGIN, f'plugin="{plugin}"', f'extension_point="{point}"', f'status="{status}"')
        assert found == 1, (plugin, point)


def test_a_refusal_is_counted_with_rejecting_and_post_filter_plugins():
    scheduler, _, sample = watched(make_node("a", cpu="1"))
    scheduler.decide(make_pod(cpu="2"))
    unresolvable = 'status="UnschedulableAndUnresolvable"'
    assert sample(PLUGIN, 'plugin="NodeResourcesFit"', 'extension_point="Filter"', unresolvable) == 1
    assert sample(PLUGIN, 'plugin="DefaultPreemption"', 'extension_point="PostFilter"') == 1
    assert sample(PLUGIN, 'extension_point="Score"') is None


def test_a_hypothesis_is_not_timed():
    scheduler, _, _ = watched(make_node("a"))
    state = scheduler.decide(make_pod(cpu="1")).state
    assert state.timer is not None
    assert state.clone().timer is None


def test_timing_does_not_change_a_decision():
    nodes = [make_node(f"n{i}", cpu=str(i + 1)) for i in range(4)]
    scheduler, _, _ = watched(*nodes)
    plain = Scheduler(*nodes)
    for i in range(2 * SAMPLED + 1):
        pod = make_pod(f"p{i}", cpu="250m")
        ours, theirs = scheduler.place(pod), plain.place(pod)
        assert (ours.node, ours.message) == (theirs.node, theirs.message)


def test_gatekeepers_are_timed_together_and_one_of_ten_times_each_by_itself():
    clock = VirtualClock(0)
    meters = Meters(SchedulerMetrics(), clock)

    class Door:
        name = "Door"

        def pre_enqueue(self, pod):
            clock.advance(0.003)
            return Status.unresolvable("closed") if pod.name == "p1" else SUCCESS

    queue = SchedulingQueue([QueueProfile("mine", pre_enqueue=(Door(),))], clock, recorder=meters)
    cluster = ClusterState()
    for i in range(SAMPLED):
        queue.add(cluster.info(make_pod(f"p{i}", spec={"schedulerName": "mine"})))
    rendered = meters.render().decode()
    point = POINT + '{extension_point="PreEnqueue",profile="mine",status="%s"} %s'
    assert point % ("Success", 9) in rendered
    assert point % ("UnschedulableAndUnresolvable", 1) in rendered
    plugin = PLUGIN + '{extension_point="PreEnqueue",plugin="Door",status="Success"} 1'
    assert plugin in rendered
    assert plugin.replace("_count", "_sum").removesuffix("1") + "0.003" in rendered


# ---- batching --------------------------------------------------------------------------------------------------------

ATTEMPTS = "scheduler_batch_attempts_total"
FLUSHED = "scheduler_batch_cache_flushed_total"
HINT = "scheduler_get_node_hint_duration_seconds_count"
STORED = "scheduler_store_schedule_results_duration_seconds_count"
BATCHING = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List"}}],
        }
    ]
}


def test_batching_counts_hints_and_those_taken():
    nodes = [make_node(f"n{i}", cpu=1 << i, memory=f"{1 << i}Gi") for i in range(3)]
    scheduler, _, sample = watched(*nodes, config=BATCHING)
    for i in range(3):
        scheduler.place(make_pod(f"p{i}", host_ports=[8080], cpu="500m", memory="512Mi"))
    profile = 'profile="default-scheduler"'
    assert sample(ATTEMPTS, profile, 'result="no_hint"') == 1
    assert sample(ATTEMPTS, profile, 'result="hint_used"') == 2
    assert sample(ATTEMPTS, profile, 'result="hint_not_used"') is None
    assert sample(HINT, profile, 'hinted="hint"') == 2
    assert sample(HINT, profile, 'hinted="no_hint"') == 1
    assert sample(STORED, profile) == 3
    assert sample(FLUSHED) is None


@pytest.mark.parametrize(
    ("between", "second", "reason"),
    [
        pytest.param(lambda on: None, {"labels": {"a": "b"}}, "pod_incompatible", id="another kind of pod"),
        pytest.param(lambda on: on.clock.advance(0.6), {}, "expired", id="too late"),
        pytest.param(lambda on: on.decide(make_pod("q", cpu="64")), {}, "pod_skipped", id="a pod that failed between"),
        pytest.param(lambda on: on.put(make_node("new")), {}, "node_missing", id="nodes have moved"),
        pytest.param(lambda on: on.cluster.remove_pod("uid-default-p0"), {}, "node_not_full", id="room again"),
    ],
)
def test_batching_says_why_what_it_knows_is_of_no_use(between, second, reason):
    nodes = [make_node(f"n{i}", cpu=1 << i, memory=f"{1 << i}Gi") for i in range(4)]
    scheduler, _, sample = watched(*nodes, config=BATCHING)
    scheduler.place(make_pod("p0", host_ports=[8080], cpu="500m"))
    between(scheduler)
    scheduler.place(make_pod("p1", host_ports=[8080], cpu="500m", **second))
    assert sample(FLUSHED, f'reason="{reason}"') == 1


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        pytest.param(2, "pod_not_batchable", id="default spreading makes every pod unlike the others"),
        pytest.param(1, "empty_list", id="no other node to go to"),
    ],
)
def test_pods_that_cannot_be_batched_are_counted(nodes, reason):
    scheduler, _, sample = watched(*(make_node(f"n{i}") for i in range(nodes)))
    for _ in range(3):
        scheduler.decide(make_pod(cpu="1"))
    assert sample(ATTEMPTS, 'result="no_hint"') == 3
    assert sample(FLUSHED, f'reason="{reason}"') == 3


def test_without_the_gate_nothing_is_batched_and_nothing_counted():
    nodes = [make_node(f"n{i}", cpu=1 << i, memory=f"{1 << i}Gi") for i in range(3)]
    scheduler, _, sample = watched(*nodes, config=BATCHING)
    scheduler.session.engine.batching.is_enabled = False
    decisions = [scheduler.place(make_pod(f"p{i}", host_ports=[8080], cpu="500m")) for i in range(3)]
    assert [decision.from_hint for decision in decisions] == [False, False, False]
    assert sample(ATTEMPTS) is sample(HINT) is sample(STORED) is None


def test_the_gate_reaches_the_engine():
    assert not open_session(
        default_config(), ClusterState(), features=Features(OpportunisticBatching=False)
    ).engine.batching.is_enabled
    assert open_session(default_config(), ClusterState()).engine.batching.is_enabled


# ---- events and plugins' own -----------------------------------------------------------------------------------------


def test_handled_events_are_timed_by_label():
    meters = Meters(SchedulerMetrics())
    meters.event_handled("NodeAdd", 0.0002)
    meters.event_handled("NodeAdd", 0.5)
    rendered = meters.render().decode()
    assert 'scheduler_event_handling_duration_seconds_bucket{event="NodeAdd",le="0.0002"} 1' in rendered
    assert 'scheduler_event_handling_duration_seconds_count{event="NodeAdd"} 2' in rendered
    meters.reset()
    meters.event_handled("NodeAdd", 0.1)
    assert 'scheduler_event_handling_duration_seconds_count{event="NodeAdd"} 1' in meters.render().decode()


@pytest.mark.parametrize(
    ("happens", "metric"),
    [
        pytest.param(lambda meters: meters.event_handled("NodeAdd", 1.0), "event_handling_duration", id="events"),
        pytest.param(
            lambda meters: meters.hint_duration("Fit", "NodeAdd", "Queue", 1.0),
            "queueing_hint_execution_duration",
            id="hints",
        ),
        pytest.param(
            lambda meters: (
                meters.pre_enqueue("default-scheduler").plugin_timer(),
                meters.pre_enqueue("default-scheduler").extension_point("PreEnqueue", "Success", 1.0),
            ),
            "framework_extension_point_duration",
            id="gates",
        ),
    ],
)
def test_what_is_noted_is_counted_before_it_becomes_much(happens, metric):
    """Also where no attempt is made, no request is sent and metrics are not read."""
    metrics = SchedulerMetrics()
    meters = Meters(metrics)
    for _ in range(3 * FOLD):
        happens(meters)
    (child,) = getattr(metrics, metric).values()
    assert len(child._noted) <= FOLD
    assert sum(child.counts) == 3 * FOLD


def test_what_plugins_count_has_upstreams_labels():
    meters = Meters(SchedulerMetrics())
    profile = meters.profile("mine")
    profile.claim_created(is_created=True)
    profile.claim_created(is_created=False)
    profile.devices_waited_for(["gpu", "nic"], ["gpu"], "timeout", 600.0)
    profile.volume_stage_failed("bind")
    rendered = meters.render().decode()
    for line in (
        'scheduler_resourceclaim_creates_total{status="success"} 1',
        'scheduler_resourceclaim_creates_total{status="failure"} 1',
        'scheduler_dra_bindingconditions_allocations_total{driver="gpu",profile="mine",status="timeout"} 1',
        'scheduler_dra_bindingconditions_wait_duration_seconds_count{driver="nic",profile="mine",status="timeout"} 1',
        'scheduler_volume_scheduling_stage_error_total{operation="bind"} 1',
    ):
        assert line in rendered
    assert 'allocations_total{driver="nic"' not in rendered


# ---- what the scheduler tells ------------------------------------------------------------------------------------


@pytest.fixture
def told():
    """Meters with a stopped clock, and what they show."""
    clock = VirtualClock(100.0)
    meters = Meters(SchedulerMetrics(), clock)

    def shows(*lines: str) -> bool:
        rendered = meters.render().decode()
        return all(f"{line}\n" in rendered for line in lines)

    return meters, clock, shows


PROFILE = SimpleNamespace(scheduler_name="p")


def waiting(attempts: int = 1, *, since: float | None = 90.0, was_flushed: bool = False) -> SimpleNamespace:
    return SimpleNamespace(attempts=attempts, initial_attempt_timestamp=since, was_flushed=was_flushed)


def test_a_bound_pod_is_counted_with_all_it_took(told):
    meters, _, shows = told
    meters.bound(waiting(3, was_flushed=True), PROFILE, "a", 0.5)
    assert shows(
        'scheduler_schedule_attempts_total{profile="p",result="scheduled"} 1',
        'scheduler_scheduling_attempt_duration_seconds_sum{profile="p",result="scheduled"} 0.5',
        "scheduler_pod_scheduling_attempts_sum 3",
        'scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="3"} 10',
        "scheduler_pod_scheduled_after_flush_total 1",
    )


def test_a_pod_that_was_never_ready_has_no_sli(told):
    meters, _, _ = told
    meters.bound(waiting(20, since=None), PROFILE, "a", 0.5)
    assert "scheduler_pod_scheduling_sli_duration_seconds" not in meters.render().decode()


def test_many_attempts_share_a_label(told):
    meters, _, shows = told
    for attempts in (15, 40):
        meters.bound(waiting(attempts), PROFILE, "a", 0.5)
    assert shows('scheduler_pod_scheduling_sli_duration_seconds_count{attempts="15+"} 2')


@pytest.mark.parametrize(("reason", "result"), [("Unschedulable", "unschedulable"), ("SchedulerError", "error")])
def test_a_failed_attempt_is_counted_by_its_reason(told, reason, result):
    meters, _, shows = told
    meters.failed(waiting(), PROFILE, reason, "why", 0.25)
    assert shows(f'scheduler_schedule_attempts_total{{profile="p",result="{result}"}} 1')


def test_bindings_under_way_are_a_gauge(told):
    meters, _, shows = told
    meters.binding(waiting())
    meters.binding(waiting())
    meters.binding_ended(waiting())
    assert shows('scheduler_goroutines{operation="binding"} 1')


def test_permit_decisions_evictions_and_timeouts(told):
    meters, _, shows = told
    meters.waited(waiting(), Code.UNSCHEDULABLE, 2.0)
    meters.decided(waiting(), PROFILE, None, 0.004)
    room = Room(None, "pod", "a", 4)
    meters.preempting(room)
    meters.preempted(room, 0.5, False, True)
    meters.timed_out("attempt")
    assert shows(
        'scheduler_permit_wait_duration_seconds_count{result="Unschedulable"} 1',
        "scheduler_scheduling_algorithm_duration_seconds_sum 0.004",
        "scheduler_preemption_victims_sum 4",
        'scheduler_preemption_goroutines_execution_total{result="success"} 1',
        'mooring_timeouts_total{what="attempt"} 1',
    )


def test_after_a_reset_everything_counts_from_zero(told):
    meters, _, shows = told
    for _ in range(2):
        meters.bound(waiting(), PROFILE, "a", 0.5)
        meters.decided(waiting(), PROFILE, None, 0.004)
        meters.binding(waiting())
        meters.reset()
    meters.bound(waiting(), PROFILE, "a", 0.5)
    meters.decided(waiting(), PROFILE, None, 0.004)
    meters.binding(waiting())
    assert shows(
        'scheduler_schedule_attempts_total{profile="p",result="scheduled"} 1',
        "scheduler_scheduling_algorithm_duration_seconds_count 1",
        'scheduler_goroutines{operation="binding"} 1',
    )


def test_writing_needs_no_refresh_and_refreshing_no_writing(told):
    meters, _, _ = told
    looked = []
    meters.metrics.on_render(lambda: looked.append("refreshed"))
    meters.exposition()
    assert looked == []
    meters.refresh()
    assert looked == ["refreshed"]
