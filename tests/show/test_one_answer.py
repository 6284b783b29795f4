"""One answer: the same questions, asked by command line, Python, MCP, page and notebook, are answered alike."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from mcp import Client

import mooring
from mooring.ask.scheduler import Scheduler
from mooring.cli.main import run
from mooring.cli.mcp import make_server
from mooring.cli.output import plain
from mooring.show.notebook import _shown, widget

pytest.importorskip("anywidget", reason="anywidget comes with the extra [notebook]")


def node(name: str, zone: str, cpu: int = 4) -> str:
    labels = f"{{kubernetes.io/hostname: {name}, topology.kubernetes.io/zone: {zone}}}"
    size = f"{{cpu: '{cpu}', memory: 8Gi, pods: '110'}}"
    return (
        f"{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {labels}}}, status: {{allocatable: {size}}}}}"
    )


def pod(name: str, cpu: str, more: str = "") -> str:
    container = f"{{name: c, image: i, resources: {{requests: {{cpu: '{cpu}'}}}}}}"
    owner = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]"
    meta = f"{{name: {name}, namespace: shop, uid: {name}, {owner}}}"
    return f"{{apiVersion: v1, kind: Pod, metadata: {meta}, spec: {{{more}containers: [{container}]}}}}"


CLUSTER = "\n---\n".join(
    [
        *(node(name, zone) for name, zone in (("a", "north"), ("b", "north"), ("c", "south"))),
        pod("web", "3", "nodeName: a, "),
        pod("db", "2", "nodeName: c, "),
        pod("large", "9"),
        pod("foreign", "8", "schedulerName: volcano, "),
        pod("fits", "2"),
    ]
)
NEW = pod("new", "1500m")
CONFIG = """
{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: [{pluginConfig: [
  {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]}]}
"""


class Doors:
    """Every way to ask about one cluster, which is in a file."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        for name, text in (("cluster.yaml", CLUSTER), ("new.yaml", NEW), ("packing.yaml", CONFIG)):
            (folder / name).write_text(text)
        self.cluster = mooring.load(folder / "cluster.yaml")

    def path(self, name: str) -> str:
        return str(self.folder / name)

    async def command(self, *arguments: str) -> Any:
        self._capsys.readouterr()
        asked = [*arguments, "--cluster", self.path("cluster.yaml"), "-o", "json"]
        code = await asyncio.to_thread(run, asked)
        out, err = self._capsys.readouterr()
        assert code in (0, 1), err
        return json.loads(out)

    async def mcp(self, tool: str, **arguments: Any) -> Any:
        async with Client(make_server(lambda: Scheduler(self.cluster))) as client:
            result = await client.call_tool(tool, arguments)
        text = "".join(getattr(part, "text", "") for part in result.content)
        assert not result.is_error, text
        return json.loads(text)


@pytest.fixture
def doors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doors:
    return Doors(tmp_path, capsys)


def same(*answers: Any) -> None:
    """All of them, as JSON has them."""
    first, *others = (json.loads(json.dumps(plain(answer))) for answer in answers)
    for other in others:
        assert other == first


Ask = Callable[[Doors], Any]


@pytest.mark.filterwarnings("ignore:.*is for volcano")
@pytest.mark.parametrize("name", ["fits", "large", "foreign"])
async def test_why_does_a_pod_of_the_cluster_wait(name: str, doors: Doors) -> None:
    key = f"shop/{name}"
    found = mooring.explain(doors.cluster, key)
    same(found.to_dict(), await doors.command("explain", key), await doors.mcp("explain", pod=key))


async def test_why_would_a_new_pod_go_there(doors: Doors) -> None:
    found = mooring.explain(doors.cluster, doors.path("new.yaml"))
    same(
        found.to_dict(),
        await doors.command("explain", "--pod", doors.path("new.yaml")),
        await doors.mcp("explain", pod=NEW),
    )


@pytest.mark.parametrize("copies", [None, 2, 50])
async def test_how_many_more_fit(copies: int | None, doors: Doors) -> None:
    found = mooring.capacity(doors.cluster, doors.path("new.yaml"), copies)
    asked = [] if copies is None else ["--copies", str(copies)]
    same(
        found.to_dict(),
        await doors.command("capacity", "--pod", doors.path("new.yaml"), *asked),
        await doors.mcp("capacity", pod=NEW, copies=copies),
    )


@pytest.mark.parametrize("lose", ["node", "zone", "north"])
async def test_what_would_be_lost(lose: str, doors: Doors) -> None:
    found = mooring.drill(doors.cluster, lose)
    told = await doors.mcp("drill", lose=lose)
    same(found.to_list(), await doors.command("drill", "--lose", lose), told["losses"])
    assert (told["isSafe"], told["tried"]) == (found.is_safe, len(found.losses))


@pytest.mark.filterwarnings("ignore:.*is for volcano")
@pytest.mark.parametrize("which", ["pending", "all"])
async def test_what_would_another_configuration_move(which: Any, doors: Doors) -> None:
    packing = doors.path("packing.yaml")
    found = mooring.diff(Scheduler(doors.cluster), Scheduler(doors.cluster, packing), which)
    said = await doors.command("diff", "--config", packing, *(["--all"] if which == "all" else []))
    told = await doors.mcp("diff", config=CONFIG, all_pods=which == "all")
    same(found.to_dict(), {key: value for key, value in said.items() if key not in ("before", "after")}, told)


async def test_which_nodes_to_add(doors: Doors) -> None:
    found = mooring.plan(doors.cluster, pods={doors.path("new.yaml"): 9})
    same(found.to_dict(), await doors.command("plan", "--pod", f"{doors.path('new.yaml')}=9"))
    same(mooring.plan(doors.cluster).to_dict(), await doors.command("plan"), await doors.mcp("plan"))


async def test_which_mistakes_are_in_a_manifest(doors: Doors) -> None:
    found = mooring.lint(doors.path("new.yaml"), cluster=doors.cluster)
    same(found.to_dict(), await doors.command("lint", doors.path("new.yaml")))
    given = mooring.lint(NEW.encode(), cluster=doors.cluster)
    same(given.to_dict(), await doors.mcp("lint", manifest=NEW))
    assert [(each.rule, each.line) for each in given] == [(each.rule, each.line) for each in found]


# ---- page and notebook: they explain the decisions of a record ------------------------------------------------------


async def asked_page(link: str, path: str) -> Any:
    async with aiohttp.ClientSession() as session, session.get(link + path) as answer:
        assert answer.status == 200, await answer.text()
        return msgspec.json.decode(await answer.read())


@pytest.mark.filterwarnings("ignore:.*is for volcano")
async def test_page_and_notebook_explain_as_python_does(doors: Doors, serve: Any, built_page: Any) -> None:
    shown, made = _shown(doors.cluster, ()), widget(doors.cluster)
    names = shown.timeline.nodes.values
    seen = set()
    async with serve(shown) as server:
        for event in shown.timeline.attempt_events:
            path = f"api/why?record=0&event={event}"
            page, kernel = await asked_page(server.link, path), msgspec.json.decode(made.answer(path)[1])
            same(page, kernel)
            found = mooring.explain(doors.cluster, page["pod"])
            seen.add(page["pod"])
            assert (page["outcome"], page["message"]) == (found.outcome.value, found.message)
            assert (None if page["node"] is None else names[page["node"]]) == found.node
            assert {names[row]: total for row, total in zip(*page["totals"], strict=True)} == {
                share.node: share.total for share in found.scores
            }
            assert {
                (each["plugin"], *each["reasons"]): {names[row] for row in each["rows"]} for each in page["funnel"]
            } == {(each.plugin, *each.reasons): set(each.nodes) for each in found.refusals}
            assert [each["text"] for each in page["suggestions"]] == [each.text for each in found.suggestions]
    assert seen == {"shop/large", "shop/foreign", "shop/fits"}


async def test_page_and_notebook_lose_as_a_drill_does(doors: Doors, serve: Any, built_page: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown, made = _shown(doors.cluster, ()), widget(doors.cluster)
    names, event = shown.timeline.nodes.values, shown.timeline.attempt_events[0]
    (loss,) = mooring.drill(doors.cluster, "a").losses
    path = f"api/what-if?record=0&event={event}&lose=a"
    async with serve(shown) as server:
        page, kernel = await asked_page(server.link, path), msgspec.json.decode(made.answer(path)[1])
    same(page, kernel)
    assert {pod: names[row] for pod, row in page["placed"].items()} == loss.replaced
    assert page["unplaced"] == loss.unplaced
