"""Semantic versions 2.0.0: strict parsing, and an ordering that ignores build metadata."""

from __future__ import annotations

import re
from typing import NamedTuple

from mooring.errors import ParseError

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
        """-1, 0 or 1; a prerelease comes before its release."""
        mine, theirs = self[:3], other[:3]
        if mine != theirs:
            return 1 if mine > theirs else -1
        if not self.prerelease or not other.prerelease:
            return bool(other.prerelease) - bool(self.prerelease)
        a, b = [_rank(p) for p in self.prerelease], [_rank(p) for p in other.prerelease]
        return (a > b) - (a < b)


def _rank(identifier: str) -> tuple[bool, int, str]:
    """Numbers sort before words and by value."""
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
    """Read ``major.minor.patch[-prerelease][+build]``."""
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
        return text  # 1.0-alpha is not a short form of anything
    return ".".join(numbers + ["0"] * (3 - len(numbers))) + rest
