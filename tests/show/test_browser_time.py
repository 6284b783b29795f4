"""The page through time, in a real browser: step by step, at any instant, and while the record is being written."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from bisect import bisect_right
from typing import Any

import pytest

from mooring.api.quantity import parse_quantity
from mooring.cli import pages as simulate_page
from mooring.cli.main import run
from mooring.core.config.load import config_from_dict
from mooring.core.config.wire import to_wire
from mooring.record import entries, writer
from mooring.record.files import FORMAT, WholeWrites, create
from mooring.record.recorder import Immediately, Recorder
from mooring.record.writer import RecordWriter
from mooring.show.exports import page_files
from mooring.show.shown import Shown
from mooring.show.source import RecordFile
from mooring.sim.scenario import Scenario, ScenarioCluster, node, pod
from mooring.sim.simulate import run_scenario
from mooring.testing import bound, make_node, make_pod

from .browsing import PATIENT_MS, playwright, sees

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

# Which colours the map has.
DRAWN = """() => {
  const canvas = document.querySelector(".map canvas");
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height), found = new Set();
  for (let i = 0; i < data.length; i += 4) found.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return [...found];
}"""
REFUSED, CHOSEN = 0xB84A00, 0xFFD400  # by the first filter; the star


async def drawn(page: Any, *wanted: int, without: tuple[int, ...] = ()) -> set[int]:
    """Wait until the map has these colours and not those."""
    test = f"""([wanted, without]) => {{
      const found = ({DRAWN})();
      return wanted.every((each) => found.includes(each)) && !without.some((each) => found.includes(each));
    }}"""
    await page.wait_for_function(test, arg=[list(wanted), list(without)])
    return set(await page.evaluate(DRAWN))


async def test_a_decision_is_stepped_through_by_extension_point(story, serve, browser):
    """Queue, filter, score, bind: what is said, and what the map shows of it."""
    shown = story("zone-spread")
    event = shown.timeline.attempt_events[4]
    assert [each["plugin"] for each in shown.why(shown.moment(event)())["funnel"]] == ["PodTopologySpread"]
    link = f"#lang=en&theme=light&event={event + 1}"
    async with serve(shown, files=page_files()) as server, browser(server.link + link) as page:
        await drawn(page, REFUSED, CHOSEN)  # all of it
        await page.keyboard.press(",")
        await sees(page, ".point", "Score Each score plugin gives points to the 4 nodes that are left.")
        scored = await drawn(page, REFUSED, without=(CHOSEN,))
        await page.keyboard.press(",")
        await sees(page, ".point", "Filter PodTopologySpread rejects 2 nodes: ")
        await sees(page, ".funnel [aria-pressed=true]", "PodTopologySpread")
        filtered = await drawn(page, REFUSED, without=(CHOSEN,))
        assert scored - filtered  # scores have colours of their own
        await page.keyboard.press(",")
        await sees(page, ".point", "Queue default/web-")
        await drawn(page, without=(REFUSED, CHOSEN))
        now = await page.inner_text(".whyPanel .subject .name")
        await page.keyboard.press(",")  # the decision before, all of it
        await playwright.expect(page.locator(".whyPanel .subject .name")).not_to_have_text(now, timeout=PATIENT_MS)
        await playwright.expect(page.locator(".point")).to_have_count(0, timeout=PATIENT_MS)
        await sees(page, ".funnel", "can take it")
        await page.keyboard.press(".")  # and on again: the queue, the filter, the scores, the node
        await sees(page, ".point", f"Queue {now}")
        for says in ("Filter", "Score"):
            await page.get_by_role("button", name="next extension point").click()
            await sees(page, ".point", says)
        await page.get_by_role("button", name="next extension point").click()
        await drawn(page, REFUSED, CHOSEN)


async def test_the_instants_of_a_large_record_are_those_of_replay(large, serve, browser, capsys):
    shown = Shown(large.name, RecordFile(large))
    shown.refresh()
    times = shown.timeline.events.columns["time"].tolist()
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en&event=1") as page:
        for share in (0.4, 0.9, 0.2):  # also back
            seconds = round(times[-1] * share, 3)
            assert run(["replay", str(large), "--at", f"{seconds}s", "-o", "json"]) == 0
            told = json.loads(capsys.readouterr().out)
            busiest = max(told["nodes"], key=lambda each: each["pods"])
            hash_ = f"#lang=en&event={bisect_right(times, seconds)}&node={busiest['name']}"
            await page.evaluate("(hash) => { location.hash = hash; }", hash_)
            await sees(page, ".mapPanel header", f"{len(told['nodes']):,} nodes · {len(told['pods']):,} pods")
            for place in ("active", "backoff", "unschedulable", "gated"):
                waiting = sum(each["queue"] == place for each in told["queue"])
                await sees(page, f".lanes button:has-text('{place}')", f"{place} {waiting}")
            await sees(page, ".nodePanel h2", busiest["name"])
            cpu = busiest["requested"]["cpu"]
            milli = int(parse_quantity(cpu) * 1000)
            wanted = f"{milli // 1000}" if milli % 1000 == 0 else f"{milli}m" if milli < 1000 else f"{milli / 1000:.1f}"
            await sees(page, ".nodePanel .meter .number", f"{wanted} of {busiest['allocatable']['cpu']}")


async def test_keys_are_heeded_while_the_record_is_on_its_way(story, serve, browser):
    """The first view is the last instant alone; requests of the meantime are served once the rest is loaded."""
    async with serve(story("first-placement"), files=page_files()) as server, browser(server.link) as other:
        page, may_come = await other.context.new_page(), asyncio.Event()

        async def hold(route: Any) -> None:
            await may_come.wait()
            await route.continue_()

        await page.route("**/api/columns*", hold)
        await page.goto(server.link + "#lang=en")
        await sees(page, ".mapPanel header", "10 nodes · 1 pod")
        for key in ("Home", "ArrowRight"):
            await page.keyboard.press(key)
        may_come.set()
        await sees(page, ".mapPanel header", "9 nodes · 0 pods")
        await sees(page, ".message", "9 node(s) were unschedulable")


async def test_a_record_that_grows_is_followed_until_time_is_dragged(tmp_path, serve, browser):
    path = tmp_path / "growing.mooring"
    header = entries.Header(
        format=FORMAT, mooring="0", kubernetes="1.36", configuration=to_wire(config_from_dict(None))
    )
    with path.open("wb", buffering=0) as file:
        written = RecordWriter(file, header)
        written.write_state(1.0, [])

        def grow(at: float, name: str) -> None:
            web = bound(make_pod(f"web-{name}", cpu="1"), name)
            written.write([at] * 2, [make_node(name), web])
            written.flush()

        grow(2.0, "a")
        shown = Shown(path.name, RecordFile(path))
        async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en") as page:
            await sees(page, ".mapPanel header", "1 node · 1 pod")
            await sees(page, ".top", "● live")
            grow(3.0, "b")
            await sees(page, ".mapPanel header", "2 nodes · 2 pods")
            await page.keyboard.press("Home")
            await sees(page, ".mapPanel header", "0 nodes · 0 pods")
            grow(4.0, "c")
            # The record has grown to two seconds, and the page stays.
            await playwright.expect(page.locator(".scrub input")).to_have_attribute("max", "2", timeout=PATIENT_MS)
            await sees(page, ".mapPanel header", "0 nodes · 0 pods")
            await page.keyboard.press("End")
            await sees(page, ".mapPanel header", "3 nodes · 3 pods")
            grow(5.0, "d")  # and is followed again
            await sees(page, ".mapPanel header", "4 nodes · 4 pods")
            written.close(6.0)
            await playwright.expect(page.locator(".live")).to_have_count(0, timeout=PATIENT_MS)


async def test_a_simulation_is_watched_while_it_runs(tmp_path, monkeypatch, built_page, browser):
    """It is paused in the middle: what it has done is on the page, and can be asked about."""
    links: queue.Queue[str] = queue.Queue()
    goes_on = threading.Event()
    monkeypatch.setattr(simulate_page, "announce", lambda server, opens: links.put_nowait(server.link))
    monkeypatch.setattr(writer, "BLOCK_ENTRIES", 8)  # a block is written when it is full

    async def play(cluster: ScenarioCluster) -> None:
        await cluster.create(node("a"))
        for i in range(8):
            await cluster.create(pod(f"web-{i}", cpu="100m"))
            await cluster.expect_pod(f"web-{i}", phase="Running")
        goes_on.wait()  # real time: the simulation's own is paused
        await cluster.create(node("b"))
        await cluster.create(pod("last", cpu="100m"))
        await cluster.expect_pod("last", phase="Running")

    scenario, path = Scenario("watched", "watched", play), str(tmp_path / "run.mooring")
    recorder = Recorder(Immediately(WholeWrites(create(path))), source="simulation", batch=1)

    def simulate() -> None:
        try:
            run_scenario(scenario, observers=[recorder])
        finally:
            recorder.close()

    with simulate_page.page_during_run(path, scenario):
        simulation = asyncio.create_task(asyncio.to_thread(simulate))
        try:
            link = await asyncio.to_thread(links.get, timeout=300)
            async with browser(link + "#lang=en") as page:
                await sees(page, ".top", "● live")
                await sees(page, ".mapPanel header", "1 node")
                await sees(page, ".whyPanel .subject", "scheduled")
                await sees(page, ".whyPanel", "can take it")
                assert not simulation.done()
                goes_on.set()
                await sees(page, ".whyPanel .subject", "default/last")
                await sees(page, ".mapPanel header", "2 nodes · 9 pods")
                await playwright.expect(page.locator(".live")).to_have_count(0, timeout=PATIENT_MS)
        finally:
            goes_on.set()
            await simulation
