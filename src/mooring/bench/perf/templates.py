"""Object templates: YAML with the little of Go's text/template that scheduler_perf files use.

``{{.Index}}`` counts the objects of a step from 0, ``{{.Count}}`` is how many the step makes, and a few functions
calculate with them: ``{{Mod .Index 12}}``, ``{{DivideInt 30000 .Count}}``, also nested in parentheses.
"""

from __future__ import annotations

import copy
import math
import operator
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mooring.api import yaml
from mooring.config.load import read_file
from mooring.controlplane.registry.catalog import by_group_kind
from mooring.controlplane.types import schema
from mooring.controlplane.types.kind import Kind
from mooring.errors import InputError

Object = dict[str, Any]
Number = int | float

_SAME_AS = {"resource.k8s.io/v1beta2": "resource.k8s.io/v1"}  # versions with the very same fields

_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")


def _divide_int(a: Number, b: Number) -> int:
    """Go's integers are cut towards zero, Python's towards minus infinity."""
    quotient = abs(int(a)) // abs(int(b))
    return quotient if (a < 0) == (b < 0) else -quotient


_FUNCTIONS: dict[str, Callable[[Number, Number], Number]] = {
    "Mod": lambda a, b: int(math.fmod(a, b)),
    "AddInt": lambda a, b: int(a) + int(b),
    "SubtractInt": lambda a, b: int(a) - int(b),
    "MultiplyInt": lambda a, b: int(a) * int(b),
    "DivideInt": _divide_int,
    "AddFloat": operator.add,
    "SubtractFloat": operator.sub,
    "MultiplyFloat": operator.mul,
    "DivideFloat": operator.truediv,
}


class Template:
    """One template, read once. ``render`` gives an object of the caller's own."""

    def __init__(self, text: str, source: str = "") -> None:
        self.source = source
        self._text = text
        self.is_static = _ACTION.search(text) is None
        self._fixed = self._parse(text) if self.is_static else None

    @classmethod
    def read(cls, path: Path) -> Template:
        return cls(read_file(path).decode("utf-8", "replace"), str(path))

    @classmethod
    def of(cls, obj: Object) -> Template:
        """A template that is the same for every index."""
        return cls(yaml.dump(obj), "default")

    def render(self, index: int = 0, count: int = 1) -> Object:
        if self._fixed is not None:
            return copy.deepcopy(self._fixed)
        return self._parse(render_text(self._text, index, count, self.source))

    def kind(self) -> Kind:
        """The kind of the objects that this makes."""
        return kind_of(self.render(), self.source)

    def _parse(self, text: str) -> Object:
        obj = yaml.load(text, self.source)
        if not isinstance(obj, dict) or not obj.get("kind"):
            raise InputError(f"{self.source}: no object in it; expected one with apiVersion and kind")
        obj["apiVersion"] = _SAME_AS.get(str(obj.get("apiVersion")), obj.get("apiVersion"))
        kind = by_group_kind(str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"]))
        return obj if kind is None else with_wire_names(kind.type_name, obj)


def kind_of(obj: Object, source: str = "") -> Kind:
    """The kind of an object; one that is not known is a mistake in the file that it comes from."""
    api_version, name = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
    kind = by_group_kind(api_version.rpartition("/")[0], name)
    if kind is None or kind.api_version != api_version:
        raise InputError(f"{source}: apiVersion {api_version!r}, kind {name!r}: no such kind is known here")
    return kind


def with_wire_names(type_name: str, value: Any) -> Any:
    """Spell field names as the API does: upstream reads them in any case, and some files rely on it."""
    if type_name[:2] == "[]":
        return [with_wire_names(type_name[2:], item) for item in value] if isinstance(value, list) else value
    if type_name[:2] == "{}":
        if not isinstance(value, dict):
            return value
        return {key: with_wire_names(type_name[2:], item) for key, item in value.items()}
    described = schema.types().get(type_name)
    if described is None or not isinstance(value, dict):
        return value
    by_lower = {name.lower(): field for name, field in described.fields.items()}
    found: Object = {}
    for key, item in value.items():
        field = described.fields.get(key) or by_lower.get(str(key).lower())
        found[key if field is None else field.name] = item if field is None else with_wire_names(field.type, item)
    return found


def render_text(text: str, index: int, count: int, source: str = "") -> str:
    """Replace every ``{{…}}``; a mistake in one names the file and the line."""

    def replace(match: re.Match[str]) -> str:
        try:
            return _write(_evaluate(match[1], {".Index": index, ".Count": count}))
        except (ValueError, ZeroDivisionError) as error:
            line = text.count("\n", 0, match.start()) + 1
            raise InputError(f"{source}: line {line}: {match[0]}: {error}") from None

    return _ACTION.sub(replace, text)


def _write(value: Number) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _evaluate(expression: str, fields: dict[str, int]) -> Number:
    tokens = iter(_TOKEN.findall(expression))
    return _call(tokens, fields, closing=False)


def _call(tokens: Iterator[str], fields: dict[str, int], *, closing: bool) -> Number:
    """A value, or a function with its arguments, up to the end or to the closing parenthesis."""
    function: str | None = None
    values: list[Number] = []
    is_closed = False
    for token in tokens:
        if token == ")":
            is_closed = True
            break
        if token == "(":
            values.append(_call(tokens, fields, closing=True))
        elif function is None and not values and token in _FUNCTIONS:
            function = token
        else:
            values.append(_operand(token, fields))
    if is_closed != closing:
        raise ValueError("parentheses do not match")
    if function is None:
        if len(values) != 1:
            raise ValueError("expected one value")
        return values[0]
    if len(values) != 2:
        raise ValueError(f"{function} takes two values, found {len(values)}")
    return _FUNCTIONS[function](values[0], values[1])


def _operand(token: str, fields: dict[str, int]) -> Number:
    if token in fields:
        return fields[token]
    try:
        return int(token)
    except ValueError:
        pass
    try:
        return float(token)
    except ValueError:
        known = ", ".join([*fields, *_FUNCTIONS])
        raise ValueError(f"{token!r} is not known; there are {known}") from None
