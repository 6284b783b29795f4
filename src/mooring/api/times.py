"""RFC 3339 timestamps as the API writes them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache

from mooring.errors import ParseError


@lru_cache(maxsize=16384)
def parse_time(text: str) -> float:
    """Seconds since the epoch."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise ParseError(f"{text!r} is not a timestamp; write one such as 2026-01-31T12:00:00Z") from None


def format_time(seconds: float) -> str:
    """Whole seconds, UTC: the form of metav1.Time."""
    return _format_second(int(seconds)) + "Z"


def format_micro_time(seconds: float) -> str:
    """Microseconds, UTC: the form of metav1.MicroTime."""
    whole = math.floor(seconds)
    micros = round((seconds - whole) * 1e6)
    if micros == 1_000_000:
        whole, micros = whole + 1, 0
    return f"{_format_second(whole)}.{micros:06d}Z"


@lru_cache(maxsize=64)
def _format_second(second: int) -> str:
    """Most timestamps are of the second that just passed, and ``strftime`` is slow."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
