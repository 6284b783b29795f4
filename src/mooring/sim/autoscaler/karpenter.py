"""Karpenter: nodes for pods that wait, and disruption of nodes that are empty, underused or old.

Provisioning looks a second after the last pod was refused, or ten seconds after the first. Disruption looks every ten
seconds, and carries out one command at a time: what it has found must still hold after fifteen seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mooring.api.core import Taint
from mooring.sim.autoscaler.disruption import Command, Disruption
from mooring.sim.autoscaler.fleet import NO_CAPACITY, Fleet, Machine, again, stays_with_node
from mooring.sim.autoscaler.node_pool import EXPIRED, NodePool
from mooring.sim.autoscaler.provisioning import Claim, Provisioning, Wish

BATCH_IDLE_S, BATCH_MAX_S = 1.0, 10.0
POLLING_S = 10.0
VALIDATION_S = 15.0
NO_CAPACITY_S = 180.0  # for which an offering is left out that the cloud did not have
DISRUPTED = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")


class Karpenter:
    """An autoscaler with NodePools."""

    def __init__(self, fleet: Fleet, pools: Sequence[NodePool], *, is_exact: bool) -> None:
        self._fleet = fleet
        self._pools = {pool.name: pool for pool in pools}
        self._provisioning = Provisioning(fleet, pools, is_exact=is_exact)
        self._disruption = Disruption(fleet, self._pools, self._provisioning)
        self._commands = 0  # that are being carried out
        self._replacements: set[str] = set()  # machines of commands

    @property
    def is_idle(self) -> bool:
        return not self._commands and self._fleet.is_idle

    async def start(self) -> None:
        """Begin to look."""
        self._fleet.beside(self._provision())
        self._fleet.beside(self._disrupt())

    # ---- provisioning --------------------------------------------------------------------------------------------

    async def _provision(self) -> None:
        fleet = self._fleet
        while True:
            await self._batch()
            decisions = fleet.scheduler.decisions
            waiting = fleet.waiting()
            leaving = [machine for machine in fleet.machines.values() if machine.leaving]
            pods = [info.pod_info for info in waiting]
            session = fleet.scheduler.session
            for machine in leaving:
                info = fleet.info(machine)
                on_it = [] if info is None else info.pods.values()
                pods += [again(pod, session) for pod in on_it if not stays_with_node(pod.pod)]
            if pods:
                plan = self._provisioning.plan(Wish(pods, [machine.name for machine in leaving]))
                for claim in plan.claims:
                    self.launch(claim, plan.pods_on(claim, pods))
            fleet.decisions_seen = decisions

    async def _batch(self) -> None:
        """Wait for a pod that was refused, and for those that follow it soon."""
        fleet = self._fleet
        waits = sum(fleet.scheduler.queue.counts()[each] for each in ("unschedulable", "backoff"))
        try:
            await asyncio.wait_for(fleet.refused.wait(), BATCH_MAX_S if waits else None)
            started_s = fleet.now_s
            while fleet.refused.is_set() and (left_s := started_s + BATCH_MAX_S - fleet.now_s) > 0:
                fleet.refused.clear()
                await asyncio.sleep(min(BATCH_IDLE_S, left_s))
        except TimeoutError:
            pass  # pods that still wait are looked at again every ten seconds
        fleet.refused.clear()
        fleet.batch.clear()

    def launch(self, claim: Claim, planned: Sequence[str] = ()) -> Machine:
        """Order the cheapest of a claim's offerings."""
        pool, offering = claim.pool, claim.launched
        machine = self._fleet.order(
            pool.name, offering, taints=pool.taints, startup_taints=pool.startup_taints, planned=planned
        )
        if machine.why_failed:
            until_s = self._fleet.now_s + NO_CAPACITY_S
            self._provisioning.unavailable[offering] = until_s
            if machine.why_failed == NO_CAPACITY:
                self._fleet.retry_s = max(self._fleet.retry_s, until_s + 2 * BATCH_MAX_S)
        elif pool.expire_after_s is not None:
            self._fleet.beside(self._expire(machine, pool.expire_after_s, pool.grace_s))
        return machine

    async def _expire(self, machine: Machine, after_s: float, grace_s: float | None) -> None:
        """A node that is old goes, whatever budgets of its NodePool say."""
        await asyncio.sleep(after_s)
        if machine.name in self._fleet.machines and not machine.leaving:
            self._fleet.remove(machine, EXPIRED, DISRUPTED, force_s=grace_s)
            self._fleet.refused.set()  # its pods need a place

    # ---- disruption ----------------------------------------------------------------------------------------------

    async def _disrupt(self) -> None:
        while True:
            await asyncio.sleep(POLLING_S + self._disruption.thought_s)
            while (command := self._next_command()) is not None:
                await asyncio.sleep(VALIDATION_S)
                valid = self._disruption.validated(command)
                if valid is None:
                    break
                self._carry_out(valid)

    def _next_command(self) -> Command | None:
        self._fleet.forget_deleted()
        self._fleet.note_pods()
        return self._disruption.find()

    def _carry_out(self, command: Command) -> None:
        for machine in command.machines:
            machine.leaving = command.reason
        self._commands += 1
        self._fleet.beside(self._replace(command))

    async def _replace(self, command: Command) -> None:
        """Nodes are drained once their replacement is there; without it they stay."""
        try:
            for machine in command.machines:
                await self._fleet.mark(machine, DISRUPTED)
            if command.claim is not None:
                replacement = self.launch(command.claim, command.planned)
                await replacement.settled.wait()
                if replacement.why_failed:
                    for machine in command.machines:
                        machine.leaving = ""
                        await self._fleet.unmark(machine)
                    return
            for machine in command.machines:
                if machine.name in self._fleet.machines:
                    grace_s = self._pools[machine.pool].grace_s
                    self._fleet.remove(machine, command.reason, DISRUPTED, force_s=grace_s)
        finally:
            self._commands -= 1
