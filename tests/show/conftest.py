"""Stories as the page shows them, the page itself, and a browser: each made once for all tests of a process."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mooring.show.answers import ClusterEditing, PageAnswers, Stories
from mooring.show.exports import File
from mooring.show.server import PageServer
from mooring.show.shown import Shown, played
from mooring.sim.library import find

ROOT = Path(__file__).parents[2]
NO_PAGE = {"index.html": File(b"<!doctype html>", "text/html"), "app.js": File(b"", "text/javascript")}

Serve = Callable[..., AbstractAsyncContextManager[PageServer]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test of a process may have to build the page and to start a browser, on a busy machine."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def story() -> Callable[[str], Shown]:
    """A story that comes with mooring, played once."""
    known: dict[str, Shown] = {}

    def show(name: str) -> Shown:
        if name not in known:
            with ThreadPoolExecutor(1) as thread:  # asynchronous tests have a loop of their own in this one
                known[name] = thread.submit(played, find(name)).result()
        return known[name]

    return show


@pytest.fixture
def serve() -> Serve:
    """A server; without ``files`` it has no page to show, and answers questions only."""

    @asynccontextmanager
    async def served(
        *shown: Shown,
        editing: ClusterEditing | None = None,
        stories: Stories | None = None,
        files: dict[str, File] | None = NO_PAGE,
        port: int = 0,
        token: str = "",
    ) -> AsyncIterator[PageServer]:
        server = PageServer(shown, editing=editing, stories=stories, files=files, port=port, token=token)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
            answers = server._answers
            assert isinstance(answers, PageAnswers)
            # The next server may show the same story.
            for threads in (answers._asking, answers._supposing, answers._reading):
                await asyncio.to_thread(threads.shutdown)

    return served


def build_page() -> Any:
    """The module that builds the page."""
    return _module("build_page", ROOT / "ui" / "build_page.py")


def _module(name: str, path: Path) -> Any:
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of 5,000 nodes: few pods, so that it is quickly made."""
    path = tmp_path_factory.mktemp("large") / "large.mooring"
    module = _module("large_record", ROOT / "scripts" / "large_record.py")
    module.LARGE = ("96", "64Gi")  # with so few pods the largest nodes have room for what is large elsewhere
    module.main(str(path), 5_000, 4_000, 60)
    return path


@pytest.fixture(scope="session")
def built_page() -> Path:
    """The folder of the built page, with what its tests need; skipped where it cannot be built."""
    problem = build_page().build(with_tests=True)
    if problem:
        pytest.skip(f"the page cannot be built here: {problem}")
    return ROOT / "ui"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser of the machine."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("Chromium is not installed (apt-get install chromium)")
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(chromium, built_page) -> AsyncIterator[Any]:
    """One browser for all tests here."""
    from .browsing import FLAGS, playwright  # where it is not installed, these tests are skipped

    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture
def browser(launched):
    """Opens pages; whatever they print as an error, request without success or fetch from elsewhere fails the test."""
    from .browsing import PATIENT_MS

    @asynccontextmanager
    async def opened(link: str, *, width: int = 1280, height: int = 800, **options: Any) -> AsyncIterator[Any]:
        wrong: list[str] = []
        context = await launched.new_context(viewport={"width": width, "height": height}, **options)
        page = await context.new_page()
        page.set_default_timeout(PATIENT_MS)
        origin = "/".join(link.split("/")[:3]) + "/"
        own = (origin, "data:", "blob:")
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda sent: None if sent.url.startswith(own) else wrong.append(sent.url))
        page.wrong = wrong
        await page.goto(link)
        await page.wait_for_selector(".top")
        try:
            yield page
        finally:
            await context.close()
        assert wrong == []

    return opened
