"""The page's views in a real browser: one instant, a server that goes, what-ifs that stop, finding, addresses, pods."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mooring.api.errors import MooringError
from mooring.core.config.load import config_from_dict
from mooring.core.config.wire import to_wire
from mooring.record import entries
from mooring.record.files import FORMAT
from mooring.record.meter import measure_record
from mooring.record.writer import RecordWriter
from mooring.show.exports import page_files
from mooring.show.figures import share
from mooring.show.shown import Shown
from mooring.show.source import RecordFile
from mooring.testing import bound, make_node, make_pod

from .browsing import PATIENT_MS, playwright, sees, violations

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


async def gone(page: Any, where: str) -> None:
    await playwright.expect(page.locator(where)).to_have_count(0, timeout=PATIENT_MS)


def port_that_stays() -> int:
    """A free port, from where the system takes none for others: a server that comes back finds it free again."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a hundred ports are taken")


async def test_it_opens_at_the_story(story, serve, browser):
    """The first refusal or preemption, with a sentence that is counted; highlights lead on, and by keys, too."""
    async with serve(story("preemption"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await sees(page, ".headline p", "default/important evicts 1 pod from node2.")
        await sees(page, ".headline p", "1 pod waits; it asks for more cpu than any node has free.")
        await sees(page, ".highlights", "highlight 1 of 2")
        await page.locator(".highlights").get_by_role("button", name="next").click()
        await sees(page, ".headline p", "All 2 pods have a node.")
        await page.keyboard.press("h")
        await sees(page, ".headline p", "evicts 1 pod")


async def test_a_preemption_is_named(story, serve, browser):
    """Victims and nomination at the first attempt; at the second that the node was nominated. Then the guide ends."""
    async with serve(story("preemption"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await sees(page, ".preemption", "default/important evicts 1 pod from node2 and is nominated for that node.")
        await sees(page, ".preemption", "default/cheap-2")
        await gone(page, ".whyPanel h3:has-text('what would help')")
        await page.keyboard.press("ArrowRight")
        await sees(page, ".nominated", "node2 is the nominated node")
        await page.get_by_role("button", name="step by step").click()
        await sees(page, ".guide-card", "This is attempt 2. The pods in its way on node2 are gone")
        await page.keyboard.press("ArrowRight")
        await sees(page, ".guide-card", "default/important is bound to node2. That was the last decision.")
        next_one = page.locator(".guide-card button.primary")
        await playwright.expect(next_one).to_be_disabled(timeout=PATIENT_MS)
        await page.keyboard.press("ArrowRight")
        await sees(page, ".guide-card", "That was the last decision.")
        await page.keyboard.press("Escape")
        await gone(page, ".guide-card")


async def test_a_decision_of_an_earlier_cluster_is_marked(story, serve, browser):
    """Why carries its time; where the map has changed since, it offers the way back, and colours fade."""
    shown = story("zone-spread")
    first = shown.timeline.attempt_events[0]
    names, pods = shown.timeline.pod_names.values, shown.timeline.events.columns["pod"]
    pod = names[shown.timeline.pods.columns["name"][pods[first]]]
    link = f"#lang=en&t=end&pod={pod}"
    async with serve(shown, files=page_files()) as server, browser(server.link + link) as page:
        await sees(page, ".whyPanel time", "decided at 00:00:00.0")
        await sees(page, ".legend.faded", "colours of an earlier decision")
        await page.locator(".whyPanel").get_by_role("button", name="jump to it").click()
        await gone(page, ".legend.faded")
        await gone(page, ".whyPanel .jump")


async def test_what_is_free_but_unusable_is_the_figure_of_the_report(story, serve, browser):
    shown = story("preemption")
    with shown.source.opener()() as record:
        row = measure_record(record).row
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en&t=end") as page:
        text = share(float(row["fragmentationAtEnd.cpu"]))
        rounded = text if float(text.split()[0]) < 10 else f"{float(text.split()[0]):.0f} %"
        await sees(page, ".strip.last figcaption", f"cpu {rounded}")


async def test_a_stopped_server_is_shown_on_a_finished_record_too(story, serve, browser):
    options = {"files": page_files(), "token": "a-token-that-stays", "port": port_that_stays()}
    shown = story("first-placement")
    async with serve(shown, **options) as server:
        opened = browser(server.link + "#lang=en")
        page = await opened.__aenter__()
        await sees(page, ".funnel", "NodeUnschedulable")
    await page.keyboard.press("End")  # another decision, which is not explained
    await sees(page, "[role=alert]", "the server does not answer; trying again")
    async with serve(shown, **options):
        await gone(page, "[role=alert]")
        await sees(page, ".whyPanel", "1 can take it")  # asked again by itself
        page.wrong.clear()  # that requests failed is what this is about
        await opened.__aexit__(None, None, None)


async def test_a_what_if_shows_progress_and_is_cancelled_while_why_answers(story, serve, browser, monkeypatch):
    shown, stopped = story("zone-spread"), threading.Event()

    def slow(moment: Any, question: Any, progress: Any) -> dict[str, Any]:
        try:
            while True:
                progress(7, 12)
                stopped.wait(0.01)
        except MooringError:
            stopped.set()
            raise

    monkeypatch.setattr(shown, "what_if", slow)
    link = "#lang=en&t=end&node=node1"
    async with serve(shown, files=page_files()) as server, browser(server.link + link) as page:
        await page.get_by_role("button", name="it is lost", exact=True).click()
        await sees(page, ".whatIfPanel .progress", "7 of 12 pods placed")
        await page.keyboard.press("Home")
        await page.keyboard.press("ArrowRight")
        await page.get_by_role("tab", name="Why").click()
        await sees(page, ".whyPanel", "can take it")
        await page.get_by_role("tab", name="What if").click()
        await page.get_by_role("button", name="cancel").click()
        await gone(page, ".whatIfPanel")
        assert await asyncio.to_thread(stopped.wait, PATIENT_MS / 1000)
        page.wrong.clear()  # the browser notes that the request was withdrawn


async def test_a_suggestion_is_tried(story, serve, browser):
    async with serve(story("first-placement"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await page.locator(".helps").get_by_role("button", name="try it").first.click()
        await sees(page, ".whatIfPanel", "can take it")
        await sees(page, ".legend", "gets pods 1")


@pytest.mark.parametrize(
    ("language", "title", "suggestion", "note"),
    [
        pytest.param(
            "ja",
            "重要な Pod が来たとき",
            "CPU を要求しない（現在 1）",
            "cpu: 要求 1、空きは最大 0（node2）",
            id="Japanese",
        ),
        pytest.param(
            "zh", "重要的 Pod 到来时", "不请求 CPU（现在为 1）", "cpu：请求 1，最多空闲 0（在 node2 上）", id="Chinese"
        ),
    ],
)
async def test_what_the_engine_says_is_translated(story, serve, browser, language, title, suggestion, note):
    async with (
        serve(story("preemption"), files=page_files()) as server,
        browser(f"{server.link}#lang={language}", width=1600) as page,
    ):
        await sees(page, ".top .title", title)
        await sees(page, ".helps", suggestion)
        await sees(page, ".whyPanel", note)
        await page.locator(".whyPanel summary").first.click()
        await page.locator(".helps button").first.click()
        await playwright.expect(page.locator(".whatIfPanel .subject strong")).not_to_contain_text("request")


async def test_anything_is_found_by_a_few_letters(story, serve, browser, built_page):
    async with serve(story("zone-spread"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await page.keyboard.press("Control+k")
        await page.keyboard.type("node2")
        await sees(page, "#hits [aria-selected=true]", "node2")
        assert await violations(page, built_page) == []
        await page.keyboard.press("Enter")
        await sees(page, ".nodePanel h2", "node2")
        await page.keyboard.press("/")
        await page.keyboard.type("no such thing")
        await sees(page, ".finder", "Nothing is called “no such thing”.")
        await page.keyboard.press("Escape")
        await gone(page, ".finder")
        await page.keyboard.press("Control+k")
        await page.keyboard.type("colour by priority")
        await page.keyboard.press("Enter")
        await sees(page, ".legend", "priority")
        await page.keyboard.press("?")
        await sees(page, ".keysCard", "previous and next highlight")
        assert await violations(page, built_page) == []
        await page.keyboard.press("Escape")
        await gone(page, ".keysCard")


async def test_back_goes_back_and_a_link_without_a_pod_has_none(story, serve, browser):
    link = "#lang=en&t=end"
    async with serve(story("zone-spread"), files=page_files()) as server, browser(server.link + link) as page:
        await sees(page, ".queuePanel .row", "default/web-")
        await page.keyboard.press("j")
        await page.wait_for_function("() => location.hash.includes('pod=')")
        await page.locator(".map").press("Shift+ArrowRight")
        await page.wait_for_function("() => location.hash.includes('node=')")
        await page.go_back()
        await page.wait_for_function("() => !location.hash.includes('node=') && location.hash.includes('pod=')")
        await playwright.expect(page.get_by_role("tab", name="Node", exact=True)).to_be_visible(timeout=PATIENT_MS)
        await page.evaluate("() => { location.hash = '#lang=en&t=begin'; }")
        await sees(page, ".whyPanel", "There is no decision yet.")
        assert "pod=" not in page.url


async def test_pods_are_hovered_and_clicked(story, serve, browser):
    """A block tells whose it is; a click selects the pod, and the address has it."""
    async with serve(story("preemption"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await sees(page, ".preemption", "default/cheap-2")  # all of the record is here
        box = await page.locator(".map canvas").bounding_box()
        await page.locator(".map canvas").hover(position={"x": box["width"] / 4, "y": box["height"] / 2})
        await sees(page, ".tip", "default/ordinary-1")
        await sees(page, ".tip", "cpu 2")
        await page.mouse.down()
        await page.mouse.up()
        await page.wait_for_function("() => location.hash.includes('pod=default/ordinary-1')")


async def test_time_is_zoomed_by_a_drag_and_slides_by_time(story, serve, browser):
    async with serve(story("preemption"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        over = page.locator(".strip.last .u-over")
        await sees(page, ".funnel", "no node fits")  # all of the record is here
        await over.wait_for()
        box = await over.bounding_box()
        middle = box["y"] + box["height"] / 2
        await page.mouse.move(box["x"] + 0.5 * box["width"], middle)
        await page.mouse.down()
        await page.mouse.move(box["x"] + 0.9 * box["width"], middle, steps=4)
        await page.mouse.up()
        await page.get_by_role("button", name="whole time").wait_for()
        low = float(await page.locator(".scrub input").get_attribute("min"))
        assert low > 1, "the slider is as long as the strips"
        await page.get_by_role("button", name="whole time").click()
        await playwright.expect(page.locator(".scrub input")).to_have_attribute("min", "0", timeout=PATIENT_MS)
        await page.mouse.move(box["x"] + 0.5 * box["width"], middle)
        await page.mouse.down()
        await page.mouse.up()
        await sees(page, ".whyPanel .subject", "default/important")


# The second record's cursor is at a fifth of the axis, the first one's at its end.
FIFTH = """() => {
  const cursors = [...document.querySelectorAll(".strip.last .cursor")];
  const [first, second] = cursors.map((each) => each.getBoundingClientRect());
  const over = document.querySelector(".strip.last .u-over")?.getBoundingClientRect();
  const share = (box) => (box.left - over.left) / over.width;
  return first && second && Math.abs(share(first) - 1) < 0.02 && Math.abs(share(second) - 0.2) < 0.02;
}"""


async def test_a_second_record_has_a_clock_of_its_own(tmp_path: Path, serve, browser):
    def written(name: str, seconds: float) -> Shown:
        path, web = tmp_path / f"{name}.mooring", make_pod("web", cpu="1")
        config = to_wire(config_from_dict(None))
        header = entries.Header(
            format=FORMAT, mooring="0", kubernetes="1.36", configuration=config, source="simulation"
        )
        with path.open("wb") as file:
            writer = RecordWriter(file, header)
            writer.write_state(0.0, [])
            writer.write([0.0, seconds], [make_node("a"), bound(web, "a")])
            writer.close(seconds)
        shown = Shown(path.name, RecordFile(path))
        shown.refresh()
        return shown

    records = written("long", 105.0), written("short", 21.0)
    async with serve(*records, files=page_files()) as server, browser(server.link + "#lang=en&t=end") as page:
        await sees(page, ".clock", "00:01:45.0")
        await sees(page, ".mapPanel:nth-of-type(2) header time", "00:00:21.0")
        await sees(page, ".strip figcaption", "B ")
        await page.wait_for_function(FIFTH)


async def test_signs_that_turn_directions_are_shown_by_their_numbers(tmp_path: Path, serve, browser):
    path = tmp_path / "turned.mooring"
    header = entries.Header(
        format=FORMAT, mooring="0", kubernetes="1.36", configuration=to_wire(config_from_dict(None))
    )
    with path.open("wb") as file:
        writer = RecordWriter(file, header)
        writer.write_state(0.0, [])
        node = make_node("a", taints=[{"key": "k", "value": "\u202eedirrevo", "effect": "NoSchedule"}])
        writer.write([1.0], [node])
        writer.close(1.0)
    shown = Shown(path.name, RecordFile(path))
    shown.refresh()
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en&node=a") as page:
        await sees(page, ".nodePanel", "k=\\u202eedirrevo:NoSchedule")
