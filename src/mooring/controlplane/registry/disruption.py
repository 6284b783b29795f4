"""Disruption budgets at eviction: who may go, counted in the budget's status as upstream's eviction does."""

from __future__ import annotations

from mooring.controlplane.registry.groups.policy import BUDGETS
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage import selectors
from mooring.controlplane.types import status
from mooring.controlplane.types.objects import Object


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def allow(api: Api, pod: Object, dry_run: bool) -> None:
    """Take one disruption out of the pod's budget, or raise 429."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    matching = []
    for entry in api.store.iterate(BUDGETS, metadata["namespace"]):
        budget = entry.object()
        selector = selectors.from_object((budget.get("spec") or {}).get("selector"))
        if selector is not None and selector.matches(labels):
            matching.append(budget)
    if not matching:
        return
    if len(matching) > 1:
        raise status.StatusError(
            500,
            "InternalError",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    budget = matching[0]
    spec, state = budget.get("spec") or {}, budget.get("status") or {}
    ready = _is_ready(pod)
    policy = spec.get("unhealthyPodEvictionPolicy") or "IfHealthyBudget"
    healthy_enough = state.get("currentHealthy", 0) >= state.get("desiredHealthy", 0) > 0
    if not ready and (policy == "AlwaysAllow" or healthy_enough):
        return
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refuse(
            budget, f"The disruption budget {budget['metadata']['name']} is still being processed by the server.", 10
        )
    if state.get("disruptionsAllowed", 0) <= 0:
        name = budget["metadata"]["name"]
        raise _refuse(
            budget,
            f"The disruption budget {name} needs {state.get('desiredHealthy', 0)} healthy pods and has "
            f"{state.get('currentHealthy', 0)} currently",
            0,
        )
    if dry_run:
        return

    def take_one(current: Object) -> None:
        current["status"]["disruptionsAllowed"] -= 1
        current["status"].setdefault("disruptedPods", {})[metadata["name"]] = api.timestamp()

    api.modify(BUDGETS, metadata["namespace"], budget["metadata"]["name"], take_one, subresource="status")


def _refuse(budget: Object, message: str, retry_after_s: int) -> status.StatusError:
    return status.too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry_after_s,
        {"reason": "DisruptionBudget", "message": message},
    )
