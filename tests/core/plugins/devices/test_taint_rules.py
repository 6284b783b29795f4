"""DeviceTaintRules: which devices they taint, and what that does to pods."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.core.config.types import DynamicResourcesArgs
from mooring.core.framework.cluster_event import EventResource, Hint
from mooring.core.plugins.devices.cluster_devices import tainted
from mooring.core.plugins.dynamic_resources import DynamicResources
from mooring.testing import Scheduler, filter_statuses, make_handle, make_node, make_object, make_pod

EXACTLY = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}


def rule(name: str = "rule", selector: dict[str, str] | None = None, **taint: str) -> Any:
    spec: dict[str, Any] = {"taint": {**TAINT, **taint}}
    if selector is not None:
        spec["deviceSelector"] = selector
    return make_object("DeviceTaintRule", name, spec=spec)


def published(node: str, *devices: str, driver: str = "gpu.example.com") -> Any:
    spec = {
        "driver": driver,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "nodeName": node,
        "devices": [{"name": device} for device in devices],
    }
    return make_object("ResourceSlice", f"slice-{node}", spec=spec)


@pytest.mark.parametrize(
    ("selector", "devices"),
    [
        pytest.param(None, ["d1", "d2"], id="no selector, every device"),
        pytest.param({}, ["d1", "d2"], id="an empty one, too"),
        pytest.param({"driver": "gpu.example.com"}, ["d1", "d2"], id="the driver"),
        pytest.param({"driver": "other.example.com"}, [], id="another driver"),
        pytest.param({"pool": "a"}, ["d1", "d2"], id="the pool"),
        pytest.param({"pool": "b"}, [], id="another pool"),
        pytest.param({"device": "d2"}, ["d2"], id="one device"),
        pytest.param({"driver": "gpu.example.com", "pool": "a", "device": "d1"}, ["d1"], id="all three"),
        pytest.param({"driver": "gpu.example.com", "pool": "b", "device": "d1"}, [], id="all must match"),
    ],
)
def test_which_devices_a_rule_taints(selector: dict[str, str] | None, devices: list[str]) -> None:
    before = published("a", "d1", "d2")
    after = tainted(before, [rule(selector=selector)])
    assert [device.name for device in after.spec.devices if device.taints] == devices
    assert not any(device.taints for device in before.spec.devices), "what the driver published stays"


def test_taints_of_rules_come_after_those_of_the_driver() -> None:
    slice_ = tainted(published("a", "d1"), [rule("x", key="one")])
    again = tainted(slice_, [rule("y", key="two"), rule("z", {"pool": "b"}, key="three")])
    assert [taint.key for taint in again.spec.devices[0].taints] == ["one", "two"]


def scheduler(version: str, *more: Any) -> Scheduler:
    gpu = make_object("DeviceClass", "gpu", spec={})
    claim = make_object(
        "ResourceClaim",
        "claim",
        "default",
        spec={"devices": {"requests": [{"name": "r", "exactly": EXACTLY}]}},
    )
    nodes = (make_node("a"), make_node("b"))
    return Scheduler(*nodes, gpu, claim, published("a", "d1"), published("b", "d1"), *more, kubernetes_version=version)


POD = make_pod(spec={"resourceClaims": [{"name": "c", "resourceClaimName": "claim"}]})


def feasible(on: Scheduler) -> list[str]:
    statuses = on.decide(POD).statuses
    assert statuses is not None
    return [name for name in ("a", "b") if statuses.get(name).is_success]


@pytest.mark.parametrize(
    ("version", "nodes"), [pytest.param("1.36", ["a", "b"], id="1.36"), pytest.param("1.37", ["b"], id="1.37")]
)
def test_a_pod_gets_no_device_that_a_rule_taints(version: str, nodes: list[str]) -> None:
    assert feasible(scheduler(version, rule(selector={"pool": "a"}))) == nodes


def test_the_gate_of_1_36() -> None:
    cluster = scheduler("1.36", rule(selector={"pool": "a"})).cluster
    plugin = DynamicResources(DynamicResourcesArgs(), make_handle(cluster, features={"DRADeviceTaintRules": True}))
    refused = filter_statuses(plugin, cluster, POD)
    assert [name for name, status in refused.items() if status.is_success] == ["b"]


def test_rules_and_slices_may_come_and_go() -> None:
    on = scheduler("1.37")
    assert feasible(on) == ["a", "b"]
    on.put(rule(selector={"pool": "a"}))
    assert feasible(on) == ["b"]
    on.put(rule(selector={"pool": "b"}))
    assert feasible(on) == ["a"]
    on.put(published("b", "d1", "d2"))
    assert feasible(on) == ["a"]
    on.put(rule(effect="None"))
    assert feasible(on) == ["a", "b"]
    on.put(rule(selector={"device": "d1"}))
    assert feasible(on) == ["b"]
    on.cluster.objects.remove(type(rule()), "rule")
    assert feasible(on) == ["a", "b"]


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param(rule(), None, Hint.QUEUE, id="a rule is gone"),
        pytest.param(None, rule(selector={"pool": "a"}), Hint.QUEUE, id="a rule is new"),
        pytest.param(
            rule(selector={"pool": "a"}), rule(selector={"pool": "z"}), Hint.QUEUE, id="a rule looks elsewhere"
        ),
        pytest.param(rule(selector={"pool": "z"}), None, Hint.SKIP, id="no slice is concerned"),
    ],
)
def test_what_a_rule_wakes(before: Any, after: Any, hint: Hint) -> None:
    plugin = scheduler("1.37").profiles["default-scheduler"].plugins["DynamicResources"]
    assert plugin.events_to_register is not None
    (about_rules,) = (
        each for each in plugin.events_to_register() if each.event.resource is EventResource.DEVICE_TAINT_RULE
    )
    assert about_rules.hint is not None
    assert about_rules.hint(POD, before, after) is hint


def test_until_1_36_no_plugin_registers_for_rules() -> None:
    plugin = scheduler("1.36").profiles["default-scheduler"].plugins["DynamicResources"]
    assert plugin.events_to_register is not None
    assert EventResource.DEVICE_TAINT_RULE not in {each.event.resource for each in plugin.events_to_register()}
