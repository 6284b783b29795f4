"""Measures the page on a large record in Chromium: scripts/bench_page.py [RECORD]

How long until the first view, how long frames take while the map is panned, zoomed and hovered over and time is
dragged, and what a viewer costs the server. Without a record, one of 5,000 nodes and 150,000 pods is made.
"""

from __future__ import annotations

import asyncio
import gzip
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any

from playwright.async_api import CDPSession, Page, async_playwright

from mooring.show.exports import page_files

HERE = Path(__file__).parent
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --disable-sync "
    "--disable-component-update"
)
FRAMES = 120
VIEWERS = 8

# Every long task since the link was opened: also those while the record is read.
WATCH = """window.longTasks = [];
const heard = (list) => longTasks.push(...list.getEntries().map((each) => each.duration));
new PerformanceObserver(heard).observe({ type: "longtask" });
"""

# Lets something happen before each of so many frames, and returns how long each took to be ready for the next.
MEASURE = """async ([act, frames]) => {
  const canvas = document.querySelector(".map canvas"), box = canvas.getBoundingClientRect();
  const at = (x, y) => ({ clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, pointerId: 1 });
  const middle = [box.width / 2, box.height / 2], input = document.querySelector(".scrub input");
  const acts = {
    zoom: (i) => canvas.dispatchEvent(new WheelEvent("wheel", { ...at(...middle), deltaY: i % 60 < 30 ? -40 : 40 })),
    pan: (i) => canvas.dispatchEvent(
      new PointerEvent("pointermove", at(middle[0] + 90 * Math.sin(i / 9), middle[1] + 60 * Math.cos(i / 7)))),
    hover: (i) => canvas.dispatchEvent(new PointerEvent("pointermove", at((i * 13) % box.width, (i * 7) % box.height))),
    scrub: (i) => {
      input.value = String(Math.floor(input.max * (0.5 + 0.5 * Math.sin(i / 15))));
      input.dispatchEvent(new Event("input", { bubbles: true }));
    },
  };
  const long = [];
  const observer = new PerformanceObserver((list) => long.push(...list.getEntries().map((each) => each.duration)));
  observer.observe({ type: "longtask" });
  if (act === "pan") canvas.dispatchEvent(new PointerEvent("pointerdown", at(...middle)));
  const frame = () => new Promise(requestAnimationFrame);
  const times = [];
  let last = await frame();
  for (let i = 0; i < frames; i++) {
    acts[act](i);
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  if (act === "pan") canvas.dispatchEvent(new PointerEvent("pointerup", at(...middle)));
  await new Promise((resolve) => setTimeout(resolve, 50));
  observer.disconnect();
  return { times, long };
}"""


async def thread_seconds(devtools: CDPSession) -> float:
    """CPU time of the page's main thread: unlike frames it does not depend on what else the machine does."""
    metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


async def measure(page: Page, devtools: CDPSession, act: str) -> str:
    before = await thread_seconds(devtools)
    found: dict[str, Any] = await page.evaluate(MEASURE, [act, FRAMES])
    busy = 1000 * (await thread_seconds(devtools) - before) / FRAMES
    times = sorted(found["times"])
    middle, late, worst = times[len(times) // 2], times[int(len(times) * 0.95)], times[-1]
    longest = max(found["long"], default=0)
    return f"{act:<16} {middle:6.1f} {late:7.1f} {worst:6.1f} {longest:10.0f} {busy:11.1f}"


async def measure_acts(page: Page, devtools: CDPSession) -> None:
    print("ms per frame     median    95 %  worst  long task  CPU a frame")
    for act in ("hover", "zoom", "scrub"):
        print(await measure(page, devtools, act))
    for _ in range(6):  # the whole map cannot be moved
        await page.evaluate(MEASURE, ["zoom", 1])
    print(await measure(page, devtools, "pan"))
    for _ in range(24):  # into the map, until pods are blocks
        await page.evaluate(MEASURE, ["zoom", 1])
    print("zoomed in:")
    for act in ("hover", "pan", "scrub"):
        print(await measure(page, devtools, act))


async def measure_viewers(link: str, server: int) -> None:
    """Viewers that ask for the whole record and do not read the answer: the most that each makes the server hold."""
    before = memory(server)
    host, port = link.split("/")[2].split(":")
    asked = f"GET /{link.split('/')[3]}/api/columns HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    waiting = []
    for _ in range(VIEWERS):
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(asked)
        await reader.readexactly(1)  # the answer has been made
        waiting.append(writer)
    during = memory(server)
    for writer in waiting:
        writer.close()
    print(f"server {before:.0f} MiB; a viewer that does not read: {(during - before) / VIEWERS:.1f} MiB")


def memory(process: int) -> float:
    """Resident memory in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def bundle() -> float:
    """What the browser loads, gzipped, in KiB."""
    files = {name: file for name, file in page_files().items() if name.startswith(("index", "app"))}
    return sum(len(gzip.compress(file.body, 9)) for file in files.values()) / 1024


async def main(record: str) -> None:
    server = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "mooring", "ui", "--no-open", record], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        link = server.stdout.readline().split()[-1]
        async with async_playwright() as driver:
            chromium = shutil.which("chromium")
            browser = await driver.chromium.launch(executable_path=chromium, args=FLAGS.split())
            page = await browser.new_page(viewport={"width": 1280, "height": 800})
            await page.add_init_script(WATCH)
            devtools = await page.context.new_cdp_session(page)
            await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
            began = monotonic()
            await page.goto(link + "#lang=en")
            await page.wait_for_selector(".map canvas")
            await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            print(f"first view {monotonic() - began:.2f} s; {(await page.inner_text('.mapPanel .push')).strip()}")
            await page.wait_for_selector(".funnel", timeout=120_000)
            print(f"all of it {monotonic() - began:.2f} s; bundle {bundle():.1f} KiB, gzipped")
            await measure_acts(page, devtools)
            tasks = await page.evaluate("() => longTasks")
            print(f"longest tasks since the link was opened: {sorted(map(round, tasks))[-5:]} ms")
            used = await page.evaluate("() => performance.memory?.usedJSHeapSize ?? 0")
            print(f"heap of the page {used / 2**20:.0f} MiB")
            await measure_viewers(link, server.pid)
            await browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        wanted = sys.argv[1] if len(sys.argv) > 1 else f"{folder}/large.mooring"
        if len(sys.argv) == 1:
            subprocess.run([sys.executable, str(HERE / "large_record.py"), wanted], check=True)
        asyncio.run(main(wanted))
