"""RFC 3339 timestamps as the API writes them."""

from __future__ import annotations

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
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """Microseconds, UTC: the form of metav1.MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
