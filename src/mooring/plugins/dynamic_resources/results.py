"""What the allocator chose, as it is written into a claim's status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Quantity
from mooring.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from mooring.plugins.dynamic_resources.pools import AllocationError, Candidate
from mooring.plugins.dynamic_resources.requests import ClaimPlan, Request


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """One device for one request; shared devices have a share id and say what they consume."""

    request: Request
    candidate: Candidate
    share_id: str | None
    consumed: Mapping[str, Quantity]


def build_result(
    plan: ClaimPlan, choices: Sequence[Choice], node_name: str, selected: Mapping[int, int]
) -> AllocationResult:
    """``selected``: which alternative was taken, by position of the request."""
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=[_result(choice) for choice in choices], config=_configuration(plan, selected)
        ),
        node_selector=_node_selector(plan, choices, node_name),
    )


def _result(choice: Choice) -> DeviceRequestAllocationResult:
    device = choice.candidate.device
    id = choice.candidate.id
    return DeviceRequestAllocationResult(
        request=choice.request.full_name,
        driver=id.driver,
        pool=id.pool,
        device=id.device,
        admin_access=True if choice.request.admin_access else None,
        tolerations=choice.request.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=choice.share_id,
        consumed_capacity=dict(choice.consumed) or None,
    )


def _configuration(plan: ClaimPlan, selected: Mapping[int, int]) -> list[DeviceAllocationConfiguration]:
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
        for _ in range(hits):
            config.append(
                DeviceAllocationConfiguration(source="FromClaim", requests=list(own.requests), opaque=own.opaque)
            )
    return config


def _concerns(names: Sequence[str], request: Request) -> bool:
    return request.full_name in names or (bool(request.parent) and request.parent in names)


def _node_selector(plan: ClaimPlan, choices: Sequence[Choice], node_name: str) -> NodeSelector | None:
    """Where the allocation can be used: this node, or all nodes that every device's selector admits."""
    union = NodeSelectorTerm(match_expressions=[], match_fields=[])
    for choice in choices:
        spec, device = choice.candidate.slice.spec, choice.candidate.device
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
