"""Queueing hints of NodeResourcesFit."""

from __future__ import annotations

import pytest

from mooring.api.codec import from_plain
from mooring.api.errors import ParseError
from mooring.api.resource import DeviceClass
from mooring.core.config.types import NodeResourcesFitArgs
from mooring.core.framework.handle import NoDevices
from mooring.core.plugins.node_resources_fit import NodeResourcesFit


@pytest.fixture
def fit(handle):
    return NodeResourcesFit(NodeResourcesFitArgs(), handle)


class Backing(NoDevices):
    def __init__(self, *resources):
        self.resources = resources

    def backs(self, resource):
        return resource in self.resources


ASKED = {"cpu": "500m", "memory": "1Gi"}
ROOMY = {"cpu": "1", "memory": "2Gi", "pods": "10"}


@pytest.mark.parametrize(
    ("node_name", "nominated", "want"),
    [
        pytest.param("n1", "", "Queue", id="a pod on a node has gone"),
        pytest.param("", "n1", "Queue", id="a pod that was promised a node has gone"),
        pytest.param("", "", "Skip", id="a pod without a node has gone"),
    ],
)
def test_after_a_pod_is_deleted(fit, pod, ask, node_name, nominated, want):
    gone = pod("gone", node=node_name, nominated=nominated)
    assert ask(fit, "ASSIGNED_POD", "DELETE", pod(requests=ASKED), gone, None) == want


@pytest.mark.parametrize(
    ("who", "node_name", "before", "after", "want"),
    [
        pytest.param("waiting", "", {"cpu": "1"}, {"cpu": "500m"}, "Queue", id="the pod itself asks for less"),
        pytest.param("other", "n1", {"cpu": "1"}, {"cpu": "500m"}, "Queue", id="a running pod shrinks enough"),
        pytest.param("other", "", {"cpu": "1"}, {"cpu": "500m"}, "Skip", id="a pending pod frees nothing"),
        pytest.param("other", "n1", {"x.io/gpu": "2"}, {"x.io/gpu": "1"}, "Skip", id="something it does not need"),
        pytest.param("other", "n1", {"cpu": "1"}, {"cpu": "1"}, "Skip", id="nothing"),
    ],
)
def test_after_a_pod_is_scaled_down(fit, pod, ask, who, node_name, before, after, want):
    old, new = pod(who, node=node_name, requests=before), pod(who, node=node_name, requests=after)
    assert ask(fit, "ASSIGNED_POD", "UPDATE_POD_SCALE_DOWN", pod(requests=ASKED), old, new) == want


@pytest.mark.parametrize(
    ("requests", "before", "after", "want"),
    [
        pytest.param(ASKED, None, ROOMY, "Queue", id="a new node with room"),
        pytest.param(ASKED, None, ROOMY | {"cpu": "400m"}, "Skip", id="a new node that is too small"),
        pytest.param(ASKED, None, {"cpu": "1", "memory": "2Gi"}, "Skip", id="a new node that takes no pods"),
        pytest.param({}, None, {"pods": "1"}, "Queue", id="a pod that asks for nothing needs only a place"),
        pytest.param({"x.io/gpu": "1"}, None, ROOMY, "Skip", id="a new node without the resource"),
        pytest.param({"x.io/gpu": "0"}, None, ROOMY, "Queue", id="zero of a resource is nothing"),
        pytest.param(ASKED, ROOMY, ROOMY | {"cpu": "2"}, "Queue", id="more of what it needs"),
        pytest.param(ASKED, ROOMY, ROOMY | {"memory": "1.5Gi"}, "Skip", id="less of what it needs"),
        pytest.param(ASKED, ROOMY, ROOMY | {"x.io/gpu": "1"}, "Skip", id="more of something else"),
        pytest.param(ASKED, ROOMY, ROOMY | {"pods": "11"}, "Queue", id="more places"),
        pytest.param({}, ROOMY, ROOMY | {"cpu": "2"}, "Skip", id="a pod that asks for nothing does not need more"),
        pytest.param(
            {"x.io/gpu": "1"}, ROOMY, ROOMY | {"x.io/gpu": "1"}, "Queue", id="a node has got the extended resource"
        ),
    ],
)
def test_after_a_node_change(fit, pod, node, ask, requests, before, after, want):
    old = None if before is None else node(allocatable=before)
    action = "ADD" if old is None else "UPDATE_NODE_ALLOCATABLE"
    assert ask(fit, "NODE", action, pod(requests=requests), old, node(allocatable=after)) == want


@pytest.mark.parametrize(
    ("before", "want"),
    [pytest.param(None, "Queue", id="a new node"), pytest.param(ROOMY, "Queue", id="any change of a node's amounts")],
)
def test_a_resource_that_devices_stand_for_fits_where_no_number_is_given(handle, fit, pod, node, ask, before, want):
    handle.devices = Backing("x.io/gpu")
    old = None if before is None else node(allocatable=before)
    action = "ADD" if old is None else "UPDATE_NODE_ALLOCATABLE"
    assert ask(fit, "NODE", action, pod(requests={"x.io/gpu": "1"}), old, node(allocatable=ROOMY)) == want


def test_an_amount_that_does_not_parse_is_an_error_and_so_worth_an_attempt(fit, pod, node, ask):
    with pytest.raises(ParseError):
        ask(fit, "NODE", "ADD", pod(requests=ASKED), None, node(allocatable=ROOMY | {"cpu": "many"}))


def test_a_taint_is_worth_an_attempt_whatever_the_room(fit, pod, node, ask):
    assert ask(fit, "NODE", "UPDATE_NODE_TAINT", pod(requests=ASKED), node(), node()) == "Queue"
    assert ask(fit, "NODE", "UPDATE_NODE_LABEL", pod(requests=ASKED), node(), node()) == "Deaf"
    assert ask(fit, "ASSIGNED_POD", "ADD", pod(requests=ASKED), None, pod("new", node="n1")) == "Deaf"


def device_class(resource):
    spec = {} if resource is None else {"extendedResourceName": resource}
    return from_plain(DeviceClass, {"metadata": {"name": "gpu"}, "spec": spec})


IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


@pytest.mark.parametrize(
    ("asks_for", "before", "after", "want"),
    [
        pytest.param("x.io/gpu", "absent", "x.io/gpu", "Queue", id="a new class backs it"),
        pytest.param("x.io/gpu", "absent", "x.io/other", "Skip", id="a new class backs another"),
        pytest.param("x.io/gpu", "absent", None, "Skip", id="a new class backs nothing"),
        pytest.param(IMPLICIT, "absent", None, "Queue", id="a new class is asked for by its own name"),
        pytest.param(IMPLICIT, None, "x.io/other", "Skip", id="a class's own name does not change"),
        pytest.param("x.io/gpu", None, "x.io/gpu", "Queue", id="a class now backs it"),
        pytest.param("x.io/gpu", "x.io/gpu", "x.io/gpu", "Skip", id="a class stood for it before"),
        pytest.param("x.io/gpu", "x.io/gpu", None, "Skip", id="a class no longer backs it"),
    ],
)
def test_after_a_device_class_event(fit, pod, ask, asks_for, before, after, want):
    old = None if before == "absent" else device_class(before)
    action = "ADD" if old is None else "UPDATE"
    assert ask(fit, "DEVICE_CLASS", action, pod(requests={asks_for: "1"}), old, device_class(after)) == want


def test_device_classes_are_not_registered_without_the_gate(handle, pod, ask):
    handle.features = {"DRAExtendedResource": False}
    fit = NodeResourcesFit(NodeResourcesFitArgs(), handle)
    assert ask(fit, "DEVICE_CLASS", "ADD", pod(), None, device_class("x.io/gpu")) == "Deaf"
