"""Watching somebody else's cluster: get, list and watch, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from mooring.cli.streams import say
from mooring.client.informer import InformerSet
from mooring.client.rest import RestClient
from mooring.clock import SystemClock
from mooring.errors import ApiError
from mooring.scheduler.informers import Listener, connect

SYNC_S = 30.0
LOOK_S = 0.5
PATIENCE_S = 5.0
"""A server that is back by then was restarted: nobody needs to know."""


class Watcher(Listener, Protocol):
    """Hears of what happens, and is told once it knows all that was there before."""

    is_synced: bool


class Reach:
    """Whether the cluster is heard of: to somebody who only listens, one that is gone looks like one that is quiet."""

    def __init__(self) -> None:
        self.lost_s = 0.0  # in all
        self._since: float | None = None
        self._lost_before_s = 0.0
        self._is_told = False

    def look(self, trouble: str, now: float) -> str:
        """Take in why nothing is heard, if so; return what should be said about it, once, and once when it is over."""
        if not trouble:
            was_told, self._is_told = self._is_told, False
            self._since, self._lost_before_s = None, self.lost_s
            return "The cluster is within reach again." if was_told else ""
        if self._since is None:
            self._since = now
        lost_s = now - self._since
        self.lost_s = self._lost_before_s + lost_s
        if self._is_told or lost_s < PATIENCE_S:
            return ""
        self._is_told = True
        return f"The cluster is out of reach for {lost_s:.0f}s, and is tried again and again: {trouble}"


@asynccontextmanager
async def watched(client: RestClient, *watchers: Watcher) -> AsyncIterator[tuple[InformerSet, Reach]]:
    """Tell the watchers what happens in the cluster; the block begins when all that is there is known."""
    informers, reach = InformerSet(client, complains_at=logging.INFO), Reach()
    for watcher in watchers:
        connect(informers, watcher)
    informers.start()
    looking: asyncio.Task[None] | None = None
    try:
        await _first_lists(informers)
        for watcher in watchers:
            watcher.is_synced = True
        looking = asyncio.create_task(_look(informers, reach), name="reach")
        yield informers, reach
    finally:
        if looking is not None:
            looking.cancel()
        await informers.stop()


async def _first_lists(informers: InformerSet) -> None:
    """Return when all that is there is known, and raise ApiError as soon as it is clear that it will not be."""
    clock = SystemClock()
    until = clock.monotonic() + SYNC_S
    while not await informers.wait_for_sync(LOOK_S):
        refused = informers.refused()
        if refused:
            raise ApiError(f"{refused}; get, list and watch are needed (deploy/shadow has such a role)")
        if clock.monotonic() >= until:
            missing = ", ".join(informers.missing())
            raise ApiError(f"no list of {missing} within {SYNC_S:g}s; may you get, list and watch them?")


async def _look(informers: InformerSet, reach: Reach) -> None:
    clock = SystemClock()
    while True:
        text = reach.look(informers.trouble, clock.monotonic())
        if text:
            say(text)
        await asyncio.sleep(LOOK_S)
