"""A plugin as mooring calls it: what it declares and which methods it has, looked up once when a profile is built."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NoReturn

from mooring.api.core import Pod
from mooring.errors import PluginError
from mooring.framework.cluster_event import EventRegistration
from mooring.framework.cycle_state import CycleState
from mooring.framework.extension_points import METHODS, points_of
from mooring.framework.interfaces import PreFilterResult, PreFlight, Scores
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.per_node import PerNodePlugin, in_columns
from mooring.framework.pod_groups import (
    PlacedGroup,
    Placement,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
    Tried,
)
from mooring.framework.post_filter_result import PostFilterResult
from mooring.framework.remedies import Change, Remedy
from mooring.framework.status import Status
from mooring.framework.traits import DEFAULT_TRAITS, Traits
from mooring.framework.verdict import Verdict
from mooring.state.node_info import NodeInfo
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo


@dataclass(slots=True, eq=False, repr=False)
class ResolvedPlugin:
    """One plugin of one profile. Its fields are the methods of the table in ``extension_points``.

    The methods of its points are there. An optional method that the class does not have is None. A method of a point
    that the class does not implement raises; a profile lists plugins by point, so nobody calls it.
    """

    plugin: Any  # what the author's class made
    name: str
    traits: Traits
    points: frozenset[str]

    pre_enqueue: Callable[[Pod], Status]
    sort_key: Callable[[int, float], Any]
    pre_filter: Callable[[CycleState, PodInfo, NodeRows], Status | PreFilterResult]
    filter: Callable[[CycleState, PodInfo, NodeRows], Verdict | None]
    post_filter: Callable[[CycleState, PodInfo, NodeRows, NodeStatuses], PostFilterResult]
    pre_score: Callable[[CycleState, PodInfo, NodeRows], Status]
    score: Callable[[CycleState, PodInfo, NodeRows], Scores | None]
    reserve: Callable[[CycleState, PodInfo, str], Status]
    unreserve: Callable[[CycleState, PodInfo, str], None]
    permit: Callable[[CycleState, PodInfo, str], tuple[Status, float]]
    pre_bind: Callable[[CycleState, PodInfo, str], Coroutine[Any, Any, Status]]
    bind: Callable[[CycleState, PodInfo, str], Coroutine[Any, Any, Status]]
    post_bind: Callable[[CycleState, PodInfo, str], None]
    generate_placements: Callable[[PodGroupInfo, NodeRows], Sequence[Placement]]
    score_placement: Callable[[PodGroupInfo, PlacedGroup], int]
    pod_group_post_filter: Callable[[PodGroupInfo, Sequence[Tried]], PodGroupPostFilterResult]

    add_pod: Callable[[CycleState, PodInfo, PodInfo, NodeInfo], Status] | None
    remove_pod: Callable[[CycleState, PodInfo, PodInfo, NodeInfo], Status] | None
    concerns: Callable[[PodInfo], bool] | None
    normalize: Callable[[CycleState, PodInfo, Scores, NodeRows], Scores] | None
    pre_bind_pre_flight: Callable[[CycleState, PodInfo, str], PreFlight] | None
    events_to_register: Callable[[], Sequence[EventRegistration]] | None
    cache_token: Callable[[], Hashable] | None
    sign: Callable[[PodInfo], Hashable] | None
    after_failure: Callable[[CycleState, PodInfo], Coroutine[Any, Any, None] | None] | None
    normalize_placements: Callable[[PodGroupInfo, Sequence[int]], Sequence[int]] | None
    placement_feasible: Callable[[PodGroupInfo, Progress], Status] | None
    facts: Callable[[CycleState, PodInfo, NodeRows], Iterable[str]] | None
    remedies: Callable[[CycleState, PodInfo, NodeRows], Iterable[Change | Remedy]] | None

    def __repr__(self) -> str:
        return f"ResolvedPlugin({self.name} at {', '.join(sorted(self.points))})"

    @property
    def can_sign(self) -> bool:
        """Report whether the plugin can say for some pods what makes them equal to it."""
        return self.sign is not None and self.traits.signs

    def wrap(self, method: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Call a method through something from now on, if the plugin has it."""
        if METHODS[method].is_optional and getattr(self, method) is None:
            return
        setattr(self, method, around(getattr(self, method)))


def resolve(plugin: Any, points: frozenset[str] | None = None) -> ResolvedPlugin:
    """Look up everything that a plugin declares and defines. Registration checked its class and knows its points."""
    name, traits = plugin.name, traits_of(plugin)
    is_per_node = isinstance(plugin, PerNodePlugin)
    if is_per_node:
        traits = replace(traits, per_node=True)
    calls: dict[str, Any] = {}
    for method in METHODS.values():
        if method.is_class_method:
            continue
        found = getattr(plugin, method.name, None)
        if found is None:
            calls[method.name] = None if method.is_optional else _missing(name, method.name)
        else:
            calls[method.name] = in_columns(method.name, found) if is_per_node else found
    return ResolvedPlugin(plugin, name, traits, points_of(type(plugin)) if points is None else points, **calls)


def traits_of(plugin: object) -> Traits:
    """What a plugin, or its class, declares; the defaults if it declares nothing."""
    traits = getattr(plugin, "traits", DEFAULT_TRAITS)
    if not isinstance(traits, Traits):
        raise PluginError(f"traits is {traits!r}; Traits(…) is expected")
    return traits


@cache
def _missing(plugin: str, method: str) -> Callable[..., NoReturn]:
    def missing(*arguments: Any) -> NoReturn:
        raise PluginError(f"plugin {plugin} has no {method}")

    return missing
