"""Hypotheses asked of the real engine: the same rules, a changed pod, a changed node, a pod less.

Nothing here knows a rule. A change says how the pod or the cluster would be
different; the engine says what it would decide then; afterwards everything is
as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Pod
from mooring.engine.cycle import Engine
from mooring.engine.decision import Decision, Outcome
from mooring.framework.nominator import Nominator
from mooring.framework.runtime import Profile
from mooring.state.cluster import Cluster
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

MAX_QUESTIONS = 160


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that could be different. ``edit`` gets a copy of the pod, ``edit_node`` a copy of the node."""

    text: str
    kind: str
    cost: float  # larger is more to ask of people
    edit: Callable[[Pod], None] | None = None
    node: str = ""
    edit_node: Callable[[Node], None] | None = None
    same: str = ""  # the text without the node's name: equal for the same change on another node
    removes: tuple[PodInfo, ...] = ()


class Exhausted(Exception):
    """Enough questions for one explanation."""


class _TickingClock:
    """A second passes between any two looks: no hypothesis is taken for the twin of the one before it."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        self._now += 1.0
        return self._now

    def monotonic(self) -> float:
        return self.now()


class WhatIf:
    """Asks about one pod. Looks at every node, whatever the profile samples, and evicts nobody."""

    def __init__(self, cluster: Cluster, nominator: Nominator, profile: Profile, pod: Pod) -> None:
        self.cluster = cluster
        self.pod = deepcopy(pod)
        self.pod.status.nominated_node_name = ""
        self.asked = 0
        self._full = replace(profile, percentage_of_nodes_to_score=0)
        self._profile = replace(self._full, points={**profile.points, "postFilter": ()})
        self._engine = Engine(cluster, nominator, clock=_TickingClock())

    def edited(self, changes: Sequence[Change]) -> Pod:
        """The pod with all changes made to it."""
        pod = deepcopy(self.pod)
        for change in changes:
            if change.edit is not None:
                change.edit(pod)
        return pod

    def ask(self, changes: Sequence[Change] = (), *, without: str = "", preempt: bool = False) -> Decision:
        """Decide with these changes, and with one plugin silenced if ``without`` names it."""
        if self.asked >= MAX_QUESTIONS:
            raise Exhausted
        self.asked += 1
        profile = self._full if preempt else self._profile
        if without:
            profile = profile.without(without, "preFilter", "filter")
        with self._changed(changes):
            return self._engine.decide(self.cluster.info(self.edited(changes)), profile)

    @contextmanager
    def _changed(self, changes: Sequence[Change]) -> Iterator[None]:
        nodes: dict[str, Node] = {}
        removed: list[PodInfo] = []
        try:
            for change in changes:
                if change.edit_node is not None:
                    info = self.cluster.table.nodes[change.node]
                    assert info.node is not None
                    nodes.setdefault(change.node, info.node)
                    changed = deepcopy(info.node)
                    change.edit_node(changed)
                    self.cluster.set_node(changed)
                for pod in change.removes:
                    if self.cluster.pod(pod.uid) is not None:
                        removed.append(pod)
                        self.cluster.remove_pod(pod.uid)
            yield
        finally:
            for node in nodes.values():
                self.cluster.set_node(node)
            for pod in removed:
                self.cluster.set_pod(pod.pod)

    def rows(self) -> NodeRows:
        return self.cluster.nodes()


def fits(decision: Decision) -> bool:
    return decision.outcome is Outcome.SCHEDULED


def feasible_names(decision: Decision) -> tuple[str, ...]:
    """The nodes that the pod could run on."""
    if not fits(decision):
        return ()
    if decision.scores is not None:
        return tuple(decision.scores.names)
    return (decision.node,) if decision.node else ()


def feasible_rows(decision: Decision, cluster: Cluster) -> NDArray[np.int64]:
    nodes = cluster.table.nodes
    return np.array([nodes[name].row for name in feasible_names(decision)], np.int64)
