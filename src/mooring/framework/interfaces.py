"""The contracts of the extension points: who calls them, when, and where each result leads.

Filter and score look at *rows*: they are given some or all nodes at once and
answer with a column. They must not keep what they are given, and must answer
the same for the same input: the runtime caches what ``filter_reads`` and
``score_reads`` promise. People who would rather look at one node at a time
derive from the classes in :mod:`mooring.sdk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.framework.cluster_event import EventRegistration
from mooring.framework.cycle_state import CycleState
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.status import Status
from mooring.framework.verdict import Verdict
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

Scores = NDArray[np.int64]  # [node]
MAX_NODE_SCORE = 100


class Reads(IntEnum):
    """What a node's verdict or score depends on, from least to most. Less is faster: see each line.

    A promise that is not kept shows stale verdicts; when in doubt, promise nothing (CLUSTER). Up to ROW a plugin is
    asked about all nodes, also about those that others refuse: it must not fail on any of them. A plugin that reads
    neither volumes nor claims may say so (``looks_past_volumes = True``): pods that differ only there share answers.
    """

    # Up to ROW a verdict's numbers must mean the same for all pods of one template.
    NODE = 0  # the pod's spec and the node object: computed once per template, again only for nodes that change
    RESOURCES = 1  # also how much of the node is taken, and by how many: nodes with equal figures share one answer
    ROW = 2  # also the pods on that node: again only for nodes whose pods changed
    LOCAL = 3  # also other objects (claims, volumes), but no other node's pods: computed anew for every pod
    CLUSTER = 4  # anything, other nodes' pods too: computed anew; hypotheses are tried one node at a time


class Plugin(Protocol):
    """Every plugin has the name that configurations use."""

    @property
    def name(self) -> str: ...


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    def pre_enqueue(self, pod: Pod) -> Status:
        """Called before a pod enters the active queue; anything but success holds it back, without an attempt."""


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    def sort_key(self, priority: int, timestamp: float) -> Any:
        """A key by which the active queue is ordered, smallest first. Exactly one such plugin per scheduler."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """Success, and only these nodes need to be looked at."""

    node_names: frozenset[str]


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        """Called once per attempt before any filter, with all nodes.

        SKIP switches this plugin's filter off for the attempt; a rejection refuses the pod on every node
        (unresolvable: at once; otherwise after the other pre-filters, so that preemption can follow).
        """


@runtime_checkable
class PreFilterExtensions(Protocol):
    """A pre-filter whose state counts pods says how it changes when one is added or removed in thought."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status: ...

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status: ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    @property
    def filter_reads(self) -> Reads: ...

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        """Judge these nodes; None means that all pass. An ERROR on any node fails the attempt."""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What a PostFilter plugin achieved. ``nominated_node`` None: leave the pod's nomination as it is; "": clear it."""

    status: Status
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    def post_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> PostFilterResult:
        """Called when no node fits; may make room. Success ends the round, UNSCHEDULABLE lets the next one try."""


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        """Called once with the feasible nodes; SKIP leaves this plugin out of the scores."""


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    @property
    def score_reads(self) -> Reads: ...

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        """A number per node, larger is better; 0 to 100 unless ``normalize`` brings it there. None: 0 everywhere.

        A class whose arithmetic cannot leave that range may say ``scores_in_range = True`` and is not checked.
        """


@runtime_checkable
class NormalizingScorePlugin(ScorePlugin, Protocol):
    # ``normalizes_evenly = True`` on the class promises that equal raw scores become equal ones on all nodes, and
    # that it is the scores alone that decide which.
    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        """Bring the feasible nodes' scores into 0 to 100."""


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Called after the node is chosen; failure undoes all reservations, in reverse order."""

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo; called also for plugins whose ``reserve`` has not run. Must not fail."""


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        """Allow, refuse, or WAIT for at most the given seconds."""


@dataclass(frozen=True, slots=True)
class PreFlight:
    """Whether a plugin's pre-bind has anything to do, and whether it may run beside others."""

    status: Status
    allow_parallel: bool = False


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight: ...

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Called in the binding cycle; may wait and talk to the API server through the handle's writer."""


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Bind the pod, or SKIP to let the next bind plugin do it."""


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


@runtime_checkable
class EnqueueExtensions(Protocol):
    def events_to_register(self) -> Sequence[EventRegistration]:
        """The events that could make a pod schedulable that this plugin refused."""


POINTS: dict[str, type[Any]] = {
    "preEnqueue": PreEnqueuePlugin,
    "queueSort": QueueSortPlugin,
    "preFilter": PreFilterPlugin,
    "filter": FilterPlugin,
    "postFilter": PostFilterPlugin,
    "preScore": PreScorePlugin,
    "score": ScorePlugin,
    "reserve": ReservePlugin,
    "permit": PermitPlugin,
    "preBind": PreBindPlugin,
    "bind": BindPlugin,
    "postBind": PostBindPlugin,
}
"""Extension points by their name in a configuration, in the order in which a pod meets them."""
