"""The lines of a watch: cut out of a byte stream, and read."""

from __future__ import annotations

import logging
from typing import Generic, TypeVar

import msgspec

from mooring.api.nesting import flattened
from mooring.client.errors import error_of_watch
from mooring.client.pages import Garbled
from mooring.client.resource_kind import ApiObject, ResourceKind
from mooring.errors import InputError

log = logging.getLogger("mooring.client.watch")

T = TypeVar("T", bound=ApiObject)

_CHANGES = frozenset(("ADDED", "MODIFIED", "DELETED"))


class LineSplitter:
    """Cuts a byte stream into lines of any length; each byte is copied at most twice."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk:
            if chunk:
                self._parts.append(chunk)
            return []
        if self._parts:
            self._parts.append(chunk)
            chunk = b"".join(self._parts)
        lines: list[bytes] = []
        start, end = 0, chunk.find(b"\n")
        while end >= 0:  # several times as fast as ``split``, which looks at each byte by itself
            if end > start:
                lines.append(chunk[start:end])
            start = end + 1
            end = chunk.find(b"\n", start)
        self._parts = [chunk[start:]] if start < len(chunk) else []
        return lines


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class BookmarkMeta(msgspec.Struct, rename="camel"):
    """What a bookmark says: how far the stream has come."""

    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: BookmarkMeta


_event_decoder = msgspec.json.Decoder(_WatchEvent)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)


class EventReader(Generic[T]):
    """Reads the event lines of one kind."""

    def __init__(self, kind: ResourceKind[T]) -> None:
        self._kind = kind

    def read(self, line: bytes) -> tuple[str, T | None, BookmarkMeta | None]:
        """Read an event: its type, and its object or its bookmark; neither if the object cannot be read."""
        if self._kind.decode_event is not None:
            try:
                event = self._kind.decode_event(line)
            except RecursionError:
                return self.read(flattened(line))
            except (msgspec.DecodeError, ValueError):
                pass  # The long way finds out what is wrong.
            else:
                if event.type in _CHANGES:
                    return event.type, event.object, None
        type_, raw = self._split(line)
        if type_ == "BOOKMARK":
            return type_, None, self._bookmark(raw)
        return type_, self.decode(type_, raw), None

    def _split(self, line: bytes) -> tuple[str, msgspec.Raw]:
        try:
            event = _event_decoder.decode(line)
        except RecursionError:
            return self._split(flattened(line))
        except msgspec.DecodeError as error:
            raise Garbled(f"not a watch event: {error}") from None
        if event.type == "ERROR":
            raise error_of_watch(bytes(event.object))
        if event.type != "BOOKMARK" and event.type not in _CHANGES:
            raise Garbled(f"a watch event of type {event.type!r}")
        return event.type, event.object

    def _bookmark(self, raw: msgspec.Raw) -> BookmarkMeta:
        try:
            return _bookmark_decoder.decode(raw).metadata
        except msgspec.DecodeError as error:
            raise Garbled(f"not a bookmark: {error}") from None

    def decode(self, type_: str, raw: msgspec.Raw) -> T | None:
        """Decode an object; None, and a line in the log, if it cannot be read."""
        try:
            item = self._kind.decode(raw)
            if self._kind.share is not None:
                self._kind.share(item)
            return item
        except (msgspec.DecodeError, ValueError, InputError) as error:
            log.error("%s: an object that cannot be read is left out (%s): %s", self._kind.name, type_, error)
            return None
