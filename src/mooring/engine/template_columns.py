"""What one profile keeps for the templates that come again and again: their verdicts and their scores."""

from __future__ import annotations

from mooring.engine.attempt import Attempt
from mooring.engine.derived import Figures, Kept
from mooring.engine.filter_columns import FilterColumns
from mooring.engine.score_columns import ScoreColumns
from mooring.framework.plans import ScorePlan
from mooring.state.pod_info import PodShape

MAX_BYTES = 128 << 20
MAX_SEEN = 16384  # templates that have come once
MAX_MEMO = 4096  # distinct fillings of a node that are remembered per template
MAX_MEMOS = 65_536  # the same of all templates together, about
FIXED_BYTES = 4096  # what a template's columns take however few nodes there are


class TemplateColumns:
    """Columns by template, brought up to date when they are asked for. Do not change what is returned."""

    def __init__(self) -> None:
        self.filters: Kept[FilterColumns] = Kept(MAX_SEEN)
        self.scores: Kept[ScoreColumns] = Kept(MAX_SEEN)
        self._figures = Figures()

    def is_worth_keeping(self, shape: PodShape) -> bool:
        """Report whether the template has come before."""
        return self.filters.has_come_before(shape.placement_id)

    def filters_of(self, attempt: Attempt) -> FilterColumns:
        """The verdicts of the filters that read no more than the row."""
        plan, table = attempt.plan, attempt.nodes.table
        key = plan.template(attempt.pod)
        columns = self.filters.get(key)
        if columns is None:
            columns = FilterColumns(plan, table, _max_memo(len(self.filters)))
            self.filters.put(key, columns, _most(len(table)))
        columns.update(attempt, self._figures)
        return columns

    def scores_of(self, attempt: Attempt, plan: ScorePlan) -> ScoreColumns:
        """The scores of the plugins that read no more than the row."""
        table = attempt.nodes.table
        key = plan.template(attempt.pod)
        columns = self.scores.get(key)
        if columns is None:
            columns = ScoreColumns(plan, table, _max_memo(len(self.scores)))
            self.scores.put(key, columns, _most(len(table)))
        columns.update(attempt, self._figures)
        return columns


def _most(n: int) -> int:
    """How many templates fit into the memory that they may take on so many nodes."""
    return max(16, MAX_BYTES // (64 * n + FIXED_BYTES))


def _max_memo(templates: int) -> int:
    """A thousand templates on a mixed cluster would remember millions of fillings, most of them never seen again."""
    return min(MAX_MEMO, max(64, MAX_MEMOS // (templates + 1)))
