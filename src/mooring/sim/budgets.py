"""Disruption budgets that select pods of workloads: the control plane counts these pods, too.

How many pods of a budget are there and healthy is kept as they come and go. To count them anew at each change would
take a look at all pods.
"""

from __future__ import annotations

from mooring.api.core import Pod
from mooring.api.errors import ApiError
from mooring.controlplane.cluster.budgets import DisruptionController
from mooring.controlplane.registry.subresources import allow
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.store import DELETED, Event
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import StatusError
from mooring.sim.streamed_pods import StreamedPods


class _Budget:
    """Who a budget is about."""

    def __init__(self, namespace: str, written: Object | None, selector: selectors.ParsedLabelSelector) -> None:
        self.namespace, self.written, self.selector = namespace, written, selector
        self.healthy: dict[str, bool] = {}  # by uid
        self.num_healthy = 0

    def covers(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and self.selector.matches(pod.labels)

    def put(self, uid: str, is_healthy: bool) -> bool:
        """Count a pod; whether that changes a number."""
        before = self.healthy.get(uid)
        if before is is_healthy:
            return False
        self.healthy[uid] = is_healthy
        self.num_healthy += is_healthy - bool(before)
        return True

    def drop(self, uid: str) -> bool:
        before = self.healthy.pop(uid, None)
        self.num_healthy -= bool(before)
        return before is not None


class SimulatedBudgets:
    """Counts streamed pods for the controller of budgets, and asks budgets before a streamed pod is evicted."""

    def __init__(self, api: Api, controller: DisruptionController, streamed: StreamedPods) -> None:
        self._api, self._controller, self._streamed = api, controller, streamed
        self._budgets: dict[str, _Budget] = {}
        controller.elsewhere = self._counts

    def note(self, event: Event) -> None:
        """Hear of a budget that has come, changed or gone."""
        key = event.entry.key
        known = self._budgets.get(key)
        if event.type == DELETED:
            self._budgets.pop(key, None)
        else:
            written = (event.entry.object().get("spec") or {}).get("selector")
            if known is None or known.written != written:
                self._begin(key, event.entry.namespace, written)
        self._streamed.watcher = self if self._budgets else None

    def _begin(self, key: str, namespace: str, written: Object | None) -> None:
        selector = selectors.from_object(written)
        if selector is None:
            self._budgets.pop(key, None)
            return
        budget = self._budgets[key] = _Budget(namespace, written, selector)
        for pod in self._streamed.pods.values():
            if budget.covers(pod):
                budget.put(pod.uid, _is_healthy(pod))

    # ---- pods --------------------------------------------------------------------------------------------------------

    def put(self, pod: Pod) -> None:
        """A streamed pod has come or changed."""
        for key, budget in self._budgets.items():
            if budget.covers(pod) and budget.put(pod.uid, _is_healthy(pod)):
                self._controller.enqueue(key)

    def delete(self, pod: Pod) -> None:
        """A streamed pod is gone."""
        for key, budget in self._budgets.items():
            if budget.drop(pod.uid):
                self._controller.enqueue(key)

    def _counts(self, key: str) -> tuple[int, int]:
        budget = self._budgets.get(key)
        return (0, 0) if budget is None else (len(budget.healthy), budget.num_healthy)

    def allow_eviction(self, pod: Pod) -> None:
        """Take one disruption out of the pod's budget, or raise an ApiError with code 429."""
        conditions = [{"type": "Ready", "status": "True"}] if _is_healthy(pod) else []
        metadata = {"name": pod.name, "namespace": pod.namespace, "labels": pod.labels}
        try:
            allow(self._api, {"metadata": metadata, "status": {"conditions": conditions}}, dry_run=False)
        except StatusError as error:
            raise ApiError(str(error), code=error.code) from None


def _is_healthy(pod: Pod) -> bool:
    return pod.status.phase == "Running" and not pod.is_terminating
