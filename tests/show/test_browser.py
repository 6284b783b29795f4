"""The page in a real browser, on a real server: what people see, with which keys, and that nothing leaves it."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import random
import re
import socket
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet
import pytest

from mooring.ask.sweep_file import load_sweep, pivot
from mooring.cli.pages import BuiltInStories
from mooring.core.config.load import config_from_dict
from mooring.core.config.wire import to_wire
from mooring.record import entries
from mooring.record.files import FORMAT
from mooring.record.meter import Meter
from mooring.record.reader import Record
from mooring.record.writer import RecordWriter
from mooring.show.answers import ClusterEditing
from mooring.show.exports import one_file, page_files
from mooring.show.figures import ReportedRun
from mooring.show.notebook import Page
from mooring.show.report import write_report
from mooring.show.shown import Shown, played, source_for
from mooring.show.source import RecordFile
from mooring.show.sweep_page import write_page
from mooring.sim.scenario import Scenario, ScenarioCluster, node, pod
from mooring.sim.worlds import EmbeddedWorld, PlaySettings
from mooring.testing import make_node, make_pod

from .browsing import PATIENT_MS, playwright, sees, violations

SWEEP = """
title: Allocation
command: simulate story.yaml --set policy=${policy} --set day=${day} --seed ${seed}
over:
  day: [Monday, Tuesday]
  policy: [one, two, three, four, five, six]
seeds: [1, 2]
table: {rows: day, columns: policy, value: x, page: page.html}
"""
pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]


async def test_the_first_placement_from_the_last_key_to_the_first(story, serve, browser):
    async with (
        serve(story("first-placement"), files=page_files()) as server,
        browser(server.link + "#lang=en&t=end") as page,
    ):
        await sees(page, ".whyPanel", "1 can take it")
        await sees(page, ".funnel", "NodeUnschedulable −9")
        await sees(page, ".mapPanel header", "10 nodes · 1 pod")
        await page.keyboard.press("ArrowLeft")  # to the decision before
        await sees(page, ".whyPanel .subject", "unschedulable")
        await sees(page, ".message", "0/9 nodes are available: 9 node(s) were unschedulable.")
        await sees(page, ".mapPanel header", "9 nodes · 0 pods")
        await sees(page, ".queuePanel .row", "default/pod1")
        await page.keyboard.press("j")
        await sees(page, ".queuePanel .row button[aria-pressed=true]", "NodeUnschedulable · wakes on: NodeAdd")
        await page.keyboard.press("Home")
        await sees(page, ".whyPanel", "no decision at this moment")
        await page.keyboard.press("/")
        await page.keyboard.type("node10")
        await page.keyboard.press("Enter")
        await sees(page, ".nodePanel", "It is not there at this moment")
        await page.keyboard.press("End")
        await sees(page, ".nodePanel", "default/pod1")
        await page.keyboard.press("Escape")
        await playwright.expect(page.locator(".nodePanel")).to_have_count(0, timeout=PATIENT_MS)


@pytest.mark.parametrize(
    ("scheme", "width", "language", "words"),
    [
        pytest.param("dark", 1280, "en", "without evicting", id="dark, wide, English"),
        pytest.param("light", 1280, "ja", "退避せずに解決する変更", id="light, wide, Japanese"),
        pytest.param("light", 390, "zh", "不驱逐时的办法", id="light, narrow, Chinese"),
    ],
)
async def test_everybody_can_use_it(story, serve, browser, built_page, scheme, width, language, words):
    shown = story("preemption")
    async with serve(shown, files=page_files()) as server:
        link = f"{server.link}#lang={language}&pod=default/important&node=node1&tab=why"
        async with browser(link, width=width, color_scheme=scheme) as page:
            if width < 900:
                await page.locator(".tabs button").nth(1).click()
            await page.keyboard.press("Home")
            await page.keyboard.press("ArrowRight")
            await sees(page, ".whyPanel", words)
            assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
            assert await page.get_attribute("html", "lang") == language
            assert await violations(page, built_page) == []


EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A record in which everything is named as an attacker would."""
    target = make_node(
        EVIL,
        labels={"topology.kubernetes.io/zone": EVIL},
        taints=[{"key": EVIL, "value": EVIL, "effect": "NoSchedule"}],
    )
    evil = make_pod(EVIL, namespace=EVIL, cpu="100")
    header = entries.Header(
        format=FORMAT, mooring=EVIL, kubernetes="1.36", configuration=to_wire(config_from_dict(None))
    )
    path = tmp_path / f"{EVIL.replace('/', '')}.mooring"
    with path.open("wb") as file:
        writer = RecordWriter(file, header)
        writer.write_state(1.0, [])
        attempt = entries.Attempt(
            1, evil.key, evil.uid, "default-scheduler", "unschedulable", message=EVIL, plugins=(EVIL,)
        )
        items = [target, evil, entries.Moved(evil.key, evil.uid, "active", EVIL), attempt]
        writer.write([2.0] * 5, [*items, entries.Moved(evil.key, evil.uid, "unschedulable", EVIL, EVIL)])
        writer.close(3.0)
    return path


async def test_hostile_names_are_text(serve, browser, hostile):
    shown = Shown(hostile.name, RecordFile(hostile))
    shown.refresh()
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await sees(page, ".queuePanel .row", f"{EVIL}/{EVIL}")
        await sees(page, ".whyPanel", "untolerated taint")
        await page.keyboard.press("/")
        await page.keyboard.type("<img")
        await page.keyboard.press("Enter")
        await page.locator(".map").press("Shift+ArrowRight")  # to the first node
        await sees(page, ".nodePanel", f"{EVIL}={EVIL}:NoSchedule")
        assert await page.locator("img").count() == 0


def port_that_stays() -> int:
    """A free port, from where the system takes none for others: a server that comes back finds it free again."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a hundred ports are taken")


async def test_a_live_cluster_two_tabs_an_edit_and_a_server_that_comes_back(serve, browser, built_page):
    source = source_for(None)
    settings = PlaySettings(level=0, write=lambda line: None, observers=(source.recorder,))
    shown = Shown("live", source)
    async with EmbeddedWorld(settings) as world:
        options = {
            "editing": ClusterEditing(world.cluster, world.scheduler),
            "files": page_files(),
            "token": "a-token-that-stays",
            "port": port_that_stays(),
        }
        async with serve(shown, **options) as server:
            link = server.link + "#lang=en"
            opened = browser(link)
            page = await opened.__aenter__()
            other = await page.context.new_page()
            await other.goto(link)
            await page.get_by_role("tab", name="Change").click()
            await page.get_by_role("button", name="Pod", exact=True).click()
            await page.get_by_role("button", name="apply").click()
            await sees(page, ".editPanel [role=status]", "applied: pod/web-1")
            for each in (page, other):  # both are notified
                await sees(each, ".queuePanel .row", "default/web-1")
            text = await page.locator("textarea").input_value()
            await page.locator("textarea").fill(text.replace("cpu: 500m", "cpu: -1"))
            await page.get_by_role("button", name="apply").click()
            await sees(page, ".editPanel [role=status]", "must be greater than or equal to 0")
            await page.get_by_role("button", name="Node", exact=True).click()
            await page.get_by_role("button", name="apply").click()
            await sees(page, ".mapPanel header", "1 node")
        await sees(page, "[role=alert]", "the server does not answer; trying again")
        page.wrong.clear()  # that requests failed is what this is about
        await world.cluster.create(node("meanwhile"))
        async with serve(shown, **options):
            for each in (page, other):  # both go on, with what they missed and with what comes
                await playwright.expect(each.locator("[role=alert]")).to_have_count(0, timeout=PATIENT_MS)
                await sees(each, ".mapPanel header", "2 nodes")
            await world.cluster.create(node("after"))
            for each in (page, other):
                await sees(each, ".mapPanel header", "3 nodes")
            page.wrong.clear()
            await opened.__aexit__(None, None, None)


async def test_the_scheduler_is_configured_and_a_lesson_is_played(serve, browser, built_page):
    source = source_for(None)
    settings = PlaySettings(level=0, write=lambda line: None, observers=(source.recorder,))
    async with EmbeddedWorld(settings) as world:
        editing = ClusterEditing(world.cluster, world.scheduler)
        options = {"editing": editing, "stories": BuiltInStories(), "files": page_files()}
        async with serve(Shown("live", source), **options) as server, browser(server.link + "#lang=en") as page:
            await sees(page, ".mapPanel", "There are no nodes at this moment")
            await page.get_by_role("tab", name="Change").click()
            await page.get_by_role("button", name="configuration").click()
            area = page.locator("textarea")
            await playwright.expect(area).to_have_value(re.compile("KubeSchedulerConfiguration"), timeout=PATIENT_MS)
            whole = await area.input_value()
            await area.fill(whole.replace("- name: NodeResourcesFit\n", "- name: NodeResourceFit\n", 1))
            await page.get_by_role("button", name="apply").click()
            await sees(page, ".editPanel [role=status]", "did you mean NodeResourcesFit?")
            await area.fill(whole.replace("parallelism: 16", "parallelism: 5"))
            await page.get_by_role("button", name="check").click()
            await sees(page, ".editPanel [role=status]", "no mistakes found")
            assert world.scheduler.config.parallelism == 16
            await page.get_by_role("button", name="apply").click()
            await sees(page, ".editPanel [role=status]", "the scheduler now uses it")
            assert world.scheduler.config.parallelism == 5
            assert await violations(page, built_page) == []
            await page.get_by_role("group").get_by_role("button", name="stories").click()
            await page.get_by_role("button", name="Lesson 2").click()
            await sees(page, ".title", "Lesson 2")
            await sees(page, ".guide-card a", "Lesson 2")
            await page.get_by_role("button", name="next", exact=True).click()
            await sees(page, ".guide-card", "1 of")


async def test_what_if_on_the_map(story, serve, browser):
    shown = story("zone-spread")
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en&node=node1") as page:
        for question, says in (
            ("it is lost", "✕ lost 1"),
            ("it is drained", "✕ drained 1"),
            ("a is lost", "✕ lost 2"),
            ("3 more like it", "+ 3 new nodes"),
        ):
            await page.get_by_role("button", name=question, exact=True).click()
            await sees(page, ".legend", says)
        await page.locator(".legend").get_by_role("button", name="close").click()
        await playwright.expect(page.locator(".whatIfPanel")).to_have_count(0, timeout=PATIENT_MS)
        await page.keyboard.press("Home")
        await page.keyboard.press("ArrowRight")
        await page.get_by_role("tab", name="Why").click()
        await page.locator(".what-if input").fill("7")
        await page.locator(".what-if").get_by_role("button", name="try").click()
        await sees(page, ".whatIfPanel .subject", "has weight 7")
        await sees(page, ".whatIfPanel", "pods would be elsewhere, if all were placed anew")


async def test_what_another_node_lacks_to_win(story, serve, browser):
    """The points between two totals, and a weight with which a fork lets that node win."""
    shown = story("zone-spread")
    event = shown.timeline.attempt_events[4]
    told, names = shown.why(shown.moment(event)()), shown.timeline.nodes.values
    totals = dict(zip(*told["totals"], strict=True))
    rival, other = [row for row in sorted(totals, key=totals.get, reverse=True) if row != told["node"]][:2]
    link = f"#lang=en&event={event + 1}"
    async with serve(shown, files=page_files()) as server, browser(server.link + link) as page:
        lines = page.locator(".whyPanel .rivals li")
        for line, row in ((0, rival), (1, other)):
            lacks = totals[told["node"]] - totals[row] + 1
            says = f"{names[row]} needs {lacks} more point"
            await playwright.expect(lines.nth(line)).to_contain_text(says, timeout=PATIENT_MS)
        offered = lines.nth(0).get_by_role("button")
        plugin, weight = re.fullmatch(r"try (\w+) with weight (\d+)", await offered.inner_text()).groups()
        await offered.click()
        await sees(page, ".whatIfPanel .subject", f"{plugin} has weight {weight}")
        await sees(page, ".whatIfPanel .best", f"★ {names[rival]}")


async def test_each_step_leads_into_the_course_in_every_language(story, serve, browser, built_page):
    """The link of a step opens its chapter beside the map, and is in the address as everything else."""
    async with serve(story("first-placement"), files=page_files()) as server:
        async with browser(server.link + "#lang=en&guide") as page:
            await sees(page, ".guide-card a", "Lesson 6: a scheduling queue")
            await page.keyboard.press("ArrowRight")
            await sees(page, ".guide-card a", "Lesson 2: filter plugins")
            await page.locator(".guide-card a").click()
            await sees(page, ".coursePanel", "What was wrong before")
            for language, says in (("ja", "これまでの問題"), ("zh", "之前有什么问题")):
                await page.locator("select.language").select_option(language)
                await sees(page, ".coursePanel", says)
                assert await violations(page, built_page) == []
            await page.wait_for_function(
                "() => location.hash.includes('course=2') && location.hash.includes('lang=zh')"
            )
            address = page.url
            await page.locator(".coursePanel .subject button.quiet").click()
            await playwright.expect(page.locator(".coursePanel")).to_have_count(0, timeout=PATIENT_MS)
        async with browser(address) as page:  # sent to another person
            await sees(page, ".coursePanel", "之前有什么问题")
            await sees(page, ".guide-card a", "第 2 课")


async def saved(page: Any, where: Any) -> bytes:
    """What a click saves."""
    async with page.expect_download() as waiting:
        await where.click()
    download = await waiting.value
    return await asyncio.to_thread(Path(await download.path()).read_bytes)


async def test_what_can_be_taken_away(story, serve, browser, built_page):
    shown = story("preemption")
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await page.get_by_role("tab", name="Save").click()
        assert await violations(page, built_page) == []
        rows = page.locator(".savePanel dd")
        for i in (0, 1):
            assert (await saved(page, rows.nth(i).get_by_text("PNG"))).startswith(b"\x89PNG")
            drawn = ElementTree.fromstring(await saved(page, rows.nth(i).get_by_text("SVG")))
            assert len(list(drawn)) > 8
        table = list(csv.DictReader((await saved(page, rows.nth(2).get_by_text("CSV"))).decode().splitlines()))
        assert len(table) == len(shown.timeline.attempt_events)
        assert (table[-1]["pod"], table[-1]["outcome"], table[-1]["node"]) == (
            "default/important",
            "scheduled",
            "node2",
        )
        parquet = await saved(page, rows.nth(2).get_by_text("Parquet"))
        assert pyarrow.parquet.read_table(io.BytesIO(parquet)).num_rows == len(table)
        assert json.loads(await saved(page, rows.nth(3).get_by_text("JSON")))["traceEvents"]
        assert b"Content-Security-Policy" in await saved(page, rows.nth(4).get_by_text("HTML"))


async def test_five_thousand_nodes(large, serve, browser):
    """Every view of a large record; the numbers of an instant are those that the record gives."""
    shown = Shown(large.name, RecordFile(large))
    shown.refresh()
    with Record.open(large) as record:
        moment = record.moment(record.last_time)
    rows, waiting = moment.state.nodes(), sum(each.place == "unschedulable" for each in moment.queue.values())
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en&t=end") as page:
        await sees(page, ".mapPanel header", f"5,000 nodes · {sum(rows.pod_count):,} pods")
        await sees(page, ".lanes", f"unschedulable {waiting}")
        await sees(page, ".funnel", "TaintToleration −")
        await sees(page, ".whyPanel", "can take it")
        await page.locator(".map canvas").hover(position={"x": 60, "y": 60})
        await sees(page, ".tip", "node-")
        await page.keyboard.press("j")
        await sees(page, ".whyPanel .subject", "unschedulable")
        await sees(page, ".whyPanel", "what would help")
        await page.keyboard.press("/")
        await page.keyboard.type("node-4321")
        await page.keyboard.press("Enter")
        at = next(i for i, info in enumerate(rows.infos) if info.name == "node-4321")
        await sees(page, ".nodePanel .meter .number", f"of {int(rows.allocatable('cpu')[at]) // 1000}")
        await page.locator(".scrub input").fill(str(round(shown.timeline.now / 2)))
        await sees(page, ".mapPanel header", "5,000 nodes")
        await page.keyboard.press("End")
        for _ in range(12):
            await page.locator(".map").press("+")  # until pods are blocks
        assert await page.locator(".strip").count() == 4


async def test_two_records_and_where_they_part(browser, serve, built_page):
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}],
    }

    async def play(more: str, cluster: ScenarioCluster) -> None:
        for name in ("a", "b", *more):
            await cluster.create(node(name))
        for i in range(3):
            await cluster.create(pod(f"web-{i}", cpu="500m", memory="2Gi"))
            await cluster.expect_pod(f"web-{i}", phase="Running")

    with ThreadPoolExecutor(1) as thread:
        records = [
            thread.submit(played, Scenario(name, name, partial(play, more), given)).result()
            for name, given, more in (("spread", None, ""), ("packed", config, "cdefghijkl"))
        ]
    async with serve(*records, files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await sees(page, ".comparePanel", "went elsewhere")
        await page.get_by_role("button", name="the first difference").click()
        await sees(page, ".comparePanel", "B · packed")
        await sees(page, ".comparePanel .best", "★")
        maps, tips = page.locator(".map canvas"), page.locator(".tip")
        assert await maps.count() == 2
        found = []
        for number in (0, 1):  # cells of one size, each node at the same place, however many nodes there are
            await maps.nth(number).hover(position={"x": 120, "y": 60})
            await playwright.expect(tips.nth(number)).to_contain_text("cpu", timeout=PATIENT_MS)
            found.append((await tips.nth(number).inner_text()).splitlines()[0])
        assert found[0] == found[1] and found[0] in "ab"


async def test_one_file_needs_no_server(story, browser, tmp_path, built_page):
    path = tmp_path / "page.html"
    path.write_text(one_file([story("preemption")]), encoding="utf-8")
    async with browser(f"file://{path}#lang=en&guide") as page:
        await sees(page, ".whyPanel .subject", "scheduled")
        await page.keyboard.press("Home")
        await page.keyboard.press("ArrowRight")
        await sees(page, ".guide-card", "is the next pod in the queue")
        for says in ("Each score plugin gives points to the 2 nodes", "2 nodes have the same total", "is bound to"):
            await page.keyboard.press("ArrowRight")
            await sees(page, ".guide-card", says)


async def test_every_instant_shows_what_the_record_says_of_it(story, serve, browser):
    """The page makes the state of an instant itself; ``mooring replay --at`` shows what the record makes of it."""
    shown = story("preemption")
    times = shown.timeline.events.columns["time"].tolist()
    async with serve(shown, files=page_files()) as server, browser(server.link + "#lang=en") as page:
        for time in sorted(set(times)):
            with shown.source.opener()() as record:
                moment = record.moment(record.header.started + time + 1e-7)
            rows = moment.state.nodes()
            for i, info in enumerate(rows.infos):
                hash_ = f"#lang=en&event={bisect_right(times, time)}&node={info.name}"
                await page.evaluate("(hash) => { location.hash = hash; }", hash_)
                requested, whole = (int(column[i]) for column in (rows.requested("cpu"), rows.allocatable("cpu")))
                text = f"{requested / 1000:g} of {whole / 1000:g}" if requested % 1000 == 0 else f"{requested}m"
                await sees(page, ".nodePanel h2", info.name)
                await sees(page, ".nodePanel .meter .number", text)
                await sees(page, ".mapPanel header", f"{len(rows.infos)} nodes · {sum(rows.pod_count)} pod")
            for place in ("active", "backoff", "unschedulable", "gated"):
                waiting = sum(each.place == place for each in moment.queue.values())
                await sees(page, f".lanes button:has-text('{place}')", f"{place} {waiting}")


LATE = """addEventListener("hashchange", (event) => {
  if (event.isLate) return;
  event.stopImmediatePropagation();
  setTimeout(() => dispatchEvent(Object.assign(new HashChangeEvent("hashchange"), { isLate: true })), 600);
});"""


async def test_an_address_that_changes_while_the_last_one_is_being_written_counts(story, serve, browser):
    """On a busy machine a page may learn late of a followed link, and write its own address meanwhile."""
    async with serve(story("preemption"), files=page_files()) as server, browser(server.link + "#lang=en") as page:
        await page.add_init_script(LATE)
        await page.reload()
        await page.evaluate("() => { location.hash = '#lang=en&event=3&node=node1'; }")
        await sees(page, ".nodePanel h2", "node1")
        await page.evaluate("""() => {
          document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
          location.hash = "#lang=en&event=3&node=node2";
        }""")
        await sees(page, ".nodePanel h2", "node2")


async def test_a_notebook_shows_the_page_in_a_frame(browser, tmp_path, built_page):
    cell = Page("preemption")
    assert repr(cell) == "<Page: The cluster is full when something important comes>"
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8><div class=top>{cell._repr_html_()}</div>", encoding="utf-8")
    async with browser(f"file://{path}") as page:
        await playwright.expect(page.frame_locator("iframe").locator(".whyPanel")).to_contain_text(
            "default/important", timeout=PATIENT_MS
        )


async def test_numbers_of_a_sweep_stay_on_one_line_on_a_narrow_screen(launched, tmp_path, built_page):
    specification = tmp_path / "sweep.yaml"
    specification.write_text(SWEEP)
    sweep = load_sweep(specification)
    records = [{**row.values, "x": 87.56 + row.values["seed"]} for row in sweep.rows]
    path = write_page(sweep, pivot(records, sweep.table), len(records), tmp_path)
    page = await launched.new_page(viewport={"width": 360, "height": 640})
    await page.goto(f"file://{path}")
    assert "±" in await page.locator("td").nth(1).inner_text()
    heights = await page.evaluate("[...document.querySelectorAll('td')].map((cell) => cell.clientHeight)")
    assert len(set(heights)) == 1 and heights[0] < 48, "one line each"
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the table scrolls, not the page"
    assert await violations(page, built_page) == []
    await page.close()


async def test_a_report_shows_why_pods_wait_on_a_narrow_screen(launched, tmp_path, built_page):
    meter, waits = Meter(), make_pod("web", cpu="64")
    meter.put(0, waits)
    meter.refused(1, waits.uid, frozenset(("NodeResourcesFit",)))
    meter.explained(waits.uid, "0/3 nodes are available: 3 Insufficient cpu. " * 3)
    path = tmp_path / "report.html"
    write_report([ReportedRun("monday", meter.finish(3600))], path)
    page = await launched.new_page(viewport={"width": 400, "height": 640})
    await page.goto(f"file://{path}")
    right = await page.locator("td.message").evaluate("(cell) => cell.getBoundingClientRect().right")
    assert right <= 400 and "Insufficient cpu" in await page.locator("td.message").inner_text()
    assert await violations(page, built_page) == []
    await page.emulate_media(color_scheme="dark")
    assert await violations(page, built_page) == []
    await page.close()
