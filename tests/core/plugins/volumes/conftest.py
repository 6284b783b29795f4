"""A small cluster with volumes, built step by step."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from mooring.api.clock import VirtualClock
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.core.config.types import VolumeBindingArgs
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.status import Code, Status
from mooring.core.plugins.volume_binding import VolumeBinding
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows

WAIT = "WaitForFirstConsumer"


class World:
    """A cluster, a handle, and short ways to say what is in it."""

    def __init__(self) -> None:
        self.cluster = ClusterState()
        self.clock = VirtualClock(1000.0)
        self.handle = Handle(self.cluster, clock=self.clock)
        self._version = 0

    def put(self, kind: type[Object], name: str, namespace: str = "", **fields: Any) -> Any:
        """Store an object; every version differs from the one before, as in an API server."""
        self._version += 1
        meta = {"name": name, "namespace": namespace, "uid": f"{kind.__name__}-{name}"}
        meta |= {"resourceVersion": str(self._version)} | fields.pop("metadata", {})
        obj = msgspec.convert({"metadata": meta, **fields}, kind)
        self.cluster.put(obj)
        return obj

    def node(self, name: str, csi: dict[str, int] | None = None, **labels: str) -> None:
        """A node that is called by its host name; ``csi`` makes a CSINode with these limits (negative: none given)."""
        labels = {key.replace("_", "-"): value for key, value in labels.items()}
        self.put(Node, name, metadata={"labels": {"host": name} | labels})
        if csi is not None:
            self.csi_node(name, csi)

    def csi_node(self, name: str, limits: dict[str, int], migrated: str = "") -> CSINode:
        drivers = [
            {"name": driver, "nodeID": name} | ({"allocatable": {"count": count}} if count >= 0 else {})
            for driver, count in limits.items()
        ]
        annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
        made: CSINode = self.put(CSINode, name, metadata={"annotations": annotations}, spec={"drivers": drivers})
        return made

    def storage_class(self, name: str, mode: str | None = WAIT, provisioner: str = "", **fields: Any) -> StorageClass:
        provisioner = provisioner or "kubernetes.io/no-provisioner"
        made: StorageClass = self.put(StorageClass, name, provisioner=provisioner, volumeBindingMode=mode, **fields)
        return made

    def claim(
        self, name: str, size: str | None = "1Gi", cls: str | None = "slow", bound: str = "", **more: Any
    ) -> PersistentVolumeClaim:
        """A claim in namespace ``ns``; ``bound`` names the volume that it is completely bound to."""
        annotations = more.pop("annotations", {}) | ({"pv.kubernetes.io/bind-completed": "yes"} if bound else {})
        meta = {"annotations": annotations} | more.pop("metadata", {})
        spec = {"accessModes": ["ReadWriteOnce"], "volumeName": bound, "storageClassName": cls}
        spec["resources"] = {"requests": {"storage": size}} if size is not None else {}
        made: PersistentVolumeClaim = self.put(
            PersistentVolumeClaim, name, "ns", metadata=meta, spec=spec | more, status={"phase": more.pop("phase", "")}
        )
        return made

    def volume(
        self, name: str, size: str = "1Gi", cls: str = "slow", on: list[str] | None = None, **more: Any
    ) -> PersistentVolume:
        """A free volume; ``on`` lists the hosts that reach it."""
        meta, phase = more.pop("metadata", {}), more.pop("phase", "Available")
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": cls, "capacity": {"storage": size}}
        if on is not None:
            spec["nodeAffinity"] = hosts(*on)
        made: PersistentVolume = self.put(
            PersistentVolume, name, metadata=meta, spec=spec | more, status={"phase": phase}
        )
        return made

    def csi_driver(self, name: str, **spec: Any) -> CSIDriver:
        made: CSIDriver = self.put(CSIDriver, name, spec=spec)
        return made

    def capacity(self, name: str, cls: str, topology: dict[str, Any] | None, **fields: Any) -> CSIStorageCapacity:
        made: CSIStorageCapacity = self.put(
            CSIStorageCapacity, name, "kube-system", storageClassName=cls, nodeTopology=topology, **fields
        )
        return made

    def attachment(self, name: str, node: str, volume: str | None, attacher: str = "csi.x") -> VolumeAttachment:
        spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}}
        made: VolumeAttachment = self.put(VolumeAttachment, name, spec=spec)
        return made

    def pod(self, *claims: str, name: str = "pod", on: str = "", volumes: Any = (), **more: Any) -> Pod:
        """A pod in namespace ``ns`` with these claims, then these volumes; with ``on`` it runs there."""
        named = [{"name": f"c{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
        others = [{"name": f"v{i}"} | volume for i, volume in enumerate(volumes)]
        meta = {"name": name, "namespace": more.pop("namespace", "ns"), "uid": f"uid-{name}"}
        spec = {"nodeName": on, "volumes": named + others}
        pod = msgspec.convert({"metadata": meta, "spec": spec} | more, Pod)
        if on:
            self.cluster.put(pod)
        return pod

    def binding(self, *, features: dict[str, bool] | None = None, timeout_s: int = 600) -> VolumeBinding:
        self.handle.features = features or {}
        return VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=timeout_s), self.handle)

    def remove_pod(self, name: str) -> None:
        self.cluster.remove_pod(f"uid-{name}")

    def settle(self) -> None:
        """Let the table take over nodes that came, changed or went, as every decision does first."""
        self.cluster.nodes()

    # ---- asking ------------------------------------------------------------------------------------------------

    def pre_filter(self, plugin: Any, pod: Pod, state: CycleState | None = None) -> Status:
        status = plugin.pre_filter(state or CycleState(), self.cluster.info(pod), self.cluster.nodes())
        assert isinstance(status, Status)
        return status

    def judge(
        self, plugin: Any, pod: Pod, state: CycleState | None = None, nodes: NodeRows | None = None
    ) -> dict[str, list[str]]:
        """The reasons per node that is refused. Errors start with ``!``, what is unresolvable with ``~``."""
        state = state or CycleState()
        status = self.pre_filter(plugin, pod, state)
        assert status.is_success or status.is_skip, status
        if status.is_skip:
            return {}
        return self.filter(plugin, pod, state, nodes)

    def filter(self, plugin: Any, pod: Pod, state: CycleState, nodes: NodeRows | None = None) -> dict[str, list[str]]:
        nodes = nodes or self.cluster.nodes()
        verdict = plugin.filter(state, self.cluster.info(pod), nodes)
        if verdict is None:
            return {}
        assert verdict.ids.dtype == np.int64 and len(verdict.ids) == len(nodes)
        told = {}
        for info, code in zip(nodes.infos, verdict.ids.tolist(), strict=True):
            if code:
                status = verdict.status_of(code)
                assert not status.is_success
                told[info.name] = [_MARKS.get(status.code, "") + reason for reason in status.reasons]
        return told


_MARKS = {Code.ERROR: "!", Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "~"}


def hosts(*names: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": list(names)}]}
    return {"required": {"nodeSelectorTerms": [term]}}


@pytest.fixture
def world() -> World:
    return World()
