"""Suggestions: changes that were tried and help, and which of them are worth telling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mooring.api.wording import count_of
from mooring.framework.remedies import Remedy

MAX_SUGGESTIONS = 8
ANOTHER_CHANGE = 3.0  # what each change costs that has to be made besides the first


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Changes that together let the pod run, and on which nodes. Every one of them was tried."""

    changes: tuple[str, ...]
    kinds: tuple[str, ...]
    nodes: tuple[str, ...]
    cost: float
    about_node: bool = False  # the change is made on a node, which is then the one that fits
    also: tuple[str, ...] = ()  # other nodes on which the same change helps
    pattern: tuple[str, ...] = ()  # the changes with the node's name left open; empty if none is made on a node

    @staticmethod
    def of(remedy: Remedy, nodes: tuple[str, ...]) -> Suggestion:
        """What a remedy that helps on these nodes is told as."""
        return Suggestion(
            changes=tuple(str(change) for change in remedy),
            kinds=tuple(change.kind for change in remedy),
            nodes=nodes,
            cost=cost_of(remedy),
            about_node=any(change.node or change.removes for change in remedy),
            pattern=pattern_of(remedy) if any(change.node for change in remedy) else (),
        )

    @property
    def text(self) -> str:
        what = " and ".join(self.changes)
        if self.about_node:
            return f"{what} (or {', '.join(self.also)})" if self.also else what
        if all(kind == "request" for kind in self.kinds):
            return f"{what} on {self.nodes[0]}" if len(self.nodes) == 1 else f"{what} on any of {len(self.nodes)} nodes"
        return f"{what}: {count_of(len(self.nodes), 'more node')}"


def cost_of(remedy: Remedy) -> float:
    return sum(change.cost for change in remedy) + ANOTHER_CHANGE * (len(remedy) - 1)


def pattern_of(remedy: Remedy) -> tuple[str, ...]:
    """The changes without the names of the nodes that they are made on."""
    return tuple(change.text for change in remedy)


def best(suggestions: Iterable[Suggestion]) -> list[Suggestion]:
    """The cheapest; the same change on several nodes is one, and none contains a cheaper one."""
    kept: list[Suggestion] = []
    for suggestion in sorted(suggestions, key=lambda each: each.cost):
        if any(set(other.changes) <= set(suggestion.changes) for other in kept):
            continue
        same = next((i for i, other in enumerate(kept) if other.pattern and other.pattern == suggestion.pattern), None)
        if same is None:
            kept.append(suggestion)
        else:
            also = dict.fromkeys((*kept[same].also, *suggestion.nodes))
            kept[same] = replace(kept[same], also=tuple(also))
    return kept[:MAX_SUGGESTIONS]
