"""The depth-first search for devices that serve all claims of a pod on one node.

Claims, requests and devices are tried in the order in which they are listed; the first complete choice wins. Within
one request devices only advance, so that combinations are tried and not permutations. Upstream's search is the same,
but for what :mod:`mooring.devices.pruning` leaves out: branches that hold no solution.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from mooring.api.core import Quantity
from mooring.api.quantity import parse_quantity
from mooring.api.resource import ALLOCATION_RESULTS_MAX_SIZE, ResourceClaim
from mooring.devices.capacity import consumed_by
from mooring.devices.constraints import AttributeConstraint, build_constraint
from mooring.devices.counters import AvailableCounters, DrawnCounters
from mooring.devices.device_checks import NOTHING, DeviceChecks
from mooring.devices.pools import AllocationError, Pool, PublishedDevice, Reach
from mooring.devices.pruning import Pruning
from mooring.devices.requests import ClaimPlan, Request
from mooring.devices.results import Choice, Solution
from mooring.devices.taints import prevents_allocation


class InvalidPools(AllocationError):
    """Nothing could be allocated, and pools that might have helped contradict themselves: this node is out."""


class AllocationTimeout(AllocationError):
    """The search took longer than it may."""


class Step(Enum):
    DONE = 1
    FAILED = 2
    TOO_MANY = 3  # the claim would hold more devices than a result may list: backtrack past this request


Level = Generator["Level", Step, Step]
"""One level of the search: yields the level below it, is sent how that ended, and returns how it ends itself."""


class Stage(NamedTuple):
    """One request, in the order of the search, with its alternatives."""

    claim_index: int
    request_index: int
    alternatives: Sequence[Request]


def stages_of(plans: Sequence[ClaimPlan]) -> list[Stage]:
    return [
        Stage(claim_index, request_index, alternatives)
        for claim_index, plan in enumerate(plans)
        for request_index, alternatives in enumerate(plan.requests)
    ]


class Search:
    """The state of one search on one node. Devices are named by their position in the order of the search."""

    def __init__(
        self,
        checks: DeviceChecks,
        counters: AvailableCounters,
        node_name: str,
        labels: Mapping[str, str],
        reach: Reach,
        plans: Sequence[ClaimPlan],
        stages: Sequence[Stage],
        is_late: Callable[[], bool],
    ) -> None:
        self.checks = checks
        self.devices = reach.devices
        self.plans = plans
        self.stages = stages
        self.constraints: list[list[AttributeConstraint]] = []  # by claim
        self.chosen: list[list[Choice]] = [[] for _ in plans]
        self.holders: dict[int, set[int]] = {}  # device -> claims that are about to hold it
        self.consuming: dict[int, dict[str, Fraction]] = {}  # shared device -> what is about to be consumed
        self.counters = DrawnCounters(counters)
        self.steps = 0
        self.reached = 0  # how many stages the search has been at
        self._node_name = node_name
        self._labels = labels
        self._pools = reach.pools
        self._is_late = is_late
        self._everything: dict[Request, list[int]] = {}  # devices, by request that wants all
        self._selected: list[dict[int, int]] = [{} for _ in plans]
        self._pruning: Pruning | None = None  # most searches find something without

    def run(self) -> Solution | None:
        for plan in self.plans:
            self._prepare(plan)
        if self._descend() is not Step.DONE:
            if any(pool.invalid_reason for pool in self._pools):
                raise InvalidPools("invalid resource pools were encountered")
            return None
        return Solution(self.plans, self.chosen, self._selected, self.checks.rules)

    # ---- before the search -------------------------------------------------------------------------------------

    def _prepare(self, plan: ClaimPlan) -> None:
        """Check a claim's requests and build its constraints."""
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
            constraint = build_constraint(wanted, self.checks.rules)
            if constraint is None:
                raise AllocationError(
                    f"claim {claim.key}, constraint #{i}: empty constraint (unsupported constraint type?)"
                )
            constraints.append(constraint)
        self.constraints.append(constraints)

    def _count_devices(self, claim: ResourceClaim, request: Request) -> int:
        """How many devices the request needs; for "all" this is where they are collected."""
        if request.problem:
            raise AllocationError(request.problem)
        if not request.wants_all:
            return request.count
        for pool in self._pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"claim {claim.key}, request {request.name}: "
                    f"asks for all devices, but resource pool {pool.id} is currently {state}"
                )
        found = [
            position
            for position, (_, candidate) in enumerate(self.devices)
            if self.is_selectable(claim, request, candidate) and self.checks.counts_for_all(claim, request, candidate)
        ]
        self._everything[request] = found
        return len(found)

    # ---- the levels --------------------------------------------------------------------------------------------

    def _descend(self) -> Step:
        """Run the levels with a list as their stack: a pod may ask for more devices than Python nests calls."""
        levels = [self._request(0)]
        answer: Step | None = None
        while levels:
            try:
                below = next(levels[-1]) if answer is None else levels[-1].send(answer)
            except StopIteration as end:
                levels.pop()
                answer = end.value
                continue
            self.steps += 1
            if self._is_late():
                raise AllocationTimeout(f"node {self._node_name}: timed out trying to allocate devices")
            levels.append(below)
            answer = None
        assert answer is not None
        return answer

    def _request(self, index: int) -> Level:
        """Serve one request with the first alternative that leaves all later requests a solution."""
        if index == len(self.stages):
            return Step.DONE
        stage = self.stages[index]
        self.reached = max(self.reached, index + 1)
        if self._pruning is not None and self._pruning.has_failed(index):
            return Step.FAILED
        too_many = True
        for alternative, request in enumerate(stage.alternatives):
            step = yield self._devices(index, request, 0, 0)
            if step is Step.DONE:
                if request.parent:
                    self._selected[stage.claim_index][stage.request_index] = alternative
                return step
            too_many = too_many and step is Step.TOO_MANY
        # Another choice for an earlier claim may leave this claim an alternative with fewer devices.
        if too_many and stage.request_index > 0:
            return Step.TOO_MANY
        if self._pruning is not None:
            self._pruning.remember_failure(index)
        return Step.FAILED

    def _devices(self, index: int, request: Request, taken: int, start: int) -> Level:
        """Take one more device for a request, at ``start`` or later; ``taken`` are chosen already."""
        claim_index = self.stages[index].claim_index
        wanted = request.count
        if request.wants_all:
            wanted = len(self._everything[request])
            if wanted == 0:
                return Step.FAILED
        if taken >= wanted:
            return (yield self._request(index + 1))
        if len(self.chosen[claim_index]) + wanted - taken > ALLOCATION_RESULTS_MAX_SIZE:
            return Step.TOO_MANY
        if request.wants_all:
            undo = self._take(claim_index, request, self._everything[request][taken], must=True)
            if undo is None:
                return Step.FAILED
            step = yield self._devices(index, request, taken + 1, 0)
            if step is not Step.DONE:
                undo()
            return step
        failed: list[int] = []
        for position in range(start, len(self.devices)):
            if not self.is_usable(claim_index, request, position):
                continue
            if self._pruning is not None and failed and self._pruning.is_like_any(failed, position, claim_index):
                continue
            undo = self._take(claim_index, request, position, must=False)
            if undo is None:
                continue
            if taken + 1 < wanted:
                step = yield self._devices(index, request, taken + 1, position + 1)
            elif index + 1 < len(self.stages):
                step = yield self._request(index + 1)
            else:
                return Step.DONE
            if step is Step.DONE:
                return step
            undo()
            if step is Step.TOO_MANY:
                return step
            failed.append(position)
            if self._pruning is None:
                self._pruning = Pruning(self)
            if not self._pruning.can_fill(claim_index, request, wanted - taken, position + 1):
                break
        return Step.FAILED

    # ---- one device --------------------------------------------------------------------------------------------

    def is_selectable(self, claim: ResourceClaim, request: Request, candidate: PublishedDevice) -> bool:
        return self.checks.is_selectable(claim, request, candidate, self._node_name, self._labels)

    def is_usable(self, claim_index: int, request: Request, position: int) -> bool:
        """Report whether the device is free, selected and large enough; not whether it goes with those chosen."""
        candidate = self.devices[position][1]
        claim = self.plans[claim_index].claim
        return (
            self._is_free(claim_index, request, position, candidate)
            and self.is_selectable(claim, request, candidate)
            and self.checks.has_capacity(claim, request, candidate, self.consuming.get(position, NOTHING))
        )

    def _is_free(self, claim_index: int, request: Request, position: int, candidate: PublishedDevice) -> bool:
        holders = self.holders.get(position)
        if request.admin_access:
            return not holders or claim_index not in holders
        return not holders and candidate.id not in self.checks.allocated.devices

    def _take(self, claim_index: int, request: Request, position: int, *, must: bool) -> Callable[[], None] | None:
        """Mark a selectable device as taken, if it is free and everything allows it; return how to undo that."""
        pool, candidate = self.devices[position]
        if not self._is_free(claim_index, request, position, candidate):
            return None
        if candidate.device.taints and prevents_allocation(candidate.device, request.tolerations):
            return None
        is_shared_already = candidate.is_shareable and (self.checks.has_shares(candidate) or position in self.consuming)
        draws = bool(candidate.device.consumes_counters) and not is_shared_already
        if draws and not self.counters.draw(pool, candidate):
            return None
        constraints = self.constraints[claim_index]
        added = 0
        for constraint in constraints:
            if not constraint.add(request, candidate):
                break
            added += 1
        before = self.consuming.get(position)
        claim = self.plans[claim_index].claim
        if added < len(constraints) or not self.checks.has_capacity(claim, request, candidate, before or NOTHING):
            self._undo_checks(pool, candidate, constraints[:added], request, draws)
            if must and added < len(constraints):
                raise AllocationError(
                    f"claim {claim.key}, request {request.name}: "
                    f"cannot add device {candidate.id} because a claim constraint would not be satisfied"
                )
            return None

        consumed: dict[str, Quantity] = {}
        if candidate.is_shareable:
            consumed = consumed_by(request.capacity, candidate.device.capacity, self.checks.rules)
            after = dict(before or ())
            for name, amount in consumed.items():
                after[name] = after.get(name, Fraction(0)) + parse_quantity(amount)
            self.consuming[position] = after
        else:
            self.holders.setdefault(position, set()).add(claim_index)
        self.chosen[claim_index].append(Choice(request, position, consumed))

        def undo() -> None:
            self.chosen[claim_index].pop()
            if not candidate.is_shareable:
                self.holders[position].discard(claim_index)
            elif before is None:
                del self.consuming[position]
            else:
                self.consuming[position] = before
            self._undo_checks(pool, candidate, constraints, request, draws)

        return undo

    def _undo_checks(
        self,
        pool: Pool,
        candidate: PublishedDevice,
        added: Sequence[AttributeConstraint],
        request: Request,
        draws: bool,
    ) -> None:
        for constraint in reversed(added):
            constraint.remove(request)
        if draws:
            self.counters.give_back(pool, candidate)
