"""A report as one HTML file: figures, plots and tables. No script, nothing from the network, dark and light."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from mooring.measures.results import Measures, zone_name
from mooring.report.figures import Line, side_by_side
from mooring.report.numbers import count, duration, share
from mooring.report.plots import Series, histogram, lines, spans_of
from mooring.report.run import Run
from mooring.report.style import STYLE
from mooring.version import __version__

MOST_LINES = 8
MOST_ZONE_PLOTS = 4
Plot = Callable[[Measures], str]


def document(title: str, body: Sequence[str]) -> str:
    """A whole page in the style of reports. The parts of the body are HTML already."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def page(runs: Sequence[Run]) -> str:
    """The whole page, of one run or of several side by side."""
    title = " and ".join(run.name for run in runs)
    body = [
        f"<header><h1>{escape(title)}</h1>{_facts(runs)}</header>",
        _tiles(runs),
        "<h2>Over time</h2>",
        *_plots(runs),
        "<h2>Who still waits</h2>",
        *(_titled(runs, run, _still_pending(run.measures)) for run in runs),
        "<h2>All figures</h2>",
        _figures(runs),
        f"<footer>{_NOTES}<p>Made by mooring {escape(__version__)}.</p></footer>",
    ]
    return document(title, body)


_NOTES = (
    "<p><b>Allocated</b>: what pods on nodes ask for, of what the nodes have. <b>Waiting</b>: from a pod's coming to "
    "its binding. <b>Free but unusable</b>: what is free on nodes on which a typical pod does not fit, of what all "
    "nodes have, on average over the typical pods: the most frequent requests that together stand for 95 % of all "
    "pods. Only requests count, not taints or affinity. <b>Cascade</b>: a pod that was evicted comes "
    "again and evicts others.</p>"
)


def _facts(runs: Sequence[Run]) -> str:
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
    return f"<div class=scroll><table class=facts><tr><td></td>{head}</tr>{rows}</table></div>"


def _tiles(runs: Sequence[Run]) -> str:
    """The few figures that people ask for first."""
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


def _plots(runs: Sequence[Run]) -> list[str]:
    """A row for each kind of plot: side by side for several runs, with axes that can be compared."""
    made: list[Plot] = [_allocation(runs), _pending(runs), _waits(runs), _fragmentation(runs), _attempts(runs)]
    resources = list(dict.fromkeys(name for run in runs for name in run.measures.resources if name != "pods"))
    for name in resources[:MOST_ZONE_PLOTS]:
        if any(len(run.measures.zones) > 1 for run in runs):
            made.append(_zones(name, runs))
    if any("cost" in run.measures.columns for run in runs):
        made.append(_column("Cost so far", runs, "cost"))
    made.append(_nodes(runs))
    if len(runs) == 1:
        return [f"<div class=plots>{''.join(plot(runs[0].measures) for plot in made)}</div>"]
    heads = "".join(f"<h3>{escape(run.name)}</h3>" for run in runs)
    rows = "".join(plot(run.measures) for plot in made for run in runs)
    columns = f'style="--runs:{len(runs)}"'
    return [f'<div class="plots side" {columns}>{heads}{rows}</div>']


def _longest(runs: Sequence[Run]) -> float:
    """How long the longest of the runs is: all their plots end there."""
    return max(run.measures.seconds for run in runs)


def _common(runs: Sequence[Run], values: Callable[[Measures], Sequence[Sequence[float]]]) -> float:
    return max((max(each, default=0.0) for run in runs for each in values(run.measures)), default=0.0)


def _allocation(runs: Sequence[Run]) -> Plot:
    def columns(measures: Measures) -> list[Series]:
        named = [name for name in measures.resources if name != "pods"][:MOST_LINES]
        return [Series(name, measures.columns[f"allocated.{name}"]) for name in named]

    highest = max(1.0, _common(runs, lambda measures: [each.values for each in columns(measures)]))
    return lambda measures: lines(
        "Allocated", _seconds(measures), columns(measures), share, until_s=_longest(runs), highest=highest
    )


def _zones(resource: str, runs: Sequence[Run]) -> Plot:
    def all_columns(measures: Measures) -> list[Series]:
        found = [(zone, measures.columns.get(f"allocated.{resource}.{zone_name(zone)}")) for zone in measures.zones]
        return [Series(zone_name(zone), values) for zone, values in found if values is not None]

    def columns(measures: Measures) -> list[Series]:
        return all_columns(measures)[:MOST_LINES]

    highest = max(1.0, _common(runs, lambda measures: [each.values for each in columns(measures)]))
    title = f"{resource} allocated by zone"

    def plot(measures: Measures) -> str:
        more = len(all_columns(measures)) - MOST_LINES
        whole = f"{title} ({more} more zones are not shown)" if more > 0 else title
        return lines(whole, _seconds(measures), columns(measures), share, until_s=_longest(runs), highest=highest)

    return plot


def _pending(runs: Sequence[Run]) -> Plot:
    """Means since the sample before, and last of all who waits at the end: a pod may have come in the last instant."""

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


def _waits(runs: Sequence[Run]) -> Plot:
    most = max(number for run in runs for _, _, number in spans_of(run.measures.waits))
    return lambda measures: histogram("Pods by how long they waited", measures.waits, highest=most)


def _fragmentation(runs: Sequence[Run]) -> Plot:
    def columns(measures: Measures) -> list[Series]:
        named = [name for name in measures.resources if name != "pods"][:MOST_LINES]
        return [Series(name, measures.columns[f"fragmentation.{name}"]) for name in named]

    title = "Free but unusable for typical pods"
    return lambda measures: lines(
        title, _seconds(measures), columns(measures), share, until_s=_longest(runs), highest=1.0
    )


def _attempts(runs: Sequence[Run]) -> Plot:
    def columns(measures: Measures) -> list[Series]:
        named = {"attempts": "attempts", "placed": "placed", "victims": "evicted by preemption"}
        found = [Series(text, _rates(measures, name)) for name, text in named.items()]
        return [each for each in found if each.name != "evicted by preemption" or any(each.values)]

    highest = _common(runs, lambda measures: [each.values for each in columns(measures)])
    return lambda measures: lines(
        "Attempts per minute", _seconds(measures), columns(measures), count, until_s=_longest(runs), highest=highest
    )


def _nodes(runs: Sequence[Run]) -> Plot:
    highest = _common(runs, lambda measures: [measures.columns["nodes"]])

    def plot(measures: Measures) -> str:
        series = [Series("nodes", measures.columns["nodes"]), Series("with pods", measures.columns["nodesInUse"])]
        return lines("Nodes", _seconds(measures), series, count, until_s=_longest(runs), highest=highest)

    return plot


def _column(title: str, runs: Sequence[Run], name: str) -> Plot:
    highest = _common(runs, lambda measures: [measures.columns.get(name, [])])

    def plot(measures: Measures) -> str:
        values = measures.columns.get(name) or [0.0] * len(_seconds(measures))
        return lines(title, _seconds(measures), [Series(name, values)], count, until_s=_longest(runs), highest=highest)

    return plot


def _seconds(measures: Measures) -> list[float]:
    return measures.columns["seconds"]


def _rates(measures: Measures, name: str) -> list[float]:
    """How fast a count grew between samples, in a minute."""
    counts, seconds = measures.columns[name], _seconds(measures)
    rates = [0.0]
    for i in range(1, len(counts)):
        length_s = seconds[i] - seconds[i - 1]
        rates.append((counts[i] - counts[i - 1]) / length_s * 60 if length_s > 0 else 0.0)
    return rates


# ---- tables ----------------------------------------------------------------------------------------------------------


def _titled(runs: Sequence[Run], run: Run, table: str) -> str:
    return f"<h3>{escape(run.name)}</h3>{table}" if len(runs) > 1 else table


def _still_pending(measures: Measures) -> str:
    if not measures.pending:
        return "<p>No pod waits at the end.</p>"
    rows = "".join(
        f"<tr><th scope=row>{escape(each.cause)}</th><td class=n>{count(each.pods)}</td>"
        f"<td class=n>{escape(duration(each.longest))}</td><td>{escape(each.example)}</td>"
        f"<td class=message>{escape(each.message)}</td></tr>"
        for each in measures.pending
    )
    head = "<tr><th>Cause</th><th class=n>Pods</th><th class=n>Longest</th><th>Such as</th><th>Which was told</th></tr>"
    return f"<div class=scroll><table class=waits><thead>{head}</thead><tbody>{rows}</tbody></table></div>"


def _figures(runs: Sequence[Run]) -> str:
    """A small table for each group of figures."""
    groups: dict[str, list[Line]] = {}
    for line in side_by_side([run.measures for run in runs]):
        groups.setdefault(line.group, []).append(line)
    names = "".join(f"<th class=n>{escape(run.name)}</th>" for run in runs) if len(runs) > 1 else "<td></td>"
    tables: list[str] = []
    for group, found in groups.items():
        rows = "".join(_figure_row(line, is_compared=len(runs) > 1) for line in found)
        head = f"<tr><th>{escape(group)}</th>{names}</tr>"
        tables.append(f"<div class=scroll><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>")
    return f'<div class="figures{" side" if len(runs) > 1 else ""}">{"".join(tables)}</div>'


def _figure_row(line: Line, *, is_compared: bool) -> str:
    cells = "".join(f"<td class=n>{escape(text) or '–'}</td>" for text in line.texts)
    differs = " class=differs" if line.differs and is_compared else ""
    return f"<tr{differs}><th scope=row>{escape(line.name)}</th>{cells}</tr>"
