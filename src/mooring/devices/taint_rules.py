"""DeviceTaintRules: taints that an administrator puts on devices, whatever their drivers publish."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mooring.api.resource import DeviceTaintRule, ResourceSlice


def applies_to(rule: DeviceTaintRule, published: ResourceSlice) -> bool:
    """Report whether the rule may taint a device of the slice. A selector that is left out selects everything."""
    selector = rule.spec.device_selector
    if selector is None:
        return True
    spec = published.spec
    return selector.driver in (None, spec.driver) and selector.pool in (None, spec.pool.name)


def tainted(published: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """The slice with the taints of all rules after those of its driver; the same object if no rule applies."""
    matching = [rule for rule in rules if applies_to(rule, published)]
    if not matching:
        return published
    devices = []
    for device in published.spec.devices:
        more = [rule.spec.taint for rule in matching if _names(rule, device.name)]
        devices.append(replace(device, taints=[*device.taints, *more]) if more else device)
    return replace(published, spec=replace(published.spec, devices=devices))


def _names(rule: DeviceTaintRule, device: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or selector.device in (None, device)
