"""Bindings that were acknowledged and that no watch has told of."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from mooring.api.codec import to_plain
from mooring.live import writer as unconfirmed
from mooring.live.writer import check_unconfirmed
from mooring.net.errors import NotFound, ServerError
from mooring.testing import make_node, make_pod


class PaperClient:
    """Answers a GET of a pod with what there is of it: the pod, or an error."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    async def get(self, path):
        name = path.rpartition("/")[2]
        self.asked.append(name)
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(body=msgspec.json.encode(to_plain(answer)))


def info(pod):
    return SimpleNamespace(pod=pod, uid=pod.uid)


@pytest.mark.parametrize(
    ("answer", "brought_back", "asked"),
    [
        pytest.param(make_pod("a"), ["a", "b"], ["a", "b"], id="one without a node has lost it"),
        pytest.param(make_pod("a", node="n"), [], ["a"], id="one with a node shows that the watch is only late"),
        pytest.param(make_pod("a", uid="new"), ["b"], ["a", "b"], id="a namesake is another pod"),
        pytest.param(NotFound("gone", code=404), ["b"], ["a", "b"], id="the watch will tell of one that is gone"),
        pytest.param(ServerError("no", code=500), [], ["a"], id="without an answer nothing is known"),
    ],
)
async def test_a_read_of_the_pod_settles_it(answer, brought_back, asked):
    client, back = PaperClient(a=answer, b=make_pod("b")), []
    await check_unconfirmed(
        [info(make_pod("a", node="n")), info(make_pod("b", node="n"))], client, lambda pod: back.append(pod.pod.name)
    )
    assert (back, client.asked) == (brought_back, asked)


async def test_only_acknowledged_bindings_are_unconfirmed(make_stage):
    stage = make_stage()
    gate = stage.writer.gates["bind", "slow"] = asyncio.Event()
    stage.put(make_node("a"), make_pod("slow"), make_pod("quick"))
    await stage.go()
    assert [pod.pod.name for pod in stage.scheduler.unconfirmed()] == ["quick"]
    gate.set()
    await stage.go()
    assert [pod.pod.name for pod in stage.scheduler.unconfirmed()] == ["quick", "slow"]
    stage.put(make_pod("quick", node="a"), make_pod("slow", node="a"))
    assert stage.scheduler.unconfirmed() == []


async def test_a_pod_that_lost_its_binding_is_bound_again_and_frees_its_room(make_stage):
    stage = make_stage()
    stage.put(make_node("a", cpu="1"), make_pod("web", cpu="1", priority=1), make_pod("waits", cpu="1"))
    await stage.go()
    stage.clock.advance(60.0)
    (lost,) = stage.scheduler.unconfirmed()
    stage.scheduler.requeue(lost)
    assert stage.scheduler.cluster.num_assumed == 0
    assert (stage.where("web"), stage.where("waits")) == ("active", "active")
    await stage.go()
    assert stage.writer.sent.count(("bind", "web:a")) == 2


async def test_late_news_of_an_earlier_binding_change_nothing(make_stage):
    """Asked, lost, bound again, and only then the answer comes: it was about the first binding."""
    stage = make_stage()
    stage.put(make_node("a"), make_pod("web"))
    await stage.go()
    (first,) = stage.scheduler.unconfirmed()
    stage.scheduler.requeue(first)
    await stage.go()
    stage.scheduler.requeue(first)
    assert [pod.pod.name for pod in stage.scheduler.unconfirmed()] == ["web"]
    assert stage.where("web") == ""


async def test_what_the_watch_has_settled_stays_so(make_stage):
    stage = make_stage()
    stage.put(make_node("a"), make_pod("web"), make_pod("gone"))
    await stage.go()
    pods = stage.scheduler.unconfirmed()
    stage.put(make_pod("web", node="a"))
    stage.scheduler.delete(make_pod("gone"))
    for pod in pods:
        stage.scheduler.requeue(pod)
    assert stage.scheduler.cluster.num_pods == 1
    assert (stage.where("web"), stage.where("gone")) == ("", "")


async def test_a_mistake_does_not_end_the_looking(make_stage, monkeypatch):
    looks = asyncio.Queue()

    async def fail(suspects, client, requeue):
        looks.put_nowait([pod.pod.name for pod in suspects])
        raise RuntimeError("a mistake")

    monkeypatch.setattr(unconfirmed, "check_unconfirmed", fail)
    monkeypatch.setattr(unconfirmed, "LOOK_S", 0.0)
    stage = make_stage()
    stage.put(make_node("a"), make_pod("web"))
    await stage.go()
    watching = asyncio.create_task(unconfirmed.watch_unconfirmed(stage.scheduler, PaperClient()))
    assert [await looks.get() for _ in range(3)] == [[], ["web"], ["web"]]
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
