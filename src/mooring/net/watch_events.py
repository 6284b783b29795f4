"""The lines of a watch: split from a byte stream, and decoded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from mooring.api.codec import decode, flattened
from mooring.api.errors import InputError
from mooring.api.meta import Object
from mooring.net.errors import error_of_watch


class Garbled(Exception):
    """The server sent something that is not a list, or not a watch event."""


MAX_OBJECT_BYTES = 16 << 20
"""Upper bound of an object's size: API servers accept requests up to 3 MiB, and etcd half of that by default."""
UNREADABLE = 1000
"""Number of unreadable objects that are reported once each."""


# --------------------------------------------------------------------------------------------------------------------
# A kind of object from a client's view: where it is served, which objects are selected, and how they are decoded.


class ApiObject(Protocol):
    """Protocol of decoded objects with metadata, such as those of ``mooring.api``."""

    @property
    def metadata(self) -> Any: ...


T = TypeVar("T", bound=ApiObject)


class TypedEvent(msgspec.Struct, Generic[T]):
    """A watch event with its decoded object."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class ResourceKind(Generic[T]):
    """Where objects of a kind are served and how they are decoded.

    ``decode_event`` reads a whole event line in one pass; without it a line is split first and its object decoded then.
    ``share`` may replace parts of a decoded object by equal ones seen before; ``decode_event`` does so itself.
    ``older`` are acceptable versions of the group where the first is not served.
    """

    plural: str
    group_version: str
    decode: Callable[[bytes | msgspec.Raw], T]
    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""
    decode_event: Callable[[bytes], TypedEvent[T]] | None = None
    share: Callable[[T], None] | None = None
    older: tuple[str, ...] = ()

    def at_each_version(self) -> list[ResourceKind[T]]:
        """Return the kind at each of its versions, the best first."""
        return [replace(self, group_version=version, older=()) for version in (self.group_version, *self.older)]

    @property
    def path(self) -> str:
        root = "/apis" if "/" in self.group_version else "/api"
        scope = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}/{self.group_version}{scope}/{self.plural}"

    @property
    def name(self) -> str:
        """Its name in RBAC: ``pods``, ``leases.coordination.k8s.io``."""
        group, separator, _ = self.group_version.partition("/")
        return f"{self.plural}.{group}" if separator else self.plural

    def selectors(self) -> dict[str, str]:
        query = {}
        if self.field_selector:
            query["fieldSelector"] = self.field_selector
        if self.label_selector:
            query["labelSelector"] = self.label_selector
        return query


def typed_kind(
    plural: str,
    group_version: str,
    type_: type[T],
    *,
    namespace: str = "",
    field_selector: str = "",
    label_selector: str = "",
    share: Callable[[T], None] | None = None,
    decode_event: Callable[[bytes], TypedEvent[T]] | None = None,
    older: tuple[str, ...] = (),
) -> ResourceKind[T]:
    """Describe a kind whose objects are decoded into the msgspec Struct ``type_``."""
    return ResourceKind(
        plural,
        group_version,
        partial(decode, cast(type[Object], type_)),
        namespace,
        field_selector,
        label_selector,
        partial(_decode_event, type_) if decode_event is None else decode_event,
        share,
        older,
    )


def _decode_event(type_: type[T], line: bytes) -> TypedEvent[T]:
    event: TypedEvent[T] = _resource_kind_event_decoder(type_).decode(line)
    return event


@cache
def _resource_kind_event_decoder(type_: type[T]) -> msgspec.json.Decoder[Any]:
    """Return the decoder, built for the first event: no cluster has objects of all kinds."""
    event_type: Any = TypedEvent[type_]  # type: ignore[valid-type]  # msgspec knows the concrete type at run time only
    return msgspec.json.Decoder(event_type)


log = logging.getLogger("mooring.net.watch")


_CHANGES = frozenset(("ADDED", "MODIFIED", "DELETED"))


class LineSplitter:
    """Splits a byte stream into lines of any length; each byte is copied at most twice."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk:
            self._size += len(chunk)
            if self._size > MAX_OBJECT_BYTES:
                raise Garbled(f"a watch event is larger than {MAX_OBJECT_BYTES:,} bytes")
            if chunk:
                self._parts.append(chunk)
            return []
        if self._parts:
            self._parts.append(chunk)
            chunk = b"".join(self._parts)
        lines: list[bytes] = []
        start, end = 0, chunk.find(b"\n")
        while end >= 0:  # several times as fast as ``split``, which checks each byte
            if end > start:
                lines.append(chunk[start:end])
            start = end + 1
            end = chunk.find(b"\n", start)
        self._size = len(chunk) - start
        self._parts = [chunk[start:]] if self._size else []
        return lines


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class BookmarkMeta(msgspec.Struct, rename="camel"):
    """Metadata of a bookmark: how far the stream has come."""

    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: BookmarkMeta


_event_decoder = msgspec.json.Decoder(_WatchEvent)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)


class EventReader(Generic[T]):
    """Decodes the event lines of one kind."""

    def __init__(self, kind: ResourceKind[T]) -> None:
        self._kind = kind
        self._told: set[str] = set()

    def read(self, line: bytes) -> tuple[str, T | None, BookmarkMeta | None]:
        """Decode an event: its type, and its object or its bookmark; neither if the object is unreadable."""
        if self._kind.decode_event is not None:
            try:
                event = self._kind.decode_event(line)
            except RecursionError:
                return self.read(flattened(line))
            except (msgspec.DecodeError, ValueError):
                pass  # The slow path finds the error.
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

    def decode(self, type_: str, raw: bytes | msgspec.Raw) -> T | None:
        """Decode an object; return None for an unreadable one, and log it the first time."""
        try:
            item = self._kind.decode(raw)
            if self._kind.share is not None:
                self._kind.share(item)
            return item
        except (msgspec.DecodeError, ValueError, InputError) as error:
            text = f"{self._kind.name}: an object that cannot be read is left out ({type_}): {error}"
            if text not in self._told:
                if len(self._told) >= UNREADABLE:
                    self._told.clear()
                self._told.add(text)
                log.error("%s", text)
            return None
