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
    connections = [] if server is None else server.connections
    transports = [transport for connection in connections if (transport := connection.transport) is not None]
    await runner.cleanup()
    for transport in transports:
        transport.abort()
    await asyncio.sleep(0)  # sockets are closed in the loop's next turn
