"""Writes of VolumeBinding for a pod's claims, and the wait for their binding.

The scheduler only writes a request: a volume's claimRef, a claim's selected node. The volume controller and the
provisioners do the rest, and may reject it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.errors import MooringError, ParseError
from mooring.api.meta import Object
from mooring.api.selectors import parse_int64
from mooring.api.storage import CSINode, ObjectReference, PersistentVolume, PersistentVolumeClaim
from mooring.core.plugins.volumes.binding_plan import BindingInfo, PodVolumes
from mooring.core.plugins.volumes.claims import BOUND_BY_CONTROLLER, SELECTED_NODE, is_fully_bound
from mooring.core.plugins.volumes.csi_migration import (
    migrated_plugins,
    translated_affinity,
    volume_plugin,
    volume_source,
)
from mooring.core.plugins.volumes.free_volumes import AssumeCache
from mooring.core.plugins.volumes.node_topology import compile_affinity
from mooring.core.state.cluster import ClusterState

T = TypeVar("T", bound=Object)
Claimable = TypeVar("Claimable", PersistentVolume, PersistentVolumeClaim)
POLL_S = 1.0


class BindError(MooringError):
    """Volumes could not be bound; the attempt fails and the pod is retried."""


@runtime_checkable
class VolumeWriter(Protocol):
    """The live scheduler's writer for binding volumes; the handle provides it."""

    async def update(
        self, kind: type[T], key: str, resource_version: str, mutate: Callable[[dict[str, Any]], None]
    ) -> T:
        """PUT the whole object, as it was at that version and then changed by ``mutate``; return what was stored.

        ``mutate`` changes the JSON object in place. An outdated version causes a conflict; every rejected write raises
        ApiError.
        """

    async def sleep(self, seconds: float) -> None: ...

    def pod_exists(self, namespace: str, name: str) -> bool:
        """Report whether the API server still has the pod, as far as the watch shows."""


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, bool]:
    """Return the volume reserved for the claim, and whether that is a change."""
    ref, meta = volume.spec.claim_ref, volume.metadata
    by_user = (
        ref is not None
        and (ref.name, ref.namespace) == (claim.name, claim.namespace)
        and (not ref.uid or ref.uid == claim.uid)
    )
    marks = not by_user and BOUND_BY_CONTROLLER not in meta.annotations
    refers = ref is None or (ref.name, ref.namespace, ref.uid) != (claim.name, claim.namespace, claim.uid)
    if not marks and not refers:
        return volume, False
    reserved = _copy(volume)
    if refers:
        reserved.spec.claim_ref = ObjectReference(
            kind="PersistentVolumeClaim",
            namespace=claim.namespace,
            name=claim.name,
            uid=claim.uid,
            api_version="v1",
            resource_version=claim.metadata.resource_version,
        )
    if marks:
        reserved.metadata.annotations = {**meta.annotations, BOUND_BY_CONTROLLER: "yes"}
    return reserved, True


def placed_on(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """Return the claim with its volume to be provisioned for the node."""
    placed = _copy(claim)
    placed.metadata.annotations = {**claim.metadata.annotations, SELECTED_NODE: node_name}
    return placed


class VolumeBinder:
    """Writes a pod's bindings and polls them once a second."""

    def __init__(
        self,
        cluster: ClusterState,
        clock: Clock,
        volumes: AssumeCache[PersistentVolume],
        claims: AssumeCache[PersistentVolumeClaim],
        timeout_s: float,
    ) -> None:
        self._cluster, self._clock = cluster, clock
        self._volumes, self._claims = volumes, claims
        self._timeout_s = timeout_s

    async def bind(self, writer: VolumeWriter, pod: Pod, node_name: str, wanted: PodVolumes) -> None:
        """Bind; raise ApiError for a rejected write, BindError when the claims do not become bound."""
        await self._write(writer, wanted, node_name)
        try:
            await self._wait(writer, pod, node_name, wanted)
        except BindError as error:
            raise BindError(f"binding volumes: {error}") from None

    async def _write(self, writer: VolumeWriter, wanted: PodVolumes, node_name: str) -> None:
        """Write to the API server; assumptions that could not be written are dropped."""
        bindings, provisions = list(wanted.bindings), list(wanted.provisions)
        try:
            for binding in wanted.bindings:
                volume = binding.volume
                stored = await writer.update(
                    PersistentVolume, volume.key, volume.metadata.resource_version, _write_claim_ref(volume)
                )
                binding.volume = stored
                bindings.pop(0)
            for i, claim in enumerate(wanted.provisions):
                wanted.provisions[i] = await writer.update(
                    PersistentVolumeClaim,
                    claim.key,
                    claim.metadata.resource_version,
                    lambda obj: _annotate(obj, SELECTED_NODE, node_name),
                )
                provisions.pop(0)
        finally:
            for binding in bindings:
                self._volumes.restore(binding.volume)
            for claim in provisions:
                self._claims.restore(claim)

    async def _wait(self, writer: VolumeWriter, pod: Pod, node_name: str, wanted: PodVolumes) -> None:
        deadline = self._clock.monotonic() + self._timeout_s
        while (left := deadline - self._clock.monotonic()) > 0:
            await writer.sleep(min(POLL_S, left))
            if self._clock.monotonic() < deadline and self._is_bound(writer, pod, node_name, wanted):
                return
        raise BindError("context deadline exceeded")

    def _is_bound(self, writer: VolumeWriter, pod: Pod, node_name: str, wanted: PodVolumes) -> bool:
        """Check the API server's state: all bound, not yet, or (BindError) never."""
        info = self._cluster.table.nodes.get(node_name)
        if info is None or info.node is None:
            raise BindError(f'failed to get node "{node_name}": node "{node_name}" not found')
        if not writer.pod_exists(pod.namespace, pod.name):
            raise BindError(f'pod does not exist any more: pod "{pod.name}" not found')
        return all(self._binding_is_complete(binding, node_name) for binding in wanted.bindings) and all(
            self._is_provisioned(claim, node_name) for claim in wanted.provisions
        )

    def _binding_is_complete(self, binding: BindingInfo, node_name: str) -> bool:
        name, key = binding.volume.name, binding.claim.key
        volume, claim = self._volumes.stored(name), self._claims.stored(key)
        if volume is None:
            raise BindError(f'failed to check binding: persistentvolumes "{name}" not found')
        if claim is None:
            raise BindError(f'failed to check binding: persistentvolumeclaims "{key}" not found')
        if _is_older(volume, binding.volume):
            return False  # the watch has not shown our own write yet
        try:
            self._check_node(volume, node_name)
        except ParseError as error:
            raise BindError(f"failed to translate pv to csi: could not translate pv: {error}") from None
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindError(f'ClaimRef got reset for pv "{name}"')
        return is_fully_bound(claim)

    def _is_provisioned(self, wanted: PersistentVolumeClaim, node_name: str) -> bool:
        claim = self._claims.stored(wanted.key)
        if claim is None:
            raise BindError(f'failed to check provisioning pvc: persistentvolumeclaims "{wanted.key}" not found')
        if _is_older(claim, wanted):
            return False
        if not claim.metadata.annotations:
            raise BindError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != node_name:
            raise BindError(f'provisioning failed for PVC "{claim.name}"')
        if claim.spec.volume_name:
            volume = self._volumes.stored(claim.spec.volume_name)
            if volume is None:
                return False  # the volume may arrive later than the claim that names it
            try:
                self._check_node(volume, node_name)
            except ParseError as error:
                raise BindError(f"could not translate pv: {error}") from None
        return is_fully_bound(claim)

    def _check_node(self, volume: PersistentVolume, node_name: str) -> None:
        """Check again that the node reaches the volume; either may have changed since the decision."""
        affinity, plugin = volume.spec.node_affinity, volume_plugin(volume)
        if plugin is not None and plugin.migrated:
            csi_node = self._cluster.objects.get(CSINode, node_name)
            if plugin.name in migrated_plugins(csi_node):
                volume_source(plugin, volume)
                affinity = translated_affinity(plugin, volume)
        labels = self._cluster.table.info(node_name).labels
        if not any(all(req.matches(labels) for req in term) for term in compile_affinity(affinity)):
            raise BindError(
                f'pv "{volume.name}" node affinity doesn\'t match node "{node_name}": no matching NodeSelectorTerms'
            )


def _write_claim_ref(volume: PersistentVolume) -> Callable[[dict[str, Any]], None]:
    def mutate(obj: dict[str, Any]) -> None:
        ref = volume.spec.claim_ref
        obj.setdefault("spec", {})["claimRef"] = msgspec.to_builtins(ref)
        if BOUND_BY_CONTROLLER in volume.metadata.annotations:
            _annotate(obj, BOUND_BY_CONTROLLER, volume.metadata.annotations[BOUND_BY_CONTROLLER])

    return mutate


def _annotate(obj: dict[str, Any], key: str, value: str) -> None:
    metadata = obj.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), key: value}


def _is_older(stored: Object, written: Object) -> bool:
    """Report whether the watch is behind the write; versions are growing numbers."""
    have, want = parse_int64(stored.metadata.resource_version), parse_int64(written.metadata.resource_version)
    return have is not None and want is not None and have < want


def _copy(obj: Claimable) -> Claimable:
    """Return a copy whose metadata and spec can be changed; deeper parts are shared."""
    fresh = copy(obj)
    fresh.metadata = copy(obj.metadata)
    if isinstance(fresh, PersistentVolume):
        fresh.spec = copy(fresh.spec)
    return fresh
