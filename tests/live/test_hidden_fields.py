"""Gates that are off hide their fields; gates that are on leave objects as they are."""

from __future__ import annotations

import pytest

from mooring.api.codec import from_plain
from mooring.api.resource import ResourceSlice
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.live.event_handlers import view_of
from mooring.testing import make_node, make_pod

SPREAD = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"]}
POD = make_pod(
    "web",
    cpu="1",
    spec={"resources": {"requests": {"cpu": "3"}}, "topologySpreadConstraints": [SPREAD]},
    status={"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "4"}},
)
TAINT = {"key": "broken", "effect": "NoSchedule"}
SLICE = from_plain(
    ResourceSlice,
    {
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "0", "taints": [TAINT]}, {"name": "1"}]},
    },
)
RESIZE = "InPlacePodLevelResourcesVerticalScaling"


def test_with_the_default_gates_there_is_nothing_to_hide():
    assert view_of(DEFAULT_FEATURES) is None


def test_pod_level_resources():
    seen = view_of(Features(PodLevelResources=False, InPlacePodLevelResourcesVerticalScaling=False))(POD)
    assert seen.spec.resources is None and POD.spec.resources is not None, "the object itself stays as it is"
    assert seen.status.resources is None and not seen.status.allocated_resources


def test_resized_pod_level_resources():
    seen = view_of(Features(InPlacePodLevelResourcesVerticalScaling=False))(POD)
    assert seen.spec.resources.requests == {"cpu": "3"} and seen.status.resources is None


def test_match_label_keys():
    seen = view_of(Features(MatchLabelKeysInPodTopologySpread=False))(POD)
    (constraint,) = seen.spec.topology_spread_constraints
    assert constraint.match_label_keys == [] and constraint.topology_key == "zone"


def test_device_taints():
    seen = view_of(Features(DRADeviceTaints=False))(SLICE)
    assert [device.taints for device in seen.spec.devices] == [[], []]
    assert SLICE.spec.devices[0].taints


@pytest.mark.parametrize("obj", [make_pod("plain"), make_node("a")], ids=["a plain pod", "a node"])
def test_what_has_no_such_fields_is_the_same_object(obj):
    off = Features(
        PodLevelResources=False,
        InPlacePodLevelResourcesVerticalScaling=False,
        MatchLabelKeysInPodTopologySpread=False,
        DRADeviceTaints=False,
    )
    assert view_of(off)(obj) is obj


@pytest.mark.parametrize(
    ("features", "binds"),
    [
        pytest.param({}, False, id="the pod as a whole asks for three"),
        pytest.param({"PodLevelResources": False, RESIZE: False}, True, id="its containers ask for one"),
    ],
)
async def test_the_scheduler_decides_by_what_it_sees(make_stage, features, binds):
    stage = make_stage(features=Features(**features))
    stage.put(make_node("a", cpu="2"), make_pod("web", cpu="1", spec={"resources": {"requests": {"cpu": "3"}}}))
    await stage.go()
    assert (stage.writer.sent[:1] == [("bind", "web:a")]) is binds
