"""Objects as differences: a change holds the fields that changed, a new pod those in which it differs from its like.

A keyframe starts anew: what follows it refers to nothing before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from itertools import compress
from operator import attrgetter, is_not
from typing import Any

import msgspec

from mooring.api.codec import KINDS
from mooring.api.meta import Object
from mooring.errors import InputError
from mooring.record.entries import Entry

PARTS = ("metadata", "spec", "status")
WHOLE, SAME = -2, -1  # what an object differs from: nothing, or its own former version; else a number of a template
UNREAD = frozenset(("metadata.resourceVersion", "metadata.generation"))  # they change with every heartbeat
ANNOTATIONS = "metadata.annotations"
IN_KEY = frozenset(("metadata.name", "metadata.namespace"))


class PackedPut(Entry, tag=1, frozen=True):
    """A Put as it is written."""

    kind: str
    key: str
    base: int
    changes: dict[str, Any]


class StoredPut(Entry, tag=1, frozen=True):
    """A Put as it is read, before anybody asks for the object."""

    kind: str
    key: str
    base: int
    changes: dict[str, msgspec.Raw]


class _Field:
    """A field that is recorded, such as ``spec.nodeName``."""

    __slots__ = ("decoder", "name", "part", "path")

    def __init__(self, part: str, name: str, path: str, kind: Any) -> None:
        self.part, self.name, self.path = part, name, path
        self.decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(kind)


class _Part:
    """The fields of an object's metadata, spec or status, or (without a name) those beside them."""

    __slots__ = ("fields", "name", "paths", "positions", "values")

    def __init__(self, name: str, fields: Sequence[_Field]) -> None:
        self.name = name
        self.fields = fields
        self.paths = tuple(field.path for field in fields)
        self.positions = range(len(fields))
        # Reads all fields in one call: comparing them one by one takes most of the time that recording costs.
        self.values: Callable[[Any], tuple[Any, ...]] = attrgetter(*(field.name for field in fields))


@cache
def parts_of(kind: type[Object]) -> tuple[_Part, ...]:
    """What is recorded of a kind."""
    found: dict[str, list[_Field]] = {}
    for outer in msgspec.structs.fields(kind):
        if outer.name in PARTS and isinstance(outer.type, type) and issubclass(outer.type, msgspec.Struct):
            for inner in msgspec.structs.fields(outer.type):
                path = f"{outer.encode_name}.{inner.encode_name}"
                if path not in UNREAD and path not in IN_KEY:
                    found.setdefault(outer.name, []).append(_Field(outer.name, inner.name, path, inner.type))
        else:
            found.setdefault("", []).append(_Field("", outer.name, outer.encode_name, outer.type))
    # A getter of a single name returns no tuple; such a part is read twice.
    return tuple(_Part(part, fields * 2 if len(fields) == 1 else fields) for part, fields in found.items())


@cache
def _by_path(kind: type[Object]) -> dict[str, _Field]:
    return {field.path: field for part in parts_of(kind) for field in part.fields}


@cache
def _blank(kind: type[Object]) -> Object:
    return kind()


def differences(old: Object, new: Object) -> dict[str, Any]:
    """The fields in which two objects of a kind differ, with the new one's values."""
    changes: dict[str, Any] = {}
    for part in parts_of(type(new)):
        before, after = (getattr(old, part.name), getattr(new, part.name)) if part.name else (old, new)
        if before is after:
            continue
        left, right = part.values(before), part.values(after)
        for i in compress(part.positions, map(is_not, left, right)):
            if left[i] != right[i]:
                changes[part.paths[i]] = right[i]
    return changes


class Packer:
    """Knows what a reader will know at this point of the file. ``redact`` leaves things out of annotations."""

    def __init__(self, redact: Callable[[dict[str, str]], dict[str, str]] = dict) -> None:
        self._redact = redact
        self._known: dict[tuple[type[Object], str], Object] = {}
        self._templates: dict[tuple[type[Object], str, str], tuple[int, Object]] = {}

    def pack(self, obj: Object) -> PackedPut | None:
        """How to write the object; None if nothing has changed that is recorded."""
        kind, key = type(obj), obj.key
        place = kind, key
        old = self._known.get(place)
        self._known[place] = obj
        if old is not None and old.metadata.uid == obj.metadata.uid:
            changes = self._differences(old, obj)
            return PackedPut(kind.__name__, key, SAME, changes) if changes else None
        owner = obj.metadata.controller()
        family = kind, obj.metadata.namespace, "" if owner is None else owner.uid
        template = self._templates.get(family)
        if template is None:
            self._templates[family] = len(self._templates), obj
            return PackedPut(kind.__name__, key, WHOLE, self._differences(_blank(kind), obj))
        return PackedPut(kind.__name__, key, template[0], self._differences(template[1], obj))

    def _differences(self, old: Object, new: Object) -> dict[str, Any]:
        changes = differences(old, new)
        if ANNOTATIONS in changes:
            shown = self._redact(new.metadata.annotations)
            if shown == self._redact(old.metadata.annotations):
                del changes[ANNOTATIONS]
            else:
                changes[ANNOTATIONS] = shown
        return changes

    def forget(self, kind: str, key: str) -> None:
        """The object is gone."""
        self._known.pop((KINDS[kind], key), None)


class Unpacker:
    """Makes objects of what a packer wrote."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Object] = {}
        self._templates: list[Object] = []

    def unpack(self, stored: StoredPut) -> Object:
        """The object that is meant; InputError if the record contradicts itself."""
        kind = _kind(stored.kind)
        obj = self._applied(kind, stored)
        self.known[stored.kind, stored.key] = obj
        if stored.base == WHOLE:
            self._templates.append(obj)
        return obj

    def forget(self, kind: str, key: str) -> None:
        """The object is gone."""
        _kind(kind)
        self.known.pop((kind, key), None)

    def _base(self, kind: type[Object], stored: StoredPut) -> Object:
        base: Object | None = None
        if stored.base == WHOLE:
            base = _blank(kind)
        elif stored.base == SAME:
            base = self.known.get((stored.kind, stored.key))
        elif 0 <= stored.base < len(self._templates):
            base = self._templates[stored.base]
        if not isinstance(base, kind):
            raise InputError(f"damaged: {stored.kind} {stored.key} refers to an object that is not there")
        return base

    def _applied(self, kind: type[Object], stored: StoredPut) -> Object:
        obj = copy(self._base(kind, stored))
        copied = {"", "metadata"} if stored.base != SAME else {""}
        if stored.base != SAME:
            obj.metadata = copy(obj.metadata)
            obj.metadata.namespace, _, obj.metadata.name = stored.key.rpartition("/")
        fields = _by_path(kind)
        for path, value in stored.changes.items():
            field = fields.get(path)
            if field is None:
                continue  # a field that only a newer mooring reads
            if field.part not in copied:
                setattr(obj, field.part, copy(getattr(obj, field.part)))
                copied.add(field.part)
            holder = getattr(obj, field.part) if field.part else obj
            try:
                setattr(holder, field.name, field.decoder.decode(value))
            except msgspec.DecodeError as error:
                raise InputError(f"damaged: {stored.kind} {stored.key}: {path}: {error}") from None
        return obj


def _kind(name: str) -> type[Object]:
    kind = KINDS.get(name)
    if kind is None:
        raise InputError(f"damaged: an object of an unknown kind {name!r}")
    return kind
