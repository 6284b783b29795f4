"""Which events each in-tree plugin registers in the default configuration: the specification's table, all of it."""

from __future__ import annotations

import pytest

from mooring.core.config.load import config_from_dict
from mooring.core.queue.pending import wake_labels
from mooring.core.queue.profile import QueueProfile, from_runtime
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState

NODE_ADD, TAINT, LABEL, ALLOCATABLE = (
    "NodeAdd",
    "NodeUpdateNodeTaint",
    "NodeUpdateNodeLabel",
    "NodeUpdateNodeAllocatable",
)
PVC, PV, CLASS = "PersistentVolumeClaim", "PersistentVolume", "storage.k8s.io/StorageClass"
CSI_NODE, CAPACITY = "storage.k8s.io/CSINode", "storage.k8s.io/CSIStorageCapacity"
DEVICE_CLASS, CLAIM, SLICE = (f"resource.k8s.io/{kind}" for kind in ("DeviceClass", "ResourceClaim", "ResourceSlice"))


def add_and_update(kind):
    return {f"{kind}Add", f"{kind}Update"}


WANT = {
    "SchedulingGates": {"PodUpdatePodSchedulingGatesEliminated"},
    "NodeUnschedulable": {NODE_ADD, TAINT, "PodUpdatePodToleration"},
    "NodeName": {NODE_ADD, TAINT},
    "TaintToleration": {NODE_ADD, TAINT, "PodUpdatePodToleration"},
    "NodeAffinity": {NODE_ADD, LABEL, TAINT},
    "NodePorts": {NODE_ADD, TAINT, "PodDelete"},
    "NodeResourcesFit": {NODE_ADD, ALLOCATABLE, TAINT, "PodDelete", "PodUpdatePodScaleDown"}
    | add_and_update(DEVICE_CLASS),
    "VolumeRestrictions": {NODE_ADD, TAINT, "PodDelete", f"{PVC}Add"},
    "NodeVolumeLimits": {"PodDelete", f"{PVC}Add", "storage.k8s.io/VolumeAttachmentDelete"} | add_and_update(CSI_NODE),
    "VolumeBinding": {NODE_ADD, LABEL, TAINT, "storage.k8s.io/CSIDriverUpdate"}
    | add_and_update(CLASS)
    | add_and_update(PVC)
    | add_and_update(PV)
    | add_and_update(CSI_NODE)
    | add_and_update(CAPACITY),
    "VolumeZone": {NODE_ADD, LABEL, TAINT, f"{CLASS}Add"} | add_and_update(PVC) | add_and_update(PV),
    "PodTopologySpread": {NODE_ADD, "NodeDelete", LABEL, TAINT}
    | {"PodAdd", "PodDelete", "PodUpdatePodLabel", "PodUpdatePodToleration"},
    "InterPodAffinity": {NODE_ADD, LABEL, TAINT, "PodAdd", "PodDelete", "PodUpdatePodLabel"},
    "DynamicResources": {NODE_ADD, LABEL, ALLOCATABLE, TAINT, "PodUpdatePodGeneratedResourceClaim"}
    | add_and_update(CLAIM)
    | add_and_update(DEVICE_CLASS)
    | add_and_update(SLICE),
    "DefaultPreemption": {"PodDelete"},
    "NodeDeclaredFeatures": {NODE_ADD, "NodeUpdateNodeDeclaredFeature", TAINT, "PodUpdate"},
}


@pytest.fixture(scope="module")
def default_profile() -> QueueProfile:
    session = open_session(config_from_dict(None), ClusterState())
    return from_runtime(session.profiles["default-scheduler"])


@pytest.mark.parametrize("plugin", WANT)
def test_registered_events(default_profile, plugin):
    events = [hint.event for hint in default_profile.hints if hint.plugin == plugin]
    assert set(wake_labels(events)) == WANT[plugin]


def test_other_plugins_register_for_nothing(default_profile):
    assert {hint.plugin for hint in default_profile.hints} == set(WANT)


def test_gatekeepers_are_asked_in_configured_order(default_profile):
    names = [plugin.name for plugin in default_profile.pre_enqueue]
    assert names == ["SchedulingGates", "DynamicResources", "DefaultPreemption"]
