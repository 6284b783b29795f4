"""Go's duration text in both directions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.errors import ParseError
from mooring.api.times import format_duration, parse_duration, parse_nanoseconds, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("0s", 0.0),
        ("15s", 15.0),
        ("5m0s", 300.0),
        ("1h1m1.25s", 3661.25),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("100ms", 0.1),
        ("3us", 3e-6),
        ("3µs", 3e-6),
        ("3μs", 3e-6),
        ("-2s", -2.0),
        ("+2s", 2.0),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", 'time: invalid duration ""', id="nothing"),
        pytest.param("-", 'time: invalid duration "-"', id="only a sign"),
        pytest.param("s", 'time: invalid duration "s"', id="only a unit"),
        pytest.param("15", 'time: missing unit in duration "15"', id="no unit"),
        pytest.param("15d", 'time: unknown unit "d" in duration "15d"', id="days"),
        pytest.param("1s ", 'time: unknown unit "s " in duration "1s "', id="a trailing blank"),
        pytest.param(".s", 'time: invalid duration ".s"', id="a lonely point"),
        pytest.param("1..2s", 'time: missing unit in duration "1..2s"', id="two points"),
        pytest.param("3000000h", 'time: invalid duration "3000000h"', id="more than an int64 of nanoseconds"),
    ],
)
def test_what_go_refuses(text: str, message: str) -> None:
    with pytest.raises(ParseError) as e:
        parse_duration(text)
    assert str(e.value) == message


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (15, "15s"),
        (600, "10m0s"),
        (3600, "1h0m0s"),
        (1.5, "1.5s"),
        (0.0015, "1.5ms"),
        (2.5e-6, "2.5µs"),
        (1e-9, "1ns"),
        (-90, "-1m30s"),
    ],
)
def test_format(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


# Thirteen days: as far as a float counts nanoseconds exactly through a division and a multiplication.
@given(st.integers(min_value=-(2**50), max_value=2**50))
def test_what_is_written_is_read_back(nanoseconds: int) -> None:
    assert parse_nanoseconds(format_duration(nanoseconds / 1e9)) == nanoseconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("90", 90.0, id="a bare number is seconds"),
        pytest.param("0.5", 0.5, id="half a second"),
        pytest.param("1m30s", 90.0, id="a Go duration"),
        pytest.param("0", 0.0, id="nothing"),
    ],
)
def test_a_bare_number_counts_seconds(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "-1s", "-1", "soon", "1e3", "٣"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(ParseError):
        parse_seconds(text)
