"""Whether one device can serve one request, whatever else is chosen; remembered for the attempt."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from mooring.api.resource import ResourceClaim
from mooring.devices.allocated import AllocatedState
from mooring.devices.capacity import CapacityProblem, fits, has_unknown_request
from mooring.devices.cel import CelSelectors, CompileError, RuntimeCelError
from mooring.devices.pools import AllocationError, Inventory, PublishedDevice
from mooring.devices.requests import Request
from mooring.devices.rules import FIRST_RULES, Rules

NOTHING: Mapping[str, Fraction] = {}
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class DeviceChecks:
    """Make one per attempt: ``allocated`` must not change while it is used."""

    def __init__(
        self, inventory: Inventory, selectors: CelSelectors, allocated: AllocatedState, rules: Rules = FIRST_RULES
    ) -> None:
        self.allocated = allocated
        self.rules = rules
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
            verdict = known[candidate.content] = self._passes_selectors(claim, request, candidate)
        if not verdict or not candidate.slice.spec.per_device_node_selection:
            return verdict
        return self._inventory.device_matches_node(candidate, node_name, labels)

    def _passes_selectors(self, claim: ResourceClaim, request: Request, candidate: PublishedDevice) -> bool:
        """Ask the class's and the request's selectors."""
        for i, expression in enumerate(request.expressions):
            try:
                if not self._selectors.matches(expression, candidate.content):
                    return False
            except (CompileError, RuntimeCelError) as error:
                kind = "compile" if isinstance(error, CompileError) else "runtime"
                if i < request.class_expressions and request.device_class is not None:
                    where = f"class {request.device_class.name}: selector #{i}"
                else:
                    where = f"claim {claim.key}: selector #{i - request.class_expressions}"
                text = str(error)
                if self.rules.errors_name_the_device and kind == "runtime":
                    where += f" on device {candidate.id}"
                    text += _HINT if "no such key:" in text else ""
                raise AllocationError(f"{where}: CEL {kind} error: {text}") from None
        return True

    def has_capacity(
        self, claim: ResourceClaim, request: Request, candidate: PublishedDevice, consuming: Mapping[str, Fraction]
    ) -> bool:
        """Report whether the requested share of the device's capacity is left."""
        consumed = self.allocated.capacity.get(candidate.id, NOTHING)
        if consumed or consuming:
            return self._fits(claim, request, candidate, candidate.id, consumed, consuming)
        return self._has_capacity_alone(claim, request, candidate, candidate.id)

    def counts_for_all(self, claim: ResourceClaim, request: Request, candidate: PublishedDevice) -> bool:
        """Report whether a request for all devices wants this one, too."""
        if self.rules.all_counts_full_devices:  # what others have left of it is checked when it is taken
            return self._has_capacity_alone(claim, request, candidate, candidate.device.name)
        return self.has_capacity(claim, request, candidate, NOTHING)

    def has_shares(self, candidate: PublishedDevice) -> bool:
        """Report whether some claim shares the device already."""
        shared, consumed = self.allocated.shares, self.allocated.capacity
        return candidate.id in consumed or (self.rules.shares_draw_counters_once and candidate.id in shared)

    def _has_capacity_alone(
        self, claim: ResourceClaim, request: Request, candidate: PublishedDevice, name: object
    ) -> bool:
        known = self._fits_alone.setdefault(request, {})
        verdict = known.get(candidate.content)
        if verdict is None:
            verdict = known[candidate.content] = self._fits(claim, request, candidate, name, NOTHING, NOTHING)
        return verdict

    def _fits(
        self,
        claim: ResourceClaim,
        request: Request,
        candidate: PublishedDevice,
        name: object,
        consumed: Mapping[str, Fraction],
        consuming: Mapping[str, Fraction],
    ) -> bool:
        capacity = candidate.device.capacity
        if has_unknown_request(request.capacity, capacity):
            return False
        try:
            return fits(request.capacity, capacity, consumed, consuming, self.rules)
        except CapacityProblem as problem:
            where = f"claim {claim.key}, request {request.name}"
            raise AllocationError(f"{where}: checking capacity for device {name}: {problem}") from None
