"""Rows and columns for people: text in a shell, HTML in a notebook, a DataFrame where pandas is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

TEXT_ROWS, HTML_ROWS = 10, 20


@dataclass(frozen=True, slots=True)
class Table:
    """Cells under headers. Numbers stand at the right."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    def text(self, limit: int = TEXT_ROWS) -> str:
        """Aligned columns without lines, as kubectl prints them."""
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
        """A plain table, styled by the notebook."""
        head = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in self.rows[:limit]
        )
        more = "".join(f"<p>{escape(line)}</p>" for line in self._more(limit))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _more(self, limit: int) -> list[str]:
        return [f"… and {len(self.rows) - limit} more"] if len(self.rows) > limit else []

    def to_pandas(self, index: str) -> Any:
        """A DataFrame whose index is one of the columns."""
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
class Refusal:
    """One reason (or several at once), and exactly the nodes it holds for."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]


class Scores(list[NodeShare]):
    """The feasible nodes, best first, with each plugin's share. Empty where only one node was feasible."""

    def table(self) -> Table:
        plugins = tuple(self[0].shares) if self else ()
        rows = [(each.node, each.total, *(each.shares[plugin] for plugin in plugins)) for each in self]
        return Table(("node", "total", *plugins), rows)

    def to_pandas(self) -> Any:
        """A DataFrame with a row per node and a column per plugin, and the total."""
        return self.table().to_pandas("node")

    def __repr__(self) -> str:
        return self.table().text() if self else "Scores()"

    def _repr_html_(self) -> str:
        return self.table().html()


class Refusals(list[Refusal]):
    """Reasons with their nodes, those that hold for most nodes first."""

    def table(self) -> Table:
        rows = [(len(each.nodes), ", ".join(each.reasons), each.plugin, _names(each.nodes)) for each in self]
        return Table(("nodes", "refused because", "plugin", "which"), rows)

    def to_pandas(self) -> Any:
        """A DataFrame with a row per refused node."""
        rows = [(node, each.plugin, each.code, ", ".join(each.reasons)) for each in self for node in each.nodes]
        return Table(("node", "plugin", "code", "reasons"), rows).to_pandas("node")

    def __repr__(self) -> str:
        return self.table().text() if self else "Refusals()"

    def _repr_html_(self) -> str:
        return self.table().html()


def _names(names: Sequence[str], limit: int = 6) -> str:
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
