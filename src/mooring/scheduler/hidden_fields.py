"""Feature gates that are off: the scheduler does not see the fields that belong to them.

| gate | without it |
|---|---|
| PodLevelResources | a pod asks for what its containers ask for |
| InPlacePodLevelResourcesVerticalScaling | what a pod as a whole was resized to does not count |
| MatchLabelKeysInPodTopologySpread | matchLabelKeys do not narrow a constraint's selector |
| DRADeviceTaints | devices have no taints |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.resource import ResourceSlice

View = Callable[[Object], Object]


def view_of(features: Mapping[str, bool]) -> View | None:
    """How objects look to a scheduler with these gates; None: as they are."""
    views: list[tuple[type[Object], Callable[..., Object]]] = []
    if not features["PodLevelResources"]:
        views.append((Pod, _without_pod_level))
    if not features["InPlacePodLevelResourcesVerticalScaling"]:
        views.append((Pod, _without_resized_level))
    if not features["MatchLabelKeysInPodTopologySpread"]:
        views.append((Pod, _without_match_label_keys))
    if not features["DRADeviceTaints"]:
        views.append((ResourceSlice, _without_taints))

    def view(obj: Object) -> Object:
        for kind, hide in views:
            if isinstance(obj, kind):
                obj = hide(obj)
        return obj

    return view if views else None


def _without_pod_level(pod: Pod) -> Pod:
    return pod if pod.spec.resources is None else replace(pod, spec=replace(pod.spec, resources=None))


def _without_resized_level(pod: Pod) -> Pod:
    status = pod.status
    if status.resources is None and not status.allocated_resources:
        return pod
    return replace(pod, status=replace(status, resources=None, allocated_resources={}))


def _without_match_label_keys(pod: Pod) -> Pod:
    constraints = pod.spec.topology_spread_constraints
    if not any(constraint.match_label_keys for constraint in constraints):
        return pod
    plain = [replace(constraint, match_label_keys=[]) for constraint in constraints]
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=plain))


def _without_taints(resource_slice: ResourceSlice) -> ResourceSlice:
    devices = resource_slice.spec.devices
    if not any(device.taints for device in devices):
        return resource_slice
    untainted = [replace(device, taints=[]) for device in devices]
    return replace(resource_slice, spec=replace(resource_slice.spec, devices=untainted))
