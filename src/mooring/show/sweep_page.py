"""The table of a sweep as a page that stands by itself."""

from __future__ import annotations

import platform
from html import escape
from pathlib import Path

from mooring.api.version import __version__
from mooring.ask.sweep_file import SEED, Sweep, described
from mooring.core.explain.decision import DecisionTable
from mooring.show.shell import document, headline


def write_page(sweep: Sweep, table: DecisionTable, num_results: int, folder: Path) -> Path:
    """Write the page into the folder of the results, of which there may be fewer than the sweep has rows."""
    assert sweep.table is not None
    path = folder / sweep.table.page
    title = sweep.title or Path(sweep.source).stem
    seeds = sorted({row.values[SEED] for row in sweep.rows if SEED in row.values})
    runs = num_results if num_results == len(sweep.rows) else f"{num_results} of {len(sweep.rows)}"
    made = f"mooring {__version__}, Python {platform.python_version()}, {runs} runs"
    if seeds:
        made += f", seeds {', '.join(map(str, seeds))}"
    command = escape("mooring " + " ".join(sweep.rows[0].template))
    body = [
        headline([(title, described(sweep.table))]),
        f'<div class="card scroll pivot" tabindex=0>{table.html(limit=len(table.rows))}</div>',
        f"<p>Each number is from runs of</p>\n<pre>{command}</pre>",
        *(f"<p>{escape(each)}</p>" for each in sweep.table.note.strip().split("\n\n") if each),
        f"<footer><p>{escape(made)}.</p></footer>",
    ]
    path.write_text(document(title, body, kind="sweep"), encoding="utf-8")
    return path
