"""The lowest priority with which a pod gets room by evicting others."""

from __future__ import annotations

from mooring.api.core import Pod
from mooring.engine.decision import Decision
from mooring.explanation.suggestion import Suggestion
from mooring.explanation.what_if import WhatIf
from mooring.framework.remedies import Change

MANY_NODES = 2000  # from here on a preemption is not tried for every priority
MAX_VICTIMS_NAMED = 3
COST = 5.0


def lowest_priority(what_if: WhatIf) -> Suggestion | None:
    """Search among the priorities of the running pods, from the highest down: if it does not help, none does."""
    is_never = what_if.pod.spec.preemption_policy == "Never"
    levels = _levels(what_if, is_never)
    best: Suggestion | None = None
    low, high = 0, len(levels) - 1
    target = high
    for _ in range(2 if len(what_if.cluster.nodes()) > MANY_NODES else 8):
        if low > high:
            break
        change = _priority(levels[target], is_never)
        decision = what_if.ask((change,), preempt=True).decision
        if decision.nominated_node:
            best, high = _suggestion(change, decision), target - 1
        elif best is None:
            break
        else:
            low = target + 1
        target = (low + high) // 2
    return best


def _levels(what_if: WhatIf, is_never: bool) -> list[int]:
    """The priorities that let the pod evict somebody whom it cannot evict now."""
    own = what_if.pod.spec.priority or 0
    present = {running.priority for running in what_if.cluster.pods()}
    levels = sorted(level + 1 for level in present if level >= own)
    if is_never and any(level < own for level in present):
        levels.insert(0, own)
    return levels


def _priority(level: int, is_never: bool) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.priority = level
        pod.spec.preemption_policy = None

    text = f"priority {level}" + (" and preemptionPolicy PreemptLowerPriority" if is_never else "")
    return Change(text, "priority", COST, edit=edit)


def _suggestion(change: Change, decision: Decision) -> Suggestion:
    victims = [victim.pod.key for victim in decision.victims]
    more = len(victims) - MAX_VICTIMS_NAMED
    shown = ", ".join(victims[:MAX_VICTIMS_NAMED]) + (f" and {more} more" if more > 0 else "")
    node = decision.nominated_node or ""
    text = f"{change}: evicts {shown or 'nobody who is not going already'} from {node}"
    return Suggestion((text,), (change.kind,), (node,), change.cost + len(victims), about_node=True)
