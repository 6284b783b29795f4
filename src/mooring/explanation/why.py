"""Why a pod goes where it goes, or nowhere, and what would help."""

from __future__ import annotations

from copy import deepcopy
from html import escape
from typing import Any

from mooring.api.core import Pod
from mooring.engine.build import Built
from mooring.engine.decision import Decision as EngineDecision
from mooring.engine.decision import Outcome
from mooring.explanation.decision import Decision
from mooring.explanation.notes import facts, volume_notes
from mooring.explanation.remedies import RemedySearch
from mooring.explanation.suggestion import Suggestion
from mooring.explanation.what_if import WhatIf
from mooring.framework.runtime import Profile
from mooring.state.cluster import Cluster


class Explanation(Decision):
    """A decision with everything worth saying about it. Printed, it reads as ``mooring explain`` shows it."""

    def __init__(self, decided: EngineDecision, scheduler_name: str, cluster: Cluster) -> None:
        super().__init__(decided, scheduler_name, cluster)
        self.suggestions: list[Suggestion] = []  # the smallest change first
        self.notes: list[str] = []  # facts behind refusals, claims and volumes that matter

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        suggestions = [
            {"text": s.text, "changes": list(s.changes), "kinds": list(s.kinds), "nodes": list(s.nodes)}
            | ({"alsoOn": list(s.also)} if s.also else {})
            for s in self.suggestions
        ]
        return {**super().to_dict(), "suggestions": suggestions, "notes": self.notes}

    def __repr__(self) -> str:
        from mooring.explanation.rendering import text  # which draws explanations, and knows them therefore

        return text(self)

    def _repr_html_(self) -> str:
        lists = (
            ("Notes", self.notes),
            ("What would help, the smallest change first", [each.text for each in self.suggestions]),
        )
        shown = (
            f"<p>{title}:</p><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
            for title, lines in lists
            if lines
        )
        return super()._repr_html_() + "".join(shown)


def explain_pod(built: Built, pod: Pod, *, suggest: bool = True) -> Explanation:
    """Decide about a pod and explain the decision. Nothing in the cluster changes, not even for a moment."""
    return explain(built, built.decide(pod), built.profile_of(pod), suggest=suggest)


def explain(built: Built, decided: EngineDecision, profile: Profile, *, suggest: bool = True) -> Explanation:
    """Turn a decision into words. Suggestions are sought only for a refusal, on the cluster as it is now."""
    cluster = built.handle.cluster
    found = Explanation(decided, profile.scheduler_name, cluster)
    found.notes += volume_notes(decided.pod, cluster)
    if not found.is_scheduled:
        found.notes += facts(decided, profile, cluster)
    if suggest and found.outcome in (Outcome.UNSCHEDULABLE, Outcome.GATED):
        search = RemedySearch(WhatIf(built, profile.scheduler_name, decided.pod.pod), decided)
        found.suggestions = search.run()
        found.notes += search.notes
    return found


def as_new(pod: Pod) -> Pod:
    """The pod as it was before it was placed: for asking where it would go now."""
    fresh = deepcopy(pod)
    fresh.spec.node_name = ""
    fresh.status.nominated_node_name = ""
    fresh.status.phase = ""
    fresh.metadata.deletion_timestamp = None
    return fresh
