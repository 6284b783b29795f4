"""Request bodies in Kubernetes' protocol buffer envelope, as kube-scheduler sends them by default, read as JSON.

Answers are always JSON; clients that offer protobuf accept it too.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from mooring.controlplane.types import schema
from mooring.controlplane.types.status import StatusError, bad_request

MAGIC = b"k8s\x00"
MAX_DEPTH = 64

_ZERO_SAYS_NOTHING = frozenset(  # one string because thirty lines of names would hide the rest of the file
    """
    active chapAuthDiscovery chapAuthSession deprecatedCount failed failureThreshold fullyLabeledReplicas generation
    globalDefault healthCheckNodePort hostIPC hostNetwork hostPID hostPort initialDelaySeconds minReadySeconds nodePort
    numberAvailable numberUnavailable observedGeneration paused periodSeconds publishNotReadyAddresses readOnly
    readyReplicas sizeBytes sslEnabled stdin stdinOnce succeeded successThreshold tty unavailableReplicas unschedulable
    updatedNumberScheduled updatedReplicas
    """.split()  # noqa: SIM905
)
"""Clients always send these, set or not; JSON omits them when they are zero, and so do we."""
_EMPTY_SAYS_SOMETHING = frozenset((("core.v1.PersistentVolumeClaimSpec", "storageClassName"),))
"""An empty class means no class; an absent one leaves the choice to the cluster."""


def _malformed() -> StatusError:
    return bad_request("the body is not a well-formed protocol buffer message")


def to_json(body: bytes) -> bytes:
    """Return the JSON of an enveloped object; a 400 for anything else."""
    if not body:
        return b""
    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix k8s")
    api_version = kind = ""
    raw = b""
    for number, value in _fields(body[len(MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            for inner, text in _fields(value):
                if inner == 1 and isinstance(text, bytes):
                    api_version = text.decode("utf-8", "replace")
                elif inner == 2 and isinstance(text, bytes):
                    kind = text.decode("utf-8", "replace")
        elif number == 2 and isinstance(value, bytes):
            raw = value
    group, _, version = api_version.rpartition("/")
    name = "meta.v1.DeleteOptions" if kind == "DeleteOptions" else schema.type_name(group, version, kind)
    if name not in schema.types():
        raise bad_request(f'no kind "{kind[:60]}" is registered for version "{api_version[:60]}"')
    return msgspec.json.encode({"kind": kind, "apiVersion": api_version, **_message(name, raw, 0)})


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _malformed()
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field numbers and values: integers for varints and fixed ones, bytes for the rest."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise _malformed()
            yield number, data[at : at + length]
            at += length
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            if at + size > len(data):
                raise _malformed()
            yield number, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise _malformed()


@cache
def _numbered(name: str) -> tuple[dict[int, schema.Field], dict[int, dict[int, schema.Field]]]:
    """Return fields by number, and fields of embedded messages by (outer, inner) number."""
    direct: dict[int, schema.Field] = {}
    embedded: dict[int, dict[int, schema.Field]] = {}
    for known in schema.types()[name].fields.values():
        parts = [int(part) for part in known.number.split(".")]
        if parts == [0]:
            continue
        if len(parts) == 1:
            direct[parts[0]] = known
        elif len(parts) == 2:
            embedded.setdefault(parts[0], {})[parts[1]] = known
    return direct, embedded


def _message(name: str, data: bytes, depth: int) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise _malformed()
    direct, embedded = _numbered(name)
    obj: dict[str, Any] = {}
    for number, value in _fields(data):
        known = direct.get(number)
        if known is not None:
            _put(obj, known, value, depth)
            if value == b"" and (name, known.name) in _EMPTY_SAYS_SOMETHING:
                obj[known.name] = ""
        elif number in embedded and isinstance(value, bytes):
            for inner_number, inner in _fields(value):
                inner_known = embedded[number].get(inner_number)
                if inner_known is not None:
                    _put(obj, inner_known, inner, depth)
    return obj


def _put(obj: dict[str, Any], known: schema.Field, value: int | bytes, depth: int) -> None:
    if known.is_list and known.type != "bytes":
        obj.setdefault(known.name, []).append(_value(known.element, value, depth))
    elif known.is_map:
        if not isinstance(value, bytes):
            raise _malformed()
        key, item = "", None
        for number, part in _fields(value):
            if number == 1:
                key = _text(part)
            elif number == 2:
                item = _value(known.element, part, depth)
        obj.setdefault(known.name, {})[key] = item
    else:
        found = _value(known.type, value, depth)
        if found is None or (found == "" and not known.is_required):
            return
        if not found and not isinstance(found, dict) and known.name in _ZERO_SAYS_NOTHING:
            return
        obj[known.name] = found


def _text(value: int | bytes) -> str:
    if not isinstance(value, bytes):
        raise _malformed()
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise _malformed() from None


def _value(name: str, value: int | bytes, depth: int) -> Any:
    if name in ("int32", "int64", "bool", "double"):
        if not isinstance(value, int):
            raise _malformed()
        if name == "bool":
            return bool(value)
        return value - 2**64 if value >= 2**63 else value
    if not isinstance(value, bytes):
        raise _malformed()
    match name:
        case "string":
            return _text(value)
        case "bytes":
            return base64.b64encode(value).decode()
        case "time" | "microtime":
            parts = {number: part for number, part in _fields(value) if isinstance(part, int)}
            return _time(parts.get(1, 0), parts.get(2, 0), name == "microtime")
        case "quantity":
            return next((_text(part) for number, part in _fields(value) if number == 1), "0")
        case "intstr":
            parts_any = dict(_fields(value))
            return _text(parts_any.get(3, b"")) if parts_any.get(1) else _value("int32", parts_any.get(2, 0), depth)
        case "any":
            raw = next((part for number, part in _fields(value) if number == 1), b"{}")
            try:
                return msgspec.json.decode(raw if isinstance(raw, bytes) else b"")
            except msgspec.DecodeError:
                raise _malformed() from None
    if name.startswith("[]"):
        raise _malformed()
    return _message(name, value, depth + 1)


def _time(seconds: int, nanos: int, micro: bool) -> str | None:
    if seconds >= 2**63:
        seconds -= 2**64
    if (seconds == 0 and nanos == 0) or seconds < -(2**35) or seconds > 2**37:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{nanos // 1000:06d}Z" if micro else f"{text}Z"
