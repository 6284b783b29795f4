"""Fields of steps in a scenario file: only known ones, of the right type, and a clear line for each mistake."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mooring.config.duration import parse_seconds
from mooring.errors import InputError, ParseError
from mooring.meant import hint

DAY_S = 24 * 3600.0
MAX_SECONDS = 10 * 365 * DAY_S


def fields_of(value: Any, known: set[str], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a step; an unknown or a missing one is a mistake."""
    if not isinstance(value, Mapping):
        raise InputError(f"expected a mapping with {', '.join(sorted(known))}, found {described(value)}")
    for name in value:
        if name not in known:
            raise InputError(f"unknown field {name!r}; {hint(name, sorted(known))}")
    for name in required:
        if name not in value:
            raise InputError(f"{name} is missing")
    return dict(value)


def seconds(value: Any, name: str = "") -> float:
    """A duration: ``30s``, ``5m``, ``7d``, or a number of seconds. ``name`` is what a mistake is told of."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        found = float(value) if is_number else _parsed(str(value).strip())
    except (ParseError, OverflowError):
        found = -1.0
    if not (math.isfinite(found) and 0 <= found <= MAX_SECONDS):
        right = (
            f"at most {MAX_SECONDS / DAY_S:.0f}d" if MAX_SECONDS < found < math.inf else "a duration such as 30s or 5m"
        )
        raise InputError(f"{name}{': ' if name else ''}expected {right}, found {value!r}")
    return found


def _parsed(text: str) -> float:
    """As Kubernetes writes durations, and whole days."""
    days = text.removesuffix("d")
    return int(days) * DAY_S if days != text and days.isdecimal() and len(days) < 20 else parse_seconds(text)


def whole_number(value: Any, name: str, *, least: int = 0, most: int = 1_000_000) -> int:
    """A count; texts such as ``"3"`` are understood."""
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20 else value
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise InputError(f"{name}: expected a whole number from {least} to {most}, found {described(value)}")
    return number


def truth(value: Any, name: str) -> bool:
    """True or false, also as a text, which a parameter may be; nothing stands for false."""
    if value is None:
        return False
    found = {"true": True, "false": False}.get(value) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise InputError(f"{name}: expected true or false, found {described(value)}")
    return found


def texts(value: Any, name: str) -> list[str]:
    """A list of texts; a single text is a list of one."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str | int) for each in value):
        raise InputError(f"{name}: expected a list of texts, found {described(value)}")
    return [str(each) for each in value]


def mapping(value: Any, name: str) -> dict[str, Any]:
    """A mapping, its keys as texts; nothing stands for an empty one."""
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"{name}: expected a mapping, found {described(value)}")
    return {str(key): each for key, each in (value or {}).items()}


def described(value: Any) -> str:
    """What was found, for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return f"a mapping with {', '.join(map(str, value)) or 'no fields'}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    return repr(value)[:60]
