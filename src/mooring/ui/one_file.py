"""The page as one file that opens from disk without a server: it carries the columns and the answers it may need."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Sequence

import msgspec

from mooring.ui import columns
from mooring.ui.bundle import File, page_files
from mooring.ui.columns import encode
from mooring.ui.shown import Shown
from mooring.version import __version__

MAX_EXPLAINED = 300  # attempts of each record; all of them where there are fewer


def one_file(records: Sequence[Shown], files: dict[str, File] | None = None) -> str:
    """A whole document. Its policy lets it load nothing and run no script but its own."""
    files = page_files() if files is None else files
    script = files["app.js"].body.decode().replace("</script", "<\\/script")  # it must not end where it stands
    style = files["app.css"].body.decode()
    carried = {
        "api/meta": _packed(
            _json({"version": __version__, "records": [each.describe() for each in records], "isOurs": False})
        )
    }
    carried |= {name: _packed(file.body) for name, file in files.items() if name.startswith("course-")}
    for number, shown in enumerate(records):
        carried[f"api/columns?record={number}"] = _packed(_columns(shown))
        for event in _explained(shown):
            carried[f"api/why?record={number}&event={event}"] = _packed(_json(shown.why(shown.moment(event)())))
    sources = f"script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    icon = base64.b64encode(files["icon.svg"].body).decode()
    title = " · ".join(each.title for each in records)
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)} · mooring</title>",
            f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">',
            f'<style>{style}</style></head><body><div id="app"></div>',
            f'<script type="application/json" id="carried">{json.dumps(carried)}</script>',
            f'<script type="module">{script}</script></body></html>',
        )
    )


def _columns(shown: Shown) -> bytes:
    """All columns in one message, however many rows there are."""
    tables = shown.timeline.tables
    most = max(columns.MAX_ROWS, *(len(table) for table in tables.values()))
    return encode(tables, [0] * len(tables), last="events", more={"isLive": False, "generation": 0}, most=most)


def _explained(shown: Shown) -> Sequence[int]:
    """The events whose attempts are explained: those that were refused first, then evenly over time."""
    events = shown.timeline.attempt_events
    if len(events) <= MAX_EXPLAINED:
        return events
    aux = shown.timeline.events.columns["aux"]
    refused = [event for event in events if aux[event] & 7][: MAX_EXPLAINED // 2]
    step = len(events) // (MAX_EXPLAINED - len(refused)) + 1
    return sorted({*refused, *events[::step], events[-1]})


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


def _packed(body: bytes) -> str:
    return base64.b64encode(body).decode()


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
