"""Which exercises a learner has solved: one small file in the home directory."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path


def place() -> Path:
    """Where it is kept: in $XDG_STATE_HOME, else in ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "mooring" / "course.json"


def solved() -> set[int]:
    """The lessons whose exercises are solved; a file that cannot be read counts for none."""
    try:
        found = json.loads(place().read_text(encoding="utf-8"))
        return {number for number in found["solved"] if isinstance(number, int)}
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return set()


def remember(number: int) -> None:
    """Note a solved exercise. If the home directory cannot be written, it is not remembered."""
    with contextlib.suppress(OSError, RuntimeError):
        target = place()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps({"solved": sorted(solved() | {number})}), encoding="utf-8")
