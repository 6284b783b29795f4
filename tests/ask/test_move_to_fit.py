"""MoveToFit: a pending pod gets room because others move, and every moved pod has a place afterwards."""

from __future__ import annotations

from typing import Any

import pytest

import mooring
from mooring.ask.move_to_fit import MoveToFit
from mooring.core.cluster import Cluster
from mooring.sim.scenario import ScenarioCluster
from mooring.testing import make_node, make_object
from mooring.testing_scenarios import node, play
from mooring.testing_scenarios import pod as wanted
from tests.ask.every_placement import pod

PLUGIN = "mooring.ask.move_to_fit:MoveToFit"
SSD = {"nodeSelector": {"disk": "ssd"}}


def configured(**args: Any) -> dict[str, Any]:
    plugins = {
        "postFilter": {
            "disabled": [{"name": "DefaultPreemption"}],
            "enabled": [{"name": "MoveToFit"}, {"name": "DefaultPreemption"}],
        }
    }
    return {"profiles": [{"plugins": plugins, "pluginConfig": [{"name": "MoveToFit", "args": args}]}]}


def cluster(**guest: Any) -> Cluster:
    """The only node that the pending pod may be on is half full with a pod that could be elsewhere."""
    return Cluster(
        make_node("small", cpu=2),
        make_node("large", cpu=4, labels={"disk": "ssd"}),
        pod("guest", "guest", "large", cpu=2, **guest),
        pod("big", "big", cpu=4, spec=SSD),
    )


def decided(found: Cluster, **args: Any) -> Any:
    return mooring.Scheduler(found, configured(**args), [PLUGIN]).decide("big")


def test_the_guest_moves_and_the_pod_is_nominated_to_its_node() -> None:
    decision = decided(cluster())
    assert [victim.pod for victim in decision.victims] == ["default/guest"]
    assert decision.nominated_node == "large"
    assert "moving 1 pod(s) to other nodes makes room on large" in decision.message


@pytest.mark.parametrize(
    ("found", "args", "why"),
    [
        pytest.param(cluster(priority=5), {}, "no pod can be moved", id="a pod of a higher priority stays"),
        pytest.param(cluster(), {"maxMoves": 0}, "no 0 moves make room", id="a limit of moves"),
        pytest.param(cluster(), {"searchesPerMinute": 0}, "0 searches", id="a limit of searches"),
        pytest.param(cluster(spec=SSD), {}, "make room", id="the guest would find no other node"),
    ],
)
def test_nobody_moves_where_it_does_not_help(found: Cluster, args: Any, why: str) -> None:
    decision = decided(found, **args)
    assert not decision.victims
    assert why in decision.message


def test_a_budget_keeps_the_guest() -> None:
    found = cluster()
    spec = {"selector": {"matchLabels": {"app": "guest"}}, "maxUnavailable": 0}
    found.add(make_object("PodDisruptionBudget", "guest", "default", spec=spec, status={"disruptionsAllowed": 0}))
    assert "no pod can be moved" in decided(found).message


def test_it_is_off_by_default() -> None:
    assert not mooring.Scheduler(cluster()).decide("big").victims
    assert mooring.Scheduler(cluster(), None, [PLUGIN]).decide("big").victims


def test_a_scheduler_that_runs_moves_pods_until_all_run() -> None:
    """On the embedded control plane: the guest is evicted, its Deployment makes another, and both pods run."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "2"}}}
    guest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "guest"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "guest"}},
            "template": {"metadata": {"labels": {"app": "guest"}}, "spec": {"containers": [container]}},
        },
    }

    async def story(cluster: ScenarioCluster) -> None:
        await cluster.create(node("large", cpu="4", labels={"disk": "ssd"}), guest)
        await cluster.wait("deployment/guest", "Available")
        await cluster.create(node("small", cpu="2"), wanted("big", cpu="4", nodeSelector={"disk": "ssd"}))
        await cluster.wait("pod/big", "Ready")
        await cluster.wait("deployment/guest", "Available")
        places = await cluster.placements()
        assert places.pop("big") == "large"
        assert list(places.values()) == ["small"]

    play(story, config=configured(), plugins=(MoveToFit,))
