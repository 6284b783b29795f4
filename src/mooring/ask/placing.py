"""Placing pods on a fork, one after another, with all that a placement takes: room, volumes, devices, victims."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy, deepcopy

from mooring.api.core import Pod
from mooring.api.errors import ParseError
from mooring.api.selectors import compile_selector
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.api.workloads import PodDisruptionBudget, is_healthy
from mooring.ask.scheduler import Scheduler
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.cycle_state import CycleError, CycleState
from mooring.core.framework.handle import Nominations
from mooring.core.framework.runtime import Profile, run_pre_enqueue
from mooring.core.plugins.volume_binding import chosen_volumes
from mooring.core.plugins.volumes.bind_volumes import bound_to
from mooring.core.plugins.volumes.claims import BIND_COMPLETED, SELECTED_NODE
from mooring.core.session import Built
from mooring.core.state.cluster import Objects
from mooring.core.state.pod_info import PodInfo

# --------------------------------------------------------------------------------------------------------------------
# Disruption budgets while pods come and go on a fork.


def budgets_of(objects: Objects, pod: Pod) -> Iterator[PodDisruptionBudget]:
    """The budgets that watch over a pod."""
    for budget in objects.in_namespace(PodDisruptionBudget, pod.namespace):
        try:
            selector = compile_selector(budget.spec.selector)
        except ParseError:
            continue
        if not selector.is_empty and selector.matches(pod.labels):
            yield budget


def count_disruption(objects: Objects, pod: Pod) -> Iterator[str]:
    """Let the pod's budgets allow one disruption less, as the disruption controller would.

    Yields those that allowed none: they are broken by this. A pod that is not healthy disrupts nothing.
    """
    for budget in list(budgets_of(objects, pod)) if is_healthy(pod) else ():
        allowed = budget.status.disruptions_allowed
        if allowed <= 0:
            yield budget.key
            continue
        changed = copy(budget)
        changed.status = copy(budget.status)
        changed.status.disruptions_allowed = allowed - 1
        objects.put(changed)


class Placing:
    """A cluster of its own, on which pods are placed. The cluster that it was made from stays as it is."""

    def __init__(self, built: Built, nominations: Nominations) -> None:
        """Fork the engine's cluster, with these nominations."""
        self.state = built.handle.cluster.fork()
        self.nominations = nominations.copy()
        self.built = built.on(self.state, self.nominations)
        self.broken_budgets: set[str] = set()  # that allowed none of the disruptions that happened here

    @classmethod
    def of(cls, scheduler: Scheduler) -> Placing:
        """Pods are placed on a fork of the scheduler's cluster."""
        return cls(scheduler.built, scheduler.cluster.nominations)

    def fork(self) -> Placing:
        """Go on from here, without a trace in this one."""
        return Placing(self.built, self.nominations)

    def info(self, pod: Pod) -> PodInfo:
        return self.state.info(pod)

    def profile_of(self, pod: Pod) -> Profile:
        """The profile that the pod asks for; a pod of a scheduler that is not known is placed as the first would."""
        profiles = self.built.profiles
        return profiles.get(pod.spec.scheduler_name) or next(iter(profiles.values()))

    def place(self, pod: PodInfo, *, preempt: bool = False) -> ScheduleResult:
        """Decide about a new pod, and count it on its node if it has one.

        With ``preempt`` the victims of a preemption are removed, and the pod is tried again, as nominated to the node.
        The decision has these victims then, and the node.
        """
        profile = self.profile_of(pod.pod)
        held = run_pre_enqueue(profile.pre_enqueue, pod.pod)
        if not held.is_success:
            return ScheduleResult(pod, Outcome.GATED, status=held, num_nodes=len(self.state.nodes()))
        decision = self.built.engine.decide(pod, profile, detail=False)
        if preempt and decision.victims and decision.nominated_node:
            decision = self._preempt(pod, decision)
        if decision.node is not None:
            self._count(decision)
        return decision

    def _preempt(self, pod: PodInfo, decision: ScheduleResult) -> ScheduleResult:
        node = decision.nominated_node or ""
        for victim in decision.victims:
            self.evict(victim)
        for other in list(self.nominations.nominated_pods(node)):
            if other.priority < pod.priority:  # preemption withdraws these, so that they are tried elsewhere
                self.nominations.withdraw(other.uid)
        nominated = PodInfo(_nominated(pod.pod, node), pod.shape, pod.cls)
        again = self.built.engine.decide(nominated, self.profile_of(pod.pod), detail=False)
        again.pod, again.victims = pod, decision.victims
        return again

    def take_back(self, decision: ScheduleResult) -> None:
        """Undo a placement that was made here. Victims do not come back."""
        assert decision.node is not None, "it was placed"
        self.profile_of(decision.pod.pod).run_unreserve(decision.state, decision.pod, decision.node)
        self.state.forget(decision.pod.uid)

    def evict(self, pod: PodInfo) -> None:
        """Remove a pod; its budgets allow one disruption less."""
        self.state.remove_pod(pod.uid)
        self.broken_budgets.update(count_disruption(self.state.objects, pod.pod))

    def _count(self, decision: ScheduleResult) -> None:
        pod, node = decision.pod, decision.node
        assert node is not None
        self.nominations.withdraw(pod.uid)
        self.state.assume(pod, node)
        profile = self.profile_of(pod.pod)
        status = profile.run_reserve(decision.state, pod, node)
        if not status.is_success:
            self.take_back(decision)
            decision.outcome = Outcome.UNSCHEDULABLE if status.is_rejected else Outcome.ERROR
            decision.node, decision.status = None, status
        elif pod.shape.volumes:
            self._bind_volumes(decision, node)

    def _bind_volumes(self, decision: ScheduleResult, node: str) -> None:
        """Write down which volume each claim gets, as the volume controller would: a fork of this one sees it, too."""
        objects = self.state.objects
        for key, chosen in chosen_volumes(decision.state, node).items():
            claim = deepcopy(objects.get(PersistentVolumeClaim, key))
            assert claim is not None, "volumes were chosen for it"
            volume = objects.get(PersistentVolume, chosen.get("volume", ""))
            if volume is None:
                claim.metadata.annotations[SELECTED_NODE] = node
            else:
                bound = deepcopy(bound_to(volume, claim)[0])
                bound.status.phase = claim.status.phase = "Bound"
                claim.spec.volume_name = volume.name
                claim.metadata.annotations[BIND_COMPLETED] = "yes"
                objects.put(bound)
            objects.put(claim)


def _nominated(pod: Pod, node: str) -> Pod:
    again = copy(pod)
    again.status = copy(pod.status)
    again.status.nominated_node_name = node
    return again


# --------------------------------------------------------------------------------------------------------------------
# Filling nodes in rounds: a quick way to the same answer for pods that see nothing but the node they go to.
#
# If every filter that concerns a pod reads only the row of a node, then what is placed on one node never matters to
# another. In which order nodes are filled cannot matter either: in the end each has as many as it can take. So a
# round gives one copy to every node that can take one, and the last round is when none can. Scores decide the order
# alone, and are not needed.


def nodes_with_room(placing: Placing, pod: PodInfo) -> list[str] | None:
    """The nodes that can take one copy each; None if copies must be placed one by one.

    That is so if a plugin may look further than the row: a user's own, one that counts pods elsewhere, one that reads
    volumes or devices; and if extenders or nominated pods have a say.
    """
    profile = placing.profile_of(pod.pod)
    engine = placing.built.engine
    if engine.extenders is not None or engine.nominator.nominated_nodes() or not _are_ours(profile):
        return None
    if pod.shape.volumes or pod.pod.spec.resource_claims or pod.pod.spec.scheduling_gates:
        return None
    nodes, state = placing.state.nodes(), CycleState()
    try:
        pre = profile.run_pre_filter(state, pod, nodes)
        plan = profile.filter_plan(state)
        if not pre.status.is_success or pre.node_names is not None or not plan.keeps_all(pod):
            return None
        feasible = profile.run_filters(state, pod, nodes, plan.active).feasible
    except CycleError:
        return None
    infos = nodes.infos
    return [infos[row].name for row in feasible.nonzero()[0].tolist()]


def _are_ours(profile: Profile) -> bool:
    plugins = (*profile.pre_enqueue, *profile.judges, *profile.reserve)
    return all(type(each.plugin).__module__.startswith("mooring.core.plugins.") for each in plugins)
