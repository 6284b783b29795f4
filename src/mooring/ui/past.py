"""The cluster as it was just before an event of a timeline.

The timeline keeps every change of an object. Clusters that were asked for stay as keyframes: a fork shares with its
keyframe what neither changes, so that neighbours in time cost little.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import suppress

from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.engine.decision import Outcome
from mooring.errors import InputError
from mooring.surface.cluster import Cluster
from mooring.ui.timeline import Attempt, Change, Timeline

EVERY = 2_000  # changes between two keyframes
MAX_KEYFRAMES = 64


class Past:
    """Rebuilds clusters of one timeline. Not for two threads at once."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._keyframes: list[tuple[int, int, Cluster]] = [(0, 0, Cluster())]  # changes, attempts, and what they made
        self._attempts: list[Attempt] = []

    def before(self, event: int) -> Cluster:
        """The cluster as it was before this event: a fork, which the caller may change."""
        changes = self._timeline.changes
        self._attempts = list(self._timeline.attempts.values())
        wanted = bisect_right(changes, event, key=lambda change: change.event)
        tries = bisect_left(self._attempts, event, key=lambda attempt: attempt.event)
        at = bisect_right(self._keyframes, wanted, key=lambda keyframe: keyframe[0]) - 1
        while self._keyframes[at][1] > tries:
            at -= 1
        done, tried, cluster = self._keyframes[at]
        while wanted - done > EVERY:
            step = done + EVERY
            next_tried = bisect_left(self._attempts, changes[step].event, key=lambda attempt: attempt.event)
            cluster = cluster.fork()
            self._play(cluster, changes[done:step], self._attempts[tried:next_tried])
            done, tried = step, next_tried
            if len(self._keyframes) < MAX_KEYFRAMES:
                at += 1
                self._keyframes.insert(at, (done, tried, cluster))
        fork = cluster.fork()
        self._play(fork, changes[done:wanted], self._attempts[tried:tries])
        return fork

    def _play(self, cluster: Cluster, changes: list[Change], attempts: list[Attempt]) -> None:
        """Let changes and attempts happen in the order of their events."""
        i = 0
        for change in changes:
            while i < len(attempts) and attempts[i].event < change.event:
                _assume(cluster, attempts[i])
                i += 1
            _apply(cluster, change)
        for attempt in attempts[i:]:
            _assume(cluster, attempt)


def _apply(cluster: Cluster, change: Change) -> None:
    obj = change.obj
    if change.is_gone:
        _remove(cluster, obj)
        return
    if isinstance(obj, Pod) and not obj.spec.node_name:
        known = cluster.find_pod(obj.key)
        if known is not None and known.uid == obj.uid and known.spec.node_name:
            return  # it has been given a node, and the cluster does not know of it yet
    cluster.take_over([obj])


def _remove(cluster: Cluster, obj: Object) -> None:
    if isinstance(obj, Node):
        cluster.state.remove_node(obj.name)  # its pods stay until they go, as in the scheduler's cache
        return
    with suppress(InputError):  # it had finished, or went before it came
        cluster.remove(obj)


def _assume(cluster: Cluster, attempt: Attempt) -> None:
    """A pod that got a node counts there at once."""
    if attempt.outcome is Outcome.SCHEDULED and attempt.node is not None:
        cluster.bind(attempt.pod, attempt.node)
