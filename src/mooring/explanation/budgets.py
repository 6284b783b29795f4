"""Disruption budgets that stand in the way of an eviction."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.core import Pod
from mooring.api.selectors import compile_selector
from mooring.api.workloads import PodDisruptionBudget
from mooring.errors import ParseError
from mooring.state.cluster import Cluster


def broken_budgets(pod: Pod, cluster: Cluster) -> Iterator[str]:
    """The budgets that do not allow this pod to be evicted."""
    for budget in cluster.objects.in_namespace(PodDisruptionBudget, pod.namespace):
        try:
            selector = compile_selector(budget.spec.selector)
        except ParseError:
            continue
        if budget.status.disruptions_allowed <= 0 and not selector.is_empty and selector.matches(pod.labels):
            yield budget.key
