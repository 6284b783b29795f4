"""What extenders answered: written down with an attempt, and answered again when it is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mooring.framework.extender import (
    Answer,
    AnsweredNode,
    ExtenderError,
    ExtenderFilterResult,
    Prioritized,
    VictimsOnNode,
)
from mooring.record.entries import Answered, ExtenderVerbs
from mooring.state.node_info import NodeInfo
from mooring.state.pod_info import PodInfo

MAX_NAMES = 1000
"""Nodes and pods that the answers of one attempt may name. With more of them they are left out, and said to be."""


def written(answers: Iterable[Answer]) -> tuple[Answered, ...] | None:
    """The answers of an attempt as a record has them; None if they are left out."""
    found: list[Answered] = []
    names = 0
    for answer in answers:
        match answer.result:
            case ExtenderError() as error:
                found.append(Answered(answer.extender, answer.verb, str(error)))
            case ExtenderFilterResult() as result:
                if any(isinstance(node, AnsweredNode) for node in result.nodes):
                    return None  # nodes of its own making
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
    """Answers as it answered at an attempt. It is interested in the attempt's pod if it was asked about it."""

    is_binder = False

    def __init__(self, known: ExtenderVerbs) -> None:
        self.name, self.is_ignorable = known.name, known.is_ignorable
        self.is_filter, self.is_prioritizer = "filter" in known.verbs, "prioritize" in known.verbs
        self.supports_preemption = "preempt" in known.verbs
        self._answers: dict[str, Answered] = {}

    def open(self, answers: Iterable[Answered]) -> None:
        """Answer as at this attempt from now on."""
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
        raise NotImplementedError("nothing is bound again")
