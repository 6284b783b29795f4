"""Why an attempt ended as it did: the decision is made again on the cluster of that moment, and told by rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mooring.explanation.why import Explanation
from mooring.record.moment import Moment

BEST = 12  # nodes that are shown with the share of each plugin

Row = Callable[[str], int]


def why(moment: Moment, filters: Sequence[str], row: Row) -> dict[str, Any]:
    """Explain the attempt of a moment. ``filters`` are asked in this order; ``row`` numbers nodes."""
    attempt = moment.attempt
    assert attempt is not None
    found = moment.explain()
    is_same = (found.outcome.value, found.node or "") == (attempt.outcome, attempt.node)
    return told(found, filters, row, attempt.node) | {"again": "" if is_same else found.headline}


def told(found: Explanation, filters: Sequence[str], row: Row, node: str = "") -> dict[str, Any]:
    """An explanation by rows of nodes, small enough for 5,000 of them."""
    chosen = node or found.node
    scores = sorted(found.scores, key=lambda share: (share.node != chosen, -share.total))
    return {
        "pod": found.pod,
        "schedulerName": found.scheduler_name,
        "outcome": found.outcome.value,
        "node": row(chosen) if chosen else None,
        "reason": found.reason,
        "message": found.message,
        "nodes": {"all": found.num_nodes, "evaluated": found.evaluated_nodes, "feasible": found.feasible_nodes},
        "ties": found.ties,
        "funnel": _funnel(found, filters, row),
        "plugins": list(scores[0].shares) if scores else [],
        "best": [
            {"node": row(share.node), "total": share.total, "shares": list(share.shares.values())}
            for share in scores[:BEST]
        ],
        "totals": [[row(share.node) for share in scores], [share.total for share in scores]],
        "nominated": found.nominated_node or None,
        "victims": [
            {"pod": victim.pod, "priority": victim.priority, "breaks": list(victim.breaks)} for victim in found.victims
        ],
        "suggestions": [{"text": each.text, "nodes": [row(name) for name in each.nodes]} for each in found.suggestions],
        "notes": found.notes,
    }


def _funnel(found: Explanation, filters: Sequence[str], row: Row) -> list[dict[str, Any]]:
    """The refusals in the order in which the filters are asked."""
    order = {name: i for i, name in enumerate(filters)}
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
