"""The page in a notebook: the whole of it in a frame, or map and why-pane as a widget that asks the kernel.

```python
Page("preemption")           # the whole page; needs nothing but mooring
widget("run.mooring")        # map and why-pane (the extra [notebook])
widget(cluster)              # a cluster of the front door, with a decision about each pending pod
```
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.api.errors import UsageError
from mooring.api.version import __version__
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.core.config.load import config_from_dict
from mooring.core.config.wire import to_wire
from mooring.core.session import PluginReference
from mooring.record import entries
from mooring.record.files import FORMAT
from mooring.record.writer import RecordWriter
from mooring.show.exports import one_file
from mooring.show.shown import Shown, opened
from mooring.show.source import RecordBytes

if TYPE_CHECKING:
    from mooring.show.widget import MapWidget

MAX_DECIDED = 200  # pending pods of a cluster about which a decision is shown


class Page:
    """A record (or two), or a story, which is played first. As the last line of a cell it shows itself."""

    def __init__(
        self, *names: str | Path | Cluster, plugins: Iterable[PluginReference] = (), height: int = 640
    ) -> None:
        self._records = [_shown(name, plugins) for name in names]
        self._height = height

    def __repr__(self) -> str:
        return f"<Page: {', '.join(record.title for record in self._records)}>"

    def _repr_html_(self) -> str:
        """A frame that can run the page's own script, and reach nothing of the notebook."""
        document = escape(one_file(self._records), quote=True)
        style = f"width:100%;height:{self._height}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{document}"></iframe>'


def widget(what: str | Path | Cluster, *, plugins: Iterable[PluginReference] = (), height: int = 560) -> MapWidget:
    """Map and why-pane of a record, a story or a cluster, as a widget. As the last line of a cell it shows itself."""
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
    with ThreadPoolExecutor(1) as thread:  # a notebook has its own loop in this thread, and a story needs another
        return thread.submit(opened, what, plugins).result()


def record_of(cluster: Cluster, plugins: Iterable[PluginReference] = ()) -> bytes:
    """A record of one instant: what is in the cluster, and a decision about each pod that waits, by the default
    configuration. The cluster stays as it is."""
    scheduler = Scheduler(cluster, None, plugins)
    now, version = time.time(), scheduler.kubernetes_version
    header = entries.Header(
        format=FORMAT,
        mooring=__version__,
        kubernetes=version,
        source="question",
        started=now,
        configuration=to_wire(config_from_dict(None)),
    )
    file = io.BytesIO()
    writer = RecordWriter(file, header)
    writer.write_state(now, [*cluster.nodes, *cluster.state.objects, *cluster.pods, *cluster.pending])
    fork, waiting = cluster.fork(), cluster.pending[:MAX_DECIDED]
    for number, (pod, decided) in enumerate(zip(waiting, scheduler.on(fork).place(waiting), strict=True), 1):
        attempt = entries.Attempt(
            number,
            pod.key,
            pod.uid,
            decided.scheduler_name,  # that of the profile which decided
            decided.outcome.value,
            decided.node or "",
            "" if decided.node else decided.message,
            nominated=decided.nominated_node,
        )
        writer.write([now + number], [attempt])
        place = "active" if decided.node else "unschedulable"
        failed = () if decided.node else (entries.Failed(pod.key, pod.uid, decided.reason, decided.message),)
        writer.write([now + number] * (1 + len(failed)), [*failed, entries.Moved(pod.key, pod.uid, place, "")])
    writer.close(now + len(cluster.pending) + 1)
    return file.getvalue()
