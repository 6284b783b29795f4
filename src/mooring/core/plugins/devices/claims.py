"""A pod's resource claims: which they are, whether they are ready, and their form for the allocator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mooring.api.core import Pod, PodResourceClaim
from mooring.api.errors import MooringError
from mooring.api.meta import Condition
from mooring.api.pod_groups import PodGroup, PodGroupResourceClaim
from mooring.api.resource import (
    FIRST_AVAILABLE_MAX_SIZE,
    AllocatedDeviceStatus,
    AllocationResult,
    CapacityRequirements,
    DeviceClass,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from mooring.api.times import parse_time
from mooring.core.state.cluster import group_of

GROUPS = "scheduling.k8s.io"
ClaimLookup = Callable[[str], ResourceClaim | None]


class ClaimProblem(MooringError):
    """A claim that the pod needs is missing, terminating or owned by another pod: the pod has to wait."""


def claim_name(pod: Pod, wanted: PodResourceClaim) -> tuple[str | None, bool]:
    """Return the name of the claim, None if none was needed, and whether it must belong to the pod."""
    if wanted.resource_claim_name is not None:
        return wanted.resource_claim_name, False
    if wanted.resource_claim_template_name is None:
        raise ClaimProblem(f'pod "{pod.key}", spec.resourceClaim "{wanted.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == wanted.name:
            return status.resource_claim_name, True
    raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')


def may_use(pod: Pod, claim: ResourceClaim) -> bool:
    """Report whether one of the pod's claims has this claim's name, without checking whether it is usable."""
    if claim.metadata.namespace != pod.metadata.namespace:
        return False
    name = claim.metadata.name
    for wanted in pod.spec.resource_claims:  # loops, because every new claim is checked against every pending pod
        if wanted.resource_claim_name == name:
            return True
    for made in pod.status.resource_claim_statuses:  # noqa: SIM110
        if made.resource_claim_name == name:
            return True
    return False


def pod_claims(pod: Pod, lookup: ClaimLookup, *, by_groups: bool = False) -> list[ResourceClaim]:
    """Return the claims of ``spec.resourceClaims`` in order; any that cannot be used raises ClaimProblem.

    With ``by_groups`` (the gate DRAWorkloadResourceClaims) a claim may also have been made for the pod's group.
    """
    claims = []
    for wanted in pod.spec.resource_claims:
        name, must_be_owned = claim_name(pod, wanted)
        if name is None:
            continue
        claim = lookup(f"{pod.namespace}/{name}")
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(f'resourceclaim "{claim.name}" is being deleted')
        if must_be_owned and not is_controlled_by(claim, pod):
            group = group_of(pod).partition("/")[2] if by_groups else ""
            if not group or not _is_controlled_by_group(claim, group):
                who = f"neither Pod nor PodGroup {group}" if group else "Pod is not owner"
                who += " is the owner" if group else ""
                raise ClaimProblem(f"ResourceClaim {claim.key} was not created for Pod {pod.key} ({who})")
        claims.append(claim)
    return claims


def is_controlled_by(claim: ResourceClaim, pod: Pod) -> bool:
    owner = claim.metadata.controller()
    return owner is not None and owner.uid == pod.uid


def _is_controlled_by_group(claim: ResourceClaim, name: str) -> bool:
    owner = claim.metadata.controller()
    of_group = owner is not None and owner.kind == "PodGroup" and owner.api_version.startswith(f"{GROUPS}/")
    return of_group and owner is not None and owner.name == name


def is_reserved_for(claim: ResourceClaim, pod: Pod, *, by_groups: bool = False) -> bool:
    """Report whether the claim is reserved for the pod, or with ``by_groups`` for its group."""
    group = group_of(pod).partition("/")[2] if by_groups else ""
    return any(
        consumer.uid == pod.uid or (group and _names_group(consumer, group)) for consumer in claim.status.reserved_for
    )


def _names_group(consumer: ResourceClaimConsumerReference, name: str) -> bool:
    """Compare by name: a pod has its group's name, not its uid."""
    return consumer.api_group == GROUPS and consumer.resource == "podgroups" and consumer.name == name


def consumer_of(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)


def consumers_of(pod: Pod, group: PodGroup) -> list[ResourceClaimConsumerReference]:
    """Return the consumer of each of the pod's claims: the group, if the group names the same claim."""
    for_group = ResourceClaimConsumerReference(GROUPS, "podgroups", group.name, group.uid)
    shared = {_named(claim) for claim in group.spec.resource_claims}
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    return [
        for_group if _named(claim) in shared else consumer_of(pod)
        for claim in pod.spec.resource_claims
        if claim.resource_claim_name is not None or made.get(claim.name) is not None
    ]


def _named(claim: PodResourceClaim | PodGroupResourceClaim) -> tuple[str, str | None, str | None]:
    return claim.name, claim.resource_claim_name, claim.resource_claim_template_name


def group_claims(group: PodGroup, lookup: ClaimLookup) -> list[ResourceClaim]:
    """Return the claims that a group names; a missing one raises ClaimProblem."""
    made = {status.name: status.resource_claim_name for status in group.status.resource_claim_statuses}
    claims = []
    for wanted in group.spec.resource_claims:
        name = wanted.resource_claim_name
        if name is None:
            if wanted.name not in made:
                raise ClaimProblem(f"PodGroup {group.key}: ResourceClaim not created yet")
            name = made[wanted.name]
        if name is None:
            continue
        claim = lookup(f"{group.namespace}/{name}")
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{group.namespace}/{name}"')
        owner = claim.metadata.controller()
        if wanted.resource_claim_name is not None or (owner is not None and owner.uid == group.uid):
            claims.append(claim)
    return claims


def binding_failure(claim: ResourceClaim) -> str:
    """Return a binding failure condition that is true, or ""."""
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation is not None else ():
        if not result.binding_conditions:
            continue
        status = _device_status(claim, result)
        if status is None:
            return ""
        for kind in result.binding_failure_conditions:
            failed = _find(status.conditions, kind)
            if failed is not None and failed.status == "True":
                return f'device binding failed: claim={claim.name}, reason={failed.reason}, message="{failed.message}"'
        if not all(_is_true(status.conditions, kind) for kind in result.binding_conditions):
            return ""
    return ""


def is_ready_for_binding(claim: ResourceClaim) -> bool:
    """Report whether the claim is allocated and every binding condition of its devices is true."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _device_status(claim, result)
        if status is None or not all(_is_true(status.conditions, kind) for kind in result.binding_conditions):
            return False
    return True


def has_binding_conditions(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def has_binding_timed_out(claim: ResourceClaim, now: float, timeout_s: float) -> bool:
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_binding_conditions(claim):
        return False
    return parse_time(allocation.allocation_timestamp) + timeout_s < now


def _device_status(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device):
            return status
    return None


def _find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    return next((condition for condition in conditions if condition.type == kind), None)


def _is_true(conditions: Sequence[Condition], kind: str) -> bool:
    found = _find(conditions, kind)
    return found is not None and found.status == "True"


def has_prioritized_list(claim: ResourceClaim) -> bool:
    return any(request.first_available for request in claim.spec.devices.requests)


def prioritized_score(claim: ResourceClaim, allocation: AllocationResult | None) -> int:
    """Sum, over the prioritised lists of an allocated claim, how far up the chosen alternative is."""
    if allocation is None:
        return 0
    chosen = {result.request for result in allocation.devices.results}
    return sum(
        FIRST_AVAILABLE_MAX_SIZE - i
        for request in claim.spec.devices.requests
        if request.exactly is None
        for i, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in chosen
    )


# ---- a claim in the allocator's form: requests and their alternatives
# -------------------------------------------------

ClassLookup = Callable[[str], DeviceClass | None]

EXACT_COUNT, ALL = "ExactCount", "All"


@dataclass(slots=True, eq=False)
class RequestedDevices:
    """One request, or one alternative of a prioritised list (``parent`` then names the list)."""

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
    """Why this request can never be served, or ""."""
    expressions: tuple[str, ...] = ()
    class_expressions: int = 0
    """How many of the expressions are the class's; they come first."""

    full_name: str = field(init=False)
    base_name: str = field(init=False)
    """The name of the request, also for an alternative."""
    names: frozenset[str] = field(init=False)
    """Names by which a constraint can refer to it."""

    def __post_init__(self) -> None:
        self.full_name = f"{self.parent}/{self.name}" if self.parent else self.name
        self.base_name = self.parent or self.name
        self.names = frozenset((self.full_name, self.base_name))


@dataclass(slots=True, eq=False)
class ClaimPlan:
    """A claim's requests, each with its alternatives: one for an exact request, several for a prioritised list."""

    claim: ResourceClaim
    requests: list[list[RequestedDevices]] = field(default_factory=list)


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
) -> RequestedDevices:
    is_sub = isinstance(wanted, DeviceSubRequest)
    built = RequestedDevices(
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
