"""``mooring ui``: the page, on a record, on two of them, or on a story."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from mooring.api.clock import SystemClock
from mooring.api.errors import ApiError, MooringError, UsageError
from mooring.cli.help import examples
from mooring.cli.options import address_options, features_for, load_configuration
from mooring.cli.output import keep_inputs
from mooring.cli.queue import Address, client_config
from mooring.cli.story_options import print_line
from mooring.cli.streams import say
from mooring.live.informers import Listener, connect
from mooring.net.errors import Forbidden, NotFound
from mooring.net.informer import InformerSet
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient, server_version, user_agent
from mooring.record.files import WholeWrites, create
from mooring.record.recorder import Immediately
from mooring.record.watching import WatchRecorder
from mooring.show.server import ANSWER_WITHIN_S, Relay
from mooring.show.shown import Shown
from mooring.show.source import TapeSource

if TYPE_CHECKING:
    from mooring.api.meta import Object
    from mooring.core.config.features import Features
    from mooring.core.config.types import KubeSchedulerConfiguration
    from mooring.show.answers import Stories
    from mooring.show.server import Answering, PageServer


@click.command(
    epilog=examples("mooring ui run.mooring", "mooring ui preemption", "mooring ui --kubeconfig ~/.kube/config")
)
@click.argument("records", nargs=-1, metavar="FILE|STORY...")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Where to listen, on loopback.  [default: any]")
@click.option("--kubeconfig", metavar="FILE", help="Show the cluster that this file leads to; it is only read.")
@click.option(
    "--server", default="", metavar="URL", help="Show the page of mooring run --ui, such as https://127.0.0.1:10259."
)
@address_options
@click.option("--plugin", "plugins", multiple=True, metavar="FILE", help="Plugins of the recorded configuration.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the page as one file (.html), the decisions (.csv, .parquet) or a trace for Perfetto (.json).",
)
@click.option("--open/--no-open", "opens", default=None, help="Open the browser.  [default: on a desktop]")
def ui(
    records: tuple[str, ...],
    port: int,
    kubeconfig: str | None,
    server: str,
    token_file: str,
    certificate_authority: str,
    insecure_skip_tls_verify: bool,
    plugins: tuple[str, ...],
    output: Path | None,
    opens: bool | None,
) -> int:
    """Show clusters and decisions in the browser: one record, or two side by side.

    A record is what mooring run --record, mooring record and mooring simulate write; one that still grows is followed.
    A story (see mooring scenario list) is played first, in virtual time. A cluster of your own: mooring start --ui.
    A running scheduler: mooring run --ui, and here --server with the kubeconfig of somebody who may get /ui/.
    """
    from mooring.show.exports import page_files

    if server:
        from mooring.cli.queue import Address

        if records or output is not None:
            raise UsageError("--server shows a running scheduler; expected no records and no -o beside it")
        address = Address(server, kubeconfig or "", token_file, certificate_authority, insecure_skip_tls_verify)
        asyncio.run(relay_and_serve(address, port, opens))
        return 0
    if token_file or certificate_authority or insecure_skip_tls_verify:
        raise UsageError("--token-file, --certificate-authority and --insecure-skip-tls-verify belong to --server")
    if kubeconfig is not None and not records and output is None:
        page_files()
        asyncio.run(watch_and_serve(kubeconfig, port, opens))
        return 0
    if kubeconfig is not None:
        raise UsageError("--kubeconfig shows a live cluster; expected no records and no -o beside it")
    if not 1 <= len(records) <= 2:
        raise UsageError("expected one record or two; a cluster to look at: mooring start --ui")
    if output is not None:
        keep_inputs(output, records)
    page_files()  # before anything is played
    from mooring.show.shown import is_story, opened

    shown = [opened(each, plugins) for each in records]
    if output is not None:
        return _write(output, shown)
    stories = None
    if len(records) == 1 and is_story(records[0]):
        from mooring.cli.scenario import BuiltInStories

        stories = BuiltInStories()
    asyncio.run(serve_until_interrupted(shown, port, opens, stories=stories))
    return 0


async def serve_until_interrupted(
    shown: list[Shown],
    port: int = 0,
    opens: bool | None = None,
    *,
    answers: Answering | None = None,
    stories: Stories | None = None,
) -> None:
    """Serve the page of these records, or with these answers, until Ctrl-C."""
    from mooring.show.server import PageServer

    server = PageServer(shown, port=port, answers=answers, stories=stories)
    await server.start()
    announce(server, opens)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await server.stop()


def _write(path: Path, shown: list[Shown]) -> int:
    """Write the page as one file that opens without a server; or decisions, or a trace, by the file's ending."""
    from mooring.show.exports import EXPORTS, one_file

    if path.suffix in EXPORTS and len(shown) > 1:
        raise UsageError(f"{path}: expected one record; two of them make a page (.html)")
    try:
        if path.suffix in EXPORTS:
            path.write_bytes(EXPORTS[path.suffix][0](shown[0].timeline))
        else:
            path.write_text(one_file(shown), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    finally:
        for each in shown:
            each.close()
    print_line(f"Written: {path} ({path.stat().st_size / 1024:,.0f} KiB)")
    return 0


def write_page(path: Path, records: Sequence[str]) -> None:
    """Write the page of these records as one file."""
    from mooring.show.exports import page_files
    from mooring.show.shown import opened

    page_files()  # before anything is read
    _write(path, [opened(each) for each in records])


def announce(server: PageServer, opens: bool | None) -> None:
    """Print the link, and open it where somebody sits in front of the screen."""
    print_line(f"The page: {server.link}")
    if opens or (opens is None and _has_desktop()):
        webbrowser.open(server.link)


def _has_desktop() -> bool:
    import os
    import sys

    return sys.stdout.isatty() and bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


# --------------------------------------------------------------------------------------------------------------------
# ``mooring ui --server``: the page of a scheduler that runs elsewhere, with the credentials of a kubeconfig.


async def relay_and_serve(address: Address, port: int, opens: bool | None) -> None:
    """Serve what the scheduler serves, until Ctrl-C."""
    config = await client_config(address)
    async with RestClient(config, agent=user_agent("mooring", "ui"), timeout_s=ANSWER_WITHIN_S) as client:

        async def fetch(path: str) -> tuple[str, bytes]:
            try:
                answer = await client.get(path, limited=False)
            except NotFound:
                raise ApiError(f"{config.server} serves no page; start it with mooring run --ui") from None
            except Forbidden as error:
                raise ApiError(f"{error}; a ClusterRole with nonResourceURLs: [/ui, /ui/*] allows it") from None
            return answer.headers.get("content-type", "application/octet-stream"), answer.body

        await serve_until_interrupted([], port, opens, answers=Relay(fetch))


# --------------------------------------------------------------------------------------------------------------------
# Watching somebody else's cluster: get, list and watch, and nothing else.

SYNC_S = 30.0
LOOK_S = 0.5
PATIENCE_S = 5.0
"""A server that is back by then was restarted: nobody needs to know."""


class ClusterWatcher(Listener, Protocol):
    """Hears of what happens, and is told once it knows all that was there before."""

    is_synced: bool


class WatchReach:
    """Whether the cluster is heard of: to somebody who only listens, one that is gone looks like one that is quiet."""

    def __init__(self) -> None:
        self.lost_s = 0.0  # in all
        self._since: float | None = None
        self._lost_before_s = 0.0
        self._is_told = False

    def look(self, trouble: str, now: float) -> str:
        """Take in why nothing is heard, if so; return what should be said about it, once, and once when it is over."""
        if not trouble:
            was_told, self._is_told = self._is_told, False
            self._since, self._lost_before_s = None, self.lost_s
            return "The cluster is within reach again." if was_told else ""
        if self._since is None:
            self._since = now
        lost_s = now - self._since
        self.lost_s = self._lost_before_s + lost_s
        if self._is_told or lost_s < PATIENCE_S:
            return ""
        self._is_told = True
        return f"The cluster is out of reach for {lost_s:.0f}s, and is tried again and again: {trouble}"


@asynccontextmanager
async def watched(client: RestClient, *watchers: ClusterWatcher) -> AsyncIterator[tuple[InformerSet, WatchReach]]:
    """Tell the watchers what happens in the cluster; the block begins when all that is there is known."""
    informers, reach = InformerSet(client, complains_at=logging.INFO), WatchReach()
    for watcher in watchers:
        connect(informers, watcher)
    informers.start()
    looking: asyncio.Task[None] | None = None
    try:
        await _first_lists(informers)
        for watcher in watchers:
            watcher.is_synced = True
        looking = asyncio.create_task(_look(informers, reach), name="reach")
        yield informers, reach
    finally:
        if looking is not None:
            looking.cancel()
        await informers.stop()


async def _first_lists(informers: InformerSet) -> None:
    """Return when all that is there is known, and raise ApiError as soon as it is clear that it will not be."""
    clock = SystemClock()
    until = clock.monotonic() + SYNC_S
    while not await informers.wait_for_sync(LOOK_S):
        refused = informers.refused()
        if refused:
            raise ApiError(f"{refused}; get, list and watch are needed (deploy/shadow has such a role)")
        if clock.monotonic() >= until:
            missing = ", ".join(informers.missing())
            raise ApiError(f"no list of {missing} within {SYNC_S:g}s; may you get, list and watch them?")


async def _look(informers: InformerSet, reach: WatchReach) -> None:
    clock = SystemClock()
    while True:
        text = reach.look(informers.trouble, clock.monotonic())
        if text:
            say(text)
        await asyncio.sleep(LOOK_S)


# --------------------------------------------------------------------------------------------------------------------
# ``mooring ui --kubeconfig``: the page on a live cluster, which is only read: get, list and watch.


async def watch_and_serve(kubeconfig: str, port: int, opens: bool | None) -> None:
    """Watch a cluster and show what happens in it, until Ctrl-C."""
    source = TapeSource()
    async with RestClient(find_config(kubeconfig), agent=user_agent("mooring", "ui")) as client:
        release = (await server_version(client, timeout_s=SYNC_S)).release
        features = features_for(None, release)
        recorder = WatchRecorder(source.tape, load_configuration(None, (), features), features, time.time)
        async with watched(client, recorder):
            await serve_until_interrupted([Shown(kubeconfig, source)], port, opens)


# --------------------------------------------------------------------------------------------------------------------
# A record of a cluster that is only watched: written until it is large enough, or cannot be written any more.


class WatchedRecord:
    """Hears of objects as an informer's listener, for which a write that fails is no reason to stop listening."""

    is_synced = False

    def __init__(
        self,
        path: str,
        max_bytes: int,
        config: KubeSchedulerConfiguration,
        features: Features,
        *,
        is_redacted: bool = True,
    ) -> None:
        self.failure: MooringError | None = None
        self._max_bytes = max_bytes
        self._sink = WholeWrites(create(path))
        with contextlib.ExitStack() as undo:
            undo.callback(self._sink.close)
            self._output = Immediately(self._sink)
            self._recorder = WatchRecorder(self._output, config, features, time.time, is_redacted=is_redacted)
            undo.pop_all()
        self.is_open = True

    @property
    def attempts(self) -> int:
        return self._recorder.attempts

    def put(self, obj: Object) -> None:
        self._recorder.is_synced = self.is_synced
        self._do(lambda: self._recorder.put(obj))

    def update(self, old: Object, new: Object) -> None:
        self.put(new)

    def delete(self, obj: Object) -> None:
        self._do(lambda: self._recorder.delete(obj))

    def note(self, text: str) -> None:
        """Set a marker."""
        self._do(lambda: self._recorder.note(text, "shadow"))

    def flush(self) -> None:
        """Let readers see what there is; end it if that is enough."""
        self._do(self._output.flush)
        if self.is_open and self._output.size >= self._max_bytes:
            say(f"The record has {self._max_bytes >> 20} MiB and ends here; see --max-size.")
            self.close()

    def close(self) -> None:
        """End it; whoever closes it looks whether there was a ``failure``."""
        self._do(self._recorder.close)
        self.is_open = False

    def _do(self, write: Callable[[], None]) -> None:
        if not self.is_open:
            return
        try:
            write()
        except MooringError as error:
            self.failure = error
            self.is_open = False
            self._sink.close()
