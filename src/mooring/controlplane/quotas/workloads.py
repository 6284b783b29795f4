"""The content of queues: workloads, ClusterQueues with their policies, and flavors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import msgspec

from mooring.api.core import PodSpec, Taint, Toleration
from mooring.api.meta import LabelSelector
from mooring.controlplane.quotas.tree import Amounts, FlavorResource, QuotaNode

NEVER, ANY = "Never", "Any"
LOWER_PRIORITY, LOWER_OR_NEWER = "LowerPriority", "LowerOrNewerEqualPriority"
STRICT_FIFO, BEST_EFFORT_FIFO = "StrictFIFO", "BestEffortFIFO"
TRY_NEXT = "TryNextFlavor"
PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"
PODS = "pods"  # a resource that counts pods


class Mode(IntEnum):
    """How well an assignment fits, the worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # would need a preemption that is not possible
    PREEMPT = 2
    RECLAIM = 3  # a preemption in other ClusterQueues only
    FIT = 4


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of a workload; ``requests`` are those of all of them."""

    name: str
    count: int
    requests: Mapping[str, int]
    spec: PodSpec


@dataclass(frozen=True, slots=True)
class Assignment:
    """The flavors of a workload's pod sets, and the quota that its admission would take."""

    flavors: Sequence[Mapping[str, str]]  # of each pod set, by resource
    usage: Amounts
    mode: Mode = Mode.FIT
    borrowing: int = 0  # the height of the subtree that is borrowed from; 0: none
    to_preempt: frozenset[FlavorResource] = frozenset()
    tried: Sequence[Mapping[str, int]] = ()  # the last flavor that was looked at; -1: all were
    reasons: Sequence[str] = ()

    @property
    def message(self) -> str:
        """Return why it does not fit, as in the Workload's condition."""
        return "; ".join(self.reasons)

    @property
    def has_more_flavors(self) -> bool:
        return any(i != -1 for tried in self.tried for i in tried.values())


@dataclass(eq=False, slots=True)
class Workload:
    """A job in a queue. It has quota while ``assignment`` is set."""

    key: str  # namespace/name
    uid: str
    queue: str  # the ClusterQueue
    priority: int
    created: float
    pod_sets: Sequence[PodSet]
    local_queue: str = ""  # namespace/name
    assignment: Assignment | None = None
    reserved: float = 0.0  # since when it has quota
    is_evicted: bool = False  # its quota is free when its pods are gone
    last: Assignment | None = None  # of the last attempt, while the next one continues from it
    last_cycle: int = 0
    last_generation: int = 0
    message: str = ""
    shape: bytes = field(init=False)  # equal for workloads with equal outcomes

    def __post_init__(self) -> None:
        sets = [(each.name, each.count, each.requests, each.spec) for each in self.pod_sets]
        self.shape = msgspec.json.encode((self.priority, sets))

    @property
    def order(self) -> tuple[int, float, str]:
        """Sort key among the pending workloads of a ClusterQueue."""
        return -self.priority, self.created, self.uid

    def uses(self, resources: frozenset[FlavorResource]) -> bool:
        return self.assignment is not None and not resources.isdisjoint(self.assignment.usage)


@dataclass(frozen=True, slots=True)
class Flavor:
    """A kind of node with its own quota."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    tolerations: Sequence[Toleration] = ()


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that a workload takes from one flavor, and the flavors in order of preference."""

    resources: frozenset[str]
    flavors: Sequence[str]


@dataclass(eq=False, slots=True)
class ClusterQueue:
    """A ClusterQueue: its quota is in ``node``."""

    node: QuotaNode
    groups: Sequence[ResourceGroup] = ()
    strategy: str = BEST_EFFORT_FIFO
    within_queue: str = NEVER  # the preemption policies
    reclaim: str = NEVER
    borrow_policy: str = NEVER  # borrowWithinCohort
    borrow_threshold: int | None = None
    when_can_borrow: str = "Borrow"
    when_can_preempt: str = TRY_NEXT
    preference: str = ""
    is_stopped: bool = False
    namespaces: LabelSelector | None = None  # None: of no namespace
    admitted: dict[str, Workload] = field(default_factory=dict)  # with quota, by key
    pending: dict[str, Workload] = field(default_factory=dict)
    waiting: dict[str, Workload] = field(default_factory=dict)  # until something changes in the cohort
    first: str = ""  # the workload that waits for its victims; it goes first
    generation: int = 0  # how often quota was released

    @property
    def name(self) -> str:
        return self.node.name

    def group_of(self, resource: str) -> ResourceGroup | None:
        return next((group for group in self.groups if resource in group.resources), None)

    def head(self) -> Workload | None:
        """Return the next workload to consider."""
        if self.is_stopped or not self.pending:
            return None
        if self.first in self.pending and self.strategy == BEST_EFFORT_FIFO:
            return self.pending[self.first]
        return min(self.pending.values(), key=lambda workload: workload.order)

    def charge(self, workload: Workload) -> None:
        assert workload.assignment is not None
        self.admitted[workload.key] = workload
        self.node.add(workload.assignment.usage)

    def discharge(self, workload: Workload) -> None:
        assert workload.assignment is not None
        del self.admitted[workload.key]
        self.node.remove(workload.assignment.usage)
