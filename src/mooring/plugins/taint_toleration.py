"""TaintToleration: keep off nodes whose taints the pod does not tolerate; prefer those that mind it less."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mooring.api.taints import first_untolerated, is_tolerated
from mooring.framework.cycle_state import CycleState
from mooring.framework.handle import Handle
from mooring.framework.interfaces import Reads, Scores
from mooring.framework.scoring import default_normalize
from mooring.framework.status import SUCCESS, Status
from mooring.framework.verdict import Verdict
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

UNTOLERATED = Status.unresolvable("node(s) had untolerated taint(s)")


class TaintToleration:
    """Judges each distinct set of taints once and spreads the answer over the nodes that carry it.

    NoSchedule and NoExecute taints reject, unresolvably: no eviction removes a taint.
    PreferNoSchedule taints are counted, and fewer is better.
    """

    name: ClassVar[str] = "TaintToleration"
    filter_reads: ClassVar[Reads] = Reads.NODE
    score_reads: ClassVar[Reads] = Reads.NODE

    def __init__(self, args: None, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        tolerations = pod.shape.spec.tolerations
        refused = np.fromiter(
            (first_untolerated(taints, tolerations) is not None for taints in nodes.taint_sets), np.bool_
        )
        if not refused.any():
            return None
        return Verdict.where(refused[nodes.taint_set], UNTOLERATED)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        """The number of PreferNoSchedule taints that the pod does not tolerate; ``normalize`` turns it round."""
        tolerations = [t for t in pod.shape.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
        minded = np.fromiter(
            (
                sum(taint.effect == "PreferNoSchedule" and not is_tolerated(taint, tolerations) for taint in taints)
                for taints in nodes.taint_sets
            ),
            np.int64,
        )
        return minded[nodes.taint_set]

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        return default_normalize(scores, reverse=True)
