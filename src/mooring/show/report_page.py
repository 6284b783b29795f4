"""A report as one HTML file: figures, plots and tables. No script, nothing from the network, dark and light."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from html import escape

from mooring.ask.shadow.judge import ShadowVerdict
from mooring.ask.shadow.summary import Summary, notes, rows_of
from mooring.record.measures import Measures, zone_name
from mooring.show.figures import Line, ReportedRun, count, duration, share, side_by_side
from mooring.show.plots import Series, histogram, lines, spans_of
from mooring.show.shell import document, headline, made_by

MOST_LINES = 8
MOST_ZONE_PLOTS = 4
Plot = Callable[[Measures], str]


def page(runs: Sequence[ReportedRun]) -> str:
    """Return the whole page, of one run or of several side by side."""
    title = " and ".join(run.name for run in runs)
    body = [
        headline([_told(run, is_alone=len(runs) == 1) for run in runs]),
        _facts(runs),
        _tiles(runs),
        "<h2>Over time</h2>",
        *_plots(runs),
        "<h2>Who still waits</h2>",
        *(f"<h3>{escape(run.name)}</h3>" * (len(runs) > 1) + _still_pending(run.measures) for run in runs),
        "<h2>All figures</h2>",
        _figures(runs),
        f"<footer>{_NOTES}{made_by()}</footer>",
    ]
    return document(title, body, kind="report" if len(runs) == 1 else "comparison")


def _told(run: ReportedRun, *, is_alone: bool) -> tuple[str, str]:
    """What came out, in one sentence, and how long pods waited in another."""
    row, pending = run.measures.row, run.measures.pending
    placed, waiting = int(row.get("placed", 0)), sum(each.pods for each in pending)
    waited = ""
    if waiting:
        said = f"{count(waiting)} of {count(placed + waiting)} pods still {'waits' if waiting == 1 else 'wait'}."
        most = max(pending, key=lambda each: each.pods)
        said += f" {'It was' if waiting == 1 else 'Most were'} rejected by {most.cause}." if most.cause else ""
    elif placed:
        said = "The only pod has a node." if placed == 1 else f"All {count(placed)} pods have a node."
    else:
        said = "No pod had to be placed."
    if placed > 1 and row.get("waitP50"):
        waited = f"Half of them waited for at most {duration(row['waitP50'])}."
    return said if is_alone else f"{run.name}: {said}", waited


_NOTES = (
    "<p><b>Allocated</b>: what pods on nodes ask for, of what the nodes have. <b>Waiting</b>: from a pod's coming to "
    "its binding. <b>Free but unusable</b>: what is free on nodes on which a typical pod does not fit, of what all "
    "nodes have, on average over the typical pods: the most frequent requests that together stand for 95 % of all "
    "pods. Only requests count, not taints or affinity. <b>Cascade</b>: a pod that was evicted comes "
    "again and evicts others.</p>"
)


def _facts(runs: Sequence[ReportedRun]) -> str:
    names = dict.fromkeys(name for run in runs for name in run.facts)
    if len(runs) == 1:
        items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(runs[0].facts[name])}</dd></div>" for name in names)
        return f"<dl>{items}</dl>"
    head = "".join(f"<th scope=col>{escape(run.name)}</th>" for run in runs)
    rows = "".join(
        f"<tr><th scope=row>{escape(name)}</th>"
        + "".join(f"<td>{escape(run.facts.get(name, ''))}</td>" for run in runs)
        + "</tr>"
        for name in names
    )
    return f"<div class=scroll tabindex=0><table class=facts><tr><td></td>{head}</tr>{rows}</table></div>"


def _tiles(runs: Sequence[ReportedRun]) -> str:
    """Return the most important figures."""
    tiles: list[tuple[str, list[str]]] = []

    def tile(name: str, text: Callable[[Measures], str]) -> None:
        texts = [text(run.measures) for run in runs]
        if any(texts):
            tiles.append((name, texts))

    def of(key: str, form: Callable[[float], str]) -> Callable[[Measures], str]:
        return lambda measures: form(measures.row[key]) if key in measures.row else ""

    tile("pods placed", of("placed", count))
    tile("pending at the end", of("pending", count))
    tile("waited, median", of("waitP50", duration))
    tile("waited, p99", of("waitP99", duration))
    for name in [each for each in runs[0].measures.resources if each != "pods"][:3]:
        tile(f"{name} allocated", of(f"allocated.{name}", share))
    tile("preemptions", of("preemptions", count))
    tile("cost", of("cost", lambda value: f"{value:,.2f}"))
    items = "".join(
        f"<li><span>{escape(name)}</span>" + "".join(f"<b>{escape(text) or '–'}</b>" for text in texts) + "</li>"
        for name, texts in tiles
    )
    return f"<ul class=tiles>{items}</ul>"


# ---- plots -----------------------------------------------------------------------------------------------------------


def _plots(runs: Sequence[ReportedRun]) -> list[str]:
    """Return a row for each kind of plot: side by side for several runs, with comparable axes."""
    made: list[Plot] = [
        _over_time("Allocated", runs, _by_resource("allocated"), share, least=1.0),
        _pending(runs),
        _waits(runs),
        _over_time("Free but unusable for typical pods", runs, _by_resource("fragmentation"), share, least=1.0),
        _over_time("Attempts per minute", runs, _attempts),
    ]
    resources = list(dict.fromkeys(name for run in runs for name in run.measures.resources if name != "pods"))
    for name in resources[:MOST_ZONE_PLOTS]:
        if any(len(run.measures.zones) > 1 for run in runs):
            made.append(_zones(name, runs))
    if any("cost" in run.measures.columns for run in runs):
        made.append(_over_time("Cost so far", runs, _cost))
    made.append(_over_time("Nodes", runs, _nodes))
    if len(runs) == 1:
        return [f"<div class=plots>{''.join(plot(runs[0].measures) for plot in made)}</div>"]
    heads = "".join(f"<h3>{escape(run.name)}</h3>" for run in runs)
    rows = "".join(plot(run.measures) for plot in made for run in runs)
    columns = f'style="--runs:{len(runs)}"'
    return [f'<div class="plots side" {columns}>{heads}{rows}</div>']


def _longest(runs: Sequence[ReportedRun]) -> float:
    """Return the duration of the longest run, which all plots share."""
    return max(run.measures.seconds for run in runs)


def _common(runs: Sequence[ReportedRun], values: Callable[[Measures], Sequence[Sequence[float]]]) -> float:
    return max((max(each, default=0.0) for run in runs for each in values(run.measures)), default=0.0)


def _over_time(
    title: str | Callable[[Measures], str],
    runs: Sequence[ReportedRun],
    columns: Callable[[Measures], list[Series]],
    text: Callable[[float], str] = count,
    *,
    least: float = 0.0,
) -> Plot:
    """Draw lines with the same axes for all runs: as long as the longest, and at least as high as ``least``."""
    highest = max(least, _common(runs, lambda measures: [each.values for each in columns(measures)]))

    def plot(measures: Measures) -> str:
        named = title if isinstance(title, str) else title(measures)
        return lines(named, _seconds(measures), columns(measures), text, until_s=_longest(runs), highest=highest)

    return plot


def _by_resource(column: str) -> Callable[[Measures], list[Series]]:
    def columns(measures: Measures) -> list[Series]:
        named = [name for name in measures.resources if name != "pods"][:MOST_LINES]
        return [Series(name, measures.columns[f"{column}.{name}"]) for name in named]

    return columns


def _zones(resource: str, runs: Sequence[ReportedRun]) -> Plot:
    def columns(measures: Measures) -> list[Series]:
        found = [(zone, measures.columns.get(f"allocated.{resource}.{zone_name(zone)}")) for zone in measures.zones]
        return [Series(zone_name(zone), values) for zone, values in found if values is not None]

    def title(measures: Measures) -> str:
        more = len(columns(measures)) - MOST_LINES
        return f"{resource} allocated by zone" + (f" ({more} more zones are not shown)" if more > 0 else "")

    return _over_time(title, runs, lambda measures: columns(measures)[:MOST_LINES], share, least=1.0)


def _pending(runs: Sequence[ReportedRun]) -> Plot:
    """Draw means since the previous sample, and finally the pending pods at the end, including late arrivals."""

    def of(measures: Measures, cause: str) -> list[float]:
        at_end = sum(each.pods for each in measures.pending if each.cause == cause)
        return [*measures.columns[f"pending.{cause}"], float(at_end)]

    def columns(measures: Measures) -> list[Series]:
        shown = measures.causes[: MOST_LINES - 1] if len(measures.causes) > MOST_LINES else measures.causes
        series = [Series(cause, of(measures, cause)) for cause in shown]
        rest = [of(measures, cause) for cause in measures.causes[len(shown) :]]
        if rest:
            series.append(Series(f"{len(rest)} other causes", [sum(values) for values in zip(*rest, strict=True)]))
        return series

    highest = _common(runs, lambda measures: [[*measures.columns["pending"], measures.row["pending"]]])
    return lambda measures: lines(
        "Pending pods by cause",
        [*_seconds(measures), measures.seconds],
        columns(measures),
        count,
        until_s=_longest(runs),
        highest=highest,
        stacked=True,
    )


def _waits(runs: Sequence[ReportedRun]) -> Plot:
    most = max(number for run in runs for _, _, number in spans_of(run.measures.waits))
    return lambda measures: histogram("Pods by how long they waited", measures.waits, highest=most)


def _attempts(measures: Measures) -> list[Series]:
    named = {"attempts": "attempts", "placed": "placed", "victims": "evicted by preemption"}
    found = [Series(text, _rates(measures, name)) for name, text in named.items()]
    return [each for each in found if each.name != "evicted by preemption" or any(each.values)]


def _nodes(measures: Measures) -> list[Series]:
    return [Series("nodes", measures.columns["nodes"]), Series("with pods", measures.columns["nodesInUse"])]


def _cost(measures: Measures) -> list[Series]:
    return [Series("cost", measures.columns.get("cost") or [0.0] * len(_seconds(measures)))]


def _seconds(measures: Measures) -> list[float]:
    return measures.columns["seconds"]


def _rates(measures: Measures, name: str) -> list[float]:
    """Return the growth of a count between samples, per minute."""
    counts, seconds = measures.columns[name], _seconds(measures)
    rates = [0.0]
    for i in range(1, len(counts)):
        length_s = seconds[i] - seconds[i - 1]
        rates.append((counts[i] - counts[i - 1]) / length_s * 60 if length_s > 0 else 0.0)
    return rates


# ---- tables ----------------------------------------------------------------------------------------------------------


def _still_pending(measures: Measures) -> str:
    if not measures.pending:
        return "<p>No pod waits at the end.</p>"
    rows = "".join(
        f"<tr><th scope=row>{escape(each.cause)}</th><td class=n>{count(each.pods)}</td>"
        f"<td class=n>{escape(duration(each.longest))}</td><td>{escape(each.example)}</td>"
        f"<td class=message>{escape(each.message)}</td></tr>"
        for each in measures.pending
    )
    head = "<tr><th>Cause</th><th class=n>Pods</th><th class=n>Longest</th><th>Such as</th><th>Message</th></tr>"
    return f"<div class=scroll tabindex=0><table class=waits><thead>{head}</thead><tbody>{rows}</tbody></table></div>"


def _figures(runs: Sequence[ReportedRun]) -> str:
    """Return a small table for each group of figures."""
    groups: dict[str, list[Line]] = {}
    for line in side_by_side([run.measures for run in runs]):
        groups.setdefault(line.group, []).append(line)
    names = "".join(f"<th class=n>{escape(run.name)}</th>" for run in runs) if len(runs) > 1 else "<td></td>"
    tables: list[str] = []
    for group, found in groups.items():
        rows = "".join(_figure_row(line, is_compared=len(runs) > 1) for line in found)
        head = f"<tr><th>{escape(group)}</th>{names}</tr>"
        tables.append(
            f'<div class="card scroll" tabindex=0><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
        )
    return f'<div class="figures{" side" if len(runs) > 1 else ""}">{"".join(tables)}</div>'


def _figure_row(line: Line, *, is_compared: bool) -> str:
    cells = "".join(f"<td class=n>{escape(text) or '–'}</td>" for text in line.texts)
    differs = " class=differs" if line.differs and is_compared else ""
    return f"<tr{differs}><th scope=row>{escape(line.name)}</th>{cells}</tr>"


# --------------------------------------------------------------------------------------------------------------------
# The summary of all verdicts as one HTML file, in the style of reports.


def shadow_page(summary: Summary, facts: Mapping[str, str]) -> str:
    """Return the whole page; ``facts`` describe what was watched."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in facts.items())
    explained = summary.decisions - summary.unexplained
    tiles = {
        "decisions compared": f"{summary.decisions:,}",
        "agree": _share_of(summary.agreeing, summary.decisions),
        "explained": _share_of(explained, summary.decisions),
        "differ": f"{summary.decisions - summary.agreeing:,}",
    }
    body = [
        headline([_agreement(summary)]),
        f"<dl>{items}</dl>",
        "<ul class=tiles>"
        + "".join(f"<li><span>{escape(name)}</span><b>{escape(text)}</b></li>" for name, text in tiles.items())
        + "</ul>",
        "<h2>Decisions</h2>",
        _table(("Decisions", "Number", "Share"), ([escape(cell) for cell in row] for row in rows_of(summary)), {1, 2}),
        *(f"<p>{escape(note[0].upper() + note[1:])}.</p>" for note in notes(summary)),
        *(_compared(summary) if summary.decisions else (_NOTHING_COMPARED,)),
        f"<footer>{_SHADOW_NOTES}{made_by()}</footer>",
    ]
    return document("Beside the scheduler", body, kind="shadow")


def _agreement(summary: Summary) -> tuple[str, str]:
    """What came out, in one sentence."""
    differ = summary.decisions - summary.agreeing
    if not summary.decisions:
        return "No decision was compared yet.", ""
    if not differ:
        return f"All {count(summary.decisions)} decisions agree with the cluster's scheduler.", ""
    said = f"{count(differ)} of {count(summary.decisions)} decisions {'differs' if differ == 1 else 'differ'}."
    return said, "Each has a known cause." if not summary.unexplained else f"{count(summary.unexplained)} unexplained."


def _compared(summary: Summary) -> tuple[str, ...]:
    return "<h2>Differences</h2>", _differences(summary), "<h2>Races</h2>", _races(summary.raced)


_NOTHING_COMPARED = (
    "<p>No decision was compared, so nothing can be said about agreement. A scheduler decides when a pod is created or "
    "the cluster changes for a pending one: watch for longer, or create a pod.</p>"
)
_SHADOW_NOTES = (
    "<p>Each decision of the cluster's scheduler was made again from the state right before its outcome was seen. "
    "Where that did not agree, states shortly before and after were tried: a scheduler decides first and binds "
    "afterwards, and its watch is not ours. Totals are those of the scores here, of their node and of ours.</p>"
)


def _share_of(number: int, of: int) -> str:
    return f"{number / of:.1%}" if of else "–"


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: frozenset[int] | set[int] = frozenset()
) -> str:
    head = "".join(f"<th{' class=n' if i in numbers else ''}>{escape(name)}</th>" for i, name in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{' class=n' if i in numbers else ''}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<div class=scroll tabindex=0><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _differences(summary: Summary) -> str:
    shown = summary.differences
    if not shown:
        return "<p>Every decision is the same here.</p>"
    heads = ("Pod", "There", "Here", "Totals there, here", "Because", "Cause")
    table = _table(heads, (_difference(each) for each in shown))
    more = summary.decisions - summary.agreeing - len(shown)
    return table + (f"<p>And {more} more.</p>" if more > 0 else "")


def _difference(verdict: ShadowVerdict) -> list[str]:
    happened = verdict.happened
    there, here = escape(happened.node), escape(verdict.node)
    if not happened.node and not verdict.node:
        there, here = _marked(happened.message, verdict.message)
    elif not happened.node:
        there = escape(happened.message)
    elif not verdict.node:
        here = escape(verdict.message)
    totals = ", ".join("–" if total is None else str(total) for total in verdict.totals)
    return [
        escape(happened.pod.key),
        there,
        here,
        totals,
        escape(verdict.because),
        verdict.cause or "not known",
    ]


def _marked(there: str, here: str) -> tuple[str, str]:
    """Mark the words in which two messages differ."""
    one, two = there.split(" "), here.split(" ")
    parts: tuple[list[str], list[str]] = ([], [])
    for kind, a, b, c, d in SequenceMatcher(a=one, b=two, autojunk=False).get_opcodes():
        for part, words in zip(parts, (one[a:b], two[c:d]), strict=True):
            text = escape(" ".join(words))
            if text:
                part.append(text if kind == "equal" else f"<mark>{text}</mark>")
    return " ".join(parts[0]), " ".join(parts[1])


def _races(raced: Sequence[ShadowVerdict]) -> str:
    if not raced:
        return "<p>Every decision that agrees does so from the state right before its outcome was seen.</p>"
    rows = (
        [
            escape(verdict.happened.pod.key),
            escape(verdict.happened.node or "refused"),
            verdict.moment.value,
            "<br>".join(escape(text) for text in verdict.assumed[:8])
            + (f"<br>and {len(verdict.assumed) - 8} more" if len(verdict.assumed) > 8 else ""),
        ]
        for verdict in raced
    )
    return "<p>What the scheduler did not know yet, or knew already:</p>" + _table(
        ("Pod", "Outcome", "State", "Assumed"), rows
    )
