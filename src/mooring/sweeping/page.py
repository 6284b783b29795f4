"""The table of a sweep as a page that stands by itself."""

from __future__ import annotations

import platform
from html import escape
from pathlib import Path

from mooring.explanation.tables import Table
from mooring.sweeping.specification import SEED, Sweep, TableShape
from mooring.version import __version__

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:90em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}th,td{padding:.3em .6em;border-bottom:1px solid #8884;text-align:right}"
    "th:first-child,td:first-child{text-align:left}td{font-variant-numeric:tabular-nums;white-space:nowrap}"
    "main{overflow-x:auto}pre{white-space:pre-wrap;overflow-wrap:anywhere}"
    "@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}}"
)


def described(shape: TableShape) -> str:
    """What the numbers of the table are."""
    beside = f" ({Path(shape.beside).stem} in parentheses)" if shape.beside else ""
    return f"{shape.value}, mean ± standard deviation{beside}"


def write_page(sweep: Sweep, table: Table, num_results: int, folder: Path) -> Path:
    """Write the page into the folder of the results, of which there may be fewer than the sweep has rows."""
    assert sweep.table is not None
    path = folder / sweep.table.page
    title = escape(sweep.title or Path(sweep.source).stem)
    seeds = sorted({row.values[SEED] for row in sweep.rows if SEED in row.values})
    runs = num_results if num_results == len(sweep.rows) else f"{num_results} of {len(sweep.rows)}"
    made = f"mooring {__version__}, Python {platform.python_version()}, {runs} runs"
    if seeds:
        made += f", seeds {', '.join(map(str, seeds))}"
    command = escape("mooring " + " ".join(sweep.rows[0].template))
    note = "".join(f"<p>{escape(each)}</p>\n" for each in sweep.table.note.strip().split("\n\n") if each)
    path.write_text(
        "<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content=width=device-width>"
        f"<title>{title}</title><style>{STYLE}</style>\n"
        f"<h1>{title}</h1>\n<p>{escape(described(sweep.table))}</p>\n<main>{table.html(limit=len(table.rows))}</main>\n"
        f"<p>{escape(made)}. Each number is from runs of</p>\n<pre>{command}</pre>\n{note}",
        encoding="utf-8",
    )
    return path
