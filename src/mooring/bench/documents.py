"""Results of earlier runs, read back from the files that `--save` and `-o json` write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mooring.errors import InputError


def read_document(path: Path, format: str, command: str) -> dict[str, Any]:
    """The document that a command wrote; anything else is refused."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict) or value.get("format") != format:
        raise InputError(f"{path}: not a result of {command} -o json ({format})")
    return value
