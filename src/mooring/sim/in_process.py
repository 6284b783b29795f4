"""A client of the embedded API server that needs no socket: requests are function calls, watches are queues.

It is a :class:`mooring.client.rest.RestClient`, so that the scheduler runs on it unchanged, also in virtual time, where
no byte may depend on how quick a socket is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import msgspec
from aiohttp import web

from mooring.client.credentials import StaticCredentials
from mooring.client.errors import error_of_answer
from mooring.client.kubeconfig import ClientConfig
from mooring.client.pool import Answer
from mooring.client.rest import JSON, RestClient, with_query
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving import routes
from mooring.controlplane.serving.http import BOOKMARK_INTERVAL_S, MAX_WATCH_S, Reply
from mooring.controlplane.serving.listing import selection, watch_options
from mooring.controlplane.storage.hub import Watcher, plain
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.status import StatusError


class _Body:
    @staticmethod
    def is_eof() -> bool:
        return True


class _LocalRequest:
    """As much of an HTTP request as the server looks at."""

    content = _Body()
    transport = None

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.raw_path, self.headers = method, target, headers
        self.path = target.partition("?")[0]
        self._body = body

    @property
    def can_read_body(self) -> bool:
        return bool(self._body)

    async def read(self) -> bytes:
        return self._body


class _LocalStream:
    """The body of a watch, read as it comes."""

    def __init__(self, plane: ControlPlane, stored: Kind, watcher: Watcher, timeout_s: float) -> None:
        self._plane, self._stored, self._watcher = plane, stored, watcher
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout_s
        self._next_bookmark = self._loop.time() + BOOKMARK_INTERVAL_S

    async def readany(self) -> bytes:
        """The next lines; nothing at the end of the watch."""
        while not self._watcher.is_overrun and not self._plane.server.is_closing:
            now = self._loop.time()
            if now >= self._deadline:
                break
            if now >= self._next_bookmark:
                self._next_bookmark = now + BOOKMARK_INTERVAL_S
                self._plane.hub.refresh(self._stored, self._watcher)
                self._watcher.bookmark()
            lines = await self._watcher.take(max(0.0, min(self._deadline, self._next_bookmark) - now))
            if lines:
                return lines
        return b""


class InProcessClient(RestClient):
    """Talks to a :class:`ControlPlane` in the same event loop; it need not be listening."""

    def __init__(self, plane: ControlPlane, *, agent: str = "") -> None:
        authorization = f"Bearer {plane.token}"
        config = ClientConfig("http://in-process", StaticCredentials(authorization))
        super().__init__(config, agent=agent, qps=-1)
        self._plane = plane
        self._sent_headers = {"Authorization": authorization, "Accept": JSON, "User-Agent": self.agent}

    def sibling(self, *, agent: str = "", qps: float | None = None, burst: int | None = None) -> RestClient:
        return InProcessClient(self._plane, agent=agent or self.agent)

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
        await asyncio.sleep(0)  # as with a socket, nobody gets an answer within their own turn
        headers = {**self._sent_headers, "Content-Type": content_type} if content_type else self._sent_headers
        request = cast(web.BaseRequest, _LocalRequest(method, path, headers, body))
        reply = cast(Reply, await self._plane.server.reply(request))
        found = {"content-type": reply.content_type}
        for name, value in reply.headers:
            found.setdefault(name.lower(), value)
        if not 200 <= reply.code < 300:
            raise error_of_answer(reply.code, reply.body, found, method=method, path=path)
        return Answer(reply.code, found, reply.body)

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
        start_timeout_s: float | None = None,
    ) -> AsyncIterator[Any]:
        plane = self._plane
        target = with_query(path, query)
        await asyncio.sleep(0)
        try:
            bare, parameters = routes.split(target)
            route = routes.parse(bare)
            chosen, options = selection(route, parameters), watch_options(parameters)
            stored = route.kind.storage
            watcher = plane.hub.open(
                route.kind,
                stored,
                chosen.match,
                since=options.since,
                render=plain,
                initial_end=options.wants_initial_end,
            )
        except StatusError as error:
            body = error.to_status()
            raise error_of_answer(error.code, msgspec.json.encode(body), {}, method="GET", path=target) from None
        try:
            yield _LocalStream(plane, stored, watcher, min(options.timeout_s, timeout_s, MAX_WATCH_S))
        finally:
            plane.hub.forget(stored, watcher)
