"""The page in a notebook: the whole of it in a frame, without a server."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path

from mooring.surface.scheduler import PluginReference
from mooring.ui.one_file import one_file
from mooring.ui.opening import opened


class Page:
    """A record (or two), or a story, which is played first. As the last line of a cell it shows itself."""

    def __init__(self, *names: str | Path, plugins: Iterable[PluginReference] = (), height: int = 640) -> None:
        with ThreadPoolExecutor(1) as thread:  # a notebook has a loop of its own in this one, and a story needs another
            self._records = [thread.submit(opened, name, plugins).result() for name in names]
        self._height = height

    def __repr__(self) -> str:
        return f"<Page: {', '.join(record.title for record in self._records)}>"

    def _repr_html_(self) -> str:
        """A frame that can run the page's own script, and reach nothing of the notebook."""
        document = escape(one_file(self._records), quote=True)
        style = f"width:100%;height:{self._height}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{document}"></iframe>'
