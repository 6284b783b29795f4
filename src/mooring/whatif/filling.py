"""Filling a cluster with copies of pods until the next one does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mooring.engine.decision import Decision
from mooring.whatif.copies import Copies
from mooring.whatif.placing import Placing


@dataclass(slots=True)
class Filled:
    """What fitted: whole sets, and how many pods each node got for them."""

    sets: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    preempted: list[str] = field(default_factory=list)
    refusal: Decision | None = None


def fill(
    placing: Placing, sets: Sequence[tuple[Copies, int]], limit: int | None = None, *, preempt: bool = False
) -> Filled:
    """Place one set after another until one does not fit, or there are ``limit`` of them.

    Without a limit it ends when there are more sets than the nodes allow pods: then nothing limits them. The pods of a
    set that is not whole are taken back.
    """
    if limit is None:
        limit = int(placing.state.nodes().allowed_pods.sum()) + 1
    filled = Filled()
    while filled.sets < limit:
        begun: list[Decision] = []
        for copies, share in sets:
            for _ in range(share):
                decision = placing.place(copies.next(), preempt=preempt)
                if decision.node is None:
                    for each in reversed(begun):
                        placing.take_back(each)
                    filled.refusal = decision
                    return filled
                begun.append(decision)
        filled.sets += 1
        for each in begun:
            filled.nodes[each.node or ""] += 1
            filled.preempted += [victim.pod.key for victim in each.victims]
    return filled
