"""The page's server: on loopback, for those who have the link.

Every path begins with the token of the link, and without it nothing is served. The Host header must name this server
and an Origin must be its own, so that a page of another site can neither read nor guess. Routes that change something
exist only where :class:`Editing` is given.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec
from aiohttp import web

from mooring.errors import ApiError, MooringError, UsageError
from mooring.observe.logs import get_logger
from mooring.ui.bundle import File, page_files
from mooring.ui.columns import encode
from mooring.ui.shown import Shown
from mooring.version import __version__

log = get_logger("mooring.ui")

HOST = "127.0.0.1"
WAIT_S = 20.0  # how long a reader waits for news before it asks again
LOOK_S = 0.1  # how often somebody looks for news while a reader waits
MAX_BODY = 1 << 20
SHUTDOWN_S = 1.0

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Editing(Protocol):
    """Changes objects of a cluster that is ours. Raises ApiError in the server's words."""

    async def apply(self, manifest: str) -> list[str]:
        """Create or change the objects of a manifest; returns their names."""

    async def delete(self, reference: str) -> None:
        """Delete an object, such as ``pod/shop/web-7``."""

    async def manifest(self, reference: str) -> str:
        """An object as YAML."""


class PageServer:
    """Serves one page. ``start`` listens; ``link`` leads there."""

    def __init__(
        self,
        records: Sequence[Shown],
        *,
        editing: Editing | None = None,
        port: int = 0,
        files: dict[str, File] | None = None,
        token: str = "",
    ) -> None:
        self._records = list(records)
        self._editing = editing
        self._port = port
        self._files = page_files() if files is None else files
        self._token = token or secrets.token_urlsafe(24)
        self._runner: web.AppRunner | None = None
        self._loop = asyncio.get_running_loop()
        self._asking = ThreadPoolExecutor(1, "mooring-ui")  # explanations: one at a time, and not in the loop

    @property
    def link(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self._port}/{self._token}/"

    def routes(self) -> dict[tuple[str, str], Answer]:
        """What is served, by method and path after the token; nothing that writes where nothing may be changed."""
        found: dict[tuple[str, str], Answer] = {("GET", f"/{name}"): self._file for name in self._files}
        found |= {
            ("GET", "/"): self._file,
            ("GET", "/api/meta"): self._meta,
            ("GET", "/api/columns"): self._columns,
            ("GET", "/api/why"): self._why,
            ("GET", "/api/what-if"): self._what_if,
        }
        if self._editing is not None:
            found |= {
                ("GET", "/api/manifest"): self._manifest,
                ("POST", "/api/apply"): self._apply,
                ("POST", "/api/delete"): self._delete,
            }
        return found

    async def start(self) -> None:
        """Listen on loopback. What takes long is done before the link can be opened."""
        for record in self._records:
            record.describe()
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_S)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise UsageError(f"cannot listen on {HOST}:{self._port}: {error.strerror or error}") from None
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening; whoever waits for news is sent away."""
        if self._runner is not None:
            await self._runner.cleanup()
        for record in self._records:
            self._asking.submit(record.close)  # after the question that is being answered
        self._asking.shutdown(wait=False)

    # ---- every request ---------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._admitted(request)
        except (MooringError, ApiError) as error:
            answer = _problem(400, str(error))
        except web.HTTPException as error:
            answer = _problem(error.status, error.reason)
        except Exception as error:
            log.error(error, "The page's server failed", path=request.path.replace(self._token, "…"))
            answer = _problem(500, f"{type(error).__name__}: {error}")
        answer.headers.update(HEADERS)
        return answer

    async def _admitted(self, request: web.Request) -> web.StreamResponse:
        own = {f"{host}:{self._port}" for host in (HOST, "localhost")}
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        if host not in own:
            return _problem(403, "this server is reached by its own link only")
        if origin is not None and origin not in {f"http://{each}" for each in own}:
            return _problem(403, "requests from other sites are refused")
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return _problem(403, "requests from other sites are refused")
        _, token, path = (*request.path.split("/", 2), "", "")[:3]
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return _problem(403, "the link has a token, and this is not it; mooring prints the link when it starts")
        answer = self.routes().get((request.method, f"/{path}"))
        return _problem(404, "nothing is served here") if answer is None else await answer(request)

    # ---- answers ---------------------------------------------------------------------------------------------------

    async def _file(self, request: web.Request) -> web.StreamResponse:
        file = self._files[request.path.rpartition("/")[2] or "index.html"]
        return web.Response(body=file.body, headers={"Content-Type": file.content_type})

    async def _meta(self, request: web.Request) -> web.StreamResponse:
        described = [record.describe() for record in self._records]
        return _json({"version": __version__, "records": described, "isOurs": self._editing is not None})

    def _record(self, request: web.Request) -> Shown:
        number = request.query.get("record", "0")
        if not number.isdecimal() or int(number) >= len(self._records):
            raise UsageError(f"record {number}: there are {len(self._records)}")
        return self._records[int(number)]

    async def _columns(self, request: web.Request) -> web.StreamResponse:
        record = self._record(request)
        timeline = record.timeline
        have = [int(each) for each in request.query.get("have", "").split(",") if each.isdecimal()]
        have = have or [0] * len(timeline.tables)
        if len(have) != len(timeline.tables):
            raise UsageError(f"have: found {len(have)} numbers; expected {len(timeline.tables)}, one per table")
        if any(known > len(table) for known, table in zip(have, timeline.tables.values(), strict=True)):
            raise UsageError("another record is shown here now; reload the page")
        deadline = self._loop.time() + WAIT_S
        while record.source.is_live:
            record.refresh()
            if have != [len(table) for table in timeline.tables.values()] or self._loop.time() > deadline:
                break
            await asyncio.sleep(LOOK_S)
        body = encode(timeline.tables, have, last="events", more={"isLive": record.source.is_live})
        return web.Response(body=body, headers={"Content-Type": "application/octet-stream"})

    async def _why(self, request: web.Request) -> web.StreamResponse:
        event, shown = _event(request), self._record(request)
        moment = shown.moments()
        return _json(await self._ask(lambda: shown.why(moment(event))))

    async def _what_if(self, request: web.Request) -> web.StreamResponse:
        event, shown, question = _event(request), self._record(request), dict(request.query)
        moment = shown.moments()
        return _json(await self._ask(lambda: shown.what_if(moment(event), question)))

    async def _ask(self, question: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._asking, question)

    # ---- changes ---------------------------------------------------------------------------------------------------

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        assert self._editing is not None
        return _json({"manifest": await self._editing.manifest(request.query.get("ref", ""))})

    async def _apply(self, request: web.Request) -> web.StreamResponse:
        assert self._editing is not None
        return _json({"applied": await self._editing.apply(await request.text())})

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        assert self._editing is not None
        await self._editing.delete(request.query.get("ref", ""))
        return _json({})


def _event(request: web.Request) -> int:
    event = request.query.get("event", "")
    if not event.isdecimal():
        raise UsageError(f"event: found {event!r}; expected the number of an attempt's event")
    return int(event)


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), headers={"Content-Type": "application/json"})


def _problem(status: int, text: str) -> web.Response:
    answer = _json({"problem": text})
    answer.set_status(status)
    return answer
