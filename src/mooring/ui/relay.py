"""The page of a scheduler that runs elsewhere, shown here: requests go on to its endpoints with somebody's credentials.

A browser has no bearer token to send. This has, and gives the page to those who have the link, on loopback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlencode

from mooring.errors import ApiError
from mooring.http_server.http_io import Request, Response
from mooring.ui.answers import HEADERS, WAIT_S, Answer, problem

PATH = "/ui"
ANSWER_WITHIN_S = WAIT_S + 40.0  # an answer may wait for news

Fetch = Callable[[str], Awaitable[tuple[str, bytes]]]


class Relay:
    """Answers what the scheduler answers; ``fetch`` gets a path of it, and gives the type and the body."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    def routes(self) -> dict[tuple[str, str], Answer]:
        return {("GET", "/*"): self._get}

    async def start(self) -> None:
        """Ask once, so that what is wrong is said before there is a link."""
        await self._fetch(f"{PATH}/api/meta")

    async def stop(self) -> None:
        pass

    async def answer(self, request: Request, path: str) -> Response:
        try:
            answer = await self._get(request) if request.method == "GET" else problem(404, "nothing is served here")
        except ApiError as error:
            answer = problem(error.code or 502, str(error))
        answer.headers.update(HEADERS)
        return answer

    async def _get(self, request: Request) -> Response:
        rest = request.path.split("/", 2)[2]  # after the token
        query = f"?{urlencode(request.query, doseq=True)}" if request.query else ""
        content_type, body = await self._fetch(f"{PATH}/{quote(rest)}{query}")
        return Response(body, content_type=content_type)
