"""Statuses: the codes are upstream's, the reasons are what users read (spec 0.1)."""

from __future__ import annotations

import pytest

from mooring.core.framework.status import CODE_NAMES, SKIP, SUCCESS, Code, Status


@pytest.mark.parametrize(
    ("code", "number", "name", "rejected"),
    [
        (Code.SUCCESS, 0, "Success", False),
        (Code.ERROR, 1, "Error", False),
        (Code.UNSCHEDULABLE, 2, "Unschedulable", True),
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 3, "UnschedulableAndUnresolvable", True),
        (Code.WAIT, 4, "Wait", False),
        (Code.SKIP, 5, "Skip", False),
        (Code.PENDING, 6, "Pending", True),
    ],
)
def test_codes_are_upstreams(code: Code, number: int, name: str, rejected: bool) -> None:
    assert int(code) == number and CODE_NAMES[code] == name
    assert Status(code).is_rejected is rejected
    assert Status(code).is_success is (code is Code.SUCCESS) and Status(code).is_skip is (code is Code.SKIP)


def test_every_code_has_a_name() -> None:
    assert CODE_NAMES.keys() == set(Code)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (Status.unschedulable, Code.UNSCHEDULABLE),
        (Status.unresolvable, Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        (Status.error, Code.ERROR),
        (Status.wait, Code.WAIT),
        (Status.pending, Code.PENDING),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_status_by_its_meaning(make: type[Status], code: Code) -> None:
    assert make("a", "b") == Status(code, ("a", "b"))
    assert make() == Status(code)


def test_reasons_make_the_message() -> None:
    assert Status.unschedulable("a", "b").message == "a, b"
    assert SUCCESS.message == "" and SKIP.message == ""


def test_a_status_is_signed_once() -> None:
    plain = Status.error("x")
    signed = plain.by("First")
    assert signed.plugin == "First" and signed.by("Second") is signed
    assert plain.plugin == "", "the status that was signed stays as it was"


def test_statuses_are_values() -> None:
    assert Status.error("x").by("A") == Status(Code.ERROR, ("x",), "A") != Status.error("x")
    assert len({SUCCESS, Status(), SKIP, Status.error("x"), Status.error("x")}) == 3
