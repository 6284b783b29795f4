"""NodeResourcesFit: checks the pod's requests against free resources, and scores by how full the node would be."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Pod
from mooring.api.errors import ConfigError
from mooring.api.meta import Object
from mooring.api.quantity import lowest_64_bits, milli_value_of, value_of
from mooring.api.resource import DEVICE_CLASS_RESOURCE_PREFIX, DeviceClass
from mooring.api.text import count_of
from mooring.core.config.types import NodeResourcesFitArgs
from mooring.core.config.validation import validate_args
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import FEW, Change, PreFilterResult, Remedy, Scores
from mooring.core.framework.pod_groups import PlacedGroup, PodGroupInfo
from mooring.core.framework.registry import Reads, Traits
from mooring.core.framework.status import SUCCESS_FOR_TEMPLATE, Code, Status, Verdict
from mooring.core.plugins.resource_usage import (
    ResourceColumns,
    Usage,
    least_allocated,
    most_allocated,
    requested_to_capacity,
)
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows, distance, shortfalls
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    ask_for,
    display_name,
    is_extended_name,
    rounded_up,
    written,
)
from mooring.core.state.sharing import constant, holds_somewhere

LOST = Status.error('error reading "PreFilterNodeResourcesFit" from cycleState: not found')
MAX_IN_BITS = 60  # the lowest bit is for the number of pods, the highest for unresolvable
TOO_MANY_PODS = "Too many pods"
BASIC = (CPU, MEMORY, EPHEMERAL_STORAGE)


class _Wanted(NamedTuple):
    """A template's requests, as columns. One more pod comes first, then the resources."""

    names: tuple[str, ...]  # of the resources
    amounts: NDArray[np.int64]  # [pods | resource, 1]
    bits: NDArray[np.int64]  # the bit of each in a verdict's number
    unresolvable: NDArray[np.int64]  # the bit for a request larger than the whole node
    scalars: list[tuple[int, str]]  # resources that devices may back, with their positions


class NodeResourcesFit:
    """Rejects nodes where something does not fit, naming everything that does not.

    A request larger than the whole node is unresolvable: evicting pods does not help. ``Too many pods`` never is.
    Scores by the configured strategy.
    """

    name: ClassVar[str] = "NodeResourcesFit"

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        problems = validate_args(args, features=handle.features)
        if problems:  # upstream also checks these arguments only when the plugin is created
            raise ConfigError(*problems)
        self._handle = handle
        # Without its PreFilter upstream's filter lacks its state, and fails.
        self._lacks_pre_filter = not handle.is_enabled_at("preFilter", self.name)
        self._combinations: dict[tuple[tuple[str, ...], tuple[bool, ...]], int] = {}
        self._phrases: dict[int, Status] = {}
        self._kept_as = object()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy
        self._columns = ResourceColumns(strategy.resources, handle, use_non_zero=True)
        self.traits = Traits(
            filter_reads=Reads.RESOURCES, score_reads=self._columns.reads, uses_volumes=False, in_range=True
        )
        self._strategy = strategy
        ratio = strategy.requested_to_capacity_ratio
        self._shape = [] if ratio is None else [(p.utilization, p.score * 10) for p in ratio.shape]

    def cache_token(self) -> Hashable:
        """What verdicts depend on besides the pod and the row: which resources device classes back."""
        return self._handle.devices.mapping_version()

    def sign(self, pod: PodInfo) -> Hashable:
        """Return no signature if the pod's resources stand for devices: such pods are never equivalent."""
        requests = pod.shape.requests
        if any(amount and self._handle.devices.backs(name) for name, amount in requests.items()):
            return None
        return tuple(sorted(requests.items()))

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        return SUCCESS_FOR_TEMPLATE

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        if self._lacks_pre_filter:
            return Verdict.where(np.ones(len(nodes), np.bool_), LOST)
        wanted = self._wanted(pod)
        offered, taken = nodes.figures_of(wanted.names)
        short = wanted.amounts > offered - taken  # [pods | resource, node]
        for i, name in wanted.scalars:
            if self._handle.devices.backs(name):
                short[i] &= offered[i] > 0  # where no device plugin offers it, DynamicResources decides
        if not holds_somewhere(short):
            return None
        beyond = wanted.amounts[1:] > offered[1:]  # also on an empty node; too many pods never are
        if wanted.scalars:
            beyond &= short[1:]  # not where DynamicResources decides
        names = wanted.names
        if len(names) > MAX_IN_BITS:
            return self._many(np.vstack((beyond.any(axis=0), short)), names)
        ids = np.dot(wanted.bits, short)
        if holds_somewhere(beyond):
            ids += np.logical_or.reduce(beyond) * wanted.unresolvable
        return Verdict(ids, lambda number: _phrase(number, names), only_refuses=True)

    def _many(self, marks: NDArray[np.bool_], names: tuple[str, ...]) -> Verdict | None:
        """Handle more resources than a number has bits: every combination that occurs gets its own number."""
        if not marks.any():
            return None
        ids = np.zeros(marks.shape[1], np.int64)
        for i in np.flatnonzero(marks.any(axis=0)).tolist():
            column = tuple(marks[:, i].tolist())
            number = self._combinations.setdefault((names, column), len(self._combinations) + 1)
            ids[i] = number
            self._phrases[number] = _status(column, names)
        return Verdict(ids, self._phrases.__getitem__, only_refuses=True)

    def _wanted(self, pod: PodInfo) -> _Wanted:
        """Return the requests of :meth:`_checked` as columns, cached per template."""
        found: _Wanted | None = pod.shape.kept.get(self._kept_as)
        if found is None:
            wanted = self._checked(pod)
            count = 1 + min(len(wanted), MAX_IN_BITS)
            found = pod.shape.kept[self._kept_as] = _Wanted(
                tuple(wanted),
                np.array([1, *wanted.values()], np.int64).reshape(-1, 1),
                np.int64(1) << np.arange(count),
                constant(1 << count),
                [(i, name) for i, name in enumerate(wanted, 1) if name not in BASIC],
            )
        return found

    def _checked(self, pod: PodInfo) -> dict[str, int]:
        """Return the requests that are checked here, the basic resources first."""
        requests = pod.shape.requests
        wanted = {name: requests[name] for name in BASIC if requests.get(name, 0) > 0}
        if len(wanted) < len(requests):
            for name, amount in requests.items():
                if name not in BASIC and amount and not self._is_ignored(name):
                    wanted[name] = amount
        return wanted

    def _is_ignored(self, resource: str) -> bool:
        return is_extended_name(resource) and (
            resource in self._ignored or resource.partition("/")[0] in self._ignored_groups
        )

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        return SUCCESS_FOR_TEMPLATE

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        usage = self._columns.of(nodes, pod.shape)
        match self._strategy.type:
            case "MostAllocated":
                return most_allocated(usage)
            case "RequestedToCapacityRatio":
                return requested_to_capacity(usage, self._shape)
            case _:
                return least_allocated(usage)

    def score_placement(self, group: PodGroupInfo, placement: PlacedGroup) -> int:
        """Return how full all nodes of a placement together would be with the group: fuller is better."""
        names = [resource.name for resource in self._strategy.resources]
        wanted = [
            lowest_64_bits(sum(each.pod.shape.scored_request(name) for each in placement.assignments)) for name in names
        ]
        usage = self._columns.read(placement.placement.nodes, self._columns.asked(wanted))
        extra = usage.after[:, :1] - usage.used[:, :1]  # the same on every node
        used = usage.used.sum(axis=1, keepdims=True)
        together = Usage(usage.allocatable.sum(axis=1, keepdims=True), used, used + extra, usage.weights)
        return int(most_allocated(together)[0])

    # ---- what would help ---------------------------------------------------------------------------------------

    def facts(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[str]:
        return facts(self._checked(pod), nodes)

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[Remedy]:
        return remedies(self._checked(pod), nodes)

    def events_to_register(self) -> Sequence[EventRegistration]:
        registrations = [
            on(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN, self._after_pod_event),
            on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE, self._after_node_change),
        ]
        if self._handle.is_enabled("DRAExtendedResource", True):
            added_or_changed = ActionType.ADD | ActionType.UPDATE
            registrations.append(on(EventResource.DEVICE_CLASS, added_or_changed, self._after_device_class_event))
        return registrations

    def _requests(self, pod: Pod) -> dict[str, int]:
        return self._handle.cluster.info(pod).shape.requests

    def _after_pod_event(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A pod with a node was deleted, or it, or this pod itself, requests less now."""
        assert isinstance(old, Pod)
        if not isinstance(new, Pod):
            return Hint.QUEUE if old.spec.node_name or old.status.nominated_node_name else Hint.SKIP
        if new.uid == pod.uid:
            return Hint.QUEUE
        if not new.spec.node_name:
            return Hint.SKIP
        before, after = self._requests(old), self._requests(new)
        shrunk = any(
            wanted and before.get(name, 0) > after.get(name, 0) for name, wanted in self._requests(pod).items()
        )
        return Hint.QUEUE if shrunk else Hint.SKIP

    def _after_node_change(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A node on which the pod fits if it is empty, and that has more of the requested resources."""
        assert isinstance(new, Node)
        requests = {name: wanted for name, wanted in self._requests(pod).items() if wanted}
        if not self._fits_empty(requests, new):
            return Hint.SKIP
        if not isinstance(old, Node) or _allocatable(new, PODS) > _allocatable(old, PODS):
            return Hint.QUEUE
        grown = any(
            _allocatable(new, name) > _allocatable(old, name) or self._is_delegated(name, new) for name in requests
        )
        return Hint.QUEUE if grown else Hint.SKIP

    def _fits_empty(self, requests: dict[str, int], node: Node) -> bool:
        """Report whether there is room on the empty node. Ignored resources count here: upstream forgets them."""
        return _allocatable(node, PODS) >= 1 and all(
            wanted <= _allocatable(node, name) or self._is_delegated(name, node) for name, wanted in requests.items()
        )

    def _is_delegated(self, resource: str, node: Node) -> bool:
        """Report whether DynamicResources decides about this resource on the node."""
        return resource not in BASIC and _allocatable(node, resource) == 0 and self._handle.devices.backs(resource)

    def _after_device_class_event(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A class that now backs a requested resource."""
        assert isinstance(new, DeviceClass)
        requests = self._requests(pod)
        name = new.spec.extended_resource_name or ""
        if isinstance(old, DeviceClass):
            if (old.spec.extended_resource_name or "") == name:
                return Hint.SKIP
        elif DEVICE_CLASS_RESOURCE_PREFIX + new.name in requests:
            return Hint.QUEUE
        return Hint.QUEUE if name in requests else Hint.SKIP


@lru_cache(maxsize=1024)
def _phrase(bits: int, names: tuple[str, ...]) -> Status:
    too_many, *short, unresolvable = (bool(bits >> i & 1) for i in range(len(names) + 2))
    marks = (unresolvable, too_many, *short)
    return _status(marks, names)


def _status(marks: tuple[bool, ...], names: tuple[str, ...]) -> Status:
    """Return the status for ``marks``: unresolvable, too many pods, and which of the named resources are short."""
    unresolvable, too_many, *short = marks
    reasons = [TOO_MANY_PODS] if too_many else []
    reasons += [f"Insufficient {name}" for name, is_short in zip(names, short, strict=True) if is_short]
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE, tuple(reasons))


def _allocatable(node: Node, resource: str) -> int:
    """Return the node's allocatable amount; raise ParseError for an invalid one, and the event then counts."""
    amount = node.status.allocatable.get(resource, 0)
    return milli_value_of(amount) if resource == CPU else value_of(amount)


# ---- remedies for a pod that requests more than nodes have left: a smaller request, or evicting a pod
# ------------------

MAX_BLOCKERS = 3


def facts(requests: Mapping[str, int], nodes: NodeRows) -> Iterator[str]:
    """Yield, for each insufficient resource, the request and the most that is free where it is insufficient."""
    for name, missing in shortfalls(requests, nodes).items():
        there = nodes.subset(np.flatnonzero(missing))
        if not len(there):
            continue
        if not there.allocatable(name).any():
            yield f"no {name} at all on {count_of(len(there), 'node')}"
            continue
        free = there.allocatable(name) - there.requested(name)
        most = np.flatnonzero(free == free.max())[-1]
        amount = written(name, max(0, int(free[most])))
        yield f"{name}: {written(name, requests[name])} asked for, at most {amount} free (on {there.infos[most].name})"


def remedies(requests: Mapping[str, int], nodes: NodeRows) -> Iterator[Remedy]:
    """Yield remedies for the nodes that are closest to having room."""
    for i in np.argsort(distance(requests, nodes), kind="stable")[:FEW].tolist():
        yield from _remedies(requests, nodes.subset(np.array([i])))


def _remedies(requests: Mapping[str, int], here: NodeRows) -> Iterator[Remedy]:
    node = here.infos[0]
    missing = {name: int(column[0]) for name, column in shortfalls(requests, here).items() if column[0]}
    count, allowed = int(here.pod_count[0]), int(here.allowed_pods[0])
    room: Remedy = ()
    if count >= allowed:
        room = _fewer_pods(node, count, allowed)
        if not room:
            return
    smaller = []
    for name, lack in missing.items():
        amount = min(rounded_up(name, lack), requests[name])
        smaller.append(_less(name, amount, requests[name] - amount))
    yield (*room, *smaller)
    if missing and not room:
        blocker = _who_frees(node, missing)
        if blocker is not None:
            text = f"without pod {blocker.pod.key} on {node.name}"
            yield (Change(text, "removePod", 6.0, removes=(blocker.pod,)),)


def _less(resource: str, amount: int, target: int) -> Change:
    share = amount / (amount + target)
    if not target:
        text = f"no {display_name(resource)} request ({written(resource, amount)} now)"
    else:
        now = written(resource, amount + target)
        text = (
            f"{written(resource, amount)} less {display_name(resource)} ({written(resource, target)} instead of {now})"
        )

    def edit(pod: Pod) -> None:
        ask_for(pod, resource, target)

    return Change(text, "request", 1.0 + 10.0 * share, edit=edit)


def _least_important(node: NodeInfo) -> list[PodInfo]:
    pods = [pod for pod in node.pods.values() if not pod.pod.is_terminating]
    return sorted(pods, key=lambda pod: (pod.priority, pod.pod.metadata.creation_timestamp or "", pod.pod.key))


def _fewer_pods(node: NodeInfo, count: int, allowed: int) -> Remedy:
    pods = _least_important(node)
    needed = count - allowed + 1
    if needed > len(pods) or needed > MAX_BLOCKERS:
        return ()
    what = "one pod" if needed == 1 else f"{needed} pods"
    text = f"{what} fewer on {node.name} (pods: {count} of {allowed})"
    return (Change(text, "podCount", 2.0 + needed, removes=tuple(pod.pod for pod in pods[:needed])),)


def _who_frees(node: NodeInfo, missing: Mapping[str, int]) -> PodInfo | None:
    """Return the pod of lowest priority whose requests cover what is missing."""
    for pod in _least_important(node):
        if all(pod.shape.requests.get(name, 0) >= amount for name, amount in missing.items()):
            return pod
    return None
