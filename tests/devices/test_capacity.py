from __future__ import annotations

from fractions import Fraction

import pytest

from mooring.api.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    DeviceCapacity,
)
from mooring.devices.capacity import consumed_by, fits, format_binary, has_unknown_request

GI = 1 << 30


@pytest.mark.parametrize(
    ("value", "want"),
    [(0, "0"), (5, "5"), (1000, "1k"), (1024, "1Ki"), (1025, "1025"), (3 * GI, "3Gi"), (3 * GI // 2, "1536Mi")],
)
def test_binary_notation(value: int, want: str) -> None:
    assert format_binary(value) == want


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
