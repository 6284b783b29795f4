"""One attempt at one pod: its result as a plain value, and what the steps of the scheduling cycle are given.

Tables, events, conditions, logs and the decision log are renderings of the result. It has columns and codes inside;
texts are made when they are read.
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
    GATED = "gated"  # held back before any attempt
    ERROR = "error"  # something broke; shown to users as SchedulerError


class ScoreTable:
    """Scores of the feasible nodes, in the order in which they were looked at."""

    __slots__ = ("_totals", "best", "by_plugin", "nodes")

    def __init__(
        self,
        nodes: NodeRows,
        by_plugin: dict[str, NDArray[np.int64]],
        totals: NDArray[np.int64] | Callable[[], NDArray[np.int64]],
        best: int,
    ) -> None:
        """``totals`` may be put together when they are read; that is before the next decision."""
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
    """The outcome of one attempt and how it came about."""

    pod: PodInfo
    outcome: Outcome
    node: str | None = None
    status: Status = SUCCESS  # why not, signed by the plugin where one plugin decided
    num_nodes: int = 0
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
    scores: ScoreTable | None = None  # None where nothing was scored: fewer than two feasible nodes
    statuses: NodeStatuses | None = None  # per node, for those that were refused
    pre_filter_message: str = ""
    post_filter_message: str = ""
    post_filter_plugin: str = ""  # the plugin that chose the victims
    nominated_node: str | None = None  # None: leave it; "": clear it
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0  # of the victims
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    is_fit_error: bool = False
    from_hint: bool = False  # taken over from the ranking of an equal pod
    hint: str = ""  # the node that the ranking of an equal pod proposed, whether it was taken or not
    start: int = 0  # where the search began
    extender_scores: Mapping[str, Mapping[str, Sequence[int]]] = {}
    """node -> extender -> scores as it answered them, before the weight; also of nodes that it was not asked about."""
    state: CycleState = msgspec.field(default_factory=CycleState)  # for the plugins of the binding cycle
    _message: str | None = None

    @property
    def reason(self) -> str:
        """The reason of the PodScheduled condition."""
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
        """The plugins that refused the pod or want it to wait."""
        pending = self.pending_plugins
        return self.unschedulable_plugins | pending if pending else self.unschedulable_plugins

    @property
    def message(self) -> str:
        """What users read in the condition and the event."""
        if self._message is None:
            self._message = self._fit_error() if self.is_fit_error else self.status.message
        return self._message

    def failed(self, outcome: Outcome, status: Status) -> ScheduleResult:
        """The same attempt with another end: the pod has no node after all."""
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
    """Tells the profile's observer, if it has one, how long each extension point took: the time since the last call."""

    __slots__ = ("_clock", "_observer", "_since")

    def __init__(self, observer: CycleObserver | None, clock: Clock) -> None:
        self._observer = observer
        self._clock = clock
        self._since = 0.0 if observer is None else clock.monotonic()

    def restart(self) -> None:
        """Leave out what came since the last call: it belongs to no extension point."""
        if self._observer is not None:
            self._since = self._clock.monotonic()

    def point(self, name: str, status: Status, plugins: Sequence[Any] = (), times: int = 0) -> None:
        """An extension point is done; these plugins of it were called this many times."""
        observer = self._observer
        if observer is not None:
            now = self._clock.monotonic()
            observer.extension_point(name, CODE_NAMES[status.code], now - self._since)
            self._since = now
            if times:
                observer.evaluated(name, plugins, times)

    def hint(self, row: int | None, flushed: str) -> None:
        """Batching was asked for a node."""
        if self._observer is not None:
            self._observer.node_hint(is_hinted=row is not None, flushed=flushed, seconds=self._lap())

    def rescored(self, seconds: float) -> None:
        """Batching scored the last node again."""
        if self._observer is not None:
            self._observer.batch_rescored(seconds)

    def stored(self, taken: bool | None, flushed: str) -> None:
        """Batching recorded a placement."""
        if self._observer is not None:
            self._observer.batch_stored(taken, flushed, self._lap())

    def _lap(self) -> float:
        now = self._clock.monotonic()
        seconds, self._since = now - self._since, now
        return seconds


class CycleAttempt:
    """A pod, the profile that decides about it, all nodes as they are now, and the cycle state of plugins."""

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
        self.uses_kept = uses_kept  # whether columns that are kept for the pod's template may be used
        self.detail = detail  # whether the decision keeps scores by plugin
        self.within: NDArray[np.int64] | None = None  # the rows that may be chosen; None: all
        self.makes_room = True  # whether PostFilter is asked where no node fits
        self._some_rows: Set[int] = frozenset()
        self._some = nodes

    def some(self, rows: Set[int]) -> NodeRows:
        """These rows. Verdicts and scores mostly have the same ones to repair, and share what is gathered of them."""
        if self._some_rows is not rows and self._some_rows != rows:  # mostly the very same: comparing takes longer
            self._some_rows, self._some = rows, NodeRows(self.nodes.table, np.fromiter(rows, np.int64, len(rows)))
        return self._some

    def with_state(self, state: CycleState) -> CycleAttempt:
        """The same attempt under a hypothesis: plugins remember something else."""
        other = CycleAttempt(
            self.pod, self.profile, self.nodes, state, self.stopwatch, uses_kept=self.uses_kept, detail=self.detail
        )
        other.plan = self.plan
        return other
