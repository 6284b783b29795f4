"""Takes a picture of every view of the page for a person to look at: scripts/walk_page.py FOLDER [PART...]

Records of 4, 300 and 5,000 nodes and a few stories; 1440, 1920 and 390 pixels; dark and light. A part is the
beginning of a picture's name, such as ``300-why`` or ``preemption``.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, async_playwright

ROOT = Path(__file__).parents[1]
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --disable-sync "
    "--disable-component-update"
)
SIZES = ((1440, 900), (1920, 1080), (390, 844))
NARROW = 900
RECORDS = {"4": ("4", "20", "30"), "300": ("300", "6000", "200"), "5000": ("5000", "148000", "4000")}
PACKING = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}
"""
Act = Callable[[Page], Awaitable[None]]


async def rest(page: Page) -> None:
    await page.wait_for_timeout(700)


async def tab(page: Page, which: str) -> None:
    """On a narrow screen one of the views is shown."""
    if page.viewport_size and page.viewport_size["width"] < NARROW:
        await page.locator(".tabs button").nth(("map", "why", "queue", "time").index(which)).click()


def why(which: str = "why") -> Act:
    async def act(page: Page) -> None:
        await tab(page, which)
        await page.wait_for_selector(".funnel", state="attached")

    return act


def on(selector: str) -> Act:
    async def act(page: Page) -> None:
        await tab(page, "why")
        await page.wait_for_selector(selector, state="attached")

    return act


async def lost(page: Page) -> None:
    await tab(page, "why")
    await page.get_by_role("button", name="zone-a is lost").first.click()
    await page.wait_for_selector(".whatIfPanel .figures", state="attached")


def pressing(*keys: str) -> Act:
    async def act(page: Page) -> None:
        await page.wait_for_selector(".funnel", state="attached")
        for key in keys:
            await page.keyboard.press(key)
            await page.wait_for_timeout(350)

    return act


async def finding(page: Page) -> None:
    await pressing("/")(page)
    await page.keyboard.type("zone", delay=20)


async def comparing(page: Page) -> None:
    await tab(page, "why")
    await page.get_by_role("button", name="the first difference").click()
    await page.wait_for_selector(".comparePanel .best", state="attached")


VIEWS: dict[str, tuple[str, Act]] = {
    "opening": ("", why("map")),
    "why": ("t=end", why()),
    "use": ("t=end&colour=use", why("map")),
    "namespace": ("t=end&colour=namespace", why("map")),
    "node": ("t=end&node=node-0001", on(".nodePanel .meter")),
    "zoom": ("t=end&zoom=6,0.3,0.4", why("map")),
    "deep": ("t=end&zoom=60,0.3,0.4&colour=namespace", why("map")),
    "what-if": ("t=end&node=node-0000", lost),
    "time": ("t=end", why("time")),
    "queue": ("t=end", why("queue")),
    "find": ("t=end", finding),
    "keys": ("t=end", pressing("?")),
    "save": ("t=end&tab=save", on(".savePanel")),
}
STORIES: dict[str, tuple[list[str], str, Act]] = {
    "preemption": (["preemption"], "", why()),
    "preemption-map": (["preemption"], "", why("map")),
    "guide": (["zone-spread"], "guide", pressing("ArrowRight", "ArrowRight")),
    "stories": (["preemption"], "tab=change", on(".stories")),
    "course": (["zone-spread"], "guide&course=1", on(".coursePanel")),
    "begin": (["first-placement"], "t=begin", rest),
    "first": (["first-placement"], "t=end", why("map")),
    "ja": (["preemption"], "lang=ja", why()),
    "zh": (["preemption"], "lang=zh", why()),
    "compare": (["spread", "packed"], "", comparing),
}


@asynccontextmanager
async def served(*records: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mooring", "ui", "--no-open", *records, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().split()[-1]
    finally:
        process.terminate()
        await process.wait()


async def shoot(browser: Any, link: str, name: str, hash_: str, act: Act, folder: Path, only: list[str]) -> None:
    for width, height in SIZES:
        for scheme in ("light", "dark"):
            path = folder / f"{name}-{width}-{scheme}.png"
            if only and not any(path.name.startswith(each) for each in only):
                continue
            page = await browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.set_default_timeout(60_000)
            page.on("pageerror", lambda error, path=path: print(path.name, error))
            try:
                await page.goto(f"{link}#{hash_ if 'lang=' in hash_ else f'lang=en&{hash_}'}")
                await act(page)
                await rest(page)
                await page.screenshot(path=path)
            except Exception as error:
                print(path.name, str(error).splitlines()[0])
            await page.close()


def made(folder: Path) -> None:
    """The records, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "packing.yaml").write_text(PACKING)
    few = ("12", "300", "160")
    wanted = {**RECORDS, "spread": few, "packed": (*few, str(folder / "packing.yaml"))}
    for name, arguments in wanted.items():
        if not (folder / f"{name}.mooring").exists():
            command = [sys.executable, str(ROOT / "scripts" / "large_record.py"), str(folder / f"{name}.mooring")]
            subprocess.run([*command, *arguments], check=True)


async def main(folder: Path, only: list[str]) -> None:
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS.split())
        for size in RECORDS:
            views = {f"{size}-{name}": view for name, view in VIEWS.items()}
            wanted = [name for name in views if not only or any(name.startswith(o) or o.startswith(name) for o in only)]
            if wanted:
                async with served(str(folder / f"{size}.mooring")) as link:
                    for name in wanted:
                        await shoot(browser, link, name, *views[name], folder, only)
        for name, (records, hash_, act) in STORIES.items():
            if only and not any(name.startswith(o) or o.startswith(name) for o in only):
                continue
            paths = [folder / f"{each}.mooring" for each in records]
            async with served(*(str(path) if path.exists() else path.stem for path in paths)) as link:
                await shoot(browser, link, name, hash_, act, folder, only)
        await browser.close()


if __name__ == "__main__":
    made(Path(sys.argv[1]))
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
