"""Disruption budgets: which pods they protect, what they allow, and the effect of a disruption.

| a budget's selector | preemption, explanations and drills | the disruption controller, lint and measures |
|---|---|---|
| is missing | no pod | no pod |
| has an operator that does not exist | no pod | no pod |
| is empty | no pod, as in kube-scheduler | every pod of the namespace |

The embedded control plane counts and evicts by stored documents, not by these structs: see its disruption controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mooring.api.core import Pod
from mooring.api.errors import ParseError
from mooring.api.selectors import Selector, compile_selector
from mooring.api.workloads import PodDisruptionBudget


def budget_selector(budget: PodDisruptionBudget, *, empty_counts: bool = True) -> Selector | None:
    """Return the selector of a budget's pods; None if it protects none."""
    try:
        selector = compile_selector(budget.spec.selector)
    except ParseError:
        return None
    return None if selector.matches_nothing or (selector.is_empty and not empty_counts) else selector


def budgets_of(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> Iterator[PodDisruptionBudget]:
    """Return the budgets of the pod's namespace that apply to it in preemption and drains."""
    for budget in budgets:
        selector = budget_selector(budget, empty_counts=False)
        if selector is not None and selector.matches(pod.labels):
            yield budget


def disrupted(budget: PodDisruptionBudget) -> PodDisruptionBudget | None:
    """Return the budget after one more disruption, as its controller would write it; None if it allows none."""
    if budget.status.disruptions_allowed <= 0:
        return None
    changed = budget.__copy__()
    changed.status = budget.status.__copy__()
    changed.status.disruptions_allowed -= 1
    return changed


def default_budget(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> None:
    """Compute the allowed disruptions of a budget without a status, as for one that was never on a cluster.

    The controller asks the workloads for the desired number of pods; here the number of existing pods is used.
    """
    selector = budget_selector(budget)
    if budget.status.disruptions_allowed or budget.status.disrupted_pods or selector is None:
        return
    mine = [
        pod
        for pod in pods
        if (pod.namespace or "default") == budget.namespace and not pod.is_finished and selector.matches(pod.labels)
    ]
    healthy = sum(is_healthy(pod) for pod in mine)
    budget.status.disruptions_allowed = max(0, healthy - _desired(budget, len(mine))) if mine else 0


def is_healthy(pod: Pod) -> bool:
    """Report whether a pod is running and not reported as unready."""
    if not pod.spec.node_name or pod.is_terminating:
        return False
    ready = [condition.status for condition in pod.status.conditions if condition.type == "Ready"]
    return not ready or ready[0] == "True"


def _desired(budget: PodDisruptionBudget, expected: int) -> int:
    spec = budget.spec
    if spec.max_unavailable is not None:
        return max(0, expected - share_of(spec.max_unavailable, expected))
    if spec.min_available is not None:
        return share_of(spec.min_available, expected)
    return expected


def share_of(value: int | str, expected: int) -> int:
    """Return a number, or a percentage of ``expected``, rounded up."""
    text = str(value)
    if text.endswith("%") and text[:-1].isdigit():
        return -(-int(text[:-1]) * expected // 100)
    return int(text) if text.lstrip("-").isdigit() else 0
