"""One of the two compared schedulers, with its own cluster in which it places pods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mooring.api.core import Pod, recreated_pod
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.core.engine.decision import ScheduleResult
from mooring.core.framework.status import Status


class Side:
    """Places pods as its scheduler decides, and carries out preemption: victims are replaced by new pods."""

    def __init__(self, scheduler: Scheduler, base: Cluster, anew: Iterable[Pod]) -> None:
        self.cluster = base.fork()
        for pod in anew:
            self.cluster.remove(pod)
        # Versions differ in how they count pods that are being resized, and the fork counts as its parent does.
        self.cluster.state.count_resizes(whole=scheduler.session.features["ResizesCountWholePods"])
        self.scheduler = unbatched(scheduler.on(self.cluster))
        self.evicted: dict[str, str] = {}  # victim -> preemptor
        self.waits: dict[str, str] = {}  # why each pod is pending

    def decide(self, pod: Pod) -> ScheduleResult:
        return self.scheduler.session.decide(pod, detail=False)

    def settle(self, pod: Pod, decided: ScheduleResult, node: str | None) -> list[Pod]:
        """Bind the pod after evicting its victims; return the pods that replace them."""
        again: list[Pod] = []
        for victim in decided.victims:
            self.cluster.remove(victim.pod)
            self.evicted[victim.pod.key] = pod.key
            if victim.pod.metadata.controller() is not None:
                again.append(recreated_pod(victim.pod))
        if decided.victims:
            decided = self.decide(pod)
            node = decided.node
        if node is None:
            self.waits[pod.key] = decided.message
            return again
        self.waits.pop(pod.key, None)
        self.cluster.bind(pod, node)
        return again

    def node_of(self, key: str) -> str | None:
        pod = self.cluster.find_pod(key)
        return pod.spec.node_name or None if pod is not None else None


def unbatched(scheduler: Scheduler) -> Scheduler:
    """Disable opportunistic batching, which reuses the previous pod's ranking, so that there are no scores."""
    scheduler.session.engine.batching.is_enabled = False
    return scheduler


def goal(decided: ScheduleResult) -> str | None:
    """Return the pod's node, immediate or after its victims are gone."""
    return decided.node or decided.nominated_node or None


def is_as_good(decided: ScheduleResult, node: str | None) -> bool:
    """Report whether a node also has the highest total: the choice among such nodes is arbitrary."""
    if node is None or decided.scores is None:
        return False
    totals = decided.scores.totals
    best = np.flatnonzero(totals == totals.max())
    infos = decided.scores.nodes.infos
    return any(infos[int(i)].name == node for i in best)


# --------------------------------------------------------------------------------------------------------------------
# The cause of a difference: the plugin that tipped it, in one sentence.


@dataclass(frozen=True, slots=True)
class DifferenceCause:
    """Cause of a difference. ``plugin`` is empty where no plugin caused it, such as for moves that follow others."""

    text: str
    plugin: str = ""
    follows: bool = False  # caused by earlier moves of other pods
    changes: tuple[str, ...] = ()  # between two versions: without any of these it would not move


FOLLOWS = DifferenceCause("other pods went elsewhere before it; in the same cluster it would not move", follows=True)


def cause_of(before: ScheduleResult, after: ScheduleResult) -> DifferenceCause:
    """Compare two decisions about one pod in the same cluster, before it changes: decisions read its columns."""
    here, there = goal(before), goal(after)
    refusal = _refusal(after, here)
    if refusal is not None and _refusal(before, here) is None:
        return DifferenceCause(f"{refusal.plugin} refuses {here}: {', '.join(refusal.reasons)}", refusal.plugin)
    refusal = _refusal(before, there)
    if refusal is not None and _refusal(after, there) is None:
        return DifferenceCause(
            f"{refusal.plugin} no longer refuses {there}: {', '.join(refusal.reasons)}", refusal.plugin
        )
    if here is None or there is None:
        return DifferenceCause((after if there is None else before).message)
    if before.victims or after.victims:
        return DifferenceCause("other victims are chosen", "DefaultPreemption")
    return _by_scores(before, after, here, there)


def tipped(decision: ScheduleResult, other: str) -> DifferenceCause:
    """Return why a decision prefers its node to another: the plugin that rejects that one, or scores it lowest."""
    here = goal(decision)
    refusal = _refusal(decision, other)
    if refusal is not None:
        return DifferenceCause(f"{refusal.plugin} refuses {other}: {', '.join(refusal.reasons)}", refusal.plugin)
    if here is None:
        return DifferenceCause(decision.message, ", ".join(sorted(decision.unschedulable_plugins)))
    mine, others = _shares(decision, here), _shares(decision, other)
    if not mine or others is None:
        return DifferenceCause(f"{other} was not scored")
    plugin = max(mine, key=lambda name: mine[name] - others.get(name, 0))
    return DifferenceCause(f"{plugin} gives {here} {mine[plugin]} and {other} {others.get(plugin, 0)}", plugin)


def total_of(decision: ScheduleResult, node: str) -> int | None:
    """Return the total of a node; None if it was not scored."""
    if decision.scores is None:
        return None
    names = decision.scores.names
    return int(decision.scores.totals[names.index(node)]) if node in names else None


def _refusal(decision: ScheduleResult, node: str | None) -> Status | None:
    """Return why a node was refused; None if it was not."""
    if node is None or decision.statuses is None:
        return None
    status = decision.statuses.get(node)
    if status.is_success:
        return None
    return status if status.plugin else status.by(", ".join(sorted(decision.unschedulable_plugins)))


def _by_scores(before: ScheduleResult, after: ScheduleResult, here: str, there: str) -> DifferenceCause:
    """Return the plugin whose scores moved most in favour of the new node."""
    old_here, old_there, new_here, new_there = (
        _shares(decision, node) for decision in (before, after) for node in (here, there)
    )
    if old_here is None or old_there is None or new_here is None or new_there is None or not (new_here or old_here):
        return DifferenceCause("not every node was looked at (percentageOfNodesToScore)")
    plugins = list(dict.fromkeys([*new_here, *old_here]))

    def gains(plugin: str) -> int:
        now = new_there.get(plugin, 0) - new_here.get(plugin, 0)
        return now - (old_there.get(plugin, 0) - old_here.get(plugin, 0))

    tipped = max(plugins, key=gains)
    now = f"{there} {new_there.get(tipped, 0)} and {here} {new_here.get(tipped, 0)}"
    was = f"{old_there.get(tipped, 0)} and {old_here.get(tipped, 0)}"
    return DifferenceCause(f"{tipped} gives {now}; before, {was}", tipped)


def _shares(decision: ScheduleResult, node: str) -> dict[str, int] | None:
    """Return each plugin's share of a node's total; None if it was not scored."""
    table = decision.scores
    if table is None:
        return None
    position = next((i for i, info in enumerate(table.nodes.infos) if info.name == node), None)
    return None if position is None else {name: int(column[position]) for name, column in table.by_plugin.items()}
