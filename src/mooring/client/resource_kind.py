"""A kind of object as a client sees it: where it is served, what of it is asked for, how it is decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from mooring.api.codec import decode
from mooring.api.meta import Object


class ApiObject(Protocol):
    """Anything with metadata, decoded; ``mooring.api``'s objects are."""

    @property
    def metadata(self) -> Any: ...


T = TypeVar("T", bound=ApiObject)


class TypedEvent(msgspec.Struct, Generic[T]):
    """A watch event whose object is decoded."""

    type: str
    object: T


@dataclass(frozen=True, slots=True)
class ResourceKind(Generic[T]):
    """Where objects of a kind are served and how they are decoded.

    ``decode_event`` reads a whole event line in one pass; without it a line is split first and its object decoded then.
    ``share`` may replace parts of a decoded object by equal ones seen before; ``decode_event`` has done so itself.
    ``older`` are other versions of the group that will do where the first is not served.
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
        """The kind as it is served at each of its versions, the best first."""
        return [replace(self, group_version=version, older=()) for version in (self.group_version, *self.older)]

    @property
    def path(self) -> str:
        root = "/apis" if "/" in self.group_version else "/api"
        scope = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}/{self.group_version}{scope}/{self.plural}"

    @property
    def name(self) -> str:
        """The name RBAC knows: ``pods``, ``leases.coordination.k8s.io``."""
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
    event: TypedEvent[T] = _event_decoder(type_).decode(line)
    return event


@cache
def _event_decoder(type_: type[T]) -> msgspec.json.Decoder[Any]:
    """Made when the first event comes: no cluster has objects of all kinds."""
    event_type: Any = TypedEvent[type_]  # type: ignore[valid-type]  # msgspec knows the concrete type at run time only
    return msgspec.json.Decoder(event_type)
