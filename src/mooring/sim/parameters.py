"""Parameters of a scenario file: declared in it with defaults, set from outside, put in where ``${name}`` stands.

```yaml
parameters:
  nodes: 100                                           # a default
  policy: {default: spread, choices: [spread, pack]}   # only these
  pods: {help: a CSV file with the pods}               # no default: it has to be set
steps:
- nodes: {count: "${nodes}"}
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mooring.api import yaml
from mooring.errors import InputError, MooringError, UsageError
from mooring.meant import hint
from mooring.sim.step_fields import described, fields_of, mapping, texts

_NAME = re.compile(r"[A-Za-z][\w-]*")
SEED = "${seed}"  # in the configuration of the scheduler: known when the story is played
_PLACE = re.compile(r"\$\{([^}]*)\}")


def parameter_values(declared: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every parameter: what was given, or its default."""
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
    """A text from the command line as the type that the default has."""
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
    """The same with every ``${name}`` replaced. A text that is nothing but one place becomes the value itself."""
    if isinstance(value, str):
        return _in_text(value, values) if "${" in value else value
    if isinstance(value, Mapping):
        return {substituted(key, values): substituted(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [substituted(each, values) for each in value]
    return value


def with_seed(value: Any, seed: int) -> Any:
    """The same with the seed where ``${seed}`` stands alone."""
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
    """``NAME=VALUE`` of a command line, as a mapping."""
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--set: expected NAME=VALUE, found {described(item)}")
        found[name] = value
    return found
