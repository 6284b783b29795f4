"""The structured allocator: a depth-first search for devices that serve all claims of a pod on one node.

Claims, requests and devices are tried in the order in which they are listed; the first complete choice wins. Within
one request devices only advance, so that combinations are tried and not permutations.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from fractions import Fraction

from mooring.api.core import Quantity
from mooring.api.quantity import parse_quantity
from mooring.api.resource import (
    ALLOCATION_RESULTS_MAX_SIZE,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
)
from mooring.devices.allocated import AllocatedState
from mooring.devices.capacity import consumed_by, fits, has_unknown_request
from mooring.devices.cel import CelSelectors, CompileError, RuntimeCelError
from mooring.devices.constraints import AttributeConstraint, build_constraint
from mooring.devices.pools import AllocationError, DeviceId, Inventory, Pool, PoolId, PublishedDevice, Reach
from mooring.devices.requests import ClaimPlan, ClassLookup, Request, plan_claim
from mooring.devices.results import Choice, NodeSolution, Solution

CounterKey = tuple[str, str]  # counter set, counter

_NOTHING: Mapping[str, Fraction] = {}


class InvalidPools(AllocationError):
    """Nothing could be allocated, and pools that might have helped contradict themselves: this node is out."""


class AllocationTimeout(AllocationError):
    """The search took longer than it may."""


class Allocator:
    """Allocates for one pod, node after node; what does not depend on the node is computed once.

    Make one per attempt: ``allocated`` must not change while it is used.
    """

    def __init__(
        self,
        inventory: Inventory,
        selectors: CelSelectors,
        allocated: AllocatedState,
        classes: ClassLookup,
        is_late: Callable[[], bool] = lambda: False,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self.inventory = inventory
        self.allocated = allocated
        self.is_late = is_late
        self._begin = begin  # called before a node is searched, not where the answer is known already
        self._selectors = selectors
        self._classes = classes
        self._plans: dict[int, ClaimPlan] = {}
        self._eligible: dict[int, dict[bytes, bool]] = {}
        self._fits_alone: dict[int, dict[bytes, bool]] = {}
        self._available: dict[PoolId, dict[CounterKey, Fraction]] = {}
        self._solutions: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Solution | None] = {}

    def allocate(
        self, node_name: str, labels: Mapping[str, str], claims: Sequence[ResourceClaim]
    ) -> NodeSolution | None:
        """Return devices for all claims, or None if there is no solution on this node.

        Raises AllocationError when a claim, class or expression is wrong, which no other node would mend.
        """
        reach = self.inventory.reach_of(node_name, labels)
        key = None
        if reach.likeness is not None and not self._consumes_any(reach):
            key = (reach.likeness, self.allocated.taken(reach), tuple([id(claim) for claim in claims]))
            if key in self._solutions:
                solution = self._solutions[key]
                return None if solution is None else NodeSolution(solution, node_name, reach.devices)
        self._begin()
        solution = _Search(self, node_name, labels, reach, [self._plan(claim) for claim in claims]).run()
        if key is not None:
            self._solutions[key] = solution
        if solution is None:
            return None
        found = NodeSolution(solution, node_name, reach.devices)
        if key is None:
            found.results()  # what cannot be written down is an error of this node's search
        return found

    def _consumes_any(self, reach: Reach) -> bool:
        """Report whether some device is partly consumed: how much is left differs from node to node."""
        capacity = self.allocated.capacity
        return bool(capacity) and any(id in capacity for id in reach.ids)

    def _plan(self, claim: ResourceClaim) -> ClaimPlan:
        plan = self._plans.get(id(claim))
        if plan is None:
            plan = plan_claim(claim, self._classes)
            self._plans[id(claim)] = plan  # the plan keeps the claim, so its id stays its own
        return plan

    def is_eligible(self, claim: ResourceClaim, request: Request, candidate: PublishedDevice) -> bool:
        """Report whether the device passes the class's and the request's selectors."""
        known = self._eligible.setdefault(id(request), {})
        verdict = known.get(candidate.content)
        if verdict is None:
            verdict = self._passes_selectors(claim, request, candidate.content)
            known[candidate.content] = verdict
        return verdict

    def _passes_selectors(self, claim: ResourceClaim, request: Request, content: bytes) -> bool:
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
        consumed = self.allocated.capacity.get(candidate.id, _NOTHING)
        if consumed or consuming:
            return not has_unknown_request(request.capacity, capacity) and fits(
                request.capacity, capacity, consumed, consuming
            )
        known = self._fits_alone.setdefault(id(request), {})
        verdict = known.get(candidate.content)
        if verdict is None:
            verdict = not has_unknown_request(request.capacity, capacity) and fits(
                request.capacity, capacity, _NOTHING, _NOTHING
            )
            known[candidate.content] = verdict
        return verdict

    def available_counters(self, pool: Pool) -> dict[CounterKey, Fraction]:
        """What the pool's shared counters still hold beside devices in use; below zero when over-used."""
        available = self._available.get(pool.id)
        if available is None:
            available = {
                (counter_set.name, name): parse_quantity(counter.value)
                for counter_set in pool.counter_sets.values()
                for name, counter in counter_set.counters.items()
            }
            for candidate in (*pool.candidates, *pool.elsewhere):
                if candidate.device.consumes_counters and self.allocated.is_in_use(candidate.id):
                    for key, amount in counters_of(candidate):
                        if key in available:
                            available[key] -= amount
            self._available[pool.id] = available
        return available


class _Step(Enum):
    DONE = 1
    FAILED = 2
    TOO_MANY = 3  # the claim would hold more devices than a result may list: backtrack past this request


class _Search:
    """The state of one search on one node."""

    def __init__(
        self,
        allocator: Allocator,
        node_name: str,
        labels: Mapping[str, str],
        reach: Reach,
        plans: Sequence[ClaimPlan],
    ) -> None:
        self.allocator = allocator
        self.node_name = node_name
        self.labels = labels
        self.plans = plans
        self.pools = reach.pools
        self.devices = reach.devices
        self.constraints: list[list[AttributeConstraint]] = []
        self.everything: dict[int, list[int]] = {}  # positions, by request
        self.selected: list[dict[int, int]] = [{} for _ in plans]
        self.chosen: list[list[Choice]] = [[] for _ in plans]
        self.allocating: dict[DeviceId, set[int]] = {}
        self.consuming: dict[DeviceId, dict[str, Fraction]] = {}
        self.counters: dict[PoolId, dict[CounterKey, Fraction]] = {}

    def run(self) -> Solution | None:
        depth = sum(self._prepare(plan) for plan in self.plans)
        if depth + 500 > sys.getrecursionlimit():
            sys.setrecursionlimit(depth + 1500)  # one frame per device: only pods with very many claims get here
        if self._allocate(0, 0, 0, 0, 0, in_alternative=False) is not _Step.DONE:
            if any(pool.invalid_reason for pool in self.pools):
                raise InvalidPools("invalid resource pools were encountered")
            return None
        return Solution(self.plans, self.chosen, self.selected)

    def _prepare(self, plan: ClaimPlan) -> int:
        """Check a claim's requests and build its constraints; return how deep the search may get for it."""
        claim = plan.claim
        least = 0
        for alternatives in plan.requests:
            least += min([self._count_devices(claim, request) for request in alternatives])
        if least > ALLOCATION_RESULTS_MAX_SIZE:
            raise AllocationError(
                f"claim {claim.key}: number of requested devices {least} "
                f"exceeds the claim limit of {ALLOCATION_RESULTS_MAX_SIZE}"
            )
        constraints = []
        for i, wanted in enumerate(claim.spec.devices.constraints):
            constraint = build_constraint(wanted)
            if constraint is None:
                raise AllocationError(
                    f"claim {claim.key}, constraint #{i}: empty constraint (unsupported constraint type?)"
                )
            constraints.append(constraint)
        self.constraints.append(constraints)
        return 2 * (ALLOCATION_RESULTS_MAX_SIZE + 3 * len(plan.requests) + 2)

    def _count_devices(self, claim: ResourceClaim, request: Request) -> int:
        """How many devices the request needs; for "all" this is where they are collected."""
        if request.problem:
            raise AllocationError(request.problem)
        if not request.wants_all:
            return request.count
        for pool in self.pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"claim {claim.key}, request {request.name}: "
                    f"asks for all devices, but resource pool {pool.id} is currently {state}"
                )
        found = [
            position
            for position, (_, candidate) in enumerate(self.devices)
            if self._is_selectable(claim, request, candidate)
            and self.allocator.has_capacity(request, candidate, _NOTHING)
        ]
        self.everything[id(request)] = found
        return len(found)

    def _is_selectable(self, claim: ResourceClaim, request: Request, candidate: PublishedDevice) -> bool:
        if not self.allocator.is_eligible(claim, request, candidate):
            return False
        if not candidate.slice.spec.per_device_node_selection:
            return True
        return self.allocator.inventory.device_matches_node(candidate, self.node_name, self.labels)

    def _allocate(
        self, claim_index: int, request_index: int, alternative: int, taken: int, start: int, *, in_alternative: bool
    ) -> _Step:
        """Take one more device for a request, and after it everything that is still missing.

        ``taken`` devices of this request are chosen already; the search goes on at position ``start``.
        ``in_alternative``: a prioritised list's alternative is settled, do not go through the list again.
        """
        if self.allocator.is_late():
            raise AllocationTimeout(f"node {self.node_name}: timed out trying to allocate devices")
        if claim_index >= len(self.plans):
            return _Step.DONE
        plan = self.plans[claim_index]
        if request_index >= len(plan.requests):
            step = self._allocate(claim_index + 1, 0, 0, 0, 0, in_alternative=False)
            # Another choice for an earlier claim may leave the next one an alternative with fewer devices.
            return _Step.FAILED if step is _Step.TOO_MANY else step
        alternatives = plan.requests[request_index]
        request = alternatives[alternative]
        if request.parent and not in_alternative:
            return self._allocate_first_available(claim_index, request_index, len(alternatives))
        wanted = request.count
        if request.wants_all:
            wanted = len(self.everything[id(request)])
            if wanted == 0:
                return _Step.FAILED
        if taken >= wanted:
            return self._allocate(claim_index, request_index + 1, 0, 0, 0, in_alternative=False)
        if len(self.chosen[claim_index]) + wanted - taken > ALLOCATION_RESULTS_MAX_SIZE:
            return _Step.TOO_MANY
        if request.wants_all:
            undo = self._take(claim_index, request, self.everything[id(request)][taken], must=True)
            if undo is None:
                return _Step.FAILED
            step = self._allocate(claim_index, request_index, alternative, taken + 1, 0, in_alternative=in_alternative)
            if step is not _Step.DONE:
                undo()
            return step
        for position in range(start, len(self.devices)):
            candidate = self.devices[position][1]
            if not self._is_free(claim_index, request, candidate.id):
                continue
            if not self._is_selectable(plan.claim, request, candidate):
                continue
            if not self.allocator.has_capacity(request, candidate, self.consuming.get(candidate.id, _NOTHING)):
                continue
            undo = self._take(claim_index, request, position, must=False)
            if undo is None:
                continue
            step = self._allocate(
                claim_index, request_index, alternative, taken + 1, position + 1, in_alternative=in_alternative
            )
            if step is _Step.DONE:
                return step
            undo()
            if step is _Step.TOO_MANY:
                return step
        return _Step.FAILED

    def _allocate_first_available(self, claim_index: int, request_index: int, alternatives: int) -> _Step:
        only_too_many = True
        for alternative in range(alternatives):
            step = self._allocate(claim_index, request_index, alternative, 0, 0, in_alternative=True)
            if step is _Step.DONE:
                self.selected[claim_index][request_index] = alternative
                return step
            if step is _Step.FAILED:
                only_too_many = False
        return _Step.TOO_MANY if only_too_many else _Step.FAILED

    def _is_free(self, claim_index: int, request: Request, id: DeviceId) -> bool:
        if request.admin_access:
            return claim_index not in self.allocating.get(id, ())
        return id not in self.allocator.allocated.devices and not self.allocating.get(id)

    def _take(self, claim_index: int, request: Request, position: int, *, must: bool) -> Callable[[], None] | None:
        """Mark a selectable device as taken, if it is free and everything allows it; return how to undo that."""
        pool, candidate = self.devices[position]
        id = candidate.id
        if request.admin_access:
            if not candidate.is_shareable and claim_index in self.allocating.get(id, ()):
                return None
        elif id in self.allocator.allocated.devices or self.allocating.get(id):
            return None
        if any(_prevents(taint, request.tolerations) for taint in candidate.device.taints):
            return None
        is_shared_already = candidate.is_shareable and (id in self.allocator.allocated.capacity or id in self.consuming)
        draws = bool(candidate.device.consumes_counters) and not is_shared_already
        if draws and not self._draw_counters(pool, candidate):
            return None
        parts = (request.parent, request.name) if request.parent else (request.name, "")
        constraints = self.constraints[claim_index]
        added = 0
        for constraint in constraints:
            if not constraint.add(*parts, candidate):
                break
            added += 1
        if added < len(constraints) or not self.allocator.has_capacity(
            request, candidate, self.consuming.get(id, _NOTHING)
        ):
            self._undo_checks(pool, candidate, constraints[:added], parts, draws)
            if must and added < len(constraints):
                raise AllocationError(
                    f"claim {self.plans[claim_index].claim.key}, request {request.name}: "
                    f"cannot add device {id} because a claim constraint would not be satisfied"
                )
            return None

        consumed: dict[str, Quantity] = {}
        if candidate.is_shareable:
            consumed = consumed_by(request.capacity, candidate.device.capacity)
            before = self.consuming.get(id)
            after = dict(before or ())
            for name, amount in consumed.items():
                after[name] = after.get(name, Fraction(0)) + parse_quantity(amount)
            self.consuming[id] = after
        else:
            self.allocating.setdefault(id, set()).add(claim_index)
        self.chosen[claim_index].append(Choice(request, position, consumed))

        def undo() -> None:
            self.chosen[claim_index].pop()
            if not candidate.is_shareable:
                self.allocating[id].discard(claim_index)
            elif before is None:
                del self.consuming[id]
            else:
                self.consuming[id] = before
            self._undo_checks(pool, candidate, constraints, parts, draws)

        return undo

    def _undo_checks(
        self,
        pool: Pool,
        candidate: PublishedDevice,
        added: list[AttributeConstraint],
        parts: tuple[str, str],
        draws: bool,
    ) -> None:
        for constraint in reversed(added):
            constraint.remove(*parts)
        if draws:
            consumed = self.counters[pool.id]
            for key, amount in counters_of(candidate):
                consumed[key] -= amount

    def _draw_counters(self, pool: Pool, candidate: PublishedDevice) -> bool:
        """Draw what the device consumes from the pool's counters, unless some counter would fall short."""
        available = self.allocator.available_counters(pool)
        consumed = self.counters.setdefault(pool.id, {})
        draws = counters_of(candidate)
        for key, amount in draws:
            consumed[key] = consumed.get(key, Fraction(0)) + amount
        if all(left >= consumed.get(key, 0) for key, left in available.items()):
            return True
        for key, amount in draws:
            consumed[key] -= amount
        return False


def counters_of(candidate: PublishedDevice) -> list[tuple[CounterKey, Fraction]]:
    return [
        ((consumption.counter_set, name), parse_quantity(counter.value))
        for consumption in candidate.device.consumes_counters
        for name, counter in consumption.counters.items()
    ]


def _prevents(taint: DeviceTaint, tolerations: Sequence[DeviceToleration]) -> bool:
    """Report whether a taint keeps the device from being taken; effects that are not known do not."""
    return taint.effect in ("NoSchedule", "NoExecute") and not any(tolerates(t, taint) for t in tolerations)


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"
