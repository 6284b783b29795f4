"""The watch loop, in virtual time: bookmarks, deadlines, ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.serving.listing import BOOKMARK_INTERVAL_S, MAX_WATCH_S, WatchStream
from mooring.controlplane.storage.store import Store
from mooring.controlplane.storage.watches import Hub, Match, Watcher
from mooring.sim.virtual_time import run_virtual


class Bench:
    """A store with one watch of pods."""

    def __init__(self, **options: Any) -> None:
        self.store = Store()
        self.hub = Hub(self.store)
        self.watcher: Watcher = self.hub.open(PODS, Match(), limit=options.pop("limit", 100))
        self.stream = WatchStream(
            self.hub, self.watcher, **{"timeout_s": 100.0, "has_bookmarks": True, "disturb": None, **options}
        )

    def create(self, name: str) -> None:
        self.store.create(PODS, {"metadata": {"name": name, "namespace": "default"}})

    async def events(self) -> list[tuple[float, str, str]]:
        """Everything until the end: when, what, and the name or the version."""
        loop, found = asyncio.get_running_loop(), []
        while lines := await self.stream.read():
            for line in lines.splitlines():
                event = json.loads(line)
                metadata = event["object"].get("metadata", {})
                found.append((loop.time(), event["type"], metadata.get("name") or metadata.get("resourceVersion", "")))
        return found


def run(story: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await story()

    return run_virtual(main())


def test_a_quiet_watch_sends_bookmarks_and_a_last_one_at_its_end() -> None:
    async def story() -> list[tuple[float, str, str]]:
        return await Bench(timeout_s=70.0).events()

    assert run(story) == [(30.0, "BOOKMARK", "1"), (60.0, "BOOKMARK", "1"), (70.0, "BOOKMARK", "1")]


def test_without_bookmarks_a_quiet_watch_sends_nothing() -> None:
    async def story() -> tuple[list[Any], float]:
        return await Bench(timeout_s=70.0, has_bookmarks=False).events(), asyncio.get_running_loop().time()

    assert run(story) == ([], 70.0)


def test_a_bookmark_promises_the_versions_of_other_kinds_too() -> None:
    async def story() -> list[tuple[float, str, str]]:
        bench = Bench(timeout_s=BOOKMARK_INTERVAL_S + 1)
        bench.store.create(NODES, {"metadata": {"name": "n"}})
        return await bench.events()

    assert run(story) == [(30.0, "BOOKMARK", "2"), (31.0, "BOOKMARK", "2")]


def test_no_watch_lasts_longer_than_an_hour() -> None:
    async def story() -> float:
        await Bench(timeout_s=1e9, has_bookmarks=False).events()
        return asyncio.get_running_loop().time()

    assert run(story) == MAX_WATCH_S


def test_events_come_when_they_happen() -> None:
    async def story() -> list[tuple[float, str, str]]:
        bench = Bench(timeout_s=20.0, has_bookmarks=False)
        asyncio.get_running_loop().call_later(7.0, bench.create, "late")
        bench.create("early")
        return await bench.events()

    assert run(story) == [(0.0, "ADDED", "early"), (7.0, "ADDED", "late")]


def test_a_reader_that_is_too_slow_is_cut_off_once_and_gets_nothing_more() -> None:
    async def story() -> tuple[list[str], bytes]:
        bench, calls = Bench(limit=2), []
        bench.stream.on_overrun(lambda: calls.append("cut"))
        for i in range(5):
            bench.create(f"p{i}")
        return calls, await bench.stream.read()

    assert run(story) == (["cut"], b"")


def test_closing_the_hub_ends_a_watch_and_those_that_are_opened_later() -> None:
    async def story() -> tuple[bytes, bytes, int]:
        bench = Bench()
        reading = asyncio.create_task(bench.stream.read())
        await asyncio.sleep(1.0)
        bench.hub.close()
        late = WatchStream(bench.hub, bench.hub.open(PODS, Match()), timeout_s=100.0, has_bookmarks=True)
        ended = await reading, await late.read()
        late.close()
        bench.stream.close()
        return *ended, bench.hub.count()

    assert run(story) == (b"", b"", 0)


@pytest.mark.parametrize(
    ("disturbed", "want"),
    [
        pytest.param((b"", True), [], id="an end without a closing bookmark"),
        pytest.param((b'{"type":"ERROR","object":{}}\n', True), [(0.0, "ERROR", "")], id="an error and the end"),
        pytest.param((b"", False), [(30.0, "BOOKMARK", "2"), (31.0, "BOOKMARK", "2")], id="lost lines"),
    ],
)
def test_faults_stand_between_the_store_and_the_reader(disturbed: tuple[bytes, bool], want: list[Any]) -> None:
    async def disturb(lines: bytes) -> tuple[bytes, bool]:
        return disturbed if b"ADDED" in lines else (lines, False)

    async def story() -> list[tuple[float, str, str]]:
        bench = Bench(timeout_s=31.0, disturb=disturb)
        bench.create("p")
        return await bench.events()

    assert run(story) == want
