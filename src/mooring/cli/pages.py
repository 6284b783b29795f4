"""Serving of the page by commands: for records, running simulations, clusters, and remote schedulers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.api.errors import ApiError, InputError, MooringError, UsageError, warn
from mooring.cli.options import features_for, load_configuration
from mooring.cli.queue import Address, client_config
from mooring.cli.story_options import print_line
from mooring.cli.watched_cluster import SYNC_S, watched
from mooring.learn.classroom import Words
from mooring.learn.course import lesson, play
from mooring.net.errors import Forbidden, NotFound
from mooring.net.kubeconfig import find_config
from mooring.net.rest import RestClient, server_version, user_agent
from mooring.record.watching import WatchRecorder
from mooring.show.answers import ClusterEditing
from mooring.show.exports import EXPORTS, File, one_file, page_files
from mooring.show.server import ANSWER_WITHIN_S, PageServer, Relay
from mooring.show.shown import Shown, opened, played, source_for
from mooring.show.source import LiveSource, RecordBytes, RecordFile, TapeSource
from mooring.sim.library import find, names
from mooring.sim.scenario import Scenario

if TYPE_CHECKING:
    from mooring.show.answers import Stories
    from mooring.show.server import Relay
    from mooring.sim.worlds import PlaySettings, World


async def serve_until_interrupted(
    shown: list[Shown],
    port: int = 0,
    opens: bool | None = None,
    *,
    answers: Relay | None = None,
    stories: Stories | None = None,
) -> None:
    """Serve the page of these records, or with these answers, until Ctrl-C."""
    server = PageServer(shown, port=port, answers=answers, stories=stories)
    await server.start()
    announce(server, opens)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await server.stop()


def write_shown(path: Path, shown: list[Shown]) -> int:
    """Write the page as one file that opens without a server; or decisions, or a trace, by the file's ending."""
    if path.suffix in EXPORTS and len(shown) > 1:
        raise UsageError(f"{path}: expected one record; only a page (.html) shows two")
    try:
        for each in shown:
            if isinstance(each.source, RecordFile) and each.source.is_live:
                warn(
                    [f"{each.title}: the record was cut off, or is still being written; it is shown as far as it goes"]
                )
        if path.suffix in EXPORTS:
            path.write_bytes(EXPORTS[path.suffix][0](shown[0].timeline))
        else:
            path.write_text(one_file(shown), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    finally:
        for each in shown:
            each.close()
            each.source.close()
    print_line(f"Written: {path} ({path.stat().st_size / 1024:,.0f} KiB)")
    return 0


def write_page(path: Path, records: Sequence[str]) -> None:
    """Write the page of these records as one file."""
    page_files()  # before anything is read
    write_shown(path, [opened(each) for each in records])


def announce(server: PageServer, opens: bool | None) -> None:
    """Print the link, and open it where there is a desktop."""
    print_line(f"The page: {server.link}")
    if opens or (opens is None and _has_desktop()):
        webbrowser.open(server.link)


def _has_desktop() -> bool:
    return sys.stdout.isatty() and bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


# --------------------------------------------------------------------------------------------------------------------
# ``mooring ui --server``: the page of a scheduler that runs elsewhere, with the credentials of a kubeconfig.


async def relay_and_serve(address: Address, port: int, opens: bool | None) -> None:
    """Forward a scheduler's page until Ctrl-C."""
    config = await client_config(address)
    async with RestClient(config, agent=user_agent("mooring", "ui"), timeout_s=ANSWER_WITHIN_S) as client:

        async def fetch(path: str) -> tuple[str, bytes]:
            try:
                answer = await client.get(path, limited=False)
            except NotFound:
                raise ApiError(f"{config.server} does not serve a page; start it with mooring run --ui") from None
            except Forbidden as error:
                raise ApiError(f"{error}; a ClusterRole with nonResourceURLs: [/ui, /ui/*] allows it") from None
            return answer.headers.get("content-type", "application/octet-stream"), answer.body

        await serve_until_interrupted([], port, opens, answers=Relay(fetch))


# --------------------------------------------------------------------------------------------------------------------
# ``mooring ui --kubeconfig``: the page on a live cluster, which is only read: get, list and watch.


async def watch_and_serve(kubeconfig: str, port: int, opens: bool | None) -> None:
    """Watch a cluster and show it, until Ctrl-C."""
    source = TapeSource()
    async with RestClient(find_config(kubeconfig), agent=user_agent("mooring", "ui")) as client:
        release = (await server_version(client, timeout_s=SYNC_S)).release
        features = features_for(None, release)
        recorder = WatchRecorder(source.tape, load_configuration(None, (), features), features, time.time)
        async with watched(client, recorder):
            await serve_until_interrupted([Shown(kubeconfig, source)], port, opens)


# --------------------------------------------------------------------------------------------------------------------
# ``mooring simulate --ui``: the page of a simulation while it runs, in its own thread.

LOOK_S = 0.1  # poll interval for the beginning of the record

Wait = Callable[[], None]


@contextlib.contextmanager
def page_during_run(record: str, scenario: Scenario, opens: bool | None = None) -> Iterator[Wait]:
    """Serve the page of a growing record; yield a function that waits until Ctrl-C."""
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
        with contextlib.suppress(MooringError):  # its header is not written yet
            source = RecordFile(record, (*scenario.plugins, *scenario.plugin_files))
        await asyncio.sleep(LOOK_S)
    if source is None:
        return
    server = PageServer([Shown(scenario.title or scenario.name, source)], files=files)
    await server.start()
    announce(server, opens)
    await asyncio.to_thread(done.wait)
    await server.stop()


# --------------------------------------------------------------------------------------------------------------------
# The page of ``mooring start --ui``: it observes the scheduler, and may change the cluster.


def start_page(*, is_ours: bool, is_asked_for: bool) -> StartPage | None:
    """Return the page; None where it has not been built, unless it was requested, which raises UsageError."""
    try:
        return StartPage(is_ours=is_ours, opens=None if is_asked_for else False)
    except UsageError:
        if is_asked_for:
            raise
        return None


class StartPage:
    """Created before the cluster, so that it sees everything; UsageError where the page has not been built."""

    def __init__(self, *, is_ours: bool, opens: bool | None) -> None:
        self._files = page_files()
        self._is_ours = is_ours
        self._opens = opens
        self._source: LiveSource | None = None
        self._title = ""

    def observing(self, settings: PlaySettings, scenario: Scenario) -> PlaySettings:
        """The settings with which the page observes the scheduler."""
        self._source = source_for(scenario)
        self._title = scenario.title or "mooring start"
        return replace(settings, observers=(*settings.observers, self._source.recorder))

    @asynccontextmanager
    async def served(self, world: World) -> AsyncIterator[None]:
        """Serve the page of this cluster."""
        assert self._source is not None
        editing = ClusterEditing(world.cluster, world.scheduler, world.registry) if self._is_ours else None
        stories = BuiltInStories() if self._is_ours else None
        shown = Shown(self._title, self._source)
        server = PageServer([shown], editing=editing, stories=stories, files=self._files)
        await server.start()
        announce(server, self._opens)
        try:
            yield
        finally:
            await server.stop()


# --------------------------------------------------------------------------------------------------------------------
# Stories and lessons that the page can play.

LESSONS = {f"lesson-{number}": number for number in range(1, 8)}


class BuiltInStories:
    """Plays each in virtual time, in its own cluster."""

    def titles(self, language: str) -> dict[str, str]:
        lessons = {name: lesson_title(number, language) for name, number in LESSONS.items()}
        return {name: find(name).title or name for name in names()} | lessons

    def play(self, name: str, language: str) -> Shown:
        if name in LESSONS:
            return _lesson(LESSONS[name], language)
        if name not in names():  # no file that a request names is read
            raise InputError(f"no story {name!r}; expected one of {', '.join((*names(), *LESSONS))}")
        return played(find(name))


def lesson_title(number: int, language: str) -> str:
    words = Words(language)
    return words("Lesson {number}: {title}", number=number, title=words(lesson(number).title))


def _lesson(number: int, language: str) -> Shown:
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        path = Path(folder) / "lesson.mooring"
        play(lesson(number), lambda at_s, who, text: None, record=str(path), words=Words(language))
        source = RecordBytes(path.read_bytes())
    shown = Shown(lesson_title(number, language), source, guide=f"learn {number}")
    shown.refresh()
    return shown
