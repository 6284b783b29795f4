"""Strict decoding: a plain JSON value into a configuration struct, with every mistake and its path.

msgspec stops at the first mistake; a person who mends a configuration wants to see all of them. Unknown fields
are collected apart from wrong types, because upstream words them as ``unknown field "profiles[0].foo"``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import types
import typing
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar, Union

import msgspec

from mooring.api.errors import ParseError

# --------------------------------------------------------------------------------------------------------------------
# Go's duration text, such as ``1m30s``, to seconds and back.

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LARGEST = 2**63  # Go counts nanoseconds in an int64
_BARE = re.compile(r"\d+(\.\d*)?", re.ASCII)
_PART = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]*)", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds that a Go duration such as ``5m0s`` or ``1.5h`` stands for."""
    return parse_nanoseconds(text) / 1e9


def parse_seconds(text: str) -> float:
    """Return the seconds of a duration that is not negative; a bare number counts seconds."""
    seconds = parse_duration(f"{text}s" if _BARE.fullmatch(text) else text)
    if seconds < 0:
        raise ParseError(f'time: negative duration "{text}"')
    return seconds


def parse_nanoseconds(text: str) -> int:
    """Return the nanoseconds of a Go duration, with the errors that Go's parser gives."""
    rest = text
    sign = 1
    if rest[:1] in ("+", "-"):
        sign = -1 if rest[0] == "-" else 1
        rest = rest[1:]
    if rest == "0":
        return 0
    if not rest or len(text) > 100:
        raise ParseError(f'time: invalid duration "{text[:100]}"')
    total = 0
    at = 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            raise ParseError(f'time: invalid duration "{text}"')
        number, unit = part.groups()
        if not unit:
            raise ParseError(f'time: missing unit in duration "{text}"')
        if unit not in _NANOSECONDS:
            raise ParseError(f'time: unknown unit "{unit}" in duration "{text}"')
        total += int(Fraction(Decimal(number)) * _NANOSECONDS[unit])
        at = part.end()
    if total > (_LARGEST if sign < 0 else _LARGEST - 1):
        raise ParseError(f'time: invalid duration "{text}"')
    return sign * total


def format_duration(seconds: float) -> str:
    """Return the text Go prints for this many seconds: ``0s``, ``1.5ms``, ``10m0s``."""
    nanoseconds = round(seconds * 1e9)
    sign = "-" if nanoseconds < 0 else ""
    left = abs(nanoseconds)
    if left == 0:
        return "0s"
    for unit in ("ns", "µs", "ms"):
        if left < _NANOSECONDS[unit] * 1_000:
            return f"{sign}{_fraction(left, _NANOSECONDS[unit])}{unit}"
    hours, left = divmod(left, _NANOSECONDS["h"])
    minutes, left = divmod(left, _NANOSECONDS["m"])
    text = f"{_fraction(left, _NANOSECONDS['s'])}s"
    if hours:
        text = f"{hours}h{minutes}m{text}"
    elif minutes:
        text = f"{minutes}m{text}"
    return sign + text


def _fraction(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"


T = TypeVar("T")

_FAILED: Any = object()  # stands for a value that was not understood and has been reported
_FIELDS: dict[type[Any], dict[str, tuple[str, Any]]] = {}  # by struct type: wire name to attribute and type


class Mistakes:
    """What was found wrong in one document."""

    def __init__(self) -> None:
        self.unknown: list[str] = []  # paths of fields that do not exist
        self.wrong: list[str] = []  # full messages

    def __bool__(self) -> bool:
        return bool(self.unknown or self.wrong)


def decode(kind: type[T], value: Any, path: str, mistakes: Mistakes, *, ignore: frozenset[str] = frozenset()) -> T:
    """Return ``value`` as a ``kind``; what is wrong with it goes to ``mistakes`` and is left at its default.

    ``ignore`` names fields of the outermost object that are known but not kept, such as ``apiVersion``.
    """
    if not isinstance(value, dict):
        _expected("an object", value, path, mistakes)
        return kind()
    fields = _fields(kind)
    known: dict[str, Any] = {}
    for key, item in value.items():
        if key in fields:
            if item is None:  # null leaves a field alone, as in Go
                continue
            name, hint = fields[key]
            decoded = _value(hint, item, _child(path, key), mistakes)
            if decoded is not _FAILED:
                known[name] = decoded
        elif key not in ignore:
            mistakes.unknown.append(_child(path, key))
    return kind(**known)


def _fields(kind: type[Any]) -> dict[str, tuple[str, Any]]:
    known = _FIELDS.get(kind)
    if known is None:
        hints = typing.get_type_hints(kind, include_extras=True)
        known = {field.encode_name: (field.name, hints[field.name]) for field in msgspec.structs.fields(kind)}
        _FIELDS[kind] = known
    return known


def _value(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return _value(options[0], value, path, mistakes)
    if origin is typing.Annotated:
        return _annotated(hint, value, path, mistakes)
    if origin is list:
        return _list(typing.get_args(hint)[0], value, path, mistakes)
    if origin is dict:
        return _dict(typing.get_args(hint)[1], value, path, mistakes)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return decode(hint, value, path, mistakes)
    if hint is Any:
        return value
    return _scalar(hint, value, path, mistakes)


def _annotated(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    base, *notes = typing.get_args(hint)
    for note in notes:
        if isinstance(note, msgspec.Meta):
            if note.extra and note.extra.get("wire") == "duration":
                return _duration(value, path, mistakes)
            if base is int:
                return _integer(note, value, path, mistakes)
    return _value(base, value, path, mistakes)


def _integer(limits: msgspec.Meta, value: Any, path: str, mistakes: Mistakes) -> Any:
    number = _scalar(int, value, path, mistakes)
    low, high = limits.ge, limits.le
    if isinstance(number, int) and low is not None and high is not None and not low <= number <= high:
        bits = 32 if high < 2**31 else 64
        mistakes.wrong.append(f"{path}: Invalid value: {number}: does not fit a {bits}-bit integer")
        return _FAILED
    return number


def _list(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    if not isinstance(value, list):
        return _expected("a list", value, path, mistakes)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        value = [{} if item is None else item for item in value]  # null is the zero object, as in Go
    items = [_value(hint, item, f"{path}[{i}]", mistakes) for i, item in enumerate(value)]
    return _FAILED if _FAILED in items else items


def _dict(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    if not isinstance(value, dict):
        return _expected("an object", value, path, mistakes)
    items = {key: _value(hint, item, _child(path, key), mistakes) for key, item in value.items()}
    return _FAILED if _FAILED in items.values() else items


def _scalar(hint: Any, value: Any, path: str, mistakes: Mistakes) -> Any:
    if hint is str:
        return value if isinstance(value, str) else _expected("a string", value, path, mistakes)
    if hint is bool:
        return value if isinstance(value, bool) else _expected("true or false", value, path, mistakes)
    if hint is bytes:
        return _bytes(value, path, mistakes)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _expected("an integer" if hint is int else "a number", value, path, mistakes)
    if hint is float:
        try:
            return float(value)
        except OverflowError:
            return _expected("a number", "a far larger one", path, mistakes)
    if isinstance(value, float):
        # YAML's 1e3 is a float that is an integer.
        return int(value) if value.is_integer() else _expected("an integer", value, path, mistakes)
    return value


def _bytes(value: Any, path: str, mistakes: Mistakes) -> Any:
    # Never quoted back: this is where keys and certificates are.
    if isinstance(value, str):
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            pass
    mistakes.wrong.append(f"{path}: Invalid value: expected base64 text")
    return _FAILED


def _duration(value: Any, path: str, mistakes: Mistakes) -> Any:
    if not isinstance(value, str):
        return _expected('a duration in quotes such as "15s" or "1m30s"', value, path, mistakes)
    try:
        return parse_duration(value)
    except ParseError as e:
        mistakes.wrong.append(f'{path}: Invalid value: {json.dumps(value)}: {e}; expected one such as "15s" or "1m30s"')
        return _FAILED


def _expected(what: str, value: Any, path: str, mistakes: Mistakes) -> Any:
    mistakes.wrong.append(f"{path or 'document'}: Invalid value: {show(value)}: expected {what}")
    return _FAILED


def show(value: Any) -> str:
    """Return a value for an error message: JSON, cut short."""
    text = json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    return text if len(text) <= 80 else text[:77] + "…"


def _child(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# --------------------------------------------------------------------------------------------------------------------
# The words of Kubernetes' field errors, and the rules for names that they report on.

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


class DurationValue(float):
    """Seconds to be shown as Go shows a metav1.Duration."""


def invalid(path: str, value: Any, detail: str) -> str:
    return f"{path}: Invalid value: {_show(value)}: {detail}"


def duplicate(path: str, value: Any) -> str:
    return f"{path}: Duplicate value: {_show(value)}"


def required(path: str, detail: str = "") -> str:
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    allowed = ", ".join(json.dumps(one) for one in supported)
    return f"{path}: Unsupported value: {_show(value)}: supported values: {allowed}"


def qualified_name(name: str) -> list[str]:
    """Return what keeps ``name`` from being a label key or resource name: ``[prefix/]name``."""
    prefix, slash, bare = name.rpartition("/")
    mistakes = []
    if "/" in prefix:
        return [
            "a qualified name "
            + _regex(_NAME_HINT, "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", "MyName", "my.name", "123-abc")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash:
        if not prefix:
            mistakes.append("prefix part must be non-empty")
        else:
            mistakes += [f"prefix part {mistake}" for mistake in _subdomain(prefix)]
    if not bare:
        mistakes.append("name part must be non-empty")
    elif len(bare) > 63:
        mistakes.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(bare):
        mistakes.append(
            "name part "
            + _regex(_NAME_HINT, "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", "MyName", "my.name", "123-abc")
        )
    return mistakes


def label_value(value: str) -> list[str]:
    """Return what keeps ``value`` from being a label's value."""
    mistakes = []
    if len(value) > 63:
        mistakes.append("must be no more than 63 bytes")
    if not _LABEL_VALUE.fullmatch(value):
        mistakes.append(
            _regex(
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
                "and must start and end with an alphanumeric character",
                "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
                "MyValue",
                "my_value",
                "12345",
            )
        )
    return mistakes


_NAME_HINT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def _subdomain(text: str) -> list[str]:
    mistakes = []
    if len(text) > 253:
        mistakes.append("must be no more than 253 bytes")
    if not _SUBDOMAIN.fullmatch(text):
        mistakes.append(
            _regex(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
                "and must start and end with an alphanumeric character",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
                "example.com",
            )
        )
    return mistakes


def _regex(message: str, pattern: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{message} (e.g. {shown}, regex used for validation is '{pattern}')"


def _show(value: Any) -> str:
    if isinstance(value, DurationValue):
        return json.dumps(format_duration(value))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= 200 else text[:197] + "…"
