"""Watching somebody else's cluster for a recorder: get, list and watch, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mooring.client.informer import InformerSet
from mooring.client.rest import RestClient
from mooring.errors import ApiError
from mooring.record.watching import WatchRecorder
from mooring.scheduler.informers import connect

SYNC_S = 30.0


@asynccontextmanager
async def watched(client: RestClient, recorder: WatchRecorder) -> AsyncIterator[None]:
    """Tell the recorder what happens in the cluster; the block begins when all that is there is known."""
    informers = InformerSet(client)
    connect(informers, recorder)
    informers.start()
    try:
        if not await informers.wait_for_sync(SYNC_S):
            missing = ", ".join(informers.missing())
            raise ApiError(f"no list of {missing} within {SYNC_S:g}s; may you get, list and watch them?")
        recorder.is_synced = True
        yield
    finally:
        await informers.stop()
