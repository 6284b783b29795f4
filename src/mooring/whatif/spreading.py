"""What the relaxed problem knows of spreading: in the end no domain has too many more pods than the emptiest.

Only what surely holds is kept, so that the bound stays one: constraints that refuse, of a key that several nodes share,
whose selector matches the pods of one group alone among those that need a place. Where it is not certain whether a pod
or a node counts, it is counted in the way that forbids less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import TopologySpreadConstraint
from mooring.api.selectors import Selector, compile_selector
from mooring.api.well_known import HOSTNAME
from mooring.errors import ParseError
from mooring.state.pod_info import PodInfo
from mooring.whatif.placing import Placing

_PLUGIN = "PodTopologySpread"


@dataclass(frozen=True, slots=True)
class SpreadDomain:
    """One value of the key."""

    rows: NDArray[np.bool_]  # [node]
    at_least: int  # matching pods that are there now, for certain
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
    placing: Placing, groups: Sequence[list[PodInfo]], allowed: NDArray[np.bool_], old: NDArray[np.int64]
) -> Iterator[Spread]:
    """The constraints that the relaxed problem keeps. ``allowed`` is [group, node], ``old`` rows are there already."""
    for i, group in enumerate(groups):
        pod = group[0]
        if _PLUGIN not in {plugin.name for plugin in placing.profile_of(pod.pod).filter}:
            continue
        hard = [c for c in pod.shape.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]
        for constraint in hard:
            selector = _selector(constraint)
            if selector is None or constraint.topology_key == HOSTNAME:
                continue
            matching = [j for j, other in enumerate(groups) if _matches(selector, pod, other[0])]
            if matching == [i]:
                yield _spread(placing, i, pod, constraint, selector, [c.topology_key for c in hard], allowed[i], old)


def _selector(constraint: TopologySpreadConstraint) -> Selector | None:
    try:
        return None if constraint.match_label_keys else compile_selector(constraint.label_selector)
    except ParseError:
        return None


def _matches(selector: Selector, pod: PodInfo, other: PodInfo) -> bool:
    return other.cls.namespace == pod.cls.namespace and selector.matches(other.cls.labels)


def _spread(
    placing: Placing,
    group: int,
    pod: PodInfo,
    constraint: TopologySpreadConstraint,
    selector: Selector,
    keys: Sequence[str],
    allowed: NDArray[np.bool_],
    old: NDArray[np.int64],
) -> Spread:
    rows = placing.state.nodes()
    column = placing.state.table.label(constraint.topology_key)
    is_old = np.zeros(len(rows), np.bool_)
    is_old[old] = True
    eligible = allowed & is_old
    for key in keys:
        eligible &= placing.state.table.label(key).ids >= 0
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
