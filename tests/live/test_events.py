"""The event recorder: names, bodies and series as kube-scheduler's, and what happens when the server refuses."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.errors import ApiError
from mooring.live.events import EventRecorder, InvolvedObject, event_name, truncate_note

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "wire" / "events.jsonl").read_text().splitlines()]


class Server:
    """Answers event requests, and writes them down."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, Any]]] = []
        self.faults: list[Exception | None] = []
        self.serves_events_group = True
        self.gate: asyncio.Event | None = None

    async def get(self, path: str) -> None:
        assert path == "/apis/events.k8s.io/v1"
        if not self.serves_events_group:
            raise ApiError("not found", code=404)

    async def create(self, path: str, body: bytes) -> None:
        await self._take("POST", path, body)

    async def patch(self, path: str, body: bytes, *, content_type: str) -> None:
        assert content_type == "application/strategic-merge-patch+json"
        await self._take("PATCH", path, body)

    async def _take(self, method: str, path: str, body: bytes) -> None:
        if self.gate is not None:
            await self.gate.wait()
        self.requests.append((method, path, json.loads(body)))
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault


class Bench:
    def __init__(self, **kwargs: Any) -> None:
        self.server = Server()
        self.clock = VirtualClock(start=1_794_773_505.25)
        self.naps: list[float] = []
        self.forever = asyncio.Event()
        self.recorder = EventRecorder(
            self.server, hostname="HOST", clock=self.clock, rng=random.Random(1), sleep=self._nap, **kwargs
        )

    async def _nap(self, seconds: float) -> None:
        if seconds > 100:
            await self.forever.wait()
        self.naps.append(seconds)

    def fail(self, version: str = "87", name: str = "lonely") -> None:
        regarding = pod(name, version)
        self.recorder.record(
            regarding, type="Warning", reason="FailedScheduling", action="Scheduling", note="0/2 nodes are available."
        )

    async def drain(self) -> list[tuple[str, str, dict[str, Any]]]:
        assert await self.recorder.drain(5)
        seen, self.server.requests = self.server.requests, []
        return seen


@pytest.fixture
async def bench():
    made = Bench()
    await made.recorder.start()
    yield made
    await made.recorder.stop()


def pod(name: str = "plain", version: str = "68") -> InvolvedObject:
    return InvolvedObject(
        kind="Pod", namespace="default", name=name, uid="uid-1", api_version="v1", resource_version=version
    )


def shape(value: Any) -> Any:
    return [(key, shape(inner)) for key, inner in value.items()] if isinstance(value, dict) else type(value).__name__


async def test_a_created_event_has_the_recorded_shape(bench):
    bench.recorder.record(
        pod(), type="Normal", reason="Scheduled", action="Binding", note="Successfully assigned default/plain to node-0"
    )
    [(method, path, body)] = await bench.drain()
    want = RECORDED[0]
    assert (method, path) == (want["method"], want["uri"])
    assert shape(body) == shape(want["body"])
    for field in ("reportingController", "reportingInstance", "action", "reason", "note", "type", "deprecatedSource"):
        assert body[field] == want["body"][field]
    assert body["eventTime"] == "2026-11-15T20:11:45.250000Z"
    name, _, nanoseconds = body["metadata"]["name"].partition(".")
    assert name == "plain"
    assert int(nanoseconds, 16) == 1_794_773_505_250_000_000


async def test_a_series_as_recorded(bench):
    bench.fail()
    assert [row[0] for row in await bench.drain()] == ["POST"]
    bench.clock.advance(2.5)
    bench.fail()
    [(method, path, body)] = await bench.drain()
    want = next(row for row in RECORDED if row["method"] == "PATCH")
    assert (method, path.rpartition("/")[0]) == (want["method"], want["uri"].rpartition("/")[0])
    assert shape(body) == shape(want["body"])
    assert body["series"] == {"count": 2, "lastObservedTime": "2026-11-15T20:11:47.750000Z"}
    bench.fail()
    bench.fail()
    assert await bench.drain() == []


async def test_another_version_of_the_pod_is_another_event(bench):
    bench.fail("85")
    bench.fail("87")
    rows = await bench.drain()
    assert [row[0] for row in rows] == ["POST", "POST"]
    names = [row[2]["metadata"]["name"] for row in rows]
    assert len(set(names)) == 2, "two events of one instant have different names"


async def test_a_quiet_series_is_finished_with_its_last_count(bench):
    for _ in range(5):
        bench.fail()
    bench.fail(name="once")
    await bench.drain()
    bench.clock.advance(359)
    bench.recorder.finish_series()
    assert await bench.drain() == []
    bench.clock.advance(2)
    bench.recorder.finish_series()
    rows = await bench.drain()
    assert [(method, body) for method, _, body in rows] in (
        [],
        [("PATCH", {"series": {"count": 5, "lastObservedTime": "2026-11-15T20:11:45.250000Z"}})],
    )
    bench.fail()
    assert [row[0] for row in await bench.drain()] == ["POST"], "a new series begins with a new event"


async def test_the_final_count_is_written_once(bench):
    bench.fail()
    await bench.drain()
    for _ in range(3):
        bench.fail()
        await bench.recorder.drain(5)
    await bench.drain()
    bench.clock.advance(361)
    bench.recorder.finish_series()
    [(method, _, body)] = await bench.drain()
    assert (method, body["series"]["count"]) == ("PATCH", 4)


async def test_a_series_is_refreshed(bench):
    bench.fail()
    await bench.drain()
    bench.fail()
    await bench.drain()
    bench.recorder.refresh_series()
    [(method, _, body)] = await bench.drain()
    assert (method, body["series"]["count"]) == ("PATCH", 2)


async def test_a_series_whose_event_has_expired_is_created_again(bench):
    bench.fail()
    await bench.drain()
    bench.server.faults = [ApiError("gone", code=404)]
    bench.fail()
    patch, create = await bench.drain()
    assert (patch[0], create[0]) == ("PATCH", "POST")
    assert create[2]["series"]["count"] == 2


@pytest.mark.parametrize("code", [403, 409, 500])
async def test_a_refused_event_is_lost(bench, code):
    bench.server.faults = [ApiError("no", code=code)]
    bench.fail()
    assert len(await bench.drain()) == 1
    assert bench.naps == []
    assert bench.recorder.failed == 1


@pytest.mark.parametrize("code", [502, 504])
async def test_a_proxy_that_has_no_answer_refuses_nothing(bench, code):
    bench.server.faults = [ApiError("<h1>Bad Gateway</h1>", code=code)]
    bench.fail()
    assert len(await bench.drain()) == 2
    assert (len(bench.naps), bench.recorder.failed) == (1, 0)


async def test_without_an_answer_it_is_tried_again_and_given_up_after_twelve(bench):
    bench.server.faults = [ApiError("no route")] * 3
    bench.fail()
    assert len(await bench.drain()) == 4
    assert len(bench.naps) == 3
    assert all(10 <= nap <= 12.5 for nap in bench.naps)
    bench.server.faults = [ApiError("no route")] * 20
    bench.fail("99")
    assert len(await bench.drain()) == 12
    assert bench.recorder.failed == 1


async def test_a_full_queue_drops_events_and_logs_it_once(caplog):
    bench = Bench(queue_size=3, workers=1)
    bench.server.gate = asyncio.Event()
    await bench.recorder.start()
    for number in range(10):
        bench.fail(str(number))
    assert bench.recorder.dropped == 7
    assert caplog.text.count("The event queue is full") == 1
    bench.server.gate.set()
    assert len(await bench.drain()) == 3
    await bench.recorder.stop()


async def test_the_core_api_takes_events_where_the_group_is_missing():
    bench = Bench()
    bench.server.serves_events_group = False
    await bench.recorder.start()
    bench.fail()
    [(method, path, body)] = await bench.drain()
    assert (method, path) == ("POST", "/api/v1/namespaces/default/events")
    assert body["message"] == "0/2 nodes are available."
    assert body["involvedObject"]["name"] == "lonely"
    assert (body["count"], body["firstTimestamp"]) == (1, "2026-11-15T20:11:45Z")
    bench.clock.advance(3)
    bench.fail()
    [(method, _, body)] = await bench.drain()
    assert (method, body) == ("PATCH", {"count": 2, "lastTimestamp": "2026-11-15T20:11:48Z"})
    await bench.recorder.stop()


async def test_stopping_waits_for_the_queue():
    bench = Bench()
    await bench.recorder.start()
    for number in range(50):
        bench.fail(str(number))
    await bench.recorder.stop(drain_s=5)
    assert len(bench.server.requests) == 50


@pytest.mark.parametrize(
    ("note", "want_bytes", "end"),
    [
        pytest.param("x" * 1024, 1024, "xxxx", id="exactly the limit stays"),
        pytest.param("x" * 1025, 1024, "x ...", id="one more is cut"),
        pytest.param("é" * 600, 1024, "é ...", id="between characters if it comes out even"),
        pytest.param("a" + "é" * 600, 1023, "é ...", id="never inside a character"),
    ],
)
def test_truncation(note, want_bytes, end):
    got = truncate_note(note)
    assert len(got.encode()) == want_bytes
    assert got.endswith(end)


def test_an_impossible_name_becomes_a_random_one():
    assert event_name("web", 255) == "web.ff"
    assert len(event_name("x" * 250, 1 << 60)) == 36


@pytest.mark.parametrize("name", ["a", "0", "a-b", "a--b", "a.b", "a-1.b-2.c"])
def test_a_name_that_an_object_may_have_is_kept(name: str) -> None:
    assert event_name(name, 255) == f"{name}.ff"


@pytest.mark.parametrize("name", ["", "a-", "-a", "a.", ".a", "a..b", "a-.b", "a.-b", "A", "a_b", "a b", "é"])
def test_a_name_that_no_object_may_have_is_replaced(name: str) -> None:
    assert len(event_name(name, 255)) == 36


async def test_observers_receive_every_event_including_repeats(bench):
    heard = []
    bench.recorder.observers = (lambda regarding, reason, note: heard.append((regarding.name, reason, note)),)
    bench.fail()
    bench.fail()
    assert heard == [("lonely", "FailedScheduling", "0/2 nodes are available.")] * 2
    await bench.drain()


async def test_what_is_remembered_is_bounded():
    bench = Bench(cache_size=3)
    await bench.recorder.start()
    for number in range(10):
        bench.fail(name=f"pod-{number}")
    assert bench.recorder.known == 3
    await bench.drain()
    bench.fail(name="pod-0")
    [(method, _, _)] = await bench.drain()
    assert method == "POST", "it was forgotten, so it is a new event"
    bench.fail(name="pod-9")
    assert [row[0] for row in await bench.drain()] == ["PATCH"]
    await bench.recorder.stop()


async def test_an_event_about_an_object_without_a_namespace_is_in_the_default_one(bench):
    node = InvolvedObject(kind="Node", name="a", uid="u", api_version="v1")
    bench.recorder.record(node, type="Normal", reason="Ready", action="Watching", note="it is up")
    [(_, path, body)] = await bench.drain()
    assert path == "/apis/events.k8s.io/v1/namespaces/default/events"
    assert body["metadata"]["namespace"] == "default" and "namespace" not in body["regarding"]


async def test_a_related_object_is_part_of_what_makes_events_equal(bench):
    for related in (None, pod("other"), pod("other")):
        bench.recorder.record(
            pod(), type="Normal", reason="Scheduled", action="Binding", note="x", controller="mine", related=related
        )
    rows = await bench.drain()
    posts = [body for method, _, body in rows if method == "POST"]
    assert ["related" in body for body in posts] == [False, True]
    assert posts[0]["reportingController"] == "mine" and posts[0]["reportingInstance"] == "mine-HOST"


async def test_a_conflict_of_a_series_means_that_the_event_is_there(bench):
    bench.server.gate = asyncio.Event()
    bench.fail()
    bench.fail()
    bench.server.faults = [ApiError("exists", code=409)]
    bench.server.gate.set()
    rows = await bench.drain()
    assert [row[0] for row in rows] == ["POST", "PATCH"]
    assert bench.recorder.failed == 0


async def test_a_mistake_of_our_own_costs_one_event(bench, caplog):
    bench.server.faults = [TypeError("odd")]
    bench.fail("1")
    bench.fail("2")
    await bench.drain()
    assert (bench.recorder.failed, bench.recorder.written) == (1, 1)
    (record,) = caplog.records
    assert record.getMessage() == "Failed to write an event" and record.values["reason"] == "FailedScheduling"


async def test_draining_ends_after_its_time(bench):
    bench.server.gate = asyncio.Event()
    bench.fail()
    assert not await bench.recorder.drain(0.0)
    assert bench.recorder.pending == 1
    bench.server.gate.set()
    assert await bench.recorder.drain(60.0)
    assert bench.recorder.pending == 0


async def test_a_server_that_is_away_at_the_start_gets_the_newer_form():
    bench = Bench()

    async def away(path: str) -> None:
        raise ApiError("cannot connect")

    bench.server.get = away
    await bench.recorder.start()
    bench.fail()
    [(_, path, _)] = await bench.drain()
    assert path.startswith("/apis/events.k8s.io/v1/")
    await bench.recorder.stop()


async def test_lease_events_use_the_core_api():
    bench = Bench(legacy=True)
    await bench.recorder.start()
    bench.fail()
    [(_, path, body)] = await bench.drain()
    assert path == "/api/v1/namespaces/default/events" and body["source"] == {"component": "default-scheduler"}
    await bench.recorder.stop()
