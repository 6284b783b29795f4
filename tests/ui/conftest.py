"""Stories as the page shows them, the page itself, and a browser: each made once for all tests of a process."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.sim.library import find
from mooring.ui.answers import Editing, Stories
from mooring.ui.bundle import File
from mooring.ui.server import PageServer
from mooring.ui.shown import Shown
from mooring.ui.story import played

ROOT = Path(__file__).parents[2]
NO_PAGE = {"index.html": File(b"<!doctype html>", "text/html"), "app.js": File(b"", "text/javascript")}

Serve = Callable[..., AbstractAsyncContextManager[PageServer]]


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
        editing: Editing | None = None,
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
