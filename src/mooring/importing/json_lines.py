"""Texts of JSON, read so that every mistake is told with its file and line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mooring.api import yaml
from mooring.errors import InputError


def read_lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Each line that is not empty: the place that errors name, and the value. A line that was cut is an error."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, read_json(line, where)


def read_json(text: str, where: str) -> Any:
    """One value: not nested without end, no key twice, nothing that cannot be written again."""
    found = yaml.load_json(text)
    if found is None:
        raise InputError(f"{where}: {_problem(text)}")
    if found.duplicates:
        raise InputError(f"{where}: {found.duplicates[0]}")
    return found.value


def _problem(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} of it, " if error.lineno > 1 else ""
        return f"{line}column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}; expected JSON"
    except (ValueError, RecursionError):
        pass
    return "nested too deeply, or half a character (\\ud800); expected JSON of Kubernetes objects"
