"""What a cluster is busy with besides plain pods: volumes, devices, gangs.

A load is what a plan's cluster has in the beginning, the pods that use it, and the controllers that they need. Claims
are made for their pods and go with them, so a pod is created and deleted as any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

from mooring.api.well_known import HOSTNAME
from mooring.controlplane.cluster.base import ClusterApi, Controller, Timers
from mooring.controlplane.cluster.claims import EphemeralVolumeController, ResourceClaimController, VolumeController
from mooring.controlplane.registry.groups.volumes import PERSISTENT_VOLUMES as VOLUMES
from mooring.controlplane.storage.store import DELETED, Event

VOLUMES_LOAD, DEVICES_LOAD, GANGS_LOAD = "volumes", "devices", "gangs"
LOADS = VOLUMES_LOAD, DEVICES_LOAD, GANGS_LOAD
DEVICES_PER_NODE = 2
LOCAL = "local"
_STORAGE = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "volumeBindingMode": "WaitForFirstConsumer"}
_TEMPLATE = "one-device"
_DRIVER = "devices.example.com"


def set_up(load: str, nodes: int) -> list[dict[str, Any]]:
    """The initial objects."""
    if load == VOLUMES_LOAD:
        late = {**_STORAGE, "metadata": {"name": "late"}, "provisioner": "disks.example.com"}
        local = {**_STORAGE, "metadata": {"name": LOCAL}, "provisioner": "kubernetes.io/no-provisioner"}
        return [late, local, *(_disk(f"node-{i}") for i in range(nodes))]
    if load == DEVICES_LOAD:
        api = {"apiVersion": "resource.k8s.io/v1"}
        wanted = {"requests": [{"name": "device", "exactly": {"deviceClassName": _DRIVER}}]}
        spec = {"spec": {"devices": wanted}}
        return [
            {**api, "kind": "DeviceClass", "metadata": {"name": _DRIVER}, "spec": {}},
            {**api, "kind": "ResourceClaimTemplate", "metadata": {"name": _TEMPLATE}, "spec": spec},
            *(_slice(f"node-{i}") for i in range(nodes)),
        ]
    return []


def _disk(node: str) -> dict[str, Any]:
    here = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": LOCAL,
        "persistentVolumeReclaimPolicy": "Delete",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"disk-{node}"}, "spec": spec}


def _slice(node: str) -> dict[str, Any]:
    spec = {
        "nodeName": node,
        "driver": _DRIVER,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"device-{i}"} for i in range(DEVICES_PER_NODE)],
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


def wants(how: str) -> dict[str, Any]:
    """What the spec of a pod says that wants a volume (``late``, ``local``) or a ``device``."""
    if how == "device":
        return {"resourceClaims": [{"name": "device", "resourceClaimTemplateName": _TEMPLATE}]}
    if how not in ("late", LOCAL):
        return {}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": how,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]}


def gang(name: str, size: int) -> dict[str, Any]:
    """The group of pods that are bound together or not at all."""
    spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def is_tied(pod: dict[str, Any]) -> bool:
    """Whether a pod may be able to go to one place only, or only with others."""
    spec = pod["spec"]
    return bool(spec.get("volumes") or spec.get("resourceClaims") or spec.get("schedulingGroup"))


class LocalDisks(Controller):
    """Puts a local disk back after its claim is gone and it was released, as a static provisioner does."""

    watches: ClassVar[tuple[str, ...]] = ("persistentvolumes",)

    def __init__(self, api: ClusterApi, timers: Timers, disks: dict[str, Any]) -> None:
        super().__init__(api, timers)
        self._disks = disks

    def start(self) -> None:
        super().start()
        for name in self._disks:
            self.enqueue(name)

    def noted(self, event: Event) -> Iterable[str]:
        return (event.entry.key,) if event.type == DELETED else ()

    def reconcile(self, key: str) -> None:
        disk = self._disks.get(key)
        if disk is not None and self.store.entry(VOLUMES, key) is None:
            self.api.create(VOLUMES, "", msgspec.json.decode(msgspec.json.encode(disk)))


def controllers(load: str, api: ClusterApi, timers: Timers, created: Iterable[dict[str, Any]]) -> list[Controller]:
    """What looks after a load."""
    if load == VOLUMES_LOAD:
        disks = {each["metadata"]["name"]: each for each in created if each["kind"] == "PersistentVolume"}
        return [VolumeController(api, timers), EphemeralVolumeController(api, timers), LocalDisks(api, timers, disks)]
    if load == DEVICES_LOAD:
        return [ResourceClaimController(api, timers)]
    return []
