"""Timestamps as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mooring.api.times import format_micro_time, format_time, parse_time
from mooring.errors import ParseError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0.0, id="the epoch"),
        pytest.param("2026-01-01T12:00:00Z", 1767268800.0, id="whole seconds"),
        pytest.param("2026-01-01T12:00:00.250000Z", 1767268800.25, id="microseconds"),
        pytest.param("2026-01-01T13:00:00+01:00", 1767268800.0, id="another zone"),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "12:00"])
def test_garbage_is_one_clear_line(text: str) -> None:
    with pytest.raises(ParseError, match="is not a timestamp; write one such as"):
        parse_time(text)


def test_format() -> None:
    assert format_time(1767268800.9) == "2026-01-01T12:00:00Z"
    assert format_micro_time(1767268800.25) == "2026-01-01T12:00:00.250000Z"
    assert parse_time(format_time(1767268800)) == 1767268800


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(1767268800.0, id="a whole second"),
        pytest.param(1767268800.9999996, id="rounded up into the next second"),
        pytest.param(1767268800.9999994, id="just not rounded up"),
        pytest.param(1767268800.000001, id="a microsecond"),
        pytest.param(1767268859.9999999, id="rounded up into the next minute"),
        pytest.param(0.1, id="soon after the epoch"),
    ],
)
def test_microseconds_are_rounded_as_the_standard_library_does(seconds: float) -> None:
    want = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert format_micro_time(seconds) == want
