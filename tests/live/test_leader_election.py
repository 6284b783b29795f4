"""Leader election: client-go's algorithm on virtual time, and requests shaped as kube-scheduler's."""

from __future__ import annotations

import asyncio
import heapq
import json
import random
from pathlib import Path
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.api.errors import ApiError, UsageError
from mooring.live.events import EventRecorder
from mooring.live.leader_election import LeaderElectionSettings, LeaderElector, LeaseLost
from mooring.net.connect import HttpAnswer
from mooring.net.errors import Conflict, ConnectionFailed, NotFound, TooManyRequests

SETTINGS = LeaderElectionSettings(lease_duration_s=6, renew_deadline_s=4, retry_period_s=1)
RECORDED = [
    json.loads(line) for line in (Path(__file__).parent / "wire" / "leader_election.jsonl").read_text().splitlines()
]


class VirtualTime:
    """Sleeps that end when the test moves the clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock(start=1_000_000.0)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self.clock.now() + seconds, self._count, future))
        await future

    async def run(self, seconds: float) -> None:
        """Let time pass, waking everybody at the right moment."""
        end = self.clock.now() + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, future = heapq.heappop(self._sleepers)
            self.clock.advance_to(at)
            if not future.done():
                future.set_result(None)
            await self.settle()
        self.clock.advance_to(end)

    @staticmethod
    async def settle() -> None:
        for _ in range(20):
            await asyncio.sleep(0)


class Leases:
    """One Lease on an API server, and a client for it that can be cut off."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 483
        self.requests: list[tuple[str, str, dict[str, Any] | None]] = []
        self.is_down = False
        self.refuse: list[ApiError] = []

    def client(self) -> LeaseClient:
        return LeaseClient(self)

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"] if self.lease else ""


class LeaseClient:
    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.is_cut_off = False

    def _check(self, method: str, path: str, query: Any, body: bytes | None) -> None:
        leases = self._leases
        leases.requests.append((method, f"{path}?timeout={query['timeout']}", json.loads(body) if body else None))
        if leases.is_down or self.is_cut_off:
            raise ConnectionFailed("cannot connect", was_sent=False)
        if leases.refuse:
            raise leases.refuse.pop(0)

    def _answer(self) -> HttpAnswer:
        return HttpAnswer(200, {}, json.dumps(self._leases.lease).encode())

    async def get(self, path: str, query: Any, *, timeout_s: float) -> HttpAnswer:
        self._check("GET", path, query, None)
        if self._leases.lease is None:
            raise NotFound("leases not found", code=404)
        return self._answer()

    async def create(self, path: str, body: bytes, query: Any, *, timeout_s: float) -> HttpAnswer:
        self._check("POST", path, query, body)
        if self._leases.lease is not None:
            raise Conflict("exists", code=409)
        self._store(json.loads(body))
        self._leases.lease["metadata"] |= {"uid": "lease-uid", "creationTimestamp": "2026-11-15T20:13:55Z"}
        return self._answer()

    async def update(self, path: str, body: bytes, query: Any, *, timeout_s: float) -> HttpAnswer:
        self._check("PUT", path, query, body)
        wanted = json.loads(body)
        if self._leases.lease is None:
            raise Conflict("the object has been deleted", code=409)
        if wanted["metadata"]["resourceVersion"] != self._leases.lease["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified", code=409)
        self._store(wanted)
        return self._answer()

    def _store(self, lease: dict[str, Any]) -> None:
        self._leases.version += 1
        lease["metadata"]["resourceVersion"] = str(self._leases.version)
        self._leases.lease = lease


class Notes:
    """Stands in for the event recorder."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def record(self, regarding, *, type, reason, action, note, controller) -> None:
        self.events.append((regarding.name, reason, note))


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def leases() -> Leases:
    return Leases()


def candidate(leases: Leases, time: VirtualTime, name: str, **kwargs: Any) -> LeaderElector:
    return LeaderElector(
        kwargs.pop("client", None) or leases.client(),
        kwargs.pop("settings", SETTINGS),
        identity=name,
        clock=time.clock,
        sleep=time.sleep,
        rng=random.Random(1),
        **kwargs,
    )


class Work:
    """What a leader does: it records when it began and when it was stopped."""

    def __init__(self, elector: LeaderElector) -> None:
        self.leading = False
        self.times = 0
        self.task = asyncio.create_task(elector.run(self._lead))

    async def _lead(self) -> None:
        self.leading = True
        self.times += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.leading = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_requests_are_shaped_as_recorded(leases, time):
    notes = Notes()
    elector = candidate(leases, time, "HOST_04160e05", recorder=notes)
    work = Work(elector)
    await time.run(2.5)
    assert work.leading
    want = [row for row in RECORDED if row["scenario"] == "leader-election"][:3]
    got = leases.requests[:3]
    assert [(method, path) for method, path, _ in got] == [(row["method"], row["uri"]) for row in want]
    for (_, _, body), row in zip(got, want, strict=True):
        assert _shape(body) == _shape(row["body"])
    assert [method for method, _, _ in leases.requests] == ["GET", "POST", "PUT", "PUT", "PUT"]
    await work.stop()
    assert [method for method, _, _ in leases.requests[-2:]] == ["GET", "PUT"]
    released = leases.requests[-1][2]["spec"]
    assert (released["holderIdentity"], released["leaseDurationSeconds"], released["leaseTransitions"]) == ("", 1, 0)
    assert notes.events == [
        ("kube-scheduler", "LeaderElection", "HOST_04160e05 became leader"),
        ("kube-scheduler", "LeaderElection", "HOST_04160e05 stopped leading"),
    ]


def _shape(value: Any) -> Any:
    """Field names and types; the values differ."""
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    return type(value).__name__


async def test_the_event_is_shaped_as_recorded(leases, time):
    bodies = []

    class Client:
        async def create(self, path, body):
            bodies.append((path, json.loads(body)))

    recorder = EventRecorder(Client(), hostname="HOST", legacy=True, clock=time.clock)
    work = Work(candidate(leases, time, "HOST_04160e05", recorder=recorder))
    await time.run(0.1)
    await recorder.start()
    assert await recorder.drain(5)
    await recorder.stop()
    await work.stop()
    row = next(row for row in RECORDED if "/events" in row["uri"])
    path, body = bodies[0]
    assert path == row["uri"]
    assert _shape(body) == _shape(row["body"])
    assert body["involvedObject"] == {**row["body"]["involvedObject"], "uid": "lease-uid", "resourceVersion": "484"}
    assert body["source"] == row["body"]["source"]
    assert body["message"] == "HOST_04160e05 became leader"


async def test_a_second_candidate_waits_and_takes_over_when_the_first_stops(leases, time):
    first = Work(candidate(leases, time, "first"))
    await time.run(0.1)
    second = Work(candidate(leases, time, "second"))
    await time.run(30)
    assert (first.leading, second.leading, leases.holder) == (True, False, "first")
    await first.stop()
    assert leases.holder == ""
    await time.run(2.3)
    assert (second.leading, leases.holder) == (True, "second")
    assert leases.lease["spec"]["leaseTransitions"] == 1
    await second.stop()


async def test_a_leader_that_vanished_is_replaced_after_its_lease(leases, time):
    dead_client = leases.client()
    first = Work(candidate(leases, time, "first", client=dead_client))
    await time.run(0.1)
    second = Work(candidate(leases, time, "second"))
    await time.run(3)
    dead_client.is_cut_off = True
    await time.run(4.95)
    assert not first.leading, "a leader stops before its lease has expired"
    assert first.task.done()
    assert not second.leading
    await time.run(6)
    assert second.leading
    with pytest.raises(LeaseLost):
        await first.task
    await second.stop()


def delete(leases: Leases) -> None:
    leases.lease = None


def empty(leases: Leases) -> None:
    """Take the holder out of the lease, by hand."""
    assert leases.lease is not None
    leases.version += 1
    leases.lease["metadata"]["resourceVersion"] = str(leases.version)
    leases.lease["spec"]["holderIdentity"] = ""


@pytest.mark.parametrize("what_somebody_does", [delete, empty])
@pytest.mark.parametrize("is_alive", [True, False])
async def test_a_deleted_or_emptied_lease_belongs_to_its_holder_until_it_would_have_expired(
    leases, time, is_alive, what_somebody_does
):
    client = leases.client()
    first = Work(candidate(leases, time, "first", client=client))
    await time.run(0.1)
    second = Work(candidate(leases, time, "second"))
    await time.run(1)
    what_somebody_does(leases)
    client.is_cut_off = not is_alive
    await time.run(0.8)
    assert first.leading and not second.leading, "the first has not heard of it yet"
    await time.run(30)
    assert (first.leading, second.leading) == (is_alive, not is_alive)
    assert (first.times, leases.holder) == (1, "first" if is_alive else "second")
    for work in (first, second):
        if work.leading:
            await work.stop()
    if not is_alive:
        with pytest.raises(LeaseLost):
            await first.task
    else:
        second.task.cancel()


async def test_a_short_outage_is_survived(leases, time):
    work = Work(candidate(leases, time, "first"))
    await time.run(1.5)
    leases.is_down = True
    await time.run(2)
    leases.is_down = False
    await time.run(10)
    assert work.leading
    assert work.times == 1
    await work.stop()


async def test_an_outage_that_ends_just_before_the_deadline_is_survived(leases, time):
    work = Work(candidate(leases, time, "first"))
    await time.run(1.5)
    leases.is_down = True
    await time.run(4.0)  # the first renewal fails at 2.0, the deadline is at 6.0
    leases.is_down = False
    await time.run(10)
    assert (work.leading, work.times) == (True, 1)
    await work.stop()


async def test_a_server_that_asks_to_wait_for_ever_does_not_cost_the_lease(leases, time):
    """Every try is answered 429. The elector keeps trying at its own intervals, and renews when that is over."""
    work = Work(candidate(leases, time, "first"))
    await time.run(1.5)
    seen = len(leases.requests)
    leases.refuse = [TooManyRequests("not now", code=429, retry_after_s=1e30) for _ in range(6)]
    await time.run(3.5)
    assert [method for method, _, _ in leases.requests[seen:]].count("PUT") >= 4
    assert work.leading and not leases.refuse
    await work.stop()


async def test_a_stolen_lease_ends_it_without_a_release(leases, time):
    notes = Notes()
    work = Work(candidate(leases, time, "first", recorder=notes))
    await time.run(1.5)
    steal(leases)
    seen = len(leases.requests)
    await time.run(6)
    with pytest.raises(LeaseLost):
        await work.task
    assert not work.leading
    methods = [method for method, _, _ in leases.requests[seen:]]
    assert methods[0] == "PUT"
    assert set(methods[1:]) == {"GET"}
    assert leases.holder == "thief"
    assert notes.events[-1][2] == "first stopped leading"


def steal(leases: Leases) -> None:
    leases.version += 1
    leases.lease["metadata"]["resourceVersion"] = str(leases.version)
    leases.lease["spec"] |= {"holderIdentity": "thief", "leaseDurationSeconds": 60}


async def test_a_leader_that_sees_another_holder_stops_immediately(leases, time):
    """A leader that was stopped for longer than its lease must not go on until its renew deadline."""
    work = Work(candidate(leases, time, "first"))
    await time.run(1.5)
    steal(leases)
    await time.run(1)  # the next renewal; the deadline is four seconds away
    assert work.task.done() and not work.leading
    with pytest.raises(LeaseLost):
        await work.task


@pytest.mark.parametrize("is_stopping", [False, True], ids=["while leading", "while the last work is being done"])
async def test_the_loss_of_the_lease_is_reported_before_the_work_has_ended(leases, time, is_stopping):
    finish, told = asyncio.Event(), []

    async def lead() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await finish.wait()

    task = asyncio.create_task(candidate(leases, time, "me").run(lead, lambda: told.append("lost")))
    await time.run(1.5)
    if is_stopping:
        task.cancel()
    steal(leases)
    await time.run(1)
    assert told == ["lost"] and not task.done()
    finish.set()
    await asyncio.gather(task, return_exceptions=True)


async def test_who_gives_the_lease_back_has_not_lost_it(leases, time):
    told = []

    async def lead() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(candidate(leases, time, "me").run(lead, lambda: told.append("lost")))
    await time.run(1.5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert told == []


async def test_a_lease_taken_by_another_candidate_is_not_released(leases, time):
    elector = candidate(leases, time, "me")
    await elector.acquire()
    steal(leases)
    assert await elector.release()
    assert leases.holder == "thief"


async def test_the_right_to_write_ends_with_the_whole_seconds_that_others_count(leases, time):
    settings = LeaderElectionSettings(lease_duration_s=6.9, renew_deadline_s=5, retry_period_s=1)
    elector = candidate(leases, time, "me", settings=settings)
    await elector.acquire()
    assert leases.lease["spec"]["leaseDurationSeconds"] == 6
    time.clock.advance(5.4)
    assert not elector.is_expired
    time.clock.advance(0.1)
    assert elector.is_expired, "half a second before another candidate may lead"


async def test_a_lease_that_was_not_renewed_in_time_is_expired(leases, time):
    elector = candidate(leases, time, "me")
    assert elector.is_expired, "we never had it"
    await elector.acquire()
    middle_s = (elector.settings.renew_deadline_s + elector.settings.lease_duration_s) / 2
    time.clock.advance(middle_s - 0.1)
    assert not elector.is_expired
    time.clock.advance(0.2)
    assert elector.is_expired, "what is sent now may arrive after the lease's end"


async def test_another_machines_clock_does_not_matter(leases, time):
    """A record from the far future or past is judged by when it was seen to change."""
    leases.lease = {
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system", "resourceVersion": "1"},
        "spec": {
            "holderIdentity": "other",
            "leaseDurationSeconds": 6,
            "acquireTime": "1999-01-01T00:00:00.000000Z",
            "renewTime": "1999-01-01T00:00:00.000000Z",
            "leaseTransitions": 4,
        },
    }
    work = Work(candidate(leases, time, "me"))
    await time.run(5.9)
    assert not work.leading
    await time.run(4)
    assert work.leading
    assert leases.lease["spec"]["leaseTransitions"] == 5
    await work.stop()


async def test_unknown_fields_of_the_lease_are_kept(leases, time):
    work = Work(candidate(leases, time, "me"))
    await time.run(0.5)
    leases.lease["metadata"]["labels"] = {"team": "x"}
    leases.lease["spec"]["strategy"] = "OldestEmulationVersion"
    leases.version += 1
    leases.lease["metadata"]["resourceVersion"] = str(leases.version)
    await time.run(3)
    assert work.leading
    assert leases.lease["metadata"]["labels"] == {"team": "x"}
    assert leases.lease["spec"]["strategy"] == "OldestEmulationVersion"
    await work.stop()


async def test_two_creators_race_and_one_wins(leases, time):
    works = [Work(candidate(leases, time, name)) for name in ("a", "b")]
    await time.run(5)
    assert sorted(work.leading for work in works) == [False, True]
    for work in works:
        await work.stop()


async def test_work_that_fails_gives_the_lease_back(leases, time):
    async def fail() -> None:
        raise RuntimeError("the scheduler broke")

    task = asyncio.create_task(candidate(leases, time, "me").run(fail))
    await time.run(1)
    with pytest.raises(RuntimeError, match="the scheduler broke"):
        await task
    assert leases.holder == ""


async def test_the_lease_is_kept_until_the_last_work_is_done(leases, time):
    finish = asyncio.Event()

    async def lead() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await finish.wait()

    task = asyncio.create_task(candidate(leases, time, "me").run(lead))
    await time.run(1.5)
    task.cancel()
    await time.run(20)
    assert not task.done()
    assert leases.holder == "me"
    seen = len(leases.requests)
    await time.run(3.5)
    assert len(leases.requests) > seen, "it is still renewed"
    finish.set()
    await asyncio.gather(task, return_exceptions=True)
    assert leases.holder == ""


async def test_the_watchdog_bites_after_twenty_seconds_more(leases, time):
    elector = candidate(leases, time, "me")
    assert elector.check() is None
    await elector.acquire()
    time.clock.advance(26)
    assert elector.check() is None
    time.clock.advance(0.1)
    assert elector.check() == "failed election to renew leadership on lease kube-scheduler"


async def test_the_observer_is_notified_of_leadership(leases, time):
    heard = []
    work = Work(candidate(leases, time, "me", observer=lambda name, leads: heard.append((name, leads))))
    await time.run(1)
    await work.stop()
    assert heard == [("kube-scheduler", True), ("kube-scheduler", False)]


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        pytest.param({"lease_duration_s": 10}, "leaseDuration must be greater", id="duration not above deadline"),
        pytest.param({"retry_period_s": 9}, "retryPeriod", id="deadline not above jittered period"),
        pytest.param({"retry_period_s": 0}, "greater than zero", id="no period"),
        pytest.param({"lease_duration_s": 10.9}, "a Lease has whole seconds, and 10s must be", id="others count less"),
    ],
)
def test_settings_that_cannot_work(kwargs, words):
    with pytest.raises(UsageError, match=words):
        LeaderElectionSettings(**kwargs)
