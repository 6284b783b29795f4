"""cluster-autoscaler: every ten seconds it adds nodes to one group for pending pods, or removes unneeded nodes.

Files are those of kubernetes/autoscaler 1.36 in ``cluster-autoscaler``; tests those of ``tests/sim/autoscaler``.

| behaviour | upstream's file | test |
|---|---|---|
| pods that fit on what is there are left out | core/podlistprocessor | what_is_added |
| expendable pods are left out | core/podlistprocessor | what_is_added[expendable pods] |
| first fit, the largest kinds first, on the last new node | estimator/binpacking_estimator.go | what_is_added |
| one group in a scan, or several with salvo-scale-up | core/scaleup/orchestrator | one_group_grows |
| expanders, and chains of them | expander/* | which_group_an_expander_chooses |
| max, max-nodes-total, max-nodes-per-scaleup | core/scaleup, estimator | what_is_added |
| a group without capacity waits, ever longer | clusterstate | a_group_without_capacity |
| no node goes when one was added, nor soon after | core/static_autoscaler.go | what_is_removed[too soon after] |
| CPU and memory, or GPUs, below the threshold | core/scaledown/eligibility | what_is_removed |
| pods of a node fit elsewhere, each node after the others | core/scaledown/planner | what_is_removed |
| what cannot go is looked at again after five minutes | core/scaledown/unremovable | what_is_removed |
| bare pods, safe-to-evict, budgets, local storage | simulator/drainability/rules | what_is_removed[pods keep] |
| unneeded for the whole time | core/scaledown/unneeded | a_node_is_unneeded |
| empty nodes before others; ten together, one drained | core/scaledown/budgets | nodes_are_drained_one_at_a_time |
| a node that cannot be drained stays | core/scaledown/actuation | (not tested) |

Differences: similar groups, atomic groups, provisioning requests and unready nodes are left out. ``price`` values pods
at the rate of the cheapest group, where upstream asks the cloud.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.api.errors import InputError
from mooring.core.session import Session
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import CPU, MEMORY
from mooring.sim.autoscaler.expanders import Option, choose
from mooring.sim.autoscaler.fleet import NO_CAPACITY, Fleet
from mooring.sim.autoscaler.node_groups import ClusterAutoscalerPolicy, NodeGroup
from mooring.sim.autoscaler.packing import Kind, feasible_rows, fits, kind_of, names_of, place_all
from mooring.sim.autoscaler.scale_down import ScaleDown

MOST_SALVOS = 100


@dataclass(slots=True)
class _Backoff:
    """A group for which the cloud had no capacity is left out for a while, which grows with each failure."""

    until_s: float = 0.0
    duration_s: float = 0.0


class ClusterAutoscaler:
    """An autoscaler with node groups."""

    def __init__(self, fleet: Fleet, policy: ClusterAutoscalerPolicy, *, is_exact: bool) -> None:
        self._fleet, self._flags, self._priorities = fleet, policy.flags, policy.priorities
        self._is_exact = is_exact
        self._groups: dict[str, NodeGroup] = {}
        self._first = policy.groups
        self._chance = random.Random(f"expander {fleet.cluster.seed}")
        self._backoffs: dict[str, _Backoff] = {}
        self._scale_down = ScaleDown(fleet, self._flags, self._groups, is_exact=is_exact)

    @property
    def is_idle(self) -> bool:
        return self._fleet.is_idle

    async def start(self) -> None:
        """Create the minimum size of each group, and begin to scan."""
        for group in self._first:
            await self.add(group)
        self._fleet.beside(self._run())

    async def add(self, group: NodeGroup) -> None:
        """Begin to scale a group; its minimum size is there immediately."""
        if group.name in self._groups:
            raise InputError(f"name: a group {group.name!r} already exists; names must be unique")
        self._groups[group.name] = group
        for number in range(1, group.least + 1):
            await self._fleet.add(group.name, group.offering(number), group.taints)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._flags.scan_interval)
            self._fleet.forget_deleted()
            self._fleet.note_pods()
            has_grown = self._grow()
            if not has_grown and self._flags.scale_down_enabled:
                self._scale_down.look()

    # ---- scaling up ----------------------------------------------------------------------------------------------

    def _grow(self) -> bool:
        """Scale one group up, or with ``salvo-scale-up`` all groups that help; report whether any node was ordered."""
        fleet, flags = self._fleet, self._flags
        fleet.decisions_seen = fleet.scheduler.decisions
        old_enough = fleet.now_s - flags.new_pod_scale_up_delay
        pods = [
            info.pod_info
            for info in fleet.waiting()
            if info.pod_info.priority >= flags.expendable_pods_priority_cutoff and info.added_timestamp <= old_enough
        ]
        if not pods or not any(self._room(group) for group in self._groups.values()):
            return False
        has_grown = False
        for _ in range(MOST_SALVOS if flags.salvo_scale_up else 1):
            session = fleet.fork(self._leaving())
            left = self._not_schedulable(session, pods)
            option = self._best_option(session, left) if left else None
            if option is None or not self._execute(option, pods):
                break
            has_grown = True
            self._scale_down.note_growth()
        return has_grown

    def _leaving(self) -> list[str]:
        return [machine.name for machine in self._fleet.machines.values() if machine.leaving]

    def _not_schedulable(self, session: Session, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Return the pods that fit on no existing or coming node; the others are placed on the fork."""
        if self._is_exact:
            return place_all(session, pods)[1]
        left: list[PodInfo] = []
        full: set[Kind] = set()
        for pod in sorted(pods, key=lambda pod: -pod.priority):
            names = names_of(session, feasible_rows(session, pod)) if kind_of(pod) not in full else []
            if names and _commit(session, pod, names[0]):
                continue
            left.append(pod)
            if not pod.shape.has_pod_affinity:
                full.add(kind_of(pod))
        return left

    def _room(self, group: NodeGroup) -> int:
        """Return how many more nodes a group may get now."""
        backoff = self._backoffs.get(group.name)
        if backoff is not None and backoff.until_s > self._fleet.now_s:
            return 0
        room = group.most - len(self._fleet.of(group.name))
        most = self._flags.max_nodes_total
        if most:
            room = min(room, most - len(self._fleet.scheduler.cluster.nodes()) - self._num_coming())
        return max(0, min(room, self._flags.max_nodes_per_scaleup))

    def _num_coming(self) -> int:
        return sum(not machine.is_there for machine in self._fleet.machines.values())

    def _best_option(self, session: Session, pods: Sequence[PodInfo]) -> Option | None:
        options = []
        for group in self._groups.values():
            room = self._room(group)
            option = self._estimate(session, group, pods, room) if room else None
            if option is not None:
                options.append(option)
        if not options:
            return None
        num_nodes = len(self._fleet.scheduler.cluster.nodes())
        return choose(options, self._flags.expander, self._chance, num_nodes=num_nodes, priorities=self._priorities)

    def _estimate(self, session: Session, group: NodeGroup, pods: Sequence[PodInfo], room: int) -> Option | None:
        """First fit, the largest kinds of pods first, on at most as many new nodes as the group may get."""
        kinds: dict[Kind, list[PodInfo]] = {}
        for pod in pods:
            kinds.setdefault(kind_of(pod), []).append(pod)
        packing = _Estimate(self._fleet, session.fork(), group, room)
        able = [alike for alike in kinds.values() if packing.could_help(alike[0])]
        template = group.offerings[0].amounts

        def size(alike: list[PodInfo]) -> float:
            asks = alike[0].shape.requests
            return -sum(asks.get(name, 0) / template[name] for name in (CPU, MEMORY) if template.get(name))

        for alike in sorted(able, key=size):
            packing.add(alike)
        used = set(packing.placed.values())
        if not used:
            return None
        placed = packing.placed
        return Option(group, len(used), [pod for pod in pods if pod.uid in placed], placed)

    def _execute(self, option: Option, pods: Sequence[PodInfo]) -> bool:
        """Order the nodes; with exact packing only those that the scheduler would use."""
        fleet, group = self._fleet, option.group
        names = list(dict.fromkeys(option.placed.values()))
        placed = option.placed
        if self._is_exact:
            names, placed = self._proved(option, pods, names)
        keys = {pod.uid: pod.pod.key for pod in pods}
        by_node: dict[str, list[str]] = {name: [] for name in names}
        for uid, node in placed.items():
            if node in by_node:
                by_node[node].append(keys[uid])
        has_grown = False
        for name in names:
            machine = fleet.order(
                group.name,
                group.offering(fleet.number(group.name)),
                taints=group.taints,
                planned=by_node[name],
                delay_s=group.delay_s,
            )
            if machine.why_failed:
                self._back_off(group, machine.why_failed)
                break
            has_grown = True
        return has_grown

    def _proved(
        self, option: Option, pods: Sequence[PodInfo], names: Sequence[str]
    ) -> tuple[list[str], dict[str, str]]:
        """Return the nodes that the scheduler would use if they existed, and further ones for the pods left."""
        fleet, group = self._fleet, option.group
        wanted = {pod.uid for pod in option.pods}
        count = len(names)
        room = self._room(group)
        while True:
            session = fleet.fork(self._leaving())
            for ahead in range(1, count + 1):
                number = fleet.number(group.name, ahead)
                fleet.plan(session, group.offering(number).node(fleet.name(group.name, ahead), group.taints))
            placed, left = place_all(session, pods)
            missing = [pod for pod in left if pod.uid in wanted]
            more = self._estimate_more(session, group, missing, room - count, count) if missing else 0
            if not more:
                break
            count += more
        new = [fleet.name(group.name, ahead) for ahead in range(1, count + 1)]
        used = set(placed.values())
        # Names are numbered without a gap, so a node in the middle that would stay unused takes the last one's place.
        kept = [name for name in new if name in used]
        renamed = dict(zip(kept, new, strict=False))
        return new[: len(kept)], {uid: renamed.get(node, node) for uid, node in placed.items()}

    def _estimate_more(self, session: Session, group: NodeGroup, pods: Sequence[PodInfo], room: int, ahead: int) -> int:
        if room <= 0:
            return 0
        packing = _Estimate(self._fleet, session, group, room, ahead)
        packing.add(list(pods))
        return len(set(packing.placed.values()))

    def _back_off(self, group: NodeGroup, why: str) -> None:
        flags, now_s = self._flags, self._fleet.now_s
        backoff = self._backoffs.setdefault(group.name, _Backoff())
        if now_s - backoff.until_s > flags.node_group_backoff_reset_timeout:
            backoff.duration_s = 0.0
        doubled_s = min(2 * backoff.duration_s, flags.max_node_group_backoff_duration)
        backoff.duration_s = doubled_s or flags.initial_node_group_backoff_duration
        backoff.until_s = now_s + backoff.duration_s
        if why == NO_CAPACITY:
            self._fleet.retry_s = max(self._fleet.retry_s, backoff.until_s + 2 * flags.scan_interval)
        self._scale_down.note_failure()


class _Estimate:
    """The estimator of one group: a fork with new nodes; pods are tried on the last one."""

    def __init__(self, fleet: Fleet, session: Session, group: NodeGroup, room: int, ahead: int = 0) -> None:
        self._fleet, self._session, self._group = fleet, session, group
        self._room, self._ahead = room, ahead
        self._new: dict[str, int] = {}  # name -> pods on it
        self._last = ""
        self.placed: dict[str, str] = {}

    def could_help(self, pod: PodInfo) -> bool:
        """Report whether a pod fits on an empty node of the group."""
        trial = self._session.fork()
        name = self._add_node(trial, remember=False)
        return fits(trial, pod, name) is not None

    def add(self, alike: list[PodInfo]) -> None:
        """Pack equal pods: on the planned nodes, then on further ones."""
        rest = self._on_planned(alike)
        for pod in rest:
            if self._last and self._put(pod, self._last):
                continue
            if self._last and _spreads_over_nodes(pod):
                others = [name for name in self._new if name != self._last]
                if any(self._put(pod, name) for name in others):
                    continue
            if self._last and not self._new[self._last]:
                return  # it does not fit on an empty node either
            if len(self._new) >= self._room:
                return
            self._last = self._add_node(self._session)
            if not self._put(pod, self._last):
                return

    def _on_planned(self, alike: list[PodInfo]) -> list[PodInfo]:
        for i, pod in enumerate(alike):
            names = names_of(self._session, feasible_rows(self._session, pod)) if self._new else []
            name = next((name for name in names if name in self._new), None)
            if name is None or not self._put(pod, name):
                return alike[i:]
        return []

    def _put(self, pod: PodInfo, name: str) -> bool:
        if not _commit(self._session, pod, name):
            return False
        self._new[name] += 1
        self.placed[pod.uid] = name
        return True

    def _add_node(self, session: Session, *, remember: bool = True) -> str:
        ahead = self._ahead + len(self._new) + 1
        group, fleet = self._group, self._fleet
        name = fleet.name(group.name, ahead)
        fleet.plan(session, group.offering(fleet.number(group.name, ahead)).node(name, group.taints))
        if remember:
            self._new[name] = 0
        return name


def _commit(session: Session, pod: PodInfo, node: str) -> bool:
    decision = fits(session, pod, node)
    return decision is not None and session.commit(decision).node is not None


def _spreads_over_nodes(pod: PodInfo) -> bool:
    return any(each.topology_key == "kubernetes.io/hostname" for each in pod.pod.spec.topology_spread_constraints)
