"""Requests of the page: files, columns, explanations, and changes of a cluster of our own.

Access is decided elsewhere: :mod:`mooring.show.server` knows a link, a running scheduler its users. Routes that change
something exist only where :class:`ClusterEditing` is given.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakSet

import msgspec
import yaml

from mooring.api.errors import ApiError, ConfigError, InputError, MooringError, UsageError
from mooring.api.version import __version__
from mooring.core.config.features import Features
from mooring.core.config.load import read_document
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.config.wire import to_wire
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.framework.registry import Registry
from mooring.core.session import check_configuration
from mooring.live.logs import get_logger
from mooring.net.http_io import Request, Response
from mooring.show.exports import EXPORTS, File, one_file, page_files
from mooring.show.shown import WHAT_IF, WHY, Shown
from mooring.show.timeline import encode
from mooring.sim.backend import Ref
from mooring.sim.scenario import ScenarioCluster

log = get_logger("mooring.show")

WAIT_S = 20.0  # long-poll timeout of a reader
LOOK_S = 0.1  # poll interval while a reader waits
TAKE_IN_S = 1.0  # poll interval of an in-process scheduler's actions while no reader waits
LAST = "last"  # instead of an attempt's event: the end of the record
READY_S = 1.0  # after its columns were sent, the page has been drawn
MAX_STORIES = 4  # played from the page
EXPORTED = {".csv": "decisions", ".parquet": "decisions", ".json": "trace"}

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

Answer = Callable[[Request], Awaitable[Response]]


HIDDEN = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")


class Configurable(Protocol):
    """A scheduler whose configuration can be replaced."""

    config: KubeSchedulerConfiguration

    @property
    def features(self) -> Features: ...

    def reload(self, config: KubeSchedulerConfiguration) -> None: ...


class ClusterEditing:
    """Changes objects of a cluster of our own, as its story does, and configures its scheduler.

    Raises ApiError with the server's texts.
    """

    def __init__(self, cluster: ScenarioCluster, scheduler: Configurable, registry: Registry | None = None) -> None:
        """``registry`` has the scheduler's plugins."""
        self._cluster = cluster
        self._scheduler = scheduler
        self._registry = in_tree_registry() if registry is None else registry

    async def apply(self, manifest: str) -> list[str]:
        """Create or change the objects of a manifest, in its order; returns their names."""
        try:
            documents = [each for each in yaml.safe_load_all(manifest) if each]
        except yaml.YAMLError as error:
            raise InputError(f"the manifest cannot be read: {' '.join(str(error).split())}") from None
        applied = []
        for each in documents:
            if not isinstance(each, dict) or not each.get("kind"):
                raise InputError("expected a manifest with apiVersion, kind and metadata")
            done = await self._cluster.backend.apply(each)
            applied.append(f"{done['kind'].lower()}/{done['metadata']['name']}")
        return applied

    async def delete(self, reference: str) -> None:
        """Delete an object, such as ``pod/shop/web-7``."""
        if not await self._cluster.delete(reference):
            raise InputError(f"{reference}: there is no such object")

    async def manifest(self, reference: str) -> str:
        """Return an object as YAML."""
        found = await self._cluster.backend.get(Ref.parse(reference))
        if found is None:
            raise InputError(f"{reference}: there is no such object")
        shown: dict[str, Any] = dict(found)
        shown["metadata"] = {name: value for name, value in found["metadata"].items() if name not in HIDDEN}
        shown.pop("status", None)
        return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)

    def configuration(self) -> str:
        """Return the scheduler's configuration as YAML."""
        return yaml.safe_dump(to_wire(self._scheduler.config, redact=True), sort_keys=False, allow_unicode=True)

    def configure(self, text: str, *, only_checks: bool) -> dict[str, Any]:
        """Check a configuration and apply it, unless it has mistakes; return the findings."""
        try:
            document = read_document(text.encode())
            found = check_configuration(document, self._registry, self._scheduler.features, makes_plugins=True)
        except (ConfigError, InputError) as error:
            return {"problems": list(getattr(error, "problems", ())) or [str(error)], "warnings": [], "applied": False}
        is_good = not found.problems and found.config is not None
        if is_good and not only_checks:
            assert found.config is not None
            self._scheduler.reload(found.config)
        return {
            "problems": found.problems,
            "warnings": list(found.warnings),
            "applied": is_good and not only_checks,
        }


class Stories(Protocol):
    """Stories and lessons that can be played from the page, each in its own cluster."""

    def titles(self, language: str) -> dict[str, str]:
        """Return the titles, by name."""

    def play(self, name: str, language: str) -> Shown:
        """Play one, in any thread. Raise InputError for an unknown name."""


class Stopped(MooringError):
    """The client no longer waits for this answer."""


class _WhatIf:
    """A running what-if: how many pods are placed, and of how many."""

    done = of = 0
    is_stopped = False

    def tell(self, done: int, of: int) -> None:
        """Called in the thread that answers, after each pod."""
        if self.is_stopped:
            raise Stopped("the question was withdrawn")
        self.done, self.of = done, of


class PageAnswers:
    """Answers for one page. ``start`` in the loop in which ``answer`` is called."""

    def __init__(
        self,
        records: Sequence[Shown],
        *,
        editing: ClusterEditing | None = None,
        stories: Stories | None = None,
        files: dict[str, File] | None = None,
    ) -> None:
        self._records = list(records)
        self._main = len(self._records)  # the given ones; played stories follow
        self._editing = editing
        self._stories = stories
        self._played = 0  # played stories beyond the limit
        self._files = page_files() if files is None else files
        # Three threads beside the loop, each of which does one thing at a time, so none needs a lock. ``_asking`` and
        # ``_supposing`` own what explanations and what-ifs keep open (``Shown.moment``): a what-if may take minutes,
        # and explanations do not wait for it. ``_reading`` reads files and encodes columns. For a record that belongs
        # to the loop, the loop itself extends the columns while ``_reading`` encodes them: columns only grow, and
        # ``encode`` takes their lengths before it reads (see timeline.py).
        self._asking = ThreadPoolExecutor(1, "mooring-ui")
        self._supposing = ThreadPoolExecutor(1, "mooring-ui-what-if")
        self._reading = ThreadPoolExecutor(1, "mooring-ui-columns")
        self._supposed: dict[str, _WhatIf] = {}  # running what-ifs, by the page's name for them
        self._ready: WeakSet[Shown] = WeakSet()  # opened before the first question, or about to be
        self._refreshing: dict[Shown, asyncio.Future[None]] = {}  # readers that wait for the same work share it
        self._taking_in: asyncio.Task[None] | None = None

    def routes(self) -> dict[tuple[str, str], Answer]:
        """Return the routes by method and path; those that write only if changes are allowed."""
        found: dict[tuple[str, str], Answer] = {("GET", f"/{name}"): self._file for name in self._files}
        found |= {
            ("GET", "/"): self._file,
            ("GET", "/api/meta"): self._meta,
            ("GET", "/api/head"): self._head,
            ("GET", "/api/columns"): self._columns,
            ("GET", "/api/why"): self._why,
            ("GET", "/api/what-if"): self._what_if,
            ("GET", "/api/progress"): self._progress,
            ("GET", "/api/measures"): self._measures,
            ("GET", "/api/page.html"): self._page,
        }
        found |= {("GET", f"/api/{name}{suffix}"): self._export for suffix, name in EXPORTED.items()}
        if self._stories is not None:
            found |= {("GET", "/api/stories"): self._titles, ("POST", "/api/play"): self._play}
        if self._editing is not None:
            found |= {
                ("GET", "/api/manifest"): self._manifest,
                ("POST", "/api/apply"): self._apply,
                ("POST", "/api/delete"): self._delete,
                ("GET", "/api/configuration"): self._configuration,
                ("POST", "/api/configure"): self._configure,
            }
        return found

    async def start(self) -> None:
        """Do slow work before the first request."""
        for record in self._records:
            record.describe()
            if not record.source.is_live:
                record.head()
        if any(record.source.belongs_to_loop for record in self._records):
            self._taking_in = asyncio.create_task(self._take_in(), name="the page's records")

    async def stop(self) -> None:
        if self._taking_in is not None:
            self._taking_in.cancel()
            await asyncio.gather(self._taking_in, return_exceptions=True)
        self.close()

    def close(self) -> None:
        """Close files and threads."""
        for asked in self._supposed.values():
            asked.is_stopped = True
        for record in self._records:
            self._asking.submit(record.close)  # after the current question
            self._supposing.submit(record.close, WHAT_IF)
            if not record.source.belongs_to_loop:
                self._reading.submit(record.source.close)
        self._asking.shutdown(wait=False)
        self._supposing.shutdown(wait=False)
        self._reading.shutdown(wait=False)

    async def _take_in(self) -> None:
        """Process events of an in-process scheduler, which accumulate until then, even without readers."""
        while True:
            for record in self._records:
                if record.source.belongs_to_loop:
                    record.refresh()
            await asyncio.sleep(TAKE_IN_S)

    # ---- every request ---------------------------------------------------------------------------------------------

    async def answer(self, request: Request, path: str) -> Response:
        """Answer an admitted request; ``path`` begins with a slash."""
        found = self.routes().get((request.method, path))
        try:
            answer = problem(404, "nothing is served here") if found is None else await found(request)
        except (MooringError, ApiError) as error:
            answer = problem(400, str(error))
        except Exception as error:
            log.error(error, "The page's server failed", path=path)
            answer = problem(500, f"{type(error).__name__}: {error}")
        answer.headers.update(HEADERS)
        return answer

    # ---- answers ---------------------------------------------------------------------------------------------------

    async def _file(self, request: Request) -> Response:
        file = self._files[request.path.rpartition("/")[2] or "index.html"]
        return Response(file.body, content_type=file.content_type)

    async def _meta(self, request: Request) -> Response:
        return _json(
            {
                "version": __version__,
                "records": [record.describe() for record in self._records],
                "shown": self._main,
                "isOurs": self._editing is not None,
                "hasStories": self._stories is not None,
            }
        )

    def _record(self, request: Request) -> Shown:
        number = request.asked("record", "0")
        if not number.isdecimal() or int(number) >= len(self._records):
            raise UsageError(f"record {number}: there are {len(self._records)}")
        return self._records[int(number)]

    async def _refresh(self, record: Shown) -> None:
        """Process new events. Several readers share the work; files are read in a thread."""
        if record.source.belongs_to_loop:
            return record.refresh()
        under_way = self._refreshing.get(record)
        if under_way is None:
            under_way = asyncio.get_running_loop().run_in_executor(self._reading, record.refresh)
            self._refreshing[record] = under_way
            under_way.add_done_callback(lambda _: self._refreshing.pop(record, None))
        await asyncio.shield(under_way)  # a cancelled reader must not cancel the work of others

    async def _head(self, request: Request) -> Response:
        """Return the last instant alone, which is small."""
        record = self._record(request)
        if record.source.is_live:
            await self._refresh(record)
        head = await self._read(record.head)
        tables = head.timeline.tables
        more = {"isLive": record.source.is_live, "generation": -1, "running": head.running, "waiting": head.waiting}
        return _binary(await self._read(lambda: encode(tables, [0] * len(tables), last="events", more=more)))

    async def _columns(self, request: Request) -> Response:
        record = self._record(request)
        have = [int(each) for each in request.asked("have", "").split(",") if each.isdecimal()]
        if have and len(have) != len(record.timeline.tables):
            raise UsageError(f"have: found {len(have)} numbers; expected {len(record.timeline.tables)}, one per table")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_S
        while record.source.is_live:
            await self._refresh(record)
            if self._has_news(record, request, have) or loop.time() > deadline:
                break
            await asyncio.sleep(LOOK_S)
        tables, generation = record.timeline.tables, record.generation
        known = have if str(generation) == request.asked("generation", "0") and have else [0] * len(tables)
        if any(number > len(table) for number, table in zip(known, tables.values(), strict=True)):
            raise UsageError("another record is shown here now; reload the page")
        more = {"isLive": record.source.is_live, "generation": generation}
        if not have:
            loop.call_later(READY_S, self._get_ready, record)
        return _binary(await self._read(lambda: encode(tables, known, last="events", more=more)))

    def _get_ready(self, record: Shown) -> None:
        """Open a record for explanations, and then for what-ifs, once the page has been drawn."""
        if record in self._ready:
            return
        self._ready.add(record)

        def then() -> None:
            record.get_ready(WHY)
            with suppress(RuntimeError):  # closed in the meantime
                self._supposing.submit(record.get_ready, WHAT_IF)

        with suppress(RuntimeError):
            self._asking.submit(then)

    @staticmethod
    def _has_news(record: Shown, request: Request, have: list[int]) -> bool:
        is_same = str(record.generation) == request.asked("generation", "0")
        return not is_same or have != [len(table) for table in record.timeline.tables.values()]

    async def _why(self, request: Request) -> Response:
        record = self._record(request)
        moment = record.moment(_event(request, record))
        return _json(await self._ask(lambda: record.why(moment())))

    async def _what_if(self, request: Request) -> Response:
        """Answer a what-if. It stops when the client disconnects, or sends ``progress?stop``."""
        record, question = self._record(request), {name: values[0] for name, values in request.query.items()}
        is_last = question.get("event") == LAST
        moment = record.last_moment() if is_last else record.moment(_event(request, record), WHAT_IF)
        name = question.get("ask") or secrets.token_hex(8)
        asked = self._supposed[name] = _WhatIf()

        def answer() -> dict[str, Any]:
            asked.tell(0, 0)  # it may have been stopped while queued
            return record.what_if(moment(), question, asked.tell)

        try:
            return _json(await asyncio.get_running_loop().run_in_executor(self._supposing, answer))
        finally:
            asked.is_stopped = True
            self._supposed.pop(name, None)

    async def _progress(self, request: Request) -> Response:
        """Return the progress of a what-if; ``stop`` ends it."""
        asked = self._supposed.get(request.asked("ask", ""))
        if asked is None:
            return _json({})
        asked.is_stopped |= "stop" in request.query
        return _json({"done": asked.done, "of": asked.of})

    async def _measures(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(self._record(request).measures()))

    # ---- what can be taken away ------------------------------------------------------------------------------------

    async def _export(self, request: Request) -> Response:
        record, name = self._record(request), request.path.rpartition("/")[2]
        make, content_type = EXPORTS[f".{name.rpartition('.')[2]}"]
        return _file_to_keep(await self._read(lambda: make(record.timeline)), content_type, record.title, name)

    async def _page(self, request: Request) -> Response:
        """Return this page as one file; explaining takes a while."""
        records = self._records[: self._main] if "record" not in request.query else [self._record(request)]
        text = await self._ask(lambda: one_file(records, self._files))
        return _file_to_keep(text.encode(), "text/html; charset=utf-8", records[0].title, "page.html")

    # ---- stories ---------------------------------------------------------------------------------------------------

    async def _titles(self, request: Request) -> Response:
        assert self._stories is not None
        return _json(self._stories.titles(_language(request)))

    async def _play(self, request: Request) -> Response:
        """Play a story and show it as another record. The oldest of few is dropped."""
        assert self._stories is not None
        play, name, language = self._stories.play, request.asked("story", ""), _language(request)
        shown = await self._ask(lambda: play(name, language))
        shown.describe()
        if len(self._records) - self._main < MAX_STORIES:
            self._records.append(shown)
            return _json({"record": len(self._records) - 1})
        place = self._main + self._played % MAX_STORIES
        self._records[place] = shown
        self._played += 1
        return _json({"record": place})

    async def _ask(self, question: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._asking, question)

    async def _read(self, read: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._reading, read)

    # ---- changes ---------------------------------------------------------------------------------------------------

    async def _manifest(self, request: Request) -> Response:
        assert self._editing is not None
        return _json({"manifest": await self._editing.manifest(request.asked("ref", ""))})

    async def _apply(self, request: Request) -> Response:
        assert self._editing is not None
        return _json({"applied": await self._editing.apply(request.body.decode())})

    async def _delete(self, request: Request) -> Response:
        assert self._editing is not None
        await self._editing.delete(request.asked("ref", ""))
        return _json({})

    async def _configuration(self, request: Request) -> Response:
        assert self._editing is not None
        return _json({"configuration": self._editing.configuration()})

    async def _configure(self, request: Request) -> Response:
        assert self._editing is not None
        text, only_checks = request.body.decode(), "check" in request.query
        return _json(self._editing.configure(text, only_checks=only_checks))


def _language(request: Request) -> str:
    found = request.asked("lang", "")
    return found if found in ("ja", "zh") else "en"


def _event(request: Request, record: Shown) -> int:
    event = request.asked("event", "")
    if not event.isdecimal():
        raise UsageError(f"event: found {event!r}; expected the number of an attempt's event")
    if request.asked("generation", "0") != str(record.generation):
        raise UsageError("the page shows a forgotten part of the record and reloads it")
    return int(event)


def _file_to_keep(body: bytes, content_type: str, title: str, name: str) -> Response:
    """Return a file that the browser saves, with a name that is valid on any system."""
    stem = "".join(each if each.isascii() and each.isalnum() else "-" for each in title).strip("-")[:60] or "mooring"
    disposition = f'attachment; filename="{stem}-{name}"'
    return Response(body, content_type=content_type, headers={"Content-Disposition": disposition})


def _binary(body: bytes) -> Response:
    return Response(body, content_type="application/octet-stream")


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value))


def problem(status: int, text: str) -> Response:
    """Return an error in one line."""
    return Response(msgspec.json.encode({"message": text}), status)
