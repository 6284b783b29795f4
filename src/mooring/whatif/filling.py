"""Filling a cluster with copies of pods until the next one does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mooring.engine.decision import Decision
from mooring.whatif.copies import Copies
from mooring.whatif.placing import Placing
from mooring.whatif.rounds import nodes_with_room


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
    filled = Filled()
    if limit is None and len(sets) == 1 and sets[0][1] == 1 and sets[0][0].are_alike:
        _fill_in_rounds(placing, sets[0][0], filled)
    if limit is None:
        limit = int(placing.state.nodes().allowed_pods.sum()) + 1
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


def _fill_in_rounds(placing: Placing, copies: Copies, filled: Filled) -> None:
    """Place as many copies as fit, where their order does not matter. What is left is for the slow way."""
    pod = copies.next()
    most = int(placing.state.nodes().allowed_pods.max(initial=0))
    for _ in range(most):  # a pod that nothing limits would get another round for ever
        nodes = nodes_with_room(placing, pod)
        if not nodes:
            return
        for node in nodes:
            placing.state.assume(copies.next(), node)
            filled.nodes[node] += 1
        filled.sets += len(nodes)
