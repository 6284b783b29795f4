"""A client that sends given bytes, and a served extender to send them to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mooring.net.extender.conformance import args_body, make_node, make_pod
from mooring.net.extender.sdk import Extender, Pod
from mooring.net.extender.server import ExtenderServer, Limits, serve_object

BODY = args_body(make_pod("a"), [make_node(i) for i in range(4)], by_name=True)


class Names(Extender):
    released = threading.Event()
    entered = threading.Semaphore(0)

    def filter(self, pod: Pod, nodes: list[str]) -> list[str]:
        return nodes

    def prioritize(self, pod: Pod, nodes: list[str]) -> dict[str, int]:
        self.entered.release()
        self.released.wait(60)
        return {}


class Client:
    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.sock.makefile("rb")

    def send(self, *pieces: bytes) -> Client:
        for piece in pieces:
            self.sock.sendall(piece)
        return self

    def answer(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        line = self.file.readline()
        if not line:
            raise EOFError
        headers = {}
        while (header := self.file.readline().strip()) != b"":
            name, _, value = header.decode().partition(":")
            headers[name.lower()] = value.strip()
        return int(line.split()[1]), headers, self.file.read(int(headers.get("content-length", 0)) if has_body else 0)

    def is_closed(self) -> bool:
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.file.close()
        self.sock.close()


@contextmanager
def running(**limits: Any) -> Iterator[tuple[ExtenderServer, int]]:
    server = ExtenderServer(serve_object(Names, "test"), limits=Limits(**{"handler_timeout_s": 60.0, **limits}))
    try:
        yield server, server.start()
    finally:
        server.close()


def request(body: bytes = BODY, *headers: str, path: str = "/filter", version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "Host: x", "Content-Type: application/json", *headers]
    if not any(header.lower().startswith(("transfer-encoding", "content-length")) for header in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
