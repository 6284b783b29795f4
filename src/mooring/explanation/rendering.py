"""How an explanation looks on a terminal, and as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.explanation.suggestion import Suggestion
from mooring.explanation.tables import NodeShare, Refusal
from mooring.explanation.why import Explanation
from mooring.text_tables import print_table

MAX_NAMES = 6
_UNBOUNDED = 1_000_000  # text is not wrapped


def draw(to: Console, found: Explanation, top: int, *, suggestions: int = 8) -> None:
    """Print the decision for a person: the outcome, then its reasons, then what would help."""
    if found.is_scheduled:
        _draw_placement(to, found, top)
        _draw_notes(to, found)
    else:
        _draw_refusal(to, found, suggestions)


def text(found: Explanation) -> str:
    """The same without colours."""
    page = StringIO()
    draw(Console(file=page, width=_UNBOUNDED, highlight=False, soft_wrap=True, emoji=False), found, top=5)
    return page.getvalue().rstrip()


def _draw_notes(to: Console, found: Explanation) -> None:
    if found.notes:
        to.print()
    for note in found.notes:
        to.print(f"Note: {escape(note)}")


def _draw_placement(to: Console, found: Explanation, top: int) -> None:
    to.print(f"[green]{escape(found.pod)} goes to [bold]{escape(found.node or '')}[/bold][/green]")
    feasible = f"{found.feasible_nodes} of {_many(found.num_nodes, 'node')} can take it"
    if not found.scores:
        to.print(f"{feasible}, so nothing had to be scored.")
    else:
        tie = f"; {found.ties} are equally good, and the first in kube-scheduler's order wins" if found.ties > 1 else ""
        to.print(f"{feasible}{tie}.")
        to.print()
        draw_scores(to, found.scores[:top])
        if len(found.scores) > top:
            to.print(f"… and {len(found.scores) - top} more (--top N shows N)")
    if found.refusals:
        to.print()
        _draw_groups(to, found.refusals)


def draw_scores(to: Console, shares: Sequence[NodeShare]) -> None:
    """Nodes down, plugins across; a plugin that gives none of them anything is left out."""
    plugins = [name for name in shares[0].shares if any(share.shares[name] for share in shares)]
    rows: list[list[str | Text]] = [
        [
            Text(share.node, style="bold green" if i == 0 else ""),
            Text(str(share.total), style="bold"),
            *(str(share.shares[name]) for name in plugins),
        ]
        for i, share in enumerate(shares)
    ]
    print_table(to, ["NODE", "TOTAL", *(_header(name, to) for name in plugins)], rows)
    silent = [name for name in shares[0].shares if name not in plugins]
    if silent:
        to.print(f"0 everywhere: {', '.join(silent)}", style="dim")


def _header(name: str, to: Console) -> str:
    """On a terminal long names are broken between their words, so that the table fits."""
    return "\n".join(re.findall(r"[A-Z][a-z0-9]*|[^A-Z]+", name)) if to.is_terminal else name


def _draw_refusal(to: Console, found: Explanation, suggestions: int) -> None:
    what = {"gated": "is held back", "error": "cannot be decided"}.get(found.outcome.value, "fits nowhere")
    to.print(f"[red]{escape(found.pod)} {what}[/red]")
    to.print(escape(found.message))
    if found.refusals:
        to.print()
        _draw_groups(to, found.refusals)
    _draw_notes(to, found)
    if found.nominated_node:
        to.print()
        to.print(f"Room can be made on [bold]{escape(found.nominated_node)}[/bold] by evicting:")
        for victim in found.victims:
            broken = f", against the budget {', '.join(victim.breaks)}" if victim.breaks else ""
            to.print(f"  {escape(victim.pod)} (priority {victim.priority}{escape(broken)})")
    if found.suggestions:
        to.print()
        to.print("[bold]What would help[/bold], the smallest change first; each was tried:")
        for suggestion in found.suggestions[:suggestions]:
            to.print(f"  {_suggestion(suggestion)}")
    elif found.outcome.value == "unschedulable":
        to.print()
        to.print("No small change was found that would help.")


def _suggestion(suggestion: Suggestion) -> str:
    text = f"[green]{escape(suggestion.text)}[/green]"
    says_where = suggestion.about_node or suggestion.text.endswith(f" on {suggestion.nodes[0]}")
    return text if says_where else f"{text} [dim]({escape(_names(suggestion.nodes))})[/dim]"


def _draw_groups(to: Console, refusals: Sequence[Refusal]) -> None:
    """One line per reason, whether or not evicting pods could change it (``-o json`` tells these apart)."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        nodes.setdefault((", ".join(refusal.reasons), refusal.plugin), []).extend(refusal.nodes)
    rows = [
        (str(len(names)), Text(reasons), Text(plugin), Text(_names(names)))
        for (reasons, plugin), names in sorted(nodes.items(), key=lambda entry: -len(entry[1]))
    ]
    print_table(to, ["NODES", "REFUSED BECAUSE", "PLUGIN", "WHICH"], rows)


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES])
    return f"{shown} and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else shown


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count != 1 else ''}"
