"""A PostFilter plugin that makes room for a pending pod by moving others, which find another node. Off by default.

    profiles:
    - plugins:
        postFilter:
          disabled: [{name: DefaultPreemption}]
          enabled: [{name: MoveToFit}, {name: DefaultPreemption}]

    mooring run --plugin mooring.ask.move_to_fit:MoveToFit --config scheduler.yaml

Without a configuration it comes after DefaultPreemption.

The idea is that of a solver behind the default scheduler (arXiv 2511.08373): it is asked only where no node fits.
No pod loses its place as in preemption: before one is evicted, a fork of the cluster has shown that its successor finds
a node. The limits keep the price low: the scheduler decides about no other pod while the solver runs.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

import msgspec
import numpy as np

from mooring.api.budgets import budgets_of
from mooring.api.errors import InputError
from mooring.api.workloads import PodDisruptionBudget
from mooring.ask.drill import coming_back
from mooring.ask.moves import EVICT, bound, movable_pods
from mooring.ask.placement_options import PENDING, PlacementGoal
from mooring.ask.placement_search import Part, PlacementSearch, Reached
from mooring.ask.relaxation import INSTALL, however_full
from mooring.ask.wanted import in_queue_order
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.status import SUCCESS, NodeStatuses, PostFilterResult, Status
from mooring.core.session import Session
from mooring.core.state.cluster import group_of
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo
from mooring.sdk import typed_args

_is_searching: ContextVar[bool] = ContextVar("mooring_move_to_fit", default=False)  # what a search asks must not search
_MINUTE_S = 60.0


class MoveToFitArgs(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """Limits of the plugin."""

    max_moves: int = 5  # for one pending pod
    max_nodes: int = 40  # that one search looks at: those with the most room
    time_limit_seconds: float = 1.0  # of one search
    searches_per_minute: int = 10
    delete_emptydir_data: bool = False


class MoveToFit:
    """Evicts pods of at most the pending pod's priority that all have another place; the pod is nominated to theirs."""

    name: ClassVar[str] = "MoveToFit"
    args: ClassVar[type[MoveToFitArgs]] = MoveToFitArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        try:
            import highspy  # noqa: F401
        except ImportError:
            raise InputError(f"MoveToFit needs a solver, which is not installed: {INSTALL}") from None
        self._args = typed_args(MoveToFit, args)
        self._handle = handle
        self._searches: deque[float] = deque()  # when the last ones were

    def events_to_register(self) -> Sequence[EventRegistration]:
        # A moved pod's end wakes the pending pod through the plugin that had refused it.
        return (on(EventResource.POD, ActionType.DELETE, lambda pod, old, new: Hint.SKIP),)

    def post_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows, statuses: NodeStatuses) -> PostFilterResult:
        why = self._objection(pod)
        if why or self._handle.fork is None:
            return _no(why)
        token = _is_searching.set(True)
        try:
            return self._search(self._handle.fork(), pod)
        finally:
            _is_searching.reset(token)

    def _objection(self, pod: PodInfo) -> str:
        if _is_searching.get():
            return "a search is running"
        if pod.pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        if group_of(pod.pod):
            return "a pod group is placed as a whole"
        if self._handle.nominator.node_of(pod.uid):
            return "the pod waits for the pods that are moved for it"
        now = self._handle.clock.monotonic()
        while self._searches and now - self._searches[0] >= _MINUTE_S:
            self._searches.popleft()
        if len(self._searches) >= self._args.searches_per_minute:
            return f"{self._args.searches_per_minute} searches have been made in the last minute"
        self._searches.append(now)
        return ""

    def _search(self, session: Session, pod: PodInfo) -> PostFilterResult:
        names = self._candidates(session, pod)
        movable, _ = movable_pods(session, delete_emptydir_data=self._args.delete_emptydir_data)
        movable = [each for each in movable if each.priority <= pod.priority and each.pod.spec.node_name in names]
        if not movable:
            return _no("no pod can be moved")
        goal = PlacementGoal(PENDING, lambda name: 1.0)
        search = PlacementSearch(session, goal, {"max_moves": self._args.max_moves})
        start = Reached(session, [], goal.measures(session, [pod]))
        deadline = time.monotonic() + self._args.time_limit_seconds
        found = search.solve_part(start, Part(movable, [pod], names), [pod], deadline)
        placed = found.session.state.pod(pod.uid)
        if placed is None:
            return _no(f"no {self._args.max_moves} moves make room")
        leaving = {step.pod for step in found.steps if step.action == EVICT}
        victims = [each for each in movable if each.pod.key in leaving]
        return self._proved(session, pod, placed.pod.spec.node_name, victims)

    def _candidates(self, session: Session, pod: PodInfo) -> set[str]:
        """Nodes that let the pod in if they were empty, and others with the most room for what must move."""
        rows = session.state.nodes()
        whole = rows.allocatable("cpu")
        free = np.divide(whole - rows.requested("cpu"), whole, out=np.zeros(len(rows)), where=whole > 0)
        order = np.argsort(-free, kind="stable").tolist()
        allowed = however_full(session, pod)
        wanted = [row for row in order if allowed[row]][: self._args.max_nodes // 2]
        others = [row for row in order if row not in set(wanted)]
        chosen = [*wanted, *others[: self._args.max_nodes - len(wanted)]]
        return {rows.infos[row].name for row in chosen}

    def _proved(self, session: Session, pod: PodInfo, node: str, victims: list[PodInfo]) -> PostFilterResult:
        """All victims are evicted together, and the scheduler places their successors: each must find a node."""
        used: Counter[str] = Counter()
        for victim in victims:
            budgets = session.state.objects.in_namespace(PodDisruptionBudget, victim.pod.namespace)
            for budget in budgets_of(victim.pod, budgets):
                used[budget.key] += 1
                if used[budget.key] > budget.status.disruptions_allowed:
                    return _no(f"the budget {budget.key} does not allow all moves together")
        after = session.fork()
        for victim in victims:
            after.state.remove_pod(victim.uid)
        decision = bound(after, pod, node)
        if decision.node is not None:
            decision = after.commit(decision)
        if decision.node is None:
            return _no("the moves do not make room")
        for new in in_queue_order(after, [coming_back(after.state, victim) for victim in victims]):
            if after.place(new).node is None:
                return _no(f"{new.pod.key} would find no other node")
        text = f"moving {len(victims)} pod(s) to other nodes makes room on {node}"
        return PostFilterResult(Status(SUCCESS.code, (text,)), node, tuple(victims))


def _no(why: str) -> PostFilterResult:
    return PostFilterResult(Status.unschedulable(f"moving pods: {why}"))
