"""Watchers: the form of an event for each of them, and their first events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.storage import watches as hub_module
from mooring.controlplane.storage.selectors import parse_fields, parse_labels
from mooring.controlplane.storage.store import ADDED, DELETED, MODIFIED, Event, Store, StoredEntry
from mooring.controlplane.storage.watches import Hub, Match, Watcher, translate
from mooring.controlplane.types.status import StatusError
from mooring.sim.virtual_time import run_virtual


def pod(name: str = "p", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels}, "spec": {}}


def entry(**labels: str) -> StoredEntry:
    return StoredEntry(PODS, "default/p", 1, pod(**labels))


IN, OUT = entry(app="web"), entry(app="db")
WEB = Match(labels=parse_labels("app=web"))


@pytest.mark.parametrize(
    ("type_", "now", "before", "want"),
    [
        pytest.param(ADDED, IN, None, ADDED, id="a new one that is wanted"),
        pytest.param(ADDED, OUT, None, "", id="a new one that is not"),
        pytest.param(MODIFIED, IN, IN, MODIFIED, id="one that stays in"),
        pytest.param(MODIFIED, OUT, OUT, "", id="one that stays out"),
        pytest.param(MODIFIED, IN, OUT, ADDED, id="one that comes in"),
        pytest.param(MODIFIED, OUT, IN, DELETED, id="one that goes out"),
        pytest.param(DELETED, IN, IN, DELETED, id="one that was in and is gone"),
        pytest.param(DELETED, OUT, OUT, "", id="one that was out and is gone"),
    ],
)
def test_what_an_event_is_to_a_selection(type_: str, now: StoredEntry, before: StoredEntry | None, want: str) -> None:
    assert translate(Event(type_, now, before, {}), WEB) == want


@pytest.mark.parametrize(
    ("match", "want"),
    [
        (Match(), True),
        (Match("default"), True),
        (Match("def"), False),
        (WEB, True),
        (Match(fields=parse_fields("metadata.name=p", PODS.field_names(), "Pod")), True),
        (Match(fields=parse_fields("metadata.name=q", PODS.field_names(), "Pod")), False),
    ],
    ids=["all", "the namespace", "another namespace", "a label", "a name", "another name"],
)
def test_what_a_selection_takes(match: Match, want: bool) -> None:
    assert match(IN) is want
    assert match.is_selective() is bool(match.labels.requirements or match.fields)


async def lines(watcher: Watcher) -> list[tuple[str, str]]:
    found = []
    for line in (await watcher.take(0.0)).splitlines():
        event = json.loads(line)
        metadata = event["object"]["metadata"]
        found.append((event["type"], metadata.get("name", "") or metadata["resourceVersion"]))
    return found


async def test_a_watch_begins_with_the_present_state() -> None:
    store = Store()
    hub = Hub(store)
    store.create(PODS, pod("a", app="web"))
    store.create(PODS, pod("b"))
    watcher = hub.open(PODS, WEB, initial_end=True)
    store.create(PODS, pod("c", app="web"))
    first = await watcher.take(0.0)
    events = [json.loads(line) for line in first.splitlines()]
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK", "ADDED"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_since_a_version_begins_after_it() -> None:
    store = Store()
    hub = Hub(store)
    store.create(PODS, pod("a"))
    since = store.rv
    store.create(PODS, pod("b"))
    watcher = hub.open(PODS, Match(), since=since)
    assert await lines(watcher) == [("ADDED", "b")]


async def test_a_watch_from_now_on_begins_with_nothing() -> None:
    store = Store()
    hub = Hub(store)
    store.create(PODS, pod("a"))
    watcher = hub.open(PODS, Match(), since=-1)
    store.create(PODS, pod("b"))
    assert await lines(watcher) == [("ADDED", "b")]


async def test_a_version_that_is_forgotten_cannot_be_watched_from() -> None:
    store = Store(history=1)
    hub = Hub(store)
    for name in "abc":
        store.create(PODS, pod(name))
    with pytest.raises(StatusError) as refused:
        hub.open(PODS, Match(), since=1)
    assert refused.value.code == 410
    assert hub.count() == 0


async def test_what_leaves_a_selection_is_shown_as_it_was_at_the_new_version() -> None:
    store = Store()
    hub = Hub(store)
    old = store.create(PODS, pod("a", app="web"))
    watcher = hub.open(PODS, WEB, since=store.rv)
    store.update(PODS, old, pod("a", app="db"))
    event = json.loads(await watcher.take(0.0))
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["labels"] == {"app": "web"}
    assert event["object"]["metadata"]["resourceVersion"] == str(store.rv)


async def test_a_bookmark_promises_the_present_version() -> None:
    store = Store()
    hub = Hub(store)
    watcher = hub.open(PODS, Match())
    store.create(NODES, {"metadata": {"name": "n"}})
    hub.bookmark(watcher)
    assert await lines(watcher) == [("BOOKMARK", str(store.rv))]


async def test_lines_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "CHUNK_BYTES", 1)
    store = Store()
    hub = Hub(store)
    watcher = hub.open(PODS, Match())
    for name in "ab":
        store.create(PODS, pod(name))
    assert await lines(watcher) == [("ADDED", "a")]
    assert await lines(watcher) == [("ADDED", "b")]
    assert await lines(watcher) == []


async def test_a_reader_is_woken_by_an_event() -> None:
    store = Store()
    hub = Hub(store)
    watcher = hub.open(PODS, Match())
    reading = asyncio.create_task(watcher.take(asyncio.get_running_loop().time() + 60.0))
    await asyncio.sleep(0)
    store.create(PODS, pod("a"))
    assert b'"ADDED"' in await reading


def test_a_reader_waits_as_long_as_it_says_whatever_it_waited_for_before() -> None:
    async def story() -> list[tuple[float, bool]]:
        loop, store = asyncio.get_running_loop(), Store()
        hub = Hub(store)
        watcher = hub.open(PODS, Match())
        for at_s in (1.0, 24.0):
            loop.call_at(at_s, lambda at_s=at_s: store.create(PODS, pod(f"at-{at_s:g}")))  # type: ignore[misc]
        took = [(until, await watcher.take(until), loop.time()) for until in (10.0, 20.0, 25.0, 24.5, 24.5)]
        hub.forget(watcher)
        return [(ended, bool(lines)) for _, lines, ended in took]

    assert run_virtual(story()) == [(1.0, True), (20.0, False), (24.0, True), (24.5, False), (24.5, False)]


async def test_one_slow_watcher_is_closed_alone() -> None:
    store = Store()
    hub = Hub(store)
    slow, fast = hub.open(PODS, Match(), limit=1), hub.open(PODS, Match())
    for name in "abc":
        store.create(PODS, pod(name))
    assert slow.is_closed and not fast.is_closed
    assert await slow.take(60.0) == b""
    assert len(await lines(fast)) == 3


async def test_watchers_of_one_kind_can_be_closed() -> None:
    store = Store()
    hub = Hub(store)
    pods, nodes = hub.open(PODS, Match()), hub.open(NODES, Match())
    hub.close_all(PODS)
    assert (pods.is_closed, nodes.is_closed) == (True, False)
    hub.forget(pods)
    hub.forget(pods)
    assert hub.count() == 1
