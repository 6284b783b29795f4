"""The depth-first search for devices that serve all claims of a pod on one node.

Claims, requests and devices are tried in the order in which they are listed; the first complete choice wins. Within one
request devices only advance, so that combinations are tried and not permutations. Upstream's search is the same, except
that ``device_checks`` prunes branches without a solution.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import NamedTuple
from uuid import NAMESPACE_OID, uuid5

import msgspec

from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Quantity
from mooring.api.quantity import parse_quantity
from mooring.api.resource import (
    ALLOCATION_RESULTS_MAX_SIZE,
    FIRST_AVAILABLE_MAX_SIZE,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from mooring.core.plugins.devices.claims import ClaimPlan, RequestedDevices
from mooring.core.plugins.devices.cluster_devices import prevents_allocation
from mooring.core.plugins.devices.constraints import (
    AttributeConstraint,
    AvailableCounters,
    DrawnCounters,
    build_constraint,
    consumed_by,
)
from mooring.core.plugins.devices.device_checks import NOTHING, DeviceChecks, Pruning
from mooring.core.plugins.devices.pools import FIRST_RULES, AllocationError, Pool, PublishedDevice, Reach, Rules

# ---- the allocation, as it is written into a claim's status --------------------------------------------------------


class DeviceChoice(msgspec.Struct, frozen=True, eq=False):
    """One device for one request, by its position among the node's devices."""

    request: RequestedDevices
    position: int
    consumed: Mapping[str, Quantity]
    """What it takes of a shared device's capacity."""


class Solution(msgspec.Struct, frozen=True, eq=False):
    """A complete choice for all claims; it holds for every node with equivalent devices."""

    plans: Sequence[ClaimPlan]
    choices: Sequence[Sequence[DeviceChoice]]
    selected: Sequence[Mapping[int, int]]
    """Per claim the chosen alternative, by position of the request."""
    rules: Rules = FIRST_RULES

    @property
    def score(self) -> int:
        """Return the sum of the alternatives' ranks in their prioritised lists."""
        return sum(FIRST_AVAILABLE_MAX_SIZE - alternative for taken in self.selected for alternative in taken.values())


class NodeSolution(msgspec.Struct, frozen=True, eq=False):
    """A solution on one node."""

    solution: Solution
    node_name: str
    devices: Sequence[tuple[Pool, PublishedDevice]]

    def results(self) -> list[AllocationResult]:
        """Return one result per claim, as it is written into its status."""
        solution = self.solution
        parts = zip(solution.plans, solution.choices, solution.selected, strict=True)
        return [self._result(plan, choices, selected) for plan, choices, selected in parts]

    def _result(
        self, plan: ClaimPlan, choices: Sequence[DeviceChoice], selected: Mapping[int, int]
    ) -> AllocationResult:
        candidates = [self.devices[choice.position][1] for choice in choices]
        results = [
            _device_result(plan, i, choice, candidate)
            for i, (choice, candidate) in enumerate(zip(choices, candidates, strict=True))
        ]
        return AllocationResult(
            devices=DeviceAllocationResult(results=results, config=_configuration(plan, selected, self.solution.rules)),
            node_selector=_node_selector(plan, candidates, self.node_name),
        )


def _device_result(
    plan: ClaimPlan, index: int, choice: DeviceChoice, candidate: PublishedDevice
) -> DeviceRequestAllocationResult:
    device, id = candidate.device, candidate.id
    return DeviceRequestAllocationResult(
        request=choice.request.full_name,
        driver=id.driver,
        pool=id.pool,
        device=id.device,
        admin_access=True if choice.request.admin_access else None,
        tolerations=choice.request.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        # Upstream's id is random; one derived from the claim is as unique, and reproducible.
        share_id=str(uuid5(NAMESPACE_OID, f"{plan.claim.uid}/{index}/{id}")) if candidate.is_shareable else None,
        consumed_capacity=dict(choice.consumed) or None,
    )


def _configuration(plan: ClaimPlan, selected: Mapping[int, int], rules: Rules) -> list[DeviceAllocationConfiguration]:
    """Return the configuration of the classes involved first, each class once, then the claim's own."""
    config: list[DeviceAllocationConfiguration] = []
    of_class: dict[str, list[DeviceAllocationConfiguration]] = {}
    taken = [alternatives[selected.get(i, 0)] for i, alternatives in enumerate(plan.requests)]
    for request in taken:
        if request.device_class is None:
            continue
        known = of_class.get(request.device_class.name)
        if known is not None:
            for entry in known:
                entry.requests.append(request.full_name)
            continue
        entries = [
            DeviceAllocationConfiguration(source="FromClass", requests=[request.full_name], opaque=c.opaque)
            for c in request.device_class.spec.config
        ]
        of_class[request.device_class.name] = entries
        config.extend(entries)
    for own in plan.claim.spec.devices.config:
        hits = 1 if not own.requests else sum(_concerns(own.requests, request) for request in taken)
        for _ in range(min(hits, 1) if rules.writes_configuration_once else hits):
            config.append(
                DeviceAllocationConfiguration(source="FromClaim", requests=list(own.requests), opaque=own.opaque)
            )
    if rules.writes_configuration_once:
        for entry in config:
            if all(_concerns(entry.requests, request) for request in taken):
                entry.requests = []  # empty means all
    return config


def _concerns(names: Sequence[str], request: RequestedDevices) -> bool:
    return request.full_name in names or (bool(request.parent) and request.parent in names)


def _node_selector(plan: ClaimPlan, candidates: Sequence[PublishedDevice], node_name: str) -> NodeSelector | None:
    """Return where the allocation can be used: this node, or all nodes that every device's selector admits."""
    union = NodeSelectorTerm(match_expressions=[], match_fields=[])
    for candidate in candidates:
        spec, device = candidate.slice.spec, candidate.device
        source = device if spec.per_device_node_selection else spec
        if source.node_name is not None or device.binds_to_node:
            only = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node_name])
            return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[only])])
        terms = source.node_selector.node_selector_terms if source.node_selector is not None else []
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {plan.claim.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_missing(union.match_fields, term.match_fields)
            _add_missing(union.match_expressions, term.match_expressions)
    if not union.match_fields and not union.match_expressions:
        return None
    return NodeSelector(node_selector_terms=[union])


def _add_missing(to: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    for new in more:
        if not any(
            old.key == new.key and old.operator == new.operator and set(old.values) == set(new.values) for old in to
        ):
            to.append(new)


class InvalidPools(AllocationError):
    """Nothing could be allocated, and pools that might have helped are inconsistent: the node is rejected."""


class AllocationTimeout(AllocationError):
    """The search timed out."""


class SearchStep(Enum):
    DONE = 1
    FAILED = 2
    TOO_MANY = 3  # the result would list too many devices: backtrack past this request


Level = Generator["Level", SearchStep, SearchStep]
"""One level of the search: yields the level below it, is sent its result, and returns its own result."""


class SearchStage(NamedTuple):
    """One request, in the order of the search, with its alternatives."""

    claim_index: int
    request_index: int
    alternatives: Sequence[RequestedDevices]


def stages_of(plans: Sequence[ClaimPlan]) -> list[SearchStage]:
    return [
        SearchStage(claim_index, request_index, alternatives)
        for claim_index, plan in enumerate(plans)
        for request_index, alternatives in enumerate(plan.requests)
    ]


class DeviceSearch:
    """The state of one search on one node. Devices are named by their position in the order of the search."""

    def __init__(
        self,
        checks: DeviceChecks,
        counters: AvailableCounters,
        node_name: str,
        labels: Mapping[str, str],
        reach: Reach,
        plans: Sequence[ClaimPlan],
        stages: Sequence[SearchStage],
        is_late: Callable[[], bool],
    ) -> None:
        self.checks = checks
        self.devices = reach.devices
        self.plans = plans
        self.stages = stages
        self.constraints: list[list[AttributeConstraint]] = []  # by claim
        self.chosen: list[list[DeviceChoice]] = [[] for _ in plans]
        self.holders: dict[int, set[int]] = {}  # device -> claims that tentatively hold it
        self.consuming: dict[int, dict[str, Fraction]] = {}  # shared device -> tentative consumption
        self.counters = DrawnCounters(counters)
        self.steps = 0
        self.reached = 0  # number of stages that the search has reached
        self._node_name = node_name
        self._labels = labels
        self._pools = reach.pools
        self._is_late = is_late
        self._everything: dict[RequestedDevices, list[int]] = {}  # devices, by request for all
        self._selected_as: dict[RequestedDevices, RequestedDevices] = {}  # whose selectors are used, if not its own
        self._selected: list[dict[int, int]] = [{} for _ in plans]
        self._pruning: Pruning | None = None  # most searches succeed without it

    def run(self) -> Solution | None:
        for plan in self.plans:
            self._prepare(plan)
        if self._descend() is not SearchStep.DONE:
            for pool in self._pools:
                if pool.invalid_reason and self.checks.rules.fails_at_invalid_pools:
                    raise AllocationError(f"pool {pool.id.pool} is invalid: {pool.invalid_reason}")
                if pool.invalid_reason:
                    raise InvalidPools("invalid resource pools were encountered")
            return None
        return Solution(self.plans, self.chosen, self._selected, self.checks.rules)

    # ---- before the search -------------------------------------------------------------------------------------

    def _prepare(self, plan: ClaimPlan) -> None:
        """Check a claim's requests and build its constraints."""
        claim = plan.claim
        least = 0
        for alternatives in plan.requests:
            if self.checks.rules.mixes_alternatives:
                self._mix(alternatives)
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

    def _mix(self, alternatives: Sequence[RequestedDevices]) -> None:
        """Reproduce 1.35: what "all" selects is cached as the alternative before it, and so the first two share it."""
        kept: dict[int, RequestedDevices] = {}
        for i, request in enumerate(alternatives):
            if request.wants_all:
                self._selected_as[request] = kept.setdefault(max(i - 1, 0), request)

    def _count_devices(self, claim: ResourceClaim, request: RequestedDevices) -> int:
        """Return the number of devices that the request needs; for "all" they are collected here."""
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

    def _descend(self) -> SearchStep:
        """Run the levels with a list as their stack: a pod may request more devices than Python's recursion limit."""
        levels = [self._request(0)]
        answer: SearchStep | None = None
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
            return SearchStep.DONE
        stage = self.stages[index]
        self.reached = max(self.reached, index + 1)
        if self._pruning is not None and self._pruning.has_failed(index):
            return SearchStep.FAILED
        too_many = True
        for alternative, request in enumerate(stage.alternatives):
            step = yield self._devices(index, request, 0, 0)
            if step is SearchStep.DONE:
                if request.parent:
                    self._selected[stage.claim_index][stage.request_index] = alternative
                return step
            too_many = too_many and step is SearchStep.TOO_MANY
        # Another choice for an earlier claim may allow this claim an alternative with fewer devices.
        if too_many and stage.request_index > 0:
            return SearchStep.TOO_MANY
        if self._pruning is not None:
            self._pruning.remember_failure(index)
        return SearchStep.FAILED

    def _devices(self, index: int, request: RequestedDevices, taken: int, start: int) -> Level:
        """Take one more device for a request, at ``start`` or later; ``taken`` are chosen already."""
        claim_index = self.stages[index].claim_index
        wanted = request.count
        if request.wants_all:
            wanted = len(self._everything[request])
            if wanted == 0:
                return SearchStep.FAILED
        if taken >= wanted:
            return (yield self._request(index + 1))
        if len(self.chosen[claim_index]) + wanted - taken > ALLOCATION_RESULTS_MAX_SIZE:
            return SearchStep.TOO_MANY
        if request.wants_all:
            undo = self._take(claim_index, request, self._everything[request][taken], must=True)
            if undo is None:
                return SearchStep.FAILED
            # Until 1.35 the other devices are taken for the first alternative, whichever this is.
            then = self.stages[index].alternatives[0] if self.checks.rules.mixes_alternatives else request
            step = yield self._devices(index, then, taken + 1, 0)
            if step is not SearchStep.DONE:
                undo()
            return step
        # Later devices of a request come after the earlier ones, so every set of devices is tried once and not in every
        # order. The order itself is upstream's: the first solution found is the one that is taken.
        failed: list[int] = []
        for position in range(start, len(self.devices)):
            if not self.is_usable(claim_index, request, position):
                continue
            if self._pruning is not None and failed and self._pruning.is_like_failed(failed, position, claim_index):
                continue
            undo = self._take(claim_index, request, position, must=False)
            if undo is None:
                continue
            if taken + 1 < wanted:
                step = yield self._devices(index, request, taken + 1, position + 1)
            elif index + 1 < len(self.stages):
                step = yield self._request(index + 1)
            else:
                return SearchStep.DONE
            if step is SearchStep.DONE:
                return step
            undo()
            if step is SearchStep.TOO_MANY:
                return step
            # Pruning only skips branches without a solution, so it never changes which one is found. It is created at
            # the first failure: most searches have none, and its bookkeeping is not free.
            failed.append(position)
            if self._pruning is None:
                self._pruning = Pruning(self)
            if not self._pruning.can_fill(claim_index, request, wanted - taken, position + 1):
                break
        return SearchStep.FAILED

    # ---- one device --------------------------------------------------------------------------------------------

    def is_selectable(self, claim: ResourceClaim, request: RequestedDevices, candidate: PublishedDevice) -> bool:
        selecting = self._selected_as.get(request, request)
        return self.checks.is_selectable(claim, selecting, candidate, self._node_name, self._labels)

    def is_usable(self, claim_index: int, request: RequestedDevices, position: int) -> bool:
        """Report whether the device is free, selected and large enough, apart from constraints with those chosen."""
        candidate = self.devices[position][1]
        claim = self.plans[claim_index].claim
        return (
            self._is_free(claim_index, request, position, candidate)
            and self.is_selectable(claim, request, candidate)
            and self.checks.has_capacity(claim, request, candidate, self.consuming.get(position, NOTHING))
        )

    def _is_free(self, claim_index: int, request: RequestedDevices, position: int, candidate: PublishedDevice) -> bool:
        holders = self.holders.get(position)
        if request.admin_access:
            return not holders or claim_index not in holders
        return not holders and candidate.id not in self.checks.allocated.devices

    def _take(
        self, claim_index: int, request: RequestedDevices, position: int, *, must: bool
    ) -> Callable[[], None] | None:
        """Take a selectable device if it is free and all constraints allow it; return a function that undoes it."""
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
        self.chosen[claim_index].append(DeviceChoice(request, position, consumed))

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
        request: RequestedDevices,
        draws: bool,
    ) -> None:
        for constraint in reversed(added):
            constraint.remove(request)
        if draws:
            self.counters.give_back(pool, candidate)
