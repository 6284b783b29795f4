"""How the sum of all verdicts looks on a terminal: while it grows, and in the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mooring.api.wording import count_of
from mooring.shadow.summary import BINDINGS, REFUSALS, Summary
from mooring.shadow.verdict import Agreement, Moment, Verdict
from mooring.text_tables import print_table

NOWHERE = "-"
NAMES = {
    Agreement.SAME: "bound, to the same node",
    Agreement.EQUALLY_GOOD: "bound, to an equally good node",
    Agreement.OTHER_NODE: "bound, to another node",
    Agreement.REFUSED_HERE: "bound, and refused here",
    Agreement.SAME_WORDS: "refused, in the same words",
    Agreement.EQUAL_ROOM: "refused, with room made on an equally good node",
    Agreement.OTHER_WORDS: "refused, in other words",
    Agreement.PLACED_HERE: "refused, and placed here",
}
CAUSES = {
    "sampling": "kube-scheduler looks at a part of the nodes; a sample gives its node",
    "extender": "the scheduler asks an extender, which is not asked here",
    "configuration": "the configurations differ",
    "": "no cause is known",
}


def headline(summary: Summary) -> str:
    """One line."""
    if not summary.decisions:
        return "No decision was seen yet."
    explained = summary.decisions - summary.unexplained
    decisions = count_of(summary.decisions, "decision")
    return (
        f"{decisions} compared: {summary.agreeing} agree ({summary.agreeing / summary.decisions:.1%}), "
        f"{explained} are explained ({explained / summary.decisions:.1%})"
    )


def draw(to: Console, summary: Summary, top: int = 20) -> None:
    """Print the whole sum."""
    colour = "green" if not summary.differing else "red"
    to.print(f"[{colour}]{escape(headline(summary))}[/{colour}]")
    if summary.decisions:
        to.print()
        print_table(to, ["DECISIONS", "NUMBER", "SHARE"], list(rows_of(summary)))
    shown = summary.differences[:top]
    if shown:
        to.print()
        print_table(to, ["POD", "THERE", "HERE", "TOTALS", "BECAUSE", "CAUSE"], [_row(each) for each in shown])
        more = summary.decisions - summary.agreeing - len(shown)
        if more > 0:
            to.print(f"… and {more} more (--top N shows N)")
    for note in notes(summary):
        to.print(f"Note: {escape(note)}")


def rows_of(summary: Summary) -> Iterator[tuple[str, str, str]]:
    """What was seen, with its share."""
    for agreement in (*BINDINGS, *REFUSALS):
        number = summary.agreements[agreement]
        if number or agreement in (Agreement.SAME, Agreement.SAME_WORDS):
            yield NAMES[agreement], str(number), f"{number / max(1, summary.decisions):.1%}"


def notes(summary: Summary) -> list[str]:
    """What a reader should know of how the figures came about."""
    found = []
    moved = summary.agreeing - summary.moments[Moment.EXACT]
    if moved:
        parts = ", ".join(f"{summary.moments[m]} {m.value}" for m in Moment if m is not Moment.EXACT)
        found.append(
            f"of those that agree, {moved} do so only from another state than the one right before the outcome was "
            f"seen ({parts}): the scheduler knew more or less then"
        )
    for cause, number in sorted(summary.causes.items()):
        named = f"{cause}: " if cause else ""
        found.append(f"{count_of(number, 'difference')}: {named}{CAUSES[cause]}")
    if summary.unheard_s >= 1:
        found.append(f"the cluster was out of reach for {summary.unheard_s:.0f}s; what was decided then was not seen")
    if summary.left_out:
        parts = ", ".join(f"{reason} ({number})" for reason, number in sorted(summary.left_out.items()))
        found.append(f"not compared, because the pod {parts}")
    if summary.passed_over:
        parts = ", ".join(f"{name} ({number})" for name, number in sorted(summary.passed_over.items()))
        found.append(f"decisions of other schedulers were not compared: {parts}; --scheduler-name NAME compares them")
    return found


def line(verdict: Verdict) -> str:
    """A difference in one line, for logs."""
    there, here, totals, because, cause = (str(cell) for cell in _row(verdict)[1:])
    points = f" ({totals})" if totals != NOWHERE else ""
    why = f": {because}" if because else ""
    return f"{verdict.happened.pod.key}: {there} there, {here} here{points}{why}" + (f" [{cause}]" if cause else "")


def live(summary: Summary, latest: Sequence[Verdict]) -> RenderableType:
    """What is shown while the shadow watches."""
    counts = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    counts.add_column()
    counts.add_column(justify="right")
    counts.add_column(justify="right")
    for name, number, share in rows_of(summary):
        counts.add_row(name, number, share)
    parts: list[RenderableType] = [Text(headline(summary), style="bold"), counts]
    parts += [Text(line(verdict), overflow="ellipsis", no_wrap=True, style="yellow") for verdict in latest]
    return Group(*parts, Text("Ctrl-C ends it.", style="dim"))


def _row(verdict: Verdict) -> tuple[Text, ...]:
    happened = verdict.happened
    there = happened.node or _refused(happened.message, happened.nominated)
    here = verdict.node or _refused(verdict.message, verdict.nominated)
    totals = NOWHERE
    if verdict.totals[0] is not None or verdict.totals[1] is not None:
        totals = " and ".join(NOWHERE if total is None else str(total) for total in verdict.totals)
    cells = (happened.pod.key, there, here, totals, verdict.because, verdict.cause)
    return tuple(Text(cell) for cell in cells)


def _refused(message: str, nominated: str) -> str:
    return f"refused: {message}" + (f" (nominated to {nominated})" if nominated else "")
