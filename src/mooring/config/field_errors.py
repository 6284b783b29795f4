"""The words of Kubernetes' field errors, and the rules for names that they report on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from mooring.config.duration import format_duration

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


class DurationValue(float):
    """Seconds to be shown as Go shows a metav1.Duration."""


def invalid(path: str, value: Any, detail: str) -> str:
    return f"{path}: Invalid value: {_show(value)}: {detail}"


def duplicate(path: str, value: Any) -> str:
    return f"{path}: Duplicate value: {_show(value)}"


def required(path: str, detail: str = "") -> str:
    return f"{path}: Required value" + (f": {detail}" if detail else "")


def forbidden(path: str, detail: str) -> str:
    return f"{path}: Forbidden: {detail}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    allowed = ", ".join(json.dumps(one) for one in supported)
    return f"{path}: Unsupported value: {_show(value)}: supported values: {allowed}"


def qualified_name(name: str) -> list[str]:
    """Return what keeps ``name`` from being a label key or resource name: ``[prefix/]name``."""
    prefix, slash, bare = name.rpartition("/")
    mistakes = []
    if "/" in prefix:
        return [
            "a qualified name "
            + _regex(_NAME_HINT, "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", "MyName", "my.name", "123-abc")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash:
        if not prefix:
            mistakes.append("prefix part must be non-empty")
        else:
            mistakes += [f"prefix part {mistake}" for mistake in _subdomain(prefix)]
    if not bare:
        mistakes.append("name part must be non-empty")
    elif len(bare) > 63:
        mistakes.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(bare):
        mistakes.append(
            "name part "
            + _regex(_NAME_HINT, "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", "MyName", "my.name", "123-abc")
        )
    return mistakes


def label_value(value: str) -> list[str]:
    """Return what keeps ``value`` from being a label's value."""
    mistakes = []
    if len(value) > 63:
        mistakes.append("must be no more than 63 bytes")
    if not _LABEL_VALUE.fullmatch(value):
        mistakes.append(
            _regex(
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
                "and must start and end with an alphanumeric character",
                "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
                "MyValue",
                "my_value",
                "12345",
            )
        )
    return mistakes


_NAME_HINT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def _subdomain(text: str) -> list[str]:
    mistakes = []
    if len(text) > 253:
        mistakes.append("must be no more than 253 bytes")
    if not _SUBDOMAIN.fullmatch(text):
        mistakes.append(
            _regex(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
                "and must start and end with an alphanumeric character",
                "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
                "example.com",
            )
        )
    return mistakes


def _regex(message: str, pattern: str, *examples: str) -> str:
    shown = ",  or ".join(f"'{example}'" for example in examples)
    return f"{message} (e.g. {shown}, regex used for validation is '{pattern}')"


def _show(value: Any) -> str:
    if isinstance(value, DurationValue):
        return json.dumps(format_duration(value))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= 200 else text[:197] + "…"
