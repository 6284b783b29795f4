"""Times of a record as people give them: a timestamp, or how long after its beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.api.times import parse_time
from mooring.config.duration import parse_seconds
from mooring.errors import ParseError, UsageError

if TYPE_CHECKING:
    from mooring.record.reader import Record


def record_time(text: str | None, record: Record) -> Any:
    """A timestamp, or a time from the record's beginning."""
    if text is None:
        return None
    try:
        return record.first_time + parse_seconds(text.removeprefix("+"))
    except ParseError:
        pass
    try:
        return parse_time(text)
    except ParseError:
        raise UsageError(
            f"{text!r} is not a time; write 90s, from the beginning of the record, or 2026-01-31T12:00:00Z"
        ) from None
