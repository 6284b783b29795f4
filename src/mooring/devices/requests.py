"""A claim as the allocator works through it: requests and their alternatives in one shape."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mooring.api.resource import (
    CapacityRequirements,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

ClassLookup = Callable[[str], DeviceClass | None]

EXACT_COUNT, ALL = "ExactCount", "All"


@dataclass(slots=True, eq=False)
class Request:
    """One request, or one alternative of a prioritised list (then ``parent`` names the list)."""

    name: str
    parent: str
    wants_all: bool
    count: int
    admin_access: bool
    selectors: list[DeviceSelector]
    tolerations: list[DeviceToleration]
    capacity: CapacityRequirements | None
    device_class: DeviceClass | None
    problem: str
    """Why this request cannot be served at all; empty if it can."""
    expressions: tuple[str, ...] = ()
    class_expressions: int = 0
    """How many of the expressions are the class's; they come first."""

    full_name: str = field(init=False)
    base_name: str = field(init=False)
    """The name of the request, also for an alternative."""
    names: frozenset[str] = field(init=False)
    """By which a constraint can name it."""

    def __post_init__(self) -> None:
        self.full_name = f"{self.parent}/{self.name}" if self.parent else self.name
        self.base_name = self.parent or self.name
        self.names = frozenset((self.full_name, self.base_name))


@dataclass(slots=True, eq=False)
class ClaimPlan:
    """A claim's requests, each with its alternatives: one for an exact request, several for a prioritised list."""

    claim: ResourceClaim
    requests: list[list[Request]] = field(default_factory=list)


def plan_claim(claim: ResourceClaim, classes: ClassLookup) -> ClaimPlan:
    plan = ClaimPlan(claim)
    for request in claim.spec.devices.requests:
        if request.first_available:
            plan.requests.append([_build(claim, request, sub, classes) for sub in request.first_available])
        else:
            plan.requests.append([_build(claim, request, request.exactly or ExactDeviceRequest(), classes)])
    return plan


def _build(
    claim: ResourceClaim, request: DeviceRequest, wanted: ExactDeviceRequest | DeviceSubRequest, classes: ClassLookup
) -> Request:
    is_sub = isinstance(wanted, DeviceSubRequest)
    built = Request(
        name=wanted.name if isinstance(wanted, DeviceSubRequest) else request.name,
        parent=request.name if is_sub else "",
        wants_all=wanted.allocation_mode == ALL,
        count=wanted.count,
        admin_access=isinstance(wanted, ExactDeviceRequest) and bool(wanted.admin_access),
        selectors=wanted.selectors,
        tolerations=wanted.tolerations,
        capacity=wanted.capacity,
        device_class=None,
        problem="",
    )
    where = f"claim {claim.key}, request {built.name}"
    for i, selector in enumerate(wanted.selectors):
        if selector.cel is None:
            built.problem = f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)"
            return built
    if not wanted.device_class_name:
        built.problem = f"{where}: missing device class name (unsupported request type?)"
        return built
    found = classes(wanted.device_class_name)
    if found is None:
        name = wanted.device_class_name
        built.problem = (
            f'{where}: could not retrieve device class {name}: deviceclass.resource.k8s.io "{name}" not found'
        )
        return built
    built.device_class = found
    if wanted.allocation_mode not in (EXACT_COUNT, ALL):
        built.problem = f"{where}: unsupported count mode {wanted.allocation_mode}"
    class_expressions = tuple(s.cel.expression if s.cel is not None else "" for s in found.spec.selectors)
    built.class_expressions = len(class_expressions)
    built.expressions = class_expressions + tuple(s.cel.expression for s in wanted.selectors if s.cel is not None)
    return built
