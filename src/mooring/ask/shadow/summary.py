"""The verdicts in numbers. Memory is bounded: counts, and the first differences of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mooring.api.tables import print_more, print_table
from mooring.api.text import count_of
from mooring.ask.shadow.judge import AGREE, SAMPLING, Agreement, DecidedAt, ShadowVerdict

MAX_KEPT = 100  # differences of each kind, and agreements that needed the window
BINDINGS = (Agreement.SAME, Agreement.EQUALLY_GOOD, Agreement.OTHER_NODE, Agreement.REFUSED_HERE)
REFUSALS = (Agreement.SAME_WORDS, Agreement.EQUAL_ROOM, Agreement.OTHER_WORDS, Agreement.PLACED_HERE)


class Summary:
    """Counts verdicts, and decisions that could not be compared."""

    def __init__(self) -> None:
        self.agreements: Counter[Agreement] = Counter()
        self.moments: Counter[DecidedAt] = Counter()  # of agreements
        self.causes: Counter[str] = Counter()  # of differences: sampling, extender, configuration, or none known
        self.plugins: Counter[str] = Counter()  # that tipped them
        self.left_out: Counter[str] = Counter()  # reason -> decisions that were not compared
        self.passed_over: Counter[str] = Counter()  # scheduler name -> decisions
        self.kept: dict[Agreement, list[ShadowVerdict]] = {}  # differences
        self.raced: list[ShadowVerdict] = []  # agreements that needed a search
        self.unheard_s = 0.0  # how long the cluster was out of reach

    def count(self, verdict: ShadowVerdict) -> None:
        self.agreements[verdict.agreement] += 1
        if verdict.agrees:
            self.moments[verdict.moment] += 1
            kept = self.raced if verdict.moment is not DecidedAt.EXACT else None
        else:
            self.causes[verdict.cause] += 1
            self.plugins[verdict.plugin] += 1
            kept = self.kept.setdefault(verdict.agreement, [])
        if kept is not None and len(kept) < MAX_KEPT:
            kept.append(verdict)

    def leave_out(self, reason: str, decisions: int = 1) -> None:
        self.left_out[reason] += decisions

    def pass_over(self, scheduler_name: str) -> None:
        """Count a decision of a scheduler that is not compared."""
        if scheduler_name in self.passed_over or len(self.passed_over) < MAX_KEPT:
            self.passed_over[scheduler_name] += 1

    # ---- reading -------------------------------------------------------------------------------------------------

    @property
    def decisions(self) -> int:
        """Number of compared decisions."""
        return self.agreements.total()

    @property
    def agreeing(self) -> int:
        return sum(self.agreements[agreement] for agreement in AGREE)

    @property
    def unexplained(self) -> int:
        """Differences without a known cause."""
        return self.causes[""]

    @property
    def differing(self) -> int:
        """Differences of the scheduler itself, not of its sampling."""
        return self.causes.total() - self.causes[SAMPLING]

    @property
    def differences(self) -> list[ShadowVerdict]:
        """Stored differences, those without a known cause first."""
        found = [verdict for kept in self.kept.values() for verdict in kept]
        return sorted(found, key=lambda verdict: (verdict.is_explained, verdict.happened.time))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        differing = self.decisions - self.agreeing
        return {
            "decisions": self.decisions,
            "agreeing": self.agreeing,
            "explained": self.decisions - self.unexplained,
            "bindings": {agreement.value: self.agreements[agreement] for agreement in BINDINGS},
            "refusals": {agreement.value: self.agreements[agreement] for agreement in REFUSALS},
            "moments": {moment.value: self.moments[moment] for moment in DecidedAt},
            "causes": {cause or "unknown": count for cause, count in sorted(self.causes.items())},
            "tipped": {plugin: count for plugin, count in sorted(self.plugins.items()) if plugin},
            "unheardSeconds": round(self.unheard_s, 3),
            "notCompared": dict(sorted(self.left_out.items())),
            "otherSchedulers": dict(sorted(self.passed_over.items())),
            "differences": [verdict.to_dict() for verdict in self.differences],
            "differencesNotShown": differing - sum(map(len, self.kept.values())),
            "races": [verdict.to_dict() for verdict in self.raced],
        }


# --------------------------------------------------------------------------------------------------------------------
# Rendering of the summary on a terminal: while it grows, and in the end.

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
    """Return one line."""
    if not summary.decisions:
        return "No decision was seen yet."
    explained = summary.decisions - summary.unexplained
    decisions = count_of(summary.decisions, "decision")
    return (
        f"{decisions} compared: {summary.agreeing} agree ({summary.agreeing / summary.decisions:.1%}), "
        f"{explained} are explained ({explained / summary.decisions:.1%})"
    )


def draw(to: Console, summary: Summary, top: int = 20) -> None:
    """Print the whole summary."""
    colour = "green" if not summary.differing else "red"
    to.print(f"[{colour}]{escape(headline(summary))}[/{colour}]")
    if summary.decisions:
        to.print()
        print_table(to, ["DECISIONS", "NUMBER", "SHARE"], list(rows_of(summary)))
    shown = summary.differences[:top]
    if shown:
        to.print()
        print_table(to, ["POD", "THERE", "HERE", "TOTALS", "BECAUSE", "CAUSE"], [_row(each) for each in shown])
        print_more(to, summary.decisions - summary.agreeing, len(shown))
    for note in notes(summary):
        to.print(f"Note: {escape(note)}")


def rows_of(summary: Summary) -> Iterator[tuple[str, str, str]]:
    """Yield the outcomes with their shares."""
    for agreement in (*BINDINGS, *REFUSALS):
        number = summary.agreements[agreement]
        if number or agreement in (Agreement.SAME, Agreement.SAME_WORDS):
            yield NAMES[agreement], str(number), f"{number / max(1, summary.decisions):.1%}"


def notes(summary: Summary) -> list[str]:
    """Return notes about how the numbers were obtained."""
    found = []
    moved = summary.agreeing - summary.moments[DecidedAt.EXACT]
    if moved:
        parts = ", ".join(f"{summary.moments[m]} {m.value}" for m in DecidedAt if m is not DecidedAt.EXACT)
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


def line(verdict: ShadowVerdict) -> str:
    """Return a difference in one line, for logs."""
    there, here, totals, because, cause = (str(cell) for cell in _row(verdict)[1:])
    points = f" ({totals})" if totals != NOWHERE else ""
    why = f": {because}" if because else ""
    return f"{verdict.happened.pod.key}: {there} there, {here} here{points}{why}" + (f" [{cause}]" if cause else "")


def live(summary: Summary, latest: Sequence[ShadowVerdict]) -> RenderableType:
    """Return what is shown while the shadow watches."""
    counts = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    counts.add_column()
    counts.add_column(justify="right")
    counts.add_column(justify="right")
    for name, number, share in rows_of(summary):
        counts.add_row(name, number, share)
    parts: list[RenderableType] = [Text(headline(summary), style="bold"), counts]
    parts += [Text(line(verdict), overflow="ellipsis", no_wrap=True, style="yellow") for verdict in latest]
    return Group(*parts, Text("Ctrl-C ends it.", style="dim"))


def _row(verdict: ShadowVerdict) -> tuple[Text, ...]:
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
