"""Decides about pods under one configuration, in any scene."""

from __future__ import annotations

from mooring.api.core import Pod
from mooring.clock import Clock
from mooring.compare.sides import is_as_good
from mooring.config.features import Features
from mooring.config.types import KubeSchedulerConfiguration
from mooring.engine.build import Built, build, decide
from mooring.engine.decision import Decision
from mooring.extender.client import is_concerned
from mooring.framework.handle import Handle
from mooring.framework.registry import Registry
from mooring.framework.runtime import Profile
from mooring.shadow.scene import Scene
from mooring.shadow.verdict import Agreement, Happened, agreement_of, nomination

MAX_SAMPLES = 24  # that are tried
MAX_ORDERS = 6  # of pods on their nodes


class Judge:
    """An engine for a scene. Every node is looked at, whatever the configuration says of sampling."""

    def __init__(
        self,
        scene: Scene,
        config: KubeSchedulerConfiguration,
        features: Features,
        clock: Clock,
        registry: Registry | None = None,
    ) -> None:
        self._offset = [0]  # where preemption begins to look, which kube-scheduler draws by lot
        built = build(
            config,
            scene.state,
            clock=clock,
            nominator=scene.nominations,
            registry=registry,
            features=features,
            prepare=self._prepare,
        )
        self._scene = scene
        self._percentages = {
            name: config.percentage_of_nodes_to_score
            if profile.percentage_of_nodes_to_score is None
            else profile.percentage_of_nodes_to_score
            for name, profile in built.profiles.items()
        }  # 0: as many as kube-scheduler finds right for the number of nodes
        self._managed = [frozenset(each.name for each in extender.managed_resources) for extender in config.extenders]
        self._built = _looking_at_all(built)

    @property
    def names(self) -> list[str]:
        """The scheduler names that have a profile."""
        return list(self._built.profiles)

    def on(self, scene: Scene) -> Judge:
        """The same configuration in another scene, which may go on changing."""
        other = object.__new__(Judge)
        other._percentages, other._offset, other._scene = self._percentages, self._offset, scene
        other._managed = self._managed
        other._built = _looking_at_all(self._built.on(scene.state, scene.nominations))
        return other

    def asks_extenders(self, pod: Pod) -> bool:
        """Whether an extender has a say about this pod; here none is called."""
        return any(is_concerned(managed, pod) for managed in self._managed)

    def decide(self, pod: Pod, *, detail: bool = False) -> Decision:
        return decide(self._built.engine, self._profile(pod), pod, detail=detail)

    def compare(self, happened: Happened, *, detail: bool = False) -> tuple[Decision, Agreement]:
        """Decide about a pod, and say how that agrees with what happened."""
        decision = self.decide(happened.pod, detail=detail)
        agreement = agreement_of(decision, happened)
        is_room_elsewhere = agreement is Agreement.OTHER_WORDS and bool(decision.nominated_node and happened.nominated)
        if is_room_elsewhere and decision.message == happened.message and self._could_make_room(happened, decision):
            return decision, Agreement.EQUAL_ROOM
        return decision, agreement

    def _could_make_room(self, happened: Happened, decision: Decision) -> bool:
        return self._makes_room_there(happened, decision) or self._makes_room_in_another_order(happened, decision)

    def _makes_room_in_another_order(self, happened: Happened, decision: Decision) -> bool:
        """Whether preemption takes the other node if equally important pods had come to the nodes in another order.

        Of those it spares the ones that came first. That is the order in which the scheduler decided; what can be seen
        is the order in which it bound.
        """
        for turn in range(1, MAX_ORDERS):
            fork = self._scene.fork()
            pods = [info.pod for info in fork.state.pods()]
            again = pods[::-1] if turn == 1 else pods[turn::2] + pods[:turn] + pods[turn + 1 :: 2]
            for pod in again:
                fork.state.remove_pod(pod.uid)
                fork.state.set_pod(pod)
            if self.on(fork)._makes_room_there(happened, decision):
                return True
        return False

    def _makes_room_there(self, happened: Happened, decision: Decision) -> bool:
        """Whether preemption takes the other node if it begins to look elsewhere: then both are equally good."""
        tries = min(MAX_SAMPLES, decision.num_nodes)
        try:
            for i in range(tries):
                self._offset[0] = i * decision.num_nodes // tries
                if nomination(self.decide(happened.pod)) == happened.nominated:
                    return True
        finally:
            self._offset[0] = 0
        return False

    def _prepare(self, handle: Handle) -> None:
        offset = self._offset
        handle.pick = lambda n: offset[0] % n

    def _profile(self, pod: Pod) -> Profile:
        """Its own; the first one answers for the scheduler of another name."""
        profiles = self._built.profiles
        return profiles.get(pod.spec.scheduler_name) or next(iter(profiles.values()))

    # ---- samples -------------------------------------------------------------------------------------------------

    def a_sample_gives(self, scene: Scene, pod: Pod, decision: Decision, node: str) -> bool:
        """Whether kube-scheduler, which stops looking when it has found enough nodes, could have taken this node.

        Where it began to look cannot be seen from outside. So several beginnings are tried.
        """
        found = scene.state.table.nodes.get(node)
        if found is None or found.row < 0 or not self.samples(pod, decision):
            return False
        built = self._built.on(scene.state, scene.nominations)
        built.engine.batching.is_enabled = False
        name = self._profile(pod).scheduler_name
        profile, nodes = built.profiles[name], decision.num_nodes
        profile.percentage_of_nodes_to_score = self._percentages[name] or adaptive_percentage(nodes)
        looked_at = self._wanted(name, nodes) * nodes // decision.feasible_nodes
        for i in range(MAX_SAMPLES):
            built.engine.search.next_start = (found.row - i * looked_at // MAX_SAMPLES) % nodes
            sampled = decide(built.engine, profile, pod, detail=False)
            if sampled.node == node or is_as_good(sampled, node):
                return True
        return False

    def samples(self, pod: Pod, decision: Decision) -> bool:
        """Whether kube-scheduler would not have looked at every node for this decision."""
        name = self._profile(pod).scheduler_name
        return decision.num_nodes >= 100 and self._wanted(name, decision.num_nodes) < decision.feasible_nodes

    def _wanted(self, name: str, nodes: int) -> int:
        """How many nodes that can take the pod are enough for kube-scheduler."""
        return max(100, nodes * (self._percentages[name] or adaptive_percentage(nodes)) // 100)


def adaptive_percentage(nodes: int) -> int:
    """How many percent of the nodes kube-scheduler looks for when it is not told: fewer in large clusters."""
    return max(5, 50 - nodes // 125)


def _looking_at_all(built: Built) -> Built:
    """Without sampling, and without the ranking of the pod before: each decision stands for itself."""
    built.engine.batching.is_enabled = False
    for profile in built.profiles.values():
        profile.percentage_of_nodes_to_score = 0
    return built
