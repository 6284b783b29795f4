"""Connecting to a server, where it breaks off."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest
import uvloop

from mooring.net.connect import Connector
from mooring.net.errors import Unreachable
from mooring.net.http1_connection import ReadConnection


class Resetting(uvloop.Loop):
    """Each connection is lost in the moment in which it is there."""

    async def create_connection(self, *args, **options):
        transport, protocol = await super().create_connection(*args, **options)
        transport.abort()
        return transport, protocol


def test_a_connection_that_is_reset_before_the_handshake_is_no_mistake_of_ours():
    complaints: list[str] = []
    context = ssl.create_default_context()

    async def connect(port: int) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: complaints.append(str(found)))
        with pytest.raises(Unreachable, match="the server closed the connection"):
            await Connector("127.0.0.1", port, tls=lambda: context).connect(context, lambda _: ReadConnection())

    with socket.create_server(("127.0.0.1", 0)) as listener, asyncio.Runner(loop_factory=Resetting) as runner:
        runner.run(connect(listener.getsockname()[1]))
    assert complaints == []
