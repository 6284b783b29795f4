"""A profile at run time: its plugins, in order, at every extension point, with upstream's skip and status rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import call
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.core.framework.cycle_state import CycleError, CycleState, PluginTimer, broken, guarded
from mooring.core.framework.extension_points import EXTENSION_POINTS
from mooring.core.framework.handle import CycleObserver
from mooring.core.framework.interfaces import JudgesKinds, PreFilterResult
from mooring.core.framework.registry import Reads, ResolvedPlugin
from mooring.core.framework.status import (
    SKIP,
    SKIP_FOR_TEMPLATE,
    SUCCESS,
    SUCCESS_FOR_TEMPLATE,
    Code,
    FilterOutcome,
    Status,
    Verdict,
    numbers_in,
)
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo, PodShape

# ---- the plugins that an attempt runs: those that did not skip it ----------------------------------------------------

Template = tuple[int, object]
"""Identifies pods that are equal to the cached plugins of a plan."""


class FilterPlan:
    """The filters of an attempt. Plans are compared by identity: a profile creates one for each set of skips."""

    __slots__ = (
        "_tokens", "active", "asked", "cached", "is_local", "others", "places", "reads_figures_only", "uses_volumes",
    )  # fmt: skip

    def __init__(self, active: Sequence[ResolvedPlugin], asked: Sequence[ResolvedPlugin]) -> None:
        self.active = active
        self.asked = asked  # pre-filters that did not skip
        self.cached = [plugin for plugin in active if _is_kept(plugin, plugin.traits.filter_reads)]
        self.others = [plugin for plugin in active if plugin not in self.cached]
        # All filters in order, each with its index among the cached ones if it is one of them.
        self.places = [(plugin, self.cached.index(plugin) if plugin in self.cached else None) for plugin in active]
        self._tokens = [plugin.cache_token for plugin in self.cached if plugin.cache_token is not None]
        self.uses_volumes = any(plugin.traits.uses_volumes for plugin in self.cached)
        # Whether the outcome on one node cannot matter to another, so that many nodes can be tried together.
        self.is_local = all(plugin.traits.filter_reads <= Reads.LOCAL for plugin in active)
        # Whether the cached filters read nothing of a node's pods but their resources.
        self.reads_figures_only = all(plugin.traits.filter_reads <= Reads.RESOURCES for plugin in self.cached)

    def template(self, pod: PodInfo) -> Template:
        """Return the pod's identity for the cached filters."""
        return pod.shape.id if self.uses_volumes else pod.shape.placement_id, self

    def keeps_all(self, pod: PodInfo) -> bool:
        """Report whether every filter that can reject this pod is cached. NodeName rejects only for named nodes."""
        # Building a list for every pod takes a third of the time of all(…).
        others = [plugin for plugin in self.others if plugin.concerns is None or plugin.concerns(pod)]
        return not others

    def token(self) -> Hashable:
        """Return what the cached filters' verdicts depend on besides the pod and the row."""
        return tuple(map(call, self._tokens))


class ScorePlan:
    """The scores of an attempt, with their weights; compared by identity as well."""

    __slots__ = ("_tokens", "active", "asked", "cached", "uses_volumes")

    def __init__(self, active: Sequence[tuple[ResolvedPlugin, int]], asked: Sequence[ResolvedPlugin]) -> None:
        self.active = active
        self.asked = asked
        self.cached = [(plugin, weight) for plugin, weight in active if _is_kept(plugin, plugin.traits.score_reads)]
        self._tokens = [plugin.cache_token for plugin, _ in self.cached if plugin.cache_token is not None]
        self.uses_volumes = any(plugin.traits.uses_volumes for plugin, _ in self.cached)

    def template(self, pod: PodInfo) -> Template:
        return pod.shape.id if self.uses_volumes else pod.shape.placement_id, self

    def token(self) -> Hashable:
        return tuple(map(call, self._tokens))


def _is_kept(plugin: ResolvedPlugin, reads: Reads) -> bool:
    """Report whether a plugin's answers about a node hold until that node's row changes."""
    return reads <= Reads.ROW and not plugin.traits.per_node


MAX_SETTLED = 4096  # templates

_PRE_FILTER = 'running PreFilter plugin "{}": {}'
_PRE_SCORE = 'running PreScore plugin "{}": {}'


class PreFilterOutcome(msgspec.Struct):
    """Combined result of all pre-filters."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None  # None: every node
    plugins: frozenset[str] = frozenset()  # those that restricted the nodes, or rejected
    asked: Sequence[ResolvedPlugin] = ()  # those that did not skip, if a rejection ended the round early


class Settled(NamedTuple):
    """Template-wide answers of an extension point's plugins, which need not be called again."""

    skips: frozenset[str]  # they skip it
    others: Sequence[ResolvedPlugin]  # called for each of its pods


@dataclass(slots=True)
class Profile:
    """The plugins of one scheduler name. Built once from the configuration, then read-only."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    plugins: dict[str, ResolvedPlugin]  # all of them by name
    points: Mapping[str, Sequence[tuple[str, int]]]  # by extension point, names with weights
    observer: CycleObserver | None = None
    # By extension point; ``__post_init__`` fills them from the table.
    pre_enqueue: list[ResolvedPlugin] = field(init=False)
    queue_sort: list[ResolvedPlugin] = field(init=False)  # exactly one
    pre_filter: list[ResolvedPlugin] = field(init=False)
    filter: list[ResolvedPlugin] = field(init=False)
    post_filter: list[ResolvedPlugin] = field(init=False)
    pre_score: list[ResolvedPlugin] = field(init=False)
    score: list[tuple[ResolvedPlugin, int]] = field(init=False)  # with weights
    reserve: list[ResolvedPlugin] = field(init=False)
    permit: list[ResolvedPlugin] = field(init=False)
    pre_bind: list[ResolvedPlugin] = field(init=False)
    bind: list[ResolvedPlugin] = field(init=False)
    post_bind: list[ResolvedPlugin] = field(init=False)
    placement_generate: list[ResolvedPlugin] = field(init=False)  # at most one
    placement_feasible: list[ResolvedPlugin] = field(init=False)
    placement_score: list[tuple[ResolvedPlugin, int]] = field(init=False)  # with weights
    pod_group_post_filter: list[ResolvedPlugin] = field(init=False)
    judges: list[ResolvedPlugin] = field(init=False)  # plugins that filter or score
    by_kind: dict[str, Any] = field(init=False)  # of these, plugins that can judge kinds of nodes
    told_of_failures: list[ResolvedPlugin] = field(init=False)  # plugins with something to release after a failure
    _filter_plans: dict[frozenset[str], FilterPlan] = field(init=False, default_factory=dict)
    _score_plans: dict[frozenset[str], ScorePlan] = field(init=False, default_factory=dict)
    _pre_filter_settled: dict[int, Settled] = field(init=False, default_factory=dict)  # by shape
    _pre_score_settled: dict[int, Settled] = field(init=False, default_factory=dict)  # by shape

    def __post_init__(self) -> None:
        for point in EXTENSION_POINTS:
            enabled = [(self.plugins[name], weight) for name, weight in self.points.get(point.name, ())]
            if point.methods:
                setattr(self, point.attribute, enabled if point.is_scored else [plugin for plugin, _ in enabled])
        judges = (*self.pre_filter, *self.filter, *self.pre_score, *(plugin for plugin, _ in self.score))
        self.judges = list({plugin.name: plugin for plugin in judges}.values())
        # Asked of the class, which is remembered: to ask an instance takes a quarter of the time of a fork.
        self.by_kind = {each.name: each.plugin for each in self.judges if issubclass(type(each.plugin), JudgesKinds)}
        self.told_of_failures = [plugin for plugin in self.plugins.values() if plugin.after_failure is not None]

    def without(self, plugin: str, *points: str) -> Profile:
        """Return the profile without this plugin at these points."""
        left = {point: [entry for entry in self.points[point] if entry[0] != plugin] for point in points}
        return replace(self, points={**self.points, **left})

    # ---- pre-filter --------------------------------------------------------------------------------------------

    def run_pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> PreFilterOutcome:
        """Run all; an unresolvable rejection ends the round, a resolvable one does not (the last one counts)."""
        refused: Status | None = None
        names: frozenset[str] | None = None
        narrowing: set[str] = set()
        timer, skips = state.timer, state.skip_filter
        settled: Settled | None = None if timer or state.asks_all else self._pre_filter_settled.get(pod.shape.id)
        if settled is not None:
            skips.update(settled.skips)
        for_template: list[str] = []
        for plugin in self.pre_filter if settled is None else settled.others:
            method = plugin.pre_filter
            try:
                answer = (
                    timer(plugin.name, _PRE_FILTER, method, state, pod, nodes) if timer else method(state, pod, nodes)
                )
            except CycleError:
                raise
            except Exception as error:
                raise broken(plugin.name, _PRE_FILTER, method, error) from error
            if answer is SKIP:  # the usual answers
                skips.add(plugin.name)
                continue
            if answer is SUCCESS:
                continue
            if answer is SKIP_FOR_TEMPLATE or answer is SUCCESS_FOR_TEMPLATE:
                for_template.append(plugin.name)
            if isinstance(answer, PreFilterResult):
                narrowing.add(plugin.name)
                names = answer.node_names if names is None else names & answer.node_names
                if not names:
                    left = _nothing_left(narrowing)
                    return PreFilterOutcome(left, None, frozenset(narrowing), self._asked(state, plugin))
                continue
            if answer.code is Code.SUCCESS:
                continue
            if answer.code is Code.SKIP:
                state.skip_filter.add(plugin.name)
            elif answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                signed = answer.by(plugin.name)
                return PreFilterOutcome(signed, None, frozenset((signed.plugin,)), self._asked(state, plugin))
            elif answer.is_rejected:
                refused = answer.by(plugin.name)
            else:
                raise CycleError(Status.error(_PRE_FILTER.format(plugin.name, answer.message)))
        if for_template:
            _settle(self._pre_filter_settled, pod.shape, self.pre_filter, for_template, skips)
        if refused is not None:
            return PreFilterOutcome(refused, None, frozenset((refused.plugin,)))
        return PreFilterOutcome(SUCCESS, names, frozenset(narrowing))

    def _asked(self, state: CycleState, last: ResolvedPlugin) -> Sequence[ResolvedPlugin]:
        """Return the pre-filters up to this one that did not skip; equal results are the same list."""
        names = [plugin.name for plugin in self.pre_filter]
        return self._filter_plan(frozenset(state.skip_filter).union(names[names.index(last.name) + 1 :])).asked

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Pass a hypothetically added pod to every pre-filter that counts pods."""
        for plugin in self.pre_filter:
            if plugin.add_pod is not None and plugin.name not in state.skip_filter:
                _tell(plugin.name, "AddPod", plugin.add_pod, state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        for plugin in self.pre_filter:
            if plugin.remove_pod is not None and plugin.name not in state.skip_filter:
                _tell(plugin.name, "RemovePod", plugin.remove_pod, state, pod, removed, node)

    def active_filters(self, state: CycleState) -> Sequence[ResolvedPlugin]:
        return self.filter_plan(state).active

    def filter_plan(self, state: CycleState) -> FilterPlan:
        """Return the filters that this attempt runs; the same few sets of skips recur."""
        return self._filter_plan(frozenset(state.skip_filter))

    def _filter_plan(self, key: frozenset[str]) -> FilterPlan:
        plan = self._filter_plans.get(key)
        if plan is None:
            active = [plugin for plugin in self.filter if plugin.name not in key]
            asked = [plugin for plugin in self.pre_filter if plugin.name not in key]
            plan = self._filter_plans[key] = FilterPlan(active, asked)
        return plan

    def score_plan(self, state: CycleState) -> ScorePlan:
        key = frozenset(state.skip_score)
        plan = self._score_plans.get(key)
        if plan is None:
            active = [(plugin, weight) for plugin, weight in self.score if plugin.name not in key]
            asked = [plugin for plugin in self.pre_score if plugin.name not in key]
            plan = self._score_plans[key] = ScorePlan(active, asked)
        return plan

    # ---- filter ------------------------------------------------------------------------------------------------

    def run_filters(
        self, state: CycleState, pod: PodInfo, nodes: NodeRows, plugins: Iterable[ResolvedPlugin] | None = None
    ) -> FilterOutcome:
        """Judge rows, actual or hypothetical, without any cache; later plugins run only if a node is left."""
        outcome = FilterOutcome([], np.ones(len(nodes), np.bool_))
        state.check_time()
        for plugin in self.active_filters(state) if plugins is None else plugins:
            if not outcome.feasible.any():
                break
            verdict = judge(plugin, state, pod, nodes, lambda: outcome.feasible)
            if verdict is not None:
                outcome.verdicts.append((plugin.name, verdict))
                outcome.feasible &= verdict.passes()
        return outcome

    # ---- the rest ----------------------------------------------------------------------------------------------

    def run_pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows, kinds: NodeRows | None = None) -> None:
        """Ask all about the feasible nodes; those that judge kinds of nodes about ``kinds``, if it is given."""
        timer = state.timer
        settled: Settled | None = None if timer or state.asks_all else self._pre_score_settled.get(pod.shape.id)
        if settled is not None:
            state.skip_score.update(settled.skips)
        for_template: list[str] = []
        for plugin in self.pre_score if settled is None else settled.others:
            method = plugin.pre_score
            rows = nodes if kinds is None or plugin.name not in self.by_kind else kinds
            try:
                status = timer(plugin.name, _PRE_SCORE, method, state, pod, rows) if timer else method(state, pod, rows)
            except CycleError:
                raise
            except Exception as error:
                raise broken(plugin.name, _PRE_SCORE, method, error) from error
            if status is SKIP_FOR_TEMPLATE or status is SUCCESS_FOR_TEMPLATE:
                for_template.append(plugin.name)
            if status is SKIP or status.code is Code.SKIP:
                state.skip_score.add(plugin.name)
            elif status is not SUCCESS and status.code is not Code.SUCCESS:
                raise CycleError(Status.error(_PRE_SCORE.format(plugin.name, status.message)))
        if for_template:
            _settle(self._pre_score_settled, pod.shape, self.pre_score, for_template, state.skip_score)

    def run_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Run Reserve in order; return the first failure (the caller then calls ``run_unreserve``)."""
        timer, text = state.timer, 'running Reserve plugin "{}": {}'
        for plugin in self.reserve:
            if timer is None:
                try:
                    status = plugin.reserve(state, pod, node_name)
                except CycleError:
                    raise
                except Exception as error:
                    raise broken(plugin.name, text, plugin.reserve, error) from error
            else:
                status = timer(plugin.name, text, plugin.reserve, state, pod, node_name)
            if status is SUCCESS:
                continue
            if status.is_rejected:
                return status.by(plugin.name)
            if not status.is_success:
                return Status(Code.ERROR, (f'running Reserve plugin "{plugin.name}": {status.message}',), plugin.name)
        return SUCCESS

    def run_unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> list[Status]:
        """Undo all reservations, the last first; return errors of plugins, with their names."""
        problems = []
        call = state.timer or guarded
        for plugin in reversed(self.reserve):
            try:
                call(plugin.name, "{1}", plugin.unreserve, state, pod, node_name)
            except CycleError as error:
                problems.append(error.status)
        return problems


def _settle(
    settled: dict[int, Settled],
    shape: PodShape,
    plugins: Iterable[ResolvedPlugin],
    names: Sequence[str],
    skips: set[str],
) -> None:
    """Store that those of the plugins with these names answered for the template."""
    if len(settled) >= MAX_SETTLED:
        settled.clear()
    others = [plugin for plugin in plugins if plugin.name not in names]
    settled[shape.id] = Settled(frozenset(skips.intersection(names)), others)


def judge(
    plugin: ResolvedPlugin,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeRows,
    in_running: Callable[[], NDArray[np.bool_]] | None = None,
) -> Verdict | None:
    """Run one filter on rows; a failure on a node that earlier filters passed (None: all) fails the attempt."""
    text = 'running "{}" filter plugin: {}'
    call = state.timer or guarded
    if plugin.traits.per_node:  # only nodes that earlier filters passed
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
    for number in numbers_in(relevant):
        status = verdict.status_of(number)
        if not status.is_rejected:
            raise CycleError(Status.error(text.format(plugin.name, status.message)))
    return verdict


def run_pre_enqueue(plugins: Iterable[ResolvedPlugin], pod: Pod, timer: PluginTimer | None = None) -> Status:
    """Run PreEnqueue plugins in order; the first that does not succeed holds the pod back."""
    text = 'running PreEnqueue plugin "{}": {}'
    for plugin in plugins:
        try:
            if timer is None:
                status = plugin.pre_enqueue(pod)
            else:
                status = timer(plugin.name, text, plugin.pre_enqueue, pod)
        except CycleError as error:
            return error.status
        except Exception as error:
            return broken(plugin.name, text, plugin.pre_enqueue, error).status
        if status is not SUCCESS and not status.is_success:
            return status.by(plugin.name)
    return SUCCESS


def _tell(name: str, point: str, method: Callable[..., Status], *arguments: Any) -> None:
    text = f'running {point} on PreFilter plugin "{{}}": {{}}'
    status = guarded(name, text, method, *arguments)
    if not status.is_success:
        raise CycleError(Status.error(text.format(name, status.message)))


def _nothing_left(plugins: set[str]) -> Status:
    names = sorted(plugins)
    if len(names) == 1:
        return Status.unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")
