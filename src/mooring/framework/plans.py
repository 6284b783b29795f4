"""Which of a profile's plugins an attempt asks: those that did not skip it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import call

from mooring.framework.resolved import ResolvedPlugin
from mooring.framework.traits import Reads
from mooring.state.pod_info import PodInfo

Template = tuple[int, object]
"""What pods of one template have in common to the kept plugins of one plan."""


class FilterPlan:
    """The filters of an attempt. A plan is compared by identity: its profile makes one for each set of skips."""

    __slots__ = (
        "_tokens", "active", "asked", "cached", "is_local", "others", "places", "reads_figures_only", "uses_volumes",
    )  # fmt: skip

    def __init__(self, active: Sequence[ResolvedPlugin], asked: Sequence[ResolvedPlugin]) -> None:
        self.active = active
        self.asked = asked  # the pre-filters that did not skip
        self.cached = [plugin for plugin in active if _is_kept(plugin, plugin.traits.filter_reads)]
        self.others = [plugin for plugin in active if plugin not in self.cached]
        # All filters in their order, each with its place among the kept ones if it is one of them.
        self.places = [(plugin, self.cached.index(plugin) if plugin in self.cached else None) for plugin in active]
        self._tokens = [plugin.cache_token for plugin in self.cached if plugin.cache_token is not None]
        self.uses_volumes = any(plugin.traits.uses_volumes for plugin in self.cached)
        # Whether what happens on one node cannot matter to another: many nodes can then be tried at once.
        self.is_local = all(plugin.traits.filter_reads <= Reads.LOCAL for plugin in active)
        # Whether the kept filters read nothing of a node's pods but how much of the node they take.
        self.reads_figures_only = all(plugin.traits.filter_reads <= Reads.RESOURCES for plugin in self.cached)

    def template(self, pod: PodInfo) -> Template:
        """What the kept filters know a pod by."""
        return pod.shape.id if self.uses_volumes else pod.shape.placement_id, self

    def keeps_all(self, pod: PodInfo) -> bool:
        """Report whether every filter that can refuse this pod a node is kept. NodeName refuses only named nodes."""
        return all(plugin.concerns is not None and not plugin.concerns(pod) for plugin in self.others)

    def token(self) -> Hashable:
        """What the kept filters' verdicts depend on besides the pod and the row, as it is now."""
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
