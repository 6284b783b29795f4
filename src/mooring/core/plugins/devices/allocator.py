"""The structured allocator: devices for all claims of a pod, node after node, with its state and its writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec
import numpy as np

from mooring.api.clock import Clock
from mooring.api.core import ContainerExtendedResourceRequest, Pod
from mooring.api.resource import (
    DELETE_PROTECTION_FINALIZER,
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from mooring.core.framework.cycle_state import Budget, CycleState, OutOfTime
from mooring.core.framework.status import Status
from mooring.core.plugins.devices.cel import CelSelectors
from mooring.core.plugins.devices.claims import ClaimPlan, ClassLookup, RequestedDevices, consumer_of, plan_claim
from mooring.core.plugins.devices.constraints import AvailableCounters
from mooring.core.plugins.devices.device_checks import DeviceChecks, Refusal, Why
from mooring.core.plugins.devices.extended import IN_MEMORY_NAME, AllocatedState
from mooring.core.plugins.devices.pools import FIRST_RULES, Inventory, Pool, PublishedDevice, Reach, Rules
from mooring.core.plugins.devices.search import DeviceSearch, NodeSolution, SearchStage, Solution, stages_of
from mooring.core.state.node_rows import Mask, NodeRows
from mooring.core.state.node_selector import CompiledNodeSelector


@dataclass(slots=True, eq=False)
class AllocationTask:
    """Claims to be allocated together, prepared once for all nodes."""

    plans: list[ClaimPlan]
    stages: list[SearchStage]
    solutions: dict[tuple[int, tuple[int, ...]], Solution | None] = field(default_factory=dict)
    """Results by likeness of the node's devices and positions of taken ones."""


class Allocator:
    """Allocates for one pod. Create one per attempt: ``allocated`` must not change while it is used."""

    def __init__(
        self,
        inventory: Inventory,
        selectors: CelSelectors,
        allocated: AllocatedState,
        classes: ClassLookup,
        is_late: Callable[[], bool] = lambda: False,
        begin: Callable[[], None] = lambda: None,
        rules: Rules = FIRST_RULES,
    ) -> None:
        self.steps = 0
        """How many steps all searches took together: upstream's NumAllocateOneInvocations."""
        self._inventory = inventory
        self._allocated = allocated
        self._checks = DeviceChecks(inventory, selectors, allocated, rules)
        self._counters = AvailableCounters(allocated)
        self._classes = classes
        self._is_late = is_late
        self._begin = begin  # called before a node is searched, not for cached results

    def prepare(self, claims: Sequence[ResourceClaim]) -> AllocationTask:
        plans = [plan_claim(claim, self._classes) for claim in claims]
        return AllocationTask(plans, stages_of(plans))

    def allocate(self, node_name: str, labels: Mapping[str, str], task: AllocationTask) -> NodeSolution | None:
        """Return devices for all claims of a task, or None if there is no solution on this node.

        Raises AllocationError when a claim, class or expression is wrong, which no other node would fix.
        """
        reach = self._inventory.reach_of(node_name, labels)
        key = None
        if reach.likeness is not None and not (self._allocated.capacity and self._consumes_any(reach)):
            key = (reach.likeness, self._allocated.taken(reach))
            if key in task.solutions:
                solution = task.solutions[key]
                return None if solution is None else NodeSolution(solution, node_name, reach.devices)
        self._begin()
        solution = self._search(node_name, labels, reach, task)
        if key is not None:
            task.solutions[key] = solution
        if solution is None:
            return None
        found = NodeSolution(solution, node_name, reach.devices)
        if key is None:
            found.results()  # a result that cannot be written is an error of this node's search
        return found

    def refusals(
        self, node_name: str, labels: Mapping[str, str], task: AllocationTask
    ) -> Iterator[tuple[ResourceClaim, RequestedDevices, Pool, PublishedDevice, Refusal | None]]:
        """For every request and every device that the node reaches: why the request cannot have it, or None."""
        for pool, candidate in self._inventory.reach_of(node_name, labels).devices:
            for plan in task.plans:
                for request in (each for alternatives in plan.requests for each in alternatives):
                    refusal = self._checks.refusal(plan.claim, request, candidate, node_name, labels)
                    if refusal is None and candidate.device.consumes_counters:
                        refusal = self._short_counter(pool, candidate)
                    yield plan.claim, request, pool, candidate, refusal

    def _short_counter(self, pool: Pool, candidate: PublishedDevice) -> Refusal | None:
        """The first counter of which too little is left for the device beside those that are in use."""
        if candidate.is_shareable and self._checks.has_shares(candidate):
            return None  # has drawn them already
        left = self._counters.left(pool)
        for (counter_set, name), amount in self._counters.drawn_by(candidate):
            if (there := left.get((counter_set, name), amount)) < amount:
                text = f"counter {counter_set}/{name} is short: {amount} needed, {max(there, 0)} left"
                return Refusal(Why.COUNTER, text)
        return (
            None if self._counters.of(pool) is not None else Refusal(Why.COUNTER, "counters of its pool are overdrawn")
        )

    def _search(self, node_name: str, labels: Mapping[str, str], reach: Reach, task: AllocationTask) -> Solution | None:
        plans, stages = task.plans, task.stages
        search = DeviceSearch(self._checks, self._counters, node_name, labels, reach, plans, stages, self._is_late)
        try:
            return search.run()
        finally:
            self.steps += search.steps

    def _consumes_any(self, reach: Reach) -> bool:
        """Report whether some device is partly consumed: how much is left differs from node to node."""
        capacity = self._allocated.capacity
        return any(id in capacity for id in reach.ids)


# ---- writes to the API server: small patches, because our objects hold only part of the stored ones ------------------

Patch = dict[str, Any]

MERGE, STRATEGIC_MERGE = "application/merge-patch+json", "application/strategic-merge-patch+json"


@runtime_checkable
class ClaimWriter(Protocol):
    """Writer of a handle that can bind claims; a rejected write raises ApiError with its HTTP status."""

    def turn(self, claim_key: str) -> AbstractAsyncContextManager[None]:
        """Wait until no other pod of this scheduler writes the claim: concurrent writers would only get conflicts."""

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim: ...

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim: ...

    async def patch_claim(
        self, namespace: str, name: str, patch: Patch, *, subresource: str = "", content_type: str = MERGE
    ) -> ResourceClaim: ...

    async def delete_claim(self, namespace: str, name: str) -> None: ...

    async def patch_pod_status(self, namespace: str, name: str, patch: Patch) -> None: ...

    async def sleep(self, seconds: float) -> None: ...

    def record_event(self, pod: Pod, type: str, reason: str, action: str, message: str) -> None: ...


class Deallocate(msgspec.Struct, frozen=True):
    """PostFilter deallocates a claim, so that other devices can be tried."""

    claim: ResourceClaim


class DeleteClaim(msgspec.Struct, frozen=True):
    """A claim created for extended resources is no longer needed."""

    claim: ResourceClaim


class Unreserve(msgspec.Struct, frozen=True):
    """The pod, or the group, was rejected: it no longer needs the claim."""

    claim: ResourceClaim
    consumer_uid: str


ClaimWrite = Deallocate | DeleteClaim | Unreserve


async def perform(writer: ClaimWriter, write: ClaimWrite) -> ResourceClaim | None:
    """Carry out the write; return the claim as the API server has it now, or None if it is gone."""
    claim = write.claim
    if isinstance(write, Deallocate):
        patch = _of(claim, {"status": {"allocation": None, "reservedFor": None, "devices": None}})
        return await writer.patch_claim(claim.namespace, claim.name, patch, subresource="status")
    if isinstance(write, Unreserve):
        gone = [{"$patch": "delete", "uid": write.consumer_uid}]
        patch = {"metadata": {"uid": claim.uid}, "status": {"reservedFor": gone}}
        return await writer.patch_claim(
            claim.namespace, claim.name, patch, subresource="status", content_type=STRATEGIC_MERGE
        )
    if DELETE_PROTECTION_FINALIZER in claim.metadata.finalizers:
        kept = [f for f in claim.metadata.finalizers if f != DELETE_PROTECTION_FINALIZER]
        await writer.patch_claim(claim.namespace, claim.name, {"metadata": {"uid": claim.uid, "finalizers": kept}})
    await writer.delete_claim(claim.namespace, claim.name)
    return None


def _of(claim: ResourceClaim, patch: Patch) -> Patch:
    """Make a patch fail with a conflict if the claim has changed since we read it."""
    meta = claim.metadata
    patch.setdefault("metadata", {}).update(uid=meta.uid, resourceVersion=meta.resource_version)
    return patch


def finalizer_patch(claim: ResourceClaim) -> Patch | None:
    """Protect an allocated claim from deletion; None if it is protected already."""
    if DELETE_PROTECTION_FINALIZER in claim.metadata.finalizers:
        return None
    return _of(claim, {"metadata": {"finalizers": [*claim.metadata.finalizers, DELETE_PROTECTION_FINALIZER]}})


def reserve_patch(
    claim: ResourceClaim, consumer: ResourceClaimConsumerReference, allocation: AllocationResult | None, now: str
) -> Patch:
    """Record the allocation, if it is ours, and the consumers of the claim; ``now`` is empty where no time is kept."""
    consumers = [*claim.status.reserved_for, consumer]
    status: Patch = {"reservedFor": msgspec.to_builtins(consumers)}
    stamp = {"allocationTimestamp": now} if now else {}
    if allocation is not None:
        status["allocation"] = {**msgspec.to_builtins(allocation), **stamp}
    elif stamp and claim.status.allocation is not None and claim.status.allocation.allocation_timestamp is None:
        status["allocation"] = stamp
    return _of(claim, {"status": status})


def extended_status_patch(claim: ResourceClaim, mappings: list[ContainerExtendedResourceRequest]) -> Patch:
    return {
        "status": {
            "extendedResourceClaimStatus": {
                "resourceClaimName": claim.name,
                "requestMappings": msgspec.to_builtins(mappings),
            }
        }
    }


# ---- state of DynamicResources in one attempt at one pod -----------------------------------------------------------

KEY = "DynamicResources"


class NodeTask(NamedTuple):
    """An allocation task for nodes that provide the same extended resources as devices."""

    extended_claim: ResourceClaim | None
    """The claim for extended resources that these nodes need."""
    mappings: list[ContainerExtendedResourceRequest]
    task: AllocationTask | None
    """None if all claims are allocated."""


class NodeTimer:
    """Time limit of the search on one node. The search also stops when the whole attempt has timed out.

    It refers neither to the attempt nor to its state, because both refer to it: a reference cycle would keep some
    hundred kilobytes for each pod on 500 nodes until the garbage collector runs.
    """

    __slots__ = ("_budget", "_clock", "_deadline", "_timeout_s")

    def __init__(self, clock: Clock, timeout_s: float, budget: Budget) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._budget = budget
        self._deadline: float | None = None

    def start(self) -> None:
        if self._timeout_s:
            self._deadline = self._clock.monotonic() + self._timeout_s

    def is_late(self) -> bool:
        """Report whether the search on a node has timed out; raise OutOfTime if the whole attempt has."""
        if self._budget.is_spent:
            raise OutOfTime
        return self._deadline is not None and self._clock.monotonic() > self._deadline


@dataclass(slots=True, eq=False)
class ClaimAttempt:
    """State of one attempt. Empty ``claims`` means that the pod needs nothing from this plugin."""

    claims: list[ResourceClaim] = field(default_factory=list)
    """The pod's claims in order; the one for extended resources, if any, comes last."""
    extended: ResourceClaim | None = None
    extended_requests: dict[str, int] = field(default_factory=dict)
    allocator: Allocator | None = None
    available_on: list[CompiledNodeSelector | None] = field(default_factory=list)
    """Per claim the nodes where its allocation can be used; None if anywhere, or if it is not allocated."""
    stuck: set[int] = field(default_factory=set)
    """Allocated claims whose devices did not become ready."""
    unavailable: set[int] = field(default_factory=set)
    """Allocated claims that some node cannot use: PostFilter may deallocate them."""
    verdicts: dict[str, int] = field(default_factory=dict)
    """By node a number in ``reasons``: no pod can change it, so dry runs need not search again."""
    reasons: dict[Status, int] = field(default_factory=dict)
    """Why nodes are rejected, numbered from 1; 0 means that the pod can run on the node."""
    errors: set[int] = field(default_factory=set)
    """The numbers of reasons that make the whole attempt fail."""
    node_tasks: dict[frozenset[str] | None, NodeTask] = field(default_factory=dict)
    """By the extended resources that a node must provide as devices; None for nodes that need no claim for them."""
    node_allocations: dict[str, tuple[NodeSolution, NodeTask]] = field(default_factory=dict)
    """What the pod would get on a node, for the claims that have no allocation yet."""
    shared: dict[int, AllocationResult] = field(default_factory=dict)
    """By position of the claim: allocations that another pod of the group has reserved in the same cycle."""
    consumers: list[ResourceClaimConsumerReference] = field(default_factory=list)
    """The consumers that claims are reserved for, by position; the pod itself where the list has no entry."""
    reserved: dict[int, AllocationResult] = field(default_factory=dict)
    """By position of the claim: allocations that Reserve decided and PreBind has to store."""
    writes: list[ClaimWrite] = field(default_factory=list)
    """Writes that PostFilter or Unreserve request from the API server."""

    @property
    def has_user_claims(self) -> bool:
        return len(self.claims) > (self.extended is not None)

    def settle(self, node_name: str) -> None:
        """Drop all nodes but the one that the pod is being bound to: thousands of bindings may be in flight."""
        found = self.node_allocations.get(node_name)
        self.node_allocations = {} if found is None else {node_name: found}
        self.verdicts.clear()
        self.node_tasks.clear()
        self.allocator = None

    def binding_problem(self, pod_key: str, node_name: str) -> str:
        """Return the error with which PreBind will fail on this node, or "".

        Upstream stores a claim for extended resources beside the pod's own claims even where the node counts the
        resources itself, and then has no devices to list for the pod's containers.
        """
        _, task = self.node_allocations.get(node_name, (None, None))
        if task is None or task.extended_claim is None or task.mappings:
            return ""
        return f"nil or empty request mappings, no update of pod {pod_key} ExtendedResourceClaimStatus"

    def number_of(self, status: Status | None) -> int:
        """Return the number of a verdict on a node."""
        if status is None:
            return 0
        number = self.reasons.setdefault(status, len(self.reasons) + 1)
        if not status.is_rejected:
            self.errors.add(number)
        return number

    def blocked(self, nodes: NodeRows) -> list[tuple[int, Mask]]:
        """Yield allocated claims that cannot be used on some of the nodes, by position, with those nodes."""
        found = []
        for index, matcher in enumerate(self.available_on):
            if index in self.stuck:
                found.append((index, np.ones(len(nodes), np.bool_)))
            elif matcher is not None and not (mask := matcher.mask(nodes)).all():
                found.append((index, ~mask))
        return found

    def to_allocate(self) -> list[tuple[int, ResourceClaim]]:
        """Return the claims that still need devices."""
        return [
            (i, claim)
            for i, claim in enumerate(self.claims)
            if claim.status.allocation is None and i not in self.shared
        ]

    def consumer(self, index: int, pod: Pod) -> ResourceClaimConsumerReference:
        return self.consumers[index] if index < len(self.consumers) else consumer_of(pod)


def attempt_of(state: CycleState) -> ClaimAttempt | None:
    found = state.read(KEY)
    return found if isinstance(found, ClaimAttempt) else None


def binding_problem(state: CycleState, pod_key: str, node_name: str) -> str:
    """Return the error with which PreBind will fail on this node, or ""."""
    attempt = attempt_of(state)
    return "" if attempt is None else attempt.binding_problem(pod_key, node_name)


def chosen_devices(state: CycleState, pod_name: str, node_name: str) -> dict[str, list[DeviceRequestAllocationResult]]:
    """Return the devices the pod uses on a node, by claim, held before or newly allocated: for reports and decision
    logs.
    """
    attempt = attempt_of(state)
    if attempt is None:
        return {}
    found, _ = attempt.node_allocations.get(node_name, (None, None))
    fresh = iter(found.results() if found is not None else ())
    chosen = {}
    for index, claim in enumerate(attempt.claims):
        result = claim.status.allocation or attempt.shared.get(index) or next(fresh, None)
        if result is not None:
            name = f"extended-resources-of-{pod_name}" if claim.name == IN_MEMORY_NAME else claim.name
            chosen[f"{claim.namespace}/{name}"] = result.devices.results
    return chosen
