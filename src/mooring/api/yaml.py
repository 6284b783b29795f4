"""YAML as kubectl reads and writes it.

PyYAML's own rules turn ``2001-01-01`` into a date and ``12:30`` into a base-60 number, and read ``1e3`` as a string.
Kubernetes users mean a string, a string and a number. Depth and the expansion of aliases are bounded: no text can crash
the process, or keep it busy for long.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, TypeAlias

import yaml

from mooring.api.errors import InputError

_MAX_ALIASED = 400_000  # values that following aliases may add; without them a text has fewer values than letters
_MAX_DEPTH = 200
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
_FALSE = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_INT = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]*|[1-9][0-9_]*)")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_NUMERIC_START = frozenset("-+.0123456789")


Lines: TypeAlias = dict[tuple[str | int, ...], int]
"""The line of every field and list entry of a document, by its path; the content of an alias has no lines."""


class Document(NamedTuple):
    """One document of a stream; ``duplicates`` lists keys that were written twice (the last one counts)."""

    value: Any
    duplicates: tuple[str, ...]
    line: int
    lines: Lines | None = None  # only if requested


GZIP = b"\x1f\x8b"
"""How a file begins that gzip made."""


def load_documents(text: str | bytes, source: str = "", *, lines: bool = False) -> list[Document]:
    """Return the documents of a YAML or JSON text, leaving out empty ones; ``source`` names it in errors.

    With ``lines`` every document has the lines of its fields, which takes longer for JSON.
    """
    where = f"{source}: " if source else ""
    if text[:2] == GZIP:
        raise InputError(f"{where}compressed with gzip; expected YAML or JSON: decompress it first")
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    except UnicodeDecodeError as e:
        raise InputError(f"{where}not UTF-8 text (byte {e.start}); expected YAML or JSON") from None
    if decoded.lstrip()[:1] in ("{", "["):
        as_json = load_json(decoded)
        if as_json is not None:
            return _with_lines(as_json, decoded) if lines else [as_json]
    try:
        return _Reader(decoded, where, lines=lines).documents()
    except yaml.YAMLError as e:
        raise InputError(f"{where}{_describe(e)}") from None


def load_all(text: str | bytes, source: str = "") -> list[Any]:
    """Return the values of all documents, as ``kubectl -f`` would read them."""
    return [document.value for document in load_documents(text, source)]


def load(text: str | bytes, source: str = "") -> Any:
    """Return the value of the only document; None if there is none."""
    documents = load_documents(text, source)
    if len(documents) > 1:
        where = f"{source}: " if source else ""
        raise InputError(f"{where}line {documents[1].line}: a second document starts here; expected only one")
    return documents[0].value if documents else None


def dump(value: Any, *, sort_keys: bool = True) -> str:
    """Return YAML as kubectl prints it: block style, keys sorted, lists not indented."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=False, sort_keys=sort_keys, allow_unicode=True, width=2**30
    )
    return text


def dump_line(value: Any) -> str:
    """Return YAML on one line, keys in their order."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=2**30
    )
    return text.rstrip("\n")


def resolve(text: str) -> Any:
    """Resolve a bare word: null, a boolean, a number, or itself."""
    if text[:1] in _NUMERIC_START:
        if _INT.fullmatch(text):
            try:
                return _integer(text)
            except (ValueError, OverflowError):
                return text
        return _float(text) if _FLOAT.fullmatch(text) else text
    if len(text) > 5:
        return text
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    return False if text in _FALSE else text


def _integer(text: str) -> int | float:
    digits = text.replace("_", "")
    sign = -1 if digits.startswith("-") else 1
    bare = digits.lstrip("+-").lower()
    if bare.startswith("0x"):
        value = int(bare[2:], 16)
    elif bare.startswith("0b"):
        value = int(bare[2:], 2)
    elif bare.startswith("0o"):
        value = int(bare[2:], 8)
    elif len(bare) > 1 and bare.startswith("0"):
        value = int(bare[1:], 8)
    else:
        value = int(bare)
    # Go reads a number that does not fit 64 bits as a float.
    return sign * value if value < 2**64 else float(sign * value)


def _float(text: str) -> float:
    low = text.lower()
    if low.endswith((".inf", ".nan")):
        return float(low.replace(".", ""))
    return float(text)


def load_json(text: str) -> Document | None:
    """Read JSON the fast way; None leaves it to YAML, which allows more and explains errors better."""
    duplicates: list[str] = []

    def from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    duplicates.append(f'duplicate field "{key}"')
                seen.add(key)
        return value

    try:
        value = json.loads(text, object_pairs_hook=from_pairs)
    except (ValueError, RecursionError):
        return None
    if _is_too_deep(value) or (_ESCAPED_SURROGATE.search(text) and _has_surrogate(value)):
        return None
    return Document(value, tuple(duplicates), 1)


def _with_lines(document: Document, text: str) -> list[Document]:
    """JSON is YAML but for odd spaces; then there are no lines."""
    try:
        read = _Reader(text, "", lines=True).documents()
    except (yaml.YAMLError, InputError):
        read = []
    return [document._replace(lines=read[0].lines if len(read) == 1 else {})]


def _is_too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _has_surrogate(value: Any) -> bool:
    """Report whether a text contains a lone surrogate, which cannot be written anywhere."""
    return _SURROGATE.search(json.dumps(value, ensure_ascii=False)) is not None


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if type(value) is list else value


class _Anchored(NamedTuple):
    """Target of an alias: the value, its number of values, and its depth."""

    value: Any
    size: int
    height: int


class _Reader:
    """Turns libyaml's events into plain values.

    Events, not nodes: libyaml's composer recurses in C, and a few thousand brackets would crash the process.
    """

    def __init__(self, text: str, where: str, *, lines: bool = False) -> None:
        self._loader: Any = yaml.CSafeLoader(text)  # its events have no usable types
        self._where = where
        self._left = len(text) + _MAX_ALIASED
        self._anchors: dict[str, _Anchored] = {}
        self._deepest = 0  # the depth reached since the innermost anchor
        self._duplicates: list[str] = []
        self._lines: Lines | None = {} if lines else None
        self._path: list[str | int] = []

    def documents(self) -> list[Document]:
        documents: list[Document] = []
        next_event = self._loader.get_event
        while True:
            event = next_event()
            if isinstance(event, yaml.StreamEndEvent):
                return documents
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
                self._duplicates = []
                self._lines = None if self._lines is None else {}
                first = next_event()
                value = self._value(first, 0)
                if value is not None:
                    line = first.start_mark.line + 1
                    documents.append(Document(value, tuple(self._duplicates), line, self._lines))

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        self._left -= 1
        if event.anchor is None:
            return self._unnamed(event, depth)
        left, deepest = self._left, self._deepest
        self._deepest = depth
        value = self._unnamed(event, depth)
        self._anchors[event.anchor] = _Anchored(value, left - self._left + 1, self._deepest - depth)
        self._deepest = max(deepest, self._deepest)
        return value

    def _unnamed(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        self._reach(event, depth + 1)
        return self._sequence(depth) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(depth)

    def _reach(self, event: Any, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise InputError(f"{self._at(event)}nested too deeply; expected at most {_MAX_DEPTH} levels")
        self._deepest = max(self._deepest, depth)

    def _sequence(self, depth: int) -> list[Any]:
        value: list[Any] = []
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            value.append(self._at_path(len(value), event, event, depth + 1))
        return value

    def _mapping(self, depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        inherited: dict[str, Any] = {}
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
                start = self._loader.get_event()
                self._merge(start, self._value(start, depth + 1), inherited)
                continue
            key = self._key(event, self._value(event, depth + 1))
            if key in value:
                self._duplicates.append(f'line {event.start_mark.line + 1}: key "{key}" already set in map')
            value[key] = self._at_path(key, event, self._loader.get_event(), depth + 1)
        return inherited | value if inherited else value

    def _at_path(self, step: str | int, begins: Any, event: Any, depth: int) -> Any:
        """The value of a field or list entry, whose line is noted if lines are asked for."""
        if self._lines is None:
            return self._value(event, depth)
        self._path.append(step)
        self._lines[tuple(self._path)] = begins.start_mark.line + 1
        value = self._value(event, depth)
        self._path.pop()
        return value

    def _merge(self, event: Any, parents: Any, into: dict[str, Any]) -> None:
        for parent in parents if isinstance(parents, list) else [parents]:
            if not isinstance(parent, dict):
                raise InputError(f"{self._at(event)}map merge requires map or sequence of maps as the value")
            for key, value in parent.items():
                into.setdefault(key, value)

    def _key(self, event: Any, key: Any) -> str:
        if isinstance(key, str):
            return key
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int | float):
            return str(key)
        raise InputError(f"{self._at(event)}a key must be a string, found {'null' if key is None else 'a collection'}")

    def _alias(self, event: Any, depth: int) -> Any:
        if event.anchor not in self._anchors:
            raise InputError(f"{self._at(event)}unknown anchor '{event.anchor}', or an alias inside what it refers to")
        anchored = self._anchors[event.anchor]
        self._reach(event, depth + anchored.height)
        self._left -= anchored.size
        if self._left < 0:
            raise InputError(f"{self._at(event)}aliases make this document too large")
        return _copy(anchored.value)

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.implicit[0]:
            return resolve(text)
        tag = event.tag or ""
        if tag.startswith(_TAG) and (kind := tag.removeprefix(_TAG)) in ("int", "float", "bool", "null"):
            value = resolve(text)
            wanted: Any = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}[kind]
            if not isinstance(value, wanted) or (kind in ("int", "float") and isinstance(value, bool)):
                raise InputError(f'{self._at(event)}cannot read "{text}" as {kind}')
            return value
        return text

    def _at(self, event: Any) -> str:
        mark = event.start_mark
        return f"{self._where}line {mark.line + 1}, column {mark.column + 1}: "


class _Dumper(yaml.CSafeDumper):
    """Writes YAML that both kubectl and this module read back unchanged."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# The emitter asks the resolver whether a bare word would be read back unchanged.
_Dumper.yaml_implicit_resolvers = {}
_Dumper.add_implicit_resolver(_TAG + "bool", re.compile(f"(?:{'|'.join(sorted(_TRUE | _FALSE))})$"), list("yYnNtTfFoO"))
_Dumper.add_implicit_resolver(_TAG + "null", re.compile("(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Dumper.add_implicit_resolver(_TAG + "merge", re.compile("<<$"), ["<"])
_Dumper.add_implicit_resolver(_TAG + "int", re.compile(f"(?:{_INT.pattern})$"), sorted(_NUMERIC_START))
_Dumper.add_implicit_resolver(_TAG + "float", re.compile(f"(?:{_FLOAT.pattern})$"), sorted(_NUMERIC_START))


def _write_str(dumper: Any, text: str) -> Any:
    if "\n" in text:
        return dumper.represent_scalar(_TAG + "str", text, style="|")
    quoted = text == "<<" or resolve(text) is not text
    return dumper.represent_scalar(_TAG + "str", text, style='"' if quoted else None)


_Dumper.add_representer(str, _write_str)


def _describe(error: yaml.YAMLError) -> str:
    """Describe an error in one line, with its place."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        parts = [part for part in (error.context, error.problem) if part]
        return f"{at}not valid YAML: {', '.join(parts)}"
    return "not valid YAML: " + " ".join(str(error).split())
