"""A watch cache that is behind: a list is answered with an older state than the newest, as far as its request allows.

An API server may answer a list that asks for a version "not older than" so-and-so with exactly that version. A
client that has seen something newer in the meantime, by another way, then sees the past once more.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from mooring.controlplane.storage.store import Store, StoredEntry
from mooring.controlplane.storage.watches import Hub, Match, Render, Watcher, plain
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.status import StatusError
from tests.faults.world import VirtualLoop

BEHIND: ContextVar[tuple[int, float] | None] = ContextVar("behind", default=None)
"""The version from which on a list may be answered, and for how many seconds the cache stays behind."""


class BehindHub(Hub):
    """Opens watches with an older state while ``BEHIND`` says so."""

    def __init__(self, store: Store, loop: VirtualLoop) -> None:
        super().__init__(store)
        self._loop = loop
        self._catching_up: dict[Watcher, None] = {}

    def open(
        self,
        kind: Kind,
        match: Match,
        *,
        since: int | None = None,
        render: Render = plain,
        view: str | None = "",
        initial_end: bool = False,
        limit: int = 20_000,
    ) -> Watcher:
        behind = BEHIND.get()
        if behind is None or since is not None:
            more: dict[str, Any] = {"render": render, "view": view, "initial_end": initial_end, "limit": limit}
            return super().open(kind, match, since=since, **more)
        not_older_than, for_s = behind
        stored = kind.storage
        version = max(not_older_than, self._store.oldest(stored))
        watcher = Watcher(kind, match, render, view, limit)
        for entry in state_at(self._store, stored, version):
            if match(entry):
                watcher.add(entry)
        watcher.rv = version
        if initial_end:
            watcher.bookmark(is_initial_end=True)
        self._catching_up[watcher] = None
        self._loop.call_later(for_s, self._catch_up, watcher)
        return watcher

    def _catch_up(self, watcher: Watcher) -> None:
        if watcher not in self._catching_up:
            return
        del self._catching_up[watcher]
        stored = watcher.kind.storage
        try:
            missed = self._store.events_since(stored, watcher.rv)
        except StatusError:  # so far behind that nothing can be made up for
            watcher.close()
            return
        for event in missed:
            watcher.offer(event)
        watcher.rv = self._store.rv
        self._watchers_of(stored).append(watcher)

    def forget(self, watcher: Watcher) -> None:
        self._catching_up.pop(watcher, None)
        super().forget(watcher)


def state_at(store: Store, kind: Kind, version: int) -> list[StoredEntry]:
    """What there was of a kind at a version that is still remembered, in the order of keys."""
    there = {entry.key: entry for entry in store.iterate(kind)}
    for event in reversed(store.events_since(kind, version)):
        if event.previous is None:
            there.pop(event.entry.key, None)
        else:
            there[event.entry.key] = event.previous
    return [there[key] for key in sorted(there)]
