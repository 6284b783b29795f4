"""Ending an HTTP server of aiohttp so that no connection outlives it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

ACCEPTING_TURNS = 3
"""So many turns of the loop asyncio takes for a connection: it is accepted, gets its transport, and its protocol."""


async def stop_serving(runner: web.BaseRunner) -> None:
    """Stop listening, let answers in flight finish, and drop the connections that are still there then.

    Closing a TLS connection waits for the peer's farewell. A peer that is slow or gone would leave the socket open
    for longer than the loop lives.
    """
    await _accept_no_more(runner)
    connections = [] if runner.server is None else runner.server.connections
    transports = [transport for connection in connections if (transport := connection.transport) is not None]
    await runner.cleanup()
    for transport in transports:
        transport.abort()
    await asyncio.sleep(0)  # sockets are closed in the loop's next turn


async def _accept_no_more(runner: web.BaseRunner) -> None:
    """Let connections that are being accepted become whole. A server that is closed meanwhile would lose their sockets.

    aiohttp, too, forgets those that come while it lets others finish.
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for site in runner.sites:
            server: asyncio.Server | None = getattr(site, "_server", None)
            for listening in () if server is None else server.sockets:
                loop.remove_reader(listening)
    for _ in range(ACCEPTING_TURNS):
        await asyncio.sleep(0)
