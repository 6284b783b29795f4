"""Objects on their way into a record and out of it.

An object is written whole, and what it has in common with others is left to the compressor: finding differences takes
seven times as long and saves nothing. It is read in parts: of a thousand pods of one template, the spec is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

import msgspec

from mooring.api.codec import KINDS
from mooring.api.core import Pod, PodSpec, PodStatus
from mooring.api.meta import Object, ObjectMeta
from mooring.api.pod_groups import CoschedulingPodGroup
from mooring.errors import InputError
from mooring.record.entries import Entry

RECORDED: dict[str, type[Object]] = {**KINDS, CoschedulingPodGroup.__name__: CoschedulingPodGroup}
"""The kinds that a record can hold. One of another name, from a newer mooring, is passed over."""
MAX_SHARED = 20_000  # parts that a reader keeps, to use them again
MAX_PACKED = 20_000  # objects that a writer keeps packed, some hundred bytes each: keyframes repeat them

_encode = msgspec.msgpack.Encoder().encode
_EMPTY = msgspec.Raw(b"\x80")  # a map without entries


class PackedPut(Entry, tag=1, frozen=True):
    """A Put as it is written and read, before anybody asks for the object."""

    kind: str
    object: msgspec.Raw


class Packer:
    """Packs objects, and knows what a reader knows already. ``redact`` leaves things out of annotations."""

    def __init__(self, redact: Callable[[dict[str, str]], dict[str, str]] = dict) -> None:
        self._redact = redact
        self._known: dict[tuple[str, str], int] = {}  # hashes of what was packed
        self._packed: dict[tuple[str, str], tuple[Object, PackedPut, int]] = {}  # some of it, for the next keyframe

    def forget_all(self) -> None:
        """A reader begins anew, and knows nothing."""
        self._packed = {place: each for place, each in self._packed.items() if place in self._known}
        self._known.clear()

    def pack(self, obj: Object) -> PackedPut | None:
        """How to write the object; None if nothing has changed that is recorded."""
        kind, meta = type(obj).__name__, obj.metadata
        place = kind, f"{meta.namespace}/{meta.name}"
        known = self._packed.get(place)
        if known is not None and known[0] is obj:
            _, put, content = known
        else:
            packed = self._encoded(obj)
            put, content = PackedPut(kind, msgspec.Raw(packed)), hash(packed)
            if known is not None or len(self._packed) < MAX_PACKED:
                self._packed[place] = obj, put, content
        if self._known.get(place) == content:
            return None
        self._known[place] = content
        return put

    def _encoded(self, obj: Object) -> bytes:
        stripped = copy(obj)
        meta = stripped.metadata = copy(obj.metadata)
        meta.resource_version, meta.generation = "", 0  # they change with every heartbeat
        if meta.annotations:
            meta.annotations = self._redact(meta.annotations)
        return _encode(stripped)

    def forget(self, kind: str, key: str) -> None:
        """The object is gone."""
        place = kind, key if "/" in key else f"/{key}"
        self._known.pop(place, None)
        self._packed.pop(place, None)


class _PodParts(msgspec.Struct, rename="camel"):
    """A pod whose parts are not read yet."""

    api_version: str = ""
    kind: str = ""
    metadata: msgspec.Raw = _EMPTY
    spec: msgspec.Raw = _EMPTY
    status: msgspec.Raw = _EMPTY


_pod_parts = msgspec.msgpack.Decoder(_PodParts).decode
_metadata = msgspec.msgpack.Decoder(ObjectMeta).decode


class _Shared:
    """Values of a type, one for all who have the same bytes."""

    def __init__(self, kind: type[Any]) -> None:
        self._decode = msgspec.msgpack.Decoder(kind).decode
        self._values: dict[bytes, Any] = {}

    def __call__(self, data: msgspec.Raw) -> Any:
        key = bytes(data)
        found = self._values.get(key)
        if found is None:
            if len(self._values) >= MAX_SHARED:
                self._values.clear()
            found = self._values[key] = self._decode(data)
        return found


class Unpacker:
    """Makes objects of what a packer wrote; ``known`` are those that are there."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Object] = {}
        self._spec, self._status = _Shared(PodSpec), _Shared(PodStatus)

    def unpack(self, packed: PackedPut) -> Object | None:
        """The object that is meant; None if it is of a kind that nobody knows here; InputError if it is damaged."""
        kind = RECORDED.get(packed.kind)
        if kind is None:
            return None
        try:
            obj: Object = self._pod(packed.object) if kind is Pod else _decoder(kind).decode(packed.object)
        except msgspec.DecodeError as error:
            raise InputError(f"damaged: {packed.kind}: {error}") from None
        self.known[packed.kind, obj.key] = obj
        return obj

    def _pod(self, data: msgspec.Raw) -> Pod:
        parts = _pod_parts(data)
        return Pod(
            api_version=parts.api_version,
            kind=parts.kind,
            metadata=_metadata(parts.metadata),
            spec=self._spec(parts.spec),
            status=self._status(parts.status),
        )

    def forget(self, kind: str, key: str) -> None:
        """The object is gone."""
        self.known.pop((kind, key), None)


@cache
def _decoder(kind: type[Object]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)
