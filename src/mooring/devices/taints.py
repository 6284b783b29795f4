"""Device taints, and which requests tolerate them."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.api.resource import Device, DeviceTaint, DeviceToleration


def prevents_allocation(device: Device, tolerations: Sequence[DeviceToleration]) -> bool:
    """Report whether a taint keeps the device from being taken; effects that are not known do not."""
    return any(
        taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(t, taint) for t in tolerations)
        for taint in device.taints
    )


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
