"""Connections end with the loop, also where the peer never says goodbye."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.controlplane.server import ControlPlane
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from mooring.net.tls import TlsSettings, self_signed

Program = Callable[[], Coroutine[Any, Any, None]]


def left_open(program: Program) -> list[str]:
    """What a program leaves behind when its loop has ended; in a thread of its own, away from the test's loop."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ResourceWarning)
        thread = threading.Thread(target=lambda: asyncio.run(program()))
        thread.start()
        thread.join()
        gc.collect()
    return [text for each in said if "transport" in (text := str(each.message))]


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_a_server_leaves_no_connection_of_a_client_that_stays(tmp_path: Path) -> None:
    clients: list[socket.socket] = []

    def call(port: int) -> None:
        client = trusting().wrap_socket(socket.create_connection(("127.0.0.1", port)))
        client.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.recv(1000)
        clients.append(client)

    async def program() -> None:
        async with ControlPlane(kubeconfig_path=tmp_path / "kubeconfig") as plane:
            await asyncio.to_thread(call, int(plane.url.rsplit(":", 1)[1]))

    try:
        assert left_open(program) == []
        assert len(clients) == 1
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("use_tls", [False, True], ids=["plain", "TLS"])
def test_a_server_leaves_no_connection_that_came_right_before_its_end(turns: int, use_tls: bool) -> None:
    """In these turns of the loop the connection is accepted, gets its transport and its protocol, one after another."""
    clients: list[socket.socket] = []

    async def program() -> None:
        async with ControlPlane(use_tls=use_tls) as plane:
            await asyncio.sleep(0.01)  # whatever began with the server is over
            clients.append(socket.create_connection(("127.0.0.1", int(plane.url.rsplit(":", 1)[1]))))
            for _ in range(turns):
                await asyncio.sleep(0)

    try:
        assert left_open(program) == []
    finally:
        for client in clients:
            client.close()


@pytest.fixture
def silent_server(tmp_path: Path) -> Iterator[str]:
    """Begins an answer that never ends, and does not answer a TLS farewell."""
    identity = self_signed("127.0.0.1")
    file = tmp_path / "identity.pem"
    file.write_bytes(identity.certificate + identity.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                peer = context.wrap_socket(listening.accept()[0], server_side=True)
                accepted.append(peer)
                peer.recv(1000)
                peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()
    for peer in accepted:
        peer.close()


def test_a_client_leaves_no_connection_of_a_watch_that_it_gave_up(silent_server: str) -> None:
    read: list[bytes] = []

    async def program() -> None:
        config = ClientConfig(server=silent_server, tls=TlsSettings(insecure=True))
        async with RestClient(config) as client, client.stream("/watch", timeout_s=60) as body:
            read.append(await body.readany())

    assert left_open(program) == []
    assert read == [b"hello"]
