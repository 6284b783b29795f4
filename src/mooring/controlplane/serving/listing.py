"""Lists and watches: their parameters (selectors, pages, versions), their bodies, and tables."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from mooring.controlplane.registry.columns import columns_of
from mooring.controlplane.serving.requests import Route
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.store import EntryPage, Store, StoredEntry
from mooring.controlplane.storage.watches import Hub, Match, Render, Watcher
from mooring.controlplane.types import status
from mooring.controlplane.types.kind import Column, Kind, Object

_encode = msgspec.json.Encoder().encode
DEFAULT_WATCH_S = 1800.0


class Selection(msgspec.Struct, frozen=True):
    """The selection of a list."""

    kind: Kind
    match: Match
    limit: int = 0
    start: str = ""
    at: int = 0
    not_older_than: int = 0

    def page(self, store: Store) -> EntryPage:
        if self.not_older_than > store.rv:
            raise status.too_large(self.not_older_than, store.rv)
        stored = self.kind.storage
        match = self.match
        exact = match.fields.exactly("metadata.name")
        if exact is not None and match.namespace and not self.at:
            entry = store.get(stored, match.namespace, exact)
            return EntryPage([entry] if entry is not None and match(entry) else [], store.rv)
        if stored.resource == "pods" and not self.at and not self.limit:
            node = match.fields.exactly("spec.nodeName")
            if node:
                found = sorted((e for e in store.pods_on(node) if match(e)), key=lambda e: e.key)
                return EntryPage(found, store.rv)
        selective = match if match.is_selective() else None
        return store.page(stored, match.namespace, limit=self.limit, start=self.start, at=self.at, match=selective)


def _invalid(cause: status.Cause) -> status.StatusError:
    return status.invalid("ListOptions", "meta.k8s.io", "", [cause])


def _number(parameters: dict[str, str], name: str) -> int:
    text = parameters.get(name, "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise status.bad_request(f"{name}: expected a number that is not negative, found {text[:40]!r}")
    return int(text)


def _version(parameters: dict[str, str]) -> int | None:
    text = parameters.get("resourceVersion", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        why = f"strconv.ParseUint: parsing {text[:64]!r}: invalid syntax"
        raise _invalid(status.invalid_value("resourceVersion", text[:64], why))
    return int(text)


def selection(route: Route, parameters: dict[str, str]) -> Selection:
    kind = route.kind
    field_selector = selectors.ANY_FIELDS
    text = parameters.get("fieldSelector", "")
    if text:
        field_selector = selectors.parse_fields(text, kind.field_names(), kind.kind)
    if route.name:
        field_selector = selectors.FieldSelector((*field_selector.terms, ("metadata.name", True, route.name)))
    labels = (
        selectors.parse_labels(parameters["labelSelector"]) if parameters.get("labelSelector") else selectors.EVERYTHING
    )
    match = Match(route.namespace, labels, field_selector)
    limit = _number(parameters, "limit")
    version = _version(parameters)
    how = parameters.get("resourceVersionMatch", "")
    if how not in ("", "Exact", "NotOlderThan"):
        raise _invalid(status.unsupported("resourceVersionMatch", how, ["Exact", "NotOlderThan"]))
    if parameters.get("continue"):
        at, start = _decode_continue(parameters["continue"])
        if version:
            raise status.bad_request("specifying resource version is not allowed when using continue")
        return Selection(kind, match, limit, start, at)
    if how == "Exact":
        if not version:
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            raise _invalid(status.forbidden_field("resourceVersionMatch", why))
        return Selection(kind, match, limit, at=version)
    return Selection(kind, match, limit, not_older_than=version or 0)


def _encode_continue(rv: int, start: str) -> str:
    token = _encode({"v": "meta.k8s.io/v1", "rv": rv, "start": start})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


def _decode_continue(text: str) -> tuple[int, str]:
    try:
        padded = text + "=" * (-len(text) % 4)
        token = msgspec.json.decode(base64.urlsafe_b64decode(padded.encode("ascii")), type=_Token)
    except (binascii.Error, ValueError, UnicodeEncodeError):
        raise status.bad_request("continue key is not valid") from None
    if token.v != "meta.k8s.io/v1" or token.rv < 1 or token.rv > 2**62:
        raise status.bad_request("continue key is not valid: server does not recognize this encoded version")
    return token.rv, token.start


def list_metadata(page: EntryPage, chosen: Selection) -> Object:
    metadata: Object = {"resourceVersion": str(page.rv)}
    if page.next_key:
        metadata["continue"] = _encode_continue(page.rv, page.next_key)
        if not chosen.match.is_selective():
            metadata["remainingItemCount"] = page.remaining
    return metadata


def partial(obj: Object) -> Object:
    """Return an object's metadata alone, for clients that request only that."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def list_body(kind: Kind, page: EntryPage, chosen: Selection, form: str = "") -> bytes:
    """Return the bytes of a list, made of the objects' own bytes."""
    if form == "partial":
        items = [_encode(partial(e.object())) for e in page.entries]
        head: Object = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
    else:
        items = (
            [e.raw for e in page.entries]
            if kind.view is None
            else [_encode(kind.shown(e.object())) for e in page.entries]
        )
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version}
    head["metadata"] = list_metadata(page, chosen)
    return b'%s,"items":[%s]}' % (_encode(head)[:-1], b",".join(items))


class WatchOptions(msgspec.Struct, frozen=True):
    since: int | None
    """Events after this version; None begins with the current state."""
    wants_initial_end: bool
    bookmarks: bool
    timeout_s: float


def watch_options(parameters: dict[str, str]) -> WatchOptions:
    version = _version(parameters)
    bookmarks = parameters.get("allowWatchBookmarks") in ("true", "1")
    how = parameters.get("resourceVersionMatch", "")
    initial = parameters.get("sendInitialEvents")
    timeout_s = float(_number(parameters, "timeoutSeconds")) or DEFAULT_WATCH_S
    if parameters.get("continue"):
        raise status.bad_request("continue is not allowed for a watch")
    if initial is not None:
        if how != "NotOlderThan":
            why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise _invalid(status.forbidden_field("resourceVersionMatch", why))
        if initial in ("true", "1"):
            return WatchOptions(None, bookmarks, bookmarks, timeout_s)
    elif how:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _invalid(status.forbidden_field("resourceVersionMatch", why))
    if initial in ("false", "0") and not version:
        return WatchOptions(-1, False, bookmarks, timeout_s)
    return WatchOptions(version or None, False, bookmarks, timeout_s)


# Watches: lines as they come, occasional bookmarks, a limited duration

BOOKMARK_INTERVAL_S = 30.0
MAX_WATCH_S = 3600.0

Disturb = Callable[[bytes], Awaitable[tuple[bytes, bool]]]
"""Fault injection: the lines to send instead, and whether the watch ends with them."""


class WatchStream:
    """The answer to a watch. Read until it returns nothing, then close."""

    def __init__(
        self, hub: Hub, watcher: Watcher, *, timeout_s: float, has_bookmarks: bool, disturb: Disturb | None = None
    ) -> None:
        self._hub, self._watcher, self._disturb = hub, watcher, disturb
        self._has_bookmarks = has_bookmarks
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + min(timeout_s, MAX_WATCH_S)
        self._next_bookmark = self._loop.time() + BOOKMARK_INTERVAL_S
        self._has_ended = False

    def on_overrun(self, callback: Callable[[], None]) -> None:
        """Call back once if the reader is too slow: it may be stuck, and must be disconnected from outside."""
        self._watcher.on_overrun = callback

    async def read(self) -> bytes:
        """Return the next lines; empty at the end of the watch."""
        while not self._has_ended and not self._watcher.is_closed:
            now = self._loop.time()
            if now >= self._deadline:
                self._has_ended = True
                if not self._has_bookmarks:
                    return b""
                self._hub.bookmark(self._watcher)  # so that the next watch resumes from here
                return await self._watcher.take(now)
            if self._has_bookmarks and now >= self._next_bookmark:
                self._next_bookmark = now + BOOKMARK_INTERVAL_S
                self._hub.bookmark(self._watcher)
            until = min(self._deadline, self._next_bookmark) if self._has_bookmarks else self._deadline
            lines = await self._watcher.take(until)
            if lines and self._disturb is not None:
                # A watch that ends here has no closing bookmark: it would cover events that were not sent.
                lines, self._has_ended = await self._disturb(lines)
            if lines:
                return lines
        return b""

    def close(self) -> None:
        self._hub.forget(self._watcher)


# Tables, as ``kubectl get`` asks for them


def _definition(column: Column) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": column.name,
        "priority": column.priority,
    }


def _rows(kind: Kind, entries: Sequence[StoredEntry], include: str, now: float, rv: int = 0) -> list[Object]:
    columns = columns_of(kind)
    rows = []
    for entry in entries:
        obj = entry.object()
        if rv:
            obj["metadata"]["resourceVersion"] = str(rv)
        row: Object = {"cells": [column.cell(obj, now) for column in columns]}
        if include == "Object":
            row["object"] = kind.shown(obj)
        elif include != "None":
            row["object"] = partial(obj)
        rows.append(row)
    return rows


def _table(kind: Kind, rows: list[Object], metadata: Object) -> Object:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns_of(kind)],
        "rows": rows,
    }


def table_body(
    kind: Kind, entries: Sequence[StoredEntry], parameters: dict[str, str], metadata: Object, now: float
) -> bytes:
    return _encode(_table(kind, _rows(kind, entries, parameters.get("includeObject", ""), now), metadata))


def renderer(kind: Kind, parameters: dict[str, str], now: Callable[[], float]) -> Render:
    """Return the objects of a watch as one-row tables; only the first has the columns."""
    include = parameters.get("includeObject", "")
    is_first = True

    def render(_: str, entry: StoredEntry, rv: int) -> bytes:
        nonlocal is_first
        table = _table(kind, _rows(kind, [entry], include, now(), rv), {"resourceVersion": str(rv)})
        if not is_first:
            table["columnDefinitions"] = None
        is_first = False
        return _encode(table)

    return render
