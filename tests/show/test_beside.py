"""What-ifs beside other answers: they never delay an explanation, report their progress, and stop with their client."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from mooring.api.codec import to_plain
from mooring.api.errors import MooringError
from mooring.record.meter import measure_record
from mooring.show.shown import Shown, opened
from mooring.testing import bound, make_node, make_pod

PATIENT_S = 120


class Slow:
    """A what-if that runs until it may end, or is stopped."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.stopped = threading.Event()

    def __call__(self, moment: Any, question: Any, progress: Callable[[int, int], None]) -> dict[str, Any]:
        try:
            for done in range(10**9):
                progress(min(done, 7), 12)
                if self.may_end.wait(0.01):
                    break
        except MooringError:
            self.stopped.set()
            raise
        return {"lost": []}


@pytest.fixture
def slow(story, monkeypatch):
    shown: Shown = story("first-placement")
    made = Slow()
    monkeypatch.setattr(shown, "what_if", made)
    yield shown, made
    made.may_end.set()


async def far(session: aiohttp.ClientSession, link: str, more: str = "") -> dict[str, int]:
    """Wait until the what-if says how far it is."""
    while True:
        async with session.get(f"{link}api/progress?ask=one{more}") as answer:
            found = json.loads(await answer.read())
        if found.get("of"):
            return found
        await asyncio.sleep(0)


async def test_an_explanation_does_not_wait_for_a_what_if(slow, serve):
    shown, made = slow
    event = shown.timeline.attempt_events[0]
    async with serve(shown) as server, aiohttp.ClientSession() as session:
        asked = asyncio.create_task(session.get(f"{server.link}api/what-if?event={event}&lose=node1&ask=one"))
        assert (await far(session, server.link))["of"] == 12
        async with session.get(f"{server.link}api/why?event={event}") as answer:
            assert (await answer.json())["happened"] is True
        assert not asked.done()
        made.may_end.set()
        async with await asked as answer:
            assert await answer.json() == {"lost": []}


async def test_a_what_if_stops_when_it_is_withdrawn(slow, serve):
    shown, made = slow
    event = shown.timeline.attempt_events[0]
    async with serve(shown) as server, aiohttp.ClientSession() as session:
        asked = asyncio.create_task(session.get(f"{server.link}api/what-if?event={event}&lose=node1&ask=one"))
        await far(session, server.link)
        await far(session, server.link, "&stop")
        async with await asked as answer:
            assert answer.status == 400
        assert made.stopped.is_set()


async def test_a_what_if_stops_when_the_tab_is_closed(slow, serve):
    shown, made = slow
    event = shown.timeline.attempt_events[0]
    async with serve(shown) as server, aiohttp.ClientSession() as session:
        async with aiohttp.ClientSession() as tab:
            asked = asyncio.create_task(tab.get(f"{server.link}api/what-if?event={event}&lose=node1&ask=one"))
            await far(session, server.link)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        assert await asyncio.to_thread(made.stopped.wait, PATIENT_S)


async def test_what_is_free_but_unusable_is_the_figure_of_the_report(story, serve):
    shown = story("preemption")
    with shown.source.opener()() as record:
        measures = measure_record(record)
    async with (
        serve(shown) as server,
        aiohttp.ClientSession() as session,
        session.get(f"{server.link}api/measures?record=0") as answer,
    ):
        found = await answer.json()
    assert found["time"][-1] == pytest.approx(measures.seconds, abs=1e-6)
    for name in ("cpu", "memory"):
        assert found[name] == pytest.approx(measures.columns[f"fragmentation.{name}"])
        assert found[name][-1] == pytest.approx(measures.row[f"fragmentationAtEnd.{name}"])
    assert found["cpu"][-1] > 0


async def test_a_suggestion_can_be_tried(story, serve):
    """The change is made on a fork, and the pod goes where the suggestion says."""
    shown = story("first-placement")
    event = shown.timeline.attempt_events[0]
    told = shown.why(shown.moment(event)())
    suggestion = next(each for each in told["suggestions"] if each["canTry"])
    found = shown.what_if(shown.moment(event)(), {"try": suggestion["text"]})["why"]
    assert (told["outcome"], found["outcome"]) == ("unschedulable", "scheduled")
    assert found["node"] in suggestion["nodes"]
    with pytest.raises(MooringError, match="no suggestion 'more luck'"):
        shown.what_if(shown.moment(event)(), {"try": "more luck"})


@pytest.mark.parametrize("waits", [True, False], ids=["a pod waits", "no pod waits"])
async def test_a_dump_is_shown_and_asked(tmp_path, serve, waits):
    """One instant: why the pending pod waits, and what-ifs, also where nothing was decided."""
    pods = [bound(make_pod("web", cpu="1"), "a"), *([make_pod("large", cpu="64")] if waits else [])]
    objects = [to_plain(each) for each in (make_node("a", cpu="4"), make_node("b", cpu="4"), *pods)]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    shown = opened(path)
    assert shown.timeline.nodes.values == ["a", "b"] and len(shown.timeline.attempt_events) == waits
    if waits:
        told = shown.why(shown.moment(shown.timeline.attempt_events[0])())
        assert (told["pod"], told["outcome"]) == ("default/large", "unschedulable")
    async with (
        serve(shown) as server,
        aiohttp.ClientSession() as session,
        session.get(f"{server.link}api/what-if?event=last&lose=a") as answer,
    ):
        found = await answer.json()
    assert found["placed"] == {"default/web": shown.timeline.nodes.number("b")}


async def test_a_question_about_a_decision_needs_one(story, serve):
    async with (
        serve(story("preemption")) as server,
        aiohttp.ClientSession() as session,
        session.get(f"{server.link}api/what-if?event=last&cordon=node1") as answer,
    ):
        assert (answer.status, "expected a decision" in (await answer.json())["message"]) == (400, True)
