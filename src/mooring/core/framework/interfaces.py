"""The contracts of the extension points: who calls them, when, and the effect of each result.

A plugin is a class. mooring creates one object of it per profile, ``Plugin(args, handle)``, and calls the methods
below. The table in :mod:`mooring.core.framework.extension_points` lists the methods and their arguments; registration
compares every class with it.

Filter and score work on *rows*: they get some or all nodes together and return a column. They must not keep references
to their arguments, and must return the same for the same input: the engine caches answers as long as the plugin's
:class:`~mooring.core.framework.registry.Traits` allow it. Authors who prefer one node at a time derive from the classes
in :mod:`mooring.sdk`.

The life of a pod, and the effect of a status::

    PreEnqueue ─▶ queue ─▶ PreFilter ─▶ Filter ─▶ PreScore ─▶ Score ─▶ Reserve ─▶ Permit ─▶ PreBind ─▶ Bind ─▶ PostBind
                               └─ no node ─┴─▶ PostFilter

| status | means |
|---|---|
| SUCCESS | continue |
| SKIP | this plugin has nothing to say about this pod; allowed where it is mentioned |
| UNSCHEDULABLE | a rejection: evicting pods may help, so PostFilter may look at the node |
| UNSCHEDULABLE_AND_UNRESOLVABLE | a rejection: evicting pods cannot help |
| PENDING | a rejection: the pod waits for something outside; it is tried immediately when that happens |
| WAIT | Permit only |
| ERROR, or an exception | something broke: the attempt fails, and the pod is tried again after backoff |

A rejected pod waits in the queue for an event that the rejecting plugins registered (``events_to_register``). A pod
whose attempt broke waits for its backoff only.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Pod
from mooring.core.framework.cluster_event import EventRegistration
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.pod_groups import (
    PlacedGroup,
    Placement,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
    Tried,
)
from mooring.core.framework.status import SKIP, NodeStatuses, PostFilterResult, Status, Verdict
from mooring.core.state.cluster import ClusterState
from mooring.core.state.facets import Facet
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

Scores = NDArray[np.int64]  # [node]
MAX_NODE_SCORE = 100
FEW = 8  # at most this many nodes get remedies: no more are tried


@dataclass(frozen=True, slots=True)
class Change:
    """A change that could help a rejected pod: of the pod, of a node, or the absence of other pods.

    A plugin guesses it from the pod and the nodes (``remedies``). An explanation tries it with the engine, and shows it
    only if it helps. The functions are given a copy and change it. ``{node}`` in the text stands for the node's name.
    """

    text: str
    kind: str = "change"  # in JSON
    cost: float = 3.0  # effort for the user: a label 2, giving up a rule 4, another pod 6
    edit: Callable[[Pod], None] | None = None
    node: str = ""
    edit_node: Callable[[Node], None] | None = None
    removes: tuple[Pod, ...] = ()
    edit_cluster: Callable[[ClusterState], None] | None = None  # for other objects: it replaces them, on a fork

    def __str__(self) -> str:
        return self.text.replace("{node}", self.node)


Remedy = tuple[Change, ...]
"""Changes that belong together. Several remedies for one node are alternatives."""


def few(nodes: NodeRows) -> Sequence[NodeInfo]:
    """Return the first few of these nodes."""
    return nodes.subset(np.arange(min(FEW, len(nodes)))).infos


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """Success that restricts the search to these nodes; for PostFilter all others are unresolvable."""

    node_names: frozenset[str]


@dataclass(frozen=True, slots=True)
class PreFlight:
    """Whether a plugin's PreBind has work to do, and whether it may run in parallel with its neighbours.

    Neighbours that all allow it run in parallel; one that does not separates those before it from those after it, even
    if it has no work.
    """

    status: Status
    allow_parallel: bool = False


NOTHING_TO_PRE_BIND = PreFlight(SKIP, allow_parallel=True)
"""The usual answer."""


class PluginMethods(Protocol):
    """Every method that a plugin may have. The methods of a class decide where a profile can enable it."""

    @property
    def name(self) -> str:
        """Name in configurations."""

    # ---- before an attempt ---------------------------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status:
        """Called by the queue before a pod enters the active queue or the backoff queue. It must be fast.

        Any status except SUCCESS holds the pod back as gated, without an attempt, until an event that this plugin
        registered. So does an exception.
        """

    def sort_key(self, priority: int, timestamp: float) -> Any:
        """Called by the queue for every pod that enters it: returns a key, and the smallest is taken first.

        ``timestamp`` is when the pod entered the queue. Exactly one such plugin per scheduler, in all profiles.
        """

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Called once, when the queue is created: the events that could make a pod schedulable that this plugin
        rejected.

        For plugins that can reject pods (PreEnqueue, PreFilter, Filter, Reserve, Permit). Without this method every
        event counts. An empty list means that no event helps: such a pod is retried only after five minutes.
        """

    # ---- finding nodes -------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        """Called by the engine once per attempt, before any filter, with all nodes.

        SKIP switches this plugin's ``filter``, ``add_pod`` and ``remove_pod`` off for the attempt. A rejection applies
        to every node: immediately if unresolvable, otherwise after the other pre-filters (the last rejection counts).
        PostFilter follows either way. ERROR fails the attempt.

        A plugin that read nothing but ``pod.shape``, and wrote nothing into ``state``, may return SKIP_FOR_TEMPLATE or
        SUCCESS_FOR_TEMPLATE: it is not called for other pods of that shape.
        """

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status:
        """Update the state of a pre-filter that counts pods for an added pod.

        Called after ``pre_filter``, on a copy of the state, in dry runs: with nominated pods on their nodes, and in
        preemption. Values in the state that have ``clone`` are copied, others are shared. Anything but SUCCESS fails
        the attempt.
        """

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status:
        """Update the state for a removed pod."""

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        """Called by the engine with rows that may be hypothetical: read ``nodes``, not the cluster.

        None means that all nodes pass. A rejected node is out of the search; the first plugin that rejects it, in
        configured order, gives the reason. ERROR on a node that no earlier filter rejected fails the attempt.
        """

    def concerns(self, pod: PodInfo) -> bool:
        """Called by the engine before it uses cached verdicts. False: every node passes for this pod.

        For a filter whose verdicts cannot be cached.
        """

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> PostFilterResult:
        """Called by the engine when PreFilter or Filter left no node; may propose victims. Must change nothing itself.

        SUCCESS ends the round: the pod is nominated to the node, the scheduler evicts the victims, and the pod is
        retried later. UNSCHEDULABLE lets the next plugin try; an unresolvable rejection or ERROR ends the round. It is
        also called when every node is unresolvable; the plugin must skip such nodes.
        """

    # ---- scoring --------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        """Called by the engine once per attempt with the feasible nodes, if there are two or more.

        SKIP leaves this plugin out of the scores. Anything else but SUCCESS fails the attempt. Both have a form for the
        whole template, as in ``pre_filter``.
        """

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        """Called by the engine with the feasible nodes: a number per node, larger is better. None: 0 everywhere.

        From 0 to 100, unless ``normalize`` maps it there; a score out of range fails the attempt.
        """

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        """Called after ``score`` with the scores of all feasible nodes: maps them to 0 to 100."""

    # ---- caching ------------------------------------------------------------------------------------------------

    def cache_token(self) -> Hashable:
        """Called before cached answers are used: a value that changes whenever they become invalid. It must be fast.

        For a plugin whose cached verdicts and scores depend on something besides the pod and the node's row.
        """

    def sign(self, pod: PodInfo) -> Hashable:
        """Called at the start of every attempt: a value shared by pods that are equal to this plugin. None: equal to no
        other.

        If a plugin of a profile that filters or scores lacks it, or has ``Traits(signs=False)``, the profile does not
        batch (KEP-5598, opportunistic batching).
        """

    # ---- after the node is chosen --------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Called by the scheduler once the pod is assumed on its node, before the next pod is tried.

        The first plugin that does not succeed ends the round. A rejection makes the pod unschedulable, with this
        plugin's name: its events wake the pod. ERROR retries it after backoff. Either way the scheduler calls
        ``unreserve`` of all Reserve plugins, the last one first, and forgets the assumed pod.
        """

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Called when Reserve, Permit, PreBind or Bind did not succeed: undo.

        Also called for plugins whose ``reserve`` has not run, and possibly twice. Must not fail: an exception is
        logged, and the others continue.
        """

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, float]:
        """Called by the scheduler after Reserve: allows, rejects, or lets the pod wait with its node reserved.

        (SUCCESS, 0) allows. (WAIT, seconds) lets the other plugins run first; then the binding waits until every
        waiting plugin has allowed the pod (``handle.waiting_pods``), at most 15 minutes. A rejection, here or while
        waiting, and a timeout make the pod unschedulable, with this plugin's name. ERROR retries it after backoff.
        Either way reservations are undone.
        """

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Called in the binding cycle, while other pods are tried; may wait and write through ``handle.writer``.

        Anything but SUCCESS ends the binding, undoes reservations, and retries the pod after backoff.
        """

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight:
        """Called at the start of the binding cycle; must be fast and change nothing.

        SUCCESS: ``pre_bind`` has work to do, and the pod is nominated to its node until then. SKIP: ``pre_bind`` is not
        called. ERROR, like any other status, ends the binding. The default is SUCCESS.
        """

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Called after all PreBind plugins, in order, until one plugin does not SKIP.

        Anything but SUCCESS undoes reservations and retries the pod after backoff.
        """

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Called after the pod is bound, to clean up. An exception is logged."""

    # ---- pod groups ----------------------------------------------------------------------------------------------

    def placement_feasible(self, group: PodGroupInfo, progress: Progress) -> Status:
        """Called before the first pod of a group is tried and after each. Not an extension point of configurations.

        SUCCESS: there are enough; the remaining pods are tried as well. WAIT: not yet. UNSCHEDULABLE: there will never
        be enough, and the attempt ends.
        """

    def generate_placements(self, group: PodGroupInfo, nodes: NodeRows) -> Sequence[Placement]:
        """Called once per attempt at a group: the parts of the cluster in which it may be placed as a whole.

        Each is tried, and the best is taken. Raise CycleError with a status for a group that can be placed nowhere.
        """

    def score_placement(self, group: PodGroupInfo, placement: PlacedGroup) -> int:
        """Called for every placement in which the group succeeds, if there are several. Larger is better."""

    def normalize_placements(self, group: PodGroupInfo, scores: Sequence[int]) -> Sequence[int]:
        """Called with the scores of all placements; returns them from 0 to 100."""

    def pod_group_post_filter(self, group: PodGroupInfo, tried: Sequence[Tried]) -> PodGroupPostFilterResult:
        """Called when a group cannot be scheduled, in order; a success or an unresolvable rejection ends the round.

        ``tried`` are the pods that were tried, with their cycle states.
        """

    # ---- explanations ----------------------------------------------------------------------------------------------

    def facts(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[str]:
        """Called when a rejected pod is explained, with all nodes that this plugin rejected. Must change nothing.

        Each fact is a short text without a full stop: ``disk is ssd on 4 nodes, hdd on 6``. ``state`` is that of the
        attempt. An exception becomes a note in the explanation.
        """

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[Change | Remedy]:
        """Called when a rejected pod is explained, with nodes that this plugin rejects. Must change nothing.

        Several remedies are alternatives; changes that only help together are one remedy, a tuple. The engine tries the
        cheapest ones and reports those that help. ``nodes`` are those that no other plugin rejects, or one node where
        several plugins do; pick a few representatives. ``pod`` may already be changed by remedies of other plugins.
        ``state`` is that of the attempt; it is empty for a pod that ``pre_enqueue`` holds back. An exception becomes a
        note in the explanation.
        """

    # ---- failure and set-up --------------------------------------------------------------------------------------

    def after_failure(self, state: CycleState, pod: PodInfo) -> Coroutine[Any, Any, None] | None:
        """Called by the scheduler at the end of every unsuccessful attempt, after ``unreserve`` and requeueing.

        Returns the remaining writes to the API server, or None. The scheduler runs them in the background; an exception
        is logged.
        """

    @classmethod
    def prepare(cls, handle: Handle) -> None:
        """Called once for every registered class before any plugin is created, whether a profile enables it or not.

        A class that shares state between profiles puts it into the handle.
        """


@runtime_checkable
class JudgesKinds(Protocol):
    """A plugin of ours that reads the whole cluster, and yet cannot tell most nodes apart. Not for the SDK."""

    def node_facets(self, state: CycleState, pod: PodInfo) -> Sequence[Facet] | None:
        """Called after the pre-filters. Nodes that agree in these get the same verdict and the same score.

        None: they cannot be named. Otherwise ``filter``, ``pre_score``, ``score`` and ``normalize`` may be given
        ``KindRows``, and look only at their rows. It is called also if the plugin has skipped the pod.
        """


def default_normalize(scores: Scores, *, reverse: bool) -> Scores:
    """Scale so that the largest becomes 100; reversed, so that it becomes 0."""
    largest = int(scores.max(initial=0))
    if largest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = MAX_NODE_SCORE * scores // largest
    return MAX_NODE_SCORE - scaled if reverse else scaled
