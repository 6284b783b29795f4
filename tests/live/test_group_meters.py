"""Metrics of pod groups: groups and pods are counted apart, and attempts by their result."""

from __future__ import annotations

from mooring.core.config.features import Features
from mooring.core.config.versions import V1_37
from mooring.live.metrics import SchedulerMetrics
from mooring.testing import make_node, make_object, make_pod, make_pod_group

FEATURES = Features(V1_37, GenericWorkload=True)


def lines(stage, name: str) -> dict[str, float]:
    text = stage.scheduler.meters.render().decode()
    found = (line.rpartition(" ") for line in text.splitlines() if line.startswith(name + "{"))
    return {labels.removeprefix(name): float(value) for labels, _, value in found}


async def test_what_is_counted_of_groups(make_stage):
    stage = make_stage(features=FEATURES, metrics=SchedulerMetrics(features=FEATURES))
    stage.put(make_node("a", cpu="2"), make_pod_group("g", gang=3), make_pod_group("h", gang=1))
    stage.put(*(make_pod(f"g{i}", group="g", cpu="1") for i in range(3)), make_pod("lost", group="nowhere"))
    entities = lines(stage, "scheduler_queued_entities")
    assert entities['{queue="active",type="podgroup"}'] == 1 and entities['{queue="active",type="pod"}'] == 0
    pods = lines(stage, "scheduler_pending_pods")
    assert (pods['{queue="active"}'], pods['{queue="incomplete"}']) == (3, 1)
    await stage.go()
    stage.put(make_pod("h0", group="h", cpu="1"))
    await stage.go()
    assert lines(stage, "scheduler_podgroup_schedule_attempts_total") == {
        '{profile="default-scheduler",result="unschedulable"}': 1,
        '{profile="default-scheduler",result="scheduled"}': 1,
    }


async def test_what_is_counted_when_room_is_made_for_a_group(make_stage):
    stage = make_stage(features=FEATURES, metrics=SchedulerMetrics(features=FEATURES))
    budget = make_object("PodDisruptionBudget", "b", "default", spec={"selector": {"matchLabels": {"app": "old"}}})
    stage.put(make_node("a", cpu="2"), budget, make_pod_group("whole", gang=1, evicted_as_one=True))
    stage.put(make_pod("old", node="a", cpu="1", labels={"app": "old"}))
    stage.put(make_pod("whole-0", node="a", cpu="1", group="whole"))
    stage.put(make_pod_group("g", gang=2, priority=10))
    stage.put(*(make_pod(f"g{i}", group="g", cpu="1", priority=10) for i in range(2)))
    await stage.go()
    text = stage.scheduler.meters.render().decode()
    for line in (
        'scheduler_workload_preemption_attempts_total{result="Success"} 1',
        "scheduler_workload_preemption_victims_sum 2",
        'scheduler_preemption_workload_disruptions_sum{preemptor="podgroup"} 1',
        'scheduler_preemption_pdb_violations_total{preemptor="podgroup"} 1',
        'scheduler_preemption_evaluation_duration_seconds_count{preemptor="podgroup",result="Success"} 1',
        'scheduler_preemption_execution_duration_seconds_count{preemptor="podgroup",result="success"} 1',
        "scheduler_podgroup_scheduling_algorithm_duration_seconds_count 1",
        'scheduler_podgroup_scheduling_attempt_duration_seconds_count{profile="default-scheduler",'
        'result="waiting_on_preemption"} 1',
        "scheduler_preemption_victims_count 0",
    ):
        assert f"\n{line}\n" in text


async def test_what_is_counted_of_places(make_stage):
    features = Features(V1_37, GenericWorkload=True, TopologyAwareWorkloadScheduling=True)
    stage = make_stage(features=features, metrics=SchedulerMetrics(features=features))
    stage.put(make_node("a", cpu="1", labels={"rack": "1"}), make_node("b", cpu="2", labels={"rack": "2"}))
    stage.put(make_pod_group("g", gang=2, topology="rack"))
    stage.put(*(make_pod(f"g{i}", group="g", cpu="1") for i in range(2)))
    await stage.go()
    assert lines(stage, "scheduler_generated_placements_total") == {'{profile="default-scheduler"}': 2}
    assert lines(stage, "scheduler_placement_evaluations_total") == {
        '{profile="default-scheduler",result="feasible"}': 1,
        '{profile="default-scheduler",result="infeasible"}': 1,
    }
    assert lines(stage, "scheduler_placement_evaluation_duration_seconds_count").keys() == {
        '{profile="default-scheduler",result="feasible"}',
        '{profile="default-scheduler",result="infeasible"}',
    }


async def test_without_the_gate_there_is_no_such_metric(make_stage):
    stage = make_stage(features=Features(V1_37), metrics=SchedulerMetrics(features=Features(V1_37)))
    text = stage.scheduler.meters.render().decode()
    assert not any(name in text for name in ("podgroup_schedule_attempts", "workload_preemption", "placement"))
