"""The API over HTTP: aiohttp's requests in, its responses out. What a request means is decided in ``handlers``.

aiohttp's low-level server is used without its router: an API path says by itself what it means, and a bind or a
status patch should cost as little as possible.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from mooring.controlplane.serving.handlers import Handlers
from mooring.controlplane.serving.listing import WatchStream
from mooring.controlplane.serving.requests import JSON, ApiRequest, Reply
from mooring.controlplane.types.status import StatusError

MAX_BODY_BYTES = 3 * 1024 * 1024
BODY_TIMEOUT_S = 30.0


class _HttpRequest(ApiRequest):
    """A request that came over a socket; its body may still be on the way."""

    __slots__ = ("_request",)

    def __init__(self, request: web.BaseRequest) -> None:
        super().__init__(request.method, request.raw_path, request.headers)
        self._request = request

    def cut(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    async def read(self) -> bytes:
        request = self._request
        if not request.can_read_body:
            return b""
        try:
            if request.content.is_eof():  # it is all here already: no timer needed
                return await request.read()
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return await request.read()
        except TimeoutError:
            raise StatusError(408, "Timeout", f"the request body did not arrive within {BODY_TIMEOUT_S:.0f}s") from None
        except web.HTTPRequestEntityTooLarge:
            raise StatusError(
                413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}"
            ) from None


class HttpServer:
    """Answers aiohttp's requests."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; a watch has been sent when this returns."""
        asked = _HttpRequest(request)
        answer = await self._handlers.answer(asked)
        if isinstance(answer, Reply):
            return _response(answer)
        answer.on_overrun(asked.cut)
        return await _send(request, answer)


def _response(reply: Reply) -> web.Response:
    response = web.Response(body=reply.body, status=reply.code, headers={"Content-Type": reply.content_type})
    for name, value in reply.headers:
        response.headers.add(name, value)
    if reply.is_last:
        response.force_close()
    return response


async def _send(request: web.BaseRequest, stream: WatchStream) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
    try:
        await response.prepare(request)
        while lines := await stream.read():
            await response.write(lines)
    except ConnectionResetError:
        pass  # the client went away
    finally:
        stream.close()
    return response


def make_request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    """What aiohttp's server makes of a message."""
    return web.BaseRequest(
        message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=MAX_BODY_BYTES
    )
