"""Reads the messages of the page's server, as the page does."""

from __future__ import annotations

import json
from array import array
from typing import Any

TYPES = {"f64": "d", "i32": "i", "u8": "B"}


def decode(message: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header, and each table: a list of texts, or its columns by name."""
    size = int.from_bytes(message[:4], "little")
    header = json.loads(message[4 : 4 + size])
    at = 4 + size
    tables: dict[str, Any] = {}
    for part in header["tables"]:
        if "texts" in part:
            tables[part["table"]] = part["texts"]
            continue
        tables[part["table"]] = columns = {}
        for name, type_name in part["columns"]:
            at += -at % 8
            values = array(TYPES[type_name])
            values.frombytes(message[at : at + part["rows"] * values.itemsize])
            columns[name] = values
            at += part["rows"] * values.itemsize
    assert at == len(message)
    return header, tables
