"""Which evictions would break a PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.selectors import Selector, compile_selector
from mooring.api.workloads import PodDisruptionBudget
from mooring.engine.preemption.units import Unit
from mooring.errors import ParseError
from mooring.state.pod_info import PodInfo


class Budgets:
    """PodDisruptionBudgets with a selector that can match; others protect no pod."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: list[tuple[PodDisruptionBudget, Selector]] = []
        for budget in budgets:
            try:
                selector = compile_selector(budget.spec.selector)
            except ParseError:
                continue  # a budget with a nonsense selector matches no pod, as upstream has it
            if not selector.is_empty and not selector.matches_nothing:
                self._budgets.append((budget, selector))

    def partition(self, pods: list[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """(would break a budget, would not), evicting in this order with what each budget still allows."""
        if not self._budgets:
            return [], pods
        allowed = self._allowed()
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            (violating if self._breaks(pod, allowed) else others).append(pod)
        return violating, others

    def partition_units(self, units: list[Unit]) -> tuple[list[tuple[Unit, int]], list[Unit]]:
        """The same for what is evicted as one; with each unit that breaks budgets, how many of its pods do."""
        allowed = self._allowed()
        violating: list[tuple[Unit, int]] = []
        others: list[Unit] = []
        for unit in units:
            count = sum(self._breaks(pod, allowed, stops=True) for pod in unit.pods)
            if count:
                violating.append((unit, count))
            else:
                others.append(unit)
        return violating, others

    def _allowed(self) -> list[int]:
        return [budget.status.disruptions_allowed for budget, _ in self._budgets]

    def _breaks(self, pod: PodInfo, allowed: list[int], *, stops: bool = False) -> bool:
        """Take one eviction off every budget of the pod; with ``stops`` only up to the first that it breaks."""
        meta = pod.pod.metadata
        breaks = False
        for i, (budget, selector) in enumerate(self._budgets):
            if (
                not meta.labels
                or budget.metadata.namespace != meta.namespace
                or meta.name in budget.status.disrupted_pods
                or not selector.matches(meta.labels)
            ):
                continue
            allowed[i] -= 1
            breaks = breaks or allowed[i] < 0
            if breaks and stops:
                break
        return breaks
