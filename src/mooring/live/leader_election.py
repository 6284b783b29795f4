"""Leader election on a Lease, by client-go's rules: one replica leads, the others wait for its lease to expire.

Clocks of different machines are never compared. A candidate notes when *it* saw the record change and considers the
lease expired when that is longer ago than the lease's duration, by its own monotonic clock.

A leader renews every ``retry_period_s`` without reading first. When renewals fail for ``renew_deadline_s`` it stops,
well before another candidate may take over; it tries until then, where client-go ends up to one period earlier. Its
right to write ends by a monotonic clock, counted from when it sent its last renewal, and earlier than the lease: the
last write needs time to arrive, and clocks drift.

| a candidate looks at the lease | client-go | here |
|---|---|---|
| while another holds it | after 1 to 2.2 retry periods | after a quarter of one, up to a fifth longer by chance |
| when it expires | at the next look | then |
| that was deleted or emptied | takes it at once, unknown to its leader | when it would have expired |
"""

from __future__ import annotations

import asyncio
import random
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from mooring.api.clock import Clock, SystemClock
from mooring.api.errors import ApiError, MooringError, UsageError
from mooring.api.times import format_micro_time
from mooring.live.events import EventRecorder, InvolvedObject
from mooring.live.logs import get_logger
from mooring.net.errors import NotFound
from mooring.net.rest import RestClient

log = get_logger("mooring.live.leader_election")

JITTER_FACTOR = 1.2
LOOKS_PER_PERIOD = 4
LOOK_JITTER = 0.2
EXPIRED_S = 0.001
"""How long after the expiry of a lease a candidate checks it."""
LAST_TRY_S = 0.25
"""No renewal is attempted this close to the deadline: its answer would arrive too late."""
WATCHDOG_S = 20.0
RELEASED_S = 1
"""Duration of a released Lease, as client-go writes it."""


class LeaseLost(MooringError):
    """The lease was not renewed in time, or another candidate holds it."""


class LeadershipObserver(Protocol):
    """Observer for metrics."""

    def __call__(self, name: str, is_leader: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """The ``leaderElection`` section of the configuration."""

    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    namespace: str = "kube-system"
    name: str = "kube-scheduler"

    def __post_init__(self) -> None:
        if self.lease_duration_s <= self.renew_deadline_s:
            raise UsageError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline_s <= self.retry_period_s * JITTER_FACTOR:
            raise UsageError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.retry_period_s <= 0:
            raise UsageError("retryPeriod must be greater than zero")
        if self.lease_s <= self.renew_deadline_s:
            raise UsageError(
                f"leaseDuration {self.lease_duration_s:g}s: a Lease has whole seconds, and {self.lease_s}s "
                f"must be greater than renewDeadline {self.renew_deadline_s:g}s"
            )

    @property
    def lease_s(self) -> int:
        """Lease duration in whole seconds, as written to the Lease and used by other candidates."""
        return int(self.lease_duration_s)

    @property
    def arrives_within_s(self) -> float:
        """Time that the last write of a leader may take to arrive: half of the time between deadline and duration."""
        return (self.lease_s - self.renew_deadline_s) / 2


@dataclass(frozen=True, slots=True)
class LeaderElectionRecord:
    """Leader information in a Lease."""

    holder: str = ""
    duration_s: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    transitions: int = 0


def default_identity() -> str:
    """Return an identity of this process: host name and a unique suffix, as upstream."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """One candidate. ``run`` campaigns, leads and releases the lease; ``check`` is the watchdog's health check."""

    def __init__(
        self,
        client: RestClient,
        settings: LeaderElectionSettings | None = None,
        *,
        identity: str = "",
        recorder: EventRecorder | None = None,
        component: str = "default-scheduler",
        observer: LeadershipObserver | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.settings = settings or LeaderElectionSettings()
        self.identity = identity or default_identity()
        self._client = client
        self._recorder = recorder
        self._component = component
        self._observer = observer
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._sleep = sleep
        self._lease: dict[str, Any] | None = None
        self._observed = LeaderElectionRecord()
        self._observed_raw: LeaderElectionRecord | None = None
        self._observed_at = float("-inf")
        self._reported = ""
        self._renewed_at = float("-inf")
        self._renewal: asyncio.Task[None] | None = None

    # Questions from other parts

    @property
    def leader(self) -> str:
        """The identity of the last leader seen."""
        return self._observed.holder

    @property
    def is_leader(self) -> bool:
        return self._observed.holder == self.identity

    @property
    def is_expired(self) -> bool:
        """Report whether another candidate may have acquired the lease since the last renewal. Callable in any thread.

        Others count from when they see a renewal, which is after it was sent. The right to write ends earlier than the
        lease by half of the time between deadline and duration: time for requests under way to arrive, and for clocks
        that run at different rates.
        """
        right_s = self.settings.renew_deadline_s + self.settings.arrives_within_s
        return not self.is_leader or self._clock.monotonic() >= self._renewed_at + right_s

    def check(self, tolerance_s: float = WATCHDOG_S) -> str | None:
        """Report a leader that has not renewed long after its lease expired: it should have exited."""
        if not self.is_leader:
            return None
        if self._clock.monotonic() - self._observed_at > self.settings.lease_duration_s + tolerance_s:
            return f"failed election to renew leadership on lease {self.settings.name}"
        return None

    # The election

    async def run(
        self, lead: Callable[[], Coroutine[Any, Any, None]], on_lost: Callable[[], None] | None = None
    ) -> None:
        """Campaign, run ``lead`` while leading, and raise ``LeaseLost`` when the lease is lost.

        ``on_lost`` is called the moment the lease is lost, before ``lead`` can notice anything. On cancellation
        ``lead`` is cancelled first and given time to finish; then the lease is released.
        """
        await self.acquire()
        work = asyncio.create_task(lead(), name="leading")
        renewal = self._renewal = asyncio.create_task(self.renew(), name="lease renewal")
        if on_lost is not None:
            renewal.add_done_callback(lambda renewal: None if renewal.cancelled() else on_lost())
        try:
            done, _ = await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
            if work in done:
                work.result()
        finally:
            lost = renewal.done()
            # Requests in flight may need a while to finish; the lease stays ours until then.
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
            self._observe_leadership(False)
            # A cancelled request may still be on its way to the server: then the lease has to expire by itself.
            await asyncio.shield(self._step_down(release=not lost))
        if lost:
            raise LeaseLost("leader election lost")

    def depose(self) -> None:
        """End the term: a write was too late, so the lease counts as lost whatever the next renewal returns."""
        if self._renewal is not None:
            self._renewal.cancel()

    async def acquire(self) -> None:
        """Retry until the lease is acquired."""
        log.info("Attempting to acquire leader lease...", lock=self._where)
        while True:
            got_it = await self._try()
            self._report_transition()
            if got_it:
                break
            await self._sleep(self._until_next_look())
        self._observe_leadership(True)
        self._event("became leader")
        log.info("Successfully acquired lease", lock=self._where)

    def _until_next_look(self) -> float:
        """Return how long a candidate waits: until the observed lease expires, or until the next poll."""
        if not self._observed.holder or not self._is_valid():
            return self.settings.retry_period_s * (1 + JITTER_FACTOR * self._rng.random())  # it failed to acquire
        look_s = self.settings.retry_period_s / LOOKS_PER_PERIOD * (1 + LOOK_JITTER * self._rng.random())
        expires_s = self._observed_at + self._observed.duration_s - self._clock.monotonic()
        return min(look_s, expires_s + EXPIRED_S)

    async def renew(self) -> None:
        """Renew the lease; return once another candidate holds it, or renewals have failed for the renew deadline.

        client-go continues until the deadline although it can see the new holder.
        """
        while True:
            deadline = self._clock.monotonic() + self.settings.renew_deadline_s
            while not await self._try_until(deadline):
                self._report_transition()
                if self._observed.holder not in ("", self.identity):
                    log.info("Failed to renew lease", lock=self._where, holder=self._observed.holder)
                    return
                left_s = deadline - self._clock.monotonic()
                if left_s < LAST_TRY_S:
                    log.info("Failed to renew lease", lock=self._where)
                    return
                # Shorter pauses near the deadline: an outage that ends before it does not cost the lease.
                await self._sleep(min(self.settings.retry_period_s, left_s / 2))
            self._report_transition()
            await self._sleep(self.settings.retry_period_s)

    async def release(self) -> bool:
        """Release the lease, so that the next leader need not wait for it to expire."""
        try:
            async with asyncio.timeout(self.settings.renew_deadline_s):
                old = await self._get()
                if not self.is_leader or old.holder != self.identity:
                    return True  # another holder has taken it since, which client-go would not notice
                now = format_micro_time(self._clock.now())
                released = LeaderElectionRecord("", RELEASED_S, now, now, old.transitions)
                await self._put(released)
        except (ApiError, TimeoutError) as error:
            log.error(str(error) or "no answer in time", "Failed to release lease", lock=self._where)
            return False
        self._observe(released)
        return True

    async def _step_down(self, *, release: bool) -> None:
        if release:
            await self.release()
        self._event("stopped leading")

    async def _try_until(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, deadline - self._clock.monotonic())):
                return await self._try()
        except TimeoutError:
            return False

    async def _try(self) -> bool:
        """Acquire or renew once; false if another candidate leads or the server refuses."""
        now, began = format_micro_time(self._clock.now()), self._clock.monotonic()
        duration_s = self.settings.lease_s
        if self.is_leader and self._is_valid():
            record = LeaderElectionRecord(
                self.identity, duration_s, self._observed.acquire_time, now, self._observed.transitions
            )
            try:
                await self._put(record)
            except ApiError as error:
                log.v(2).info("Failed to update lease optimistically, falling back to slow path", err=str(error))
            else:
                self._renewed(record, began)
                return True
        try:
            try:
                old = await self._get()
            except NotFound:
                if self._observed.holder and not self.is_leader and self._is_valid():
                    return False  # deleted, while its holder may still be leading
                record = LeaderElectionRecord(self.identity, duration_s, now, now, 0)
                await self._post(record)
                self._renewed(record, began)
                return True
            if self._is_emptied(old):
                if not self.is_leader:
                    return False  # emptied, while its holder may still be leading
            elif old != self._observed_raw:
                self._observe(old)
                self._observed_raw = old
            if old.holder and not self.is_leader and self._is_valid():
                return False
            if self.is_leader:
                record = LeaderElectionRecord(self.identity, duration_s, old.acquire_time, now, old.transitions)
            else:
                record = LeaderElectionRecord(self.identity, duration_s, now, now, old.transitions + 1)
            await self._put(record)
        except ApiError as error:
            log.warning("Error retrieving or updating the lease", lock=self._where, err=str(error))
            return False
        self._renewed(record, began)
        return True

    def _is_emptied(self, record: LeaderElectionRecord) -> bool:
        """Report whether the holder was removed from a lease that is still ours.

        A released Lease has a 1 s duration.
        """
        is_empty = not record.holder and record.duration_s > RELEASED_S
        return is_empty and bool(self._observed.holder) and self._is_valid()

    def _renewed(self, record: LeaderElectionRecord, began: float) -> None:
        """Note a renewal. The term counts from ``began``, before the request was sent: other candidates count from when
        they see the renewal, so ours always ends first.
        """
        self._renewed_at = began
        self._observe(record)

    def _observe(self, record: LeaderElectionRecord) -> None:
        self._observed = record
        self._observed_at = self._clock.monotonic()

    def _is_valid(self) -> bool:
        return self._observed_at + self._observed.duration_s > self._clock.monotonic()

    def _report_transition(self) -> None:
        if self._observed.holder != self._reported:
            self._reported = self._observed.holder
            log.info("New leader elected", identity=self._reported)

    def _observe_leadership(self, is_leader: bool) -> None:
        if self._observer is not None:
            self._observer(self.settings.name, is_leader)

    # The Lease on the wire

    @property
    def _where(self) -> str:
        return f"{self.settings.namespace}/{self.settings.name}"

    @property
    def _path(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.settings.namespace}/leases"

    @property
    def _timeout_s(self) -> float:
        return max(1.0, self.settings.renew_deadline_s / 2)

    def _query(self) -> dict[str, str]:
        return {"timeout": f"{self._timeout_s:g}s"}

    async def _get(self) -> LeaderElectionRecord:
        path = f"{self._path}/{self.settings.name}"
        answer = await self._client.get(path, self._query(), timeout_s=self._timeout_s)
        return self._take(answer.body)

    async def _post(self, record: LeaderElectionRecord) -> None:
        body = {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": self.settings.name, "namespace": self.settings.namespace},
            "spec": _spec(record),
        }
        encoded = msgspec.json.encode(body)
        answer = await self._client.create(self._path, encoded, self._query(), timeout_s=self._timeout_s)
        self._take(answer.body)

    async def _put(self, record: LeaderElectionRecord) -> None:
        if self._lease is None:
            raise ApiError("lease not initialized, call get or create first")
        body = {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {key: value for key, value in self._lease["metadata"].items() if key != "managedFields"},
            "spec": {**(self._lease.get("spec") or {}), **_spec(record)},
        }
        path = f"{self._path}/{self.settings.name}"
        encoded = msgspec.json.encode(body)
        answer = await self._client.update(path, encoded, self._query(), timeout_s=self._timeout_s)
        self._take(answer.body)

    def _take(self, body: bytes) -> LeaderElectionRecord:
        try:
            lease = msgspec.json.decode(body)
            spec = lease.get("spec") or {}
            record = LeaderElectionRecord(
                spec.get("holderIdentity") or "",
                int(spec.get("leaseDurationSeconds") or 0),
                spec.get("acquireTime"),
                spec.get("renewTime"),
                int(spec.get("leaseTransitions") or 0),
            )
            lease["metadata"]["resourceVersion"]
        except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ApiError(f"the answer is not a Lease: {error}") from None
        self._lease = lease
        return record

    def _event(self, what: str) -> None:
        if self._recorder is None:
            return
        meta = (self._lease or {}).get("metadata", {})
        reference = InvolvedObject(
            kind="Lease",
            namespace=self.settings.namespace,
            name=self.settings.name,
            uid=meta.get("uid", ""),
            api_version="coordination.k8s.io/v1",
            resource_version=meta.get("resourceVersion", ""),
        )
        self._recorder.record(
            reference,
            type="Normal",
            reason="LeaderElection",
            action="",
            note=f"{self.identity} {what}",
            controller=self._component,
        )


def _spec(record: LeaderElectionRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_s,
        "acquireTime": record.acquire_time,
        "renewTime": record.renew_time,
        "leaseTransitions": record.transitions,
    }
