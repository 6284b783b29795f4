"""A decision in the form shown to users: the outcome, the nodes with their scores, the refusals with their nodes.

The engine's decision consists of columns that keep changing with the cluster. This one is immutable and turns columns
into names on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from mooring.api.budgets import budgets_of
from mooring.api.core import Pod
from mooring.api.text import count_of, first_of
from mooring.api.workloads import PodDisruptionBudget
from mooring.core.engine.decision import Outcome
from mooring.core.engine.decision import ScheduleResult as EngineDecision
from mooring.core.state.cluster import ClusterState

# ---- tables: text in a shell, HTML in a notebook, a DataFrame where pandas is installed
# --------------------------------

TEXT_ROWS, HTML_ROWS = 10, 20


@dataclass(frozen=True, slots=True)
class DecisionTable:
    """Cells under headers. Numbers are aligned right."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    def text(self, limit: int = TEXT_ROWS) -> str:
        """Return aligned columns without lines, as kubectl prints them."""
        shown = [self.columns, *([str(cell) for cell in row] for row in self.rows[:limit])]
        widths = [max(len(row[i]) for row in shown) for i in range(len(self.columns))]
        is_number = [bool(self.rows) and isinstance(self.rows[0][i], int) for i in range(len(self.columns))]
        lines = [
            "   ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, is_number, strict=True)
            ).rstrip()
            for row in shown
        ]
        return "\n".join([*lines, *self._more(limit)])

    def html(self, limit: int = HTML_ROWS) -> str:
        """Return a plain table, styled by the notebook."""
        head = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in self.rows[:limit]
        )
        more = "".join(f"<p>{escape(line)}</p>" for line in self._more(limit))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _more(self, limit: int) -> list[str]:
        return [f"… and {len(self.rows) - limit} more"] if len(self.rows) > limit else []

    def to_pandas(self, index: str) -> Any:
        """Return a DataFrame whose index is one of the columns."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas needs pandas, which is not installed: pip install pandas") from None
        return pandas.DataFrame([list(row) for row in self.rows], columns=list(self.columns)).set_index(index)


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A feasible node: its total and what each plugin contributed, normalised and weighted."""

    node: str
    total: int
    shares: dict[str, int]


@dataclass(frozen=True, slots=True)
class RefusalRow:
    """A reason (or several together), and the nodes that it applies to."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]


class Scores(list[NodeShare]):
    """The feasible nodes, best first, with each plugin's share. Empty where only one node was feasible."""

    def table(self) -> DecisionTable:
        plugins = tuple(self[0].shares) if self else ()
        rows = [(each.node, each.total, *(each.shares[plugin] for plugin in plugins)) for each in self]
        return DecisionTable(("node", "total", *plugins), rows)

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per node and a column per plugin, and the total."""
        return self.table().to_pandas("node")

    def __repr__(self) -> str:
        return self.table().text() if self else "Scores()"

    def _repr_html_(self) -> str:
        return self.table().html()


class Refusals(list[RefusalRow]):
    """Reasons with their nodes, those of most nodes first."""

    def table(self) -> DecisionTable:
        rows = [(len(each.nodes), ", ".join(each.reasons), each.plugin, first_of(each.nodes)) for each in self]
        return DecisionTable(("nodes", "refused because", "plugin", "which"), rows)

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per refused node."""
        rows = [(node, each.plugin, each.code, ", ".join(each.reasons)) for each in self for node in each.nodes]
        return DecisionTable(("node", "plugin", "code", "reasons"), rows).to_pandas("node")

    def __repr__(self) -> str:
        return self.table().text() if self else "Refusals()"

    def _repr_html_(self) -> str:
        return self.table().html()


GATED = "Scheduling is blocked due to non-empty scheduling gates"  # the API server's text


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that would be evicted, and the budgets that its eviction would break."""

    pod: str
    priority: int
    breaks: tuple[str, ...] = ()


def broken_budgets(pod: Pod, cluster: ClusterState) -> tuple[str, ...]:
    """Return the budgets that do not allow this pod to be evicted."""
    theirs = budgets_of(pod, cluster.objects.in_namespace(PodDisruptionBudget, pod.namespace))
    return tuple(budget.key for budget in theirs if budget.status.disruptions_allowed <= 0)


class Decision:
    """The decision about one pod."""

    def __init__(self, decided: EngineDecision, scheduler_name: str, cluster: ClusterState) -> None:
        pod = decided.pod.pod
        self.decided = decided
        self._groups = decided.statuses.groups() if decided.statuses is not None else []  # before columns change
        self.pod: str = pod.key
        self.scheduler_name = scheduler_name
        self.outcome: Outcome = decided.outcome
        self.node: str | None = decided.node
        self.nominated_node: str = decided.nominated_node or ""  # where room can be made for it
        self.victims: tuple[Victim, ...] = tuple(
            Victim(victim.pod.key, victim.priority, broken_budgets(victim.pod, cluster)) for victim in decided.victims
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
        """Reason of the PodScheduled condition; empty for a pod that has a node."""
        return self.decided.reason

    @property
    def message(self) -> str:
        """Text of the condition and the event: ``0/3 nodes are available: …``."""
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
        """Reasons with their nodes, those of most nodes first."""
        statuses = self.decided.statuses
        together = ", ".join(sorted(self.decided.unschedulable_plugins))  # if no single plugin is named
        found = [
            RefusalRow(status.plugin or together, status.code.name, status.reasons, statuses.names(rows))
            for status, rows in self._groups
            if statuses is not None
        ]
        return Refusals(sorted(found, key=lambda refusal: -len(refusal.nodes)))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
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

    # ---- rendering ------------------------------------------------------------------------------------------------

    @property
    def headline(self) -> str:
        """Return one line: where the pod goes, or that it fits nowhere."""
        if self.is_scheduled:
            feasible = f"{self.feasible_nodes} of {count_of(self.num_nodes, 'node')} can take it"
            return f"{self.pod} goes to {self.node}: {feasible}"
        room = f"; room can be made on {self.nominated_node}" if self.nominated_node else ""
        return f"{self.pod} {self.outcome.value}: {self.message}{room}"

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per node: its scores, or why it refuses the pod."""
        return (self.scores or self.refusals).to_pandas()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{escape(self.headline)}</strong></p>"]
        parts += [table._repr_html_() for table in (self.scores, self.refusals) if table]
        return "".join(parts)
