"""Conversion between wire format and structs: the only place that maps kinds to classes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from mooring.api.core import Namespace, Node, Pod, ReplicationController, Service
from mooring.api.errors import InputError
from mooring.api.meta import Object, Struct
from mooring.api.pod_groups import CoschedulingPodGroup, PodGroup
from mooring.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.api.workloads import PodDisruptionBudget, PriorityClass, ReplicaSet, StatefulSet

# --------------------------------------------------------------------------------------------------------------------
# JSON that is nested too deeply for a decoder that recurses.
#
# An API server takes 10,000 levels where anything may stand, for example in a ResourceClaim's opaque parameters.
# Decoders give up at about 1,000, even on parts that they only skip. Nothing that scheduling reads is so deep.

MAX_DEPTH = 200
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


def flattened(data: bytes) -> bytes:
    """Replace every value that is nested deeper than ``MAX_DEPTH`` by null."""
    pieces: list[bytes] = []
    depth = end = start = 0
    for token in _STRING_OR_BRACKET.finditer(data):
        bracket = token[0]
        if bracket in (b"{", b"["):
            depth += 1
            if depth == MAX_DEPTH + 1:
                start = token.start()
        elif bracket in (b"}", b"]"):
            if depth == MAX_DEPTH + 1:
                pieces += (data[end:start], b"null")
                end = token.end()
            depth -= 1
    return b"".join((*pieces, data[end:]))


KINDS: dict[str, type[Object]] = {
    kind.__name__: kind
    for kind in (
        Pod,
        Node,
        Namespace,
        Service,
        ReplicationController,
        ReplicaSet,
        StatefulSet,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
        CSINode,
        CSIDriver,
        CSIStorageCapacity,
        VolumeAttachment,
        PodDisruptionBudget,
        PriorityClass,
        PodGroup,
        ResourceClaim,
        ResourceClaimTemplate,
        DeviceClass,
        ResourceSlice,
        DeviceTaintRule,
    )
}

_NAMESAKES: dict[tuple[str, str], type[Object]] = {("scheduling.x-k8s.io", "PodGroup"): CoschedulingPodGroup}


def struct_of(kind: str, api_version: object = "") -> type[Object] | None:
    """Return the class for objects of a kind, or None for one that scheduling never reads.

    The kind alone says which, except for two kinds of the same name: there the API group decides.
    """
    namesake = _NAMESAKES.get((str(api_version).partition("/")[0], kind))
    return namesake or KINDS.get(kind)


@cache
def decoder(kind: type[Object]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode(kind: type[Object], data: bytes | msgspec.Raw) -> Any:
    """Decode one object of a known kind from JSON; fields that are not read are skipped."""
    try:
        return _decode(kind, data)
    except RecursionError:
        return _decode(kind, flattened(bytes(data)))


def _decode(kind: type[Object], data: bytes | msgspec.Raw) -> Any:
    try:
        return decoder(kind).decode(data)
    except msgspec.ValidationError:
        return from_plain(kind, msgspec.json.decode(data))  # nulls where lists belong: rare, legal, slower
    except msgspec.DecodeError as error:
        raise InputError(f"{kind.__name__}: {error}, expected a JSON object") from None


def from_plain(kind: type[Struct], value: Mapping[str, Any]) -> Any:
    """Convert plain data, as YAML or json.loads give it."""
    try:
        return msgspec.convert(without_nulls(value), kind, strict=False)
    except msgspec.ValidationError as error:
        meta = value.get("metadata") if isinstance(value, Mapping) else None
        parts = (meta.get("namespace"), meta.get("name")) if isinstance(meta, Mapping) else ()
        name = "/".join(str(part) for part in parts if part) or "without a name"
        raise InputError(f"{kind.__name__} {name}: {_in_words(error)}") from None


_MISMATCH = re.compile(r"Expected `([a-z |]+)`, got `([a-z]+)`(?: - at `\$\.?(.*)`)?")
_WORDS = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}


def _in_words(error: msgspec.ValidationError) -> str:
    """``spec.containers: expected a list, found an object``."""
    found = _MISMATCH.fullmatch(str(error))
    if found is None:
        return str(error).replace(" - at", " at")
    expected, got, where = found.groups()
    kinds = " or ".join(_WORDS.get(kind, kind) for kind in expected.split(" | "))
    return f"{where + ': ' if where else ''}expected {kinds}, found {_WORDS.get(got, got)}"


def without_nulls(value: Any) -> Any:
    if isinstance(value, (str, int, float)):  # most values; to ask whether something is a Mapping takes longer
        return value
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


def to_plain(obj: Object) -> Any:
    """The known fields of an object as plain data, camelCase."""
    return msgspec.to_builtins(obj)
