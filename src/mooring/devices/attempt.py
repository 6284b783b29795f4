"""What DynamicResources remembers of one attempt at one pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mooring.api.core import ContainerExtendedResourceRequest, Pod
from mooring.api.resource import (
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from mooring.clock import Clock
from mooring.devices.allocator import Allocator, Task
from mooring.devices.claims import consumer_of
from mooring.devices.extended import IN_MEMORY_NAME
from mooring.devices.results import NodeSolution
from mooring.devices.writes import ClaimWrite
from mooring.framework.cycle_state import Budget, CycleState, OutOfTime
from mooring.framework.status import Status
from mooring.state.node_rows import Mask, NodeRows
from mooring.state.node_selector import CompiledNodeSelector

KEY = "DynamicResources"


class NodeTask(NamedTuple):
    """What is to be allocated on nodes that must give the same extended resources as devices."""

    extended_claim: ResourceClaim | None
    """The claim for extended resources as these nodes need it."""
    mappings: list[ContainerExtendedResourceRequest]
    task: Task | None
    """None if all claims are allocated."""


class NodeTimer:
    """The time that the search on one node may take. The search also stops when the whole attempt has used up its own.

    It refers neither to the attempt nor to its state, because both lead to it. What refers to itself stays until the
    garbage collector comes: some hundred kilobytes for each pod on 500 nodes.
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
        """Report whether the search on a node has used up its time; OutOfTime if the whole attempt has."""
        if self._budget.is_spent:
            raise OutOfTime
        return self._deadline is not None and self._clock.monotonic() > self._deadline


@dataclass(slots=True, eq=False)
class Attempt:
    """Empty ``claims`` means that the pod needs nothing from this plugin."""

    claims: list[ResourceClaim] = field(default_factory=list)
    """The pod's claims in order; the one for extended resources, if any, comes last."""
    extended: ResourceClaim | None = None
    extended_requests: dict[str, int] = field(default_factory=dict)
    allocator: Allocator | None = None
    available_on: list[CompiledNodeSelector | None] = field(default_factory=list)
    """Per claim where its allocation can be used; None if anywhere, or if there is none yet."""
    stuck: set[int] = field(default_factory=set)
    """Allocated claims whose devices failed to become ready, or did not in time."""
    unavailable: set[int] = field(default_factory=set)
    """Allocated claims that some node could not use: PostFilter may give them back."""
    verdicts: dict[str, int] = field(default_factory=dict)
    """By node a number in ``reasons``: no pod can change it, so asking again for a hypothesis changes nothing."""
    reasons: dict[Status, int] = field(default_factory=dict)
    """Why nodes are refused, numbered from 1; 0 stands for a node on which the pod can run."""
    errors: set[int] = field(default_factory=set)
    """The numbers of reasons that make the whole attempt fail."""
    node_tasks: dict[frozenset[str] | None, NodeTask] = field(default_factory=dict)
    """By the extended resources that a node must give as devices; None for nodes that need no claim for them."""
    node_allocations: dict[str, tuple[NodeSolution, NodeTask]] = field(default_factory=dict)
    """What the pod would get on a node, for the claims that have no allocation yet."""
    shared: dict[int, AllocationResult] = field(default_factory=dict)
    """By position of the claim: allocations that another pod of the group has reserved in the same cycle."""
    consumers: list[ResourceClaimConsumerReference] = field(default_factory=list)
    """For whom claims are reserved, by position; for the pod itself where the list has no entry."""
    reserved: dict[int, AllocationResult] = field(default_factory=dict)
    """By position of the claim: allocations that Reserve decided and PreBind has to store."""
    writes: list[ClaimWrite] = field(default_factory=list)
    """What PostFilter or Unreserve want done at the API server."""

    @property
    def has_user_claims(self) -> bool:
        return len(self.claims) > (self.extended is not None)

    def settle(self, node_name: str) -> None:
        """Forget all nodes but the one that the pod is being bound to: thousands of bindings may be under way."""
        found = self.node_allocations.get(node_name)
        self.node_allocations = {} if found is None else {node_name: found}
        self.verdicts.clear()
        self.node_tasks.clear()
        self.allocator = None

    def binding_problem(self, pod_key: str, node_name: str) -> str:
        """What PreBind is going to fail with on this node, or nothing.

        Upstream stores a claim for extended resources beside the pod's own claims even where the node counts the
        resources itself, and then has nothing to tell the pod's containers about it.
        """
        _, task = self.node_allocations.get(node_name, (None, None))
        if task is None or task.extended_claim is None or task.mappings:
            return ""
        return f"nil or empty request mappings, no update of pod {pod_key} ExtendedResourceClaimStatus"

    def number_of(self, status: Status | None) -> int:
        """The number of a verdict on a node."""
        if status is None:
            return 0
        number = self.reasons.setdefault(status, len(self.reasons) + 1)
        if not status.is_rejected:
            self.errors.add(number)
        return number

    def blocked(self, nodes: NodeRows) -> list[tuple[int, Mask]]:
        """Allocated claims that cannot be used on some of the nodes, by position, and on which."""
        found = []
        for index, matcher in enumerate(self.available_on):
            if index in self.stuck:
                found.append((index, np.ones(len(nodes), np.bool_)))
            elif matcher is not None and not (mask := matcher.mask(nodes)).all():
                found.append((index, ~mask))
        return found

    def to_allocate(self) -> list[tuple[int, ResourceClaim]]:
        """The claims that need devices of their own."""
        return [
            (i, claim)
            for i, claim in enumerate(self.claims)
            if claim.status.allocation is None and i not in self.shared
        ]

    def consumer(self, index: int, pod: Pod) -> ResourceClaimConsumerReference:
        return self.consumers[index] if index < len(self.consumers) else consumer_of(pod)


def attempt_of(state: CycleState) -> Attempt | None:
    found = state.read(KEY)
    return found if isinstance(found, Attempt) else None


def binding_problem(state: CycleState, pod_key: str, node_name: str) -> str:
    """What PreBind is going to fail with on this node, or nothing."""
    attempt = attempt_of(state)
    return "" if attempt is None else attempt.binding_problem(pod_key, node_name)


def chosen_devices(state: CycleState, pod_name: str, node_name: str) -> dict[str, list[DeviceRequestAllocationResult]]:
    """The devices the pod uses on a node, by claim, held before or newly allocated: for reports and decision logs."""
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
