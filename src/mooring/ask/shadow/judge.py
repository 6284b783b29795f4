"""Decides about pods under one configuration, in any scene."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.ask.shadow.scene import Scene
from mooring.ask.sides import is_as_good, tipped, total_of
from mooring.core.config.features import Features
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.handle import Handle
from mooring.core.framework.registry import Registry
from mooring.core.session import Session, open_session
from mooring.net.extender.client import is_concerned

# --------------------------------------------------------------------------------------------------------------------
# A scheduler's decision about a pod, ours, and how the two agree.


class Agreement(Enum):
    """Agreement between our decision and the observed one."""

    SAME = "same"  # the same node
    EQUALLY_GOOD = "equallyGood"  # another node with the same total
    OTHER_NODE = "otherNode"
    REFUSED_HERE = "refusedHere"  # it was bound, and no node would take it here
    SAME_WORDS = "sameWords"  # refused in the same words, and nominated alike
    EQUAL_ROOM = "equalRoom"  # likewise, but room is made on another, equally good node
    OTHER_WORDS = "otherWords"
    PLACED_HERE = "placedHere"  # it was refused, and a node would take it here


AGREE = frozenset((Agreement.SAME, Agreement.EQUALLY_GOOD, Agreement.SAME_WORDS, Agreement.EQUAL_ROOM))


# Causes of a difference. The search for a moment is not one: if it succeeds, both agree.
RACE = "race"  # both agree, but not in the state right before the outcome was seen
SAMPLING = "sampling"  # kube-scheduler stops its search early, and a sample explains its node
EXTENDER = "extender"  # the scheduler asks an extender about this pod, which is not called here
CONFIGURATION = "configuration"  # the cluster's own configuration explains the outcome, the compared one differs


class DecidedAt(Enum):
    """The state that a decision was made from: the other scheduler may have seen another one."""

    EXACT = "exact"  # right before the outcome was seen
    EARLIER = "earlier"  # before some changes that had been seen by then
    REORDERED = "reordered"  # with pods on nodes that were seen there later or never, or without some seen earlier
    LATER = "later"  # after changes of nodes and other objects that were seen only later


@dataclass(frozen=True, slots=True)
class Happened:
    """An observed decision of a scheduler. The pod is the version that it decided about."""

    time: float  # when it was observed
    since: float  # since when the pod was observed as it is; it cannot have been decided before
    pod: Pod
    node: str = ""  # node of the binding; empty: it was refused
    message: str = ""  # why it was refused
    nominated: str = ""  # nominated node
    version: int = 0  # resource version of the pod with this outcome


@dataclass(frozen=True, slots=True)
class ShadowVerdict:
    """One decision of theirs beside ours."""

    happened: Happened
    agreement: Agreement
    moment: DecidedAt = DecidedAt.EXACT
    assumed: tuple[str, ...] = ()  # assumptions about what was known at that time
    known_cause: str = ""  # of a difference
    node: str = ""  # ours
    message: str = ""
    nominated: str = ""
    totals: tuple[int | None, int | None] = (None, None)  # of their node and of ours, both by our scores
    plugin: str = ""  # that tipped it
    because: str = ""

    @property
    def agrees(self) -> bool:
        return self.agreement in AGREE

    @property
    def cause(self) -> str:
        """Name of the difference's cause; empty if there is none."""
        if self.agrees:
            return "" if self.moment is DecidedAt.EXACT else RACE
        return self.known_cause

    @property
    def is_explained(self) -> bool:
        """Report whether both agree, or differ for a known cause."""
        return self.agrees or bool(self.cause)

    def to_dict(self) -> dict[str, Any]:
        happened = self.happened
        return {
            "pod": happened.pod.key,
            "schedulerName": happened.pod.spec.scheduler_name,
            "time": happened.time,
            "agreement": self.agreement.value,
            "there": _outcome(happened.node, happened.message, happened.nominated),
            "here": _outcome(self.node, self.message, self.nominated),
            "totals": {"there": self.totals[0], "here": self.totals[1]},
            "cause": self.cause or None,
            "plugin": self.plugin or None,
            "because": self.because,
            "moment": self.moment.value,
            "assumed": list(self.assumed),
        }


def _outcome(node: str, message: str, nominated: str) -> dict[str, str | None]:
    return {"node": node or None, "message": message, "nominatedNode": nominated or None}


def agreement_of(decision: ScheduleResult, happened: Happened) -> Agreement:
    """Compare a decision with the observed one."""
    if happened.node:
        if decision.node == happened.node:
            return Agreement.SAME
        if decision.node is None:
            return Agreement.REFUSED_HERE
        return Agreement.EQUALLY_GOOD if is_as_good(decision, happened.node) else Agreement.OTHER_NODE
    if decision.node is not None:
        return Agreement.PLACED_HERE
    is_alike = decision.message == happened.message and nomination(decision) == happened.nominated
    return Agreement.SAME_WORDS if is_alike else Agreement.OTHER_WORDS


def nomination(decision: ScheduleResult) -> str:
    """Return the node that the pod is nominated to after the decision."""
    if decision.nominated_node is None:
        return decision.pod.pod.status.nominated_node_name
    return decision.nominated_node


def verdict_of(
    decision: ScheduleResult,
    agreement: Agreement,
    happened: Happened,
    moment: DecidedAt = DecidedAt.EXACT,
    assumed: tuple[str, ...] = (),
    known_cause: str = "",
) -> ShadowVerdict:
    """Build the verdict while the columns are still those of the decision."""
    node, words = decision.node or "", "" if decision.node else decision.message
    plugin = because = ""
    totals: tuple[int | None, int | None] = (None, None)
    if happened.node:
        totals = total_of(decision, happened.node), total_of(decision, node) if node else None
        if agreement is not Agreement.SAME and agreement is not Agreement.EQUALLY_GOOD:
            cause = tipped(decision, happened.node)
            plugin, because = cause.plugin, cause.text
    elif agreement is Agreement.OTHER_WORDS:
        if decision.outcome is Outcome.ERROR:
            because = "an error here"
        elif decision.message == happened.message:
            because = f"nominated to {happened.nominated or 'no node'} there, to {nomination(decision) or 'none'} here"
            plugin = decision.post_filter_plugin
    elif agreement is Agreement.PLACED_HERE:
        because = f"{decision.feasible_nodes} of {decision.num_nodes} nodes can take it here"
    nominated = "" if node else nomination(decision)
    return ShadowVerdict(
        happened,
        agreement,
        moment,
        assumed,
        known_cause,
        node,
        words,
        nominated,
        totals,
        plugin,
        because,
    )


MAX_SAMPLES = 24  # that are tried
MAX_ORDERS = 6  # of pods on their nodes


class Judge:
    """An engine for a scene. Every node is searched, regardless of sampling in the configuration."""

    def __init__(
        self,
        scene: Scene,
        config: KubeSchedulerConfiguration,
        features: Features,
        clock: Clock,
        registry: Registry | None = None,
    ) -> None:
        self._offset = [0]  # where preemption starts, which kube-scheduler chooses at random
        session = open_session(
            config,
            scene.state,
            clock=clock,
            nominator=scene.nominations,
            registry=registry,
            features=features,
            prepare=self._prepare,
            takes_all=True,
        )
        self._scene = scene
        self._percentages = {
            name: config.percentage_of_nodes_to_score
            if profile.percentage_of_nodes_to_score is None
            else profile.percentage_of_nodes_to_score
            for name, profile in session.profiles.items()
        }  # 0: as many as kube-scheduler chooses for the number of nodes
        self._managed = [frozenset(each.name for each in extender.managed_resources) for extender in config.extenders]
        self._session = _looking_at_all(session)

    @property
    def names(self) -> list[str]:
        """Names of the schedulers that have a profile."""
        return list(self._session.profiles)

    def on(self, scene: Scene) -> Judge:
        """Return the same configuration for another scene, which may keep changing."""
        other = object.__new__(Judge)
        other._percentages, other._offset, other._scene = self._percentages, self._offset, scene
        other._managed = self._managed
        other._session = _looking_at_all(self._session.on(scene.state, scene.nominations))
        return other

    def asks_extenders(self, pod: Pod) -> bool:
        """Report whether an extender is responsible for this pod; none is called here."""
        return any(is_concerned(managed, pod) for managed in self._managed)

    def decide(self, pod: Pod, *, detail: bool = False) -> ScheduleResult:
        return self._session.decide(pod, detail=detail)

    def hold_room(self, pod: Pod, node: str) -> None:
        """Reserve the room of a pod that was never seen on a node."""
        self._session.assume(self._session.info(pod), node)

    def compare(self, happened: Happened, *, detail: bool = False) -> tuple[ScheduleResult, Agreement]:
        """Decide about a pod, and compare with the observed decision."""
        decision = self.decide(happened.pod, detail=detail)
        agreement = agreement_of(decision, happened)
        is_room_elsewhere = agreement is Agreement.OTHER_WORDS and bool(decision.nominated_node and happened.nominated)
        if is_room_elsewhere and decision.message == happened.message and self._could_make_room(happened, decision):
            return decision, Agreement.EQUAL_ROOM
        return decision, agreement

    def _could_make_room(self, happened: Happened, decision: ScheduleResult) -> bool:
        return self._makes_room_there(happened, decision) or self._makes_room_in_another_order(happened, decision)

    def _makes_room_in_another_order(self, happened: Happened, decision: ScheduleResult) -> bool:
        """Report whether preemption takes the other node if equally important pods had arrived in another order.

        Of those it spares the first ones, in the order of decisions; only the order of bindings can be observed.
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

    def _makes_room_there(self, happened: Happened, decision: ScheduleResult) -> bool:
        """Report whether preemption takes the other node with another start: then both are equally good."""
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

    # ---- samples -------------------------------------------------------------------------------------------------

    def sampling_explains(self, scene: Scene, pod: Pod, decision: ScheduleResult, node: str) -> bool:
        """Report whether kube-scheduler, which stops its search early, could have taken this node.

        Its start cannot be observed, so several are tried.
        """
        found = scene.state.table.nodes.get(node)
        if found is None or found.row < 0 or not self.samples(pod, decision):
            return False
        session = self._session.on(scene.state, scene.nominations)
        session.engine.batching.is_enabled = False
        name = self._session.profile_for(pod).scheduler_name
        profile, nodes = session.profiles[name], decision.num_nodes
        profile.percentage_of_nodes_to_score = self._percentages[name] or adaptive_percentage(nodes)
        looked_at = self._wanted(name, nodes) * nodes // decision.feasible_nodes
        for i in range(MAX_SAMPLES):
            session.engine.search.next_start = (found.row - i * looked_at // MAX_SAMPLES) % nodes
            sampled = session.decide(pod, detail=False)
            if sampled.node == node or is_as_good(sampled, node):
                return True
        return False

    def samples(self, pod: Pod, decision: ScheduleResult) -> bool:
        """Report whether kube-scheduler would not have searched every node for this decision."""
        name = self._session.profile_for(pod).scheduler_name
        return decision.num_nodes >= 100 and self._wanted(name, decision.num_nodes) < decision.feasible_nodes

    def _wanted(self, name: str, nodes: int) -> int:
        """Return how many feasible nodes are enough for kube-scheduler."""
        return max(100, nodes * (self._percentages[name] or adaptive_percentage(nodes)) // 100)


def adaptive_percentage(nodes: int) -> int:
    """Return kube-scheduler's default percentage of nodes to score: fewer in large clusters."""
    return max(5, 50 - nodes // 125)


def _looking_at_all(session: Session) -> Session:
    """Disable sampling and batching: each decision is independent."""
    session.engine.batching.is_enabled = False
    for profile in session.profiles.values():
        profile.percentage_of_nodes_to_score = 0
    return session
