"""Extended resources backed by a DeviceClass: a pod that requests ``example.com/gpu: 2`` gets a claim for devices.

Which devices a node must provide depends on the node (another may count the resource in its allocatable), so the claim
has no requests until a node is searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from mooring.api.core import Container, ContainerExtendedResourceRequest, Pod
from mooring.api.meta import ObjectMeta, OwnerReference
from mooring.api.quantity import parse_quantity
from mooring.api.resource import (
    DEVICE_CLASS_RESOURCE_PREFIX,
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    AllocationResult,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from mooring.api.times import parse_time
from mooring.core.plugins.devices.cel import CelSelectors
from mooring.core.plugins.devices.claims import EXACT_COUNT
from mooring.core.plugins.devices.pools import DeviceId, Inventory, PoolId, Reach
from mooring.core.state.requests import is_extended_name, is_sidecar

# ---- allocated devices, according to the claims of the cluster -------------------------------------------------------


@dataclass(slots=True)
class AllocatedState:
    """Devices allocated exclusively, devices that are shared, and how much of a shared one is consumed.

    Admin access does not take a device away from others, so it is not counted here.
    """

    devices: dict[DeviceId, int] = field(default_factory=dict)  # change through ``add`` and ``remove``
    shares: dict[DeviceId, int] = field(default_factory=dict)
    capacity: dict[DeviceId, dict[str, Fraction]] = field(default_factory=dict)
    changed: set[tuple[str, str]] = field(default_factory=set)
    """Pools of which a device was taken or released since ``tell``."""

    def taken(self, reach: Reach) -> tuple[int, ...]:
        """Return the positions of the node's exclusively allocated devices, cached in ``reach`` until ``tell``."""
        known = reach.taken
        if known is None or known[0] is not self:
            devices = self.devices
            known = reach.taken = (self, tuple([i for i, id in enumerate(reach.ids) if id in devices]))
        return known[1]

    def tell(self, inventory: Inventory) -> None:
        """Invalidate what ``taken`` has cached where it has changed."""
        for driver, pool in self.changed:
            inventory.forget_taken(PoolId(driver, pool))
        self.changed.clear()

    def add(self, allocation: AllocationResult) -> None:
        self._count(allocation, 1)

    def remove(self, allocation: AllocationResult) -> None:
        """Undo an ``add`` of the same allocation."""
        self._count(allocation, -1)

    def is_in_use(self, id: DeviceId) -> bool:
        """Report whether a claim holds the device, alone or shared."""
        return id in self.devices or id in self.shares

    def _count(self, allocation: AllocationResult, step: int) -> None:
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            id = DeviceId(result.driver, result.pool, result.device)
            if result.share_id is None:
                _step(self.devices, id, step)
                self.changed.add((result.driver, result.pool))
                continue
            _step(self.shares, id, step)
            if result.consumed_capacity is None:
                continue
            consumed = self.capacity.setdefault(id, {})
            for name, amount in result.consumed_capacity.items():
                consumed[name] = consumed.get(name, Fraction(0)) + step * parse_quantity(amount)
            if step < 0 and not any(consumed.values()):
                del self.capacity[id]


def _step(counts: dict[DeviceId, int], id: DeviceId, step: int) -> None:
    left = counts.get(id, 0) + step
    if left > 0:
        counts[id] = left
    else:
        counts.pop(id, None)


IN_MEMORY_NAME = "<extended-resources>"  # an invalid name, so it cannot clash with a stored claim


def may_be_backed_by_class(resource: str) -> bool:
    return is_extended_name(resource) or resource.startswith(DEVICE_CLASS_RESOURCE_PREFIX)


class ClassResolver:
    """Finds the DeviceClass behind an extended resource."""

    def __init__(self, classes: Iterable[DeviceClass] = ()) -> None:
        self._by_resource: dict[str, DeviceClass] = {}
        for device_class in classes:
            self._add(device_class)

    def _add(self, device_class: DeviceClass) -> None:
        """Map the explicit and the implicit name.

        Of two classes with one explicit name the newer wins, then the smaller name; one that comes second and loses is,
        as upstream, not even mapped by its implicit name.
        """
        name = device_class.spec.extended_resource_name
        rival = self._by_resource.get(name) if name is not None else None
        if rival is not None and not _is_preferred(device_class, rival):
            return
        if name is not None:
            self._by_resource[name] = device_class
        self._by_resource[DEVICE_CLASS_RESOURCE_PREFIX + device_class.name] = device_class

    def get(self, resource: str) -> DeviceClass | None:
        return self._by_resource.get(resource)

    def is_backed(self, resource: str) -> bool:
        return may_be_backed_by_class(resource) and resource in self._by_resource


def _is_preferred(new: DeviceClass, old: DeviceClass) -> bool:
    created, rival = (parse_time(c.metadata.creation_timestamp or "1970-01-01T00:00:00Z") for c in (new, old))
    return created > rival or (created == rival and new.name < old.name)


def find_claim(pod: Pod, claims: Iterable[ResourceClaim]) -> ResourceClaim | None:
    """Find the claim that an earlier attempt stored for the pod's extended resources."""
    for claim in claims:
        if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
            continue
        for owner in claim.metadata.owner_references:
            if owner.name == pod.name and owner.controller and owner.uid == pod.uid:
                return claim
    return None


def in_memory_claim(pod: Pod) -> ResourceClaim:
    """The claim that stands for the pod's extended resources until PreBind stores it."""
    return ResourceClaim(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaim",
        metadata=ObjectMeta(
            name=IN_MEMORY_NAME,
            generate_name=f"{pod.name}-extended-resources-",
            namespace=pod.namespace,
            uid=f"extended-resources-of-{pod.uid}",
            annotations={EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
            owner_references=[
                OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
            ],
        ),
    )


def requests_for(
    pod: Pod, resources: Iterable[str], resolver: ClassResolver
) -> tuple[list[DeviceRequest], list[ContainerExtendedResourceRequest]]:
    """Return requests for these resources, and which container uses which request.

    Containers that run in parallel each get their own devices. Plain init containers run before them, one after
    another: they reuse the devices of later containers, and share one request for what they need beyond that.
    """
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    is_short_lived = [i < len(pod.spec.init_containers) and not is_sidecar(c) for i, c in enumerate(containers)]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        device_class = resolver.get(resource)
        if device_class is None:
            continue
        long_lived: list[DeviceRequest | None] = [None] * len(containers)
        for i, container in enumerate(containers):
            if not is_short_lived[i]:
                long_lived[i], found = _request_of(i, container, resource, device_class.name, [])
                mappings += found
        largest: DeviceRequest | None = None
        names: set[str] = set()
        short_lived: list[ContainerExtendedResourceRequest] = []
        for i, container in enumerate(containers):
            if not is_short_lived[i]:
                continue
            request, found = _request_of(i, container, resource, device_class.name, long_lived[i:])
            short_lived += found
            if request is not None:
                names.add(request.name)
                if largest is None or _count(largest) < _count(request):
                    largest = request
        if largest is not None:
            for mapping in short_lived:
                if mapping.request_name in names:
                    mapping.request_name = largest.name
            requests.append(largest)
        requests += [request for request in long_lived if request is not None]
        mappings += short_lived
    return sorted(requests, key=lambda request: request.name), mappings


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def _request_of(
    index: int, container: Container, resource: str, class_name: str, reusable: Iterable[DeviceRequest | None]
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    asked = container.resources.requests.get(resource)
    amount = parse_quantity(asked) if asked is not None else None
    if amount is None or amount == 0 or amount.denominator != 1:
        return None, []
    mappings = []
    covered = 0
    for request in reusable:
        if request is None:
            continue
        covered += _count(request)
        mappings.append(ContainerExtendedResourceRequest(container.name, resource, request.name))
        if covered >= amount:
            return None, mappings
    position = sorted(container.resources.requests).index(resource)
    new = DeviceRequest(
        name=f"container-{index}-request-{position}",
        exactly=ExactDeviceRequest(
            device_class_name=class_name, allocation_mode=EXACT_COUNT, count=int(amount) - covered
        ),
    )
    mappings.append(ContainerExtendedResourceRequest(container.name, resource, new.name))
    return new, mappings


def device_totals(
    inventory: Inventory,
    selectors: CelSelectors,
    allocated: AllocatedState,
    device_class: DeviceClass,
    node_name: str,
    labels: Mapping[str, str],
) -> tuple[int, int]:
    """Return how many devices of the class the node has, and how many of them are allocated: for scoring by this
    resource.

    Raises CelError or AllocationError; upstream then counts (0, 0).
    """
    capacity = used = 0
    expressions = [s.cel.expression for s in device_class.spec.selectors if s.cel is not None]
    for candidate in inventory.published_for(node_name, labels):
        if all(selectors.matches(expression, candidate.content) for expression in expressions):
            capacity += 1
            used += allocated.is_in_use(candidate.id)
    return capacity, used
