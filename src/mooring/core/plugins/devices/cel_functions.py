"""Kubernetes' CEL functions: quantities, semantic versions, strings and lists.

The CEL runtime has no such types, so a quantity or a version is represented as a map with one entry whose value is
canonical text: equal values are equal maps.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from mooring.api.errors import ParseError
from mooring.api.quantity import parse_quantity

# ---- semantic versions 2.0.0: strict parsing, and an ordering that ignores build metadata --------------------------

_NUMBER = re.compile(r"[0-9]+\Z")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+\Z")


class Version(NamedTuple):
    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...]

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{'.'.join(self.prerelease)}" if self.prerelease else text

    def compare(self, other: Version) -> int:
        """Return -1, 0 or 1; a prerelease comes before its release."""
        mine, theirs = self[:3], other[:3]
        if mine != theirs:
            return 1 if mine > theirs else -1
        if not self.prerelease or not other.prerelease:
            return bool(other.prerelease) - bool(self.prerelease)
        a, b = [_rank(p) for p in self.prerelease], [_rank(p) for p in other.prerelease]
        return (a > b) - (a < b)


def _rank(identifier: str) -> tuple[bool, int, str]:
    """Sort numbers before words and by value."""
    if _NUMBER.match(identifier):
        return (False, int(identifier), "")
    return (True, 0, identifier)


def _number(text: str, what: str) -> int:
    if not _NUMBER.match(text):
        raise ParseError(f'Invalid character(s) found in {what.lower()} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise ParseError(f'{what} number must not contain leading zeroes "{text}"')
    return int(text)


def parse_version(text: str) -> Version:
    """Parse ``major.minor.patch[-prerelease][+build]``."""
    if not text:
        raise ParseError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ParseError("No Major.Minor.Patch elements found")
    patch, _, build = parts[2].partition("+")
    patch, dash, prerelease = patch.partition("-")
    for identifier in build.split(".") if "+" in parts[2] else ():
        if not _IDENTIFIER.match(identifier):
            raise ParseError(f'Invalid character(s) found in build meta data "{identifier}"')
    identifiers = tuple(prerelease.split(".")) if dash else ()
    for identifier in identifiers:
        if not identifier:
            raise ParseError("Prerelease is empty")
        if not _IDENTIFIER.match(identifier):
            raise ParseError(f'Invalid character(s) found in prerelease "{identifier}"')
        if _NUMBER.match(identifier) and len(identifier) > 1 and identifier[0] == "0":
            raise ParseError(f'Numeric PreRelease version must not contain leading zeroes "{identifier}"')
    return Version(_number(parts[0], "Major"), _number(parts[1], "Minor"), _number(patch, "Patch"), identifiers)


def normalize_version(text: str) -> str:
    """Drop a leading ``v`` and leading zeroes, and fill in a missing minor or patch number."""
    text = text.removeprefix("v")
    core_length = next((i for i, char in enumerate(text) if char in "-+"), len(text))
    core, rest = text[:core_length], text[core_length:]
    numbers = [number.lstrip("0") or "0" if _NUMBER.match(number) else number for number in core.split(".")]
    if len(numbers) < 3 and rest:
        return text  # 1.0-alpha is no short form
    return ".".join(numbers + ["0"] * (3 - len(numbers))) + rest


QUANTITY, SEMVER = "kubernetes.Quantity", "kubernetes.Semver"
COST_LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"
MAX_CHARACTERS = 10_000_000  # a cost of 1,000,000 at a tenth per character, as upstream charges

Encoded = dict[str, str]


class CelFunctionError(Exception):
    """Becomes the error value of the expression."""


class CelBudget:
    """Budget of one evaluation for building strings and lists."""

    def __init__(self) -> None:
        self.left = MAX_CHARACTERS

    def reset(self) -> None:
        self.left = MAX_CHARACTERS

    def spend(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise CelFunctionError(COST_LIMIT_EXCEEDED)


def encode_quantity(value: Fraction) -> Encoded:
    return {QUANTITY: str(value)}


@lru_cache(maxsize=4096)
def _parse_quantity(text: str) -> Fraction:
    try:
        return parse_quantity(text)
    except ParseError:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise CelFunctionError(f"quantities must match the regular expression '{pattern}'") from None


@lru_cache(maxsize=4096)
def _parse_version(text: str) -> Version:
    try:
        return parse_version(text)
    except ParseError as error:
        raise CelFunctionError(str(error)) from None


def encode_version(text: str) -> Encoded:
    return {SEMVER: str(_parse_version(text))}


@lru_cache(maxsize=4096)
def _fraction(text: str) -> Fraction:
    return Fraction(text)


def _no_overload() -> CelFunctionError:
    return CelFunctionError("no such overload")


def _quantity(value: Any) -> Fraction:
    if not isinstance(value, dict) or QUANTITY not in value:
        raise _no_overload()
    return _fraction(value[QUANTITY])


def _version(value: Any) -> Version:
    if not isinstance(value, dict) or SEMVER not in value:
        raise _no_overload()
    return _parse_version(value[SEMVER])


def _compare(a: Any, b: Any) -> int:
    if isinstance(a, dict) and SEMVER in a:
        return _version(a).compare(_version(b))
    x, y = _quantity(a), _quantity(b)
    return (x > y) - (x < y)


def _is_quantity(text: str) -> bool:
    try:
        _parse_quantity(text)
    except CelFunctionError:
        return False
    return True


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _parse_version(normalize_version(text) if normalize else text)
    except CelFunctionError:
        return False
    return True


def _fits_int64(value: Fraction) -> bool:
    return value.denominator == 1 and -(1 << 63) <= value < 1 << 63


def _as_integer(value: Any) -> int:
    number = _quantity(value)
    if not _fits_int64(number):
        raise CelFunctionError("cannot convert value to integer")
    return int(number)


def _sign(value: Any) -> int:
    number = _quantity(value)
    return (number > 0) - (number < 0)


def _is_sorted(items: list[Any]) -> bool:
    pairs = itertools.pairwise(items)
    if items and isinstance(items[0], dict):
        return all(_compare(a, b) <= 0 for a, b in pairs)
    return all(a <= b for a, b in pairs)


def _extreme(name: str, pick: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def find(items: list[Any]) -> Any:
        if not items:
            raise CelFunctionError(f"{name} called on empty list")
        return pick(items)

    return find


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((i for i, item in enumerate(items) if item == wanted), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((i for i in range(len(items) - 1, -1, -1) if items[i] == wanted), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelFunctionError(f"{call}, negative indexes not supported")
    if start > end:
        raise CelFunctionError(f"{call}, start index must be less than or equal to end index")
    if len(items) < end:
        raise CelFunctionError(f"{call}, list is length {len(items)}")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelFunctionError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth:
            flat += _flatten(item, depth - 1)
        else:
            flat.append(item)
    return flat


def _sort(items: list[Any]) -> list[Any]:
    kinds = {type(item) for item in items}
    if len(kinds) > 1:
        raise CelFunctionError("list elements must have the same type")
    if kinds & {list, dict, type(None)}:
        raise CelFunctionError("list elements must be comparable")
    return sorted(items)


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelFunctionError(f"index out of range: {index}")
    return text[index : index + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    for index in (start, stop):
        if not 0 <= index <= len(text):
            raise CelFunctionError(f"index out of range: {index}")
    if start > stop:
        raise CelFunctionError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


def _ascii(text: str, change: Callable[[str], str]) -> str:
    return "".join(change(char) if char.isascii() else char for char in text)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator == "":
        characters = list(text)
        return characters if limit < 0 else [*characters[: limit - 1], text[limit - 1 :]]
    return text.split(separator, -1 if limit < 0 else limit - 1)


class CelFunction(msgspec.Struct, frozen=True):
    """One overload: types are spelled bool, int, double, string, list, dyn, quantity or semver."""

    name: str
    parameters: Sequence[str]
    result: str
    call: Callable[..., Any]
    is_member: bool = True


def functions(budget: CelBudget) -> list[CelFunction]:
    """Return all functions; they charge what they build to ``budget``."""

    def replace(text: str, old: str, new: str, count: int = -1) -> str:
        hits = text.count(old)
        budget.spend(len(text) + (hits if count < 0 else min(hits, count)) * len(new))
        return text.replace(old, new, count)

    def join(items: list[str], separator: str = "") -> str:
        if not all(isinstance(item, str) for item in items):
            raise _no_overload()
        budget.spend(sum(map(len, items)) + len(items) * len(separator))
        return separator.join(items)

    def numbers(count: int) -> list[int]:
        budget.spend(max(count, 0))
        return list(range(count))

    def distinct(items: list[Any]) -> list[Any]:
        found: list[Any] = []
        for item in items:
            budget.spend(len(found))
            if item not in found:
                found.append(item)
        return found

    f = CelFunction
    return [
        f("quantity", ["string"], "quantity", lambda s: encode_quantity(_parse_quantity(s)), is_member=False),
        f("isQuantity", ["string"], "bool", _is_quantity, is_member=False),
        f("isLessThan", ["quantity", "quantity"], "bool", lambda a, b: _compare(a, b) < 0),
        f("isGreaterThan", ["quantity", "quantity"], "bool", lambda a, b: _compare(a, b) > 0),
        f("compareTo", ["quantity", "quantity"], "int", _compare),
        f("sign", ["quantity"], "int", _sign),
        f("isInteger", ["quantity"], "bool", lambda q: _fits_int64(_quantity(q))),
        f("asInteger", ["quantity"], "int", _as_integer),
        f("asApproximateFloat", ["quantity"], "double", lambda q: float(_quantity(q))),
        f("add", ["quantity", "quantity"], "quantity", lambda a, b: encode_quantity(_quantity(a) + _quantity(b))),
        f("add", ["quantity", "int"], "quantity", lambda a, b: encode_quantity(_quantity(a) + b)),
        f("sub", ["quantity", "quantity"], "quantity", lambda a, b: encode_quantity(_quantity(a) - _quantity(b))),
        f("sub", ["quantity", "int"], "quantity", lambda a, b: encode_quantity(_quantity(a) - b)),
        f("semver", ["string"], "semver", encode_version, is_member=False),
        f(
            "semver",
            ["string", "bool"],
            "semver",
            lambda s, normalize: encode_version(normalize_version(s) if normalize else s),
            is_member=False,
        ),
        f("isSemver", ["string"], "bool", _is_semver, is_member=False),
        f("isSemver", ["string", "bool"], "bool", _is_semver, is_member=False),
        f("isLessThan", ["semver", "semver"], "bool", lambda a, b: _compare(a, b) < 0),
        f("isGreaterThan", ["semver", "semver"], "bool", lambda a, b: _compare(a, b) > 0),
        f("compareTo", ["semver", "semver"], "int", _compare),
        f("major", ["semver"], "int", lambda v: _version(v).major),
        f("minor", ["semver"], "int", lambda v: _version(v).minor),
        f("patch", ["semver"], "int", lambda v: _version(v).patch),
        f("isSorted", ["list"], "bool", _is_sorted),
        f("sum", ["list"], "dyn", sum),
        f("min", ["list"], "dyn", _extreme("min", min)),
        f("max", ["list"], "dyn", _extreme("max", max)),
        f("indexOf", ["list", "dyn"], "int", _index_of),
        f("lastIndexOf", ["list", "dyn"], "int", _last_index_of),
        f("lists.range", ["int"], "list", numbers, is_member=False),
        f("slice", ["list", "int", "int"], "list", _slice),
        f("flatten", ["list"], "list", _flatten),
        f("flatten", ["list", "int"], "list", _flatten),
        f("sort", ["list"], "list", _sort),
        f("distinct", ["list"], "list", distinct),
        f("reverse", ["list"], "list", lambda items: items[::-1]),
        f("sets.contains", ["list", "list"], "bool", lambda a, b: all(x in a for x in b), is_member=False),
        f(
            "sets.equivalent",
            ["list", "list"],
            "bool",
            lambda a, b: all(x in a for x in b) and all(x in b for x in a),
            is_member=False,
        ),
        f("sets.intersects", ["list", "list"], "bool", lambda a, b: any(x in a for x in b), is_member=False),
        f("charAt", ["string", "int"], "string", _char_at),
        f("indexOf", ["string", "string"], "int", lambda text, part: text.find(part)),
        f("indexOf", ["string", "string", "int"], "int", lambda text, part, start: text.find(part, start)),
        f("lastIndexOf", ["string", "string"], "int", lambda text, part: text.rfind(part)),
        f("lastIndexOf", ["string", "string", "int"], "int", lambda t, part, end: t.rfind(part, 0, end + len(part))),
        f("join", ["list"], "string", join),
        f("join", ["list", "string"], "string", join),
        f("lowerAscii", ["string"], "string", lambda text: _ascii(text, str.lower)),
        f("upperAscii", ["string"], "string", lambda text: _ascii(text, str.upper)),
        f("replace", ["string", "string", "string"], "string", replace),
        f("replace", ["string", "string", "string", "int"], "string", replace),
        f("split", ["string", "string"], "list", _split),
        f("split", ["string", "string", "int"], "list", _split),
        f("substring", ["string", "int"], "string", _substring),
        f("substring", ["string", "int", "int"], "string", _substring),
        f("trim", ["string"], "string", lambda text: text.strip()),
    ]
