"""Takes the pictures of the page for README and docs: scripts/screenshots.py

Real records in a real browser: a large cluster, a preemption told step by step, and two configurations compared.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import Page, async_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --disable-sync "
    "--disable-component-update"
)
PACKING = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}
"""

Act = Callable[[Page], Awaitable[None]]


def run(*command: str) -> None:
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)


async def press(page: Page, *keys: str) -> None:
    for key in keys:
        await page.keyboard.press(key)
        await page.wait_for_timeout(300)


async def large(page: Page) -> None:
    """The last decision about a pod among 5,000 nodes."""
    await page.wait_for_selector(".best")
    await page.mouse.move(1430, 420)


async def opening(page: Page) -> None:
    """Where the page opens: a preemption, and one sentence about it."""
    await page.wait_for_selector(".preemption")


async def named(page: Page) -> None:
    """Pods by namespace."""
    await page.wait_for_selector(".funnel")
    await page.mouse.move(1430, 420)


async def guided(page: Page) -> None:
    await page.wait_for_selector(".guide-card")
    await page.wait_for_selector(".funnel")
    await press(page, "ArrowRight", "ArrowRight")
    await page.wait_for_timeout(600)


async def compared(page: Page) -> None:
    await page.get_by_role("button", name="the first difference").click()
    await page.wait_for_selector(".comparePanel .best", state="attached")
    await page.wait_for_timeout(600)


async def lost(page: Page) -> None:
    """What if a zone is lost."""
    await page.get_by_role("button", name="zone-a is lost").click()
    await page.wait_for_selector(".whatIfPanel .figures")
    await page.wait_for_selector(".legend .ringed")
    await page.mouse.move(1430, 420)


async def narrow(page: Page) -> None:
    await page.wait_for_selector(".legend .dot")


async def picture(name: str, records: list[str], hash_: str, act: Act, scheme: str, width: int = 1440) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mooring", "ui", "--no-open", *records, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        link = (await process.stdout.readline()).decode().split()[-1]
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS.split())
            page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
            page.set_default_timeout(120_000)
            await page.goto(f"{link}#{hash_}")
            await act(page)
            await page.wait_for_timeout(500)
            await page.screenshot(path=IMAGES / name)
            await browser.close()
    finally:
        process.terminate()
        await process.wait()
    print(f"docs/images/{name}")


async def main(only: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "packing.yaml").write_text(PACKING)
        spread, packed, big = (f"{folder}/{name}.mooring" for name in ("spread", "packed", "cluster"))
        if only in ("", "ui-map"):
            run(str(ROOT / "scripts" / "large_record.py"), big)
            await picture("ui-map.png", [big], "lang=en&t=end", large, "dark")
        if only in ("", "ui-story"):
            await picture("ui-story.png", ["preemption"], "lang=en", opening, "light")
        if only in ("", "ui-pods"):
            run(str(ROOT / "scripts" / "large_record.py"), spread, "60", "1500", "120")
            await picture("ui-pods.png", [spread], "lang=en&t=end&colour=namespace", named, "light")
        if only in ("", "ui-guide"):
            await picture("ui-guide.png", ["zone-spread"], "lang=en&guide", guided, "light")
        if only in ("", "ui-compare"):
            few = ("12", "300", "160")
            run(str(ROOT / "scripts" / "large_record.py"), spread, *few)
            run(str(ROOT / "scripts" / "large_record.py"), packed, *few, f"{folder}/packing.yaml")
            await picture("ui-compare.png", [spread, packed], "lang=en", compared, "dark")
        if only in ("", "ui-what-if"):
            run(str(ROOT / "scripts" / "large_record.py"), spread, "24", "420", "60")
            await picture("ui-what-if.png", [spread], "lang=en&t=end&node=node-0000", lost, "light")
        if only in ("", "ui-narrow"):
            await picture("ui-narrow.png", ["first-placement"], "lang=en", narrow, "light", 390)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
