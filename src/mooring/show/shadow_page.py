"""The sum of all verdicts as one HTML file, in the style of reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from html import escape as escape_html

from mooring.api.version import __version__
from mooring.ask.shadow.judge import ShadowVerdict
from mooring.ask.shadow.summary import Summary, notes, rows_of
from mooring.show.report_page import document


def page(summary: Summary, facts: Mapping[str, str]) -> str:
    """The whole page; ``facts`` say what was watched."""
    items = "".join(
        f"<div><dt>{escape_html(name)}</dt><dd>{escape_html(text)}</dd></div>" for name, text in facts.items()
    )
    explained = summary.decisions - summary.unexplained
    tiles = {
        "decisions compared": f"{summary.decisions:,}",
        "agree": _share(summary.agreeing, summary.decisions),
        "explained": _share(explained, summary.decisions),
        "differ": f"{summary.decisions - summary.agreeing:,}",
    }
    body = [
        f"<header><h1>Beside the scheduler</h1><dl>{items}</dl></header>",
        "<ul class=tiles>"
        + "".join(
            f"<li><span>{escape_html(name)}</span><b>{escape_html(text)}</b></li>" for name, text in tiles.items()
        )
        + "</ul>",
        "<h2>Decisions</h2>",
        _table(
            ("Decisions", "Number", "Share"), ([escape_html(cell) for cell in row] for row in rows_of(summary)), {1, 2}
        ),
        *(f"<p>{escape_html(note[0].upper() + note[1:])}.</p>" for note in notes(summary)),
        "<h2>Differences</h2>",
        _differences(summary),
        "<h2>Races</h2>",
        _races(summary.raced),
        f"<footer>{_NOTES}<p>Made by mooring {escape_html(__version__)}.</p></footer>",
    ]
    return document("Beside the scheduler", body)


_NOTES = (
    "<p>Each decision of the cluster's scheduler was made again from the state right before its outcome was seen. "
    "Where that did not agree, states shortly before and after were tried: a scheduler decides first and binds "
    "afterwards, and its watch is not ours. Totals are those of the scores here, of their node and of ours.</p>"
)


def _share(number: int, of: int) -> str:
    return f"{number / of:.1%}" if of else "–"


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: frozenset[int] | set[int] = frozenset()
) -> str:
    head = "".join(f"<th{' class=n' if i in numbers else ''}>{escape_html(name)}</th>" for i, name in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{' class=n' if i in numbers else ''}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _differences(summary: Summary) -> str:
    shown = summary.differences
    if not shown:
        return "<p>There are none.</p>"
    heads = ("Pod", "There", "Here", "Totals there, here", "Because", "Cause")
    table = _table(heads, (_difference(each) for each in shown))
    more = summary.decisions - summary.agreeing - len(shown)
    return table + (f"<p>And {more} more.</p>" if more > 0 else "")


def _difference(verdict: ShadowVerdict) -> list[str]:
    happened = verdict.happened
    there, here = escape_html(happened.node), escape_html(verdict.node)
    if not happened.node and not verdict.node:
        there, here = _marked(happened.message, verdict.message)
    elif not happened.node:
        there = escape_html(happened.message)
    elif not verdict.node:
        here = escape_html(verdict.message)
    totals = ", ".join("–" if total is None else str(total) for total in verdict.totals)
    return [
        escape_html(happened.pod.key),
        there,
        here,
        totals,
        escape_html(verdict.because),
        verdict.cause or "not known",
    ]


def _marked(there: str, here: str) -> tuple[str, str]:
    """Two messages with the words marked in which they differ."""
    one, two = there.split(" "), here.split(" ")
    parts: tuple[list[str], list[str]] = ([], [])
    for kind, a, b, c, d in SequenceMatcher(a=one, b=two, autojunk=False).get_opcodes():
        for part, words in zip(parts, (one[a:b], two[c:d]), strict=True):
            text = escape_html(" ".join(words))
            if text:
                part.append(text if kind == "equal" else f"<mark>{text}</mark>")
    return " ".join(parts[0]), " ".join(parts[1])


def _races(raced: Sequence[ShadowVerdict]) -> str:
    if not raced:
        return "<p>Every decision that agrees does so from the state right before its outcome was seen.</p>"
    rows = (
        [
            escape_html(verdict.happened.pod.key),
            escape_html(verdict.happened.node or "refused"),
            verdict.moment.value,
            "<br>".join(escape_html(text) for text in verdict.assumed[:8])
            + (f"<br>and {len(verdict.assumed) - 8} more" if len(verdict.assumed) > 8 else ""),
        ]
        for verdict in raced
    )
    return "<p>What the scheduler did not know yet, or knew already:</p>" + _table(
        ("Pod", "Outcome", "State", "Assumed"), rows
    )
