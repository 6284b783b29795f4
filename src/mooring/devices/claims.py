"""A pod's claims: which they are, whether they are ready, and what a prioritised choice is worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mooring.api.core import Pod, PodResourceClaim
from mooring.api.meta import Condition
from mooring.api.resource import (
    FIRST_AVAILABLE_MAX_SIZE,
    AllocatedDeviceStatus,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from mooring.api.times import parse_time
from mooring.errors import MooringError

ClaimLookup = Callable[[str], ResourceClaim | None]


class ClaimProblem(MooringError):
    """A claim that the pod needs is missing, going away or somebody else's: the pod has to wait."""


def claim_name(pod: Pod, wanted: PodResourceClaim) -> tuple[str | None, bool]:
    """Return the name of the claim, None if none was needed, and whether it must belong to the pod."""
    if wanted.resource_claim_name is not None:
        return wanted.resource_claim_name, False
    if wanted.resource_claim_template_name is None:
        raise ClaimProblem(f'pod "{pod.key}", spec.resourceClaim "{wanted.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == wanted.name:
            return status.resource_claim_name, True
    raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')


def may_use(pod: Pod, claim: ResourceClaim) -> bool:
    """Report whether one of the pod's claims has this claim's name; whether it can be used is another question."""
    if claim.metadata.namespace != pod.metadata.namespace:
        return False
    name = claim.metadata.name
    for wanted in pod.spec.resource_claims:  # loops, because every new claim is shown to every waiting pod
        if wanted.resource_claim_name == name:
            return True
    for made in pod.status.resource_claim_statuses:  # noqa: SIM110
        if made.resource_claim_name == name:
            return True
    return False


def pod_claims(pod: Pod, lookup: ClaimLookup) -> list[ResourceClaim]:
    """Return the claims of ``spec.resourceClaims`` in order; any that cannot be used raises ClaimProblem."""
    claims = []
    for wanted in pod.spec.resource_claims:
        name, must_be_owned = claim_name(pod, wanted)
        if name is None:
            continue
        claim = lookup(f"{pod.namespace}/{name}")
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(f'resourceclaim "{claim.name}" is being deleted')
        if must_be_owned and not is_controlled_by(claim, pod):
            raise ClaimProblem(
                f"ResourceClaim {claim.key} was not created for Pod {pod.namespace}/{pod.name} (Pod is not owner)"
            )
        claims.append(claim)
    return claims


def is_controlled_by(claim: ResourceClaim, pod: Pod) -> bool:
    owner = claim.metadata.controller()
    return owner is not None and owner.uid == pod.uid


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)


def consumer_of(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)


def binding_failure(claim: ResourceClaim) -> str:
    """Say which binding failure condition is true, if one is."""
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation is not None else ():
        if not result.binding_conditions:
            continue
        status = _device_status(claim, result)
        if status is None:
            return ""
        for kind in result.binding_failure_conditions:
            failed = _find(status.conditions, kind)
            if failed is not None and failed.status == "True":
                return f'device binding failed: claim={claim.name}, reason={failed.reason}, message="{failed.message}"'
        if not all(_is_true(status.conditions, kind) for kind in result.binding_conditions):
            return ""
    return ""


def is_ready_for_binding(claim: ResourceClaim) -> bool:
    """Report whether the claim is allocated and every binding condition of its devices is true."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _device_status(claim, result)
        if status is None or not all(_is_true(status.conditions, kind) for kind in result.binding_conditions):
            return False
    return True


def has_binding_conditions(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def has_binding_timed_out(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_binding_conditions(claim):
        return False
    return parse_time(allocation.allocation_timestamp) + timeout_s < now


def _device_status(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device):
            return status
    return None


def _find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == kind), None)


def _is_true(conditions: Sequence[Condition], kind: str) -> bool:
    found = _find(conditions, kind)
    return found is not None and found.status == "True"


def has_prioritized_list(claim: ResourceClaim) -> bool:
    return any(request.first_available for request in claim.spec.devices.requests)


def prioritized_score(claim: ResourceClaim) -> int:
    """Sum, over the prioritised lists of an allocated claim, how far up the chosen alternative is."""
    allocation = claim.status.allocation
    if allocation is None:
        return 0
    chosen = {result.request for result in allocation.devices.results}
    return sum(
        FIRST_AVAILABLE_MAX_SIZE - i
        for request in claim.spec.devices.requests
        if request.exactly is None
        for i, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in chosen
    )
