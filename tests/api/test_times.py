"""Timestamps as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mooring.api.errors import ParseError
from mooring.api.times import format_micro_time, format_time, human_duration, parse_time


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


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-5, "<invalid>"), (0, "0s"), (119, "119s"), (120, "2m"), (183, "3m3s"), (600, "10m"), (10799, "179m"),
        (10800, "3h"), (12000, "3h20m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (190000, "2d4h"),
        (691200, "8d"), (63072000, "2y"), (66960000, "2y45d"), (252288000, "8y"),
    ],
)  # fmt: skip
def test_ages_read_as_kubectl_prints_them(seconds: float, want: str) -> None:
    assert human_duration(seconds) == want
