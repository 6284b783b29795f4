"""Hypotheses asked of the real engine: the same rules, a changed pod, a changed node, a pod less.

Nothing here knows a rule. A change says how the pod or the cluster would be
different; the engine says what it would decide then. Nodes are changed and
pods removed on a fork, so the cluster that is asked about stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

from mooring.api.core import Pod
from mooring.engine.build import Built, decide
from mooring.engine.cycle import Engine
from mooring.engine.decision import Decision, Outcome
from mooring.framework.remedies import Change
from mooring.framework.runtime import Profile
from mooring.framework.status import Status
from mooring.state.cluster import Cluster

MAX_QUESTIONS = 160


class Exhausted(Exception):
    """Enough questions for one explanation."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the engine would decide, and the cluster and the profile as they would be then."""

    decision: Decision
    cluster: Cluster
    profile: Profile

    @property
    def fits(self) -> bool:
        return self.decision.outcome is Outcome.SCHEDULED

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the pod could run on."""
        if not self.fits:
            return ()
        if self.decision.scores is not None:
            return tuple(self.decision.scores.names)
        return (self.decision.node,) if self.decision.node else ()

    def refusal(self, node: str) -> Status | None:
        """Why the node is refused; None if it is not."""
        if self.decision.statuses is None:
            return self.decision.status
        status = self.decision.statuses.get(node)
        return None if status.is_success else status


class WhatIf:
    """Asks about one pod. Looks at every node, whatever the profile samples, and evicts nobody."""

    def __init__(self, built: Built, scheduler_name: str, pod: Pod) -> None:
        self.cluster = built.handle.cluster
        self.pod = deepcopy(pod)
        self.pod.status.nominated_node_name = ""
        self.asked = 0
        self._built = built
        self._scheduler_name = scheduler_name
        self._engine = _engine(built)
        self._profiles = {preempt: self._profile(built, preempt) for preempt in (False, True)}

    def edited(self, changes: Sequence[Change]) -> Pod:
        """The pod with all changes made to it."""
        pod = deepcopy(self.pod)
        for change in changes:
            if change.edit is not None:
                change.edit(pod)
        return pod

    def ask(self, changes: Sequence[Change] = (), *, without: str = "", preempt: bool = False) -> Answer:
        """Decide with these changes, and with one plugin silenced if ``without`` names it."""
        if self.asked >= MAX_QUESTIONS:
            raise Exhausted
        self.asked += 1
        cluster, engine, profile = self.cluster, self._engine, self._profiles[preempt]
        if any(change.edit_node is not None or change.removes for change in changes):
            cluster = _changed(self.cluster.fork(), changes)
            built = self._built.on(cluster)
            engine, profile = _engine(built), self._profile(built, preempt)
        if without:
            profile = profile.without(without, "preFilter", "filter")
        return Answer(decide(engine, profile, self.edited(changes)), cluster, profile)

    def _profile(self, built: Built, preempt: bool) -> Profile:
        """The profile for questions: all nodes are looked at, and nobody counts them as attempts."""
        profile = built.profiles[self._scheduler_name]
        points = profile.points if preempt else {**profile.points, "postFilter": ()}
        return replace(profile, percentage_of_nodes_to_score=0, observer=None, points=points)


def _engine(built: Built) -> Engine:
    """An engine that does not take a hypothesis for the twin of the one before it, as batching would."""
    return Engine(built.handle.cluster, built.handle.nominator, batches=False)


def _changed(cluster: Cluster, changes: Sequence[Change]) -> Cluster:
    """Make the changes to nodes and running pods on a cluster that is the question's own."""
    for change in changes:
        if change.edit_node is not None:
            node = deepcopy(cluster.table.nodes[change.node].node)
            assert node is not None
            change.edit_node(node)
            cluster.set_node(node)
        for pod in change.removes:
            cluster.remove_pod(pod.uid)
    return cluster
