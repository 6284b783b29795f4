"""Why an attempt ended as it did: the decision is made again on the cluster of that moment, and told by rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.engine.decision import Outcome
from mooring.errors import InputError
from mooring.explanation.why import Explanation
from mooring.surface.cluster import Cluster
from mooring.surface.scheduler import Scheduler
from mooring.ui.past import Past
from mooring.ui.timeline import Timeline

BEST = 12  # nodes that are shown with the share of each plugin

MakeScheduler = Callable[[Cluster], Scheduler]


class Why:
    """Answers questions about attempts of one timeline. Not for two threads at once."""

    def __init__(self, timeline: Timeline, make_scheduler: MakeScheduler) -> None:
        self._timeline = timeline
        self._past = Past(timeline)
        self._make_scheduler = make_scheduler
        self._scheduler: Scheduler | None = None

    def on(self, cluster: Cluster) -> Scheduler:
        """The scheduler of this timeline, for a cluster of it."""
        if self._scheduler is None:
            self._scheduler = self._make_scheduler(Cluster())
        return self._scheduler.on(cluster)

    def cluster_before(self, event: int) -> Cluster:
        return self._past.before(event)

    def attempt(self, event: int) -> dict[str, Any]:
        """Explain the attempt at this event."""
        attempt = self._timeline.attempts.get(event)
        if attempt is None:
            raise InputError(f"event {event} is no attempt")
        scheduler = self.on(self._past.before(event))
        found = scheduler.explain(attempt.pod)
        told = self.told(found, scheduler, attempt.node)
        told["again"] = self._differs(found, attempt.outcome, attempt.node)
        return told

    def _differs(self, found: Explanation, outcome: Outcome, node: str | None) -> str:
        """What the decision that was made again says, if it is not what was decided then."""
        if found.outcome is outcome and (node == found.node or node in _tied(found)):
            return ""
        return found.headline

    def told(self, found: Explanation, scheduler: Scheduler, node: str | None) -> dict[str, Any]:
        """An explanation by rows of the timeline's nodes, small enough for 5,000 of them."""
        row = self._timeline.nodes.number
        node = node or found.node
        scores = sorted(found.scores, key=lambda share: (share.node != node, -share.total))
        return {
            "pod": found.pod,
            "schedulerName": found.scheduler_name,
            "outcome": found.outcome.value,
            "node": None if node is None else row(node),
            "reason": found.reason,
            "message": found.message,
            "nodes": {"all": found.num_nodes, "evaluated": found.evaluated_nodes, "feasible": found.feasible_nodes},
            "ties": found.ties,
            "funnel": _funnel(found, scheduler, row),
            "plugins": list(scores[0].shares) if scores else [],
            "best": [
                {"node": row(share.node), "total": share.total, "shares": list(share.shares.values())}
                for share in scores[:BEST]
            ],
            "totals": [[row(share.node) for share in scores], [share.total for share in scores]],
            "nominated": found.nominated_node or None,
            "victims": [
                {"pod": victim.pod, "priority": victim.priority, "breaks": list(victim.breaks)}
                for victim in found.victims
            ],
            "suggestions": [
                {"text": each.text, "nodes": [row(name) for name in each.nodes]} for each in found.suggestions
            ],
            "notes": found.notes,
        }


def _tied(found: Explanation) -> set[str]:
    """The nodes that have the highest total."""
    highest = max((share.total for share in found.scores), default=0)
    return {share.node for share in found.scores if share.total == highest}


def _funnel(found: Explanation, scheduler: Scheduler, row: Callable[[str], int]) -> list[dict[str, Any]]:
    """The refusals in the order in which the filters are asked."""
    profile = scheduler.built.profiles.get(found.scheduler_name)
    order = {} if profile is None else {plugin.name: i for i, plugin in enumerate(profile.filter)}
    refusals = sorted(found.refusals, key=lambda refusal: (order.get(refusal.plugin, -1), -len(refusal.nodes)))
    return [
        {
            "plugin": refusal.plugin,
            "code": refusal.code,
            "reasons": list(refusal.reasons),
            "rows": [row(name) for name in refusal.nodes],
        }
        for refusal in refusals
    ]
