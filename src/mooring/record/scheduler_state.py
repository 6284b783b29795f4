"""Scheduler state in a record: keyframes, reservations, and answers of extenders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mooring.api.core import Pod
from mooring.api.resource import DeviceClass
from mooring.core.engine.decision import ScheduleResult
from mooring.core.framework.extender import (
    AnsweredNode,
    ExtenderAnswer,
    ExtenderError,
    ExtenderFilterResult,
    Prioritized,
    VictimsOnNode,
)
from mooring.core.framework.handle import Nominations
from mooring.core.framework.runtime import Profile
from mooring.core.plugins.gpus.requests import GPU_ANNOTATIONS, NVIDIA
from mooring.core.session import Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.live.observer import Observed
from mooring.record.entries import Answered, Assumed, ExtenderVerbs, Nominated, Queued
from mooring.record.writer import Item


def state_of(scheduler: Observed) -> list[Item]:
    """Return the state of a scheduler. Only references are taken: objects are not changed once a scheduler has them."""
    waiting = scheduler.waiting_pods
    items = objects_of(scheduler.cluster, scheduler.pods, lambda uid: waiting.get(uid) is not None)
    nominator = scheduler.queue.nominator
    items += [
        Nominated(node, tuple(info.uid for info in nominator.nominated_pods(node)))
        for node in nominator.nominated_nodes()
    ]
    now, wall = scheduler.clock.monotonic(), scheduler.clock.now()
    for info, place in scheduler.queue.places():
        since, added = wall - (now - info.timestamp), wall - (now - info.added_timestamp)
        plugins, uid = tuple(sorted(info.rejectors)), info.pod_info.pod.metadata.uid
        items.append(Queued(info.key, uid, place, info.attempts, since, added, "", "", info.message, plugins))
    return items


def size_of_state(scheduler: Observed) -> int:
    """Return the approximate size of that state."""
    cluster, num_pods = scheduler.cluster, len(scheduler.pods)
    num_waiting = num_pods - cluster.num_pods
    return len(cluster.table.nodes) + len(cluster.objects) + num_pods + num_waiting


def objects_of(cluster: ClusterState, pods: Mapping[str, Pod], is_waiting: Callable[[str], bool]) -> list[Item]:
    """Return nodes zone by zone, other objects, counted pods in order, and other pods."""
    items: list[Item] = [*cluster.table.nodes_by_zone(), *cluster.objects]
    rest = dict(pods)
    for info in cluster.pods():
        key = info.pod.key
        if not cluster.is_assumed(info.uid):
            items.append(rest.pop(key, info.pod))
            continue
        known = rest.get(key)
        if known is not None and known.uid == info.uid:
            items.append(rest.pop(key))
            items.append(Assumed(info.uid, info.pod.spec.node_name, is_waiting(info.uid)))
    items += rest.values()
    return items


# --------------------------------------------------------------------------------------------------------------------
# Reservations that plugins hold in memory for pods in their binding cycle: volumes and devices not yet written.
#
# The record does not contain them. So an attempt that reserved something is repeated on the way to a moment, by the
# same plugins that decide later attempts.

ALL = range(1, 1 << 62)  # numbers of attempts


def may_reserve(pod: Pod, cluster: ClusterState) -> bool:
    """Report whether an attempt at this pod may reserve volumes, devices or parts of GPUs."""
    spec, annotations = pod.spec, pod.metadata.annotations
    return (
        bool(spec.resource_claims)
        or any(volume.persistent_volume_claim or volume.ephemeral for volume in spec.volumes)
        or (bool(annotations) and any(name in annotations for name in GPU_ANNOTATIONS))
        or any(NVIDIA in container.resources.requests for container in spec.containers)
        or next(iter(cluster.objects.all(DeviceClass)), None) is not None
    )


class Reservations:
    """Long-lived plugins with their reservations by the pods' uids."""

    def __init__(self, session: Session, nominations: Nominations) -> None:
        self.session = session
        self._nominations = nominations
        self._held: dict[str, tuple[Profile, ScheduleResult, PodInfo]] = {}

    @property
    def uids(self) -> Iterable[str]:
        """Return the pods with reservations."""
        return self._held

    def nominate(self, nominated: Iterable[tuple[PodInfo, str]]) -> None:
        """Replace the nominations."""
        for node in self._nominations.nominated_nodes():
            for info in self._nominations.nominated_pods(node):
                self._nominations.withdraw(info.uid)
        for info, node in nominated:
            self._nominations.nominate(info, node)

    def hold(self, profile: Profile, decision: ScheduleResult, assumed: PodInfo) -> None:
        """Reserve what a decision needs on the node of the assumed pod."""
        profile.run_reserve(decision.state, assumed, assumed.pod.spec.node_name)
        self._held[assumed.uid] = profile, decision, assumed

    def release(self, uid: str) -> None:
        """End a reservation: the pod is bound and everything is written, or everything is free again."""
        held = self._held.pop(uid, None)
        if held is not None:
            profile, decision, assumed = held
            profile.run_unreserve(decision.state, assumed, assumed.pod.spec.node_name)


# --------------------------------------------------------------------------------------------------------------------
# Recorded answers of extenders, which are returned when an attempt is opened again.

MAX_NAMES = 1000
"""Maximum number of names in the answers of one attempt. Larger ones are marked as left out."""


def written(answers: Iterable[ExtenderAnswer]) -> tuple[Answered, ...] | None:
    """Return the answers of an attempt in the record's form; None if they are left out."""
    found: list[Answered] = []
    names = 0
    for answer in answers:
        match answer.result:
            case ExtenderError() as error:
                found.append(Answered(answer.extender, answer.verb, str(error)))
            case ExtenderFilterResult() as result:
                if any(isinstance(node, AnsweredNode) for node in result.nodes):
                    return None  # invented by the extender
                kept = tuple(node.name for node in result.nodes)
                failed, unresolvable = dict(result.failed), dict(result.failed_and_unresolvable)
                names += len(kept) + len(failed) + len(unresolvable)
                found.append(Answered(answer.extender, answer.verb, None, kept, failed, unresolvable))
            case Prioritized() as result:
                names += len(result.scores)
                scores = tuple((name, score) for name, score in result.scores)
                found.append(Answered(answer.extender, answer.verb, scores=scores, weight=result.weight))
            case victims:
                on_nodes = {
                    node: (tuple(pod.uid for pod in each.pods), each.pdb_violations) for node, each in victims.items()
                }
                names += sum(1 + len(uids) for uids, _ in on_nodes.values())
                found.append(Answered(answer.extender, answer.verb, victims=on_nodes))
        if names > MAX_NAMES:
            return None
    return tuple(found)


class RecordedExtender:
    """Returns the recorded answers of an attempt. It is interested in the attempt's pod if it was asked about it."""

    is_binder = False

    def __init__(self, known: ExtenderVerbs) -> None:
        self.name, self.is_ignorable = known.name, known.is_ignorable
        self.is_filter, self.is_prioritizer = "filter" in known.verbs, "prioritize" in known.verbs
        self.supports_preemption = "preempt" in known.verbs
        self._answers: dict[str, Answered] = {}

    def open(self, answers: Iterable[Answered]) -> None:
        """Return the answers of this attempt from now on."""
        self._answers = {answer.verb: answer for answer in answers if answer.extender == self.name}

    def is_interested(self, pod: PodInfo) -> bool:
        return bool(self._answers)

    def _answer(self, verb: str) -> Answered:
        answer = self._answers.get(verb)
        if answer is None:
            raise ExtenderError(f"extender {self.name} was not asked to {verb} at that time")
        if answer.error is not None:
            raise ExtenderError(answer.error)
        return answer

    def filter(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> ExtenderFilterResult:
        answer = self._answer("filter")
        offered = {node.name: node for node in nodes}
        kept = [offered[name] for name in answer.nodes if name in offered]
        return ExtenderFilterResult(kept, answer.failed, answer.unresolvable)

    def prioritize(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Prioritized:
        answer = self._answer("prioritize")
        return Prioritized(answer.scores, answer.weight)

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], nodes: Mapping[str, NodeInfo]
    ) -> Mapping[str, VictimsOnNode]:
        found: dict[str, VictimsOnNode] = {}
        for name, (uids, violations) in self._answer("preempt").victims.items():
            there = nodes[name].pods if name in nodes else {}
            found[name] = VictimsOnNode(tuple(there[uid] for uid in uids if uid in there), violations)
        return found

    def bind(self, pod: PodInfo, node_name: str) -> None:
        raise NotImplementedError("a recorded decision is not bound again")
