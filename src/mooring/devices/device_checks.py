"""Whether one device can serve one request, whatever else is chosen; remembered for the attempt."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from mooring.api.resource import ResourceClaim
from mooring.devices.allocated import AllocatedState
from mooring.devices.capacity import fits, has_unknown_request
from mooring.devices.cel import CelSelectors, CompileError, RuntimeCelError
from mooring.devices.pools import AllocationError, Inventory, PublishedDevice
from mooring.devices.requests import Request

NOTHING: Mapping[str, Fraction] = {}


class DeviceChecks:
    """Make one per attempt: ``allocated`` must not change while it is used."""

    def __init__(self, inventory: Inventory, selectors: CelSelectors, allocated: AllocatedState) -> None:
        self.allocated = allocated
        self._inventory = inventory
        self._selectors = selectors
        self._eligible: dict[Request, dict[bytes, bool]] = {}
        self._fits_alone: dict[Request, dict[bytes, bool]] = {}

    def is_selectable(
        self,
        claim: ResourceClaim,
        request: Request,
        candidate: PublishedDevice,
        node_name: str,
        labels: Mapping[str, str],
    ) -> bool:
        """Report whether the device passes all selectors and can be used on the node."""
        known = self._eligible.setdefault(request, {})
        verdict = known.get(candidate.content)
        if verdict is None:
            verdict = known[candidate.content] = self._passes_selectors(claim, request, candidate.content)
        if not verdict or not candidate.slice.spec.per_device_node_selection:
            return verdict
        return self._inventory.device_matches_node(candidate, node_name, labels)

    def _passes_selectors(self, claim: ResourceClaim, request: Request, content: bytes) -> bool:
        """Ask the class's and the request's selectors."""
        for i, expression in enumerate(request.expressions):
            try:
                if not self._selectors.matches(expression, content):
                    return False
            except (CompileError, RuntimeCelError) as error:
                kind = "compile" if isinstance(error, CompileError) else "runtime"
                if i < request.class_expressions and request.device_class is not None:
                    where = f"class {request.device_class.name}: selector #{i}"
                else:
                    where = f"claim {claim.key}: selector #{i - request.class_expressions}"
                raise AllocationError(f"{where}: CEL {kind} error: {error}") from None
        return True

    def has_capacity(self, request: Request, candidate: PublishedDevice, consuming: Mapping[str, Fraction]) -> bool:
        """Report whether the requested share of the device's capacity is left."""
        capacity = candidate.device.capacity
        consumed = self.allocated.capacity.get(candidate.id, NOTHING)
        if consumed or consuming:
            return not has_unknown_request(request.capacity, capacity) and fits(
                request.capacity, capacity, consumed, consuming
            )
        known = self._fits_alone.setdefault(request, {})
        verdict = known.get(candidate.content)
        if verdict is None:
            verdict = not has_unknown_request(request.capacity, capacity) and fits(
                request.capacity, capacity, NOTHING, NOTHING
            )
            known[candidate.content] = verdict
        return verdict
