"""Informers: a local copy of each kind, and handlers that receive every change in order.

A watch may deliver an event twice, an old one after a newer one, or leave a gap that a new list has to close. Handlers
see none of that: an update always follows an add, a delete ends it, versions never decrease. A gap becomes the missed
updates and deletes; an object deleted and recreated under the same name becomes a delete and an add.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from mooring.api.clock import Clock, SystemClock
from mooring.api.errors import ApiError
from mooring.api.memory import frozen_gc
from mooring.net.errors import NotFound
from mooring.net.rest import RestClient
from mooring.net.watch import Reflector
from mooring.net.watch_events import ApiObject, Garbled, ResourceKind

log = logging.getLogger("mooring.net.informer")

T = TypeVar("T", bound=ApiObject)

SLICE_S = 0.008
"""How long an informer works before it lets other tasks run."""
TOMBSTONES = 4096
SMALL = 2000
"""Kinds with up to this many objects are listed once more instead of waiting for the watch."""
PASS_S = 2.0
"""How long a watch of many objects is given to reach a version."""
PODS_FIELD_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
"""Finished pods do not matter to the scheduler."""

OnAdd = Callable[[T], None]
OnUpdate = Callable[[T, T], None]
OnDelete = Callable[[T], None]


class _Handler(Generic[T]):
    __slots__ = ("on_add", "on_delete", "on_update")

    def __init__(self, on_add: OnAdd[T] | None, on_update: OnUpdate[T] | None, on_delete: OnDelete[T] | None) -> None:
        self.on_add, self.on_update, self.on_delete = on_add, on_update, on_delete


class Informer(Generic[T]):
    """The local copy of one kind. ``run`` keeps it up to date and calls the handlers, one event at a time."""

    def __init__(
        self, client: RestClient, kind: ResourceKind[T], *, clock: Clock | None = None, **reflector: Any
    ) -> None:
        self.kind = kind
        self._clock = clock or SystemClock()
        self.store: dict[str, T] = {}
        self.reflector: Reflector[T] = Reflector(client, kind, self, clock=self._clock, **reflector)
        self._handlers: list[_Handler[T]] = []
        self._synced = asyncio.Event()
        self._tombstones: OrderedDict[str, int] = OrderedDict()
        self._listed_at: int | None = None
        self.is_listing = False  # whether handlers are receiving a list: its changes have no order

    # Methods for users of the copy

    def add_handler(
        self,
        on_add: OnAdd[T] | None = None,
        on_update: OnUpdate[T] | None = None,
        on_delete: OnDelete[T] | None = None,
    ) -> None:
        """Register a handler; it receives the existing objects immediately."""
        handler = _Handler(on_add, on_update, on_delete)
        self._handlers.append(handler)
        if on_add is not None:
            for item in list(self.store.values()):
                self._call(on_add, item)

    @property
    def has_synced(self) -> bool:
        """Report whether the first list has arrived and all handlers have been called."""
        return self._synced.is_set()

    @property
    def is_served(self) -> bool:
        """Report whether the API server serves this kind; true until it answers 404."""
        return self.reflector.is_served

    @property
    def is_current(self) -> bool:
        """Report whether the copy is no newer than the API server's state; true for a kind it does not serve."""
        return self.reflector.is_current or not self.is_served

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def get(self, key: str) -> T | None:
        """Look up ``namespace/name``, or the bare name of a cluster-scoped object."""
        return self.store.get(key)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self.store.values()))

    def __len__(self) -> int:
        return len(self.store)

    async def run(self) -> None:
        """Keep the copy up to date until cancelled."""
        await self.reflector.run()

    # Methods for the reflector

    async def replace(self, objects: Sequence[T], resource_version: str) -> None:
        """Replace the copy by a complete list: adds and updates first, then deletes."""
        self._tombstones.clear()
        self._listed_at = _number(resource_version)
        self.is_listing = True
        try:
            await self._take_list(objects)
        finally:
            self.is_listing = False
        self._synced.set()

    async def _take_list(self, objects: Sequence[T]) -> None:
        keep: set[str] = set()
        slices = _Slices(self._clock)
        for item in objects:
            key = _key(item)
            keep.add(key)
            self._upsert(key, item, is_list=True)
            if slices.is_over():
                await asyncio.sleep(0)
        for key in [key for key in self.store if key not in keep]:
            self._remove(key)
            if slices.is_over():
                await asyncio.sleep(0)

    async def merge(self, objects: Sequence[T], resource_version: str) -> None:
        """Merge a complete list that may be ahead of or behind the watch: newer versions win."""
        listed_at = _number(resource_version)
        slices = _Slices(self._clock)
        keep = {_key(item) for item in objects}
        for item in objects:
            self._upsert(_key(item), item)
            if slices.is_over():
                await asyncio.sleep(0)
        for key in [key for key in self.store if key not in keep]:
            known = self.store.get(key)
            if known is not None and _is_stale(known.metadata.resource_version, listed_at):
                self._bury(key, listed_at)
                self._remove(key)
            if slices.is_over():
                await asyncio.sleep(0)

    async def catch_up(self) -> None:
        """Return when the copy has everything that the API server has now, however far behind the watch is.

        A watch reveals its position only through events. So a small kind is listed once more. A large one is given a
        moment, because some object always changes.
        """
        pause_s = 0.05
        while self.is_served:
            try:
                if not self.reflector.is_current:
                    raise ApiError("the watch is cut")  # versions prove nothing until it is reconnected
                if len(self.store) <= SMALL or not await self._is_passed(await self.reflector.version_now()):
                    await self.merge(*await self.reflector.list_now())
                return
            except NotFound:
                return
            except (ApiError, Garbled) as error:
                log.info("%s: cannot list, retrying: %s", self.kind.name, error)
            await asyncio.sleep(pause_s)
            pause_s = min(1.0, 2 * pause_s)

    async def _is_passed(self, version: str) -> bool:
        wanted, until = _number(version), self._clock.monotonic() + PASS_S
        while wanted is not None and self._clock.monotonic() < until:
            reached = _number(self.reflector.last_version)
            if reached is not None and reached >= wanted:
                return True
            await asyncio.sleep(PASS_S / 100)
        return False

    async def apply(self, events: Sequence[tuple[str, T]]) -> None:
        """Process events in order."""
        slices = _Slices(self._clock)
        for type_, item in events:
            if type_ == "DELETED":
                self._delete(_key(item), item)
            else:
                self._upsert(_key(item), item)
            if slices.is_over():
                await asyncio.sleep(0)

    def _upsert(self, key: str, item: T, *, is_list: bool = False) -> None:
        old = self.store.get(key)
        version = item.metadata.resource_version
        if old is None:
            # Known to be deleted: since then, or missing from a newer list.
            if not is_list and (_is_stale(version, self._listed_at) or _is_stale(version, self._tombstones.get(key))):
                return
            self.store[key] = item
            for handler in self._handlers:
                if handler.on_add is not None:
                    self._call(handler.on_add, item)
            return
        old_version = old.metadata.resource_version
        if version == old_version and version:
            return
        if not is_list and _is_stale(version, _number(old_version)):
            return
        if old.metadata.uid != item.metadata.uid:
            self._remove(key)
            self._upsert(key, item, is_list=True)
            return
        self.store[key] = item
        for handler in self._handlers:
            if handler.on_update is not None:
                self._call(handler.on_update, old, item)

    def _delete(self, key: str, item: T) -> None:
        version = _number(item.metadata.resource_version)
        old = self.store.get(key)
        known = None if old is None else _number(old.metadata.resource_version)
        if version is not None and known is not None and version < known:
            return
        self._bury(key, version)
        if old is not None:
            # The last state, as upstream: the deleted object as the server sends it, not as it was cached.
            self._remove(key, item if item.metadata.uid == old.metadata.uid else old)

    def _bury(self, key: str, version: int | None) -> None:
        """Remember a deletion: later events of the object may be older."""
        if version is not None:
            self._tombstones[key] = max(version, self._tombstones.get(key, 0))
            self._tombstones.move_to_end(key)
            if len(self._tombstones) > TOMBSTONES:
                self._tombstones.popitem(last=False)

    def _remove(self, key: str, last: T | None = None) -> None:
        known = self.store.pop(key)
        gone = known if last is None else last
        for handler in self._handlers:
            if handler.on_delete is not None:
                self._call(handler.on_delete, gone)

    def _call(self, function: Callable[..., None], *arguments: T) -> None:
        try:
            function(*arguments)
        except Exception:
            log.exception("%s: a handler failed on %s", self.kind.name, _key(arguments[-1]))


class InformerSet:
    """All informers of a process, started and synchronised together."""

    def __init__(self, client: RestClient, *, tune_gc: bool = False, **reflector: Any) -> None:
        """``reflector`` is passed to every informer: a clock, a random generator."""
        self._client = client
        self._reflector = reflector
        self._tune_gc = tune_gc
        self._informers: dict[str, Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.is_restoring = False
        """Whether the API server has gone back to an older state, and some copies are not known to be of that state."""
        self.on_restoring: Callable[[], None] = lambda: None  # called when that changes

    def _restored(self) -> None:
        if not self.is_restoring:
            self.is_restoring = True
            self.on_restoring()

    def _current(self) -> None:
        if self.is_restoring and all(informer.is_current for informer in self._informers.values()):
            self.is_restoring = False
            self.on_restoring()

    def add(self, kind: ResourceKind[T], **reflector: Any) -> Informer[T]:
        """Add an informer for a kind, or return the existing one."""
        known = self._informers.get(kind.name)
        if known is not None:
            return known
        heard = {"on_restored": self._restored, "on_current": self._current}
        informer: Informer[T] = Informer(self._client, kind, **{**self._reflector, **heard, **reflector})
        self._informers[kind.name] = informer
        if self._tasks:
            self._tasks.append(asyncio.create_task(informer.run(), name=f"informer {kind.name}"))
        return informer

    def __getitem__(self, name: str) -> Informer[Any]:
        return self._informers[name]

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(self._informers.values())

    def start(self) -> None:
        """Start all informers."""
        if self._tasks:
            return
        for informer in self._informers.values():
            self._tasks.append(asyncio.create_task(informer.run(), name=f"informer {informer.kind.name}"))

    @property
    def has_synced(self) -> bool:
        """Report whether all first lists have arrived. Callable in any thread."""
        return all(informer.has_synced for informer in tuple(self._informers.values()))

    @property
    def is_listing(self) -> bool:
        """Report whether handlers are receiving a list right now, which has no order."""
        return any(informer.is_listing for informer in self._informers.values())

    def missing(self) -> list[str]:
        """Return the kinds whose first list has not arrived yet."""
        return [informer.kind.name for informer in self._informers.values() if not informer.has_synced]

    def refused(self) -> str:
        """Return what this user may not list, if only that delays the first lists (a retry will not help)."""
        missing = [informer for informer in self if not informer.has_synced]
        if not missing or not all(informer.reflector.is_refused for informer in missing):
            return ""
        others = f" and {len(missing) - 1} other kinds" if len(missing) > 1 else ""
        return f"{missing[0].kind.name}{others}: {missing[0].reflector.trouble}"

    @property
    def trouble(self) -> str:
        """Return why one of the kinds cannot be watched right now; empty if all are."""
        troubles = (f"{each.kind.name}: {each.reflector.trouble}" for each in self if each.reflector.trouble)
        return next(troubles, "")

    def failing(self, limit_s: float) -> str | None:
        """Name the first kind that could not be listed or watched within the limit. Callable in any thread."""
        for each in tuple(self._informers.values()):
            if (failing_s := each.reflector.failing_s) > limit_s:
                return f"{each.kind.name}: nothing has got through for {failing_s:.0f}s: {each.reflector.trouble}"
        return None

    def not_served(self) -> list[str]:
        """Return the kinds that this API server does not serve, because it is older or they are disabled.

        They count as synchronised, without objects, and are requested again every few minutes.
        """
        return [informer.kind.name for informer in self._informers.values() if not informer.is_served]

    async def wait_for_sync(self, timeout_s: float | None = None) -> bool:
        """Wait until every informer has its first list; false after the timeout.

        With ``tune_gc`` the garbage collector is off until then, and the new objects are frozen: they live as long as
        the process.
        """
        with frozen_gc() if self._tune_gc else contextlib.nullcontext():
            waits = [asyncio.ensure_future(informer.wait_synced()) for informer in self._informers.values()]
            if not waits:
                return True
            _, pending = await asyncio.wait(waits, timeout=timeout_s)
            for wait in pending:
                wait.cancel()
        return not pending

    async def catch_up(self) -> None:
        """Return when all copies have what the API server has now, for a new leader before its first decision."""
        await asyncio.gather(*(informer.catch_up() for informer in self._informers.values()))

    async def stop(self) -> None:
        """Stop all informers."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Slices:
    """Says when to let other tasks run. It checks the clock for every sixteenth object only."""

    __slots__ = ("_count", "_monotonic", "_until")

    def __init__(self, clock: Clock) -> None:
        self._count = 0
        self._monotonic = clock.monotonic
        self._until = self._monotonic() + SLICE_S

    def is_over(self) -> bool:
        self._count += 1
        if self._count & 15:
            return False
        now = self._monotonic()
        if now < self._until:
            return False
        self._until = now + SLICE_S
        return True


def _key(item: ApiObject) -> str:
    meta = item.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _number(version: str) -> int | None:
    return int(version) if version.isdecimal() else None


def _is_stale(version: str, than: int | None) -> bool:
    return than is not None and version.isdecimal() and int(version) <= than
