"""The result of one attempt as a plain value, and the context of the scheduling cycle's steps.

Tables, events, conditions, logs and the decision log render the result. It contains columns and codes; texts are made
on access.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from enum import Enum
from typing import Any

import msgspec
import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from mooring.api.clock import Clock
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import CycleObserver
from mooring.core.framework.runtime import FilterPlan, Profile
from mooring.core.framework.status import CODE_NAMES, SUCCESS, NodeStatuses, Status
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

NO_NODES = "no nodes available to schedule pods"


class Outcome(Enum):
    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"  # tried and refused
    GATED = "gated"  # held back without an attempt
    ERROR = "error"  # an error; shown to users as SchedulerError


class ScoreTable:
    """Scores of the feasible nodes, in search order."""

    __slots__ = ("_totals", "best", "by_plugin", "nodes")

    def __init__(
        self,
        nodes: NodeRows,
        by_plugin: dict[str, NDArray[np.int64]],
        totals: NDArray[np.int64] | Callable[[], NDArray[np.int64]],
        best: int,
    ) -> None:
        """``totals`` may be computed on access, which must happen before the next decision."""
        self.nodes = nodes
        self.by_plugin = by_plugin  # normalised and weighted
        self.best = best  # the total of the node that won
        self._totals = totals

    @property
    def totals(self) -> NDArray[np.int64]:
        if callable(self._totals):
            self._totals = self._totals()
        return self._totals

    @property
    def names(self) -> list[str]:
        return [info.name for info in self.nodes.infos]

    def to_dict(self) -> dict[str, dict[str, int]]:
        if not self.by_plugin:
            return {}
        return {
            name: {plugin: int(scores[i]) for plugin, scores in self.by_plugin.items()}
            for i, name in enumerate(self.names)
        }

    def totals_dict(self) -> dict[str, int]:
        return dict(zip(self.names, self.totals.tolist(), strict=True))


class ScheduleResult(msgspec.Struct):
    """The outcome of one attempt, with verdicts and scores."""

    pod: PodInfo
    outcome: Outcome
    node: str | None = None
    status: Status = SUCCESS  # rejection, with its plugin if one decided
    num_nodes: int = 0
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    scores: ScoreTable | None = None  # None if nothing was scored: fewer than two feasible nodes
    statuses: NodeStatuses | None = None  # of the rejected nodes
    pre_filter_message: str = ""
    post_filter_message: str = ""
    post_filter_plugin: str = ""  # the plugin that chose the victims
    nominated_node: str | None = None  # None: leave it; "": clear it
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0  # of the victims
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    is_fit_error: bool = False
    from_hint: bool = False  # taken from the ranking of an equal pod
    hint: str = ""  # node proposed by the ranking of an equal pod, taken or not
    start: int = 0  # position where the search began
    extender_scores: Mapping[str, Mapping[str, Sequence[int]]] = {}
    """node -> extender -> unweighted scores as answered, also for unknown nodes."""
    state: CycleState = msgspec.field(default_factory=CycleState)  # for the plugins of the binding cycle
    _message: str | None = None

    @property
    def reason(self) -> str:
        """Reason of the PodScheduled condition."""
        match self.outcome:
            case Outcome.SCHEDULED:
                return ""
            case Outcome.GATED:
                return "SchedulingGated"
            case Outcome.UNSCHEDULABLE:
                return "Unschedulable"
            case Outcome.ERROR:
                return "SchedulerError"

    @property
    def rejectors(self) -> frozenset[str]:
        """Plugins that rejected the pod or let it wait."""
        pending = self.pending_plugins
        return self.unschedulable_plugins | pending if pending else self.unschedulable_plugins

    @property
    def message(self) -> str:
        """Message of the condition and the event."""
        if self._message is None:
            self._message = self._fit_error() if self.is_fit_error else self.status.message
        return self._message

    def failed(self, outcome: Outcome, status: Status) -> ScheduleResult:
        """Return the attempt with a failure after the node was chosen."""
        return structs.replace(self, outcome=outcome, node=None, status=status, nominated_node="", _message=None)

    def _fit_error(self) -> str:
        text = f"0/{self.num_nodes} nodes are available:"
        if self.pre_filter_message:
            text += f" {self.pre_filter_message}."
        elif self.statuses is not None:
            entries = self.statuses.summary()
            if entries:
                text += f" {entries}."
        if self.post_filter_message:
            text += f" {self.post_filter_message}"
        return text


# ---- the attempt ---------------------------------------------------------------------------------------------------


class Stopwatch:
    """Reports the duration of each extension point, the time since the last call, to the profile's observer."""

    __slots__ = ("_clock", "_observer", "_since")

    def __init__(self, observer: CycleObserver | None, clock: Clock) -> None:
        self._observer = observer
        self._clock = clock
        self._since = 0.0 if observer is None else clock.monotonic()

    def restart(self) -> None:
        """Exclude the time since the last call from extension points."""
        if self._observer is not None:
            self._since = self._clock.monotonic()

    def point(self, name: str, status: Status, plugins: Sequence[Any] = (), times: int = 0) -> None:
        """End an extension point; its plugins were called ``times`` times."""
        observer = self._observer
        if observer is not None:
            now = self._clock.monotonic()
            observer.extension_point(name, CODE_NAMES[status.code], now - self._since)
            self._since = now
            if times:
                observer.evaluated(name, plugins, times)

    def hint(self, row: int | None, flushed: str) -> None:
        """Report that batching was asked for a node."""
        if self._observer is not None:
            self._observer.node_hint(is_hinted=row is not None, flushed=flushed, seconds=self._lap())

    def rescored(self, seconds: float) -> None:
        """Report that batching scored the last node again."""
        if self._observer is not None:
            self._observer.batch_rescored(seconds)

    def stored(self, taken: bool | None, flushed: str) -> None:
        """Report that batching stored a placement."""
        if self._observer is not None:
            self._observer.batch_stored(taken, flushed, self._lap())

    def _lap(self) -> float:
        now = self._clock.monotonic()
        seconds, self._since = now - self._since, now
        return seconds


class CycleAttempt:
    """A pod, the profile that decides about it, all nodes, and the cycle state of plugins."""

    __slots__ = (
        "_some",
        "_some_rows",
        "detail",
        "makes_room",
        "nodes",
        "plan",
        "pod",
        "profile",
        "state",
        "stopwatch",
        "uses_kept",
        "within",
    )  # fmt: skip

    plan: FilterPlan  # the filters that this attempt runs; set once the pre-filters have spoken

    def __init__(
        self,
        pod: PodInfo,
        profile: Profile,
        nodes: NodeRows,
        state: CycleState,
        stopwatch: Stopwatch,
        *,
        uses_kept: bool,
        detail: bool,
    ) -> None:
        self.pod = pod
        self.profile = profile
        self.nodes = nodes
        self.state = state
        self.stopwatch = stopwatch
        self.uses_kept = uses_kept  # whether cached columns of the pod's template may be used
        self.detail = detail  # whether the decision keeps scores by plugin
        self.within: NDArray[np.int64] | None = None  # rows that may be chosen; None: all
        self.makes_room = True  # whether PostFilter runs where no node fits
        self._some_rows: Set[int] = frozenset()
        self._some = nodes

    def some(self, rows: Set[int]) -> NodeRows:
        """Return these rows. Verdicts and scores mostly update the same ones, and share them."""
        if self._some_rows is not rows and self._some_rows != rows:  # mostly the same object: comparing takes longer
            self._some_rows, self._some = rows, NodeRows(self.nodes.table, np.fromiter(rows, np.int64, len(rows)))
        return self._some

    def with_state(self, state: CycleState) -> CycleAttempt:
        """Return the attempt with another cycle state, for a dry run."""
        other = CycleAttempt(
            self.pod, self.profile, self.nodes, state, self.stopwatch, uses_kept=self.uses_kept, detail=self.detail
        )
        other.plan = self.plan
        return other
