"""A plugin as mooring calls it: what it declares and which methods it has, looked up once when a profile is built."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from functools import cache
from typing import Any, NoReturn

from mooring.api.core import Pod
from mooring.api.errors import PluginError
from mooring.api.text import hint
from mooring.core.framework.cluster_event import EventRegistration
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.extension_points import METHODS, points_of
from mooring.core.framework.interfaces import PreFilterResult, PreFlight, Scores
from mooring.core.framework.node_statuses import NodeStatuses
from mooring.core.framework.per_node import PerNodePlugin, in_columns
from mooring.core.framework.pod_groups import (
    PlacedGroup,
    Placement,
    PodGroupInfo,
    PodGroupPostFilterResult,
    Progress,
    Tried,
)
from mooring.core.framework.remedies import Change, Remedy
from mooring.core.framework.status import PostFilterResult, Status, Verdict
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import NodeRows
from mooring.core.state.pod_info import PodInfo

# --------------------------------------------------------------------------------------------------------------------
# What a plugin declares about itself besides its methods: one ``traits`` per class, checked at registration.


class Reads(IntEnum):
    """What a node's verdict or score depends on, from least to most. Less is faster: see each line.

    A declaration that is not true shows stale verdicts; when in doubt, declare nothing (CLUSTER). Up to ROW a plugin
    is asked about all nodes, also about those that other plugins refuse: it must not fail on any of them.
    """

    # Up to ROW a verdict's numbers must mean the same for all pods of one template.
    NODE = 0  # the pod's spec and the node object: computed once per template, again only for nodes that change
    RESOURCES = 1  # also how much of the node is taken, and by how many: nodes with equal figures share one answer
    ROW = 2  # also the pods on that node: again only for nodes whose pods changed
    LOCAL = 3  # also other objects (claims, volumes), but no other node's pods: computed anew for every pod
    CLUSTER = 4  # anything, other nodes' pods too: computed anew; hypotheses are tried one node at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What the engine may rely on. The defaults are always right; every other value lets it do less work.

    A class has it as ``traits = Traits(…)``. Where arguments decide, ``__init__`` sets ``self.traits``; it is read
    once, when the profile is built.
    """

    filter_reads: Reads = Reads.CLUSTER
    score_reads: Reads = Reads.CLUSTER
    uses_volumes: bool = True
    """False: answers do not depend on the pod's volumes and claims. Pods that differ only there share answers."""
    per_node: bool = False
    """True: the filter is costly per node. It is asked only about nodes that earlier filters pass; nothing is kept."""
    even_normalize: bool = False
    """True: ``normalize`` turns equal scores into equal scores, and reads nothing but the scores."""
    in_range: bool = False
    """True: the final scores are from 0 to 100 by construction, and nobody has to check."""
    signs: bool = True
    """False: ``sign`` returns None for every pod, so that nobody has to call it."""
    annotations: tuple[str, ...] = ()
    """Names of annotations that it reads. A record keeps their values; those of all others are left out."""

    def __new__(cls, *values: Any, **named: Any) -> Traits:
        known = [each.name for each in fields(cls)]
        for name in named:
            if name not in known:
                raise PluginError(f"Traits has no {name}; {hint(name, known)}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, kind = getattr(self, each.name), type(each.default)
            if kind is tuple:
                if type(value) is not tuple or not all(isinstance(name, str) for name in value):
                    raise PluginError(f"Traits({each.name}={value!r}): a tuple of names is expected")
            elif type(value) is not kind:
                right = "True or False" if kind is bool else ", ".join(f"Reads.{reads.name}" for reads in Reads)
                raise PluginError(f"Traits({each.name}={value!r}): one of {right} is expected")


DEFAULT_TRAITS = Traits()

# How declarations were written before there was ``traits``: the name of the old attribute -> the line to write.
FORMER_DECLARATIONS = {
    "filter_reads": "traits = Traits(filter_reads=Reads.…)",
    "score_reads": "traits = Traits(score_reads=Reads.…)",
    "looks_past_volumes": "traits = Traits(uses_volumes=False)",
    "per_node": "traits = Traits(per_node=True)",
    "normalizes_evenly": "traits = Traits(even_normalize=True)",
    "scores_in_range": "traits = Traits(in_range=True)",
    "never_signs": "traits = Traits(signs=False)",
    "lacks_pre_filter": 'handle.is_enabled_at("preFilter", self.name)',
    "lacks_pre_score": 'handle.is_enabled_at("preScore", self.name)',
    "flush": "after_failure(self, state, pod)",
    "normalize_scores": "normalize(self, state, pod, scores)",
}


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
