"""``mooring simulate --ui``: the page of a simulation while it runs, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

from mooring.cli.ui import announce
from mooring.errors import MooringError
from mooring.sim.scenario import Scenario
from mooring.ui.bundle import File, page_files
from mooring.ui.server import PageServer
from mooring.ui.shown import Shown
from mooring.ui.source import RecordFile

LOOK_S = 0.1  # how often to look whether the record has begun

Wait = Callable[[], None]


@contextlib.contextmanager
def page_beside(record: str, scenario: Scenario, opens: bool | None = None) -> Iterator[Wait]:
    """Serve the page of a record that is being written; gives a function that waits until Ctrl-C."""
    files = page_files()
    done = threading.Event()

    def serve() -> None:
        asyncio.run(_serve(record, scenario, opens, files, done))

    thread = threading.Thread(target=serve, name="page", daemon=True)
    thread.start()

    def wait() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            thread.join()

    try:
        yield wait
    finally:
        done.set()
        thread.join()


async def _serve(
    record: str, scenario: Scenario, opens: bool | None, files: dict[str, File], done: threading.Event
) -> None:
    source = None
    while source is None and not done.is_set():
        with contextlib.suppress(MooringError):  # its header is not there yet
            source = RecordFile(record, (*scenario.plugins, *scenario.plugin_files))
        await asyncio.sleep(LOOK_S)
    if source is None:
        return
    server = PageServer([Shown(scenario.title or scenario.name, source)], files=files)
    await server.start()
    announce(server, opens)
    await asyncio.to_thread(done.wait)
    await server.stop()
