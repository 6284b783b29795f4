"""Why two schedulers send a pod to different nodes of the same cluster: the plugin that tipped it, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.explanation.decision import Decision
from mooring.explanation.tables import Refusal


@dataclass(frozen=True, slots=True)
class Cause:
    """What made the difference. ``plugin`` is empty where no plugin did, such as for moves that follow from others."""

    text: str
    plugin: str = ""
    follows: bool = False  # from moves of other pods before it


FOLLOWS = Cause("other pods went elsewhere before it; in the same cluster it would not move", follows=True)


def cause_of(before: Decision, after: Decision) -> Cause:
    """Compare two decisions about one pod in the same cluster."""
    here, there = goal_of(before), goal_of(after)
    refusal = _refusal(after, here)
    if refusal is not None and _refusal(before, here) is None:
        return Cause(f"{refusal.plugin} refuses {here}: {', '.join(refusal.reasons)}", refusal.plugin)
    refusal = _refusal(before, there)
    if refusal is not None and _refusal(after, there) is None:
        return Cause(f"{refusal.plugin} no longer refuses {there}: {', '.join(refusal.reasons)}", refusal.plugin)
    if here is None or there is None:
        return Cause((after if there is None else before).message)
    if before.victims or after.victims:
        return Cause("other victims are chosen", "DefaultPreemption")
    return _by_scores(before, after, here, there)


def goal_of(decision: Decision) -> str | None:
    """The node that a pod goes to, at once or after its victims are gone."""
    return decision.node or decision.nominated_node or None


def _refusal(decision: Decision, node: str | None) -> Refusal | None:
    return next((each for each in decision.refusals if node in each.nodes), None)


def _by_scores(before: Decision, after: Decision, here: str, there: str) -> Cause:
    """The plugin whose scores moved most in favour of the new node."""
    old = {share.node: share.shares for share in before.scores}
    new = {share.node: share.shares for share in after.scores}
    plugins = list(dict.fromkeys([*_plugins(new), *_plugins(old)]))
    if not plugins or not all(name in table for table in (old, new) for name in (here, there)):
        return Cause("not every node was looked at (percentageOfNodesToScore)")

    def of(table: dict[str, dict[str, int]], plugin: str) -> tuple[int, int]:
        return table[there].get(plugin, 0), table[here].get(plugin, 0)

    def shift(plugin: str) -> int:
        (now_there, now_here), (was_there, was_here) = of(new, plugin), of(old, plugin)
        return (now_there - now_here) - (was_there - was_here)

    tipped = max(plugins, key=shift)
    (now_there, now_here), (was_there, was_here) = of(new, tipped), of(old, tipped)
    text = f"{tipped} gives {there} {now_there} and {here} {now_here}; before, {was_there} and {was_here}"
    return Cause(text, tipped)


def _plugins(table: dict[str, dict[str, int]]) -> list[str]:
    return list(next(iter(table.values()))) if table else []
