"""Error messages of Go's encoding/json for JSON that it cannot read.

An invalid answer of an extender becomes an event on the pod, and users search for its text. Python's parsers word it
differently, so an invalid answer, and only such a one, is scanned once more as Go does it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from mooring.core.framework.extender import ExtenderError

MAX_DEPTH = 10_000
_SPACE = " \t\r\n"
_ESCAPES = 'bfnrt\\/"'
_HEX = "0123456789abcdefABCDEF"
_CLOSING = {"{": "}", "[": "]"}
_LITERALS = {"t": "true", "f": "false", "n": "null"}


class JsonSyntaxError(ValueError):
    """A syntax error with the text of Go's error."""


def first_value_end(text: str) -> int:
    """Return where the first value ends for a Go decoder, which ignores the rest."""
    return _Scanner(text).run()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.i = 0

    def run(self) -> int:
        self._space()
        if self.i >= len(self.text):
            raise JsonSyntaxError("EOF")
        stack: list[str] = []  # "{" or "[" for everything that is open
        self._value_or_open(stack)
        while stack:
            self._continue(stack)
        return self.i

    # ---- tokens ------------------------------------------------------------------------------------------------

    def _value_or_open(self, stack: list[str]) -> None:
        """Read a scalar, an empty container, or all opening brackets up to the first value, without recursion."""
        while (c := self._peek()) in "{[":
            stack.append(c)
            if len(stack) > MAX_DEPTH:
                self._fail("exceeded max depth")
            self.i += 1
            if self._peek() == _CLOSING[c]:
                self.i += 1
                stack.pop()
                return
            if c == "{":
                self._key("looking for beginning of object key string")
        self._scalar(c)

    def _continue(self, stack: list[str]) -> None:
        """Read what follows a value inside a container: a comma, or the end."""
        c = self._peek()
        if stack[-1] == "{":
            if c == "}":
                self.i += 1
                stack.pop()
            elif c == ",":
                self.i += 1
                self._key("looking for beginning of object key string")
                self._value_or_open(stack)
            else:
                self._fail("after object key:value pair")
        elif c == "]":
            self.i += 1
            stack.pop()
        elif c == ",":
            self.i += 1
            self._value_or_open(stack)
        else:
            self._fail("after array element")

    def _key(self, context: str) -> None:
        if self._peek() != '"':
            self._fail(context)
        self._string()
        if self._peek() != ":":
            self._fail("after object key")
        self.i += 1

    # ---- scalars -----------------------------------------------------------------------------------------------

    def _scalar(self, c: str) -> None:
        if c == '"':
            self._string()
        elif c == "-" or _is_digit(c):
            self._number()
        elif c in _LITERALS:
            word = _LITERALS[c]
            for expected in word:
                if self._next() != expected:
                    self._fail(f"in literal {word} (expecting {_quoted(expected)})")
                self.i += 1
        else:
            self._fail("looking for beginning of value")

    def _string(self) -> None:
        self.i += 1
        while True:
            c = self._next()
            if c == '"':
                self.i += 1
                return
            if c == "\\":
                self.i += 1
                c = self._next()
                if c == "u":
                    for _ in range(4):
                        self.i += 1
                        if self._next() not in _HEX:
                            self._fail("in \\u hexadecimal character escape")
                elif c not in _ESCAPES:
                    self._fail("in string escape code")
            elif c < " ":
                self._fail("in string literal")
            self.i += 1

    def _number(self) -> None:
        if self._next() == "-":
            self.i += 1
            if not _is_digit(self._next()):
                self._fail("in numeric literal")
        if self._next() == "0":
            self.i += 1
        else:
            self._digits()
        if self._at_end():
            return
        if self.text[self.i] == ".":
            self.i += 1
            if not _is_digit(self._next()):
                self._fail("after decimal point in numeric literal")
            self._digits()
        if not self._at_end() and self.text[self.i] in "eE":
            self.i += 1
            if self._next() in "+-":
                self.i += 1
            if not _is_digit(self._next()):
                self._fail("in exponent of numeric literal")
            self._digits()

    def _digits(self) -> None:
        while not self._at_end() and _is_digit(self.text[self.i]):
            self.i += 1

    # ---- characters --------------------------------------------------------------------------------------------

    def _at_end(self) -> bool:
        return self.i >= len(self.text)

    def _space(self) -> None:
        while not self._at_end() and self.text[self.i] in _SPACE:
            self.i += 1

    def _peek(self) -> str:
        self._space()
        return self._next()

    def _next(self) -> str:
        if self._at_end():
            raise JsonSyntaxError("unexpected EOF")
        return self.text[self.i]

    def _fail(self, context: str) -> None:
        c = self._next()
        byte = c if c < "\x80" else chr(c.encode("utf-8", "surrogatepass")[0])  # Go looks at bytes
        raise JsonSyntaxError(f"invalid character {_quoted(byte)} {context}")


def _is_digit(c: str) -> bool:
    return "0" <= c <= "9"


def _quoted(c: str) -> str:
    if c == "'":
        return "'\\''"
    if c == '"':
        return "'\"'"
    named = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\"}
    if c in named:
        return f"'{named[c]}'"
    if c.isprintable():
        return f"'{c}'"
    return f"'\\x{ord(c):02x}'" if ord(c) < 0x80 else f"'\\u{ord(c):04x}'"


class Float(str):
    """A number with a fraction or an exponent, as written."""


def go_kind(value: Any) -> str:
    """Return Go's name of a value's kind in type errors."""
    match value:
        case bool():
            return "bool"
        case Float() | int():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


# --------------------------------------------------------------------------------------------------------------------
# Answers read value by value as Go's decoder reads them. It is slow, and used when the fast decoder fails.

MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1


@dataclass(slots=True)
class FilterAnswer:
    """ExtenderFilterResult."""

    nodes: list[bytes] | None = None  # encoded items of Nodes
    node_names: list[str] | None = None
    failed: dict[str, str] = field(default_factory=dict)
    failed_and_unresolvable: dict[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class MetaVictims:
    uids: tuple[str, ...]
    pdb_violations: int


class GoDecoder:
    """Reads an answer value by value as Go's decoder does, and raises Go's error for the first mismatch."""

    def __init__(self, type_name: str, body: bytes) -> None:
        self._type = type_name
        self._error = ""
        self._value = _plain(body)

    def filter_answer(self) -> FilterAnswer:
        answer = FilterAnswer()
        for key, value in self._root_object():
            match key.lower():
                case "nodes":
                    answer.nodes = self._node_list(value)
                case "nodenames":
                    answer.node_names = self._strings(value, "NodeNames")
                case "failednodes":
                    answer.failed = self._map(value, "FailedNodes")
                case "failedandunresolvablenodes":
                    answer.failed_and_unresolvable = self._map(value, "FailedAndUnresolvableNodes")
                case "error":
                    answer.error = self._string(value, "ExtenderFilterResult.Error")
        self._finish()
        return answer

    def priorities(self) -> list[tuple[str, int]]:
        if self._value is None:
            return []
        if not isinstance(self._value, list):
            self._mismatch(self._value, "", "v1.HostPriorityList")
            self._finish()
        found: list[tuple[str, int]] = []
        for item in self._value:
            host, score = "", 0
            if item is not None and not isinstance(item, dict):
                self._mismatch(item, "", "v1.HostPriority")
            elif item is not None:
                for key, value in item.items():
                    if key.lower() == "host":
                        host = self._string(value, "HostPriority.Host")
                    elif key.lower() == "score":
                        score = self._int64(value, "HostPriority.Score")
            found.append((host, score))
        self._finish()
        return found

    def meta_victims(self) -> dict[str, MetaVictims]:
        found: dict[str, MetaVictims] = {}
        path = "ExtenderPreemptionResult.NodeNameToMetaVictims"
        for key, value in self._root_object():
            if key.lower() != "nodenametometavictims" or value is None:
                continue
            if not isinstance(value, dict):
                self._mismatch(value, path, "map[string]*v1.MetaVictims")
                continue
            for node, victims in value.items():
                found[node] = self._victims(victims)
        self._finish()
        return found

    def _victims(self, victims: Any) -> MetaVictims:
        uids: list[str] = []
        violations = 0
        if victims is not None and not isinstance(victims, dict):
            self._mismatch(victims, "ExtenderPreemptionResult.NodeNameToMetaVictims", "v1.MetaVictims")
            return MetaVictims((), 0)
        for key, value in (victims or {}).items():
            if key.lower() == "numpdbviolations":
                violations = self._int64(value, "MetaVictims.NodeNameToMetaVictims.NumPDBViolations")
            elif key.lower() == "pods" and value is not None:
                if not isinstance(value, list):
                    self._mismatch(value, "MetaVictims.NodeNameToMetaVictims.Pods", "[]*v1.MetaPod")
                    continue
                for pod in value:
                    uids.append(self._uid(pod))
        return MetaVictims(tuple(uids), violations)

    def _uid(self, pod: Any) -> str:
        if pod is not None and not isinstance(pod, dict):
            self._mismatch(pod, "MetaVictims.NodeNameToMetaVictims.Pods", "v1.MetaPod")
            return ""
        for key, value in (pod or {}).items():
            if key.lower() == "uid":
                return self._string(value, "MetaPod.NodeNameToMetaVictims.Pods.UID")
        return ""

    def binding_error(self) -> str:
        error = ""
        for key, value in self._root_object():
            if key.lower() == "error":
                error = self._string(value, "ExtenderBindingResult.Error")
        self._finish()
        return error

    # ---- values ------------------------------------------------------------------------------------------------

    def _root_object(self) -> list[tuple[str, Any]]:
        if self._value is None:
            return []
        if not isinstance(self._value, dict):
            self._mismatch(self._value, "", f"v1.{self._type}")
            self._finish()
        return list(self._value.items())

    def _node_list(self, value: Any) -> list[bytes] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            self._mismatch(value, "ExtenderFilterResult.Nodes", "v1.NodeList")
            return None
        nodes: list[bytes] = []
        for key, items in value.items():
            if key.lower() != "items" or items is None:
                continue
            if not isinstance(items, list):
                self._mismatch(items, "NodeList.Nodes.items", "[]v1.Node")
                continue
            for item in items:
                if item is not None and not isinstance(item, dict):
                    self._mismatch(item, "NodeList.Nodes.items", "v1.Node")
                    continue
                nodes.append(json.dumps(item or {}, separators=(",", ":")).encode())
        return nodes

    def _strings(self, value: Any, name: str) -> list[str] | None:
        if value is None:
            return None
        if not isinstance(value, list):
            self._mismatch(value, f"ExtenderFilterResult.{name}", "[]string")
            return None
        return [self._string(item, f"ExtenderFilterResult.{name}") for item in value]

    def _map(self, value: Any, name: str) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._mismatch(value, f"ExtenderFilterResult.{name}", "v1.FailedNodesMap")
            return {}
        return {key: self._string(item, f"ExtenderFilterResult.{name}") for key, item in value.items()}

    def _string(self, value: Any, path: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str) or isinstance(value, Float):
            self._mismatch(value, path, "string")
            return ""
        return value

    def _int64(self, value: Any, path: str) -> int:
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not MIN_INT64 <= value <= MAX_INT64:
            self._mismatch(value, path, "int64")
            return 0
        return value

    # ---- errors ------------------------------------------------------------------------------------------------

    def _mismatch(self, value: Any, path: str, type_name: str) -> None:
        if self._error:
            return  # Go continues reading and reports the first error
        what = go_kind(value)
        if what == "number" and type_name == "int64":
            what = f"number {value}"
        where = f"Go struct field {path}" if path else "Go value"
        self._error = f"json: cannot unmarshal {what} into {where} of type {type_name}"

    def _finish(self) -> None:
        if self._error:
            raise ExtenderError(self._error)


def _plain(body: bytes) -> Any:
    """Return the first value of a body as plain data; the rest is skipped, as by Go's decoder."""
    text = body.decode("utf-8", "replace")
    try:
        return _loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return _loads(text[: first_value_end(text)])
    except JsonSyntaxError as error:
        raise ExtenderError(str(error)) from None
    except (ValueError, RecursionError):
        raise ExtenderError("exceeded max depth") from None  # Go allows deeper nesting than Python's parser


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=Float, parse_int=_integer, parse_constant=_no_constant)


def _integer(text: str) -> int | Float:
    """Convert a whole number; one with more digits than Python converts stays a text."""
    return int(text) if len(text) <= 1000 else Float(text)


def _no_constant(name: str) -> Any:
    raise ValueError(name)
