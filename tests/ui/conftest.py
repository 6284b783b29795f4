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
from mooring.ui.answers import Editing
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
        files: dict[str, File] | None = NO_PAGE,
        port: int = 0,
        token: str = "",
    ) -> AsyncIterator[PageServer]:
        server = PageServer(shown, editing=editing, files=files, port=port, token=token)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()

    return served


def build_page() -> Any:
    """The module that builds the page."""
    found = importlib.util.spec_from_file_location("build_page", ROOT / "ui" / "build_page.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


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
