"""Gates that plugins heed themselves."""

from __future__ import annotations

import pytest

from mooring.core.config.features import Features
from mooring.core.config.load import config_from_dict
from mooring.core.session import open_session
from mooring.testing import make_cluster, make_node, make_object, make_pod


def message(pod, *nodes, **features: bool) -> str:
    """What the scheduler says of a pod; empty if it finds a node."""
    cluster = make_cluster(*nodes)
    session = open_session(config_from_dict(None), cluster, features=Features(**features))
    decision = session.engine.decide(cluster.info(pod), session.profiles["default-scheduler"])
    return "" if decision.node else decision.message


@pytest.mark.parametrize(
    ("toleration", "is_on", "fits"),
    [
        pytest.param({"operator": "Gt", "value": "900"}, False, False, id="Gt is ignored without the gate"),
        pytest.param({"operator": "Gt", "value": "900"}, True, True, id="950 is greater than 900"),
        pytest.param({"operator": "Gt", "value": "950"}, True, False, id="950 is not greater than 950"),
        pytest.param({"operator": "Lt", "value": "1000"}, True, True, id="950 is less than 1000"),
        pytest.param({"operator": "Lt", "value": "words"}, True, False, id="words are not compared"),
    ],
)
def test_taint_toleration_comparison_operators(toleration, is_on, fits):
    pod = make_pod("web", spec={"tolerations": [{"key": "sla", **toleration}]})
    node = make_node("a", taints=["sla=950:NoSchedule"])
    assert (message(pod, node, TaintTolerationComparisonOperators=is_on) == "") is fits


DEVICE_CLASS = make_object("DeviceClass", "gpu", spec={})
ALTERNATIVE = {"name": "small", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
CLAIM = make_object(
    "ResourceClaim",
    "c",
    "default",
    spec={"devices": {"requests": [{"name": "r", "firstAvailable": [ALTERNATIVE]}]}},
)
DEVICES = make_object(
    "ResourceSlice",
    "s",
    spec={
        "driver": "gpu.example",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "0"}],
    },
)


@pytest.mark.parametrize(
    ("is_on", "says"),
    [
        pytest.param(True, "", id="alternatives are tried"),
        pytest.param(
            False,
            "resource claim default/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled",
            id="alternatives are refused without the gate",
        ),
    ],
)
def test_dra_prioritized_list(is_on, says):
    pod = make_pod("web", spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})
    found = message(pod, make_node("a"), DEVICE_CLASS, CLAIM, DEVICES, DRAPrioritizedList=is_on)
    assert says in found and bool(found) is bool(says)


@pytest.mark.parametrize(
    ("is_on", "fits"),
    [
        pytest.param(True, True, id="a device class backs the resource"),
        pytest.param(False, False, id="without the gate the node has none of it"),
    ],
)
def test_dra_extended_resource(is_on, fits):
    extended = make_object("DeviceClass", "gpu", spec={"extendedResourceName": "example.com/gpu"})
    pod = make_pod("web", requests={"example.com/gpu": 1})
    assert (message(pod, make_node("a"), extended, DEVICES, DRAExtendedResource=is_on) == "") is fits
