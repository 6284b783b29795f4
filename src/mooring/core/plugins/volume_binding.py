"""VolumeBinding: every claim of a pod needs a volume that its node can reach, existing or provisioned."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mooring.api.core import Pod
from mooring.api.errors import ApiError, ParseError
from mooring.api.meta import Object
from mooring.api.quantity import ceil_value, value_of
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.core.config.types import VolumeBindingArgs
from mooring.core.framework.cluster_event import ActionType, ClusterEvent, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import NOTHING_TO_PRE_BIND, PreFilterResult, PreFlight, Remedy, Scores
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SKIP, SKIP_FOR_TEMPLATE, SUCCESS, Status, Verdict
from mooring.core.plugins.resource_usage import piecewise_linear
from mooring.core.plugins.volumes.bind_volumes import BindError, VolumeBinder, VolumeWriter, bound_to, placed_on
from mooring.core.plugins.volumes.binding_plan import (
    ERROR,
    REASONS,
    BindingInfo,
    Planner,
    PodClaims,
    PodVolumes,
    VolumePlan,
    volume_limit,
)
from mooring.core.plugins.volumes.claims import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimRef,
    after_claim,
    claim_class,
    claim_not_found,
    claims_of,
    is_fully_bound,
    ownership_problem,
    without_volumes,
)
from mooring.core.plugins.volumes.csi_migration import MIGRATED_PLUGINS
from mooring.core.plugins.volumes.free_volumes import AssumeCache, OutOfSync, capacity_of, storage_request
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

UNBOUND = Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")
NO_STATE = Status.error("not found")  # upstream's text when PreFilter has not run
KEY = "VolumeBinding"
VOLUME_UPDATE = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.UPDATE)
CLAIM_UPDATE = ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.UPDATE)


@dataclass(slots=True)
class BindingState:
    """State of one attempt: the pod's claims."""

    claims: PodClaims = field(default_factory=PodClaims)
    plan: VolumePlan | None = None  # built by the first filter
    all_bound: bool = False
    reserved: dict[str, PodVolumes] = field(default_factory=dict)  # by node


class VolumeBinding:
    """Rejects nodes from which the pod's claims cannot be served (unresolvable: evicting pods frees no volumes).

    A bound claim's volume must be reachable. A claim that waits for its first consumer takes the smallest existing
    volume that fits, or is provisioned for the node if its class supports that. ``reserve`` decides it for the chosen
    node, ``pre_bind`` carries it out.
    """

    name: ClassVar[str] = "VolumeBinding"
    traits: ClassVar[Traits] = Traits(filter_reads=Reads.LOCAL)

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        self._handle = handle
        self._objects, self._table = handle.cluster.objects, handle.cluster.table
        self._volumes = AssumeCache(PersistentVolume, self._objects, "persistentvolumes")
        self._claims = AssumeCache(PersistentVolumeClaim, self._objects, "persistentvolumeclaims")
        self._planner = Planner(handle.cluster, self._volumes)
        self._binder = VolumeBinder(
            handle.cluster, handle.clock, self._volumes, self._claims, args.bind_timeout_seconds
        )
        self._without_claims = BindingState()  # shared: nothing is ever planned for these pods
        self._shape: list[tuple[int, int]] = []
        if handle.is_enabled("StorageCapacityScoring"):
            self._shape = [(point.utilization, point.score * 10) for point in args.shape or ()] or [(0, 100), (100, 0)]

    # ---- filtering ---------------------------------------------------------------------------------------------

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.shape.signed_volumes(pod.pod.spec)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        refs = list(claims_of(pod)) if pod.shape.volumes else []
        if not refs:
            state.write(KEY, self._without_claims)
            return SKIP
        problem = self._problem(pod.pod, refs)
        if problem:
            return Status.unresolvable(problem)
        split = self._split(pod.pod, refs)
        if isinstance(split, Status):
            return split
        state.write(KEY, BindingState(split))
        return SUCCESS

    def _problem(self, pod: Pod, refs: Sequence[ClaimRef]) -> str:
        """Return why one of the claims is unusable, or ""."""
        for ref in refs:
            claim = self._objects.get(PersistentVolumeClaim, f"{pod.namespace}/{ref.name}")
            if claim is None:
                if ref.ephemeral:
                    return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{ref.name}"'
                return claim_not_found(ref.name)
            if claim.status.phase == "Lost":
                volume = claim.spec.volume_name
                return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{volume}"'
            if claim.metadata.deletion_timestamp is not None:
                return f'persistentvolumeclaim "{claim.name}" is being deleted'
            problem = ownership_problem(pod, claim) if ref.ephemeral else ""
            if problem:
                return problem
        return ""

    def _split(self, pod: Pod, refs: Sequence[ClaimRef]) -> PodClaims | Status:
        """Separate bound claims from those that wait for a node; any other should have been bound already."""
        claims = PodClaims()
        immediate = False
        for ref in refs:
            claim = self._claims.get(f"{pod.namespace}/{ref.name}")
            assert claim is not None, "_problem has looked"
            if is_fully_bound(claim):
                claims.bound.append(claim)
                continue
            storage_class = self._objects.get(StorageClass, claim_class(claim))
            if storage_class is not None and storage_class.volume_binding_mode is None:
                return Status.error(f'VolumeBindingMode not set for StorageClass "{storage_class.name}"')
            waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
            if not waits or claim.spec.volume_name:
                immediate = True
                continue
            try:
                storage_request(claim)
            except ParseError as error:
                return Status.unresolvable(f'persistentvolumeclaim "{claim.name}": {error}')
            claims.delayed.append(claim)
        return UNBOUND if immediate else claims

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        data: BindingState | None = state.read(KEY)
        if data is None:
            return Verdict.where(np.ones(len(nodes), np.bool_), NO_STATE)
        plan = self._plan(data)
        codes = plan.codes if nodes.index is None else plan.codes[nodes.index]
        if not codes.any():
            return None
        if not plan.errors:
            return Verdict(codes, _phrase)
        texts = list(dict.fromkeys(plan.errors.values()))
        codes = plan.codes.copy()
        for row, text in plan.errors.items():
            codes[row] = ERROR + texts.index(text)
        codes = codes if nodes.index is None else codes[nodes.index]
        for _ in range(np.count_nonzero(codes >= ERROR)):
            self._failed(pod, "predicate")
        return Verdict(codes, lambda code: Status.error(texts[code - ERROR]) if code >= ERROR else _phrase(code))

    def _plan(self, data: BindingState) -> VolumePlan:
        """Return the attempt's plan; pods added or removed in dry runs do not affect it."""
        if data.plan is None or data.plan.made_from != self._planner.state():
            data.plan = self._planner.plan(data.claims)
        return data.plan

    # ---- scoring: only with the gate StorageCapacityScoring ----------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        if not self._shape:
            return SKIP_FOR_TEMPLATE
        return NO_STATE if state.read(KEY) is None else SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        data: BindingState | None = state.read(KEY)
        if not self._shape or data is None or data.plan is None:
            return None
        scores = np.zeros(len(nodes), np.int64)
        for i, info in enumerate(nodes.infos):
            scores[i] = self._score(self._planner.volumes_on(data.plan, info.row), info)
        return scores

    def _score(self, volumes: PodVolumes, info: NodeInfo) -> int:
        """Return the utilisation of each class's storage, through the shape, averaged over classes."""
        used: dict[str, tuple[int, int]] = {}  # class -> (requested, capacity)
        if volumes.bindings:
            for binding in volumes.bindings:
                name = binding.volume.spec.storage_class_name
                requested, capacity = used.get(name, (0, 0))
                requested += ceil_value(storage_request(binding.claim))
                used[name] = requested, capacity + ceil_value(capacity_of(binding.volume))
        else:
            for claim in volumes.provisions:
                found = self._capacity_for(claim, info)
                if found is not None:
                    name, size = claim_class(claim), ceil_value(storage_request(claim))
                    used[name] = used.get(name, (0, 0))[0] + size, value_of(found.capacity or 0)
        if not used:
            return 0
        levels = [100 if not whole or part > whole else part * 100 // whole for part, whole in used.values()]
        total = int(piecewise_linear(np.array(levels, np.int64), self._shape).sum())
        return int(np.floor(total / len(levels) + 0.5))

    def _capacity_for(self, claim: PersistentVolumeClaim, info: NodeInfo) -> CSIStorageCapacity | None:
        storage_class = self._objects.get(StorageClass, claim_class(claim))
        if storage_class is None or not self._planner.tracks_capacity(claim, storage_class):
            return None
        size = ceil_value(storage_request(claim))
        return self._planner.capacities.reachable(storage_class.name, info.labels, size)

    # ---- reserving and binding ---------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Reserve the volumes, so that the next decision sees them as taken."""
        data: BindingState | None = state.read(KEY)
        if data is None:
            return NO_STATE
        if data.plan is None or self._all_bound(pod):
            data.all_bound = True
            if data.plan is not None:
                data.reserved[node_name] = PodVolumes()
            return SUCCESS
        row = self._table.info(node_name).row
        plan = self._plan(data)
        if row < 0 or plan.codes[row]:
            return Status.error(f'volumes for node "{node_name}" have changed since it was chosen')
        try:
            data.reserved[node_name] = self._assume(self._planner.volumes_on(plan, row), node_name)
        except OutOfSync as error:
            self._failed(pod, "assume")
            return Status.error(str(error))
        return SUCCESS

    def _failed(self, pod: PodInfo, operation: str) -> None:
        self._handle.meters(pod.pod.spec.scheduler_name).volume_stage_failed(operation)

    def _all_bound(self, pod: PodInfo) -> bool:
        found = (self._claims.get(f"{pod.pod.namespace}/{ref.name}") for ref in claims_of(pod))
        return all(claim is not None and is_fully_bound(claim) for claim in found)

    def _assume(self, volumes: PodVolumes, node_name: str) -> PodVolumes:
        assumed = PodVolumes()
        try:
            for binding in volumes.bindings:
                volume, is_changed = bound_to(binding.volume, binding.claim)
                if is_changed:
                    self._volumes.assume(volume)
                assumed.bindings.append(BindingInfo(binding.claim, volume))
            for claim in volumes.provisions:
                placed = placed_on(claim, node_name)
                self._claims.assume(placed)
                assumed.provisions.append(placed)
        except OutOfSync:
            self._revert(assumed)
            raise
        return assumed

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        data: BindingState | None = state.read(KEY)
        if data is None or node_name not in data.reserved:
            return
        volumes = data.reserved[node_name]
        self._revert(volumes)
        # A volume that was never stored is free again, without a watch event. Upstream leaves pods that need it
        # waiting.
        for binding in volumes.bindings:
            if (volume := self._volumes.get(binding.volume.key)) is not None:
                self._handle.free(VOLUME_UPDATE, binding.volume, volume)
        for expected in volumes.provisions:
            if (claim := self._claims.get(expected.key)) is not None:
                self._handle.free(CLAIM_UPDATE, expected, claim)

    def _revert(self, volumes: PodVolumes) -> None:
        for binding in volumes.bindings:
            self._volumes.restore(binding.volume)
        for claim in volumes.provisions:
            self._claims.restore(claim)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight:
        data: BindingState | None = state.read(KEY)
        if data is None:
            return PreFlight(NO_STATE, allow_parallel=True)
        if data.all_bound:
            return NOTHING_TO_PRE_BIND
        if node_name not in data.reserved:
            return PreFlight(Status.error(f'no pod volume found for node "{node_name}"'), allow_parallel=True)
        return PreFlight(SUCCESS, allow_parallel=True)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        data: BindingState | None = state.read(KEY)
        if data is None:
            return NO_STATE
        if data.all_bound:
            return SUCCESS
        volumes = data.reserved.get(node_name)
        if volumes is None:
            return Status.error(f'no pod volume found for node "{node_name}"')
        writer = self._handle.writer
        if not isinstance(writer, VolumeWriter):
            return Status.error("volumes cannot be bound: no API server is connected")
        try:
            await self._binder.bind(writer, pod.pod, node_name, volumes)
        except (ApiError, BindError) as error:
            self._failed(pod, "bind")
            return Status.error(str(error))
        return SUCCESS

    # ---- hints and remedies ------------------------------------------------------------------------------------

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[Remedy]:
        return without_volumes(pod, self._objects)

    def events_to_register(self) -> Sequence[EventRegistration]:
        change = ActionType.ADD | ActionType.UPDATE
        return (
            on(EventResource.STORAGE_CLASS, change, _after_class_changed),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, change, after_claim),
            on(EventResource.PERSISTENT_VOLUME, change),
            on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(EventResource.CSI_NODE, change, _after_csi_node_changed),
            on(EventResource.CSI_DRIVER, ActionType.UPDATE, _after_driver_updated),
            on(EventResource.CSI_STORAGE_CAPACITY, change, _after_capacity_changed),
        )


def chosen_volumes(state: CycleState, node_name: str) -> dict[str, dict[str, str]]:
    """Return, after Reserve, the existing volume of each claim, or the node that a new one is provisioned for."""
    data: BindingState | None = state.read(KEY)
    volumes = None if data is None else data.reserved.get(node_name)
    if volumes is None:
        return {}
    chosen = {binding.claim.key: {"volume": binding.volume.name} for binding in volumes.bindings}
    return chosen | {claim.key: {"provisionOn": node_name} for claim in volumes.provisions}


def _phrase(code: int) -> Status:
    return Status.unresolvable(*(text for bit, text in REASONS.items() if code & bit))


def _after_class_changed(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return Hint.QUEUE
    return Hint.SKIP if old.allowed_topologies == new.allowed_topologies else Hint.QUEUE


def _after_csi_node_changed(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return Hint.QUEUE
    before, after = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (old, new))
    return Hint.SKIP if before == after else Hint.QUEUE


def _after_driver_updated(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, CSIDriver) or not isinstance(new, CSIDriver):
        return Hint.QUEUE
    uses = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
    relaxed = old.spec.storage_capacity is True and new.spec.storage_capacity is not True
    return Hint.QUEUE if uses and relaxed else Hint.SKIP


def _after_capacity_changed(pod: Pod, old: Object | None, new: Object | None) -> Hint:
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return Hint.QUEUE
    before, after = volume_limit(old), volume_limit(new)
    return Hint.QUEUE if after is not None and (before is None or after > before) else Hint.SKIP
