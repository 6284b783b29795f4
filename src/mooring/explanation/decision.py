"""A decision for people: the outcome, the nodes with their scores, the refusals with their nodes.

The engine's decision is made of columns that go on changing with the cluster.
This one stays as it is, and turns columns into names when somebody looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from mooring.api.wording import count_of
from mooring.engine.decision import Decision as EngineDecision
from mooring.engine.decision import Outcome
from mooring.explanation.budgets import broken_budgets
from mooring.explanation.tables import NodeShare, Refusal, Refusals, Scores
from mooring.state.cluster import Cluster

GATED = "Scheduling is blocked due to non-empty scheduling gates"  # the API server's words


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that would be evicted, and the budgets that its eviction would break."""

    pod: str
    priority: int
    breaks: tuple[str, ...] = ()


class Decision:
    """What was decided about one pod."""

    def __init__(self, decided: EngineDecision, scheduler_name: str, cluster: Cluster) -> None:
        pod = decided.pod.pod
        self.decided = decided
        self._groups = decided.statuses.groups() if decided.statuses is not None else []  # before columns change
        self.pod: str = pod.key
        self.scheduler_name = scheduler_name
        self.outcome: Outcome = decided.outcome
        self.node: str | None = decided.node
        self.nominated_node: str = decided.nominated_node or ""  # where room can be made for it
        self.victims: tuple[Victim, ...] = tuple(
            Victim(victim.pod.key, victim.priority, tuple(broken_budgets(victim.pod, cluster)))
            for victim in decided.victims
        )
        self.num_nodes: int = decided.num_nodes
        self.evaluated_nodes: int = decided.evaluated_nodes
        self.feasible_nodes: int = decided.feasible_nodes
        self._has_gates = decided.outcome is Outcome.GATED and bool(pod.spec.scheduling_gates)

    @property
    def is_scheduled(self) -> bool:
        return self.outcome is Outcome.SCHEDULED

    @property
    def reason(self) -> str:
        """The reason of the PodScheduled condition; empty for a pod that has a node."""
        return self.decided.reason

    @property
    def message(self) -> str:
        """What users read in the condition and in the event: ``0/3 nodes are available: …``."""
        return GATED if self._has_gates else self.decided.message

    @cached_property
    def scores(self) -> Scores:
        """The feasible nodes, the chosen one first, then by their totals."""
        table = self.decided.scores
        if table is None:
            return Scores()
        names, totals = table.names, table.totals.tolist()
        columns = {plugin: column.tolist() for plugin, column in table.by_plugin.items()}
        order = sorted(range(len(names)), key=lambda i: (names[i] != self.node, -totals[i]))
        return Scores(
            NodeShare(names[i], totals[i], {plugin: column[i] for plugin, column in columns.items()}) for i in order
        )

    @property
    def ties(self) -> int:
        """How many nodes have the highest total."""
        table = self.decided.scores
        return 0 if table is None else int(np.count_nonzero(table.totals == table.totals.max()))

    @cached_property
    def refusals(self) -> Refusals:
        """Reasons with their nodes, those that hold for most nodes first."""
        statuses = self.decided.statuses
        together = ", ".join(sorted(self.decided.unschedulable_plugins))  # where nobody signed alone
        found = [
            Refusal(status.plugin or together, status.code.name, status.reasons, statuses.names(rows))
            for status, rows in self._groups
            if statuses is not None
        ]
        return Refusals(sorted(found, key=lambda refusal: -len(refusal.nodes)))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        return {
            "pod": self.pod,
            "schedulerName": self.scheduler_name,
            "outcome": self.outcome.value,
            "node": self.node,
            "reason": self.reason,
            "message": self.message,
            "nodes": {"all": self.num_nodes, "evaluated": self.evaluated_nodes, "feasible": self.feasible_nodes},
            "scores": [{"node": s.node, "total": s.total, "plugins": s.shares} for s in self.scores],
            "statuses": {
                node: {"plugin": refusal.plugin, "code": refusal.code, "reasons": list(refusal.reasons)}
                for refusal in self.refusals
                for node in refusal.nodes
            },
            "groups": [
                {"plugin": r.plugin, "code": r.code, "reasons": list(r.reasons), "nodes": list(r.nodes)}
                for r in self.refusals
            ],
            "nominatedNode": self.nominated_node or None,
            "victims": [{"pod": v.pod, "priority": v.priority, "breaksBudgets": list(v.breaks)} for v in self.victims],
        }

    # ---- how it looks ------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """One line: where the pod goes, or why nowhere."""
        if self.is_scheduled:
            feasible = f"{self.feasible_nodes} of {count_of(self.num_nodes, 'node')} can take it"
            return f"{self.pod} goes to {self.node}: {feasible}"
        room = f"; room can be made on {self.nominated_node}" if self.nominated_node else ""
        return f"{self.pod} {self.outcome.value}: {self.message}{room}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{escape(self.headline)}</strong></p>"]
        parts += [table._repr_html_() for table in (self.scores, self.refusals) if table]
        return "".join(parts)
