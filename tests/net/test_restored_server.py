"""An API server whose etcd was restored from a backup: versions go backwards, and a watch may wait for the future."""

from __future__ import annotations

import asyncio
import random

import pytest

from mooring.net.informer import InformerSet
from mooring.net.kinds import NODES, PODS
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


@pytest.fixture
async def informers(fake_api, serve):
    async with RestClient(ClientConfig(server=await serve(fake_api.handle)), qps=-1) as client:
        made = InformerSet(client, rng=random.Random(3), sleep=no_pause)
        made.states = []
        made.on_restoring = lambda: made.states.append(made.is_restoring)
        for kind in (PODS, NODES):
            made.add(kind)
        made.start()
        await made.wait_for_sync()
        yield made
        await made.stop()


def names(informer) -> set[str]:
    return {item.metadata.name for item in informer}


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming lists", "pages"])
async def test_everything_is_listed_again(fake_api, informers, eventually, streaming):
    fake_api.put("old")
    fake_api.put("kept")
    backup = fake_api.backup()
    await eventually(lambda: all(names(each) == {"old", "kept"} for each in informers))
    for step in range(3):
        fake_api.put(f"new-{step}")
    fake_api.delete("old")
    fake_api.put("kept", status={"phase": "Running"})
    await eventually(lambda: all(names(each) == {"kept", "new-0", "new-1", "new-2"} for each in informers))
    fake_api.streaming = streaming
    fake_api.restore(backup)
    await eventually(lambda: all(names(each) == {"old", "kept"} for each in informers))
    assert informers[PODS.name].get("default/kept").metadata.resource_version == "2"
    await eventually(lambda: not informers.is_restoring)
    fake_api.put("later")  # its version was sent before
    await eventually(lambda: all("later" in names(each) for each in informers))
    assert informers.states == [True, False]


async def test_it_is_over_when_all_kinds_are_listed(fake_api, informers, eventually):
    backup = fake_api.backup()
    fake_api.put("new")
    await eventually(lambda: all(names(each) == {"new"} for each in informers))
    is_back = asyncio.Event()

    async def late(request):
        if request.path.endswith("/nodes"):
            await is_back.wait()
        else:
            fake_api.faults.append(late)
        return None

    fake_api.faults = [late] * 20
    fake_api.restore(backup)
    await eventually(lambda: not names(informers[PODS.name]))
    assert informers.is_restoring and names(informers[NODES.name]) == {"new"}
    is_back.set()
    await eventually(lambda: not informers.is_restoring)
    assert names(informers[NODES.name]) == set()


async def test_a_broken_watch_is_resumed(fake_api, informers, eventually):
    fake_api.put("one")
    await eventually(lambda: all(names(each) == {"one"} for each in informers))
    lists = [query for query in fake_api.requests if query.get("sendInitialEvents")]
    fake_api.cut()
    fake_api.put("two")
    await eventually(lambda: all(names(each) == {"one", "two"} for each in informers))
    assert [query for query in fake_api.requests if query.get("sendInitialEvents")] == lists
    assert informers.states == []
