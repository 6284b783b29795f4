"""A profile at work: its plugins, in order, at every extension point, with upstream's skip and status rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.framework.cycle_state import CycleState
from mooring.framework.interfaces import (
    BindPlugin,
    FilterPlugin,
    NormalizingScorePlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    Scores,
)
from mooring.framework.observer import CycleObserver
from mooring.framework.status import SUCCESS, Code, Status
from mooring.framework.verdict import Verdict
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

T = TypeVar("T")


class CycleError(Exception):
    """Something broke in a cycle: the attempt fails, the pod is tried again later."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


@dataclass(slots=True)
class PreFilterOutcome:
    """What all pre-filters say together."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None  # None: every node
    plugins: frozenset[str] = frozenset()  # those that narrowed the nodes down, or refused


@dataclass(slots=True)
class FilterOutcome:
    """The filters' verdicts on some rows, in plugin order, without the plugins that let all pass."""

    verdicts: list[tuple[str, Verdict]]
    feasible: NDArray[np.bool_]

    def passed_so_far(self) -> NDArray[np.bool_]:
        """The nodes that none of the verdicts so far refuses."""
        passed = np.ones(len(self.feasible), np.bool_)
        for _, verdict in self.verdicts:
            passed &= verdict.ids == 0
        return passed

    def status_at(self, i: int) -> Status:
        for name, verdict in self.verdicts:
            number = int(verdict.ids[i])
            if number:
                return verdict.status_of(number).by(name)
        return SUCCESS


def is_cacheable(reads: Reads, plugin: object) -> bool:
    """Whether a plugin's answers about a node can be kept until that node's row changes."""
    return reads <= Reads.ROW and not getattr(plugin, "per_node", False)


@dataclass(frozen=True, slots=True)
class FilterPlan:
    active: list[FilterPlugin]
    cached: list[FilterPlugin]  # those of them whose verdicts a template's pods share
    past_volumes: bool  # none of the cached ones looks at volumes or claims
    asked: list[PreFilterPlugin]  # those that did not bow out before filtering

    def shape_key(self, pod: PodInfo) -> tuple[int, int]:
        """What the cached filters know a pod by. Whoever keeps something under it keeps ``cached``, too."""
        return pod.shape.placement_id if self.past_volumes else pod.shape.id, id(self.cached)

    def is_shared(self, pod: PodInfo) -> bool:
        """Report whether all that can refuse this pod a node is cached. NodeName can refuse only one that names it."""
        others = (plugin for plugin in self.active if plugin not in self.cached)
        return all(hasattr(plugin, "concerns") and not plugin.concerns(pod) for plugin in others)

    def reads_figures_only(self) -> bool:
        """Report whether the cached filters read nothing of a node's pods but how much of the node they take."""
        return all(plugin.filter_reads <= Reads.RESOURCES for plugin in self.cached)

    def token(self) -> Hashable:
        """What the cached filters' verdicts depend on besides the pod and the row, as it is now."""
        return tuple(plugin.cache_token() for plugin in self.cached if hasattr(plugin, "cache_token"))


@dataclass(frozen=True, slots=True)
class ScorePlan:
    active: list[tuple[ScorePlugin, int]]
    cached: list[tuple[ScorePlugin, int]]
    past_volumes: bool
    asked: list[PreScorePlugin]


def _look_past_volumes(plugins: Iterable[object]) -> bool:
    return all(getattr(plugin, "looks_past_volumes", False) for plugin in plugins)


@dataclass(slots=True)
class Profile:
    """The plugins of one scheduler name. Built once from the configuration, then only read."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    pre_enqueue: list[PreEnqueuePlugin]
    queue_sort: QueueSortPlugin
    pre_filter: list[PreFilterPlugin]
    filter: list[FilterPlugin]
    post_filter: list[PostFilterPlugin]
    pre_score: list[PreScorePlugin]
    score: list[tuple[ScorePlugin, int]]  # with weights
    reserve: list[ReservePlugin]
    permit: list[PermitPlugin]
    pre_bind: list[PreBindPlugin]
    bind: list[BindPlugin]
    post_bind: list[PostBindPlugin]
    plugins: dict[str, Any]  # all of them by name
    observer: CycleObserver | None = None
    # Worked out once, because asking a Protocol whether an object fits it is slow.
    normalizers: dict[str, Callable[..., Scores]] = field(init=False)
    extensions: list[Any] = field(init=False)  # pre-filters that want to hear of pods added or removed in thought
    _filter_plans: dict[frozenset[str], FilterPlan] = field(init=False, default_factory=dict)
    _score_plans: dict[frozenset[str], ScorePlan] = field(init=False, default_factory=dict)
    plugins_that_sign: list[Any] = field(init=False)  # those that filter or score: they know what makes two pods equal

    def __post_init__(self) -> None:
        self.normalizers = {p.name: p.normalize for p, _ in self.score if isinstance(p, NormalizingScorePlugin)}
        self.extensions = [plugin for plugin in self.pre_filter if isinstance(plugin, PreFilterExtensions)]
        judges = (*self.pre_filter, *self.filter, *self.pre_score, *(plugin for plugin, _ in self.score))
        self.plugins_that_sign = list({plugin.name: plugin for plugin in judges}.values())

    # ---- pre-filter --------------------------------------------------------------------------------------------

    def run_pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> PreFilterOutcome:
        """Ask all; an unresolvable no stops at once, a resolvable one lets the others speak (the last one counts)."""
        refused: Status | None = None
        names: frozenset[str] | None = None
        narrowing: set[str] = set()
        call = state.timer or guarded
        for plugin in self.pre_filter:
            answer = call(plugin.name, 'running PreFilter plugin "{}": {}', plugin.pre_filter, state, pod, nodes)
            if isinstance(answer, PreFilterResult):
                narrowing.add(plugin.name)
                names = answer.node_names if names is None else names & answer.node_names
                if not names:
                    return PreFilterOutcome(_nothing_left(narrowing), None, frozenset(narrowing))
                continue
            if answer.code is Code.SUCCESS:
                continue
            if answer.code is Code.SKIP:
                state.skip_filter.add(plugin.name)
            elif answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                signed = answer.by(plugin.name)
                return PreFilterOutcome(signed, None, frozenset((signed.plugin,)))
            elif answer.is_rejected:
                refused = answer.by(plugin.name)
            else:
                raise CycleError(Status.error(f'running PreFilter plugin "{plugin.name}": {answer.message}'))
        if refused is not None:
            return PreFilterOutcome(refused, None, frozenset((refused.plugin,)))
        return PreFilterOutcome(SUCCESS, names, frozenset(narrowing))

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Tell every pre-filter that counts pods that one is there in thought."""
        for plugin in self._extensions(state):
            self._tell(plugin, "AddPod", plugin.add_pod, state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        for plugin in self._extensions(state):
            self._tell(plugin, "RemovePod", plugin.remove_pod, state, pod, removed, node)

    @staticmethod
    def _tell(plugin: Any, point: str, method: Callable[..., Status], *arguments: Any) -> None:
        text = f'running {point} on PreFilter plugin "{{}}": {{}}'
        status = guarded(plugin.name, text, method, *arguments)
        if not status.is_success:
            raise CycleError(Status.error(text.format(plugin.name, status.message)))

    def _extensions(self, state: CycleState) -> Iterable[Any]:
        return (plugin for plugin in self.extensions if plugin.name not in state.skip_filter)

    def active_filters(self, state: CycleState) -> list[FilterPlugin]:
        return self.filter_plan(state).active

    def filter_plan(self, state: CycleState) -> FilterPlan:
        """The filters that this attempt runs; the same few sets of skips come again and again."""
        key = frozenset(state.skip_filter)
        plan = self._filter_plans.get(key)
        if plan is None:
            active = [plugin for plugin in self.filter if plugin.name not in key]
            cached = [plugin for plugin in active if is_cacheable(plugin.filter_reads, plugin)]
            asked = [plugin for plugin in self.pre_filter if plugin.name not in key]
            plan = self._filter_plans[key] = FilterPlan(active, cached, _look_past_volumes(cached), asked)
        return plan

    def score_plan(self, state: CycleState) -> ScorePlan:
        key = frozenset(state.skip_score)
        plan = self._score_plans.get(key)
        if plan is None:
            active = [(plugin, weight) for plugin, weight in self.score if plugin.name not in key]
            cached = [(plugin, weight) for plugin, weight in active if is_cacheable(plugin.score_reads, plugin)]
            past_volumes = _look_past_volumes(plugin for plugin, _ in cached)
            asked = [plugin for plugin in self.pre_score if plugin.name not in key]
            plan = self._score_plans[key] = ScorePlan(active, cached, past_volumes, asked)
        return plan

    # ---- filter ------------------------------------------------------------------------------------------------

    def run_filters(
        self, state: CycleState, pod: PodInfo, nodes: NodeRows, plugins: Iterable[FilterPlugin] | None = None
    ) -> FilterOutcome:
        """Judge rows (or a hypothesis about them) without any cache; later plugins judge only if a node is left."""
        outcome = FilterOutcome([], np.ones(len(nodes), np.bool_))
        state.check_time()
        for plugin in self.active_filters(state) if plugins is None else plugins:
            if not outcome.feasible.any():
                break
            verdict = judge(plugin, state, pod, nodes, lambda: outcome.feasible)
            if verdict is not None:
                outcome.verdicts.append((plugin.name, verdict))
                outcome.feasible &= verdict.ids == 0
        return outcome

    # ---- the rest ----------------------------------------------------------------------------------------------

    def run_pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> None:
        call = state.timer or guarded
        for plugin in self.pre_score:
            status = call(plugin.name, 'running PreScore plugin "{}": {}', plugin.pre_score, state, pod, nodes)
            if status.is_skip:
                state.skip_score.add(plugin.name)
            elif not status.is_success:
                raise CycleError(Status.error(f'running PreScore plugin "{plugin.name}": {status.message}'))

    def run_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Reserve in order; the first failure is returned (the caller then calls ``run_unreserve``)."""
        call = state.timer or guarded
        for plugin in self.reserve:
            status = call(plugin.name, 'running Reserve plugin "{}": {}', plugin.reserve, state, pod, node_name)
            if status.is_rejected:
                return status.by(plugin.name)
            if not status.is_success:
                return Status(Code.ERROR, (f'running Reserve plugin "{plugin.name}": {status.message}',), plugin.name)
        return SUCCESS

    def run_unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> list[str]:
        """Undo all reservations, the last first; what a plugin raises here is returned, and the others go on."""
        problems = []
        call = state.timer or guarded
        for plugin in reversed(self.reserve):
            try:
                call(plugin.name, 'running Unreserve plugin "{}": {}', plugin.unreserve, state, pod, node_name)
            except CycleError as error:
                problems.append(error.status.message)
        return problems


def judge(
    plugin: FilterPlugin,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeRows,
    in_running: Callable[[], NDArray[np.bool_]] | None = None,
) -> Verdict | None:
    """Ask one filter about rows; a failure on a node that is still in the running (None: all) fails the attempt."""
    text = 'running "{}" filter plugin: {}'
    call = state.timer or guarded
    if getattr(plugin, "per_node", False):  # one node at a time: only those that are still in the running
        positions = np.arange(len(nodes)) if in_running is None else np.flatnonzero(in_running())
        part = call(plugin.name, text, plugin.filter, state, pod, nodes.subset(positions))
        if part is None:
            return None
        ids = np.zeros(len(nodes), np.int64)
        ids[positions] = part.ids
        verdict: Verdict | None = Verdict(ids, part.status_of)
    else:
        verdict = call(plugin.name, text, plugin.filter, state, pod, nodes)
    if verdict is None or verdict.only_refuses:
        return verdict
    relevant = verdict.ids if in_running is None else verdict.ids[in_running()]
    for number in np.unique(relevant[relevant != 0]).tolist():
        status = verdict.status_of(number)
        if not status.is_rejected:
            raise CycleError(Status.error(text.format(plugin.name, status.message)))
    return verdict


def guarded(name: str, text: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call a plugin; what it raises becomes this pod's error, not the process's end."""
    try:
        return function(*arguments)
    except CycleError:
        raise
    except Exception as error:
        raise CycleError(Status(Code.ERROR, (text.format(name, f"{type(error).__name__}: {error}"),), name)) from error


def _nothing_left(plugins: set[str]) -> Status:
    names = sorted(plugins)
    if len(names) == 1:
        return Status.unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")
