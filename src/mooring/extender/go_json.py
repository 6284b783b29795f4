"""What Go's encoding/json says about JSON that it cannot read.

Extenders that answer nonsense make an event on the pod, and users search for
its text. Parsers here say it differently, so an answer that is broken, and only
such a one, is scanned once more the way Go does it.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 10_000
_SPACE = " \t\r\n"
_ESCAPES = 'bfnrt\\/"'
_HEX = "0123456789abcdefABCDEF"
_CLOSING = {"{": "}", "[": "]"}
_LITERALS = {"t": "true", "f": "false", "n": "null"}


class JsonSyntaxError(ValueError):
    """The text of Go's error."""


def first_value_end(text: str) -> int:
    """Return where the first value ends, as a Go decoder finds it; what comes after it does not matter."""
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

    # ---- what may come next ------------------------------------------------------------------------------------

    def _value_or_open(self, stack: list[str]) -> None:
        """A scalar, something empty, or everything that opens up to the first of these. Depth costs no recursion."""
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
        """After a value inside something: a comma, or the end."""
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
    """A number with a fraction or an exponent, as it was written."""


def go_kind(value: Any) -> str:
    """What Go's type errors call a value."""
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
