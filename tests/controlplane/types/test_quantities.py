"""Quantities in canonical form, and whole numbers in texts."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.quantity import parse_quantity
from mooring.controlplane.types import quantities
from mooring.controlplane.types.status import StatusError


@pytest.mark.parametrize(
    ("given_text", "want"),
    [
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("2000000", "2M"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1.5e3", "1500"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1536Mi", "1536Mi"),
        ("1Ki", "1Ki"),
        ("100Ki", "100Ki"),
        ("0Gi", "0"),
        ("0", "0"),
        ("-5", "-5"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        (2, "2"),
        (0.5, "500m"),
        ("1E", "1E"),
        ("1Ei", "1Ei"),
    ],
)
def test_canonical_form(given_text: str | int | float, want: str) -> None:
    assert quantities.canonical(given_text) == want


@given(st.integers(0, 10**6), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi", "e3"]))
def test_the_canonical_form_is_equal_and_idempotent(number: int, suffix: str) -> None:
    once = quantities.canonical(f"{number}{suffix}")
    assert parse_quantity(once) == parse_quantity(f"{number}{suffix}")
    assert quantities.canonical(once) == once


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1GiB", "--1", "1e", "0x1", "1,5", "9" * 5000])
def test_what_is_no_quantity_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError, match="quantities must match the regular expression") as refused:
        quantities.parse(text)
    assert refused.value.code == 400
    assert len(str(refused.value)) < 300


def test_a_number_that_cannot_be_written_is_a_bad_request_too() -> None:
    with pytest.raises(StatusError, match="a number that is too large"):
        quantities.parse(10**5000)


def test_a_sum_is_written_like_its_parts() -> None:
    assert quantities.formatted(Fraction(3, 2), like="500m") == "1500m"
    assert quantities.formatted(Fraction(3 * 2**30), like="1Gi") == "3Gi"
    assert quantities.formatted(Fraction(512), like="1Gi") == "512"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", 0),
        ("-12", -12),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("", None),
        ("-", None),
        ("+1", None),
        ("1.0", None),
        ("²", None),
        ("٣", None),
        (" 1", None),
    ],
)
def test_whole_numbers(text: str, want: int | None) -> None:
    assert quantities.whole(text) == want


def test_resource_lists_are_brought_into_canonical_form_in_place() -> None:
    requirements = {"limits": {"cpu": "1000m"}, "requests": {"memory": "1024Mi", "cpu": 0.25}}
    quantities.canonicalize_requirements(requirements)
    assert requirements == {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi", "cpu": "250m"}}
    quantities.canonicalize_requirements(None)
    quantities.canonicalize(None)
