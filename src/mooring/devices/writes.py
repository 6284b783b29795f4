"""What the plugin asks of the API server: small patches, because our objects hold only part of the stored ones."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

import msgspec

from mooring.api.core import ContainerExtendedResourceRequest, Pod
from mooring.api.resource import (
    DELETE_PROTECTION_FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)

Patch = dict[str, Any]

MERGE, STRATEGIC_MERGE = "application/merge-patch+json", "application/strategic-merge-patch+json"


@runtime_checkable
class ClaimWriter(Protocol):
    """The writer of a handle that can bind claims; a refusal raises ApiError with its HTTP status."""

    def turn(self, claim_key: str) -> AbstractAsyncContextManager[None]:
        """Wait until nobody else here writes the claim: pods that share one would only meet conflicts."""

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim: ...

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim: ...

    async def patch_claim(
        self, namespace: str, name: str, patch: Patch, *, subresource: str = "", content_type: str = MERGE
    ) -> ResourceClaim: ...

    async def delete_claim(self, namespace: str, name: str) -> None: ...

    async def patch_pod_status(self, namespace: str, name: str, patch: Patch) -> None: ...

    async def sleep(self, seconds: float) -> None: ...

    def record_event(self, pod: Pod, type: str, reason: str, action: str, message: str) -> None: ...


class Deallocate(msgspec.Struct, frozen=True):
    """PostFilter gives a claim's devices back, so that others can be tried."""

    claim: ResourceClaim


class DeleteClaim(msgspec.Struct, frozen=True):
    """A claim made for extended resources is of no more use."""

    claim: ResourceClaim


class Unreserve(msgspec.Struct, frozen=True):
    """The pod, or the group, will not run: it no longer needs the claim."""

    claim: ResourceClaim
    consumer_uid: str


ClaimWrite = Deallocate | DeleteClaim | Unreserve


async def perform(writer: ClaimWriter, write: ClaimWrite) -> ResourceClaim | None:
    """Write; return the claim as the API server has it now, or None if it is gone."""
    claim = write.claim
    if isinstance(write, Deallocate):
        patch = _of(claim, {"status": {"allocation": None, "reservedFor": None, "devices": None}})
        return await writer.patch_claim(claim.namespace, claim.name, patch, subresource="status")
    if isinstance(write, Unreserve):
        gone = [{"$patch": "delete", "uid": write.consumer_uid}]
        patch = {"metadata": {"uid": claim.uid}, "status": {"reservedFor": gone}}
        return await writer.patch_claim(
            claim.namespace, claim.name, patch, subresource="status", content_type=STRATEGIC_MERGE
        )
    if DELETE_PROTECTION_FINALIZER in claim.metadata.finalizers:
        kept = [f for f in claim.metadata.finalizers if f != DELETE_PROTECTION_FINALIZER]
        await writer.patch_claim(claim.namespace, claim.name, {"metadata": {"uid": claim.uid, "finalizers": kept}})
    await writer.delete_claim(claim.namespace, claim.name)
    return None


def _of(claim: ResourceClaim, patch: Patch) -> Patch:
    """Make a patch fail with a conflict if the claim has changed since we read it."""
    meta = claim.metadata
    patch.setdefault("metadata", {}).update(uid=meta.uid, resourceVersion=meta.resource_version)
    return patch


def finalizer_patch(claim: ResourceClaim) -> Patch | None:
    """Protect an allocated claim from deletion; None if it is protected already."""
    if DELETE_PROTECTION_FINALIZER in claim.metadata.finalizers:
        return None
    return _of(claim, {"metadata": {"finalizers": [*claim.metadata.finalizers, DELETE_PROTECTION_FINALIZER]}})


def reserve_patch(
    claim: ResourceClaim, consumer: ResourceClaimConsumerReference, allocation: AllocationResult | None, now: str
) -> Patch:
    """Record the allocation, if it is ours, and who uses the claim."""
    consumers = [*claim.status.reserved_for, consumer]
    status: Patch = {"reservedFor": msgspec.to_builtins(consumers)}
    if allocation is not None:
        status["allocation"] = {**msgspec.to_builtins(allocation), "allocationTimestamp": now}
    elif claim.status.allocation is not None and claim.status.allocation.allocation_timestamp is None:
        status["allocation"] = {"allocationTimestamp": now}
    return _of(claim, {"status": status})


def extended_status_patch(claim: ResourceClaim, mappings: list[ContainerExtendedResourceRequest]) -> Patch:
    return {
        "status": {
            "extendedResourceClaimStatus": {
                "resourceClaimName": claim.name,
                "requestMappings": msgspec.to_builtins(mappings),
            }
        }
    }
