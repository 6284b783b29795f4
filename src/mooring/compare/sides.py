"""One of the two schedulers that are compared, with a cluster of its own in which it places pods."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mooring.api.core import Pod
from mooring.engine.decision import Decision
from mooring.explanation.why import as_new
from mooring.surface.cluster import Cluster
from mooring.surface.scheduler import Scheduler


class Side:
    """Places pods as its scheduler decides, and carries out preemption: victims go, and come again as new pods."""

    def __init__(self, scheduler: Scheduler, base: Cluster, anew: Iterable[Pod]) -> None:
        self.cluster = base.fork()
        for pod in anew:
            self.cluster.remove(pod)
        # Versions differ in how they count pods that are being resized, and the fork counts as its parent does.
        self.cluster.state.count_resizes(whole=scheduler.built.features["ResizesCountWholePods"])
        self.scheduler = unbatched(scheduler.on(self.cluster))
        self.evicted: dict[str, str] = {}  # victim -> for whom
        self.waits: dict[str, str] = {}  # why each pod has no node

    def decide(self, pod: Pod) -> Decision:
        return self.scheduler.built.decide(pod, detail=False)

    def settle(self, pod: Pod, decided: Decision, node: str | None) -> list[Pod]:
        """Let the pod run on its node, after the victims are gone; returns the pods that come anew in their place."""
        again: list[Pod] = []
        for victim in decided.victims:
            self.cluster.remove(victim.pod)
            self.evicted[victim.pod.key] = pod.key
            if victim.pod.metadata.controller() is not None:
                again.append(as_new(victim.pod))
        if decided.victims:
            decided = self.decide(pod)
            node = decided.node
        if node is None:
            self.waits[pod.key] = decided.message
            return again
        self.waits.pop(pod.key, None)
        self.cluster.bind(pod, node)
        return again

    def node_of(self, key: str) -> str | None:
        pod = self.cluster.find_pod(key)
        return pod.spec.node_name or None if pod is not None else None


def unbatched(scheduler: Scheduler) -> Scheduler:
    """Without opportunistic batching: it takes over the ranking of the pod before, so that there are no scores."""
    scheduler.built.engine.batching.is_enabled = False
    return scheduler


def goal(decided: Decision) -> str | None:
    """The node that a pod goes to, at once or after its victims are gone."""
    return decided.node or decided.nominated_node or None


def is_as_good(decided: Decision, node: str | None) -> bool:
    """Whether a node has the highest total, too: which of several such nodes is taken says nothing."""
    if node is None or decided.scores is None:
        return False
    totals = decided.scores.totals
    best = np.flatnonzero(totals == totals.max())
    infos = decided.scores.nodes.infos
    return any(infos[int(i)].name == node for i in best)
