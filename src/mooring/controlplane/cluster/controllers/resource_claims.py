"""Resource claims: made from templates for pods, and given back when no pod uses them any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from mooring.controlplane.cluster.controllers.base import Controller, is_terminating, phase, reference_to
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.groups.resource import RESOURCE_CLAIM_TEMPLATES as TEMPLATES
from mooring.controlplane.registry.groups.resource import RESOURCE_CLAIMS as CLAIMS
from mooring.controlplane.storage.store import Event
from mooring.controlplane.types.objects import Object

POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
FINALIZER = "resource.kubernetes.io/delete-protection"


class ResourceClaimController(Controller):
    """Creates claims for pods whose templates ask for them, and cleans reservations of pods that are over."""

    watches: ClassVar[tuple[str, ...]] = ("resourceclaims.resource.k8s.io", "pods",
                                          "resourceclaimtemplates.resource.k8s.io")  # fmt: skip

    def start(self) -> None:
        super().start()
        for entry in self.store.iterate(PODS):
            if b'"resourceClaims"' in entry.raw:
                self.enqueue(f"pod {entry.key}")

    def noted(self, event: Event) -> Iterable[str]:
        entry = event.entry
        if entry.kind is CLAIMS:
            return (entry.key,)
        if entry.kind is TEMPLATES:
            waiting = self.store.iterate(PODS, entry.namespace)
            return [f"pod {pod.key}" for pod in waiting if b'"resourceClaims"' in pod.raw]
        if b'"resourceClaims"' not in entry.raw and b'"extendedResourceClaimStatus"' not in entry.raw:
            return ()
        names = _claim_names(entry.object())
        return [f"pod {entry.key}", *(f"{entry.namespace}/{name}" for name in names)]

    def reconcile(self, key: str) -> None:
        if key.startswith("pod "):
            self._look_at_pod(key.removeprefix("pod "))
        else:
            self._look_at_claim(key)

    def _look_at_pod(self, key: str) -> None:
        entry = self.store.entry(PODS, key)
        if entry is None:
            return
        pod = entry.object()
        if is_terminating(pod) or _is_over(pod):
            return
        known = {each["name"]: each for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
        added = []
        for claim in pod["spec"].get("resourceClaims") or ():
            template = claim.get("resourceClaimTemplateName")
            if template and claim["name"] not in known:
                made = self._made_for(pod, claim["name"]) or self._make(pod, claim["name"], template)
                if made:
                    added.append({"name": claim["name"], "resourceClaimName": made})
        if added:

            def change(obj: Object) -> None:
                obj.setdefault("status", {}).setdefault("resourceClaimStatuses", []).extend(added)

            self.api.modify(PODS, entry.namespace, entry.name, change, subresource="status")

    def _made_for(self, pod: Object, name: str) -> str:
        for entry in self.store.dependents(pod["metadata"]["uid"]):
            if entry.kind is CLAIMS:
                annotations = entry.object()["metadata"].get("annotations") or {}
                if annotations.get(POD_CLAIM_NAME) == name:
                    return entry.name
        return ""

    def _make(self, pod: Object, name: str, template: str) -> str:
        meta = pod["metadata"]
        found = self.store.get(TEMPLATES, meta["namespace"], template)
        if found is None:
            return ""  # the template's arrival brings the pod back
        spec = found.object()["spec"]
        given = spec.get("metadata") or {}
        made: Object = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": f"{meta['name']}-{name}-",
                "annotations": {**(given.get("annotations") or {}), POD_CLAIM_NAME: name},
                "ownerReferences": [reference_to(pod)],
                **({"labels": dict(given["labels"])} if given.get("labels") else {}),
            },
            "spec": dict(spec.get("spec") or {}),
        }
        return self.api.create(CLAIMS, meta["namespace"], made).name

    def _look_at_claim(self, key: str) -> None:
        entry = self.store.entry(CLAIMS, key)
        if entry is None:
            return
        claim = entry.object()
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        kept = [user for user in users if self._still_uses(entry.namespace, user)]
        if kept != users:
            status = {**status, "reservedFor": kept}
            if not kept:
                status.pop("reservedFor")
        if not kept and users and status.get("allocation"):
            status.pop("allocation")  # the last user is gone: the devices are free again
            status.pop("devices", None)
        if is_terminating(claim) and not kept:
            status.pop("allocation", None)
        if status != (claim.get("status") or {}):
            entry = self.api.modify(
                CLAIMS, entry.namespace, entry.name, lambda obj: obj.update(status=status), subresource="status"
            )
        # A scheduler protects a claim before it allocates it: only what was given back or is going loses its finalizer.
        was_allocated = bool((claim.get("status") or {}).get("allocation"))
        is_done = (was_allocated or is_terminating(claim)) and not status.get("allocation")
        if is_done and FINALIZER in (claim["metadata"].get("finalizers") or ()):
            self.api.modify(CLAIMS, entry.namespace, entry.name, _unprotect)
        if self.store.entry(CLAIMS, key) is not None and self._owner_is_over(claim) and not is_terminating(claim):
            self.api.delete(CLAIMS, entry.namespace, entry.name)

    def _still_uses(self, namespace: str, user: Object) -> bool:
        if user.get("resource") != "pods":
            return True
        entry = self.store.get(PODS, namespace, user.get("name", ""))
        return entry is not None and entry.uid == user.get("uid") and not _is_over(entry.object())

    def _owner_is_over(self, claim: Object) -> bool:
        """Whether the claim was made for a pod that has ended but is still there."""
        for reference in claim["metadata"].get("ownerReferences") or ():
            if reference.get("kind") == "Pod" and reference.get("controller"):
                entry = self.store.by_uid(reference["uid"])
                return entry is not None and _is_over(entry.object())
        return False


def _is_over(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def _claim_names(pod: Object) -> list[str]:
    made = [each.get("resourceClaimName", "") for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()]
    named = [each.get("resourceClaimName", "") for each in pod["spec"].get("resourceClaims") or ()]
    extended = ((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName", "")
    return [name for name in (*made, *named, extended) if name]


def _unprotect(claim: Object) -> None:
    rest = [name for name in claim["metadata"].get("finalizers") or () if name != FINALIZER]
    if rest:
        claim["metadata"]["finalizers"] = rest
    else:
        claim["metadata"].pop("finalizers", None)
