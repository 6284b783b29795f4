"""The page in a real browser, on a real server: what people see, with which keys, and that nothing leaves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.ui.bundle import page_files

playwright = pytest.importorskip("playwright.async_api", reason="playwright comes with the extra [dev]")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-sync",
    "--disable-component-update",
]
PATIENT_MS = 60_000  # a busy machine is slow; nothing here measures how slow

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("browser")]


@pytest.fixture
def browser(chromium, built_page):
    """Opens pages; whatever they print as an error, request in vain or fetch from elsewhere fails the test."""

    @asynccontextmanager
    async def opened(link: str, *, width: int = 1280, height: int = 800, **options: Any) -> AsyncIterator[Any]:
        wrong: list[str] = []
        async with playwright.async_playwright() as driver:
            launched = await driver.chromium.launch(executable_path=chromium, args=FLAGS)
            page = await launched.new_page(viewport={"width": width, "height": height}, **options)
            page.set_default_timeout(PATIENT_MS)
            origin = "/".join(link.split("/")[:3]) + "/"
            page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.on(
                "request",
                lambda sent: None if sent.url.startswith((origin, "data:", "blob:")) else wrong.append(sent.url),
            )
            page.wrong = wrong
            await page.goto(link)
            await page.wait_for_selector(".top")
            try:
                yield page
            finally:
                await launched.close()
        assert wrong == []

    return opened


async def sees(page: Any, where: str, text: str) -> None:
    """Wait until a part of the page has this text."""
    await playwright.expect(page.locator(where).first).to_contain_text(text, timeout=PATIENT_MS)


async def test_the_first_placement_from_the_last_key_to_the_first(story, serve, browser):
    async with serve(story("first-placement"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await sees(page, ".whyPanel", "1 can take it")
        await sees(page, ".funnel", "NodeUnschedulable −9")
        await sees(page, ".mapPanel header", "10 nodes · 1 pods")
        await page.keyboard.press("ArrowLeft")  # to the decision before
        await sees(page, ".whyPanel header", "unschedulable")
        await sees(page, ".message", "0/9 nodes are available: 9 node(s) were unschedulable.")
        await sees(page, ".mapPanel header", "9 nodes · 0 pods")
        await sees(page, ".queuePanel .row", "default/pod1")
        await page.keyboard.press("j")
        await sees(page, ".queuePanel .row button[aria-pressed=true]", "NodeUnschedulable · wakes on: NodeAdd")
        await page.keyboard.press("Home")
        await sees(page, ".whyPanel", "no decision yet")
        await page.keyboard.press("/")
        await page.keyboard.type("node10")
        await page.keyboard.press("Enter")
        await sees(page, ".nodePanel", "not there yet")
        await page.keyboard.press("End")
        await sees(page, ".nodePanel", "default/pod1")
        await page.keyboard.press("Escape")
        assert await page.locator(".nodePanel").count() == 0
