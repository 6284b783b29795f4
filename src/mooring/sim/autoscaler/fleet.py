"""The fleet: the nodes that an autoscaler has ordered, from the order to the removal, and the forks for its plans.

Both policies share it. A policy decides which nodes to add and remove; the fleet does it in virtual time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mooring.api.clock import Clock
from mooring.api.codec import to_plain
from mooring.api.core import Node, Pod, Taint, recreated_pod
from mooring.api.errors import ApiError
from mooring.api.times import parse_time
from mooring.api.well_known import MIRROR
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.session import Session
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.live.scheduler import Scheduler
from mooring.sim.autoscaler.cloud import Cloud, Offering, plain_taint, usage_of
from mooring.sim.autoscaler.outcome import Outcome
from mooring.sim.streamed_pods import StreamedPods

if TYPE_CHECKING:
    from mooring.sim.scenario import ScenarioCluster

MOST_ROUNDS = 100
"""Rounds of the event loop until the scheduler sees a new node."""
REFUSED_S = 1.0  # until the cloud reports that there is no capacity, or no quota
EVICT_AGAIN_S = 5.0
IS_GONE_S = 2.0  # between two checks whether the last pods of a node are gone
GATED = "gated"
NO_CAPACITY, OVER_QUOTA = "no capacity", "quota"

Daemons = Callable[[Node], list[Pod]]


@dataclass(eq=False, slots=True)
class Machine:
    """A node from its order to its removal."""

    name: str
    pool: str  # the NodePool or the node group
    offering: Offering
    node: Node
    ordered_s: float
    startup_taints: Sequence[Taint] = ()
    planned: tuple[str, ...] = ()  # the pods that it was ordered for
    ready_s: float | None = None
    leaving: str = ""  # reason of its removal
    why_failed: str = ""  # reason of its failed launch
    settled: asyncio.Event = field(default_factory=asyncio.Event)  # it joined, or failed for good
    pods_seen: tuple[int, str] = (0, "")
    pods_changed_s: float = 0.0  # when a pod was last added or removed
    is_there: bool = False  # the scheduler has seen it

    @property
    def is_coming(self) -> bool:
        return self.ready_s is None and not self.why_failed


class Fleet:
    """All machines of a simulation, their cloud, and their outcomes."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        cluster: ScenarioCluster,
        daemons: Daemons,
        cloud: Cloud,
        streamed: StreamedPods,
    ) -> None:
        self.scheduler, self.clock, self.cluster, self.daemons, self.cloud = scheduler, clock, cluster, daemons, cloud
        self.streamed = streamed
        self.chance = random.Random(f"cloud {cluster.seed}")
        self.machines: dict[str, Machine] = {}
        self.coming: dict[str, Machine] = {}  # of these, those that are not ready: each plan asks for them
        self.outcome = Outcome(clock)
        self.refused = asyncio.Event()  # a pod was rejected, other than those of the batch
        self.batch: set[str] = set()
        self.retry_s = 0.0  # when a cloud without capacity is asked again
        self.decisions_seen = -1  # attempts of the scheduler at the last scan
        self._draining = 0
        self._numbers: Counter[str] = Counter()

    @property
    def now_s(self) -> float:
        return self.clock.monotonic()

    @property
    def is_idle(self) -> bool:
        """Report whether nothing is in progress, and the last scan covers all attempts of the scheduler."""
        is_seen = not sum(self.scheduler.queue.counts().values()) or self.decisions_seen == self.scheduler.decisions
        has_retry = bool(sum(self.scheduler.queue.counts().values())) and self.now_s < self.retry_s
        return is_seen and not has_retry and not self._draining and not self.coming

    def note_refused(self, uid: str) -> None:
        """Note that a pod found no node."""
        if uid not in self.batch:
            self.batch.add(uid)
            self.refused.set()

    # ---- state ---------------------------------------------------------------------------------------------------

    def of(self, pool: str) -> list[Machine]:
        """Return the existing and coming machines of a pool."""
        return [machine for machine in self.machines.values() if machine.pool == pool]

    def info(self, machine: Machine) -> NodeInfo | None:
        """Return the node as the scheduler sees it; None if it does not exist."""
        found = self.scheduler.cluster.table.nodes.get(machine.name)
        return None if found is None or found.node is None else found

    def usage(self, pool: str) -> Counter[str]:
        """Return what the machines of a pool count against its limits."""
        used: Counter[str] = Counter()
        for offering, count in Counter(machine.offering for machine in self.of(pool)).items():
            for name, amount in usage_of(offering).items():
                used[name] += amount * count
        return used

    def waiting(self) -> list[QueuedPodInfo]:
        """Return the pods that were tried and found no node, in the order of the queue."""
        cluster = self.scheduler.cluster
        waiting = [
            info
            for info, place in self.scheduler.queue.places()
            if place != GATED
            and info.attempts  # also while it is retried
            and not info.pod_info.pod.status.nominated_node_name
            and cluster.pod(info.uid) is None
        ]
        profile_for = self.scheduler.session.profile_for

        def key(info: QueuedPodInfo) -> Any:
            pod = info.pod_info
            return profile_for(pod.pod).queue_sort[0].sort_key(pod.priority, info.timestamp)

        return sorted(waiting, key=key)

    def note_pods(self) -> None:
        """Note the machines on which a pod was added or removed since the last scan."""
        nodes, now_s = self.scheduler.cluster.table.nodes, self.now_s
        for machine in self.machines.values():
            if machine.ready_s is None:
                continue
            info = nodes.get(machine.name)
            seen = (0, "") if info is None or not info.pods else (len(info.pods), next(reversed(info.pods)))
            if seen != machine.pods_seen:
                machine.pods_seen, machine.pods_changed_s = seen, now_s

    def forget_deleted(self) -> None:
        """Leave out machines whose nodes another step of the story deleted."""
        for machine in list(self.machines.values()):
            if machine.is_there and not machine.leaving and self.info(machine) is None:
                self._forget(machine, "deleted by the story")

    # ---- planning ------------------------------------------------------------------------------------------------

    def fork(self, without: Collection[str] = ()) -> Session:
        """Return the cluster with all coming machines, and without these nodes and their pods."""
        session = self.scheduler.session.fork()
        state = session.state
        for name in without:
            info = state.table.nodes.get(name)
            for pod in [] if info is None else list(info.pods.values()):
                state.remove_pod(pod.uid)
            state.remove_node(name)
        for machine in self.coming.values():
            if machine.name in without:
                continue
            info = state.table.nodes.get(machine.name)
            if info is None or info.node is None:
                self.plan(session, machine.node)
            else:
                state.set_node(machine.node)  # without its startup taints, as it will be
        return session

    def plan(self, session: Session, node: Node) -> list[Pod]:
        """Add a node that does not exist yet to a fork, with its daemons, which are returned."""
        known = session.state.table.nodes.get(node.name)
        if known is not None and known.node is not None:  # the API server would return the same
            pool = node.name.rpartition("-")[0]
            text = f'nodes "{node.name}" already exists'
            raise ApiError(f"node group {pool}: node {node.name}: {text}", code=409)
        session.state.set_node(node)
        daemons = self.daemons(node)
        for daemon in daemons:
            session.state.set_pod(daemon)
        return daemons

    def name(self, pool: str, ahead: int = 1) -> str:
        """Return the name of the next machine of a pool; ``ahead`` 2: of the one after it."""
        return f"{pool}-{self.number(pool, ahead)}"

    def number(self, pool: str, ahead: int = 1) -> int:
        """Return the number in that name."""
        return self._numbers[pool] + ahead

    # ---- launches ------------------------------------------------------------------------------------------------

    def order(
        self,
        pool: str,
        offering: Offering,
        *,
        taints: Sequence[Taint] = (),
        startup_taints: Sequence[Taint] = (),
        planned: Iterable[str] = (),
        delay_s: float | None = None,
    ) -> Machine:
        """Order a node. It joins after its delay, unless the cloud has no capacity."""
        self._numbers[pool] += 1
        name = self.name(pool, 0)
        machine = Machine(name, pool, offering, offering.node(name, taints), self.now_s, startup_taints, tuple(planned))
        if self._exceeds_quota(offering):
            machine.why_failed = OVER_QUOTA
        elif self.cloud.failures and self.chance.random() < self.cloud.failures:
            machine.why_failed = NO_CAPACITY
        if machine.why_failed:
            self.outcome.failed(machine.pool, offering, machine.why_failed)
            self.beside(self._fail(machine))
            return machine
        self.machines[name] = self.coming[name] = machine
        self.outcome.ordered(machine)
        wait_s = self.cloud.delay(self.chance) if delay_s is None else delay_s
        self.beside(self._arrive(machine, wait_s))
        return machine

    async def add(self, pool: str, offering: Offering, taints: Sequence[Taint] = ()) -> None:
        """Add a node that is there immediately."""
        self._numbers[pool] += 1
        name = self.name(pool, 0)
        machine = Machine(name, pool, offering, offering.node(name, taints), self.now_s)
        self.machines[name] = self.coming[name] = machine
        self.outcome.ordered(machine)
        await self._join(machine)
        machine.settled.set()

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        self.cluster.beside(work)

    def _exceeds_quota(self, offering: Offering) -> bool:
        quota = self.cloud.quota
        if not quota:
            return False
        used = usage_of(offering)
        for machine in self.machines.values():
            for name, amount in usage_of(machine.offering).items():
                used[name] = used.get(name, 0) + amount
        return any(used.get(name, 0) > most for name, most in quota.items())

    async def _fail(self, machine: Machine) -> None:
        await asyncio.sleep(REFUSED_S)
        machine.settled.set()
        self.refused.set()  # its pods still wait

    async def _arrive(self, machine: Machine, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        await self._join(machine)
        machine.settled.set()

    async def _join(self, machine: Machine) -> None:
        await self._create(machine)
        rate = machine.offering.interruptions_per_hour
        if rate and self.cloud.interrupts:
            self.beside(self._interrupt(machine, self.chance.expovariate(rate) * 3600))
        if machine.startup_taints and self.cloud.startup_s:
            await asyncio.sleep(self.cloud.startup_s)
            await self.set_taints(machine, machine.node.spec.taints)
        machine.ready_s = machine.pods_changed_s = self.now_s
        self.coming.pop(machine.name, None)

    async def _create(self, machine: Machine) -> None:
        """Register the node. It counts as coming until the scheduler has seen it."""
        taints = [*machine.node.spec.taints, *(machine.startup_taints if self.cloud.startup_s else ())]
        manifest = {**to_plain(machine.node), "apiVersion": "v1", "kind": "Node"}
        manifest["spec"] = {"taints": [plain_taint(taint) for taint in taints]} if taints else {}
        try:
            await self.cluster.create(manifest)
        except ApiError as error:
            raise ApiError(f"node group {machine.pool}: node {machine.name}: {error}", code=error.code) from error
        self.outcome.joined(machine)
        for _ in range(MOST_ROUNDS):
            if machine.name in self.scheduler.cluster.table.nodes:
                break
            await asyncio.sleep(0)
        machine.is_there = True

    async def _interrupt(self, machine: Machine, after_s: float) -> None:
        """Interrupt a spot node: its pods are evicted at the notice, and the remaining ones are lost at the end."""
        await asyncio.sleep(max(0.0, after_s - self.cloud.notice_s))
        if machine.name not in self.machines:
            return
        self.outcome.interrupted(machine)
        was_leaving, machine.leaving = bool(machine.leaving), machine.leaving or "Interrupted"
        self.refused.set()  # an autoscaler may replace it before its end
        if not was_leaving:
            self.beside(self._drain(machine, "Interrupted", None))
        await asyncio.sleep(self.cloud.notice_s)
        if machine.name in self.machines:
            await self._delete(machine)

    # ---- removals ------------------------------------------------------------------------------------------------

    def remove(
        self,
        machine: Machine,
        reason: str,
        taint: Taint | None = None,
        *,
        give_up_s: float | None = None,
        force_s: float | None = None,
    ) -> None:
        """Drain a node and delete it.

        If an eviction is still rejected after ``give_up_s``, the node stays. After ``force_s`` it is deleted with the
        pods that are left.
        """
        machine.leaving = reason
        self.beside(self._drain(machine, reason, taint, give_up_s, force_s))

    async def _drain(
        self,
        machine: Machine,
        reason: str,
        taint: Taint | None,
        give_up_s: float | None = None,
        force_s: float | None = None,
    ) -> None:
        """Evict its pods as their budgets allow; those of DaemonSets stay until the end."""
        self._draining += 1
        try:
            await self.mark(machine, taint)
            if await self._evict_all(machine, reason, give_up_s, force_s):
                if machine.name in self.machines:
                    await self._delete(machine)
            else:
                machine.leaving = ""
                await self.unmark(machine)
        finally:
            self._draining -= 1

    async def mark(self, machine: Machine, taint: Taint | None) -> None:
        """Taint it, so that no new pods are placed on it."""
        if taint is None:
            await self._patch(machine, {"unschedulable": True})
        else:
            await self.set_taints(machine, [*machine.node.spec.taints, taint])

    async def unmark(self, machine: Machine) -> None:
        """Remove the taint, so that new pods can be placed on it again."""
        await self._patch(machine, {"unschedulable": None})
        await self.set_taints(machine, machine.node.spec.taints)

    async def set_taints(self, machine: Machine, taints: Sequence[Taint]) -> None:
        await self._patch(machine, {"taints": [plain_taint(taint) for taint in taints] or None})

    async def _patch(self, machine: Machine, spec: dict[str, Any]) -> None:
        if self.info(machine) is not None:
            await self.cluster.patch(f"node/{machine.name}", {"spec": spec})

    async def _evict_all(self, machine: Machine, reason: str, give_up_s: float | None, force_s: float | None) -> bool:
        """Evict all pods; report whether the node can be deleted now."""
        started_s = self.now_s
        while (info := self.info(machine)) is not None:
            on_it = [pod for pod in info.pods.values() if not stays_with_node(pod.pod)]
            if not on_it:
                return True
            refused = False
            for pod in on_it:
                if not pod.pod.is_terminating:
                    refused |= not await self._evict(pod, reason)
            passed_s = self.now_s - started_s
            if force_s is not None and passed_s >= force_s:
                return True
            if give_up_s is not None and refused and passed_s >= give_up_s:
                return False
            await asyncio.sleep(EVICT_AGAIN_S if refused else IS_GONE_S)
        return True

    async def _evict(self, pod: PodInfo, reason: str) -> bool:
        """Evict a pod; report whether that was allowed, or not needed because it is gone."""
        meta = {"name": pod.pod.name, "namespace": pod.pod.namespace}
        try:
            await self.cluster.backend.evict({"apiVersion": "v1", "kind": "Pod", "metadata": meta})
        except ApiError as error:
            if error.code == 404:
                return True
            if error.code != 429:
                raise
            return False
        started = pod.pod.status.start_time
        is_lost = started is not None and self.streamed.ends_by_itself(pod.pod)
        self.outcome.evicted(reason, self.clock.now() - parse_time(started or "") if is_lost else 0.0)
        return True

    async def _delete(self, machine: Machine) -> None:
        self._forget(machine, machine.leaving)
        await self.cluster.delete(f"node/{machine.name}")

    def _forget(self, machine: Machine, reason: str) -> None:
        self.coming.pop(machine.name, None)
        if self.machines.pop(machine.name, None) is not None:
            self.outcome.removed(machine, reason)


def stays_with_node(pod: Pod) -> bool:
    """Report whether a pod belongs to its node: a DaemonSet's, or a static one."""
    owner = pod.metadata.controller()
    return MIRROR in pod.metadata.annotations or (owner is not None and owner.kind in ("DaemonSet", "Node"))


def again(pod: PodInfo, session: Session) -> PodInfo:
    """Return the pod that would replace an evicted one."""
    return session.info(recreated_pod(pod.pod, f"{pod.uid}~"))
