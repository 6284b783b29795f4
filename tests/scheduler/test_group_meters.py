"""Metrics of pod groups: groups and pods are counted apart, and attempts by their result."""

from __future__ import annotations

from mooring.config.features import Features
from mooring.config.versions import V1_37
from mooring.observe.metrics import SchedulerMetrics
from mooring.testing import make_node, make_pod, make_pod_group

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


async def test_without_the_gate_there_is_no_such_metric(make_stage):
    stage = make_stage(features=Features(V1_37), metrics=SchedulerMetrics(features=Features(V1_37)))
    assert "podgroup_schedule_attempts" not in stage.scheduler.meters.render().decode()
