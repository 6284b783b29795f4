"""One attempt at one pod after the decision: where it goes, or why it goes nowhere for now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from mooring.api.core import Pod
from mooring.clock import Clock
from mooring.engine.decision import Decision, Outcome
from mooring.framework.cycle_state import CycleState
from mooring.framework.extender import Extender
from mooring.framework.runtime import Profile
from mooring.framework.status import Code, Status
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.scheduler.waiting_pods import WaitingPod
from mooring.state.pod_info import PodInfo

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"


class Failure(msgspec.Struct, frozen=True):
    """Why an attempt failed: what people read, and what the queue needs to wake the pod."""

    reason: str
    message: str
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominated_node: str | None = ""  # "": clear it; None: leave it
    is_fit_error: bool = False

    @staticmethod
    def of_decision(decision: Decision) -> Failure:
        return Failure(
            SCHEDULER_ERROR if decision.outcome is Outcome.ERROR else UNSCHEDULABLE,
            decision.message,
            decision.unschedulable_plugins,
            decision.pending_plugins,
            decision.nominated_node,
            decision.is_fit_error,
        )

    @staticmethod
    def of_status(status: Status, *, on_node: bool = False) -> Failure:
        """A failure after the decision. A refusal of the chosen node (``on_node``) reads like one of many nodes."""
        if not status.is_rejected:
            return Failure(SCHEDULER_ERROR, status.message)
        if not on_node:
            return Failure(UNSCHEDULABLE, status.message)
        counts = Counter(status.reasons)
        entries = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        plugins = frozenset((status.plugin,))
        is_pending = status.code is Code.PENDING
        return Failure(
            UNSCHEDULABLE,
            "0/1 nodes are available:" + (f" {entries}." if entries else ""),
            frozenset() if is_pending else plugins,
            plugins if is_pending else frozenset(),
            is_fit_error=True,
        )

    @staticmethod
    def of_error(error: Exception) -> Failure:
        """Something broke that should not have."""
        return Failure(SCHEDULER_ERROR, f"{type(error).__name__}: {error}")

    @property
    def is_rejection(self) -> bool:
        return self.reason == UNSCHEDULABLE


class Placement(msgspec.Struct):
    """A pod with its node, on the way to be bound. The decision is not held: its columns take a lot of memory."""

    info: QueuedPodInfo
    profile: Profile
    state: CycleState
    pod: PodInfo  # assumed
    node_name: str
    started: float
    clock: Clock
    to_activate: dict[str, Pod]  # which pods its plugins want to be tried at once
    extenders: Sequence[Extender] = ()
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    waiting: WaitingPod | None = None
