"""The page's server: on loopback, for users with the link.

Every path begins with the token of the link. The Host header must name this server and an Origin must be its own, so
that pages of other sites can neither read nor guess.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

from mooring.api.errors import ApiError, UsageError
from mooring.core.session import PluginReference
from mooring.net.async_server import AsyncServer, ServedAnswer, ServedRequest
from mooring.net.http_io import Refused, Request, Response
from mooring.show.answers import HEADERS, WAIT_S, Answer, ClusterEditing, PageAnswers, Stories, problem
from mooring.show.exports import File, page_files
from mooring.show.shown import Shown
from mooring.show.source import RecordFile

HOST = "127.0.0.1"
MAX_BODY = 1 << 20


class PageServer:
    """Serves one page. ``start`` listens; ``link`` is its address."""

    def __init__(
        self,
        records: Sequence[Shown],
        *,
        editing: ClusterEditing | None = None,
        stories: Stories | None = None,
        port: int = 0,
        files: dict[str, File] | None = None,
        token: str = "",
        answers: PageAnswers | Relay | None = None,
    ) -> None:
        self._answers = answers or PageAnswers(records, editing=editing, stories=stories, files=files)
        self._port = port
        self._token = token or secrets.token_urlsafe(24)
        self._server = AsyncServer(self._handle, _refuse, max_body_bytes=MAX_BODY)

    @property
    def link(self) -> str:
        """Address to open in a browser."""
        return f"http://{HOST}:{self._port}/{self._token}/"

    def routes(self) -> dict[tuple[str, str], Answer]:
        """Routes by method and path after the token."""
        return self._answers.routes()

    async def start(self) -> None:
        """Listen on loopback. Slow work is done before the link can be opened."""
        try:
            await self._answers.start()
        except BaseException:
            await self._answers.stop()
            raise
        try:
            _, self._port = await self._server.listen(HOST, self._port)
        except OSError as error:
            await self._answers.stop()
            raise UsageError(f"cannot listen on {HOST}:{self._port}: {error.strerror or error}") from None

    async def stop(self) -> None:
        """Stop listening, and end waiting requests."""
        await self._server.close()
        await self._answers.stop()

    async def _handle(self, request: ServedRequest) -> ServedAnswer:
        refusal = self._refusal(Request.of(request.message, b""))
        if refusal:
            return _refuse(Refused(403, refusal))
        try:
            asked = Request.of(request.message, await request.read())
        except Refused as refused:
            return _refuse(refused)
        return _served(await self._answers.answer(asked, f"/{(*asked.path.split('/', 2), '', '')[2]}"))

    def _refusal(self, request: Request) -> str:
        """Return why a request is rejected; "" for a user with the link."""
        own = {f"{host}:{self._port}" for host in (HOST, "localhost")}
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in own:
            return "this server is reached by its own link only"
        if origin is not None and origin not in {f"http://{each}" for each in own}:
            return "requests from other sites are refused"
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "requests from other sites are refused"
        token = (*request.path.split("/", 2), "")[1]
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return "the link has a token, and this is not it; mooring prints the link when it starts"
        return ""


def _served(answer: Response) -> ServedAnswer:
    return ServedAnswer(answer.status, [("Content-Type", answer.content_type), *answer.headers.items()], answer.body)


def _refuse(refused: Refused) -> ServedAnswer:
    answer = problem(refused.status, str(refused))
    answer.headers.update(HEADERS)
    return _served(answer)


# --------------------------------------------------------------------------------------------------------------------
# The page of a running scheduler, among its endpoints: it shows the record that the scheduler writes.
#
# The endpoints have authenticated and authorised the user before anything here is called. Nothing can be changed, and
# nothing is read until a user requests it. Reading and explaining run in their own threads, because the loop of the
# endpoints renews the lease.


class MountedPage:
    """Answers requests below a path of another server. Created before the record; raises UsageError without a page."""

    def __init__(self, record: str | Path, title: str, plugins: Iterable[PluginReference] = ()) -> None:
        self._files = page_files()
        self._record, self._title, self._plugins = record, title, tuple(plugins)
        self._answers: PageAnswers | None = None
        self._opening = asyncio.Lock()

    async def answer(self, request: Request, path: str) -> Response:
        """Answer an authorised request; ``path`` begins with a slash."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            refusal = problem(403, "requests from other sites are refused")
            refusal.headers.update(HEADERS)
            return refusal
        async with self._opening:  # the first requests arrive together, and the record is opened once
            if self._answers is None:
                shown = await asyncio.to_thread(self._open)
                self._answers = PageAnswers([shown], files=self._files)
                await self._answers.start()
        return await self._answers.answer(request, path)

    def _open(self) -> Shown:
        shown = Shown(self._title, RecordFile(self._record, self._plugins, is_endless=True))
        shown.describe()
        return shown

    def close(self) -> None:
        """Close files and threads; called after the last request."""
        if self._answers is not None:
            self._answers.close()


# --------------------------------------------------------------------------------------------------------------------
# The page of a remote scheduler: requests are forwarded to its endpoints with the user's credentials.
#
# A browser cannot send a bearer token. This proxy can, and serves the page to users with the link, on loopback.

PATH = "/ui"
ANSWER_WITHIN_S = WAIT_S + 40.0  # an answer may wait for news

Fetch = Callable[[str], Awaitable[tuple[str, bytes]]]


class Relay:
    """Forwards requests to a scheduler; ``fetch`` gets one of its paths, and returns type and body."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    def routes(self) -> dict[tuple[str, str], Answer]:
        return {("GET", "/*"): self._get}

    async def start(self) -> None:
        """Send one request, so that errors are reported before there is a link."""
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
