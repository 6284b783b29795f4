"""The page in a notebook: all of it in a frame, or map and why-pane as a widget backed by the kernel.

```python
Page("preemption")           # the whole page; needs nothing but mooring
widget("run.mooring")        # map and why-pane (the extra [notebook])
widget(cluster)              # a cluster of the front door, with a decision about each pending pod
```
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.api.errors import UsageError
from mooring.core.cluster import Cluster
from mooring.core.session import PluginReference
from mooring.show.dump import record_of
from mooring.show.exports import one_file
from mooring.show.shown import Shown, opened
from mooring.show.source import RecordBytes

if TYPE_CHECKING:
    from mooring.show.widget import MapWidget


class Page:
    """A record (or two), or a story, which is played first. Displays itself as the last line of a cell."""

    def __init__(
        self, *names: str | Path | Cluster, plugins: Iterable[PluginReference] = (), height: int = 640
    ) -> None:
        self._records = [_shown(name, plugins) for name in names]
        self._height = height

    def __repr__(self) -> str:
        return f"<Page: {', '.join(record.title for record in self._records)}>"

    def _repr_html_(self) -> str:
        """Return a frame that can run the page's own script, isolated from the notebook."""
        document = escape(one_file(self._records), quote=True)
        style = f"width:100%;height:{self._height}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{document}"></iframe>'


def widget(what: str | Path | Cluster, *, plugins: Iterable[PluginReference] = (), height: int = 560) -> MapWidget:
    """Return a widget with map and why-pane of a record, a story or a cluster."""
    try:
        from mooring.show.widget import MapWidget
    except ImportError:
        raise UsageError("the widget needs anywidget: pip install 'mooring[notebook]'; Page works without it") from None
    return MapWidget(_shown(what, plugins), height)


def _shown(what: str | Path | Cluster, plugins: Iterable[PluginReference]) -> Shown:
    if isinstance(what, Cluster):
        found = Shown("cluster", RecordBytes(record_of(what, plugins), plugins))
        found.refresh()
        return found
    with ThreadPoolExecutor(1) as thread:  # a notebook runs its own loop in this thread, and a story needs another
        return thread.submit(opened, what, plugins).result()
