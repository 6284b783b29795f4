"""Preemptions: how many, how long their cascades are, and which of them break a disruption budget.

A pod that was evicted is made again by its controller, and may evict others in turn. A preemption by a pod whose
controller has lost a pod to a preemption of depth ``d`` has depth ``d + 1``; any other has depth 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from mooring.api.core import Pod
from mooring.api.selectors import Selector, compile_selector
from mooring.api.workloads import PodDisruptionBudget
from mooring.errors import ParseError


@dataclass(slots=True)
class _Budget:
    selector: Selector
    allowed: int


class Preemptions:
    """Counts evictions as they happen."""

    def __init__(self) -> None:
        self.preemptions = 0
        self.victims = 0
        self.cascades = 0  # preemptions of depth 2 or more
        self.longest_cascade = 0
        self.budget_breaches = 0
        self._depths: dict[str, int] = {}  # by the controller of an evicted pod, or the pod itself
        self._budgets: dict[str, dict[str, _Budget]] = {}  # by namespace and name

    def put_budget(self, budget: PodDisruptionBudget) -> None:
        try:
            selector = compile_selector(budget.spec.selector)
        except ParseError:
            return
        known = self._budgets.setdefault(budget.namespace, {})
        known[budget.name] = _Budget(selector, budget.status.disruptions_allowed)

    def remove_budget(self, key: str) -> None:
        namespace, _, name = key.rpartition("/")
        self._budgets.get(namespace, {}).pop(name, None)

    def preempted(self, preemptor: Pod | None) -> None:
        """A pod makes room for itself; its victims follow one by one."""
        self.preemptions += 1
        depth = self._depth_of(preemptor)
        self.cascades += depth > 1
        self.longest_cascade = max(self.longest_cascade, depth)

    def evicted(self, preemptor: Pod | None, victim: Pod | None) -> None:
        """A victim goes. None stands for a pod that is not known any more."""
        self.victims += 1
        if victim is None:
            return
        identity = _identity(victim)
        self._depths[identity] = max(self._depths.get(identity, 0), self._depth_of(preemptor))
        breaks = False
        for budget in self._budgets.get(victim.namespace, {}).values():
            if budget.selector.matches(victim.labels):
                breaks |= budget.allowed <= 0
                budget.allowed -= 1  # until its controller has counted again
        self.budget_breaches += breaks

    def _depth_of(self, preemptor: Pod | None) -> int:
        return 1 if preemptor is None else 1 + self._depths.get(_identity(preemptor), 0)


def _identity(pod: Pod) -> str:
    """The controller of a pod; of one on its own its name, under which it may come again."""
    owner = pod.metadata.controller()
    return f"{pod.namespace}/{owner.kind}/{owner.name}" if owner is not None else pod.key
