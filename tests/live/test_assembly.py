"""The scheduler put together: entry points, other configurations, and its listeners."""

from __future__ import annotations

import pytest

from mooring.api.errors import ConfigError
from mooring.core.config.load import config_from_dict
from mooring.core.framework.cluster_event import EventResource
from mooring.live.observer import SchedulerObserver
from mooring.live.scheduler import Scheduler
from mooring.testing import bound, make_node, make_object, make_pod


def profiles(*names: str, **more):
    return config_from_dict({"profiles": [{"schedulerName": name} for name in names], **more})


async def test_there_is_one_way_in_for_objects(make_stage):
    stage = make_stage()
    assert not hasattr(stage.scheduler, "handlers")
    stage.scheduler.put(make_node("a"))
    stage.scheduler.update(make_node("a"), make_node("a", cpu="7"))
    stage.scheduler.put(make_pod("web"))
    assert stage.where("web") == "active"
    stage.scheduler.delete(make_pod("web"))
    assert stage.where("web") == ""
    assert stage.scheduler.cluster.table.nodes["a"].node is not None


async def test_pods_of_other_schedulers_are_left_alone_until_a_profile_takes_them(make_stage):
    stage = make_stage()
    stage.put(make_node("a"), make_pod("theirs", spec={"schedulerName": "second"}))
    await stage.go()
    assert stage.heard.story == []
    stage.scheduler.reload(profiles("default-scheduler", "second"))
    await stage.go()
    assert stage.writer.sent == [("bind", "theirs:a")]


async def test_a_configuration_that_cannot_be_used_changes_nothing(make_stage):
    stage = make_stage()
    config, before = stage.scheduler.config, stage.scheduler.profiles
    plugins = {"filter": {"enabled": [{"name": "NoSuchPlugin"}]}}
    bad = config_from_dict({"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]})
    with pytest.raises(ConfigError, match="NoSuchPlugin"):
        stage.scheduler.reload(bad)
    assert stage.scheduler.config is config and stage.scheduler.profiles is before


async def test_a_reload_closes_what_asked_the_old_extenders(make_stage):
    class Closable:
        name, is_ignorable, is_filter, is_prioritizer, is_binder, supports_preemption = "x", True, *[False] * 4
        weight, is_closed = 1, False

        def is_interested(self, pod):
            return False

        def close(self):
            self.is_closed = True

    made = []

    def extenders(config):
        made.append(Closable())
        return made[-1:]

    stage = make_stage(extenders=extenders)
    stage.scheduler.reload(profiles("default-scheduler"))
    assert [extender.is_closed for extender in made] == [True, False]


async def test_a_reload_wakes_pending_pods(make_stage):
    stage = make_stage()
    stage.put(make_node("a", cpu="1"), make_pod("big", cpu="2"))
    await stage.go()
    assert stage.where("big") == "unschedulable"
    stage.clock.advance(60.0)
    stage.scheduler.reload(profiles("default-scheduler", percentageOfNodesToScore=70))
    assert stage.where("big") == "active"


async def test_the_kinds_that_plugins_want_to_hear_of(make_stage):
    assert EventResource.COSCHEDULING_POD_GROUP not in make_stage().scheduler.resources
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    config = {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}
    assert EventResource.COSCHEDULING_POD_GROUP in make_stage(config).scheduler.resources


async def test_the_metrics_and_other_observers_hear_the_same(make_stage):
    stage = make_stage()
    stage.put(make_node("a"), make_pod("web"))
    await stage.go()
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1\n' in (
        stage.scheduler.meters.render().decode()
    )
    assert "bound default/web to a" in stage.heard.story


async def test_an_observer_sees_pods_move_through_the_queue(make_stage):
    moves = []

    class Moves(SchedulerObserver):
        def moved(self, info, place, event, cause):
            moves.append((info.key, place, event, cause.name if cause else ""))

    stage = make_stage()
    other = Scheduler(
        stage.scheduler.config,
        lambda pods: stage.writer,
        stage.recorder,
        type(stage.scheduler.options)(clock=stage.clock, observers=(Moves(),)),
    )
    other.put(make_node("a", cpu="1"))
    other.put(make_pod("big", cpu="2"))
    other.schedule_one(other.queue.pop())
    stage.clock.advance(60.0)
    other.put(make_node("b", cpu="4"))
    assert moves == [
        ("default/big", "active", "UnschedulablePodAdd", ""),
        ("default/big", "unschedulable", "ScheduleAttemptFailure", ""),
        ("default/big", "active", "NodeAdd", "b"),
    ]
    await other.abort()


async def test_a_namespace_is_only_remembered(make_stage):
    stage = make_stage()
    stage.put(make_object("Namespace", "x"))
    assert stage.heard.story == []


async def test_a_pod_bound_by_another_scheduler_counts_on_its_node(make_stage):
    stage = make_stage()
    stage.put(make_node("a", cpu="1"), bound(make_pod("theirs", cpu="1"), "a"), make_pod("ours", cpu="1"))
    await stage.go()
    assert stage.where("ours") == "unschedulable"


async def test_a_pod_with_claims_learns_that_the_api_server_does_not_serve_them(make_stage):
    is_served = True
    stage = make_stage(claims_are_served=lambda: is_served)
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    stage.put(make_node("a"), make_pod("web", spec={"resourceClaims": claims}))
    await stage.go()
    assert stage.where("web") == "gated" and stage.recorder.events == [], "the claim may come"
    is_served = False
    stage.scheduler.reconsider()
    await stage.go()
    ((name, reason, note),) = stage.recorder.events
    assert (name, reason) == ("web", "FailedScheduling")
    assert "the API server does not serve resource.k8s.io/v1: there are no resource claims" in note
    assert stage.writer.patches, "its condition says so, too"
    claim = make_object("ResourceClaim", "gpu", "default", spec={})
    is_served = True
    stage.clock.advance(60.0)
    stage.put(claim)
    assert stage.where("web") == "active", "the claim has come after all"
