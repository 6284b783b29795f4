"""Disruption budgets while pods come and go on a fork."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

from mooring.api.budgets import is_healthy
from mooring.api.core import Pod
from mooring.api.selectors import compile_selector
from mooring.api.workloads import PodDisruptionBudget
from mooring.errors import ParseError
from mooring.state.objects import Objects


def budgets_of(objects: Objects, pod: Pod) -> Iterator[PodDisruptionBudget]:
    """The budgets that watch over a pod."""
    for budget in objects.in_namespace(PodDisruptionBudget, pod.namespace):
        try:
            selector = compile_selector(budget.spec.selector)
        except ParseError:
            continue
        if not selector.is_empty and selector.matches(pod.labels):
            yield budget


def count_disruption(objects: Objects, pod: Pod) -> Iterator[str]:
    """Let the pod's budgets allow one disruption less, as the disruption controller would.

    Yields those that allowed none: they are broken by this. A pod that is not healthy disrupts nothing.
    """
    for budget in list(budgets_of(objects, pod)) if is_healthy(pod) else ():
        allowed = budget.status.disruptions_allowed
        if allowed <= 0:
            yield budget.key
            continue
        changed = copy(budget)
        changed.status = copy(budget.status)
        changed.status.disruptions_allowed = allowed - 1
        objects.put(changed)
