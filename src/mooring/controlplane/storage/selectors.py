"""Label and field selectors as clients send them: strings in, a test on labels or fields out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from mooring.api.selectors import EVERYTHING as EVERYTHING
from mooring.api.selectors import Requirement, Selector
from mooring.controlplane.types.status import StatusError, bad_request

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TOKEN = re.compile(r"\s*(?:(!=|==|=|!|<|>|,|\(|\))|([^\s,=!()<>]+))")


@lru_cache(maxsize=65536)
def is_label_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return False
    return _LABEL_NAME.fullmatch(name) is not None


@lru_cache(maxsize=65536)
def is_label_value(value: str) -> bool:
    return value == "" or _LABEL_NAME.fullmatch(value) is not None


def _cannot_parse(text: str, why: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {why}: {text[:200]!r}")


def parse_labels(text: str) -> Selector:
    """Parse ``a=b,c in (d,e),!f``; an error is a 400."""
    tokens: list[str] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if not found:
            raise _cannot_parse(text, f"unexpected character {stripped[at]!r}")
        tokens.append(found[1] or found[2])
        at = found.end()
    requirements: list[Requirement] = []
    i = 0
    while i < len(tokens):
        if requirements:
            if tokens[i] != ",":
                raise _cannot_parse(text, f"found '{tokens[i]}', expected: ',' or 'end of string'")
            i += 1
            if i == len(tokens):
                raise _cannot_parse(text, "found '', expected: identifier after ','")
        i, requirement = _parse_one(text, tokens, i)
        requirements.append(requirement)
    return Selector(tuple(requirements))


_PUNCTUATION = frozenset(["!=", "==", "=", "!", "<", ">", ",", "(", ")"])
_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}


def _parse_one(text: str, tokens: list[str], i: int) -> tuple[int, Requirement]:
    """Return the requirement that begins at a token, and the position after it."""

    def token(j: int) -> str:
        return tokens[j] if j < len(tokens) else ""

    is_negated = token(i) == "!"
    i += is_negated
    key, operator = token(i), token(i + 1)
    if not key or key in _PUNCTUATION:
        raise _cannot_parse(text, f"found '{key}', expected: identifier")
    if not is_label_key(key):
        raise _cannot_parse(text, f"invalid label key {key[:100]!r}")
    if is_negated:
        return i + 1, Requirement(key, "DoesNotExist")
    if operator in ("", ","):
        return i + 1, Requirement(key, "Exists")
    i += 2
    if operator in ("in", "notin"):
        i, values = _parse_values(text, token, i)
        return i, Requirement(key, "In" if operator == "in" else "NotIn", tuple(sorted(values)))
    value = token(i)
    if value in _PUNCTUATION and value != ",":
        raise _cannot_parse(text, f"found '{value}', expected: identifier")
    if value == ",":
        value = ""
    elif value:
        i += 1
    if operator not in _OPERATORS:
        raise _cannot_parse(text, f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    if operator in ("<", ">"):
        if not re.fullmatch(r"[-+]?\d{1,19}", value):
            raise _cannot_parse(text, "for 'Gt', 'Lt' operators, the value must be an integer")
    else:
        _check_values(text, {value})
    return i, Requirement(key, _OPERATORS[operator], (value,))


def _parse_values(text: str, token: Callable[[int], str], i: int) -> tuple[int, set[str]]:
    """The values of ``(a,b)``; one may be empty."""
    if token(i) != "(":
        raise _cannot_parse(text, f"found '{token(i)}' expected: '('")
    i += 1
    values: set[str] = set()
    pending = ""
    while token(i) not in (")", ""):
        if token(i) == ",":
            values.add(pending)
            pending = ""
        elif pending or token(i) in _PUNCTUATION:
            raise _cannot_parse(text, f"found '{token(i)}', expected: ',' or ')'")
        else:
            pending = token(i)
        i += 1
    if token(i) != ")":
        raise _cannot_parse(text, "found '', expected: ')'")
    values.add(pending)
    _check_values(text, values)
    return i + 1, values


def _check_values(text: str, values: set[str]) -> None:
    for value in values:
        if not is_label_value(value):
            raise _cannot_parse(text, f"invalid label value {value[:100]!r}")


def from_object(selector: Mapping[str, Any] | None) -> Selector | None:
    """A LabelSelector object (matchLabels, matchExpressions); None selects nothing, an empty one everything."""
    if selector is None:
        return None
    found = [Requirement(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        if each.get("operator") not in ("In", "NotIn", "Exists", "DoesNotExist"):
            return None
        found.append(Requirement(each.get("key", ""), each["operator"], tuple(each.get("values") or ())))
    return Selector(tuple(found))


def text_of(selector: Mapping[str, Any] | None) -> str:
    """A LabelSelector object, or plain labels, as text that ``parse_labels`` reads; sorted as upstream prints it."""
    if not selector:
        return ""
    if not selector.keys() & {"matchLabels", "matchExpressions"}:
        selector = {"matchLabels": selector}
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression.get("key", ""), ",".join(sorted(expression.get("values") or ()))
        shown = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        parts.append((key, shown.get(expression.get("operator", ""), f"!{key}")))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))


class FieldSelector(msgspec.Struct, frozen=True):
    """Conjunction of ``field=value`` and ``field!=value``."""

    terms: tuple[tuple[str, bool, str], ...] = ()

    def matches(self, field: Callable[[str], str]) -> bool:
        """Report whether all terms hold; ``field`` gives a field's value, empty where there is none."""
        return all((field(name) == value) is equal for name, equal, value in self.terms)

    def exactly(self, name: str) -> str | None:
        """The value a field must have, where the selector pins one down."""
        return next((value for field, equal, value in self.terms if equal and field == name), None)

    def __bool__(self) -> bool:
        return bool(self.terms)


ANY_FIELDS = FieldSelector()


def parse_fields(text: str, supported: frozenset[str], kind: str) -> FieldSelector:
    """Parse ``a=b,c!=d`` with backslash escapes; unsupported fields are a 400, as upstream."""
    terms: list[tuple[str, bool, str]] = []
    for part in re.findall(r"(?:[^,\\]|\\.|\\$)+", text, re.DOTALL):
        found = re.match(r"^((?:[^=!\\]|\\.)*?)(==|!=|=)(.*)$", part, re.DOTALL)
        if not found:
            raise bad_request(f"invalid selector: '{text[:200]}'; can't understand '{part[:200]}'")
        name, operator, value = found[1].strip(), found[2], re.sub(r"\\([\\,=])", r"\1", found[3])
        if name not in supported:
            known = '", "'.join(sorted(supported))
            raise bad_request(f'"{name[:100]}" is not a known field selector: only "{known}"')
        terms.append((name, operator != "!=", value))
    return FieldSelector(tuple(terms))
