"""Beside our own scheduler on the embedded API server: pods are created and evicted, nodes are cordoned and lost.

Every decision is explained: the same, equally good, or different for a cause that has a name.
"""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

import pytest

from mooring.api.clock import SystemClock
from mooring.ask.shadow.judge import Judge
from mooring.ask.shadow.scene import Scene
from mooring.ask.shadow.shadow import InOrder, Shadow
from mooring.ask.shadow.summary import Summary
from mooring.cli.watched_cluster import watched
from mooring.controlplane.cluster.kubelet import Kubelets
from mooring.controlplane.cluster.manager import ControllerManager
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import Faults
from mooring.core.config.features import DEFAULT_FEATURES
from mooring.core.config.load import config_from_dict, default_config
from mooring.live.live_scheduler import LiveScheduler
from mooring.net.informer import InformerSet
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.rest import RestClient
from tests.faults.churn import Churn

from .test_verdicts import PACK

pytestmark = pytest.mark.e2e
DECISIONS = 150
SEARCHED_IN_VAIN = 10  # a search that finds nothing takes long
BURST = 4  # changes that race with decisions: as many on a slow machine as on a fast one
WAIT_S = 600.0  # only so that a test that hangs ends


async def watch(
    path: Path,
    seed: int,
    scheduler: dict[str, Any] | None = None,
    faults: Faults | None = None,
    decisions: int = DECISIONS,
) -> Summary:
    """Churn on four nodes, so that there are refusals and preemption, until enough decisions were seen."""
    scene = Scene()
    judge = Judge(scene, default_config(), DEFAULT_FEATURES, SystemClock())
    shadow = Shadow(scene, judge, None, ["default-scheduler"], time.time)
    in_order = InOrder(shadow, time.monotonic)
    loop = asyncio.get_running_loop()
    async with ControlPlane(kubeconfig_path=path, faults=faults) as plane:
        kubelets, controllers = Kubelets(plane.api, loop), ControllerManager(plane.api, loop)
        kubelets.start()
        controllers.start()
        churn = Churn(plane, faults or Faults(), random.Random(seed), 4, "none")
        churn.set_up()
        config = load_kubeconfig([str(path)], environ={})
        async with (
            RestClient(config, qps=-1) as theirs,
            RestClient(config, qps=-1) as ours,
            LiveScheduler(theirs, config_from_dict(scheduler, DEFAULT_FEATURES), None, hostname="HOST") as live,
            asyncio.timeout(WAIT_S),
            watched(ours, in_order) as (informers, _),
        ):
            shadow.is_listing = lambda: informers.is_listing
            while shadow.summary.decisions < decisions:
                for _ in range(BURST):
                    churn.step()
                    await asyncio.sleep(0)
                while not has_settled(plane, live, informers):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
                in_order.pass_on()
                shadow.settle()
        in_order.pass_on(is_all=True)
        shadow.settle(is_over=True)
        controllers.stop()
        kubelets.stop()
    return shadow.summary


def has_settled(plane: ControlPlane, live: LiveScheduler, informers: InformerSet) -> bool:
    """Whether nothing is being decided or bound, and the scheduler and the shadow have seen all that happened."""
    scheduler = live.scheduler
    if scheduler.queue.counts()["active"] or scheduler.cluster.num_assumed:
        return False
    nodes = {name: info.node for name, info in scheduler.cluster.table.nodes.items() if info.node is not None}
    for kind, known in ((PODS, scheduler.pods), (NODES, nodes)):
        there = {entry.key.lstrip("/"): str(entry.rv) for entry in plane.store.iterate(kind)}
        for seen in (known, informers[kind.plural].store):
            if {key: obj.metadata.resource_version for key, obj in seen.items()} != there:
                return False
    return True


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_decision_under_churn_is_explained(tmp_path: Path, seed: int) -> None:
    summary = await watch(tmp_path / "kubeconfig", seed)
    unexplained = [verdict.to_dict() for verdict in summary.differences if not verdict.is_explained]
    assert unexplained == []
    found = summary.to_dict()
    assert found["explained"] == found["decisions"] >= DECISIONS
    assert found["bindings"]["same"] and found["refusals"]["sameWords"]


async def test_every_decision_under_faults_is_explained(tmp_path: Path) -> None:
    """Bindings fail and watches break and expire, the scheduler's and the shadow's."""
    faults = Faults()
    summary = await watch(tmp_path / "kubeconfig", 3, faults=faults)
    unexplained = [verdict.to_dict() for verdict in summary.differences if not verdict.is_explained]
    assert unexplained == []
    assert summary.to_dict()["explained"] == summary.decisions >= DECISIONS
    assert any(rule.times <= 0 for rule in faults.rules)


async def test_a_scheduler_with_another_configuration_is_not_explained_away(tmp_path: Path) -> None:
    """The search for a moment must not find one for decisions that were made by other rules."""
    summary = await watch(tmp_path / "kubeconfig", 1, PACK, decisions=SEARCHED_IN_VAIN)
    assert summary.unexplained and summary.plugins["NodeResourcesFit"]
