"""Takes the pictures of the page for README and docs: scripts/screenshots.py

Real records in a real browser: a large cluster, a preemption told step by step, and two configurations compared.
"""

from __future__ import annotations

import asyncio
import base64
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
    """Where the page opens on 5,000 nodes: the first pod that fits nowhere."""
    await page.wait_for_selector(".helps")
    await page.mouse.move(1430, 420)


async def opening(page: Page) -> None:
    """Where the page opens: a preemption, and one sentence about it."""
    await page.wait_for_selector(".preemption")


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


async def nearer(page: Page) -> None:
    """A node, its pods, and the containers in them."""
    await page.wait_for_selector(".nodePanel .meter")
    await page.locator(".map").press("Enter")
    await page.wait_for_selector(".crumbs [aria-current]")
    await page.evaluate("document.activeElement.blur()")


# A picture as WebP, by the browser itself: a third of the PNG, and sharp enough for text.
WEBP = """async ([png, most]) => {
  const image = new Image();
  image.src = "data:image/png;base64," + png;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d").drawImage(image, 0, 0);
  for (const quality of [0.92, 0.84, 0.76, 0.68]) {
    const made = canvas.toDataURL("image/webp", quality).split(",")[1];
    if (made.length * 0.75 <= most) return made;
  }
}"""
MOST_BYTES = 200 * 1024


async def picture(name: str, records: list[str], hash_: str, act: Act, scheme: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mooring", "ui", "--no-open", *records, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        link = (await process.stdout.readline()).decode().split()[-1]
        async with async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS.split())
            page = await browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
            page.set_default_timeout(120_000)
            await page.goto(f"{link}#{hash_}")
            await act(page)
            await page.wait_for_timeout(900)
            png = await page.screenshot()
            blank = await browser.new_page()
            webp = base64.b64decode(await blank.evaluate(WEBP, [base64.b64encode(png).decode(), MOST_BYTES]))
            await browser.close()
    finally:
        process.terminate()
        await process.wait()
    (IMAGES / name).write_bytes(webp)
    print(f"docs/images/{name}: {len(webp) // 1024} KiB")


async def main(only: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "packing.yaml").write_text(PACKING)
        spread, packed, big = (f"{folder}/{name}.mooring" for name in ("spread", "packed", "cluster"))
        if only in ("", "ui-map"):
            run(str(ROOT / "scripts" / "large_record.py"), big)
            await picture("ui-map.webp", [big], "lang=en", large, "dark")
        if only in ("", "ui-story"):
            await picture("ui-story.webp", ["preemption"], "lang=en", opening, "light")
        if only in ("", "ui-zoom"):
            run(str(ROOT / "scripts" / "large_record.py"), spread, "60", "1500", "120")
            await picture("ui-zoom.webp", [spread], "lang=en&t=end&colour=namespace&node=node-0014", nearer, "dark")
        if only in ("", "ui-guide"):
            await picture("ui-guide.webp", ["zone-spread"], "lang=en&guide", guided, "light")
        if only in ("", "ui-compare"):
            few = ("12", "300", "160")
            run(str(ROOT / "scripts" / "large_record.py"), spread, *few)
            run(str(ROOT / "scripts" / "large_record.py"), packed, *few, f"{folder}/packing.yaml")
            await picture("ui-compare.webp", [spread, packed], "lang=en", compared, "dark")
        if only in ("", "ui-what-if"):
            run(str(ROOT / "scripts" / "large_record.py"), spread, "24", "420", "60")
            await picture("ui-what-if.webp", [spread], "lang=en&t=end&node=node-0000", lost, "light")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
