"""A decision for people: the best nodes and why, or the reasons with their nodes and what would help."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mooring.api.core import Pod
from mooring.engine.build import Built
from mooring.engine.decision import Decision, Outcome
from mooring.explanation.notes import broken_budgets, facts, volume_notes
from mooring.explanation.remedies import RemedySearch
from mooring.explanation.suggestion import Suggestion
from mooring.explanation.what_if import WhatIf
from mooring.framework.runtime import Profile
from mooring.state.cluster import Cluster
from mooring.state.pod_info import PodInfo

GATED = "Scheduling is blocked due to non-empty scheduling gates"  # the API server's words


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A feasible node: its total and what each plugin contributed, normalised and weighted."""

    node: str
    total: int
    shares: dict[str, int]


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason (or several at once), and exactly the nodes it holds for."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that would be evicted, and the budgets that its eviction would break."""

    pod: str
    priority: int
    breaks: tuple[str, ...] = ()


@dataclass(slots=True)
class Explanation:
    """Everything worth saying about one decision. A plain value: tables and JSON are renderings of it."""

    pod: str
    scheduler_name: str
    outcome: Outcome
    node: str | None
    reason: str
    message: str
    num_nodes: int
    evaluated_nodes: int
    feasible_nodes: int
    scores: list[NodeShare] = field(default_factory=list)  # best first; the chosen one leads
    ties: int = 0  # nodes with the highest total
    refusals: list[Refusal] = field(default_factory=list)  # most nodes first
    suggestions: list[Suggestion] = field(default_factory=list)  # smallest change first
    nominated_node: str = ""
    victims: list[Victim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # claims, volumes and budgets that matter

    @property
    def is_schedulable(self) -> bool:
        return self.outcome is Outcome.SCHEDULED

    def to_dict(self) -> dict[str, Any]:
        """Everything, camelCase, as ``-o json`` prints it."""
        by_node = {
            node: {"plugin": refusal.plugin, "code": refusal.code, "reasons": list(refusal.reasons)}
            for refusal in self.refusals
            for node in refusal.nodes
        }
        return {
            "pod": self.pod,
            "schedulerName": self.scheduler_name,
            "outcome": self.outcome.value,
            "node": self.node,
            "reason": self.reason,
            "message": self.message,
            "nodes": {"all": self.num_nodes, "evaluated": self.evaluated_nodes, "feasible": self.feasible_nodes},
            "scores": [{"node": s.node, "total": s.total, "plugins": s.shares} for s in self.scores],
            "statuses": by_node,
            "groups": [
                {"plugin": r.plugin, "code": r.code, "reasons": list(r.reasons), "nodes": list(r.nodes)}
                for r in self.refusals
            ],
            "suggestions": [
                {"text": s.text, "changes": list(s.changes), "kinds": list(s.kinds), "nodes": list(s.nodes)}
                | ({"alsoOn": list(s.also)} if s.also else {})
                for s in self.suggestions
            ],
            "nominatedNode": self.nominated_node or None,
            "victims": [{"pod": v.pod, "priority": v.priority, "breaksBudgets": list(v.breaks)} for v in self.victims],
            "notes": self.notes,
        }


def explain_pod(built: Built, pod: Pod, *, suggest: bool = True) -> Explanation:
    """Decide about a pod and explain the decision. Nothing in the cluster changes, not even for a moment."""
    return explain(built, built.decide(pod), built.profile_of(pod), suggest=suggest)


def explain(built: Built, decision: Decision, profile: Profile, *, suggest: bool = True) -> Explanation:
    """Turn a decision into words. Suggestions are sought only for a refusal, on the cluster as it is now."""
    cluster = built.handle.cluster
    pod = decision.pod.pod
    has_gates = decision.outcome is Outcome.GATED and bool(pod.spec.scheduling_gates)
    found = Explanation(
        pod=pod.key,
        scheduler_name=profile.scheduler_name,
        outcome=decision.outcome,
        node=decision.node,
        reason=decision.reason,
        message=GATED if has_gates else decision.message,
        num_nodes=decision.num_nodes,
        evaluated_nodes=decision.evaluated_nodes,
        feasible_nodes=decision.feasible_nodes,
        nominated_node=decision.nominated_node or "",
        refusals=_refusals(decision, cluster),
        notes=list(volume_notes(decision.pod, cluster)),
    )
    found.scores, found.ties = _scores(decision)
    found.victims = [_victim(victim, cluster) for victim in decision.victims]
    if not found.is_schedulable:
        found.notes += facts(decision, profile, cluster)
    if suggest and decision.outcome in (Outcome.UNSCHEDULABLE, Outcome.GATED):
        search = RemedySearch(WhatIf(built, profile.scheduler_name, pod), decision)
        found.suggestions = search.run()
        found.notes += search.notes
    return found


def _scores(decision: Decision) -> tuple[list[NodeShare], int]:
    table = decision.scores
    if table is None:
        return [], 0
    order = np.argsort(-table.totals, kind="stable").tolist()
    shares = [
        NodeShare(
            table.names[i], int(table.totals[i]), {plugin: int(column[i]) for plugin, column in table.by_plugin.items()}
        )
        for i in order
    ]
    shares.sort(key=lambda share: share.node != decision.node)
    rest = shares[1:]
    rest.sort(key=lambda share: -share.total)
    return shares[:1] + rest, int(np.count_nonzero(table.totals == table.totals.max()))


def _refusals(decision: Decision, cluster: Cluster) -> list[Refusal]:
    if decision.statuses is None:
        return []
    infos = cluster.table.infos
    found = [
        Refusal(
            status.plugin or ", ".join(sorted(decision.unschedulable_plugins)),
            status.code.name,
            status.reasons,
            tuple(infos[row].name for row in rows.tolist()),
        )
        for status, rows in decision.statuses.groups()
    ]
    return sorted(found, key=lambda refusal: -len(refusal.nodes))


def _victim(victim: PodInfo, cluster: Cluster) -> Victim:
    return Victim(victim.pod.key, victim.priority, tuple(broken_budgets(victim.pod, cluster)))


def as_new(pod: Pod) -> Pod:
    """The pod as it was before it was placed: for asking where it would go now."""
    fresh = deepcopy(pod)
    fresh.spec.node_name = ""
    fresh.status.nominated_node_name = ""
    fresh.status.phase = ""
    fresh.metadata.deletion_timestamp = None
    return fresh
