"""ResourceClaims for pods that name a template: what kube-controller-manager does, for the embedded control plane."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.controlplane.registry.catalog import PODS, by_resource
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage.store import ADDED, DELETED, Event
from mooring.controlplane.types.status import StatusError

CLAIMS = by_resource("resourceclaims.resource.k8s.io")
TEMPLATES = by_resource("resourceclaimtemplates.resource.k8s.io")
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"


class ClaimController:
    """Makes the claims of pods and takes them away again. Pods without templates cost one look at their bytes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._todo: asyncio.Queue[tuple[bool, dict[str, Any]]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._unsubscribe = self._api.store.subscribe(PODS, self._note)
        self._task = asyncio.create_task(self._run(), name="claims of pods")

    async def stop(self) -> None:
        self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _note(self, event: Event) -> None:
        if event.type in (ADDED, DELETED) and b'"resourceClaimTemplateName"' in event.entry.raw:
            self._todo.put_nowait((event.type == ADDED, event.entry.object()))

    async def _run(self) -> None:
        while True:
            is_new, pod = await self._todo.get()
            try:
                (self._make if is_new else self._remove)(pod)
            except StatusError:
                continue  # the pod, its template or its claim is gone: nothing is left to do
            if self._todo.qsize() % 32 == 0:
                await asyncio.sleep(0)

    def _make(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        made = []
        for reference in pod["spec"].get("resourceClaims") or ():
            template_name = reference.get("resourceClaimTemplateName")
            if not template_name:
                continue
            template = self._api.get(TEMPLATES, namespace, template_name).object()["spec"]
            inner = template.get("metadata") or {}
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": metadata["uid"], "controller": True}
            claim = {
                "metadata": {
                    "generateName": f"{name}-{reference['name']}-",
                    "annotations": {**(inner.get("annotations") or {}), POD_CLAIM_NAME: reference["name"]},
                    "labels": inner.get("labels") or {},
                    "ownerReferences": [owner],
                },
                "spec": template["spec"],
            }
            entry = self._api.create(CLAIMS, namespace, claim)
            made.append({"name": reference["name"], "resourceClaimName": entry.name})

        def tell(current: dict[str, Any]) -> None:
            current.setdefault("status", {})["resourceClaimStatuses"] = made

        if made:
            self._api.modify(PODS, namespace, name, tell, subresource="status")

    def _remove(self, pod: dict[str, Any]) -> None:
        namespace = pod["metadata"]["namespace"]
        for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
            name = status.get("resourceClaimName")
            if not name:
                continue
            self._api.modify(CLAIMS, namespace, name, _deallocate, subresource="status")
            self._api.modify(CLAIMS, namespace, name, lambda claim: claim["metadata"].pop("finalizers", None))
            self._api.delete(CLAIMS, namespace, name)


def _deallocate(claim: dict[str, Any]) -> None:
    claim["status"] = {}
