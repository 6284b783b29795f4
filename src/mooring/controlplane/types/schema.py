"""Strict decoding: shapes objects by the table of API types, and finds unknown fields.

The same table serves strategic merge patch, server-side apply, OpenAPI and protocol buffers, so that they cannot
disagree.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import msgspec

from mooring.api.type_table import Field as Field
from mooring.api.type_table import Type as Type
from mooring.api.type_table import type_name as type_name
from mooring.api.type_table import types as types
from mooring.controlplane.types.status import bad_request

INT32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
SCALARS: dict[str, Any] = {
    "string": str,
    "bytes": str,
    "time": str,
    "microtime": str,
    "bool": bool,
    "int32": INT32,
    "int64": INT64,
    "double": float,
    "quantity": str | int | float,
    "intstr": INT32 | str,
    "any": Any,
}
GO_NAMES = {
    "time": "Time",
    "microtime": "MicroTime",
    "double": "float64",
    "quantity": "resource.Quantity",
    "intstr": "intstr.IntOrString",
    "bytes": "[]uint8",
}


@cache
def _python_type(name: str) -> Any:
    if name[:2] == "[]":
        return list[_python_type(name[2:]) | None]  # type: ignore[misc]
    if name[:2] == "{}":
        return dict[str, _python_type(name[2:]) | None]  # type: ignore[misc]
    if name in SCALARS:
        return SCALARS[name]
    described = types()[name]
    names = {f"f{i}": wire for i, wire in enumerate(described.fields)}
    return msgspec.defstruct(
        name.replace(".", "_"),
        [(f"f{i}", _python_type(f.type) | None, None) for i, f in enumerate(described.fields.values())],
        rename=names,
        forbid_unknown_fields=True,
        gc=False,
    )


@cache
def _strict_decoder(name: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_python_type(name))


def decode(type_name: str, body: bytes, kind: str, version: str) -> tuple[dict[str, Any], list[str]]:
    """Decode a body into a dict of the right shape; also return the unknown fields and other warnings."""
    try:
        obj = msgspec.json.decode(body)
        return obj, _clean(type_name, obj, body, kind, version)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {_one_line(error)}") from None


def check(type_name: str, obj: dict[str, Any], kind: str, version: str) -> list[str]:
    """Check a decoded object like ``decode``: clean it in place where needed, return the unknown fields."""
    try:
        return _clean(type_name, obj, msgspec.json.encode(obj), kind, version)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError, TypeError) as error:
        raise bad_request(f"the object cannot be written as JSON: {_one_line(error)}") from None


def _clean(type_name: str, obj: dict[str, Any], body: bytes, kind: str, version: str) -> list[str]:
    """Bring an object into its type's shape; ``body`` is its JSON.

    The strict decoder accepts most objects in a few microseconds. Only what it rejects is walked, and what may hold
    nulls: they mean that a field is omitted, but the decoder allows them.
    """
    try:
        _strict_decoder(type_name).decode(body)
    except msgspec.ValidationError:
        return normalize(type_name, obj, kind, version)
    left = body.count(b"null")
    if left:
        # Events of clients written in Go have nulls, all of them in the object itself. These are dropped without a
        # walk through all fields, which is for the remaining objects.
        nulls = [key for key, value in obj.items() if value is None]
        for key in nulls:
            del obj[key]
        left -= len(nulls)
    return normalize(type_name, obj, kind, version) if left else []


def without(type_name: str, obj: dict[str, Any], later: frozenset[str]) -> list[str]:
    """Drop fields that a version does not know (``core.v1.PodSpec.schedulingGroup``) in place; return their paths."""
    dropped: list[str] = []
    for steps in _paths_to(type_name, later):
        _drop(obj, steps, "", dropped)
    return dropped


@cache
def _paths_to(type_name: str, later: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Return every path from an object of the type to one of the fields; ``*`` means the items of a list or map."""
    found: list[tuple[str, ...]] = []

    def walk(name: str, steps: tuple[str, ...], within: tuple[str, ...]) -> None:
        while name[:2] in ("[]", "{}"):
            name, steps = name[2:], (*steps, "*")
        if name in SCALARS or name in within:
            return
        for known in types()[name].fields.values():
            if f"{name}.{known.name}" in later:
                found.append((*steps, known.name))
            else:
                walk(known.type, (*steps, known.name), (*within, name))

    walk(type_name, (), ())
    return tuple(found)


def _drop(value: Any, steps: tuple[str, ...], where: str, dropped: list[str]) -> None:
    step, rest = steps[0], steps[1:]
    if step == "*":
        items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
        for key, item in items:
            _drop(item, rest, f"{where}[{key}]" if isinstance(value, list) else f"{where}.{key}", dropped)
    elif isinstance(value, dict) and step in value:
        path = f"{where}.{step}".lstrip(".")
        if rest:
            _drop(value[step], rest, path, dropped)
        else:
            del value[step]
            dropped.append(path)


def _one_line(error: Exception) -> str:
    return str(error).replace("\n", " ")[:300]


def normalize(type_name: str, obj: Any, kind: str, version: str) -> list[str]:
    """Drop nulls and unknown fields in place, as decoding into a struct would; return the unknown fields."""
    unknown: list[str] = []
    try:
        _walk_struct(types()[type_name], obj, "", unknown)
    except _Mismatch as error:
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: json: {error}') from None
    return unknown


class _Mismatch(Exception):
    pass


_FOUND = {str: "string", int: "number", float: "number", bool: "bool", list: "array", dict: "object"}


def _mismatch(value: Any, where: str, wanted: str) -> _Mismatch:
    found = _FOUND.get(type(value), "value")
    element = wanted.lstrip("[]{}")
    go = GO_NAMES.get(element, element)
    if go.count(".") >= 2:
        go = ".".join(go.split(".")[-2:])
    prefix = "[]" if wanted.startswith("[]") else "map[string]" if wanted.startswith("{}") else ""
    return _Mismatch(f"cannot unmarshal {found} into Go struct field {where.lstrip('.')} of type {prefix}{go}")


def _walk_struct(described: Type, obj: Any, where: str, unknown: list[str]) -> None:
    if not isinstance(obj, dict):
        raise _mismatch(obj, where or described.name.rsplit(".", 1)[1], described.name)
    for key in list(obj):
        value = obj[key]
        path = f"{where}.{key}"
        known = described.fields.get(key)
        if known is None:
            unknown.append(path[1:])
            del obj[key]
        elif value is None:
            del obj[key]
        else:
            _walk_value(known.type, value, path, unknown)


def _walk_value(name: str, value: Any, where: str, unknown: list[str]) -> None:
    if name[:2] == "[]":
        if not isinstance(value, list):
            raise _mismatch(value, where, name)
        value[:] = [_zero(name[2:]) if item is None else item for item in value]
        for i, item in enumerate(value):
            _walk_value(name[2:], item, f"{where}[{i}]", unknown)
    elif name[:2] == "{}":
        if not isinstance(value, dict):
            raise _mismatch(value, where, name)
        for key in value:
            if value[key] is None:
                value[key] = _zero(name[2:])
            _walk_value(name[2:], value[key], f"{where}.{key}", unknown)
    elif name in SCALARS:
        try:
            msgspec.convert(value, SCALARS[name])
        except msgspec.ValidationError:
            raise _mismatch(value, where, name) from None
    else:
        _walk_struct(types()[name], value, where, unknown)


def _zero(name: str) -> Any:
    """Return the value of a null inside a list or map: the type's zero value."""
    if name in ("string", "bytes", "time", "microtime"):
        return ""
    if name in ("int32", "int64", "double", "intstr", "quantity"):
        return 0
    if name == "bool":
        return False
    return [] if name[:2] == "[]" else {}
