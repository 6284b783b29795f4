"""Why two schedulers send a pod to different nodes of the same cluster: the plugin that tipped it, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.compare.sides import goal
from mooring.engine.decision import Decision
from mooring.framework.status import Status


@dataclass(frozen=True, slots=True)
class Cause:
    """What made the difference. ``plugin`` is empty where no plugin did, such as for moves that follow from others."""

    text: str
    plugin: str = ""
    follows: bool = False  # from moves of other pods before it


FOLLOWS = Cause("other pods went elsewhere before it; in the same cluster it would not move", follows=True)


def cause_of(before: Decision, after: Decision) -> Cause:
    """Compare two decisions about one pod in the same cluster, before it changes: decisions read its columns."""
    here, there = goal(before), goal(after)
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


def tipped(decision: Decision, other: str) -> Cause:
    """Why a decision prefers its node to another one: the plugin that refuses the other, or gives it the least."""
    here = goal(decision)
    refusal = _refusal(decision, other)
    if refusal is not None:
        return Cause(f"{refusal.plugin} refuses {other}: {', '.join(refusal.reasons)}", refusal.plugin)
    if here is None:
        return Cause(decision.message, ", ".join(sorted(decision.unschedulable_plugins)))
    mine, others = _shares(decision, here), _shares(decision, other)
    if not mine or others is None:
        return Cause(f"{other} was not scored")
    plugin = max(mine, key=lambda name: mine[name] - others.get(name, 0))
    return Cause(f"{plugin} gives {here} {mine[plugin]} and {other} {others.get(plugin, 0)}", plugin)


def total_of(decision: Decision, node: str) -> int | None:
    """The total of a node; None if it was not scored."""
    if decision.scores is None:
        return None
    names = decision.scores.names
    return int(decision.scores.totals[names.index(node)]) if node in names else None


def _refusal(decision: Decision, node: str | None) -> Status | None:
    """Why a node was refused; None if it was not."""
    if node is None or decision.statuses is None:
        return None
    status = decision.statuses.get(node)
    if status.is_success:
        return None
    return status if status.plugin else status.by(", ".join(sorted(decision.unschedulable_plugins)))


def _by_scores(before: Decision, after: Decision, here: str, there: str) -> Cause:
    """The plugin whose scores moved most in favour of the new node."""
    old_here, old_there, new_here, new_there = (
        _shares(decision, node) for decision in (before, after) for node in (here, there)
    )
    if old_here is None or old_there is None or new_here is None or new_there is None or not (new_here or old_here):
        return Cause("not every node was looked at (percentageOfNodesToScore)")
    plugins = list(dict.fromkeys([*new_here, *old_here]))

    def gains(plugin: str) -> int:
        now = new_there.get(plugin, 0) - new_here.get(plugin, 0)
        return now - (old_there.get(plugin, 0) - old_here.get(plugin, 0))

    tipped = max(plugins, key=gains)
    now = f"{there} {new_there.get(tipped, 0)} and {here} {new_here.get(tipped, 0)}"
    was = f"{old_there.get(tipped, 0)} and {old_here.get(tipped, 0)}"
    return Cause(f"{tipped} gives {now}; before, {was}", tipped)


def _shares(decision: Decision, node: str) -> dict[str, int] | None:
    """What each plugin gives a node; None if it was not scored."""
    table = decision.scores
    if table is None:
        return None
    position = next((i for i, info in enumerate(table.nodes.infos) if info.name == node), None)
    return None if position is None else {name: int(column[position]) for name, column in table.by_plugin.items()}
