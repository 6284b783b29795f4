"""Which nodes Karpenter disrupts: empty ones, several replaced by a cheaper one, or one after another.

Each candidate set is simulated on a fork: the nodes are removed, and their pods need a place on the others and on at
most one new node, which must be cheaper. Simulations that cannot succeed are skipped: see :class:`_Room`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from mooring.api.budgets import budgets_of
from mooring.api.core import Pod
from mooring.api.errors import ParseError
from mooring.api.times import parse_seconds, parse_time
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from mooring.sim.autoscaler.fleet import Fleet, Machine, again, stays_with_node
from mooring.sim.autoscaler.node_pool import EMPTY, UNDERUTILIZED, WHEN_UNDERUTILIZED, NodePool
from mooring.sim.autoscaler.provisioning import Claim, Plan, Provisioning, Wish, launch_of
from mooring.sim.catalogue import SPOT

MAX_TOGETHER = 100  # nodes in one command
NOMINATED_S = 20.0  # after a node is ready, while pods that it was launched for have no node
DO_NOT_DISRUPT, DELETION_COST = "karpenter.sh/do-not-disrupt", "controller.kubernetes.io/pod-deletion-cost"


SIMULATION_S = 0.0002
"""Assumed duration of Karpenter's own simulation of a candidate, per node of the cluster."""
TIMEOUT_S = 180.0
Ask = tuple[int, int]
"""CPU and memory of a pod."""


@dataclass(frozen=True, slots=True)
class Command:
    """Nodes to remove, and their replacement, if any."""

    reason: str
    machines: tuple[Machine, ...]
    claim: Claim | None = None
    planned: tuple[str, ...] = ()


@dataclass(slots=True)
class Candidate:
    """A node that may be disrupted, with the pods that would have to move."""

    machine: Machine
    info: NodeInfo
    pods: list[PodInfo]
    cost: float  # of the disruption
    asks: Counter[Ask] = field(default_factory=Counter)  # number of pods with these requests
    is_plain: bool = False  # its pods request only CPU and memory

    @property
    def price(self) -> float:
        return self.machine.offering.price

    @property
    def ratio(self) -> float:
        """Return the savings per disruption cost."""
        return self.price / self.cost

    @property
    def is_empty(self) -> bool:
        return self.cost <= 1.0


class Disruption:
    """Finds the next command."""

    def __init__(self, fleet: Fleet, pools: Mapping[str, NodePool], provisioning: Provisioning) -> None:
        self._fleet, self._pools, self._provisioning = fleet, pools, provisioning
        self.thought_s = 0.0  # time that the last look takes in Karpenter
        self._known: dict[str, tuple[float, Candidate]] = {}  # by name, as of when a pod was last added or removed

    def find(self) -> Command | None:
        """Return the next command: empty nodes first, then several nodes together, then single ones."""
        self.thought_s = 0.0
        candidates = self._candidates()
        if not candidates:
            return None
        command = self._empty(candidates)
        if command is not None:
            return command
        used = [
            each
            for each in candidates
            if not each.is_empty and self._pools[each.machine.pool].consolidation == WHEN_UNDERUTILIZED
        ]
        if not used:
            return None
        num_nodes = len(self._fleet.scheduler.cluster.nodes())
        self.thought_s = min(TIMEOUT_S, len(used) * num_nodes * SIMULATION_S)
        room = _Room(self._fleet, self._provisioning, self._changing())
        return self._together(used, room) or self._single(used, room)

    def validated(self, command: Command) -> Command | None:
        """Return the part of a command that is still valid: all of it, or for empty nodes a part."""
        self._fleet.forget_deleted()
        self._fleet.note_pods()
        current = {each.machine.name: each for each in self._candidates()}
        found = [current[each.name] for each in command.machines if each.name in current]
        allowed = self._allowed(command.reason)
        if command.reason == EMPTY:
            kept = [each for each in found if each.is_empty and _take(allowed, each.machine.pool)]
            return Command(EMPTY, tuple(each.machine for each in kept)) if kept else None
        if len(found) != len(command.machines) or not all(_take(allowed, each.machine.pool) for each in found):
            return None
        again = self._consolidated(found)
        if again is None or (command.claim is None) != (again.claim is None):
            return None
        if again.claim is not None and command.claim is not None:
            types = {option.type for option in again.claim.options}
            if not {option.type for option in command.claim.options} <= types:
                return None
        return Command(command.reason, command.machines, command.claim, again.planned)

    # ---- candidates ----------------------------------------------------------------------------------------------

    def _candidates(self) -> list[Candidate]:
        now_s = self._fleet.now_s
        found = []
        for machine in self._fleet.machines.values():
            pool = self._pools.get(machine.pool)
            if pool is None or machine.ready_s is None or machine.leaving or pool.consolidate_after_s is None:
                continue
            if now_s - machine.pods_changed_s < pool.consolidate_after_s:
                continue
            if now_s - machine.ready_s < NOMINATED_S and self._fleet.outcome.has_open_plans(machine.name):
                continue
            candidate = self._candidate(machine)
            if candidate is not None and not self._is_blocked(candidate):
                found.append(candidate)
        found.sort(key=lambda each: (-each.ratio, each.machine.name))
        return found

    def _candidate(self, machine: Machine) -> Candidate | None:
        known = self._known.get(machine.name)
        if known is not None and known[0] == machine.pods_changed_s:
            return known[1]
        info = self._fleet.info(machine)
        if info is None:
            return None
        pods = [pod for pod in info.pods.values() if not stays_with_node(pod.pod) and not pod.pod.is_terminating]
        cost = 1.0 + sum(max(0.0, eviction_cost(pod.pod)) for pod in pods)
        asks = Counter((pod.shape.requests.get(CPU, 0), pod.shape.requests.get(MEMORY, 0)) for pod in pods)
        candidate = Candidate(machine, info, pods, cost, asks, all(map(_is_plain, pods)))
        self._known[machine.name] = machine.pods_changed_s, candidate
        return candidate

    def _is_blocked(self, candidate: Candidate) -> bool:
        """Report whether a pod or its budget forbids to disrupt the node now."""
        budgets = self._fleet.scheduler.cluster.objects
        has_budgets = any(True for _ in budgets.all(PodDisruptionBudget))
        now = self._fleet.clock.now()
        for pod in candidate.info.pods.values():
            if not pod.pod.is_terminating and is_protected(pod.pod, now):
                return True
        if not has_budgets:
            return False
        for pod in candidate.pods:
            mine = list(budgets_of(pod.pod, budgets.in_namespace(PodDisruptionBudget, pod.pod.namespace)))
            if len(mine) > 1 or any(each.status.disruptions_allowed <= 0 for each in mine):
                return True
        return False

    def _allowed(self, reason: str) -> dict[str, int]:
        """Return how many nodes of each pool may be disrupted now."""
        now = self._fleet.clock.now()
        found = {}
        for name, pool in self._pools.items():
            ready = [machine for machine in self._fleet.of(name) if machine.ready_s is not None]
            going = sum(bool(machine.leaving) for machine in ready)
            found[name] = max(0, pool.allowed_disruptions(len(ready), reason, now) - going)
        return found

    # ---- methods -------------------------------------------------------------------------------------------------

    def _empty(self, candidates: Sequence[Candidate]) -> Command | None:
        allowed = self._allowed(EMPTY)
        empty = [each for each in candidates if each.is_empty and _take(allowed, each.machine.pool)]
        return Command(EMPTY, tuple(each.machine for each in empty)) if empty else None

    def _together(self, candidates: Sequence[Candidate], room: _Room) -> Command | None:
        """Find the largest prefix of the candidates that can be removed together, by bisection as upstream."""
        allowed = self._allowed(UNDERUTILIZED)
        able = [each for each in candidates if _take(allowed, each.machine.pool)][:MAX_TOGETHER]
        best: Command | None = None
        low, high = 1, len(able) - 1
        while low <= high:
            middle = (low + high) // 2
            chosen = able[: middle + 1]
            command = self._consolidated(chosen) if room.may_hold(chosen) else None
            if command is not None and command.claim is not None:
                command = _without_same_type(command, chosen)
            if command is not None:
                best, low = command, middle + 1
            else:
                high = middle - 1
        return best

    def _single(self, candidates: Sequence[Candidate], room: _Room) -> Command | None:
        """Return the first node that can be removed: of each pool in turn. Of equal nodes one is tried."""
        allowed = self._allowed(UNDERUTILIZED)
        tried: set[tuple[object, ...]] = set()
        for candidate in _by_turns(candidates):
            if not allowed[candidate.machine.pool]:
                continue
            alike = (candidate.machine.offering, tuple(sorted((pod.shape.id, pod.cls.id) for pod in candidate.pods)))
            if alike in tried:
                continue
            tried.add(alike)
            if not room.may_hold([candidate]):
                continue
            command = self._consolidated([candidate])
            if command is not None:
                return command
        return None

    def _consolidated(self, candidates: Sequence[Candidate]) -> Command | None:
        """Simulate the removal of these nodes. At most one replaces them, and it must be cheaper."""
        fleet = self._fleet
        gone = {each.machine.name for each in candidates}
        leaving = [machine for machine in fleet.machines.values() if machine.leaving]
        session = fleet.scheduler.session
        moving = [again(pod, session) for each in candidates for pod in each.pods]
        others = [info.pod_info for info in fleet.waiting()]
        for machine in leaving:
            info = fleet.info(machine)
            on_it = [] if info is None else info.pods.values()
            others += [again(pod, session) for pod in on_it if not stays_with_node(pod.pod)]
        wish = Wish(
            [*others, *moving],
            [*gone, *(machine.name for machine in leaving)],
            self._changing(),
            {pod.uid for pod in moving},
        )
        command = self._command(candidates, wish, self._provisioning.packed(wish), moving)
        if command is None or not self._provisioning.is_exact:
            return command
        claims = [] if command.claim is None else [command.claim]
        proved = self._provisioning.proved(wish, Plan(claims, {}, []))
        return self._command(candidates, wish, proved, moving)

    def _command(
        self, candidates: Sequence[Candidate], wish: Wish, plan: Plan, moving: Sequence[PodInfo]
    ) -> Command | None:
        """Return the command for a plan; None if it is not a consolidation."""
        if not self._is_enough(plan, moving) or len(plan.claims) > 1:
            return None
        machines = tuple(each.machine for each in candidates)
        if not plan.claims:
            return Command(UNDERUTILIZED, machines)
        claim = plan.claims[0]
        if not _cheapen(claim, candidates):
            return None
        return Command(UNDERUTILIZED, machines, claim, tuple(plan.pods_on(claim, moving)))

    def _changing(self) -> set[str]:
        """Return nodes on which a pod was added or removed recently: no pod is moved to them."""
        now_s = self._fleet.now_s
        return {
            machine.name
            for machine in self._fleet.machines.values()
            if machine.ready_s is not None
            and (pool := self._pools.get(machine.pool)) is not None
            and pool.consolidate_after_s
            and now_s - machine.pods_changed_s < pool.consolidate_after_s
        }

    def _is_enough(self, plan: Plan, moving: Sequence[PodInfo]) -> bool:
        """Report whether every moving pod has a place, and none on a node that does not exist yet."""
        coming = self._fleet.coming
        return all(pod.uid in plan.placed and plan.placed[pod.uid] not in coming for pod in moving)


def _cheapen(claim: Claim, candidates: Sequence[Candidate]) -> bool:
    """Keep only options that cost less than the removed nodes; report whether any is left."""
    price = sum(each.price for each in candidates)
    has_spot = any(option.capacity_type == SPOT for option in claim.options)
    if has_spot and all(each.machine.offering.capacity_type == SPOT for each in candidates):
        return False  # spot to spot is behind a gate that is off
    worst: dict[str, float] = {}
    for option in claim.options:  # of the capacity type that would be launched
        of_type = [each for each in claim.options if each.type == option.type]
        kind = launch_of(of_type).capacity_type
        worst[option.type] = max(each.price for each in of_type if each.capacity_type == kind)
    left = [option for option in claim.options if worst[option.type] < price]
    if has_spot:
        left = [option for option in left if option.capacity_type == SPOT]
    claim.options = left
    return bool(left) and claim.pool.has_min_values(left)


def _without_same_type(command: Command, candidates: Sequence[Candidate]) -> Command | None:
    """Remove options of a removed type, and all that cost as much: then removing the others alone is enough."""
    claim = command.claim
    assert claim is not None
    prices: dict[str, float] = {}
    for each in candidates:
        kind = each.machine.offering
        prices[kind.type] = min(prices.get(kind.type, math.inf), kind.price)
    limit = min((prices[option.type] for option in claim.options if option.type in prices), default=math.inf)
    claim.options = [option for option in claim.options if option.price < limit]
    return command if claim.options and claim.pool.has_min_values(claim.options) else None


def _take(allowed: dict[str, int], pool: str) -> bool:
    """Use up one of the allowed disruptions."""
    if not allowed.get(pool):
        return False
    allowed[pool] -= 1
    return True


def _by_turns(candidates: Sequence[Candidate]) -> list[Candidate]:
    by_pool: dict[str, list[Candidate]] = {}
    for each in candidates:
        by_pool.setdefault(each.machine.pool, []).append(each)
    longest = max(map(len, by_pool.values()))
    return [pool[i] for i in range(longest) for pool in by_pool.values() if i < len(pool)]


def _is_plain(pod: PodInfo) -> bool:
    """Report whether it fits wherever there is enough CPU and memory, without other conditions."""
    spec, shape = pod.pod.spec, pod.shape
    return not (
        shape.has_pod_affinity
        or shape.host_ports
        or shape.volumes
        or shape.scalar_requests
        or spec.node_selector
        or spec.affinity is not None
        or spec.topology_spread_constraints
        or spec.resource_claims
        or shape.requests.get(EPHEMERAL_STORAGE)
        or any(each.effect != "NoExecute" for each in spec.tolerations)
    )


def eviction_cost(pod: Pod) -> float:
    """Return the cost of evicting a pod: 1, changed by its priority and by the deletion-cost annotation."""
    cost = 1.0
    text = pod.metadata.annotations.get(DELETION_COST)
    if text is not None:
        with suppress(ValueError):
            cost += float(text) / 2**27
    return min(10.0, max(-10.0, cost + (pod.spec.priority or 0) / 2**25))


def is_protected(pod: Pod, now: float) -> bool:
    """Report whether a pod's annotation forbids the disruption of its node, at all or until it has run for a time."""
    text = pod.metadata.annotations.get(DO_NOT_DISRUPT)
    if text is None or text == "true":
        return text is not None
    try:
        limit_s = parse_seconds(text)
    except ParseError:
        return False
    started = pod.status.start_time
    return limit_s > 0 and (started is None or now - parse_time(started) < limit_s)


class _Room:
    """Simulates moves with CPU, memory and the number of pods alone, which is quick.

    For pods that request only these, the result is that of the simulation on a fork: the largest first, each to the
    first node by name, else to one new node that is cheaper. Where it finds no place, there is none. For other pods the
    result is open.
    """

    def __init__(self, fleet: Fleet, provisioning: Provisioning, changing: Collection[str]) -> None:
        rows = fleet.scheduler.cluster.nodes()
        self._has_terms = not fleet.scheduler.cluster.terms.is_empty
        closed = {machine.name for machine in fleet.machines.values() if machine.leaving} | set(fleet.coming)
        closed |= set(changing)
        infos = [
            info
            for info in rows.infos
            if info.node is not None
            and info.name not in closed
            and not info.node.spec.unschedulable
            and not any(taint.effect != "PreferNoSchedule" for taint in info.node.spec.taints)
        ]
        infos.sort(key=lambda info: info.name)
        order = np.array([info.row for info in infos], np.int64)
        self._position = {info.name: i for i, info in enumerate(infos)}
        self._free = np.stack(
            [
                (rows.allocatable(CPU) - rows.requested(CPU))[order],
                (rows.allocatable(MEMORY) - rows.requested(MEMORY))[order],
                (rows.allowed_pods - rows.pod_count)[order],
            ]
        ).astype(np.int64)
        self._offered = [
            (option.price, np.array([option.amounts.get(name, 0) for name in (CPU, MEMORY, PODS)], np.int64))
            for pool in provisioning.pools
            for option in pool.offerings
        ]

    def may_hold(self, candidates: Sequence[Candidate]) -> bool:
        """Report whether the pods of these nodes might find a place."""
        if self._has_terms or not all(each.is_plain for each in candidates):
            return True
        price = sum(each.price for each in candidates)
        offered = [amounts for cost, amounts in self._offered if cost < price]
        free = self._free.copy()
        gone = [self._position[each.machine.name] for each in candidates if each.machine.name in self._position]
        free[:, gone] = -1
        claim = np.zeros(3, np.int64)
        asks: Counter[Ask] = Counter()
        for each in candidates:
            asks.update(each.asks)
        for (cpu, memory), count in sorted(asks.items(), reverse=True):
            ask = np.array([cpu, memory, 1], np.int64)
            takes = np.flatnonzero((free >= ask[:, None]).all(axis=0))
            for node in takes:
                fits = int((free[ask > 0, node] // ask[ask > 0]).min())
                taken = min(count, fits)
                free[:, node] -= ask * taken
                count -= taken
                if not count:
                    break
            claim += ask * count
            if count and not any((claim <= amounts).all() for amounts in offered):
                return False
        return True
