"""The API over HTTP: requests in, answers and watches out. What a request means is decided in ``handlers``."""

from __future__ import annotations

from mooring.controlplane.serving.handlers import Handlers
from mooring.controlplane.serving.requests import JSON, ApiRequest, Reply
from mooring.controlplane.types import status
from mooring.controlplane.types.status import StatusError
from mooring.net.async_server import AsyncServer, ServedAnswer, ServedRequest
from mooring.net.http_io import Refused

MAX_BODY_BYTES = 3 * 1024 * 1024


class _HttpRequest(ApiRequest):
    """A request that came over a socket; its body may still be on the way."""

    __slots__ = ("_request",)

    def __init__(self, request: ServedRequest) -> None:
        message = request.message
        headers = {name.title(): value for name, value in message.headers.items()}  # as handlers spell them
        super().__init__(message.method, message.target.decode("utf-8", "surrogateescape"), headers)
        self._request = request

    def cut(self) -> None:
        self._request.cut()

    async def read(self) -> bytes:
        try:
            return await self._request.read()
        except Refused as refused:
            raise _status_of(refused) from None


def http_server(handlers: Handlers) -> AsyncServer:
    """A server that answers by these handlers."""

    async def handle(request: ServedRequest) -> ServedAnswer:
        asked = _HttpRequest(request)
        answer = await handlers.answer(asked)
        if isinstance(answer, Reply):
            return _served(answer)
        answer.on_overrun(request.cut)
        return ServedAnswer(200, [("Content-Type", JSON), ("Cache-Control", "no-cache, private")], answer)

    def refuse(refused: Refused) -> ServedAnswer:
        return _served(Reply.failure(_status_of(refused)))

    return AsyncServer(handle, refuse, max_body_bytes=MAX_BODY_BYTES)


def _served(reply: Reply) -> ServedAnswer:
    return ServedAnswer(reply.code, [("Content-Type", reply.content_type), *reply.headers], reply.body, reply.is_last)


def _status_of(refused: Refused) -> StatusError:
    if refused.status == 413:
        return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")
    if refused.status == 408:
        return StatusError(408, "Timeout", str(refused))
    return status.bad_request(str(refused))
