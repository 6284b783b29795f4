"""Request handling: each request is authenticated, authorised, and translated into calls of the Api."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from mooring.controlplane.registry import subresources as sub
from mooring.controlplane.registry.verbs import Api, Options
from mooring.controlplane.serving.access import ANONYMOUS, OPEN_PATHS, Access, ApiUser, Attributes, answer_review
from mooring.controlplane.serving.discovery import Discovery, core_versions, version_info
from mooring.controlplane.serving.faults import Faults
from mooring.controlplane.serving.listing import (
    WatchStream,
    list_body,
    list_metadata,
    partial,
    renderer,
    selection,
    table_body,
    watch_options,
)
from mooring.controlplane.serving.requests import (
    JSON,
    OPENAPI_V2,
    ApiRequest,
    Reply,
    Route,
    accept,
    delete_options,
    parse,
    split,
)
from mooring.controlplane.storage import watches as watching
from mooring.controlplane.storage.store import StoredEntry
from mooring.controlplane.types import patch, schema, status
from mooring.controlplane.types.kind import Kind, Object
from mooring.controlplane.types.status import StatusError

log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
MAX_WARNINGS = 16
OPENAPI_V2_DOCUMENT = b"\n\x032.0\x12\r\n\x07mooring\x12\x02v1"
"""The version and a title, as protobuf. kubectl validates a List with it, and skips kinds that it does not have."""
_SPECIAL = frozenset(["binding", "eviction", "finalize", "scale", "token"])
"""Subresources with their own handlers."""


class Call:
    """One request, with the parts that every handler needs decoded."""

    __slots__ = ("body", "form", "method", "options", "parameters", "path", "request", "user")

    def __init__(self, request: ApiRequest, path: str, parameters: dict[str, str], user: ApiUser) -> None:
        self.request = request
        self.method = request.method
        self.path = path
        self.parameters = parameters
        self.user = user
        self.form = accept(request.headers.get("Accept", ""))
        self.body = b""
        self.options: Options


class Handlers:
    """Answers requests, independent of their transport."""

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
        self.discovery = Discovery(api.version)
        self._kinds = frozenset(self.discovery.kinds)
        self.faults = faults
        # further paths with a JSON body, for users with permission to get them
        self.pages: dict[str, Callable[[], Any]] = {}
        self._durable = durable
        self._watch_limit = watch_limit

    async def answer(self, request: ApiRequest) -> Reply | WatchStream:
        """Answer one request; every error is a Status, and only a bug is a 500."""
        try:
            return await self._answer(request)
        except StatusError as error:
            return Reply.failure(error)
        except (asyncio.CancelledError, ConnectionResetError):
            raise
        except Exception:
            log.exception("unexpected error while serving %s %s", request.method, request.target[:200])
            return Reply.failure(StatusError(500, "InternalError", "Internal error occurred: see the server's log"))

    async def _answer(self, request: ApiRequest) -> Reply | WatchStream:
        path, parameters = split(request.target)
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

    # Paths that are not resources

    def _static(self, call: Call) -> Reply:
        path = call.path.rstrip("/") or "/"
        if call.method not in ("GET", "HEAD"):
            raise status.method_not_allowed()
        if path not in OPEN_PATHS:
            self.access.authorize(Attributes(call.user.name, call.user.groups, "get", path=path))
        if path in ("/healthz", "/livez", "/readyz") or path.startswith(("/healthz/", "/livez/", "/readyz/")):
            return Reply(b"ok", content_type="text/plain; charset=utf-8")
        if path == "/version":
            return Reply.json(version_info(self.api.version))
        if path in self.pages:
            return Reply.json(self.pages[path]())
        if path == "/openapi/v2" and call.form == OPENAPI_V2:
            return Reply(OPENAPI_V2_DOCUMENT, content_type=OPENAPI_V2.replace("@", "."))  # as upstream answers
        if path.startswith("/openapi/v3"):
            found = self.discovery.document(path)
            if found is None:
                raise status.path_not_found()
            return Reply(found)
        if (found_discovery := self._discovery(call)) is not None:
            return found_discovery
        if path == "/":
            return Reply.json(
                {"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
            )
        raise status.path_not_found()

    def _discovery(self, call: Call) -> Reply | None:
        path = call.path.rstrip("/")
        parts = path.strip("/").split("/")
        found: Object | None = None
        if path in ("/api", "/apis") and call.form == "APIGroupDiscoveryList":
            body = _encode(self.discovery.aggregated(core=path == "/api"))
            kind = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            reply = Reply(body, content_type=kind)
            reply.headers.append(("Vary", "Accept"))
            return reply
        if path == "/api":
            found = core_versions(call.request.headers.get("Host", ""))
        elif path == "/apis":
            found = self.discovery.groups()
        elif parts[0] == "api" and len(parts) == 2:
            found = self.discovery.resources("", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            found = self.discovery.group(parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            found = self.discovery.resources(parts[1], parts[2])
        else:
            return None
        if found is None:
            raise status.path_not_found()
        if call.method not in ("GET", "HEAD"):
            raise status.method_not_allowed()
        return Reply.json(found)

    # Resources

    async def _resource(self, call: Call) -> Reply | WatchStream:
        route = parse(call.path)
        if route.kind not in self._kinds:
            raise status.path_not_found()
        verb = self._verb(call, route)
        if self.access.authorizer is not None:
            self.access.authorize(_attributes(call, route, verb))
        if verb == "watch":
            return self._watch(call, route)
        if call.method != "GET":
            call.body = await call.request.body()
            call.options = _options(call, verb)
            if self.access.authorizer is not None:
                call.options.check = self._check(call, route, verb)
        else:
            call.options = Options()
        reply = self._dispatch(call, route, verb)
        if self._durable is not None and call.method != "GET":
            await self._durable()
        for warning in call.options.warnings[:MAX_WARNINGS]:
            reply.warn(warning)
        return reply

    def _check(self, call: Call, route: Route, verb: str) -> Callable[[Object, Object | None], None]:
        """Return a second check, made when the object to be written is known."""

        def check(new: Object, old: Object | None) -> None:
            if old is None and verb != "create":  # apply and some updates create a missing object
                self.access.authorize(_attributes(call, route, "create"))
            self.access.check_grant(call.user, route.kind, route.namespace, new, old)

        return check

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
        if route.subresource in _SPECIAL:
            return self._subresource(call, route, verb)
        if route.subresource and verb == "create":
            raise status.method_not_allowed()
        kind = route.kind
        if verb == "get":
            return self._show(call, kind, self.api.get(kind, route.namespace, route.name))
        if verb == "list":
            return self._list(call, route)
        if verb == "create":
            if kind.verbs == ("create",):
                obj = self.api.decode(kind, call.body, call.options)
                return Reply.json(answer_review(kind, obj, self.access, call.user, route.namespace), 201)
            if kind.is_namespaced and not route.namespace:
                raise status.method_not_allowed()
            obj = self.api.decode(kind, call.body, call.options)
            return self._show(call, kind, self.api.create(kind, route.namespace, obj, call.options), 201)
        if verb in ("update", "patch"):
            where, subresource = (kind, route.namespace, route.name), route.subresource
            if verb == "update":
                obj = self.api.decode(kind, call.body, call.options)
                entry, is_new = self.api.update(*where, obj, call.options, subresource=subresource)
            else:
                kind_of_patch = call.request.patch_type
                entry, is_new = self.api.patch(*where, kind_of_patch, call.body, call.options, subresource=subresource)
            return self._show(call, kind, entry, 201 if is_new else 200)
        if verb == "delete":
            entry, is_gone = self.api.delete(
                kind, route.namespace, route.name, _delete_options(call), dry_run=call.options.dry_run
            )
            return self._deleted(call, kind, entry, is_gone)
        return self._delete_collection(call, route)

    def _show(self, call: Call, kind: Kind, entry: StoredEntry, code: int = 200) -> Reply:
        if call.form == "Table":
            metadata = {"resourceVersion": str(entry.rv)}
            body = table_body(kind, [entry], call.parameters, metadata, self.api.clock.now())
        elif call.form == "PartialObjectMetadata":
            body = _encode(partial(entry.object()))
        else:
            body = _body(kind, entry)
        return Reply(body, code)

    def _deleted(self, call: Call, kind: Kind, entry: StoredEntry, is_gone: bool) -> Reply:
        if is_gone and not kind.storage.returns_deleted:
            details = {"name": entry.name, "group": kind.group, "kind": kind.plural, "uid": entry.uid}
            shown = {key: value for key, value in details.items() if value}
            return Reply.json(
                {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": shown}
            )
        return self._show(call, kind, entry)

    def _list(self, call: Call, route: Route) -> Reply:
        chosen = selection(route, call.parameters)
        page = chosen.page(self.api.store)
        if call.form == "Table":
            metadata = list_metadata(page, chosen)
            body = table_body(route.kind, page.entries, call.parameters, metadata, self.api.clock.now())
        else:
            form = "partial" if call.form == "PartialObjectMetadata" else ""
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
                return Reply.json(sub.bind(api, ns, name, body, call.options), 201)
            case "eviction", "create":
                return Reply.json(sub.evict(api, ns, name, body, call.options), 201)
            case "scale", "get":
                return Reply.json(sub.scale_of(api.get(kind, ns, name).object()))
            case "scale", "update":
                scale, _ = schema.decode("autoscaling.v1.Scale", body, "Scale", "v1")
                return Reply.json(sub.set_scale(api, kind, ns, name, scale, call.options))
            case "scale", "patch":
                return Reply.json(sub.patch_scale(api, kind, ns, name, call.request.patch_type, body, call.options))
            case "finalize", "update":
                obj = api.decode(kind, body, call.options)
                return self._show(call, kind, sub.finalize(api, name, obj, call.options))
            case "token", "create":
                api.get(kind, ns, name)
                token = self.access.issue(ApiUser(f"system:serviceaccount:{ns}:{name}", groups=_account_groups(ns)))
                return Reply.json(sub.request_token(api, ns, name, body, token), 201)
        raise status.method_not_allowed()

    # Watching

    def _watch(self, call: Call, route: Route) -> WatchStream:
        chosen = selection(route, call.parameters)
        options = watch_options(call.parameters)
        if options.since is None and chosen.not_older_than > self.api.store.rv:
            raise status.too_large(chosen.not_older_than, self.api.store.rv)
        render, view = self._renderer(call, route.kind)
        watcher = self.hub.open(
            route.kind,
            chosen.match,
            since=options.since,
            render=render,
            view=view,
            initial_end=options.wants_initial_end,
            limit=self._watch_limit,
        )
        faults, stored = self.faults, route.kind.storage
        return WatchStream(
            self.hub,
            watcher,
            timeout_s=options.timeout_s,
            has_bookmarks=options.bookmarks,
            disturb=None if faults is None else lambda lines: faults.on_watch(stored, lines),
        )

    def _renderer(self, call: Call, kind: Kind) -> tuple[watching.Render, str | None]:
        if call.form == "Table":
            return renderer(kind, call.parameters, self.api.clock.now), None
        if call.form == "PartialObjectMetadata":
            return (lambda t, e, rv: _encode(partial(_at(e, rv)))), "partial"
        if kind.view is not None:
            return (lambda t, e, rv: _encode(kind.shown(_at(e, rv)))), kind.api_version
        return watching.plain, ""


def _at(entry: StoredEntry, rv: int) -> Object:
    obj = entry.object()
    obj["metadata"]["resourceVersion"] = str(rv)
    return obj


def _body(kind: Kind, entry: StoredEntry) -> bytes:
    return entry.raw if kind.view is None else _encode(kind.shown(entry.object()))


def _attributes(call: Call, route: Route, verb: str) -> Attributes:
    kind, user = route.kind, call.user
    place = (kind.group, kind.plural, route.subresource, route.namespace, route.name, call.path)
    return Attributes(user.name, user.groups, verb, *place)


def _account_groups(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")


def _options(call: Call, verb: str) -> Options:
    parameters = call.parameters
    if not parameters and verb != "patch":
        return Options(manager=call.request.agent)
    dry_run = parameters.get("dryRun", "")
    kind = f"{verb.capitalize()}Options" if verb in ("create", "update", "patch") else "DeleteOptions"
    if dry_run not in ("", "All"):
        raise status.invalid(kind, "meta.k8s.io", "", [status.unsupported("dryRun", dry_run, ["All"])])
    validation = parameters.get("fieldValidation", "") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        causes = [status.unsupported("fieldValidation", validation, ["Ignore", "Strict", "Warn"])]
        raise status.invalid(kind, "meta.k8s.io", "", causes)
    manager = parameters.get("fieldManager", "")
    if len(manager) > 128 or not manager.isprintable():
        cause = status.too_long("fieldManager", 128)
        if len(manager) <= 128:
            cause = status.invalid_value("fieldManager", manager, "should only contain printable characters")
        raise status.invalid(kind, "meta.k8s.io", "", [cause])
    if not manager and call.request.content_type != patch.APPLY:
        manager = call.request.agent
    return Options(dry_run == "All", validation, manager, parameters.get("force") in ("true", "1"))


def _delete_options(call: Call) -> Object:
    options = delete_options(call.body, call.parameters)
    call.options.dry_run = call.options.dry_run or bool(options.get("dryRun"))
    return options
