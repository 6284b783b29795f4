"""DynamicResources: places a pod where the devices that its ResourceClaims request are available."""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Iterator, Sequence, Set
from copy import copy
from typing import Any, ClassVar

import numpy as np

from mooring.api.core import ContainerExtendedResourceRequest, Pod
from mooring.api.errors import ApiError, ParseError
from mooring.api.meta import Object
from mooring.api.pod_groups import PodGroup
from mooring.api.resource import AllocationResult, DeviceTaintRule, ResourceClaim
from mooring.core.config.types import DynamicResourcesArgs
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import (
    NOTHING_TO_PRE_BIND,
    Change,
    PreFilterResult,
    PreFlight,
    Remedy,
    Scores,
    default_normalize,
)
from mooring.core.framework.pod_groups import PodGroupInfo, PodGroupPostFilterResult, Tried
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP, SUCCESS, NodeStatuses, PostFilterResult, Status, Verdict
from mooring.core.plugins.devices.allocator import (
    KEY,
    Allocator,
    ClaimAttempt,
    ClaimWriter,
    Deallocate,
    DeleteClaim,
    NodeTask,
    NodeTimer,
    Unreserve,
    attempt_of,
    perform,
)
from mooring.core.plugins.devices.binding import ClaimBinder
from mooring.core.plugins.devices.claims import (
    ClaimProblem,
    binding_failure,
    consumers_of,
    group_claims,
    has_binding_timed_out,
    has_prioritized_list,
    is_ready_for_binding,
    is_reserved_for,
    may_use,
    pod_claims,
    prioritized_score,
)
from mooring.core.plugins.devices.cluster_devices import ClusterDevices
from mooring.core.plugins.devices.explained import DevicesExplained, held_elsewhere, release
from mooring.core.plugins.devices.extended import (
    IN_MEMORY_NAME,
    find_claim,
    in_memory_claim,
    may_be_backed_by_class,
    requests_for,
)
from mooring.core.plugins.devices.pools import AllocationError, Rules
from mooring.core.plugins.devices.search import InvalidPools, Solution
from mooring.core.state.cluster import group_of
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.node_selector import compile_node_selector
from mooring.core.state.pod_info import PodInfo

CLAIM_UPDATE = ClusterEvent(EventResource.RESOURCE_CLAIM, ActionType.UPDATE)
NO_RESOURCES: frozenset[str] = frozenset()
CANNOT_ALLOCATE = Status.unresolvable("cannot allocate all claims")
NOT_AVAILABLE = Status.unresolvable("resourceclaim not available on the node")
NOT_SERVED = Status.unresolvable("the API server does not serve resource.k8s.io/v1: there are no resource claims")
STALE_EXTENDED_CLAIM = Status.unresolvable("cannot schedule extended resource claim")
CANNOT_FIT = Status.unresolvable("cannot fit resource")
NOTHING_TO_DO = ClaimAttempt()  # of a pod without claims; never changed
# What upstream gets for the second of two pods that give the same claim back: both know the claim as it was before.
_CONFLICT = (
    'Operation cannot be fulfilled on resourceclaims.resource.k8s.io "{}": the object has been modified; '
    "please apply your changes to the latest version and try again"
)
BINDING_TIMEOUT_S = 600.0


class DynamicResources:
    """Rejects nodes that cannot provide the pod's devices; evicting pods never helps, so always unresolvably.

    Allocated claims restrict the pod to nodes where their devices can be used. For the others the allocator searches
    each node, and what it found on the chosen node is reserved and, before binding, written into the claims. A node
    whose devices rank higher in a prioritised list scores more. New devices, classes, claims or node labels can make a
    rejected pod schedulable.
    """

    name: ClassVar[str] = KEY
    # A search costs more than the other filters: only nodes that passed them are asked about.
    traits: ClassVar[Traits] = Traits(filter_reads=Reads.LOCAL, score_reads=Reads.LOCAL, per_node=True)

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        self._handle = handle
        self._clock = handle.clock
        self.prepare(handle)
        assert isinstance(handle.devices, ClusterDevices)
        self._devices = handle.devices
        self._prioritizes = handle.is_enabled("DRAPrioritizedList", True)
        self._scores = self._prioritizes and handle.is_enabled("DevicesAreScored", True)
        self._is_silent = handle.is_enabled("DeallocationIsSilent")
        self._places_groups = handle.is_enabled("TopologyAwareWorkloadScheduling")
        self._is_told_of_deleted_claims = handle.is_enabled("DeletedClaimsWake")
        self._groups_have_claims = handle.is_enabled("DRAWorkloadResourceClaims")
        self._has_rules = handle.is_enabled("DRADeviceTaintRules")
        conditions = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
        self._has_binding_conditions = all(handle.is_enabled(gate, True) for gate in conditions)
        self._filter_timeout_s = args.filter_timeout or 0.0
        self._binding_timeout_s = BINDING_TIMEOUT_S if args.binding_timeout is None else args.binding_timeout

    @classmethod
    def prepare(cls, handle: Handle) -> None:
        """Create the state shared by all profiles: with two, the same device could be allocated twice."""
        if isinstance(handle.devices, ClusterDevices):
            if not handle.devices.is_of(handle.cluster):  # the cluster is a fork
                handle.devices = handle.devices.on(handle.cluster)
        else:
            handle.devices = ClusterDevices(
                handle.cluster,
                extended=handle.is_enabled("DRAExtendedResource", True),
                taint_rules=handle.is_enabled("DRADeviceTaintRules"),
                rules=Rules.of(handle.features),
            )

    # ---- before the queue, and what lets a pod back in ---------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status:
        try:
            self._claims_of(pod)
        except ClaimProblem as problem:
            if not self._handle.claims_are_served():
                return SUCCESS  # without the claim the pod would wait silently: an attempt reports the reason
            return Status.unresolvable(str(problem))
        return SUCCESS

    def _claims_of(self, pod: Pod) -> list[ResourceClaim]:
        return pod_claims(pod, self._devices.claim, by_groups=self._groups_have_claims)

    def facts(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterator[str]:
        """Which devices the refused nodes have, and why each does not serve; where a claim's own devices are."""
        attempt = attempt_of(state)
        for index in sorted(attempt.unavailable) if attempt is not None else ():
            assert attempt is not None
            yield from held_elsewhere(attempt.claims[index], self._handle.cluster)
        explained = self._explained(attempt, nodes)
        if explained is not None:
            yield from explained.facts()

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterator[Change | Remedy]:
        attempt = attempt_of(state)
        for index in sorted(attempt.unavailable) if attempt is not None else ():
            assert attempt is not None
            yield release(attempt.claims[index], self._handle.cluster)
        explained = self._explained(attempt, nodes)
        if explained is not None:
            yield from explained.remedies()
        for claim in pod.pod.spec.resource_claims:
            source = claim.resource_claim_name or claim.resource_claim_template_name or ""
            yield _without_claim(claim.name, source)

    def devices_for(self, state: CycleState, nodes: NodeRows) -> list[dict[str, str]]:
        """Which devices were looked at for the pod's claims on these nodes, and why each was refused."""
        explained = self._explained(attempt_of(state), nodes)
        return [] if explained is None else explained.rows()

    def _explained(self, attempt: ClaimAttempt | None, nodes: NodeRows) -> DevicesExplained | None:
        """What can be said about the devices of these nodes; None if the pod asks for none of them."""
        wanted = None if attempt is None else next(iter(attempt.node_tasks.values()), None)
        if attempt is None or attempt.allocator is None or wanted is None or wanted.task is None:
            return None
        return DevicesExplained(attempt.allocator, wanted.task, nodes, self._handle.cluster, self._devices.claims)

    def events_to_register(self) -> Sequence[EventRegistration]:
        add_or_update = ActionType.ADD | ActionType.UPDATE
        about_claims = add_or_update | ActionType.DELETE if self._is_told_of_deleted_claims else add_or_update
        changed = add_or_update | ActionType.DELETE
        about_rules = (
            (on(EventResource.DEVICE_TAINT_RULE, changed, self._after_rule_change),) if self._has_rules else ()
        )
        return (
            on(
                EventResource.NODE,
                ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE,
            ),
            on(EventResource.RESOURCE_CLAIM, about_claims, self._after_claim_change),
            on(EventResource.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._after_pod_change),
            on(EventResource.DEVICE_CLASS, add_or_update),
            on(EventResource.RESOURCE_SLICE, add_or_update),
            *about_rules,
        )

    def _after_rule_change(self, pod: Pod, before: Object | None, after: Object | None) -> Hint:
        """Treat it, like upstream, as an update of the slices whose devices have other taints now."""
        old, new = (rule if isinstance(rule, DeviceTaintRule) else None for rule in (before, after))
        return Hint.QUEUE if self._devices.taints_differ(old, new) else Hint.SKIP

    def _after_claim_change(self, pod: Pod, before: Object | None, after: Object | None) -> Hint:
        if not isinstance(after, ResourceClaim):
            is_idle = isinstance(before, ResourceClaim) and before.status.allocation is None
            return Hint.SKIP if is_idle else Hint.QUEUE  # a deleted allocated claim frees its devices
        old = before if isinstance(before, ResourceClaim) else None
        is_freed = old is not None and old.status.allocation is not None and after.status.allocation is None
        if not is_freed and not may_use(pod, after):
            return Hint.SKIP  # the usual case: there are as many claims as pods
        try:
            uses_claim = any(claim.uid == after.uid for claim in self._claims_of(pod))
        except ClaimProblem:
            return Hint.SKIP
        if is_freed:
            return Hint.QUEUE  # its devices are free for others
        if not uses_claim:
            return Hint.SKIP
        return Hint.SKIP if old is not None and old.status == after.status else Hint.QUEUE

    def _after_pod_change(self, pod: Pod, before: Object | None, after: Object | None) -> Hint:
        if not isinstance(after, Pod):
            return Hint.QUEUE
        if after.uid != pod.uid:
            return Hint.SKIP
        try:
            self._claims_of(after)
        except ClaimProblem:
            return Hint.SKIP
        return Hint.QUEUE

    # ---- finding a node ----------------------------------------------------------------------------------------

    def sign(self, pod: PodInfo) -> Hashable:
        """Return no signature: pods with claims are never equivalent."""
        return None if pod.shape.spec.resource_claims else ()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        if not pod.shape.spec.resource_claims and not pod.shape.scalar_requests:
            state.write(KEY, NOTHING_TO_DO)
            return SKIP
        state.write(KEY, ClaimAttempt())  # PostFilter tells "nothing to do" from "never asked"
        attempt = ClaimAttempt()
        try:
            attempt.claims = self._claims_of(pod.pod)
        except ClaimProblem as problem:
            return Status.unresolvable(str(problem)) if self._handle.claims_are_served() else NOT_SERVED
        self._add_extended_claim(attempt, pod)
        if not attempt.claims:
            return SKIP
        if self._groups_have_claims and (group := self._group_of(pod.pod)) is not None:
            attempt.consumers = consumers_of(pod.pod, group)
        for i, claim in enumerate(attempt.claims):
            shared = self._devices.shared_allocation(claim.uid, state.group_cycle)
            if claim.status.allocation is None and shared is not None:
                attempt.shared[i] = shared
            held = claim.status.allocation or shared
            status = self._check_allocated(attempt, i, held) if held else self._check_new(attempt, claim)
            if not status.is_success:
                return status
        if any(claim.status.allocation is None for claim in attempt.claims):
            timer = NodeTimer(self._clock, self._filter_timeout_s, state.budget)
            attempt.allocator = Allocator(
                self._devices.inventory(),
                self._devices.selectors,
                self._devices.allocated(),
                self._devices.device_class,
                timer.is_late,
                timer.start,
                self._devices.rules,
            )
        state.write(KEY, attempt)
        return SUCCESS

    def _add_extended_claim(self, attempt: ClaimAttempt, pod: PodInfo) -> None:
        asked = {name: n for name, n in pod.shape.requests.items() if n and may_be_backed_by_class(name)}
        resolver = self._devices.resolver()
        if not any(resolver.get(name) is not None for name in asked):
            return
        attempt.extended_requests = asked
        attempt.extended = find_claim(pod.pod, self._devices.claims()) or in_memory_claim(pod.pod)
        attempt.claims.append(attempt.extended)

    def _group_of(self, pod: Pod) -> PodGroup | None:
        key = group_of(pod)
        return self._handle.cluster.objects.get(PodGroup, key) if key else None

    def _check_allocated(self, attempt: ClaimAttempt, index: int, allocation: AllocationResult) -> Status:
        claim = attempt.claims[index]
        matcher = None
        if allocation.node_selector is not None:
            matcher = compile_node_selector(allocation.node_selector)
            problem = next((term.error for term in matcher.terms if term.error), "")
            if problem:
                return Status.error(problem)
        attempt.available_on.append(matcher)
        is_late = has_binding_timed_out(claim, self._clock.now(), self._binding_timeout_s)
        if binding_failure(claim) or (is_late and not is_ready_for_binding(claim)):
            attempt.stuck.add(index)
        return SUCCESS

    def _check_new(self, attempt: ClaimAttempt, claim: ResourceClaim) -> Status:
        attempt.available_on.append(None)
        if self._devices.pending_allocation(claim.uid) is not None:
            return Status.unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        if claim is attempt.extended:
            return SUCCESS  # it has no requests before a node is searched
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                wanted = [(request.name, request.exactly.device_class_name)]
            elif request.first_available:
                if not self._prioritizes:
                    which = f"resource claim {claim.key}, request {request.name}"
                    return Status.unresolvable(
                        f"{which}: has subrequests, but the DRAPrioritizedList feature is disabled"
                    )
                wanted = [(f"{request.name}/{sub.name}", sub.device_class_name) for sub in request.first_available]
            else:
                return Status.unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
            for name, class_name in wanted:
                if not class_name:
                    return Status.error(f"request {name}: unsupported request type")
                if self._devices.device_class(class_name) is None:
                    return Status.unresolvable(f"request {name}: device class {class_name} does not exist")
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        attempt = attempt_of(state)
        if attempt is None or not attempt.claims:
            return None
        blocked = attempt.blocked(nodes)
        if attempt.allocator is None and attempt.extended is None:
            attempt.unavailable.update(index for index, _ in blocked)
            return (
                Verdict.where(np.logical_or.reduce([mask for _, mask in blocked]), NOT_AVAILABLE) if blocked else None
            )
        ids = [0] * len(nodes)
        counted = {resource: nodes.allocatable(resource) != 0 for resource in attempt.extended_requests}
        verdicts = attempt.verdicts
        latest, latest_number = None, 0  # most nodes have the same verdict as the previous one
        for i, node in enumerate(nodes.infos):
            number = verdicts.get(node.name)
            if number is None:
                by_node = {resource for resource, column in counted.items() if column[i]} if counted else NO_RESOURCES
                unavailable = [index for index, mask in blocked if mask[i]] if blocked else ()
                status = self._judge(attempt, pod, node, by_node, unavailable)
                if status is not latest:
                    latest, latest_number = status, attempt.number_of(status)
                number = verdicts[node.name] = latest_number
            ids[i] = number
            if number in attempt.errors:
                break  # it fails the attempt: no need to check more nodes
        return Verdict.choose(np.array(ids), list(attempt.reasons)) if any(ids) else None

    def _judge(
        self, attempt: ClaimAttempt, pod: PodInfo, node: NodeInfo, counted: Set[str], unavailable: Sequence[int]
    ) -> Status | None:
        """Check one node; None means that the pod can run there.

        ``counted`` are the resources that the node counts itself, ``unavailable`` the allocated claims, by position,
        that cannot be used there.
        """
        by_devices: frozenset[str] | None = None
        if attempt.extended is not None:
            needed = self._resources_by_devices(attempt, node, counted)
            if isinstance(needed, Status):
                return needed
            if needed is None and not attempt.has_user_claims:
                return None  # the node counts the resource itself
            by_devices = needed
        wanted = attempt.node_tasks.get(by_devices)
        if wanted is None:
            wanted = attempt.node_tasks[by_devices] = self._task_for(attempt, pod, by_devices)
        found = None
        if attempt.allocator is not None and wanted.task is not None:
            try:
                found = attempt.allocator.allocate(node.name, node.labels, wanted.task)
            except InvalidPools as problem:
                return Status.unresolvable(str(problem))
            except (AllocationError, ParseError) as problem:
                return Status.error(str(problem))
            if found is None:
                return CANNOT_ALLOCATE
        if unavailable:
            attempt.unavailable.update(unavailable)
            return NOT_AVAILABLE
        if found is not None:
            attempt.node_allocations[node.name] = found, wanted
        return None

    def _resources_by_devices(
        self, attempt: ClaimAttempt, node: NodeInfo, counted: Set[str]
    ) -> frozenset[str] | Status | None:
        """Return the extended resources that the node must provide as devices; None if it needs no claim for them."""
        claim = attempt.extended
        assert claim is not None
        if claim.spec.devices.requests:
            return STALE_EXTENDED_CLAIM  # of an earlier attempt: PostFilter deletes it
        resolver = self._devices.resolver()
        by_devices = set()
        for resource in attempt.extended_requests:
            if resolver.get(resource) is not None and resource not in counted:
                by_devices.add(resource)
            elif node.node is None or resource not in node.node.status.allocatable:
                return CANNOT_FIT
        if (not by_devices and not attempt.has_user_claims) or claim.status.allocation is not None:
            return None
        return frozenset(by_devices)

    def _task_for(self, attempt: ClaimAttempt, pod: PodInfo, by_devices: frozenset[str] | None) -> NodeTask:
        claims = [claim for _, claim in attempt.to_allocate()]
        extended: ResourceClaim | None = None
        mappings: list[ContainerExtendedResourceRequest] = []
        if by_devices is not None and attempt.extended is not None:
            requests, mappings = requests_for(pod.pod, by_devices, self._devices.resolver())
            extended = copy(attempt.extended)
            extended.spec = copy(extended.spec)
            extended.spec.devices = copy(extended.spec.devices)
            extended.spec.devices.requests = requests
            claims[-1] = extended
        task = None if attempt.allocator is None else attempt.allocator.prepare(claims)
        return NodeTask(extended, mappings, task)

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> PostFilterResult:
        """Deallocate one claim that blocked the pod; its update event wakes the pod for another attempt."""
        attempt = attempt_of(state)
        if attempt is None:
            return PostFilterResult(Status.error("not found"))
        if not attempt.claims:
            return self._nothing_done("no new claims to deallocate")
        done = self._give_back(attempt, pod)
        return PostFilterResult(Status.unschedulable(done)) if done else self._nothing_done("still not schedulable")

    def _give_back(self, attempt: ClaimAttempt, pod: PodInfo) -> str:
        """Deallocate one claim, or delete the one for extended resources; return a description, if any."""
        idle = [
            claim
            for claim in (attempt.claims[index] for index in sorted(attempt.unavailable))
            if claim is not attempt.extended
            and [consumer.uid for consumer in claim.status.reserved_for] in ([], [pod.uid])
        ]
        if idle:
            attempt.writes.append(Deallocate(idle[self._handle.pick(len(idle))]))
            return "deallocation of ResourceClaim completed"
        if attempt.extended is not None and attempt.extended.name != IN_MEMORY_NAME:
            attempt.writes.append(DeleteClaim(attempt.extended))
            return "deletion of ResourceClaim completed"
        return ""

    def pod_group_post_filter(self, group: PodGroupInfo, tried: Sequence[Tried]) -> PodGroupPostFilterResult:
        """Deallocate for every pod of a group that was tried, then for claims of the group itself."""
        if self._places_groups and group.group.spec.scheduling_constraints is not None:
            return PodGroupPostFilterResult(Status.unschedulable())
        written: set[str] = set()
        all_gave = True
        for each in tried:
            attempt = attempt_of(each.state)
            if attempt is None:
                continue
            if attempt.claims and self._give_back(attempt, each.pod):
                claim = attempt.writes[-1].claim
                if claim.key in written:
                    attempt.writes.pop()
                    return PodGroupPostFilterResult(Status.error(_CONFLICT.format(claim.name)))
                written.add(claim.key)
            else:
                all_gave = False
        if self._groups_have_claims and not all_gave:
            status = self._give_back_for_group(group.group, tried, written)
            if not status.is_success:
                return PodGroupPostFilterResult(status)
        return PodGroupPostFilterResult(Status.unschedulable("deallocation and deletion of ResourceClaims completed"))

    def _give_back_for_group(self, group: PodGroup, tried: Sequence[Tried], written: Set[str]) -> Status:
        """Deallocate one claim that only the group holds, unless a pod of it has a node; success if there is none."""
        if self._handle.cluster.groups.placed(group.key):
            return SUCCESS
        for each in tried:
            attempt = attempt_of(each.state) or NOTHING_TO_DO
            for index in sorted(attempt.unavailable):
                claim = attempt.claims[index]
                if [consumer.uid for consumer in claim.status.reserved_for] in ([], [group.uid]):
                    if claim.key in written:
                        return Status.error(_CONFLICT.format(claim.name))
                    attempt.writes.append(Deallocate(claim))
                    return Status.unschedulable("deallocation of PodGroup ResourceClaim completed")
        try:
            claims = group_claims(group, self._devices.claim)
        except ClaimProblem as problem:
            return Status.error(str(problem))
        for claim in claims:
            if claim.status.allocation is not None and is_reserved_for(claim, tried[0].pod.pod, by_groups=True):
                known = attempt_of(tried[0].state)
                attempt = ClaimAttempt() if known is None or known is NOTHING_TO_DO else known
                tried[0].state.write(KEY, attempt)
                attempt.writes.append(Unreserve(claim, group.uid))
                return Status.unresolvable("ResourceClaim unreserved for PodGroup")
        return SUCCESS

    def _nothing_done(self, text: str) -> PostFilterResult:
        return PostFilterResult(Status.unschedulable() if self._is_silent else Status.unschedulable(text))

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        attempt = attempt_of(state)
        if attempt is None or not attempt.node_allocations or not self._scores:
            return None
        scores = np.zeros(len(nodes), np.int64)
        if not any(has_prioritized_list(claim) for claim in attempt.claims):
            return scores
        held = sum(
            prioritized_score(claim, claim.status.allocation or attempt.shared.get(i))
            for i, claim in enumerate(attempt.claims)
        )
        known: dict[Solution, int] = {}  # nodes with equivalent devices share a solution
        for i, node in enumerate(nodes.infos):
            found, _ = attempt.node_allocations.get(node.name, (None, None))
            if found is None:
                continue
            if found.solution not in known:
                known[found.solution] = found.solution.score
            scores[i] = held + known[found.solution]
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        return default_normalize(scores, reverse=False)

    # ---- reserving and binding --------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        attempt = attempt_of(state)
        if attempt is None or attempt.allocator is None:
            return SUCCESS
        wanted = attempt.to_allocate()
        found, _ = attempt.node_allocations.get(node_name, (None, None))
        if found is None:
            if all(claim is attempt.extended for _, claim in wanted):
                return SUCCESS  # the node counts the resource itself
            return Status.error("claim allocation not found for node")
        for (index, claim), result in zip(wanted, found.results(), strict=True):
            attempt.reserved[index] = result
            self._devices.add_pending(claim.uid, claim, result, state.group_cycle)
        for index, result in attempt.shared.items():
            attempt.reserved[index] = result
            claim = attempt.claims[index]
            self._devices.add_pending(claim.uid, claim, result, state.group_cycle)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        attempt = attempt_of(state)
        if attempt is None:
            return
        for index, claim in enumerate(attempt.claims):
            if index in attempt.reserved and self._devices.release_pending(claim.uid):
                self._tell_of_free(claim, attempt.reserved[index])
            if claim is attempt.extended:
                if self._devices.remove_pending(in_memory_claim(pod.pod).uid):
                    self._tell_of_free(claim, attempt.reserved[index])
                if claim.name != IN_MEMORY_NAME:
                    attempt.writes.append(DeleteClaim(claim))
            elif claim.status.allocation is not None and is_reserved_for(claim, pod.pod):
                attempt.writes.append(Unreserve(claim, pod.uid))

    def _tell_of_free(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        """Report free devices that were never stored in their claim, so that no watch event reports them.

        Upstream wakes no pod here: pods that need these devices wait for another event, or for five minutes.
        """
        before, after = copy(claim), copy(claim)
        before.status, after.status = copy(claim.status), copy(claim.status)
        before.status.allocation, after.status.allocation = allocation, None
        self._handle.free(CLAIM_UPDATE, before, after)

    def after_failure(self, state: CycleState, pod: PodInfo) -> Coroutine[Any, Any, None] | None:
        """Carry out the writes that PostFilter or Unreserve requested."""
        attempt, writer = attempt_of(state), self._handle.writer
        if attempt is None or not attempt.writes or not isinstance(writer, ClaimWriter):
            return None
        return self._write(writer, attempt)

    async def _write(self, writer: ClaimWriter, attempt: ClaimAttempt) -> None:
        while attempt.writes:
            write = attempt.writes.pop(0)
            claim = await perform(writer, write)
            if isinstance(write, DeleteClaim):
                self._devices.forget(write.claim)
            elif isinstance(write, Unreserve) and claim is not None:
                # The claim was assumed to be reserved. Upstream assumes so until its watch shows otherwise, and may
                # bind the pod.
                self._devices.assume(claim)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight:
        attempt = attempt_of(state)
        if attempt is None or not attempt.claims:
            return NOTHING_TO_PRE_BIND
        attempt.settle(node_name)
        return PreFlight(SUCCESS, allow_parallel=True)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Store allocations and reservations, then wait for devices that must be made ready."""
        attempt = attempt_of(state)
        if attempt is None or not attempt.claims:
            return SUCCESS
        writer = self._handle.writer
        if not isinstance(writer, ClaimWriter):
            return Status.error("no API server to store claims with")
        try:
            meters = self._handle.meters(pod.pod.spec.scheduler_name)
            binding = ClaimBinder(
                writer,
                self._devices,
                self._clock,
                self._binding_timeout_s,
                attempt,
                meters,
                by_groups=self._groups_have_claims,
                keeps_times=self._has_binding_conditions,
            )
            return await binding.run(pod.pod, node_name)
        except ApiError as error:
            return Status.error(str(error))


def _without_claim(name: str, source: str) -> Change:
    """Remove a claim from the pod: if the pod fits then, the claim's devices are the obstacle."""

    def edit(pod: Pod) -> None:
        pod.spec.resource_claims = [claim for claim in pod.spec.resource_claims if claim.name != name]

    text = f"without resource claim {name}" + (f" ({source})" if source else "")
    return Change(text, "resourceClaim", 6.0, edit=edit)
