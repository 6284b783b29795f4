"""Karpenter: nodes for pending pods, and disruption of nodes that are empty, underused or old.

Files are those of kubernetes-sigs/karpenter in ``pkg/controllers``; tests those of ``tests/sim/autoscaler``.

| behaviour | upstream's file | test |
|---|---|---|
| a batch ends a second after its last pod, or after ten | provisioning/batcher.go | a_pod_waits_for_the_batch |
| pods by CPU and memory, the largest first | provisioning/scheduling/queue.go | what_is_launched[largest first] |
| existing nodes, planned ones with the fewest pods, new ones | scheduling/scheduler.go | what_is_launched |
| NodePools by weight, then by name from the end | utils/nodepool | what_is_launched[the heavier pool first] |
| limits leave types out; the largest that may come is counted | scheduling/scheduler.go | what_is_launched[a limit] |
| a planned node keeps its types, and minValues of them | scheduling/nodeclaim.go | min_values_keep |
| preferences are requirements until none helps | scheduling/preferences.go | preferences_are_requirements |
| zones without nodes count for pods that spread | scheduling/topology.go | upstream_knows_zones |
| budgets: numbers, shares rounded up, reasons, schedules | apis/v1/nodepool.go | how_many_nodes_may_go |
| empty nodes, then several, then single ones, every ten seconds | disruption/controller.go | what_goes |
| a command must still hold after fifteen seconds | disruption/validation.go | no_more_nodes_go_together |
| nodes by what they save for the disruption | disruption/types.go | what_an_eviction_costs |
| at most one node comes, and it is cheaper | disruption/consolidation.go | what_goes, two_nodes_become_one |
| no spot node for a spot node | disruption/consolidation.go | spot_nodes_are_not_replaced |
| several go for one of another type only | disruption/multinodeconsolidation.go | two_nodes_become_one |
| nodes go when their replacement is there, else they stay | disruption/queue.go | a_node_stays_until |
| pods and their budgets can forbid it | state/statenode.go | what_goes, what_a_pod_forbids |
| expireAfter goes past budgets, a grace period past pods | nodeclaim/expiration | a_node_expires, after_the_grace |

Differences: a planned node settles its zone and architecture with its first pod; the first of several required terms of
node affinity is not tried alone; drift, Balanced, static pools, reserved capacity, buffers and devices of DRA are left
out. Upstream's simulation takes time, which virtual time does not: see ``SIMULATION_S``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mooring.api.core import Taint
from mooring.core.state.pod_info import PodInfo
from mooring.sim.autoscaler.disruption import Command, Disruption
from mooring.sim.autoscaler.fleet import NO_CAPACITY, Fleet, Machine, again, stays_with_node
from mooring.sim.autoscaler.node_pool import EXPIRED, NodePool
from mooring.sim.autoscaler.provisioning import Claim, Provisioning, Wish

BATCH_IDLE_S, BATCH_MAX_S = 1.0, 10.0
POLLING_S = 10.0
VALIDATION_S = 15.0
NO_CAPACITY_S = 180.0  # for which an offering without capacity is left out
DISRUPTED = Taint(key="karpenter.sh/disrupted", effect="NoSchedule")


class Karpenter:
    """An autoscaler with NodePools."""

    def __init__(self, fleet: Fleet, pools: Sequence[NodePool], *, is_exact: bool) -> None:
        self._fleet = fleet
        self._pools = {pool.name: pool for pool in pools}
        self._provisioning = Provisioning(fleet, pools, is_exact=is_exact)
        self._disruption = Disruption(fleet, self._pools, self._provisioning)
        self._commands = 0  # in progress
        self._leaving: set[str] = set()  # machines whose pods were included in the last plan

    @property
    def is_idle(self) -> bool:
        return not self._commands and self._fleet.is_idle

    async def start(self) -> None:
        """Start its loops."""
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
            if pods and not self._is_planned([info.pod_info for info in waiting], leaving):
                plan = self._provisioning.plan(Wish(pods, [machine.name for machine in leaving]))
                for claim in plan.claims:
                    self.launch(claim, plan.pods_on(claim, pods))
            fleet.decisions_seen = decisions

    def _is_planned(self, pods: Sequence[PodInfo], leaving: Sequence[Machine]) -> bool:
        """Report whether nodes for all of these are on their way: another simulation would find the same."""
        names = {machine.name for machine in leaving}
        is_same, self._leaving = names == self._leaving, names
        machines, planned_for = self._fleet.machines, self._fleet.outcome.planned_for
        return is_same and all(
            (machine := machines.get(planned_for(pod.pod.key))) is not None and machine.is_coming for pod in pods
        )

    async def _batch(self) -> None:
        """Wait for a rejected pod, and for those that follow it soon."""
        fleet = self._fleet
        waits = sum(fleet.scheduler.queue.counts()[each] for each in ("unschedulable", "backoff"))
        try:
            await asyncio.wait_for(fleet.refused.wait(), BATCH_MAX_S if waits else None)
            started_s = fleet.now_s
            while fleet.refused.is_set() and (left_s := started_s + BATCH_MAX_S - fleet.now_s) > 0:
                fleet.refused.clear()
                await asyncio.sleep(min(BATCH_IDLE_S, left_s))
        except TimeoutError:
            pass  # pending pods are considered again every ten seconds
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
        """Remove a node at its age limit, regardless of its NodePool's budgets."""
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
        """Drain nodes once their replacement has joined; without it they stay."""
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
