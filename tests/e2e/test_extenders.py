"""Extenders of a running scheduler: called over HTTP while everything else continues."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

pytestmark = pytest.mark.e2e


class Extender:
    """Keeps nodes whose name the pod's label ``only`` names; binds pods labelled ``bind``; notes what it was asked."""

    def __init__(self):
        self.calls = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.binder = None

    async def start(self):
        app = web.Application()
        app.router.add_post("/filter", self.filter)
        app.router.add_post("/bind", self.bind)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self):
        await self._runner.cleanup()

    async def filter(self, request):
        asked = await request.json()
        self.calls.append(("filter", asked["Pod"]["metadata"]["name"]))
        self.last = asked
        await self.may_answer.wait()
        only = asked["Pod"]["metadata"].get("labels", {}).get("only")
        names = [item["metadata"]["name"] for item in asked["Nodes"]["items"]]
        kept = [item for item in asked["Nodes"]["items"] if only in (None, item["metadata"]["name"])]
        failed = {name: "not the one" for name in names if name not in {k["metadata"]["name"] for k in kept}}
        return web.json_response({"Nodes": {"items": kept}, "FailedNodes": failed})

    async def bind(self, request):
        asked = await request.json()
        self.calls.append(("bind", asked["PodName"]))
        await self.binder(asked["PodName"], asked["Node"])
        return web.json_response({})


@pytest.fixture
async def extender():
    made = Extender()
    made.url = await made.start()
    yield made
    await made.stop()


def configured(extender, **more):
    return {"extenders": [{"urlPrefix": extender.url, "filterVerb": "filter", **more}]}


async def test_an_extender_has_its_say_and_sees_whole_objects(world, extender):
    await world.node("a")
    await world.node("b")
    async with world.scheduler(configured(extender)):
        await world.pod("picky", labels={"only": "b"})
        assert await world.bound("picky") == "b"
        await world.pod("nowhere", labels={"only": "z"})
        condition = await world.condition("nowhere", reason="Unschedulable")
        assert condition["message"].startswith("0/2 nodes are available: 2 not the one.")
    assert extender.last["Pod"]["spec"]["containers"][0]["terminationMessagePath"] == "/dev/termination-log"


async def test_an_extender_binds_in_the_scheduler_s_place(world, extender):
    await world.node("a")
    extender.binder = world.bind
    async with world.scheduler(configured(extender, bindVerb="bind")):
        await world.pod("carried")
        assert await world.bound("carried") == "a"
        await world.events("carried", "Scheduled")
    assert ("bind", "carried") in extender.calls


async def test_changes_during_an_extender_call_are_deferred(world, extender):
    await world.node("a", cpu="1")
    extender.may_answer.clear()
    async with world.scheduler(configured(extender)) as live:
        await world.pod("slow")

        async def asked():
            return extender.calls

        await world.until("the extender is asked", asked)
        await world.node("b", cpu="1")
        await world.delete("Pod", "slow")
        await world.pod("next")
        await asyncio.sleep(0.1)
        assert "b" not in live.scheduler.cluster.table.nodes
        extender.may_answer.set()
        assert await world.bound("next") in ("a", "b")
        assert [pod.pod.name for pod in live.scheduler.cluster.pods()] == ["next"]
        assert json.dumps(extender.calls).count("slow") == 1
