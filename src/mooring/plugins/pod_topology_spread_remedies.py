"""What would help a pod that its topology spread constraints keep away from nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod, TopologySpreadConstraint
from mooring.api.wording import missing_label_fact
from mooring.framework.remedies import Change, Remedy
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows

MAX_EXTRA_SKEW = 512


def facts(pod: Pod, nodes: Sequence[NodeInfo]) -> Iterator[str]:
    """For each key that the pod must be spread over: how many nodes lack it."""
    for _, constraint in _hard(pod):
        fact = missing_label_fact(constraint.topology_key, [node.labels for node in nodes])
        if fact:
            yield fact


def allow_more_skew(pod: Pod, nodes: NodeRows, skews: NDArray[np.int64]) -> Iterator[Remedy]:
    """Allow exactly the skew that the pod would cause on the nodes where that is smallest.

    ``skews`` are by hard constraint and node. Where the pod breaks several constraints, all of them must allow more.
    """
    hard = _hard(pod)
    allowed = np.array([constraint.max_skew for _, constraint in hard]).reshape(-1, 1)
    labelled = np.all([nodes.label_ids(constraint.topology_key) >= 0 for _, constraint in hard], axis=0)
    extra = np.where(labelled, np.maximum(skews - allowed, 0).sum(axis=0), MAX_EXTRA_SKEW + 1)
    tried: set[tuple[int, ...]] = set()
    for i in np.argsort(extra, kind="stable").tolist():
        broken = tuple(np.flatnonzero(skews[:, i] > allowed[:, 0]).tolist())
        if 0 < extra[i] <= MAX_EXTRA_SKEW and broken not in tried:
            tried.add(broken)
            yield tuple(_max_skew(*hard[k], int(skews[k, i])) for k in broken)


def soften(pod: Pod, labels: Mapping[str, str]) -> Iterator[Remedy]:
    """Spread only where possible: by the keys that the node lacks, or else by any one."""
    hard = _hard(pod)
    lacking = [(i, constraint) for i, constraint in hard if constraint.topology_key not in labels]
    for i, constraint in lacking or hard:
        yield (_soft(i, constraint.topology_key),)
    if len(lacking) > 1:
        yield tuple(_soft(i, constraint.topology_key) for i, constraint in lacking)


def _hard(pod: Pod) -> list[tuple[int, TopologySpreadConstraint]]:
    """The constraints that refuse nodes, with their numbers."""
    constraints = enumerate(pod.spec.topology_spread_constraints)
    return [(i, constraint) for i, constraint in constraints if constraint.when_unsatisfiable == "DoNotSchedule"]


def _soft(index: int, key: str) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.topology_spread_constraints[index].when_unsatisfiable = "ScheduleAnyway"

    return Change(f"spread over {key} only where possible (ScheduleAnyway)", "spread", 5.0, edit=edit)


def _max_skew(index: int, constraint: TopologySpreadConstraint, skew: int) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.topology_spread_constraints[index].max_skew = skew

    text = f"spread over {constraint.topology_key}: allow maxSkew {skew} (now {constraint.max_skew})"
    return Change(text, "maxSkew", 1.0 + (skew - constraint.max_skew), edit=edit)
