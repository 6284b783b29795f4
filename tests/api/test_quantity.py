"""Quantities are exact and round up, once, at the end."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.errors import ParseError
from mooring.api.quantity import (
    INT64_MAX,
    ceil_milli,
    ceil_value,
    lowest_64_bits,
    milli_value_of,
    parse_quantity,
    value_of,
)

F = Fraction


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("0", F(0), id="zero"),
        pytest.param("2", F(2), id="a plain number"),
        pytest.param("1n", F(1, 10**9), id="nano"),
        pytest.param("1u", F(1, 10**6), id="micro"),
        pytest.param("500m", F(1, 2), id="milli"),
        pytest.param("1k", F(1000), id="kilo is lower case"),
        pytest.param("1M", F(10**6), id="mega"),
        pytest.param("1G", F(10**9), id="giga"),
        pytest.param("1T", F(10**12), id="tera"),
        pytest.param("1P", F(10**15), id="peta"),
        pytest.param("1E", F(10**18), id="exa, not an exponent without digits"),
        pytest.param("1Ki", F(2**10), id="kibi"),
        pytest.param("1Mi", F(2**20), id="mebi"),
        pytest.param("1Gi", F(2**30), id="gibi"),
        pytest.param("1Ti", F(2**40), id="tebi"),
        pytest.param("1Pi", F(2**50), id="pebi"),
        pytest.param("1Ei", F(2**60), id="exbi"),
        pytest.param("1.5Gi", F(3 * 2**29), id="a fraction of a binary unit"),
        pytest.param("0.1", F(1, 10), id="a decimal fraction is exact"),
        pytest.param(".5", F(1, 2), id="no digit before the point"),
        pytest.param("5.", F(5), id="no digit after the point"),
        pytest.param("1e3", F(1000), id="an exponent"),
        pytest.param("1E3", F(1000), id="a capital exponent"),
        pytest.param("12e-3", F(12, 1000), id="a negative exponent"),
        pytest.param("1e+3", F(1000), id="an exponent with a plus"),
        pytest.param("+2", F(2), id="a plus sign"),
        pytest.param("-500m", F(-1, 2), id="a negative amount"),
        pytest.param(2, F(2), id="a bare YAML integer"),
        pytest.param(0.5, F(1, 2), id="a bare YAML float"),
        pytest.param("0.0000000001", F(1, 10**9), id="finer than nano rounds up to a nano"),
        pytest.param("1.5n", F(2, 10**9), id="one and a half nano rounds up to two"),
        pytest.param("-1.5n", F(-2, 10**9), id="a negative one rounds away from zero"),
        pytest.param("1.0000000005", F(1_000_000_001, 10**9), id="the tail beyond nano rounds up"),
    ],
)
def test_parse(text: str | int | float, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", "1 ", " 1", "abc", "1.2.3", "1e", "1em", "1ki", "1Kib", "1mm", "1K", "--1", "1,5", "0x10", "1e3Mi", "Mi",
     "1_000", "٣", "1e99999999999", "inf", "nan", "."],
)  # fmt: skip
def test_garbage_is_one_clear_line(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_quantity(text)
    message = str(caught.value)
    assert repr(text) in message and "\n" not in message
    assert "500m" in message or "Ki" in message, "the message gives an example"


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        pytest.param("1.5", 2, 1500, id="one and a half bytes are two"),
        pytest.param("0.1m", 1, 1, id="a tenth of a milli-core is one"),
        pytest.param("100m", 1, 100, id="a tenth of a core"),
        pytest.param("1n", 1, 1, id="a nano of anything is one"),
        pytest.param("2", 2, 2000, id="two"),
        pytest.param("-1.5", -2, -1500, id="negative amounts round away from zero"),
        pytest.param("1e-999999999", 1, 1, id="a tiny one costs no memory"),
    ],
)
def test_trap_10_amounts_round_up(text: str, whole: int, milli: int) -> None:
    assert (value_of(text), milli_value_of(text)) == (whole, milli)


@given(st.integers(-(10**6), 10**6), st.sampled_from(["n", "u", "m", "", "k", "M", "Ki", "Mi", "Gi"]))
def test_whole_and_milli_agree_with_exact_arithmetic(number: int, suffix: str) -> None:
    exact = parse_quantity(f"{number}{suffix}")
    assert abs(ceil_value(exact)) - 1 < abs(exact) <= abs(ceil_value(exact))
    assert abs(ceil_milli(exact)) - 1 < abs(exact * 1000) <= abs(ceil_milli(exact))


@given(st.text(max_size=12))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        parse_quantity(text)
    except ParseError as error:
        assert "\n" not in str(error) or "\n" in text


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("9" * 257, id="a text"),
        pytest.param("0." + "9" * 5000, id="more digits than Python reads"),
        pytest.param(10**5000, id="a number"),
    ],
)
def test_a_quantity_that_is_too_long_is_one_short_line(value: str | int) -> None:
    with pytest.raises(ParseError) as refused:
        parse_quantity(value)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        pytest.param("9223372036854775807", INT64_MAX, -1000, id="the largest int64; its thousandths overflow"),
        pytest.param("9223372036854775", 9223372036854775, 9223372036854775000, id="the most thousandths"),
        pytest.param("9223372036854776", 9223372036854776, -(2**63) + 192, id="one more, multiplied in one step"),
        pytest.param("9223372036854775808", -(2**63), 0, id="one more than the largest: the lowest 64 bits"),
        pytest.param("10E", 0, 0, id="scaled place by place, an overflow makes nothing"),
        pytest.param("9E", 9 * 10**18, 0, id="in thousandths only"),
        pytest.param("10000000001G", 10000000001 * 10**9 - 2**64, 0, id="nine places are multiplied in one step"),
        pytest.param("10000000000G", 0, 0, id="but this is 10E"),
        pytest.param("1e30", 0, 0, id="an exponent"),
        pytest.param("-1e30", 0, 0, id="below zero"),
        pytest.param("1e1000", 0, 0, id="a large exponent"),
        pytest.param("1e999999999", 0, 0, id="a huge one costs no memory"),
        pytest.param("8Ei", INT64_MAX, -1000, id="a binary suffix is capped, then overflows as any other"),
        pytest.param("100000Ei", INT64_MAX, -1000, id="however large"),
        pytest.param("9" * 256, (10**256 - 1) % 2**64 - 2**64, -1000, id="the longest quantity: the lowest 64 bits"),
    ],
)
def test_what_an_int64_does_not_hold_overflows_as_in_go(text: str, whole: int, milli: int) -> None:
    assert (value_of(text), milli_value_of(text)) == (whole, milli)


@given(st.integers(-(10**40), 10**40))
def test_an_overflow_is_nothing_or_the_lowest_64_bits(number: int) -> None:
    assert value_of(str(number)) in (0, lowest_64_bits(number))
    assert -INT64_MAX - 1 <= milli_value_of(str(number)) <= INT64_MAX
