"""The page in a real browser: zoom down to containers, whole views in addresses, the keyboard alone, any name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml as pyyaml

from mooring.cli.pages import BuiltInStories
from mooring.core.config.load import config_from_dict
from mooring.core.config.wire import to_wire
from mooring.record import entries
from mooring.record.files import FORMAT
from mooring.record.writer import RecordWriter
from mooring.show.exports import page_files
from mooring.show.shown import Shown, opened
from mooring.show.source import RecordFile
from mooring.testing import bound, make_node, make_pod

from .browsing import PATIENT_MS, playwright, sees, violations

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

EVIL = "<img src=x onerror=alert(1)>"
LONG = "a-name-that-is-as-long-as-kubernetes-allows-it-to-be-for-an-obj"


def recorded(path: Path, *objects: Any, message: str = "") -> Shown:
    """A record of these objects; the first pod among them was rejected."""
    header = entries.Header(
        format=FORMAT,
        mooring="0",
        kubernetes="1.36",
        configuration=to_wire(config_from_dict(None)),
        source="simulation",
    )
    pod = next(each for each in objects if type(each).__name__ == "Pod")
    attempt = entries.Attempt(1, pod.key, pod.uid, "default-scheduler", "unschedulable", message=message)
    rejected = entries.Moved(pod.key, pod.uid, "unschedulable", message or "ScheduleAttemptFailure")
    with path.open("wb") as file:
        writer = RecordWriter(file, header)
        writer.write_state(0.0, [])
        writer.write([1.0] * (len(objects) + 2), [*objects, attempt, rejected])
        writer.close(2.0)
    shown = Shown(path.name, RecordFile(path))
    shown.refresh()
    return shown


CONTAINERS = {
    "containers": [{"name": "app", "resources": {"requests": {"cpu": "2"}}}],
    "initContainers": [
        {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "prepare", "resources": {"requests": {"cpu": "1"}}},
    ],
}


async def test_zoom_leads_to_a_node_to_a_pod_and_out_again(tmp_path: Path, serve, browser):
    nodes = [make_node(f"node-{i}", cpu="16", zone=f"zone-{i % 2}") for i in range(8)]
    pods = [bound(make_pod(name, spec=CONTAINERS), "node-0") for name in ("web-1", "web-2", "web-3")]
    shown = recorded(tmp_path / "zoom.mooring", make_pod("large", cpu="64"), *nodes, *pods)
    link = "#lang=en&t=end&colour=namespace&pod=default/web-2&node=node-0"
    still = {"reduced_motion": "reduce"}  # the camera is there immediately
    async with serve(shown, files=page_files()) as server, browser(server.link + link, **still) as page:
        await sees(page, ".nodePanel h2", "node-0")
        canvas = page.locator(".map canvas")
        for level in ("node-0", "default/web-2"):  # a zone is as high as the map already
            await page.locator(".map").press("Enter")
            await sees(page, ".crumbs [aria-current]", level)
        box = await canvas.bounding_box()
        await canvas.hover(position={"x": box["width"] / 2, "y": box["height"] / 2})
        for line in ("default/web-2", "app: cpu 2", "proxy (sidecar): cpu 1", "prepare (init): cpu 1"):
            await sees(page, ".tip", line)
        await page.wait_for_function("() => location.hash.includes('zoom=')")
        await page.reload()
        await sees(page, ".crumbs [aria-current]", "default/web-2")  # the address has the zoom
        await sees(page, ".crumbs", "zone-0")
        await page.locator(".crumbs").get_by_role("button", name="node-0").click()
        await sees(page, ".crumbs [aria-current]", "node-0")
        await canvas.dblclick(position={"x": box["width"] / 2, "y": box["height"] - 70})
        await sees(page, ".crumbs [aria-current]", "default/web-")
        await page.locator(".map").press("0")
        await playwright.expect(page.locator(".crumbs")).to_have_count(0, timeout=PATIENT_MS)


async def test_an_address_holds_the_whole_view(story, serve, browser):
    """Zoom, step of the funnel, colours, area, range of time and a what-if: another browser shows the same."""
    shown = story("zone-spread")
    async with serve(shown, files=page_files()) as server:
        first = "#lang=en&t=end&area=equal&node=node1"
        async with browser(server.link + first, reduced_motion="reduce") as page:
            await sees(page, ".nodePanel h2", "node1")
            await page.get_by_role("tab", name="Why").click()
            await page.locator(".funnel button.what").first.click()
            await page.get_by_role("tab", name="node1").click()
            await page.get_by_role("button", name="it is drained").click()
            await sees(page, ".whatIfPanel .figures", "find")
            await page.get_by_role("button", name="zoom in").click()
            names = ("zoom=", "step=0", "if=drain", "area=equal", "tab=whatIf")
            await page.wait_for_function(
                "(names) => names.every((each) => location.hash.includes(each))", arg=list(names), timeout=PATIENT_MS
            )
            link, zoom = page.url, await page.evaluate("() => location.hash.match(/zoom=([^&]*)/)[1]")
            drained = await page.locator(".whatIfPanel .figures").text_content()
        async with browser(link) as page:
            await sees(page, ".whatIfPanel .figures", drained)
            await sees(page, ".crumbs", "whole map")
            await page.get_by_role("tab", name="Why").click()
            await playwright.expect(page.locator(".funnel button.what").first).to_have_attribute(
                "aria-pressed", "true", timeout=PATIENT_MS
            )
            assert f"zoom={zoom}" in page.url


async def test_pods_have_the_colours_that_the_legend_tells(tmp_path: Path, serve, browser):
    pods = [
        bound(make_pod(f"{name}-{i}", namespace=name, cpu="1"), "a") for name in ("shop", "search") for i in range(2)
    ]
    shown = recorded(tmp_path / "colours.mooring", make_pod("large", cpu="64"), make_node("a", cpu="8"), *pods)
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en&t=end") as page:
        await sees(page, ".funnel", "no node fits")
        await page.get_by_label("colour", exact=False).first.select_option("namespace")
        await sees(page, ".legend", "search 2")
        # The map is drawn a frame later than the legend.
        await page.wait_for_function(
            """() => {
            const colours = [...document.querySelectorAll(".legend .dot")]
                .map((each) => getComputedStyle(each).backgroundColor.match(/\\d+/g).map(Number).join());
            const { width, height } = document.querySelector(".map canvas");
            const copy = new OffscreenCanvas(width, height).getContext("2d");
            copy.drawImage(document.querySelector(".map canvas"), 0, 0);
            const { data } = copy.getImageData(0, 0, width, height), drawn = new Set();
            for (let i = 0; i < data.length; i += 4) drawn.add([data[i], data[i + 1], data[i + 2]].join());
            return colours.filter((colour) => drawn.has(colour)).length >= 2; // each of the two namespaces
        }""",
            timeout=PATIENT_MS,
        )


async def test_escape_closes_stories_and_the_first_story_is_named(story, serve, browser):
    options = {"files": page_files(), "stories": BuiltInStories()}
    async with serve(story("preemption"), **options) as server, browser(server.link + "#lang=en&tab=change") as page:
        await sees(page, ".stories", "preemption The cluster is full when something important comes")
        await page.keyboard.press("Escape")
        await playwright.expect(page.locator(".stories")).to_have_count(0, timeout=PATIENT_MS)
        await sees(page, ".whyPanel", "preemption")


async def test_an_empty_map_says_what_to_do(story, serve, browser):
    async with (
        serve(story("first-placement"), files=page_files()) as server,
        browser(server.link + "#lang=en&t=begin") as page,
    ):
        await sees(page, ".nothing", "There are no nodes at this moment. Press → for the next decision.")
        await page.keyboard.press("ArrowRight")
        await playwright.expect(page.locator(".nothing")).to_have_count(0, timeout=PATIENT_MS)


async def test_one_tab_of_the_inspector_is_open_and_arrows_lead_through_them(story, serve, browser, built_page):
    async with serve(story("preemption"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await sees(page, ".whyPanel", "preemption")
        await page.get_by_role("tab", name="Why").focus()
        for panel in ("nodePanel", "whatIfPanel", "savePanel", "whyPanel"):
            await page.keyboard.press("ArrowRight")
            await playwright.expect(page.locator(f".tabPanel > .{panel}")).to_be_visible(timeout=PATIENT_MS)
            assert await page.locator(".tabPanel > *").count() == 1
            assert await violations(page, built_page) == []


async def test_the_keyboard_alone_is_enough(story, serve, browser):
    """Every control is reached by Tab, has a name, and shows that it has the focus; nothing holds it."""
    async with serve(story("preemption"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await sees(page, ".whyPanel", "preemption")
        seen: list[str] = []
        for _ in range(120):
            await page.keyboard.press("Tab")
            found = await page.evaluate("""() => {
                const at = document.activeElement, style = getComputedStyle(at);
                if (at === document.body) return null;
                const label = at.closest("label")?.textContent || at.getAttribute("aria-label") || at.textContent;
                const { width } = at.getBoundingClientRect();
                return { name: label.trim(), ring: style.outlineStyle !== "none", box: width };
            }""")
            if found is None:
                break
            assert found["name"] and found["ring"] and found["box"] > 0, found
            seen.append(found["name"])
        else:
            raise AssertionError("the focus never leaves the page")
        for wanted in ("beginning", "play", "step by step", "Map", "zoom in", "Why", "default/cheap-2", "time"):
            assert any(wanted in each for each in seen), f"{wanted}: {seen}"


async def test_two_tabs_of_a_record_do_not_disturb_each_other(story, serve, browser):
    async with (
        serve(story("preemption"), files=page_files()) as server,
        browser(server.link + "#lang=en&t=begin") as one,
        browser(server.link + "#lang=en&t=end&pod=default/important") as other,
    ):
        await sees(other, ".whyPanel .subject", "default/important")
        await sees(one, ".whyPanel", "There is no decision yet.")
        await one.keyboard.press("l")
        await sees(one, ".headline p", "default/important evicts 1 pod from node2.")
        await sees(other, ".whyPanel", "1 can take it")
        await other.keyboard.press("Home")
        await sees(other, ".whyPanel", "no decision at this moment")
        await sees(one, ".whyPanel", "When they are gone")


# What can be seen beyond the right edge; what scrolls or is clipped by itself may be wider.
BEYOND = """() => {
  const isHeld = (each) => each && (getComputedStyle(each).overflowX !== "visible" || isHeld(each.parentElement));
  return [...document.querySelectorAll("main *, header *")]
    .filter((each) => each.offsetParent && each.getBoundingClientRect().right > innerWidth + 1)
    .filter((each) => !isHeld(each.parentElement.closest("main *, header *")))
    .map((each) => `${each.tagName}.${each.className}: ${each.textContent.slice(0, 40)}`);
}"""


@pytest.mark.parametrize("width", [390, 1440])
async def test_long_names_stay_within_their_panels(tmp_path: Path, serve, browser, width):
    labels = {f"example.com/{LONG}": LONG, "topology.kubernetes.io/zone": LONG}
    pod = make_pod(LONG, namespace=LONG, cpu="64")
    node = make_node(LONG, cpu="4", labels=labels, taints=[{"key": LONG, "value": LONG, "effect": "NoSchedule"}])
    running = bound(make_pod(f"{LONG[:-2]}-2", namespace=LONG, cpu="1"), LONG)
    shown = recorded(tmp_path / f"{LONG}.mooring", pod, node, running)
    async with serve(shown, files=page_files()) as server:
        link = f"{server.link}#lang=en&t=end&node={LONG}&tab=why"
        async with browser(link, width=width) as page:
            for view in range(3 if width < 900 else 1):  # one instant has no view of time
                if width < 900:
                    await page.locator(".tabs button").nth(view).click()
                if view == 1 or width >= 900:
                    await sees(page, ".whyPanel", LONG)
                assert await page.evaluate(BEYOND) == []
                assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


async def test_markup_in_any_field_is_text(tmp_path: Path, serve, browser):
    """Containers, owners, annotations, messages, what a what-if asks, and what the server answers."""
    spec = {"containers": [{"name": EVIL, "image": EVIL, "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}]}
    owner = {"apiVersion": "v1", "kind": EVIL, "name": EVIL, "uid": "u", "controller": True}
    running = bound(
        make_pod(
            "web",
            spec=spec | {"priorityClassName": EVIL},
            annotations={EVIL: EVIL},
            metadata={"ownerReferences": [owner]},
        ),
        "node",
    )
    node = make_node("node", cpu="2", labels={EVIL: EVIL}, taints=[{"key": "k", "value": EVIL, "effect": "NoSchedule"}])
    waiting = make_pod("large", cpu="64", annotations={EVIL: EVIL})
    shown = recorded(tmp_path / "hostile.mooring", waiting, node, running, message=EVIL)
    link = f"#lang=en&t=end&colour=owner&by={quote(EVIL)}&if={quote(f'lose={EVIL}')}&tab=whatIf"
    async with serve(shown, files=page_files()) as server, browser(server.link + link) as page:
        await sees(page, ".whatIfPanel .warning", EVIL)  # the server does not know such a node
        await sees(page, ".legend", f"{EVIL}/{EVIL}")
        box = await page.locator(".map canvas").bounding_box()
        await page.locator(".map canvas").hover(position={"x": box["width"] / 2, "y": box["height"] * 0.8})
        await sees(page, ".tip", f"{EVIL}: cpu 1")
        page.wrong.clear()  # the browser says that the question was refused
        await page.keyboard.press("Escape")
        await page.locator(".map").press("Shift+ArrowRight")
        await sees(page, ".nodePanel", f"k={EVIL}:NoSchedule")
        await sees(page, ".nodePanel", f"{EVIL}={EVIL}")
        assert await page.locator("img").count() == 0


@pytest.mark.parametrize("name", ["dump.yaml", "dump.json"])
async def test_a_dump_is_one_instant_without_time(serve, browser, tmp_path, name):
    cluster = (Path(__file__).parents[2] / "examples" / "what-if" / "cluster.yaml").read_text(encoding="utf-8")
    items = list(pyyaml.safe_load_all(cluster))
    dump = tmp_path / name
    dump.write_text(cluster if dump.suffix == ".yaml" else json.dumps({"kind": "List", "items": items}))
    shown = await asyncio.to_thread(opened, dump)  # a story runs an event loop of its own
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await sees(page, ".whyPanel", "No decision was made up to here.")
        assert await page.locator(".timePanel").count() == 0
        assert "Time" not in await page.locator(".tabs").inner_text()
