"""Ending an HTTP server of aiohttp so that no connection outlives it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web


async def stop_serving(runner: web.BaseRunner) -> None:
    """Stop listening, let answers in flight finish, and drop the connections that are still there then.

    Closing a TLS connection waits for the peer's farewell. A peer that is slow or gone would leave the socket open
    for longer than the loop lives.
    """
    server = runner.server
    before = [] if server is None else server.connections
    transports = [transport for connection in before if (transport := connection.transport) is not None]
    await runner.cleanup()
    await asyncio.sleep(0)  # one that was being accepted is there by now
    after = [] if server is None else server.connections
    transports += [transport for connection in after if (transport := connection.transport) is not None]
    for transport in transports:
        transport.abort()
    await asyncio.sleep(0)  # sockets are closed in the loop's next turn
