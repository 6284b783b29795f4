"""Changes and faults over real sockets, with leaders that are replaced: nothing is lost and nothing is left behind."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random

import pytest

from mooring.controlplane.cluster.kubelet import Kubelets
from mooring.controlplane.cluster.manager import ControllerManager
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import Faults
from mooring.live.flags import parse_flags
from mooring.live.process import SchedulerProcess
from mooring.live.settings import load_settings
from tests.faults.churn import NAMESPACE, Churn
from tests.faults.holdings import left_behind
from tests.faults.store_audit import Audit

FAULTS = {"cordon", "lose_node", "drop_watch", "expire_watch", "fail_binding", "fail_requests"}
LEASE = "churn"
CHANGES = 430  # every kind of fault is among them
LEADER_CHANGES = 2
PATIENCE_S = 600.0  # the test waits for what happens, not for a time: a slow machine shows as much


class Replica:
    """A scheduler process that is started again whenever it ends. Losing the lease is one way to end."""

    def __init__(self, settings):
        self._settings = settings
        self.process = None
        self.is_deposed = False

    async def run(self):
        while True:
            self.process = process = SchedulerProcess(self._settings, self._settings.client_config)
            self.is_deposed = False
            task = asyncio.create_task(process.run(signals=False))
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                process.stop()
                await task
                raise

    @property
    def leads(self):
        return self.process is not None and self.process.ready.is_set() and not self.is_deposed


def settings_for(kubeconfig):
    return load_settings(
        parse_flags(
            (
                f"--kubeconfig={kubeconfig}",
                "--secure-port=0",
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
                f"--leader-elect-resource-name={LEASE}",
                "--leader-elect-lease-duration=6s",
                "--leader-elect-renew-deadline=4s",  # long enough for a busy machine
                "--leader-elect-retry-period=500ms",
            )
        )
    )


async def shake(churn, replicas):
    """Make changes until there were enough, and end a leader's term now and then, by a stop or by theft in turn."""
    replaced, ways = 0, itertools.cycle(("theft", "stop"))
    while churn.steps < CHANGES or replaced < LEADER_CHANGES:
        churn.step()
        leader = next((replica for replica in replicas if replica.leads), None)
        if leader is not None and churn.steps > (replaced + 1) * CHANGES // (LEADER_CHANGES + 2):
            if next(ways) == "stop":
                leader.process.stop()
                leader.is_deposed = True
            else:
                leader.is_deposed = churn.steal_lease()
            replaced += leader.is_deposed
        await asyncio.sleep(0.02)


async def come_to_rest(plane, replicas):
    """With room for every pod and no faults all are bound, and both replicas know exactly the existing objects."""
    while True:
        waiting = [e.key for e in plane.store.iterate(PODS, NAMESPACE) if not (e.fields or {}).get("spec.nodeName")]
        schedulers = [replica.process.live for replica in replicas]
        if not waiting and all(live is not None and left_behind(plane, live) == [] for live in schedulers):
            return
        await asyncio.sleep(0.1)


@pytest.mark.e2e
@pytest.mark.timeout(1800)
async def test_four_hundred_changes_with_faults_lose_nothing(caplog, tmp_path):
    caplog.set_level(logging.CRITICAL, logger="mooring")
    before, faults, kubeconfig = asyncio.all_tasks(), Faults(), tmp_path / "kubeconfig"
    loop = asyncio.get_running_loop()
    async with (
        asyncio.timeout(PATIENCE_S),
        ControlPlane(kubeconfig_path=kubeconfig, faults=faults, event_ttl_s=60.0, history=1000) as plane,
    ):
        kubelets, controllers, audit = Kubelets(plane.api, loop), ControllerManager(plane.api, loop), Audit(plane.store)
        for each in (audit, kubelets, controllers):
            each.start()
        churn = Churn(plane, faults, random.Random(3), 8, LEASE)
        churn.set_up()
        replicas = [Replica(settings_for(kubeconfig)) for _ in range(2)]
        running = [asyncio.create_task(replica.run()) for replica in replicas]
        await shake(churn, replicas)
        churn.calm(0.6)
        await come_to_rest(plane, replicas)
        assert not any(task.done() for task in running)  # a process that ends with an error ends its replica
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for each in (controllers, kubelets, audit):
            each.stop()
    assert audit.problems == []
    assert audit.bound >= 50
    assert churn.done.keys() >= {"create", "delete", "evict"} | FAULTS
    await asyncio.sleep(0.5)  # connections that are being closed
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()


def test_every_kind_of_fault_comes_however_the_dice_fall():
    for seed in range(5):
        churn = Churn(ControlPlane(garbage_collection=False), Faults(), random.Random(seed), 4, "lease")
        churn.set_up()
        for _ in range(churn.steps_for_all_faults):
            churn.step()
        assert churn.done.keys() >= FAULTS


def test_faults_leave_most_of_the_cluster_working():
    """Otherwise few pods would be bound, and the test would show little."""
    plane = ControlPlane(garbage_collection=False)
    churn = Churn(plane, Faults(), random.Random(1), 20, "lease")
    churn.set_up()
    for _ in range(5 * churn.steps_for_all_faults):
        churn.step()
        present = list(plane.store.iterate(NODES))
        assert len(present) >= 16
        assert sum(bool(entry.object()["spec"].get("unschedulable")) for entry in present) <= 5
