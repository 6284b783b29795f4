"""How a difference looks on a terminal, and as text."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.wording import count_of
from mooring.compare.diff import Difference
from mooring.compare.sums import Sum
from mooring.explanation.decision import Decision
from mooring.explanation.rendering import draw_scores
from mooring.text_tables import print_table

_UNBOUNDED = 1_000_000  # text is not wrapped
NOWHERE = "-"
_SHOWN = ("wait", "pendingMean", "attempts", "preemptions", "allocated.")  # of the measures of a run


def draw(to: Console, found: Difference, names: Sequence[str] = ("before", "after"), top: int = 20) -> None:
    """Print who moved and why, the first difference with both score tables, and the sums."""
    asked_about = {
        "pending": count_of(found.pods, "pending pod"),
        "all": f"{count_of(found.pods, 'pod')} placed anew",
        "run": f"{count_of(found.pods, 'pod')} of two runs",
        "record": f"{count_of(found.pods, 'recorded attempt')}, each in its moment",
    }
    asked = f"{asked_about[found.asked]}, under {names[0]} and under {names[1]}"
    if not found.moved:
        to.print(f"[green]No pod moves[/green]: {escape(asked)}.")
    else:
        to.print(f"[red]{count_of(len(found.moved), 'pod')} moved[/red]: {escape(asked)}.")
        to.print()
        rows = [
            (Text(move.pod), Text(move.before or NOWHERE), Text(move.after or NOWHERE), Text(move.cause.text))
            for move in found.moved[:top]
        ]
        print_table(to, ["POD", "FROM", "TO", "BECAUSE"], rows)
        if len(found.moved) > top:
            to.print(f"… and {len(found.moved) - top} more (--top N shows N)")
    _draw_first(to, found, names)
    _draw_notes(to, found)
    to.print()
    _draw_sums(to, found.sums, names, "attempts" if found.asked == "record" else "pods")


def text(found: Difference) -> str:
    """The same without colours."""
    page = StringIO()
    draw(Console(file=page, width=_UNBOUNDED, highlight=False, soft_wrap=True, emoji=False), found)
    return page.getvalue().rstrip()


def _draw_first(to: Console, found: Difference, names: Sequence[str]) -> None:
    if found.first is None:
        return
    to.print()
    to.print(f"[bold]The first difference[/bold] is {escape(found.first[0].pod)}:")
    for decision, name in zip(found.first, names, strict=True):
        to.print()
        to.print(f"{escape(name)}: {escape(_outcome(decision))}")
        if decision.scores:
            draw_scores(to, decision.scores[:5])


def _outcome(decision: Decision) -> str:
    if decision.node:
        return f"{decision.node}, one of {count_of(decision.feasible_nodes, 'node')} that can take it"
    victims = ", ".join(victim.pod for victim in decision.victims)
    return f"{decision.nominated_node}, after evicting {victims}" if victims else decision.message


def _draw_notes(to: Console, found: Difference) -> None:
    notes = []
    if found.equally_good:
        few = ", ".join(list(found.equally_good)[:3])
        notes.append(
            f"{count_of(len(found.equally_good), 'pod')} could go to another node that is equally good ({few}); "
            "that is no difference"
        )
    if found.messages:
        pod, (old, new) = next(iter(found.messages.items()))
        many = count_of(len(found.messages), "pod")
        notes.append(f"{many} still waiting, with other words: {pod} says {new!r} instead of {old!r}")
    if found.left_out:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(found.left_out.items()))
        notes.append(f"pods of schedulers that have no profile on both sides stay where they are: {names}")
    if notes:
        to.print()
    for note in notes:
        to.print(f"Note: {escape(note)}")


def _draw_sums(to: Console, sums: tuple[Sum, Sum], names: Sequence[str], what: str) -> None:
    rows: list[tuple[str, str, str]] = [
        (f"{what} placed", str(sums[0].placed), str(sums[1].placed)),
        (f"{what} waiting", str(sums[0].waiting), str(sums[1].waiting)),
    ]
    if sums[0].use:
        rows.append(("pods evicted", str(sums[0].evicted), str(sums[1].evicted)))
        rows.append(("nodes in use", str(sums[0].nodes_in_use), str(sums[1].nodes_in_use)))
    for title, tables in (("use of {}", [s.use for s in sums]), ("uneven use of {}", [s.spread for s in sums])):
        for name in dict.fromkeys([*tables[0], *tables[1]]):
            cells = [f"{table[name]:.1%}" if name in table else NOWHERE for table in tables]
            rows.append((title.format(name), cells[0], cells[1]))
    for name in dict.fromkeys([*sums[0].measures, *sums[1].measures]):
        if name.startswith(_SHOWN) and "." not in name.removeprefix("allocated."):
            cells = [f"{each.measures[name]:.4g}" if name in each.measures else NOWHERE for each in sums]
            rows.append((name, cells[0], cells[1]))
    print_table(to, ["SUM", *names], rows)
