"""What the allocator chose, as it is written into a claim's status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import NAMESPACE_OID, uuid5

import msgspec

from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Quantity
from mooring.api.resource import (
    FIRST_AVAILABLE_MAX_SIZE,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from mooring.devices.pools import AllocationError, Pool, PublishedDevice
from mooring.devices.requests import ClaimPlan, Request
from mooring.devices.rules import FIRST_RULES, Rules


class Choice(msgspec.Struct, frozen=True, eq=False):
    """One device for one request, by its position among the node's devices."""

    request: Request
    position: int
    consumed: Mapping[str, Quantity]
    """What it takes of a shared device's capacity."""


class Solution(msgspec.Struct, frozen=True, eq=False):
    """A complete choice for all claims; it holds for every node whose devices look the same."""

    plans: Sequence[ClaimPlan]
    choices: Sequence[Sequence[Choice]]
    selected: Sequence[Mapping[int, int]]
    """Per claim which alternative was taken, by position of the request."""
    rules: Rules = FIRST_RULES

    @property
    def score(self) -> int:
        """How far up in their prioritised lists the alternatives are, summed."""
        return sum(FIRST_AVAILABLE_MAX_SIZE - alternative for taken in self.selected for alternative in taken.values())


class NodeSolution(msgspec.Struct, frozen=True, eq=False):
    """A solution on one node."""

    solution: Solution
    node_name: str
    devices: Sequence[tuple[Pool, PublishedDevice]]

    def results(self) -> list[AllocationResult]:
        """One result per claim, as it is written into its status."""
        solution = self.solution
        parts = zip(solution.plans, solution.choices, solution.selected, strict=True)
        return [self._result(plan, choices, selected) for plan, choices, selected in parts]

    def _result(self, plan: ClaimPlan, choices: Sequence[Choice], selected: Mapping[int, int]) -> AllocationResult:
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
    plan: ClaimPlan, index: int, choice: Choice, candidate: PublishedDevice
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
        # Upstream draws a random id; one made of the claim is as unique, and the same each time.
        share_id=str(uuid5(NAMESPACE_OID, f"{plan.claim.uid}/{index}/{id}")) if candidate.is_shareable else None,
        consumed_capacity=dict(choice.consumed) or None,
    )


def _configuration(plan: ClaimPlan, selected: Mapping[int, int], rules: Rules) -> list[DeviceAllocationConfiguration]:
    """Configuration of the classes involved first, each class once, then the claim's own."""
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
                entry.requests = []  # it means all
    return config


def _concerns(names: Sequence[str], request: Request) -> bool:
    return request.full_name in names or (bool(request.parent) and request.parent in names)


def _node_selector(plan: ClaimPlan, candidates: Sequence[PublishedDevice], node_name: str) -> NodeSelector | None:
    """Where the allocation can be used: this node, or all nodes that every device's selector admits."""
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
