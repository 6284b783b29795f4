"""The map and the why-pane as a notebook widget (anywidget, the extra ``[notebook]``); the kernel answers it.

``mooring.show.notebook.widget`` makes one. Only this module needs the extra.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anywidget
import msgspec
import traitlets

from mooring.api.errors import ApiError, InputError, MooringError
from mooring.api.version import __version__
from mooring.show.exports import page_files
from mooring.show.shown import Shown
from mooring.show.timeline import encode


class MapWidget(anywidget.AnyWidget):
    """A record as a widget: its nodes on a map, and the explanation of the selected decision."""

    _esm = "export default { render() {} }"  # the built one, once it is known to exist
    style_text = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(560).tag(sync=True)

    def __init__(self, shown: Shown, height: int) -> None:
        files = page_files()
        self._shown = shown
        super().__init__(
            _esm=files["widget.js"].body.decode(), style_text=_within(files["app.css"].body.decode()), height=height
        )
        self.on_msg(self._heard)

    def __repr__(self) -> str:
        return f"<MapWidget: {self._shown.title}>"

    def _heard(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
        """Handle a request of the page: an id, and a path as for a server."""
        try:
            status, content_type, body = 200, *self.answer(str(content.get("path", "")))
        except (MooringError, ApiError) as error:
            status, content_type, body = 400, "application/json", msgspec.json.encode({"message": str(error)})
        self.send({"id": content.get("id"), "status": status, "type": content_type}, [body])

    def answer(self, path: str) -> tuple[str, bytes]:
        """Return the type and the body of an answer."""
        parts, shown = urlsplit(path), self._shown
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        match parts.path:
            case "api/meta":
                meta = {"version": __version__, "records": [shown.describe()], "shown": 1, "isOurs": False}
                return "application/json", msgspec.json.encode(meta)
            case "api/columns":
                tables = shown.timeline.tables
                have = [int(each) for each in query.get("have", "").split(",") if each.isdecimal()]
                more = {"isLive": False, "generation": 0}
                have = have if len(have) == len(tables) else [0] * len(tables)
                return "application/octet-stream", encode(tables, have, last="events", more=more)
            case "api/measures":
                return "application/json", msgspec.json.encode(shown.measures()())
            case "api/why" | "api/what-if" if query.get("event", "").isdecimal():
                moment = shown.moment(int(query["event"]))()
                found = shown.why(moment) if parts.path == "api/why" else shown.what_if(moment, query)
                return "application/json", msgspec.json.encode(found)
        raise InputError(f"{path}: no such path")


def _within(style: str) -> str:
    """Adapt the page's style to a part of another page: rules for the root apply to the part."""
    for old, new in (
        (':root:not([data-theme="light"])', ":host"),
        (':root[data-theme="dark"]', ":host([data-theme=dark])"),
        (":root", ":host"),
    ):
        style = style.replace(old, new)
    return style
