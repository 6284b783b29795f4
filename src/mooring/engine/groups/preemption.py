"""Room for a whole group: which less important pods, or groups of pods, have to go so that enough of it fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooring.api.workloads import PodDisruptionBudget
from mooring.engine.groups.cycle import GroupCycle
from mooring.engine.preemption.budgets import Budgets
from mooring.engine.preemption.eligible import goes_for_preemption
from mooring.engine.preemption.units import Unit, by_importance, units_among
from mooring.framework.handle import Handle
from mooring.framework.pod_groups import PodGroupInfo, PodGroupPostFilterResult
from mooring.framework.status import Code, Status
from mooring.state.cluster import Cluster

NO_VICTIMS = "No preemption victims found for incoming preemptor"

OnFork = Callable[[Cluster], GroupCycle]


class GroupPreemption:
    """Removes every less important pod in a fork, lets the group be scheduled there, and takes back whom it can.

    The group is scheduled once. After that a pod, or a group that goes as one, may stay if all pods of the group
    still fit on the nodes that were found for them.
    """

    def __init__(self, handle: Handle, on_fork: OnFork) -> None:
        """``on_fork`` makes the cycle of the same profile for a fork of the cluster."""
        self._handle = handle
        self._on_fork = on_fork

    def preempt(self, info: PodGroupInfo) -> PodGroupPostFilterResult:
        """Success with a node for each pod and the victims; otherwise the reason why nobody is evicted."""
        groups_say = self._handle.is_enabled("PodGroupPreemptionPolicy")
        policies = [info.group.spec] if groups_say else [pod.pod.spec for pod in info.pods]
        if any(each.preemption_policy == "Never" for each in policies):
            return PodGroupPostFilterResult(Status.unschedulable("not eligible due to preemptionPolicy=Never."))
        if self._is_ongoing(info):
            nominations = {pod.uid: pod.pod.status.nominated_node_name for pod in info.pods}
            text = "ongoing preemption on nominated nodes"
            return PodGroupPostFilterResult(Status(Code.SUCCESS, (text,)), nominations)
        started = self._handle.clock.monotonic()
        result = self._find_room(info)
        meters = self._handle.meters(info.pods[0].pod.spec.scheduler_name)
        meters.preemption_evaluated("podgroup", result.status.code, self._handle.clock.monotonic() - started)
        return result

    def _find_room(self, info: PodGroupInfo) -> PodGroupPostFilterResult:
        cluster, now = self._handle.cluster, self._handle.clock.now()
        pods = [pod for node in cluster.nodes().infos for pod in node.pods.values()]
        units = [unit for unit in units_among(pods, cluster) if unit.priority < info.group.priority]
        if not units:
            return PodGroupPostFilterResult(Status.unresolvable(NO_VICTIMS))
        fork = cluster.fork()
        _remove(fork, units)
        cycle = self._on_fork(fork)
        run = cycle.run(info)
        if not run.status.is_success:
            return PodGroupPostFilterResult(run.status)
        assignments = run.assignments
        budgets = Budgets(cluster.objects.all(PodDisruptionBudget))
        violating, others = budgets.partition_units(by_importance(units, now))
        victims: list[Unit] = []
        violations = 0
        still_fit = cycle.still_fit(assignments)
        for unit, breaks in (*violating, *((unit, 0) for unit in others)):
            for pod in unit.pods:
                fork.set_pod(pod.pod)
            if not still_fit({pod.pod.spec.node_name for pod in unit.pods}):
                _remove(fork, [unit])
                victims.append(unit)
                violations += breaks
        chosen = tuple(pod for unit in by_importance(victims, now) for pod in unit.pods)
        text = f"found a placement for podgroup, preempting {len(chosen)} victims"
        nominations = {each.pod.uid: each.node_name for each in assignments}
        disruptions = sum(unit.is_of_group for unit in victims)
        return PodGroupPostFilterResult(Status(Code.SUCCESS, (text,)), nominations, chosen, violations, disruptions)

    def _is_ongoing(self, info: PodGroupInfo) -> bool:
        """Whether victims of an earlier attempt are still going, on a node that a pod is nominated to."""
        nodes = self._handle.cluster.table.nodes
        names = {pod.pod.status.nominated_node_name for pod in info.pods}
        on_nodes = [pod for name in names if name in nodes for pod in nodes[name].pods.values()]
        going = [pod for pod in on_nodes if goes_for_preemption(pod.pod)]
        priorities = {pod.uid: unit.priority for unit in units_among(going, self._handle.cluster) for pod in unit.pods}
        return any(priorities[pod.uid] < info.group.priority for pod in going)


def _remove(fork: Cluster, units: Sequence[Unit]) -> None:
    for unit in units:
        for pod in unit.pods:
            fork.remove_pod(pod.uid)
