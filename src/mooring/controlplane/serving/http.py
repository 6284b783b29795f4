"""The API over HTTP: reads requests, calls ``rest``, writes answers. No decisions are made here.

aiohttp's low-level server is used without its router: an API path says by itself what it means, and a bind or a
status patch should cost as little as possible.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError

from mooring.controlplane.registry import subresources as sub
from mooring.controlplane.registry.verbs import Api, Options
from mooring.controlplane.serving import discovery, media, openapi, reviews, routes, table
from mooring.controlplane.serving.access import ANONYMOUS, OPEN_PATHS, Access, Attributes, User
from mooring.controlplane.serving.faults import Faults
from mooring.controlplane.serving.listing import list_body, selection, watch_options
from mooring.controlplane.serving.routes import Route
from mooring.controlplane.storage import hub as watching
from mooring.controlplane.storage.store import Entry
from mooring.controlplane.types import patch, protobuf, schema, status
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import StatusError

log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
JSON = "application/json"
MAX_BODY_BYTES = 3 * 1024 * 1024
BODY_TIMEOUT_S = 30.0
BOOKMARK_INTERVAL_S = 30.0
MAX_WATCH_S = 3600.0


class Reply:
    """An answer before it is HTTP: whoever asks from within the process needs no more."""

    __slots__ = ("body", "code", "content_type", "headers", "is_last")

    def __init__(self, body: bytes, code: int = 200, content_type: str = JSON) -> None:
        self.body = body
        self.code = code
        self.content_type = content_type
        self.headers: list[tuple[str, str]] = []
        self.is_last = False
        """Whether the connection is closed after this."""

    def to_http(self) -> web.Response:
        response = web.Response(body=self.body, status=self.code, headers={"Content-Type": self.content_type})
        for name, value in self.headers:
            response.headers.add(name, value)
        if self.is_last:
            response.force_close()
        return response


class Call:
    """One request, decoded as far as every handler needs it."""

    __slots__ = ("accept", "body", "method", "options", "parameters", "path", "request", "user")

    def __init__(self, request: web.BaseRequest, path: str, parameters: dict[str, str], user: User) -> None:
        self.request = request
        self.method = request.method
        self.path = path
        self.parameters = parameters
        self.user = user
        self.accept = media.accept(request.headers.get("Accept", ""))
        self.body = b""
        self.options: Options


class Server:
    """Turns HTTP requests into calls of the Api."""

    def __init__(
        self,
        api: Api,
        hub: watching.Hub,
        access: Access,
        *,
        faults: Faults | None = None,
        durable: Callable[[], Awaitable[None]] | None = None,
        watch_limit: int = 20_000,
    ) -> None:
        self.api = api
        self.hub = hub
        self.access = access
        self.faults = faults
        self.pages: dict[str, Callable[[], Any]] = {}  # further paths with a JSON body, for a user who may get them
        self.is_closing = False
        self._durable = durable
        self._watch_limit = watch_limit

    # Entry point

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request over HTTP; a watch has been sent when this returns."""
        reply = await self.reply(request)
        return reply.to_http() if isinstance(reply, Reply) else reply

    async def reply(self, request: web.BaseRequest) -> Reply | web.StreamResponse:
        """Answer one request; whatever goes wrong is a Status, and only a bug is a 500."""
        try:
            return await self._answer(request)
        except StatusError as error:
            return _failure(error)
        except (asyncio.CancelledError, ClientConnectionResetError, ConnectionResetError):
            raise
        except Exception:
            log.exception("unexpected error while serving %s %s", request.method, request.path[:200])
            return _failure(StatusError(500, "InternalError", "Internal error occurred: see the server's log"))

    async def _answer(self, request: web.BaseRequest) -> Reply | web.StreamResponse:
        path, parameters = routes.split(request.raw_path)
        authorization = request.headers.get("Authorization", "")
        if path in OPEN_PATHS and not authorization:
            user = ANONYMOUS
        else:
            user = self.access.authenticate(authorization)
        if self.faults is not None:
            await self.faults.before(request, path)
        call = Call(request, path, parameters, user)
        depth = path.count("/")
        if depth <= 2 or not path.startswith(("/api/", "/apis/")):
            return self._static(call)
        if depth > 3 and path[-1] != "/":  # too deep for discovery
            return await self._resource(call)
        special = self._discovery(call)
        return special if special is not None else await self._resource(call)

    # Everything that is not a resource

    def _static(self, call: Call) -> Reply:
        path = call.path.rstrip("/") or "/"
        if call.method not in ("GET", "HEAD"):
            raise status.method_not_allowed()
        if path not in OPEN_PATHS:
            self.access.authorize(Attributes(call.user.name, call.user.groups, "get", path=path))
        if path in ("/healthz", "/livez", "/readyz") or path.startswith(("/healthz/", "/livez/", "/readyz/")):
            return Reply(b"ok", content_type="text/plain; charset=utf-8")
        if path == "/version":
            return _json(discovery.version())
        if path in self.pages:
            return _json(self.pages[path]())
        if path.startswith("/openapi/v3"):
            found = openapi.document(path)
            if found is None:
                raise status.path_not_found()
            return Reply(found)
        if (found_discovery := self._discovery(call)) is not None:
            return found_discovery
        if path == "/":
            return _json(
                {"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
            )
        raise status.path_not_found()

    def _discovery(self, call: Call) -> Reply | None:
        path = call.path.rstrip("/")
        parts = path.strip("/").split("/")
        found: Object | None = None
        if path in ("/api", "/apis") and call.accept.form == "APIGroupDiscoveryList":
            body = _encode(discovery.aggregated(core=path == "/api"))
            kind = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            reply = Reply(body, content_type=kind)
            reply.headers.append(("Vary", "Accept"))
            return reply
        if path == "/api":
            found = discovery.core_versions(call.request.host)
        elif path == "/apis":
            found = discovery.groups()
        elif parts[0] == "api" and len(parts) == 2:
            found = discovery.resources("", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.group(parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            found = discovery.resources(parts[1], parts[2])
        else:
            return None
        if found is None:
            raise status.path_not_found()
        if call.method not in ("GET", "HEAD"):
            raise status.method_not_allowed()
        return _json(found)

    # Resources

    async def _resource(self, call: Call) -> Reply | web.StreamResponse:
        route = routes.parse(call.path)
        verb = self._verb(call, route)
        kind = route.kind
        if self.access.authorizer is not None:
            self.access.authorize(
                Attributes(
                    call.user.name,
                    call.user.groups,
                    verb,
                    kind.group,
                    kind.plural,
                    route.subresource,
                    route.namespace,
                    route.name,
                    call.path,
                )
            )
        if verb == "watch":
            return await self._watch(call, route)
        if call.method != "GET":
            call.body = await _read_body(call.request)
            call.options = _options(call, verb)
        else:
            call.options = Options()
        reply = self._dispatch(call, route, verb)
        if self._durable is not None and call.method != "GET":
            await self._durable()
        for warning in call.options.warnings[:16]:
            text = warning.replace("\\", "\\\\").replace('"', '\\"')
            reply.headers.append(("Warning", f'299 - "{text[:400]}"'))
        return reply

    @staticmethod
    def _verb(call: Call, route: Route) -> str:
        method = call.method
        if method in ("GET", "HEAD"):
            if route.subresource:
                verb = "get"
            elif route.is_watch_path or call.parameters.get("watch") in ("true", "1"):
                return "watch"
            else:
                verb = "get" if route.name else "list"
        elif method == "POST" and (not route.name or route.subresource):
            verb = "create"
        elif method == "PUT" and route.name:
            verb = "update"
        elif method == "PATCH" and route.name:
            verb = "patch"
        elif method == "DELETE" and not route.subresource:
            verb = "delete" if route.name else "deletecollection"
        else:
            raise status.method_not_allowed()
        if not route.subresource and verb not in route.kind.verbs:
            raise status.method_not_allowed()
        return verb

    def _dispatch(self, call: Call, route: Route, verb: str) -> Reply:
        if route.subresource not in ("", "status"):
            return self._subresource(call, route, verb)
        kind = route.kind
        if verb == "get":
            return self._show(call, kind, self.api.get(kind, route.namespace, route.name))
        if verb == "list":
            return self._list(call, route)
        if verb == "create":
            if kind.verbs == ("create",):
                obj = self.api.decode(kind, call.body, call.options)
                return _json(reviews.answer(kind, obj, self.access, call.user, route.namespace), 201)
            namespace = self._create_namespace(kind, route)
            created = self.api.create(kind, namespace, self.api.decode(kind, call.body, call.options), call.options)
            return self._show(call, kind, created, 201)
        if verb == "update":
            obj = self.api.decode(kind, call.body, call.options)
            entry, is_new = self.api.update(
                kind, route.namespace, route.name, obj, call.options, subresource=route.subresource
            )
            return self._show(call, kind, entry, 201 if is_new else 200)
        if verb == "patch":
            entry, is_new = self.api.patch(
                kind,
                route.namespace,
                route.name,
                _patch_type(call),
                call.body,
                call.options,
                subresource=route.subresource,
            )
            return self._show(call, kind, entry, 201 if is_new else 200)
        if verb == "delete":
            entry, is_gone = self.api.delete(
                kind, route.namespace, route.name, _delete_options(call), dry_run=call.options.dry_run
            )
            return self._deleted(call, kind, entry, is_gone)
        return self._delete_collection(call, route)

    @staticmethod
    def _create_namespace(kind: Kind, route: Route) -> str:
        if kind.is_namespaced and not route.namespace:
            raise status.method_not_allowed()
        return route.namespace

    def _show(self, call: Call, kind: Kind, entry: Entry, code: int = 200) -> Reply:
        if call.accept.form == "Table":
            body = table.of_entries(kind, [entry], call.parameters, str(entry.rv), now=self.api.clock.now())
        elif call.accept.form == "PartialObjectMetadata":
            body = _encode(partial(entry.object()))
        else:
            body = entry_body(kind, entry)
        return Reply(body, code)

    def _deleted(self, call: Call, kind: Kind, entry: Entry, is_gone: bool) -> Reply:
        if is_gone and not kind.storage.strategy.returns_deleted:
            details = {"name": entry.name, "group": kind.group, "kind": kind.plural, "uid": entry.uid}
            return _json(
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Success",
                    "details": {key: value for key, value in details.items() if value},
                }
            )
        return self._show(call, kind, entry)

    def _list(self, call: Call, route: Route) -> Reply:
        chosen = selection(route, call.parameters)
        page = chosen.page(self.api.store)
        if call.accept.form == "Table":
            body = table.of_page(route.kind, page, chosen, call.parameters, now=self.api.clock.now())
        else:
            form = "partial" if call.accept.form == "PartialObjectMetadata" else ""
            body = list_body(route.kind, page, chosen, form)
        return Reply(body)

    def _delete_collection(self, call: Call, route: Route) -> Reply:
        if route.kind.is_namespaced and not route.namespace:
            raise status.method_not_allowed()
        chosen = selection(route, call.parameters)
        options = _delete_options(call)
        page = chosen.page(self.api.store)
        if not call.options.dry_run:
            for entry in page.entries:
                if self.api.store.entry(route.kind.storage, entry.key) is not None:
                    self.api.delete(route.kind, entry.namespace, entry.name, options)
        return Reply(list_body(route.kind, page, chosen))

    def _subresource(self, call: Call, route: Route, verb: str) -> Reply:
        api, kind, ns, name, body = self.api, route.kind, route.namespace, route.name, call.body
        match route.subresource, verb:
            case "binding", "create":
                return _json(sub.bind(api, ns, name, body, call.options), 201)
            case "eviction", "create":
                return _json(sub.evict(api, ns, name, body, call.options), 201)
            case "scale", "get":
                return _json(sub.scale_of(api.get(kind, ns, name).object()))
            case "scale", "update":
                scale, _ = schema.decode("autoscaling.v1.Scale", body, "Scale", "v1")
                return _json(sub.set_scale(api, kind, ns, name, scale, call.options))
            case "scale", "patch":
                return _json(sub.patch_scale(api, kind, ns, name, _patch_type(call), body, call.options))
            case "finalize", "update":
                obj = api.decode(kind, body, call.options)
                return self._show(call, kind, sub.finalize(api, name, obj, call.options))
            case "token", "create":
                api.get(kind, ns, name)
                token = self.access.issue(User(f"system:serviceaccount:{ns}:{name}", groups=_account_groups(ns)))
                return _json(sub.request_token(api, ns, name, body, token), 201)
            case (("ephemeralcontainers" | "resize"), "get"):
                return self._show(call, kind, api.get(kind, ns, name))
            case (("ephemeralcontainers" | "resize"), ("update" | "patch")):
                if verb == "update":
                    entry, _ = api.update(
                        kind,
                        ns,
                        name,
                        api.decode(kind, body, call.options),
                        call.options,
                        subresource=route.subresource,
                    )
                else:
                    entry, _ = api.patch(
                        kind, ns, name, _patch_type(call), body, call.options, subresource=route.subresource
                    )
                return self._show(call, kind, entry)
        raise status.method_not_allowed()

    # Watching

    async def _watch(self, call: Call, route: Route) -> web.StreamResponse:
        chosen = selection(route, call.parameters)
        options = watch_options(call.parameters)
        if options.since is None and chosen.not_older_than > self.api.store.rv:
            raise status.too_large(chosen.not_older_than, self.api.store.rv)
        kind, stored = route.kind, route.kind.storage
        render, view = self._renderer(call, kind)
        watcher = self.hub.open(
            kind,
            stored,
            chosen.match,
            since=options.since,
            render=render,
            view=view,
            initial_end=options.wants_initial_end,
            limit=self._watch_limit,
        )
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        transport = call.request.transport
        if transport is not None:
            watcher.on_overrun = transport.abort
        try:
            await response.prepare(call.request)
            await self._stream(call, stored, watcher, response, min(options.timeout_s, MAX_WATCH_S), options.bookmarks)
        except (ClientConnectionResetError, ConnectionResetError):
            pass
        finally:
            self.hub.forget(stored, watcher)
        return response

    async def _stream(
        self,
        call: Call,
        stored: Kind,
        watcher: watching.Watcher,
        response: web.StreamResponse,
        timeout_s: float,
        bookmarks: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        next_bookmark = loop.time() + BOOKMARK_INTERVAL_S
        while not watcher.is_overrun and not self.is_closing:
            now = loop.time()
            if now >= deadline:
                break
            if bookmarks and now >= next_bookmark:
                next_bookmark = now + BOOKMARK_INTERVAL_S
                self.hub.refresh(stored, watcher)
                watcher.bookmark()
            until = min(deadline, next_bookmark) if bookmarks else deadline
            lines = await watcher.take(max(until - now, 0.0))
            if lines:
                if self.faults is not None and await self.faults.on_watch(stored, lines, response):
                    return  # without the closing bookmark: it would promise what was not sent
                await response.write(lines)
        if bookmarks and not watcher.is_overrun and not self.is_closing:
            self.hub.refresh(stored, watcher)
            watcher.bookmark()
            await response.write(await watcher.take(0.0))

    def _renderer(self, call: Call, kind: Kind) -> tuple[watching.Render, str | None]:
        if call.accept.form == "Table":
            return table.renderer(kind, call.parameters, self.api.clock.now), None
        if call.accept.form == "PartialObjectMetadata":
            return (lambda t, e, rv: _encode(partial(_at(e, rv)))), "partial"
        if kind.view is not None:
            return (lambda t, e, rv: _encode(kind.shown(_at(e, rv)))), kind.api_version
        return watching.plain, ""


def _at(entry: Entry, rv: int) -> Object:
    obj = entry.object()
    obj["metadata"]["resourceVersion"] = str(rv)
    return obj


def partial(obj: Object) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }


def entry_body(kind: Kind, entry: Entry) -> bytes:
    return entry.raw if kind.view is None else _encode(kind.shown(entry.object()))


def _json(obj: Any, code: int = 200) -> Reply:
    return Reply(_encode(obj), code)


def _failure(error: StatusError) -> Reply:
    reply = Reply(_encode(error.to_status()), error.code)
    reply.headers.extend(error.headers.items())
    reply.is_last = error.code in (401, 413)
    return reply


def _account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")


async def _read_body(request: web.BaseRequest) -> bytes:
    if not request.can_read_body:
        return b""
    try:
        if request.content.is_eof():  # it is all here already: no timer needed
            body = await request.read()
        else:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await request.read()
    except TimeoutError:
        raise StatusError(408, "Timeout", f"the request body did not arrive within {BODY_TIMEOUT_S:.0f}s") from None
    except web.HTTPRequestEntityTooLarge:
        raise StatusError(
            413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}"
        ) from None
    kind = media.content_type(request.headers.get("Content-Type", ""))
    if kind == media.PROTOBUF:
        return protobuf.to_json(body)
    if body and request.method != "PATCH" and kind not in ("", JSON, "text/plain", "application/octet-stream"):
        raise status.unsupported_media(kind, [JSON, media.PROTOBUF])
    return body


def _patch_type(call: Call) -> str:
    kind = media.content_type(call.request.headers.get("Content-Type", ""))
    if kind not in patch.TYPES:
        raise status.unsupported_media(kind, patch.TYPES)
    return kind


def _options(call: Call, verb: str) -> Options:
    parameters = call.parameters
    if not parameters and verb != "patch":
        return Options(manager=_agent(call))
    dry_run = parameters.get("dryRun", "")
    kind = f"{verb.capitalize()}Options" if verb in ("create", "update", "patch") else "DeleteOptions"
    if dry_run not in ("", "All"):
        raise status.invalid(kind, "meta.k8s.io", "", [status.unsupported("dryRun", dry_run, ["All"])])
    validation = parameters.get("fieldValidation", "") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        causes = [status.unsupported("fieldValidation", validation, ["Ignore", "Strict", "Warn"])]
        raise status.invalid(kind, "meta.k8s.io", "", causes)
    manager = parameters.get("fieldManager", "")
    if len(manager) > 128:
        causes = [status.too_long("fieldManager", 128)]
        raise status.invalid(kind, "meta.k8s.io", "", causes)
    if not manager and _patch_is_not_apply(call):
        manager = _agent(call)
    return Options(dry_run == "All", validation, manager, parameters.get("force") in ("true", "1"))


def _agent(call: Call) -> str:
    return call.request.headers.get("User-Agent", "").partition("/")[0][:128]


def _patch_is_not_apply(call: Call) -> bool:
    return media.content_type(call.request.headers.get("Content-Type", "")) != patch.APPLY


def _delete_options(call: Call) -> Object:
    options: Object = {}
    if call.body.strip():
        options, _ = schema.decode("meta.v1.DeleteOptions", call.body, "DeleteOptions", "v1")
        if options.get("dryRun"):
            if options["dryRun"] != ["All"]:
                causes = [status.unsupported("dryRun", options["dryRun"], ["All"])]
                raise status.invalid("DeleteOptions", "meta.k8s.io", "", causes)
            call.options.dry_run = True
    for name in ("propagationPolicy",):
        if name in call.parameters:
            options.setdefault(name, call.parameters[name])
    if "gracePeriodSeconds" in call.parameters:
        text = call.parameters["gracePeriodSeconds"]
        if not text.lstrip("-").isdigit() or len(text) > 18:
            raise status.bad_request(f"gracePeriodSeconds: expected a number of seconds, found {text[:40]!r}")
        options.setdefault("gracePeriodSeconds", int(text))
    if "orphanDependents" in call.parameters:
        options.setdefault("orphanDependents", call.parameters["orphanDependents"] in ("true", "1"))
    return options
