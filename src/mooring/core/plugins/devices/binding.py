"""PreBind: stores the reserved allocations in the claims, then waits for devices that must be made ready."""

from __future__ import annotations

from copy import copy

from mooring.api.clock import Clock
from mooring.api.core import ContainerExtendedResourceRequest, Pod
from mooring.api.errors import ApiError
from mooring.api.resource import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from mooring.api.times import format_time
from mooring.core.framework.handle import PluginMeters
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.plugins.devices.allocator import (
    ClaimAttempt,
    ClaimWriter,
    extended_status_patch,
    finalizer_patch,
    reserve_patch,
)
from mooring.core.plugins.devices.claims import (
    binding_failure,
    has_binding_conditions,
    has_binding_timed_out,
    is_ready_for_binding,
    is_reserved_for,
)
from mooring.core.plugins.devices.cluster_devices import ClusterDevices
from mooring.core.plugins.devices.extended import IN_MEMORY_NAME

BINDING_POLL_S = 5.0
CONFLICT_RETRIES = 5


class ClaimBinder:
    """Binds the claims of one attempt. A rejected write raises ApiError."""

    def __init__(
        self,
        writer: ClaimWriter,
        devices: ClusterDevices,
        clock: Clock,
        timeout_s: float,
        attempt: ClaimAttempt,
        meters: PluginMeters,
        *,
        by_groups: bool = False,
        keeps_times: bool = True,
    ) -> None:
        self._writer = writer
        self._devices = devices
        self._clock = clock
        self._timeout_s = timeout_s
        self._attempt = attempt
        self._meters = meters
        self._by_groups = by_groups
        self._keeps_times = keeps_times  # only where binding conditions may time out

    async def run(self, pod: Pod, node_name: str) -> Status:
        attempt = self._attempt
        for index, claim in enumerate(attempt.claims):
            if not is_reserved_for(claim, pod, by_groups=self._by_groups):
                attempt.claims[index] = await self._bind_claim(index, pod, node_name)
        if not any(has_binding_conditions(claim) for claim in attempt.claims):
            return SUCCESS
        message = f"waiting for binding conditions for device on node {node_name}"
        self._writer.record_event(pod, "Normal", "BindingConditionsPending", "Scheduling", message)
        started = self._clock.monotonic()
        status, result = await self._wait_for_devices()
        self._count(result, self._clock.monotonic() - started)
        return status

    def _count(self, result: str, seconds: float) -> None:
        """Count the wait for every device, also for one that was ready from the start, as upstream does."""
        allocations = (claim.status.allocation for claim in self._attempt.claims)
        devices = [device for found in allocations if found is not None for device in found.devices.results]
        conditional = [device.driver for device in devices if device.binding_conditions]
        self._meters.devices_waited_for([device.driver for device in devices], conditional, result, seconds)

    async def _bind_claim(self, index: int, pod: Pod, node_name: str) -> ResourceClaim:
        attempt, writer = self._attempt, self._writer
        claim = attempt.claims[index]
        allocation = attempt.reserved.get(index)
        is_extended = claim is attempt.extended
        if is_extended and allocation is None and not claim.spec.devices.requests:
            return claim  # the node counts the resource itself
        pending_uid = claim.uid
        mappings: list[ContainerExtendedResourceRequest] = []
        is_new = is_extended and claim.name == IN_MEMORY_NAME
        if is_new:
            _, task = attempt.node_allocations.get(node_name, (None, None))
            if task is None or task.extended_claim is None:
                raise ApiError(f"extended resource claim not found for node {node_name}")
            mappings = task.mappings
            claim = await self._create(task.extended_claim)
            attempt.extended = attempt.claims[index] = claim
        async with writer.turn(claim.key):
            claim = await self._store(self._newest(claim), attempt.consumer(index, pod), allocation)
            self._devices.assume(claim, is_new=is_new)
        if is_extended:
            attempt.extended = attempt.claims[index] = claim
            if problem := attempt.binding_problem(pod.key, node_name):
                raise ApiError(problem)
            await writer.patch_pod_status(pod.namespace, pod.name, extended_status_patch(claim, mappings))
        if allocation is not None:  # Unreserve releases it after a failure; others may share it
            self._devices.remove_pending(pending_uid)
        return claim

    def _newest(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim as another pod of this scheduler has stored it since."""
        known = self._devices.claim(claim.key)
        return claim if known is None or known.uid != claim.uid else known

    async def _create(self, claim: ResourceClaim) -> ResourceClaim:
        try:
            created = await self._writer.create_claim(_to_create(claim))
        except ApiError:
            self._meters.claim_created(is_created=False)
            raise
        self._meters.claim_created(is_created=True)
        return created

    async def _store(
        self, claim: ResourceClaim, consumer: ResourceClaimConsumerReference, allocation: AllocationResult | None
    ) -> ResourceClaim:
        writer = self._writer
        ours = allocation is not None
        for attempts_left in range(CONFLICT_RETRIES - 1, -1, -1):
            if claim.metadata.deletion_timestamp is not None:
                raise ApiError(f"claim {claim.key} got deleted in the meantime")
            if ours and claim.status.allocation is not None:
                raise ApiError(f"claim {claim.key} got allocated elsewhere in the meantime")
            if not ours and claim.status.allocation is None:
                raise ApiError(f"claim {claim.key} got deallocated elsewhere in the meantime")
            try:
                patch = finalizer_patch(claim) if ours else None
                if patch is not None:
                    claim = await writer.patch_claim(claim.namespace, claim.name, patch)
                now = format_time(self._clock.now()) if self._keeps_times else ""
                patch = reserve_patch(claim, consumer, allocation, now)
                return await writer.patch_claim(claim.namespace, claim.name, patch, subresource="status")
            except ApiError as error:
                if error.code != 409 or not attempts_left:
                    what = "add allocation and reservation" if ours else "add reservation"
                    raise ApiError(f"{what} to claim {claim.key}: {error}", code=error.code) from None
            claim = await writer.get_claim(claim.namespace, claim.name)
            if allocation is not None and _is_stored(claim, consumer, allocation):
                return claim  # the response to our own patch was lost
        raise AssertionError("unreachable")

    async def _wait_for_devices(self) -> tuple[Status, str]:
        """Wait, and return the status and its label in metrics."""
        attempt = self._attempt
        give_up = self._clock.monotonic() + self._timeout_s  # the wall clock may be corrected meanwhile
        while True:
            is_ready = True
            for index, claim in enumerate(attempt.claims):
                current = self._devices.claim(claim.key) or claim
                attempt.claims[index] = current
                failure = binding_failure(current)
                if failure:
                    return Status.error(failure), "failure"
                if not is_ready_for_binding(current):
                    if has_binding_timed_out(current, self._clock.now(), self._timeout_s):
                        return Status.error(f"device binding timeout: claim={current.name}"), "timeout"
                    is_ready = False
                    break
            if is_ready:
                return SUCCESS, "success"
            if self._clock.monotonic() >= give_up:
                return Status.error("device binding timeout: context deadline exceeded"), "timeout"
            await self._writer.sleep(BINDING_POLL_S)


def _is_stored(claim: ResourceClaim, consumer: ResourceClaimConsumerReference, allocation: AllocationResult) -> bool:
    """Report whether the claim has exactly these devices, for this consumer."""
    stored = claim.status.allocation
    if stored is None or not any(user.uid == consumer.uid for user in claim.status.reserved_for):
        return False
    return _devices(stored) == _devices(allocation)


def _devices(allocation: AllocationResult) -> list[tuple[str, str, str]]:
    return [(device.driver, device.pool, device.device) for device in allocation.devices.results]


def _to_create(claim: ResourceClaim) -> ResourceClaim:
    """Return a claim for creation: the API server assigns its name and uid."""
    created = copy(claim)
    created.metadata = copy(claim.metadata)
    created.metadata.name = created.metadata.uid = ""
    return created
