"""A decision for people: the best nodes and why, or the reasons with their nodes and what would help."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mooring.api.core import Pod
from mooring.api.selectors import compile_selector
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.api.workloads import PodDisruptionBudget
from mooring.engine.build import Built
from mooring.engine.decision import Decision, Outcome
from mooring.engine.facts import facts
from mooring.engine.proposals import expression_text
from mooring.engine.suggestions import Finder, Suggestion
from mooring.engine.what_if import Change, WhatIf
from mooring.errors import ParseError
from mooring.framework.runtime import Profile, run_pre_enqueue
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
    profile = built.profile_of(pod)
    cluster = built.handle.cluster
    info = cluster.info(pod)
    held = run_pre_enqueue(profile.pre_enqueue, pod)
    if held.is_success:
        decision = built.engine.decide(info, profile)
    else:
        decision = Decision(info, Outcome.GATED, status=held, num_nodes=len(cluster.nodes()))
    return explain(built, decision, profile, suggest=suggest)


def explain(built: Built, decision: Decision, profile: Profile, *, suggest: bool = True) -> Explanation:
    """Turn a decision into words. Suggestions are sought only for a refusal, on the cluster as it is now."""
    cluster = built.handle.cluster
    pod = decision.pod.pod
    gates = decision.outcome is Outcome.GATED and bool(pod.spec.scheduling_gates)
    found = Explanation(
        pod=pod.key,
        scheduler_name=profile.scheduler_name,
        outcome=decision.outcome,
        node=decision.node,
        reason=decision.reason,
        message=GATED if gates else decision.message,
        num_nodes=decision.num_nodes,
        evaluated_nodes=decision.evaluated_nodes,
        feasible_nodes=decision.feasible_nodes,
        nominated_node=decision.nominated_node or "",
        refusals=_refusals(decision, cluster),
    )
    found.scores, found.ties = _scores(decision)
    found.victims = [_victim(victim, cluster) for victim in decision.victims]
    found.notes = [*_volume_notes(decision.pod, cluster), *_facts(decision, cluster, found)]
    if suggest and decision.outcome is not Outcome.SCHEDULED:
        what_if = WhatIf(built, profile.scheduler_name, pod)
        if gates:
            found.suggestions = _without_gates(what_if)
        elif decision.outcome is Outcome.UNSCHEDULABLE:
            found.suggestions = Finder(what_if, decision).run()
    return found


def _facts(decision: Decision, cluster: Cluster, found: Explanation) -> list[str]:
    if not found.num_nodes:
        return ["the cluster has no Node objects"]
    return [] if found.is_schedulable else facts(decision.pod, cluster, found.refusals)


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
    return Victim(victim.pod.key, victim.priority, tuple(_broken_budgets(victim.pod, cluster)))


def _broken_budgets(pod: Pod, cluster: Cluster) -> Iterable[str]:
    for budget in cluster.objects.in_namespace(PodDisruptionBudget, pod.namespace):
        try:
            selector = compile_selector(budget.spec.selector)
        except ParseError:
            continue
        if budget.status.disruptions_allowed <= 0 and not selector.is_empty and selector.matches(pod.labels):
            yield budget.key


def _volume_notes(pod: PodInfo, cluster: Cluster) -> Iterable[str]:
    """What is known of the pod's claims and where their volumes can be reached."""
    for name in dict.fromkeys(pod.shape.claim_names):
        key = f"{pod.pod.namespace}/{name}"
        claim = cluster.objects.get(PersistentVolumeClaim, key)
        if claim is None:
            yield f"claim {key} does not exist"
        elif not claim.spec.volume_name:
            kind = claim.spec.storage_class_name
            yield f"claim {key} is not bound yet" + (f" (storage class {kind})" if kind else "")
        else:
            volume = cluster.objects.get(PersistentVolume, claim.spec.volume_name)
            yield f"claim {key} is bound to volume {claim.spec.volume_name}" + _reachable(volume)


def _reachable(volume: PersistentVolume | None) -> str:
    if volume is None:
        return ", which does not exist"
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ""
    terms = [
        " and ".join(expression_text(e.key, e.operator, e.values) for e in term.match_expressions)
        for term in affinity.required.node_selector_terms
    ]
    return f", reachable from nodes with {' or '.join(terms)}"


def _without_gates(what_if: WhatIf) -> list[Suggestion]:
    """A gated pod was never tried: try it without its gates."""
    gates = [gate.name for gate in what_if.pod.spec.scheduling_gates]

    def edit(pod: Pod) -> None:
        pod.spec.scheduling_gates = []

    text = f"remove scheduling gate{'s' if len(gates) > 1 else ''} {', '.join(gates)}"
    answer = what_if.ask((Change(text, "gate", 1.0, edit=edit),))
    return [Suggestion((text,), ("gate",), answer.nodes, 1.0)] if answer.fits else []


def as_new(pod: Pod) -> Pod:
    """The pod as it was before it was placed: for asking where it would go now."""
    fresh = deepcopy(pod)
    fresh.spec.node_name = ""
    fresh.status.nominated_node_name = ""
    fresh.status.phase = ""
    fresh.metadata.deletion_timestamp = None
    return fresh
