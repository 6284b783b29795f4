"""Which nodes cluster-autoscaler removes: underused ones whose pods have had a place elsewhere for long enough.

At each scan every node below the threshold is tried on one fork: its pods must fit on the remaining nodes. If the
places that the last scan found still have room, no simulation is needed; upstream tries those first, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mooring.api.budgets import budgets_of
from mooring.api.core import Pod, Taint
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.session import Session
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import CPU, MEMORY, PODS
from mooring.sim.autoscaler.fleet import Fleet, Machine, again, stays_with_node
from mooring.sim.autoscaler.node_groups import Flags, NodeGroup
from mooring.sim.autoscaler.packing import feasible_rows, fits, names_of, place_all
from mooring.sim.catalogue import GPU

TO_BE_DELETED = Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule")
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
UNNEEDED = "ScaleDown"
_REPLICATED = ("ReplicationController", "Job", "ReplicaSet", "StatefulSet")


@dataclass(slots=True)
class Removable:
    """A node whose pods have a place elsewhere."""

    machine: Machine
    pods_seen: tuple[int, str]
    pods: list[PodInfo]
    targets: dict[str, str] = field(default_factory=dict)  # uid -> node
    terms: int = 0  # the version of the pods' anti-affinity terms
    is_plain: bool = True  # its pods need only resources and properties of nodes


class ScaleDown:
    """Finds unneeded nodes, and removes those that were unneeded for long enough."""

    def __init__(self, fleet: Fleet, flags: Flags, groups: Mapping[str, NodeGroup], *, is_exact: bool) -> None:
        self._fleet, self._flags, self._groups, self._is_exact = fleet, flags, groups, is_exact
        self._since: dict[str, float] = {}  # unneeded nodes
        self._removable: dict[str, Removable] = {}
        self._not_before: dict[str, float] = {}  # nodes that could not be removed, and the time of the next try
        self._grown_s = self._failed_s = self._deleted_s = float("-inf")

    def note_growth(self) -> None:
        self._grown_s = self._fleet.now_s

    def note_failure(self) -> None:
        self._failed_s = self._fleet.now_s

    def look(self) -> None:
        """One scan."""
        now_s, flags = self._fleet.now_s, self._flags
        removable = self._simulated(self._candidates())
        self._since = {name: self._since.get(name, now_s) for name in removable}
        self._removable = removable
        if (
            now_s < self._grown_s + flags.scale_down_delay_after_add
            or now_s < self._failed_s + flags.scale_down_delay_after_failure
            or now_s < self._deleted_s + flags.scale_down_delay_after_delete
        ):
            return
        self._remove(removable)

    # ---- candidates ----------------------------------------------------------------------------------------------

    def _candidates(self) -> list[Machine]:
        """Return underused nodes of groups that may shrink; those that were unneeded at the last scan first."""
        fleet, now_s = self._fleet, self._fleet.now_s
        sizes = {name: sum(not each.leaving for each in fleet.of(name)) for name in self._groups}
        rows = fleet.scheduler.cluster.nodes()
        used = {name: (rows.requested(name), rows.allocatable(name)) for name in (CPU, MEMORY)}
        found = []
        for machine in fleet.machines.values():
            group = self._groups.get(machine.pool)
            if group is None or machine.ready_s is None or machine.leaving or sizes[machine.pool] <= group.least:
                continue
            if self._not_before.get(machine.name, 0.0) > now_s:
                continue
            info = fleet.info(machine)
            if info is None or info.node is None or info.node.metadata.annotations.get(DISABLED) == "true":
                continue
            row = info.row
            if self._is_little_used(group, machine, {k: (int(a[row]), int(b[row])) for k, (a, b) in used.items()}):
                found.append(machine)
        found.sort(key=lambda each: (each.name not in self._since, self._since.get(each.name, 0.0)))
        return found

    def _is_little_used(self, group: NodeGroup, machine: Machine, used: Mapping[str, tuple[int, int]]) -> bool:
        flags = group.flags
        gpus = machine.offering.amounts.get(GPU, 0)
        info = self._fleet.info(machine)
        assert info is not None
        if gpus:
            asked = sum(pod.shape.requests.get(GPU, 0) for pod in info.pods.values())
            return asked / gpus <= flags.scale_down_gpu_utilization_threshold
        for name, (mine, whole) in used.items():
            if flags.ignore_daemonsets_utilization:
                daemons = sum(pod.shape.requests.get(name, 0) for pod in info.pods.values() if stays_with_node(pod.pod))
                mine, whole = mine - daemons, whole - daemons
            if whole > 0 and mine / whole > flags.scale_down_utilization_threshold:
                return False
        return True

    def _simulated(self, candidates: Sequence[Machine]) -> dict[str, Removable]:
        """Return those whose pods have a place, each after the ones before it."""
        scan = _Scan(self._fleet, self._removable, is_exact=self._is_exact)
        found: dict[str, Removable] = {}
        most = self._most()
        for machine in candidates:
            if len(found) >= most:
                break
            if self._blocked(machine):
                self._not_before[machine.name] = self._fleet.now_s + self._flags.unremovable_node_recheck_timeout
                continue
            removable = scan.remove(machine)
            if removable is None:
                self._not_before[machine.name] = self._fleet.now_s + self._flags.unremovable_node_recheck_timeout
            else:
                found[machine.name] = removable
        return found

    def _most(self) -> int:
        """Return the limit of unneeded nodes to find, as upstream."""
        n = self._flags.max_scale_down_parallelism
        scans = max(1, int(self._flags.scale_down_unneeded_time // self._flags.scan_interval))
        return min(len(self._since) + 2 * n, n * scans + n)

    def _blocked(self, machine: Machine) -> bool:
        info = self._fleet.info(machine)
        pods = [] if info is None else info.pods.values()
        return any(self._blocks(pod.pod) for pod in pods)

    def _blocks(self, pod: Pod) -> bool:
        """Report whether a pod prevents the removal of its node, by upstream's rules of draining."""
        if stays_with_node(pod) or pod.is_terminating:
            return False
        safe = pod.metadata.annotations.get(SAFE_TO_EVICT)
        budgets = self._fleet.scheduler.cluster.objects.in_namespace(PodDisruptionBudget, pod.namespace)
        mine = list(budgets_of(pod, budgets))
        if any(each.status.disruptions_allowed <= 0 for each in mine):
            return True
        if safe == "true":
            return False
        if safe == "false" or not self._is_replicated(pod):
            return True
        if self._flags.skip_nodes_with_system_pods and pod.namespace == "kube-system" and not mine:
            return True
        local = (volume.empty_dir is not None or volume.host_path is not None for volume in pod.spec.volumes)
        return self._flags.skip_nodes_with_local_storage and any(local)

    def _is_replicated(self, pod: Pod) -> bool:
        owner = pod.metadata.controller()
        if owner is None:
            return self._fleet.streamed.comes_again(pod)
        return owner.kind in _REPLICATED or not self._flags.skip_nodes_with_custom_controller_pods

    # ---- removing ------------------------------------------------------------------------------------------------

    def _remove(self, removable: Mapping[str, Removable]) -> None:
        """Remove empty nodes first, then drain others, up to the limits."""
        fleet, flags, now_s = self._fleet, self._flags, self._fleet.now_s
        going = [machine for machine in fleet.machines.values() if machine.leaving]
        budget = flags.max_scale_down_parallelism - len(going)
        drains = flags.max_drain_parallelism - sum(not self._is_empty(machine) for machine in going)
        sizes = {name: sum(not each.leaving for each in fleet.of(name)) for name in self._groups}
        ready = [
            each
            for name, each in removable.items()
            if now_s - self._since[name] > self._groups[each.machine.pool].flags.scale_down_unneeded_time
        ]
        for each in sorted(ready, key=lambda each: bool(each.pods)):
            group = self._groups[each.machine.pool]
            if budget <= 0 or (each.pods and drains <= 0):
                continue
            if sizes[group.name] <= group.least or not self._still_holds(each):
                continue
            sizes[group.name] -= 1
            budget -= 1
            drains -= bool(each.pods)
            self._since.pop(each.machine.name, None)
            fleet.remove(each.machine, UNNEEDED, TO_BE_DELETED, give_up_s=flags.max_pod_eviction_time)
            self._deleted_s = now_s

    def _is_empty(self, machine: Machine) -> bool:
        info = self._fleet.info(machine)
        return info is None or all(stays_with_node(pod.pod) for pod in info.pods.values())

    def _still_holds(self, removable: Removable) -> bool:
        """Simulate a node by itself before it is drained, unless this scan has simulated it."""
        if not removable.pods:
            return True
        scan = _Scan(self._fleet, {}, is_exact=self._is_exact)
        return scan.remove(removable.machine) is not None


class _Scan:
    """One pass over the candidates. The fork is made for the first node that must be simulated."""

    def __init__(self, fleet: Fleet, known: Mapping[str, Removable], *, is_exact: bool) -> None:
        self._fleet, self._known, self._is_exact = fleet, known, is_exact
        self._gone: list[Removable] = []
        self._session: Session | None = None
        self._free: dict[str, dict[str, int]] = {}  # what the moves so far have left on their targets
        self._rows = fleet.scheduler.cluster.nodes()

    def remove(self, machine: Machine) -> Removable | None:
        """Find a place for each of a node's pods; None if there is none."""
        info = self._fleet.info(machine)
        on_it = [] if info is None else list(info.pods.values())
        pods = [pod for pod in on_it if not stays_with_node(pod.pod) and not pod.pod.is_terminating]
        if not pods:
            found = Removable(machine, machine.pods_seen, [])
        else:
            found = self._as_before(machine, pods) or self._simulate(machine, pods)  # type: ignore[assignment]
            if found is None:
                return None
        self._gone.append(found)
        if self._session is not None:
            self._take_away(self._session, found)
        return found

    def _as_before(self, machine: Machine, pods: Sequence[PodInfo]) -> Removable | None:
        """Return the result of the last scan, if its targets still exist and have room."""
        known = self._known.get(machine.name)
        terms = self._fleet.scheduler.cluster.terms.version
        if known is None or not known.is_plain or known.pods_seen != machine.pods_seen or known.terms != terms:
            return None
        gone = {each.machine.name for each in self._gone}
        trial: dict[str, dict[str, int]] = {}
        for pod in pods:
            target = known.targets.get(pod.uid)
            if target is None or target in gone or not self._is_open(target):
                return None
            free = trial.get(target)
            if free is None:
                free = trial[target] = dict(self._free.get(target) or self._free_on(target))
            for name, amount in (*pod.shape.requests.items(), (PODS, 1)):
                left = free.get(name, 0) - amount
                if amount and left < 0:
                    return None
                free[name] = left
        self._free.update(trial)
        return Removable(machine, machine.pods_seen, list(pods), known.targets, terms)

    def _is_open(self, target: str) -> bool:
        machine, info = self._fleet.machines.get(target), self._fleet.scheduler.cluster.table.nodes.get(target)
        is_leaving = machine is not None and bool(machine.leaving)
        return not is_leaving and info is not None and info.node is not None and not info.node.spec.unschedulable

    def _free_on(self, target: str) -> dict[str, int]:
        rows, row = self._rows, self._fleet.scheduler.cluster.table.nodes[target].row
        names = self._fleet.scheduler.cluster.table.resources
        free = {name: int(rows.allocatable(name)[row]) - int(rows.requested(name)[row]) for name in names}
        return {**free, PODS: int(rows.allowed_pods[row] - rows.pod_count[row])}

    def _simulate(self, machine: Machine, pods: Sequence[PodInfo]) -> Removable | None:
        """Simulate on a fork of the scan's fork; later candidates see the pods in their new places."""
        if self._session is None:
            leaving = [each.name for each in self._fleet.machines.values() if each.leaving]
            self._session = self._fleet.fork(leaving)
            for each in self._gone:
                self._take_away(self._session, each)
        trial = self._session.fork()
        self._vacate(trial, machine, pods)
        targets = self._find_places(trial, [again(pod, trial) for pod in pods])
        if targets is None:
            return None
        return Removable(
            machine,
            machine.pods_seen,
            list(pods),
            {pod.uid: targets[f"{pod.uid}~"] for pod in pods},
            self._fleet.scheduler.cluster.terms.version,
            all(_is_plain(pod) for pod in pods),
        )

    def _find_places(self, session: Session, pods: Sequence[PodInfo]) -> dict[str, str] | None:
        if self._is_exact:
            placed, left = place_all(session, pods)
            return None if left else placed
        found: dict[str, str] = {}
        for pod in pods:
            names = names_of(session, feasible_rows(session, pod))
            decision = fits(session, pod, names[0]) if names else None
            if decision is None or session.commit(decision).node is None:
                return None
            found[pod.uid] = names[0]
        return found

    def _take_away(self, session: Session, removable: Removable) -> None:
        """Apply the moves of a node, and place no other pods on it."""
        self._vacate(session, removable.machine, removable.pods)
        for pod in removable.pods:
            target = removable.targets[pod.uid]
            session.assume(again(pod, session), target)

    def _vacate(self, session: Session, machine: Machine, pods: Iterable[PodInfo]) -> None:
        """Remove pods from a node that stays closed: its zone still counts for topology spread."""
        for pod in pods:
            session.state.remove_pod(pod.uid)
        node = self._fleet.info(machine)
        assert node is not None and node.node is not None
        closed = node.node.__copy__()
        closed.spec = node.node.spec.__copy__()
        closed.spec.taints = [*closed.spec.taints, TO_BE_DELETED]
        session.state.set_node(closed)


def _is_plain(pod: PodInfo) -> bool:
    spec = pod.pod.spec
    return not (
        pod.shape.has_pod_affinity
        or spec.topology_spread_constraints
        or pod.shape.host_ports
        or pod.shape.volumes
        or spec.resource_claims
    )
