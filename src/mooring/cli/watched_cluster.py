"""Watching somebody else's cluster: get, list and watch, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from mooring.client.informer import InformerSet
from mooring.client.rest import RestClient
from mooring.errors import ApiError
from mooring.scheduler.informers import Listener, connect

SYNC_S = 30.0


class Watcher(Listener, Protocol):
    """Hears of what happens, and is told once it knows all that was there before."""

    is_synced: bool


@asynccontextmanager
async def watched(client: RestClient, *watchers: Watcher) -> AsyncIterator[InformerSet]:
    """Tell the watchers what happens in the cluster; the block begins when all that is there is known."""
    informers = InformerSet(client)
    for watcher in watchers:
        connect(informers, watcher)
    informers.start()
    try:
        if not await informers.wait_for_sync(SYNC_S):
            missing = ", ".join(informers.missing())
            raise ApiError(f"no list of {missing} within {SYNC_S:g}s; may you get, list and watch them?")
        for watcher in watchers:
            watcher.is_synced = True
        yield informers
    finally:
        await informers.stop()
