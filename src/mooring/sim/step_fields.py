"""Fields of steps in a scenario file: checks of names and types, with a one-line error for each mistake."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from mooring.api import yaml
from mooring.api.errors import InputError, MooringError, ParseError, UsageError
from mooring.api.text import hint
from mooring.api.times import parse_seconds

DAY_S = 24 * 3600.0
MAX_SECONDS = 10 * 365 * DAY_S


def fields_of(value: Any, known: set[str], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fields of a step; an unknown or missing one is a mistake."""
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
    """Parse a duration: ``30s``, ``5m``, ``7d``, or a number of seconds. ``name`` is used in error messages."""
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
    """Parse a duration as Kubernetes writes it, or whole days."""
    days = text.removesuffix("d")
    return int(days) * DAY_S if days != text and days.isdecimal() and len(days) < 20 else parse_seconds(text)


def whole_number(value: Any, name: str, *, least: int = 0, most: int = 1_000_000) -> int:
    """Parse a count; texts such as ``"3"`` are accepted."""
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20 else value
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise InputError(f"{name}: expected a whole number from {least} to {most}, found {described(value)}")
    return number


def truth(value: Any, name: str) -> bool:
    """Parse true or false, also as a parameter's text; null means false."""
    if value is None:
        return False
    found = {"true": True, "false": False}.get(value) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise InputError(f"{name}: expected true or false, found {described(value)}")
    return found


def texts(value: Any, name: str) -> list[str]:
    """Return a list of texts; a single text becomes a list."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str | int) for each in value):
        raise InputError(f"{name}: expected a list of strings, found {described(value)}")
    return [str(each) for each in value]


def mapping(value: Any, name: str) -> dict[str, Any]:
    """Return a mapping with texts as keys; null means an empty one."""
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"{name}: expected a mapping, found {described(value)}")
    return {str(key): each for key, each in (value or {}).items()}


def described(value: Any) -> str:
    """Describe a value for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return f"a mapping with {', '.join(map(str, value)) or 'no fields'}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    return repr(value)[:60]


# --------------------------------------------------------------------------------------------------------------------
# Parameters of a scenario file: declared in it with defaults, set from outside, substituted for ``${name}``.

_NAME = re.compile(r"[A-Za-z][\w-]*")
SEED = "${seed}"  # in the configuration of the scheduler: known when the story is played
_PLACE = re.compile(r"\$\{([^}]*)\}")


def parameter_values(declared: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every parameter: the given one, or its default."""
    known = {name: _declaration(name, each) for name, each in mapping(declared, "parameters").items()}
    for name in given:
        if name not in known:
            raise UsageError(f"no parameter {name!r}; {hint(name, known)}")
    values: dict[str, Any] = {}
    for name, declaration in known.items():
        if name in given:
            values[name] = _converted(name, given[name], declaration.get("default"))
        elif "default" in declaration:
            values[name] = declaration["default"]
        else:
            help_text = f" ({declaration['help']})" if declaration.get("help") else ""
            raise UsageError(f"parameter {name!r} has no value; give one with --set {name}=…{help_text}")
        choices = texts(declaration.get("choices", []), "choices")
        if choices and str(values[name]) not in choices:
            raise UsageError(f"parameter {name!r}: found {str(values[name])!r}; {hint(str(values[name]), choices)}")
    return values


def _declaration(name: str, value: Any) -> dict[str, Any]:
    if not _NAME.fullmatch(name):
        raise InputError(f"parameters: a name is letters, digits, - and _, found {name!r}")
    if not isinstance(value, Mapping):
        return {"default": value}
    return fields_of(value, {"default", "choices", "help"})


def _converted(name: str, given: Any, default: Any) -> Any:
    """Convert a text from the command line to the type of the default."""
    if not isinstance(given, str) or default is None or isinstance(default, str):
        return given
    try:
        value = yaml.load(given, name)
    except MooringError:
        value = given
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    wanted: tuple[type, ...] = (int, float) if is_number else (type(default),)
    if not isinstance(value, wanted) or isinstance(value, bool) != isinstance(default, bool):
        raise UsageError(f"parameter {name!r}: expected something like {default!r}, found {given!r}")
    return value


def substituted(value: Any, values: Mapping[str, Any]) -> Any:
    """Replace every ``${name}``. A text that is only one placeholder becomes the value itself."""
    if isinstance(value, str):
        return _in_text(value, values) if "${" in value else value
    if isinstance(value, Mapping):
        return {substituted(key, values): substituted(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [substituted(each, values) for each in value]
    return value


def with_seed(value: Any, seed: int) -> Any:
    """Replace ``${seed}`` where it is a whole text."""
    if isinstance(value, Mapping):
        return {key: with_seed(each, seed) for key, each in value.items()}
    if isinstance(value, list):
        return [with_seed(each, seed) for each in value]
    return seed if value == SEED else value


def _in_text(text: str, values: Mapping[str, Any]) -> Any:
    def at(match: re.Match[str]) -> Any:
        name = match[1].strip()
        if name not in values:
            raise InputError(f"{match[0]}: no parameter {name!r}; {hint(name, values)}")
        return values[name]

    whole = _PLACE.fullmatch(text)
    return at(whole) if whole else _PLACE.sub(lambda match: str(at(match)), text)


def parse_settings(items: tuple[str, ...]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` of a command line."""
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--set: expected NAME=VALUE, found {described(item)}")
        found[name] = value
    return found
