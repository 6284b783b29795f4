"""A lower bound for the price of new nodes: the same problem without most of its rules.

Pods may be split, and the free room on existing nodes that treat the pods alike counts as one large node. What remains
are the requests, how many copies of a pod fit on one node, which nodes a pod may use at all, prices and limits, and the
certain part of spreading. Numbers of new nodes stay whole. Every real plan is also a plan of this problem, so none can
be cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import TopologySpreadConstraint
from mooring.api.errors import ParseError
from mooring.api.selectors import Selector, compile_selector
from mooring.api.well_known import HOSTNAME
from mooring.ask.wanted import Variant
from mooring.core.framework.cycle_state import CycleError, CycleState
from mooring.core.session import Session
from mooring.core.state.pod_info import PodInfo

# --------------------------------------------------------------------------------------------------------------------
# Spreading in the relaxed problem: in the end no domain has too many more pods than the emptiest.
#
# Only what certainly holds is kept, so that the bound stays valid: hard constraints of a key that several nodes share,
# whose selector matches the pods of only one group. A pod or a node that may or may not count is counted in the way
# that forbids less.

_PLUGIN = "PodTopologySpread"


@dataclass(frozen=True, slots=True)
class SpreadDomain:
    """One value of the key."""

    rows: NDArray[np.bool_]  # [node]
    at_least: int  # matching pods that certainly exist now
    at_most: int  # … and those that may not count
    is_counted: bool  # whether it certainly takes part in finding the emptiest


@dataclass(frozen=True, slots=True)
class Spread:
    """A constraint of one group."""

    group: int
    key: str
    max_skew: int
    domains: list[SpreadDomain]


def spreads(
    session: Session, groups: Sequence[list[PodInfo]], allowed: NDArray[np.bool_], old: NDArray[np.int64]
) -> Iterator[Spread]:
    """The constraints that the relaxed problem keeps. ``allowed`` is [group, node], ``old`` rows are existing nodes."""
    for i, group in enumerate(groups):
        pod = group[0]
        if _PLUGIN not in {plugin.name for plugin in session.profile_for(pod.pod).filter}:
            continue
        hard = [c for c in pod.shape.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]
        for constraint in hard:
            selector = _selector(constraint)
            if selector is None or constraint.topology_key == HOSTNAME:
                continue
            matching = [j for j, other in enumerate(groups) if _matches(selector, pod, other[0])]
            if matching == [i]:
                yield _spread(session, i, pod, constraint, selector, [c.topology_key for c in hard], allowed[i], old)


def _selector(constraint: TopologySpreadConstraint) -> Selector | None:
    try:
        return None if constraint.match_label_keys else compile_selector(constraint.label_selector)
    except ParseError:
        return None


def _matches(selector: Selector, pod: PodInfo, other: PodInfo) -> bool:
    return other.cls.namespace == pod.cls.namespace and selector.matches(other.cls.labels)


def _spread(
    session: Session,
    group: int,
    pod: PodInfo,
    constraint: TopologySpreadConstraint,
    selector: Selector,
    keys: Sequence[str],
    allowed: NDArray[np.bool_],
    old: NDArray[np.int64],
) -> Spread:
    rows = session.state.nodes()
    column = session.state.table.label(constraint.topology_key)
    is_old = np.zeros(len(rows), np.bool_)
    is_old[old] = True
    eligible = allowed & is_old
    for key in keys:
        eligible &= session.state.table.label(key).ids >= 0
    certain = np.zeros(len(rows), np.int64)
    possible = np.zeros(len(rows), np.int64)
    for row, info in enumerate(rows.infos):
        mine = [each for each in info.pods.values() if _matches(selector, pod, each)]
        possible[row] = len(mine)
        certain[row] = sum(not each.pod.is_terminating for each in mine) if eligible[row] else 0
    domains = []
    for value in np.unique(column.ids[column.ids >= 0]).tolist():
        members = column.ids == value
        at_least, at_most = int(certain[members].sum()), int(possible[members].sum())
        domains.append(SpreadDomain(members, at_least, at_most, bool((members & eligible).any())))
    return Spread(group, constraint.topology_key, constraint.max_skew, domains)


INSTALL = "pip install 'mooring[plan]'"
TIME_LIMIT_S = 20.0
_FIT = "NodeResourcesFit"
Amounts = NDArray[np.float64]


class Offer(NamedTuple):
    """An offered kind of node: all that the relaxed problem reads of a Variant."""

    type: str
    price: float
    max: int | None  # number available


@dataclass(frozen=True, slots=True)
class LowerBound:
    """No plan costs less. ``nodes`` is the plan of the relaxed problem: a good start, if there is one."""

    cost: float
    nodes: list[int] | None
    is_solved: bool  # by a solver; otherwise it is a rough bound
    is_possible: bool = True


@dataclass(frozen=True, slots=True)
class LinearProblem:
    """Groups of equal pods, old room by what may use it, and new nodes. Resources include the number of pods."""

    counts: NDArray[np.int64]  # [group]
    wanted: Amounts  # [group, resource]
    room: Amounts  # [class, resource]: free on old nodes that let the same groups in
    room_for: NDArray[np.int64]  # [group, class]: how many copies fit if the group is alone
    size: Amounts  # [variant, resource]: free on a new node
    fits: NDArray[np.int64]  # [group, variant]: how many copies one new node takes
    spreads: list[Spread]
    classes: list[NDArray[np.int64]]  # the rows of each class of old nodes
    new: NDArray[np.int64]  # the row of each variant


def problem(session: Session, groups: Sequence[list[PodInfo]], variants: Sequence[Variant]) -> LinearProblem:
    """Build the problem from a cluster to which one node of each variant has been added."""
    rows = session.state.nodes()
    new = np.array([session.state.table.nodes[variant.named(0).name].row for variant in variants], np.int64)
    old = np.setdiff1d(np.arange(len(rows)), new)
    asked = sorted({name for group in groups for name, amount in group[0].shape.requests.items() if amount})
    names = [name for name in asked if rows.allocatable(name).any()]  # what no node counts comes from devices
    free = np.stack(
        [*(rows.allocatable(name) - rows.requested(name) for name in names), rows.allowed_pods - rows.pod_count], axis=1
    ).clip(min=0)
    wanted = np.array([[group[0].shape.requests.get(name, 0) for name in names] + [1] for group in groups], np.int64)
    allowed = np.stack([however_full(session, group[0]) for group in groups])  # [group, node]
    copies = _copies(free, wanted) * allowed
    for i, group in enumerate(groups):
        if group[0].shape.host_ports:
            copies[i] = copies[i].clip(max=1)
    kept = list(spreads(session, groups, allowed, old))
    domains = [session.state.table.label(spread.key).ids[old] for spread in kept]
    _, classes = np.unique(np.stack([*allowed[:, old], *domains]), axis=1, return_inverse=True)
    classes = classes.reshape(-1)  # its shape differs from one NumPy to the next
    kinds = [old[classes == kind] for kind in np.unique(classes)]
    return LinearProblem(
        counts=np.array([len(group) for group in groups], np.int64),
        wanted=wanted.astype(np.float64),
        room=np.array([free[members].sum(axis=0) for members in kinds], np.float64).reshape(-1, len(names) + 1),
        room_for=np.array([copies[:, members].sum(axis=1) for members in kinds], np.int64).reshape(-1, len(groups)).T,
        size=free[new].astype(np.float64),
        fits=copies[:, new],
        spreads=kept,
        classes=kinds,
        new=new,
    )


def _copies(free: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, by group and node, how many copies the free room takes."""
    most = np.full((len(wanted), len(free)), np.iinfo(np.int64).max)
    for i, asks in enumerate(wanted):
        for k in np.flatnonzero(asks):
            most[i] = np.minimum(most[i], free[:, k] // asks[k])
    return most


def however_full(session: Session, pod: PodInfo) -> NDArray[np.bool_]:
    """Return, by node, whether filters of single nodes accept the pod, however full the node is."""
    rows, state = session.state.nodes(), CycleState()
    profile = session.profile_for(pod.pod)
    try:
        pre = profile.run_pre_filter(state, pod, rows)
        if not pre.status.is_success:
            return np.ones(len(rows), np.bool_)  # other pods may change that: leave the rule out
        kept = [plugin for plugin in profile.filter_plan(state).cached if plugin.name != _FIT]
        found = profile.run_filters(state, pod, rows, kept).feasible
    except CycleError:
        return np.ones(len(rows), np.bool_)
    if pre.node_names is not None:
        found &= np.array([info.name in pre.node_names for info in rows.infos], np.bool_)
    return found


def lower_bound(given: LinearProblem, variants: Sequence[Variant | Offer]) -> LowerBound:
    """Return the bound of a solver, or a rough one without a solver."""
    try:
        import highspy
    except ImportError:
        return LowerBound(_rough(given, variants), None, is_solved=False)
    return _solve(highspy, given, variants)


def _rough(given: LinearProblem, variants: Sequence[Variant | Offer]) -> float:
    """Return the largest price of a single resource's shortage, at its best price."""
    missing = given.counts @ given.wanted - given.room.sum(axis=0)
    bounds = [0.0]
    for k in np.flatnonzero(missing > 0):
        offers = [v.price / given.size[j, k] for j, v in enumerate(variants) if given.size[j, k] and v.max != 0]
        bounds.append(float(missing[k]) * min(offers, default=0.0))
    return max(bounds)


def _solve(highspy: Any, given: LinearProblem, variants: Sequence[Variant | Offer]) -> LowerBound:
    num_groups, num_new, num_old = len(given.counts), len(variants), len(given.room)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", TIME_LIMIT_S)
    for j, variant in enumerate(variants):  # the first columns: how many nodes of each variant
        most = int(given.counts.sum()) if variant.max is None else variant.max
        solver.addVar(0, most)
        solver.changeColCost(j, variant.price)
        solver.changeColIntegrality(j, highspy.HighsVarType.kInteger)
    on_new = np.zeros((num_groups, num_new), np.int32)  # then: pods of a group on new nodes, and on old ones
    on_old = np.zeros((num_groups, num_old), np.int32)
    column = num_new
    for i in range(num_groups):
        for j in range(num_new):
            on_new[i, j], column = column, column + 1
            solver.addVar(0, float(given.counts[i]) if given.fits[i, j] else 0)
        for c in range(num_old):
            on_old[i, c], column = column, column + 1
            solver.addVar(0, float(min(given.counts[i], given.room_for[i, c])))

    def row(low: float, high: float, columns: Sequence[int], factors: Sequence[float]) -> None:
        if columns:
            solver.addRow(low, high, len(columns), np.array(columns, np.int32), np.array(factors, np.float64))

    for i, count in enumerate(given.counts.tolist()):
        row(count, count, [*on_new[i], *on_old[i]], [1.0] * (num_new + num_old))
    for k in range(given.wanted.shape[1]):
        asks = given.wanted[:, k]
        scale = max(1.0, float(given.size[:, k].max(initial=0)))  # bytes beside thousandths trouble a solver
        for j in range(num_new):
            row(-highspy.kHighsInf, 0, [j, *on_new[:, j]], [-given.size[j, k] / scale, *(asks / scale)])
        for c in range(num_old):
            row(-highspy.kHighsInf, float(given.room[c, k]) / scale, on_old[:, c].tolist(), (asks / scale).tolist())
    for i in range(num_groups):
        for j in range(num_new):
            if given.fits[i, j]:
                row(-highspy.kHighsInf, 0, [j, on_new[i, j]], [-float(min(given.fits[i, j], given.counts[i])), 1.0])
    for spread in given.spreads:
        _add_spread(solver, highspy, given, spread, on_new[spread.group], on_old[spread.group], row)
    for name in {variant.type for variant in variants if variant.max is not None}:
        mine = [j for j, variant in enumerate(variants) if variant.type == name]
        row(-highspy.kHighsInf, float(variants[mine[0]].max or 0), mine, [1.0] * len(mine))
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return LowerBound(0.0, None, is_solved=True, is_possible=False)
    info = solver.getInfo()
    cost = round(max(0.0, float(info.mip_dual_bound) - 1e-7), 6) if np.isfinite(info.mip_dual_bound) else 0.0
    values = solver.getSolution().col_value
    nodes = [round(values[j]) for j in range(num_new)] if info.primal_solution_status == 2 else None
    return LowerBound(cost, nodes, is_solved=True)


def _add_spread(
    solver: Any,
    highspy: Any,
    given: LinearProblem,
    spread: Spread,
    on_new: NDArray[np.int32],
    on_old: NDArray[np.int32],
    row: Callable[[float, float, Sequence[int], Sequence[float]], None],
) -> None:
    """Limit each domain to the emptiest one's pods plus the skew. A column is the emptiest one's number."""
    counted = [domain for domain in spread.domains if domain.is_counted]
    if not counted:
        return
    emptiest = solver.getNumCol()
    solver.addVar(0, highspy.kHighsInf)
    lowest = min(domain.at_least for domain in counted)
    for domain in spread.domains:
        columns = [int(on_new[j]) for j, at in enumerate(given.new) if domain.rows[at]]
        columns += [int(on_old[c]) for c, members in enumerate(given.classes) if domain.rows[members[0]]]
        ones = [1.0] * len(columns)
        if domain.at_most <= lowest + spread.max_skew:  # otherwise it has too many already, and may keep them
            row(-highspy.kHighsInf, spread.max_skew - domain.at_least, [*columns, emptiest], [*ones, -1.0])
        if domain.is_counted:
            row(-domain.at_most, highspy.kHighsInf, [*columns, emptiest], [*ones, -1.0])
