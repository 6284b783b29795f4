from __future__ import annotations

from fractions import Fraction

import pytest

from mooring.api.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, CapacityRequirements, DeviceCapacity
from mooring.core.plugins.devices.constraints import (
    CapacityProblem,
    consumed_by,
    fits,
    format_like,
    has_unknown_request,
)
from mooring.core.plugins.devices.pools import FIRST_RULES, Rules

GI = 1 << 30


@pytest.mark.parametrize(
    ("value", "want"),
    [(0, "0"), (5, "5"), (1000, "1k"), (1024, "1Ki"), (1025, "1025"), (3 * GI, "3Gi"), (3 * GI // 2, "1536Mi")],
)
def test_binary_notation(value: int, want: str) -> None:
    assert format_like(Fraction(value), "1Ki") == want


@pytest.mark.parametrize(
    ("value", "like", "want"),
    [
        (2 * 10**9, "1G", "2G"),
        (2 * 10**9, "100", "2G"),
        (2 * 10**9, 1, "2G"),
        (2 * 10**9, "1Gi", "1953125Ki"),
        (2 * 10**9, "1e9", "2e9"),
        (1500, "1E", "1500"),
        (Fraction(3, 10), "100m", "300m"),
        (Fraction(3, 2), "1Ki", "1500m"),
        (Fraction(3, 2), "1e3", "1500e-3"),
        (Fraction(1, 10**6), "1", "1u"),
        (-2048, "1Ki", "-2Ki"),
    ],
)
def test_notation(value: int | Fraction, like: str | int, want: str) -> None:
    assert format_like(Fraction(value), like) == want


def policy(**kwargs: object) -> DeviceCapacity:
    return DeviceCapacity(value="40Gi", request_policy=CapacityRequestPolicy(**kwargs))  # type: ignore[arg-type]


STEPS = policy(default="4Gi", valid_range=CapacityRequestPolicyRange(min="4Gi", max="20Gi", step="4Gi"))
VALUES = policy(default="8Gi", valid_values=["8Gi", "16Gi"])


@pytest.mark.parametrize(
    ("offered", "asked", "share", "fit"),
    [
        pytest.param(DeviceCapacity("40Gi"), None, "40Gi", True, id="without a policy all of it"),
        pytest.param(DeviceCapacity("40Gi"), "10Gi", "10Gi", True, id="as asked"),
        pytest.param(DeviceCapacity("40Gi"), "41Gi", "41Gi", False, id="more than there is"),
        pytest.param(STEPS, None, "4Gi", True, id="the policy's default"),
        pytest.param(STEPS, "1Gi", "4Gi", True, id="raised to the minimum"),
        pytest.param(STEPS, "9Gi", "12Gi", True, id="rounded up to a step"),
        pytest.param(STEPS, "8Gi", "8Gi", True, id="a step stays"),
        pytest.param(STEPS, "21Gi", "24Gi", False, id="above the maximum"),
        pytest.param(VALUES, "9Gi", "16Gi", True, id="the next valid value"),
        pytest.param(VALUES, "17Gi", "17Gi", False, id="above all valid values"),
        pytest.param(policy(valid_range=CapacityRequestPolicyRange(min="1Gi")), "3Gi", "3Gi", True, id="no step"),
    ],
)
def test_share(offered: DeviceCapacity, asked: str | None, share: str, fit: bool) -> None:
    wanted = CapacityRequirements({"memory": asked}) if asked is not None else None
    assert consumed_by(wanted, {"memory": offered}) == {"memory": share}
    assert fits(wanted, {"memory": offered}, {}, {}) is fit


def test_what_others_consume_counts() -> None:
    wanted, capacity = CapacityRequirements({"memory": "10Gi"}), {"memory": DeviceCapacity("40Gi")}
    assert fits(wanted, capacity, {"memory": Fraction(20 * GI)}, {"memory": Fraction(10 * GI)})
    assert not fits(wanted, capacity, {"memory": Fraction(20 * GI)}, {"memory": Fraction(10 * GI + 1)})


def test_a_capacity_that_the_device_does_not_have() -> None:
    assert has_unknown_request(CapacityRequirements({"cores": 1}), {"memory": DeviceCapacity("1")})
    assert not has_unknown_request(CapacityRequirements(None), {})
    assert not has_unknown_request(None, {})


LATER = Rules(refuses_odd_amounts=True, keeps_notation=True)
FRACTIONS = Rules(refuses_odd_amounts=True, keeps_notation=True, counts_milli=True)


def stepped(value: str, least: str, step: str, most: str | None = None) -> DeviceCapacity:
    allowed = CapacityRequestPolicyRange(min=least, max=most, step=step)
    return DeviceCapacity(value=value, request_policy=CapacityRequestPolicy(valid_range=allowed))


@pytest.mark.parametrize(
    ("rules", "offered", "asked", "share", "fit"),
    [
        pytest.param(FIRST_RULES, stepped("8G", "1G", "1G"), "1500M", "1953125Ki", True, id="binary before 1.37"),
        pytest.param(LATER, stepped("8G", "1G", "1G"), "1500M", "2G", True, id="as the step since 1.37"),
        pytest.param(LATER, stepped("1", "100m", "100m"), "250m", "1", True, id="steps are whole without the gate"),
        pytest.param(FRACTIONS, stepped("1", "100m", "100m"), "250m", "300m", True, id="steps of a tenth"),
        pytest.param(FRACTIONS, stepped("1", "100m", "100m"), "950m", "1", True, id="tenths that make a whole"),
        pytest.param(FRACTIONS, stepped("1", "100m", "100m", "500m"), "550m", "600m", False, id="above the maximum"),
        pytest.param(FRACTIONS, stepped("1", "100m", "200m"), "50m", "100m", True, id="the least"),
        pytest.param(FRACTIONS, stepped("8Gi", "1Gi", "1Gi"), "1500Mi", "2Gi", True, id="whole steps as before"),
        pytest.param(FRACTIONS, stepped("1", "1u", "1"), "2u", "1", True, id="too fine a range is counted in units"),
    ],
)
def test_share_of_a_version(rules: Rules, offered: DeviceCapacity, asked: str, share: str, fit: bool) -> None:
    wanted = CapacityRequirements({"memory": asked})
    assert consumed_by(wanted, {"memory": offered}, rules) == {"memory": share}
    assert fits(wanted, {"memory": offered}, {}, {}, rules) is fit


@pytest.mark.parametrize(
    ("rules", "offered", "asked", "problem"),
    [
        pytest.param(LATER, stepped("40Gi", "1", "1"), "10E", "request 10E exceeds MaxInt64", id="too large"),
        pytest.param(
            LATER,
            stepped("40Gi", "0", "5E"),
            "9E",
            "rounding request 9E up to the next step passes MaxInt64",
            id="too large when rounded up",
        ),
        pytest.param(
            FRACTIONS,
            stepped("1", "100m", "100m"),
            "250001u",
            "request 250001u is not a representable milli value",
            id="too fine",
        ),
    ],
)
def test_amounts_that_cannot_be_computed_with(rules: Rules, offered: DeviceCapacity, asked: str, problem: str) -> None:
    text = "capacity request cannot be represented in the device's range arithmetic"
    with pytest.raises(CapacityProblem) as found:
        fits(CapacityRequirements({"memory": asked}), {"memory": offered}, {}, {}, rules)
    assert str(found.value) == f'capacity "memory": {text}: {problem}'


def test_a_negative_amount() -> None:
    wanted, capacity = CapacityRequirements({"memory": "-1"}), {"memory": DeviceCapacity("4")}
    assert fits(wanted, capacity, {}, {})
    with pytest.raises(CapacityProblem, match='capacity "memory": capacity value is negative'):
        fits(wanted, capacity, {}, {}, LATER)
