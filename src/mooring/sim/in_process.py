"""A client of the embedded API server that needs no socket: requests are function calls, watches are queues.

It is a :class:`mooring.client.rest.RestClient`, so that the scheduler runs on it unchanged, also in virtual time, where
no byte may depend on how quick a socket is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from mooring.client.credentials import StaticCredentials
from mooring.client.errors import Fenced, error_of_answer
from mooring.client.kubeconfig import ClientConfig
from mooring.client.rest import JSON, RestClient, with_query
from mooring.client.wire import Answer
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.requests import Reply, Request
from mooring.controlplane.serving.watching import WatchStream
from mooring.errors import ApiError


class _LocalStream:
    """The body of a watch, under the name that a client's stream has."""

    def __init__(self, stream: WatchStream) -> None:
        self.readany = stream.read


class InProcessClient(RestClient):
    """Talks to a :class:`ControlPlane` in the same event loop; it need not be listening."""

    def __init__(self, plane: ControlPlane, *, agent: str = "", is_fenced: Callable[[], bool] = lambda: False) -> None:
        authorization = f"Bearer {plane.token}"
        config = ClientConfig("http://in-process", StaticCredentials(authorization))
        super().__init__(config, agent=agent, qps=-1, is_fenced=is_fenced)
        self._plane = plane
        self._sent_headers = {"Authorization": authorization, "Accept": JSON, "User-Agent": self.agent}

    def sibling(
        self,
        *,
        agent: str = "",
        qps: float | None = None,
        burst: int | None = None,
        is_fenced: Callable[[], bool] = lambda: False,
        is_paperwork: bool = False,
    ) -> RestClient:
        return InProcessClient(self._plane, agent=agent or self.agent, is_fenced=is_fenced)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = "",
        timeout_s: float | None = None,
        limited: bool = True,
    ) -> Answer:
        await asyncio.sleep(0)  # as with a socket, an answer never comes in the same turn of the loop
        if method != "GET" and self._is_fenced():
            raise Fenced
        headers = {**self._sent_headers, "Content-Type": content_type} if content_type else self._sent_headers
        reply = await self._plane.handlers.answer(Request(method, path, headers, body))
        assert isinstance(reply, Reply)
        return _answer(reply, method, path)

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
        start_timeout_s: float | None = None,
    ) -> AsyncIterator[Any]:
        target = with_query(path, query)
        await asyncio.sleep(0)
        stream = await self._plane.handlers.answer(Request("GET", target, self._sent_headers))
        if isinstance(stream, Reply):
            _answer(stream, "GET", target)
            raise ApiError(f"GET {target}: not a watch")
        try:
            yield _LocalStream(stream)
        finally:
            stream.close()


def _answer(reply: Reply, method: str, path: str) -> Answer:
    """A reply as a client sees it; refusals are raised."""
    headers = {"content-type": reply.content_type}
    for name, value in reply.headers:
        headers.setdefault(name.lower(), value)
    if not 200 <= reply.code < 300:
        raise error_of_answer(reply.code, reply.body, headers, method=method, path=path)
    return Answer(reply.code, headers, reply.body)
