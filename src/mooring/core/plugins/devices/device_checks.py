"""Pruning of the search: devices that cannot serve a request, and branches without a solution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING

from mooring.api.errors import ParseError
from mooring.api.quantity import parse_quantity
from mooring.api.resource import ResourceClaim
from mooring.core.plugins.devices.cel import CelError, CelSelectors, CompileError, RuntimeCelError
from mooring.core.plugins.devices.claims import RequestedDevices
from mooring.core.plugins.devices.cluster_devices import prevents_allocation
from mooring.core.plugins.devices.constraints import CapacityProblem, counters_of, fits, has_unknown_request
from mooring.core.plugins.devices.extended import AllocatedState
from mooring.core.plugins.devices.pools import FIRST_RULES, AllocationError, Inventory, Pool, PublishedDevice, Rules

if TYPE_CHECKING:
    from mooring.core.plugins.devices.search import DeviceSearch


NOTHING: Mapping[str, Fraction] = {}
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class Why(Enum):
    """What keeps a device from a request."""

    SELECTOR = 1
    NODE = 2
    TAINT = 3
    IN_USE = 4
    CAPACITY = 5
    COUNTER = 6


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    why: Why
    text: str
    left: Mapping[str, Fraction] = field(default_factory=dict)  # of the device's capacities, where one is too small

    def __str__(self) -> str:
        return self.text

    @property
    def brief(self) -> str:
        """Without the selector's expression."""
        return self.text.partition(": ")[0] if self.why is Why.SELECTOR else self.text


class DeviceChecks:
    """Checks of single devices. Create one per attempt: ``allocated`` must not change while it is used."""

    def __init__(
        self, inventory: Inventory, selectors: CelSelectors, allocated: AllocatedState, rules: Rules = FIRST_RULES
    ) -> None:
        self.allocated = allocated
        self.rules = rules
        self._inventory = inventory
        self._selectors = selectors
        self._eligible: dict[RequestedDevices, dict[bytes, bool]] = {}
        self._fits_alone: dict[RequestedDevices, dict[bytes, bool]] = {}

    def is_selectable(
        self,
        claim: ResourceClaim,
        request: RequestedDevices,
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

    def refusal(
        self,
        claim: ResourceClaim,
        request: RequestedDevices,
        candidate: PublishedDevice,
        node_name: str,
        labels: Mapping[str, str],
    ) -> Refusal | None:
        """Why a request cannot have a device, for people: the first check that it fails; None if it passes all.

        Lasting obstacles come first: a device that is in use, too, is refused by a selector.
        """
        for i, expression in enumerate(request.expressions):
            of_class = i < request.class_expressions and request.device_class is not None
            whose = f"class {request.device_class.name}" if of_class and request.device_class else "the request"
            try:
                if not self._selectors.matches(expression, candidate.content):
                    return Refusal(Why.SELECTOR, f"refused by the selector of {whose}: {expression}")
            except CelError as error:
                return Refusal(Why.SELECTOR, f"an error in the selector of {whose}: {error}")
        if not self.is_selectable(claim, request, candidate, node_name, labels):
            return Refusal(Why.NODE, "for other nodes")
        if prevents_allocation(candidate.device, request.tolerations):
            taints = ", ".join(f"{taint.key}:{taint.effect}" for taint in candidate.device.taints)
            return Refusal(Why.TAINT, f"tainted: {taints}")
        if not request.admin_access and candidate.id in self.allocated.devices:
            return Refusal(Why.IN_USE, "in use")
        if not self.has_capacity(claim, request, candidate, NOTHING):
            consumed = self.allocated.capacity.get(candidate.id, NOTHING)
            offered = candidate.device.capacity.items()
            left = {name: parse_quantity(each.value) - consumed.get(name, 0) for name, each in offered}
            return Refusal(Why.CAPACITY, "with too little capacity left", left)
        return None

    def _passes_selectors(self, claim: ResourceClaim, request: RequestedDevices, candidate: PublishedDevice) -> bool:
        """Evaluate the selectors of the class and of the request."""
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
        self,
        claim: ResourceClaim,
        request: RequestedDevices,
        candidate: PublishedDevice,
        consuming: Mapping[str, Fraction],
    ) -> bool:
        """Report whether the requested share of the device's capacity is left."""
        consumed = self.allocated.capacity.get(candidate.id, NOTHING)
        if consumed or consuming:
            return self._fits(claim, request, candidate, candidate.id, consumed, consuming)
        return self._has_capacity_alone(claim, request, candidate, candidate.id)

    def counts_for_all(self, claim: ResourceClaim, request: RequestedDevices, candidate: PublishedDevice) -> bool:
        """Report whether a request for all devices includes this one."""
        if self.rules.all_counts_full_devices:  # what is left of it is checked when it is taken
            return self._has_capacity_alone(claim, request, candidate, candidate.device.name)
        return self.has_capacity(claim, request, candidate, NOTHING)

    def has_shares(self, candidate: PublishedDevice) -> bool:
        """Report whether some claim shares the device already."""
        shared, consumed = self.allocated.shares, self.allocated.capacity
        return candidate.id in consumed or (self.rules.shares_draw_counters_once and candidate.id in shared)

    def _has_capacity_alone(
        self, claim: ResourceClaim, request: RequestedDevices, candidate: PublishedDevice, name: object
    ) -> bool:
        known = self._fits_alone.setdefault(request, {})
        verdict = known.get(candidate.content)
        if verdict is None:
            verdict = known[candidate.content] = self._fits(claim, request, candidate, name, NOTHING, NOTHING)
        return verdict

    def _fits(
        self,
        claim: ResourceClaim,
        request: RequestedDevices,
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


# --------------------------------------------------------------------------------------------------------------------
# Branches of the search without a solution, found without exploring them.
#
# There are three ways to know. A request cannot be filled if too few devices are left that go together. A device fails
# where an equivalent one has failed. And a request fails again when as many devices of each kind are taken as when it
# failed before. None of them changes the outcome: neither the solution, which is the first one in upstream's order, nor
# the error, if a selector or a constraint ends the search with one.
#
# The last two rely on equivalent devices. That is safe only while it does not matter which of two equivalent devices is
# tried first. It matters in three cases, in which the search continues without these two: a selector fails on a device;
# a constraint is about a request for all devices, which ends the search with an error where the constraint is broken;
# or a constraint remembers an order (see ``AttributeConstraint.is_ordered``).

EASY_STEPS = 50  # most searches end before; comparing devices would cost more than it saves
MAX_FAILURES = 10_000  # remembered failures


class Pruning:
    """Knowledge of one search about branches that failed."""

    def __init__(self, search: DeviceSearch) -> None:
        self._search = search
        self._draws_counters = any(candidate.device.consumes_counters for _, candidate in search.devices)
        self._can_compare = True
        self._kinds: list[int] = []  # by device: equal numbers mean that every stage seen so far treats them alike
        self._stages = 0  # number of stages that the kinds distinguish
        self._failures: set[Hashable] = set()

    def can_fill(self, claim_index: int, request: RequestedDevices, needed: int, start: int) -> bool:
        """Report whether ``needed`` devices from ``start`` on may go together."""
        search = self._search
        constraints = [c for c in search.constraints[claim_index] if c.applies(request)]
        sizes: Counter[Hashable] = Counter()
        left: list[tuple[Pool, PublishedDevice]] = []
        try:
            for position in range(start, len(search.devices)):
                if not search.is_usable(claim_index, request, position):
                    continue
                pool, candidate = search.devices[position]
                groups = tuple([constraint.group(candidate) for constraint in constraints])
                if None not in groups:
                    sizes[groups] += 1
                    if sizes[groups] >= needed and not self._draws_counters:
                        return True
                    left.append((pool, candidate))
            if max(sizes.values(), default=0) < needed:
                return False
            alone = [each for each in left if not each[1].is_shareable]  # a shared one may be counted already
            return search.counters.room_for(alone) + len(left) - len(alone) >= needed
        except (AllocationError, ParseError):
            return True  # the search ends with this error, or with an earlier one

    def is_like_failed(self, failed: Sequence[int], position: int, claim_index: int) -> bool:
        """Report whether a device is equivalent to one that has failed at the same place."""
        if not self._compare():
            return False
        kind, use = self._kinds[position], self._use(position, claim_index)
        return any(self._kinds[other] == kind and self._use(other, claim_index) == use for other in failed)

    def has_failed(self, stage: int) -> bool:
        """Report whether the search has failed at this stage before, with equivalent devices taken."""
        return bool(self._failures) and self._compare() and self._state(stage) in self._failures

    def remember_failure(self, stage: int) -> None:
        if len(self._failures) < MAX_FAILURES and self._compare():
            self._failures.add(self._state(stage))

    # ---- kinds of devices --------------------------------------------------------------------------------------

    def _compare(self) -> bool:
        """Distinguish devices for all stages that the search has reached; report whether that is possible."""
        if self._search.steps < EASY_STEPS:
            return False
        try:
            if not self._kinds:
                self._kinds = _numbered(map(self._own_traits, range(len(self._search.devices))))
            while self._can_compare and self._stages < self._search.reached:
                self._can_compare = self._refine_kinds(self._stages)
                self._stages += 1
                self._failures.clear()  # they refer to other kinds
        except (AllocationError, ParseError):
            self._can_compare = False
        return self._can_compare

    def _own_traits(self, position: int) -> Hashable:
        """Return what matters of a device to every request."""
        pool, candidate = self._search.devices[position]
        checks, allocated = self._search.checks, self._search.checks.allocated
        share: Hashable = None
        if candidate.is_shareable:
            consumed = allocated.capacity.get(candidate.id, NOTHING)
            share = (candidate.content, checks.has_shares(candidate), frozenset(consumed.items()))
        draws = (pool.id, tuple(counters_of(candidate))) if candidate.device.consumes_counters else None
        return candidate.id in allocated.devices, share, draws

    def _refine_kinds(self, stage: int) -> bool:
        """Refine kinds by what a stage reads of devices; false if the order of equivalent devices matters to it."""
        search = self._search
        claim_index, _, alternatives = search.stages[stage]
        plan, constraints = search.plans[claim_index], search.constraints[claim_index]
        base_names = [others[0].base_name for others in plan.requests]
        for request in alternatives:
            applying = [constraint for constraint in constraints if constraint.applies(request)]
            is_single = not request.wants_all and request.count <= 1 and base_names.count(request.base_name) == 1
            if (applying and request.wants_all) or (not is_single and any(c.is_ordered for c in applying)):
                return False
            traits = [
                (
                    search.is_selectable(plan.claim, request, candidate),
                    candidate.is_shareable or search.checks.has_capacity(plan.claim, request, candidate, NOTHING),
                    prevents_allocation(candidate.device, request.tolerations),
                    *[constraint.trait(candidate) for constraint in applying],
                )
                for _, candidate in search.devices
            ]
            self._kinds = _numbered(zip(self._kinds, traits, strict=True))
        return True

    # ---- what is taken -----------------------------------------------------------------------------------------

    def _use(self, position: int, claim_index: int) -> Hashable:
        """Return the search's use of a device, as far as it matters to this claim and later ones."""
        holders = self._search.holders.get(position) or ()
        consuming = self._search.consuming.get(position)
        return bool(holders), claim_index in holders, None if consuming is None else frozenset(consuming.items())

    def _state(self, stage: int) -> Hashable:
        """Return all that matters to this stage and later ones, except which of equivalent devices is taken."""
        search = self._search
        claim_index, request_index, _ = search.stages[stage]
        taken = {position for position, holders in search.holders.items() if holders} | search.consuming.keys()
        to_come = [request for others in search.plans[claim_index].requests[request_index:] for request in others]
        return (
            stage,
            len(search.chosen[claim_index]),
            frozenset(Counter((self._kinds[position], self._use(position, claim_index)) for position in taken).items()),
            tuple(c.state() for c in search.constraints[claim_index] if any(c.applies(request) for request in to_come)),
        )


def _numbered(values: Iterable[Hashable]) -> list[int]:
    """Number values so that equal ones get the same number."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]
