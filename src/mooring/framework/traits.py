"""What a plugin declares about itself besides its methods: one ``traits`` per class, checked at registration."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

from mooring.errors import PluginError
from mooring.meant import hint


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
