"""Which evictions would break a PodDisruptionBudget."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.selectors import Selector, compile_selector
from mooring.api.workloads import PodDisruptionBudget
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
        allowed = [budget.status.disruptions_allowed for budget, _ in self._budgets]
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
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
            (violating if breaks else others).append(pod)
        return violating, others
