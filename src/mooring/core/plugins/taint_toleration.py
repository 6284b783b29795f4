"""TaintToleration: avoids nodes whose taints the pod does not tolerate."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from mooring.api.core import Node, Pod, Taint, Toleration
from mooring.api.meta import Object
from mooring.api.selectors import first_untolerated, is_tolerated
from mooring.api.text import taint_text
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleError, CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import FEW, Change, Remedy, Scores, default_normalize
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SUCCESS_FOR_TEMPLATE, Status, Verdict
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

# taints that describe a node's condition: pods should not tolerate them to be scheduled
CONDITION_PREFIX = "node.kubernetes.io/"
UNTOLERATED = Status.unresolvable("node(s) had untolerated taint(s)")

LOST = Status.error(
    'running Score plugins: plugin "TaintToleration" failed with: '
    'failed to read "PreScoreTaintToleration" from cycleState: not found'
)


class TaintToleration:
    """Judges each distinct set of taints once, for all nodes that have it.

    NoSchedule and NoExecute taints reject, unresolvably: no eviction removes a taint. PreferNoSchedule taints are
    counted, and fewer is better.
    """

    name: ClassVar[str] = "TaintToleration"
    traits: ClassVar[Traits] = Traits(
        filter_reads=Reads.NODE, score_reads=Reads.NODE, uses_volumes=False, even_normalize=True, in_range=True
    )

    def __init__(self, args: None, handle: Handle) -> None:
        # Without its PreScore upstream's score lacks its state, and fails.
        self._lacks_pre_score = not handle.is_enabled_at("preScore", self.name)
        self._compares = handle.is_enabled("TaintTolerationComparisonOperators")

    def _first_untolerated(self, taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
        return first_untolerated(taints, tolerations, comparison_operators=self._compares)

    def _is_tolerated(self, taint: Taint, tolerations: Iterable[Toleration]) -> bool:
        return is_tolerated(taint, tolerations, comparison_operators=self._compares)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.shape.signed_tolerations

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        return SUCCESS_FOR_TEMPLATE  # only there: upstream skips pods here that wait to be resized, behind a gate

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        tolerations = pod.shape.spec.tolerations
        refused = np.fromiter(
            (self._first_untolerated(taints, tolerations) is not None for taints in nodes.taint_sets), np.bool_
        )
        if not refused.any():
            return None
        return Verdict.where(refused.take(nodes.taint_set), UNTOLERATED)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        return SUCCESS_FOR_TEMPLATE

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        """Return the number of PreferNoSchedule taints that the pod does not tolerate; ``normalize`` reverses the
        order.
        """
        if self._lacks_pre_score:
            raise CycleError(LOST)
        tolerations = [t for t in pod.shape.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
        minded = np.fromiter(
            (
                sum(
                    taint.effect == "PreferNoSchedule" and not self._is_tolerated(taint, tolerations)
                    for taint in taints
                )
                for taints in nodes.taint_sets
            ),
            np.int64,
        )
        return minded.take(nodes.taint_set)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        return default_normalize(scores, reverse=True)

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterator[Remedy]:
        """Yield, for each set of taints on one of its nodes, recovery from conditions and tolerations for others."""
        _, first = np.unique(nodes.taint_set, return_index=True)
        tolerations = pod.pod.spec.tolerations
        for node in nodes.subset(np.sort(first)[:FEW]).infos:
            assert node.node is not None
            minded = [
                taint
                for taint in node.node.spec.taints
                if taint.effect in ("NoSchedule", "NoExecute") and not self._is_tolerated(taint, tolerations)
            ]
            conditions = {taint.key for taint in minded if taint.key.startswith(CONDITION_PREFIX)}
            recovered = (_recover(node.name, conditions),) if conditions else ()
            yield (*recovered, *(_tolerate(taint) for taint in minded if taint.key not in conditions))

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT, self._after_node_change),
            on(EventResource.POD, ActionType.UPDATE_POD_TOLERATION, _after_toleration_change),
        )

    def _after_node_change(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A node whose taints have become tolerated."""
        assert isinstance(new, Node)
        tolerations = pod.spec.tolerations
        if isinstance(old, Node) and self._first_untolerated(old.spec.taints, tolerations) is None:
            return Hint.SKIP
        return Hint.QUEUE if self._first_untolerated(new.spec.taints, tolerations) is None else Hint.SKIP


def _recover(name: str, keys: set[str]) -> Change:
    def edit_node(node: Node) -> None:
        node.spec.taints = [taint for taint in node.spec.taints if taint.key not in keys]

    what = ", ".join(sorted(key.removeprefix(CONDITION_PREFIX) for key in keys))
    return Change(f"{{node}} no longer {what}", "nodeCondition", 4.0, node=name, edit_node=edit_node)


def _tolerate(taint: Taint) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.tolerations.append(Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect))

    return Change(f"tolerate {taint_text(taint)}", "toleration", 2.0, edit=edit)


def _after_toleration_change(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    return Hint.QUEUE if new is not None and new.uid == pod.uid else Hint.SKIP
