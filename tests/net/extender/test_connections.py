"""Connections: which are served, which are closed to make room, and how they end."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest
from raw_client import Client, Names, request, running
from scripted_server import make_certificate

from mooring.net.extender.http_client import server_context
from mooring.net.extender.server import ExtenderServer, serve_object
from mooring.net.http1 import Message
from mooring.net.http_io import Bounds, Response
from mooring.net.server import BodyMemory, Connection, Connections


def test_an_idle_connection_is_closed_without_a_response() -> None:
    with running(idle_timeout_s=0.05) as (_, port):
        client = Client(port)
        assert client.is_closed()
        client.close()


def test_the_longest_idle_connection_is_closed_for_a_new_one() -> None:
    with running(connections=3) as (_, port):
        slow = Client(port).send(request()[:20])
        others = [Client(port) for _ in range(2)]
        for other in others:
            assert other.send(request()).answer()[0] == 200
        newest = Client(port)
        assert newest.send(request()).answer()[0] == 200
        assert slow.is_closed(), "an incomplete request does not block other connections"
        assert others[1].send(request()).answer()[0] == 200
        for client in (slow, *others, newest):
            client.close()


def test_those_whose_requests_are_carried_out_are_not_put_out() -> None:
    with running(connections=1) as (server, port):
        busy = Client(port).send(request(path="/prioritize"))
        assert Names.entered.acquire(timeout=60)
        late = Client(port)
        status, _, body = late.answer()
        assert (status, json.loads(body)["Error"]) == (503, "1 connections are in use, which is the limit")
        Names.released.set()
        try:
            assert busy.answer()[0] == 200
        finally:
            Names.released.clear()
            busy.close()
            late.close()
        assert not server.is_busy


def test_a_client_that_hangs_up_is_no_matter() -> None:
    with running() as (_, port):
        for part in (b"", request()[:20], request()[:-5], request()):
            client = Client(port).send(part)
            client.close()
        client = Client(port)
        assert client.send(request()).answer()[0] == 200
        client.close()


def test_closing_ends_connections() -> None:
    with running() as (server, port):
        client = Client(port)
        assert client.send(request()).answer()[0] == 200
        server.close()
        assert client.is_closed()
        client.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60)


def test_a_request_that_is_being_carried_out_is_answered_before_the_end() -> None:
    with running() as (server, port):
        busy, idle = Client(port).send(request(path="/prioritize")), Client(port)
        assert idle.send(request()).answer()[0] == 200
        assert Names.entered.acquire(timeout=60)
        closing = threading.Thread(target=server.close, args=(10.0,))
        closing.start()
        assert idle.is_closed(), "the shutdown does not wait for idle connections"
        Names.released.set()
        try:
            status, headers, _ = busy.answer()
            assert (status, headers["connection"]) == (200, "close")
            closing.join(300)
            assert not closing.is_alive()
        finally:
            Names.released.clear()
            busy.close()
            idle.close()


def test_a_port_that_is_taken_and_a_host_that_is_not_here() -> None:
    with running() as (_, port):
        for host, number in (("127.0.0.1", port), ("host.invalid", 0)):
            with pytest.raises(OSError):
                ExtenderServer(serve_object(Names, "test")).start(host, number)


def test_localhost_is_all_of_it() -> None:
    server = ExtenderServer(serve_object(Names, "test"))
    port = server.start("localhost")
    try:
        client = Client(port)
        assert client.send(request()).answer()[0] == 200
        client.close()
    finally:
        server.close()


def test_plain_text_where_tls_is_spoken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate = make_certificate("127.0.0.1")
    (tmp_path / "cert").write_bytes(certificate.certificate)
    (tmp_path / "key").write_bytes(certificate.key)
    server = ExtenderServer(serve_object(Names, "test"))
    port = server.start(tls=server_context(str(tmp_path / "cert"), str(tmp_path / "key")))
    try:
        client = Client(port).send(request())
        assert client.is_closed()
        client.close()
        assert [record.values for record in caplog.records] == [{"err": "http request"}]  # type: ignore[attr-defined]
    finally:
        server.close()


def test_a_connection_stays_open_until_its_late_answer_is_given() -> None:
    may_answer = threading.Event()

    def handle(request: Message, connection: Connection) -> None:
        def late() -> None:
            may_answer.wait(60)
            connection.answer_late(Response(b"late"), request)

        threading.Thread(target=late).start()

    connections = Connections(handle, lambda refused: Response(b""), Bounds(1000, 10, 10), BodyMemory(1000), most=5)
    client = Client(connections.listen("127.0.0.1", 0)).send(b"GET / HTTP/1.1\r\n\r\n")
    try:
        client.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.sock.recv(1)
        client.sock.settimeout(10)
        may_answer.set()
        status, headers, body = client.answer()
        assert (status, headers["connection"], body) == (200, "close", b"late")
        assert client.is_closed()
    finally:
        client.close()
        connections.close()
