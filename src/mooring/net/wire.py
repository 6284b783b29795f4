"""What the pool and its connections exchange: a request, its fields as bytes, its answer, or why there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from mooring.net import http2

MAX_ANSWER_BYTES = 64 << 20


class HttpAnswer(NamedTuple):
    """An HTTP answer: headers have lower-case names. Those of a success may be left out."""

    status: int
    headers: dict[str, str]
    body: bytes


class Broken(Exception):
    """The connection died; ``written`` says whether the server may have seen the request.

    With ``took_others`` the server has taken as many requests as it takes on one connection, and this was not among
    them: it is worth while to go on with the next one.
    """

    def __init__(self, why: str, *, written: bool, took_others: bool = False) -> None:
        super().__init__(why)
        self.written = written
        self.took_others = took_others


class HeaderFields:
    """The header fields that requests have in common, encoded once for each protocol."""

    __slots__ = ("http1", "http2")

    def __init__(self, host: str, fields: Iterable[tuple[str, str]]) -> None:
        fields = list(fields)
        lines = [f"{name}: {value}" for name, value in (("Host", host), *fields)]
        self.http1 = ("\r\n".join(lines) + "\r\n").encode()
        self.http2 = b"".join(
            http2.encode_field(name.lower(), value) for name, value in ((":authority", host), *fields)
        )


class HttpRequest(msgspec.Struct, eq=False):
    """What is to be sent, until when, the future of its answer, and what has come of that over HTTP/2."""

    method: str
    target: bytes
    fields: HeaderFields
    body: bytes
    deadline: float
    is_fenced: Callable[[], bool]
    answer: asyncio.Future[HttpAnswer]
    on_reused: bool = False  # whether its connection had carried others before it was sent
    mark: int = 0  # how often its connection had heard from the server by then
    unsent: bytes = b""  # what the server has no room for yet
    window: int = 0  # how much of that it takes now
    status: int = 0  # of the answer, from its fields on
    block: bytes = b""  # those fields, as they came
    got: bytes | bytearray = b""

    def fail(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
