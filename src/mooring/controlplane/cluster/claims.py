"""Controllers of claims: for persistent volumes, found or created by a fake provisioner, and for devices."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import ClassVar

from mooring.api.well_known import HOSTNAME, ZONE
from mooring.controlplane.cluster.base import Controller, controller_of, drop_item, is_terminating, phase, reference_to
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.scheduling import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from mooring.controlplane.registry.groups.volumes import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from mooring.controlplane.registry.groups.volumes import PERSISTENT_VOLUMES as VOLUMES
from mooring.controlplane.registry.groups.volumes import STORAGE_CLASSES as CLASSES
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.store import DELETED, Event
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import StatusError

BIND_COMPLETED, BOUND_BY_CONTROLLER = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeController(Controller):
    """Binds claims and volumes to each other, releases volumes, and provisions new ones.

    A claim of a class that waits for its first consumer is left alone until the scheduler has chosen: it either
    reserves a volume (the volume's claimRef) or asks for a new one near a node (the claim's selected-node).
    """

    watches: ClassVar[tuple[str, ...]] = (
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses.storage.k8s.io",
    )

    def start(self) -> None:
        super().start()
        for entry in self.store.iterate(VOLUMES):
            self.enqueue(f"volume {entry.key}")

    def noted(self, event: Event) -> Iterable[str]:
        entry = event.entry
        if entry.kind is VOLUMES:
            reference = (entry.object().get("spec") or {}).get("claimRef") or {}
            claim = f"{reference.get('namespace', '')}/{reference.get('name', '')}"
            return (f"volume {entry.key}", *([claim] if reference else self._pending_claims()))
        if entry.kind is CLASSES:
            return self._pending_claims()
        volume = (entry.object().get("spec") or {}).get("volumeName")
        return (entry.key, *([f"volume {volume}"] if volume else ()))

    def _pending_claims(self) -> list[str]:
        return [entry.key for entry in self.store.iterate(CLAIMS) if b'"phase":"Pending"' in entry.raw]

    def reconcile(self, key: str) -> None:
        if key.startswith("volume "):
            self._look_at_volume(key.removeprefix("volume "))
        else:
            self._look_at_claim(key)

    # Volumes

    def _look_at_volume(self, name: str) -> None:
        entry = self.store.entry(VOLUMES, name)
        if entry is None:
            return
        volume = entry.object()
        reference = volume["spec"].get("claimRef")
        if not reference:
            self._set_phase(name, "Available")
            return
        claim = self.store.get(CLAIMS, reference.get("namespace", ""), reference.get("name", ""))
        if reference.get("uid") and (claim is None or claim.uid != reference["uid"]):
            self._release(volume)
        elif claim is not None and (claim.object()["spec"].get("volumeName") == name):
            self._set_phase(name, "Bound")
        else:
            self._set_phase(name, "Available")

    def _release(self, volume: Object) -> None:
        name = volume["metadata"]["name"]
        self._set_phase(name, "Released")
        if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete" and not is_terminating(volume):
            self.api.delete(VOLUMES, "", name)

    def _set_phase(self, name: str, phase: str) -> None:
        entry = self.store.entry(VOLUMES, name)
        if entry is not None and (entry.object().get("status") or {}).get("phase") != phase:
            self.set_status(entry, {"phase": phase, "lastPhaseTransitionTime": self.api.timestamp()})

    # Claims

    def _look_at_claim(self, key: str) -> None:
        entry = self.store.entry(CLAIMS, key)
        if entry is None or is_terminating(entry.object()):
            return
        claim = entry.object()
        spec = claim["spec"]
        if spec.get("volumeName"):
            volume = self.store.entry(VOLUMES, spec["volumeName"])
            if volume is None:
                if BIND_COMPLETED in (claim["metadata"].get("annotations") or {}):
                    self.report(claim, {"phase": "Lost"})
                return
            if _is_free_for(volume.object(), claim):
                self._bind(claim, volume.object())
            return
        promised = self._promised_to(claim)
        if promised is not None:
            self._bind(claim, promised)
            return
        storage_class = self._class_of(claim)
        waits = (storage_class or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE, "")
        if waits and not selected:
            return
        found = None if waits else self._find(claim)
        if found is not None:
            self._bind(claim, found)
        elif storage_class is not None and storage_class.get("provisioner") not in (None, "", NO_PROVISIONER):
            self._provision(claim, storage_class, selected)

    def _class_of(self, claim: Object) -> Object | None:
        name = claim["spec"].get("storageClassName")
        entry = self.store.entry(CLASSES, name) if name else None
        return None if entry is None else entry.object()

    def _promised_to(self, claim: Object) -> Object | None:
        """A volume whose claimRef names this claim, set by the scheduler or a user."""
        for entry in self.store.iterate(VOLUMES):
            volume = entry.object()
            if volume["spec"].get("claimRef") and _is_free_for(volume, claim):
                return volume
        return None

    def _find(self, claim: Object) -> Object | None:
        """Return the smallest free volume that is large enough and matches otherwise."""
        spec = claim["spec"]
        wanted = quantities.parse(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))
        selector = selectors.from_object(spec["selector"]) if spec.get("selector") else None
        found: list[tuple[Fraction, str, Object]] = []
        for entry in self.store.iterate(VOLUMES):
            volume = entry.object()
            theirs = volume["spec"]
            size = quantities.parse((theirs.get("capacity") or {}).get("storage", "0"))
            if (
                not theirs.get("claimRef")
                and not is_terminating(volume)
                and size >= wanted
                and theirs.get("storageClassName", "") == (spec.get("storageClassName") or "")
                and set(spec.get("accessModes") or ()) <= set(theirs.get("accessModes") or ())
                and theirs.get("volumeMode", "Filesystem") == spec.get("volumeMode", "Filesystem")
                and (selector is None or selector.matches(entry.labels))
            ):
                found.append((size, entry.name, volume))
        return min(found, key=lambda each: (each[0], each[1]))[2] if found else None

    def _bind(self, claim: Object, volume: Object) -> None:
        """Write both sides. Between the two writes the volume is reserved for the claim."""
        meta, name = claim["metadata"], volume["metadata"]["name"]
        reference = {**_reference(claim), "resourceVersion": meta["resourceVersion"]}
        known = volume["spec"].get("claimRef") or {}
        if known.get("uid") != meta["uid"]:

            def claim_it(obj: Object) -> None:
                if not obj["spec"].get("claimRef"):
                    obj["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"
                obj["spec"]["claimRef"] = reference

            self.api.modify(VOLUMES, "", name, claim_it)
        self._set_phase(name, "Bound")
        by_user = bool(claim["spec"].get("volumeName"))

        def bind_it(obj: Object) -> None:
            annotations = obj["metadata"].setdefault("annotations", {})
            annotations[BIND_COMPLETED] = "yes"
            if not by_user:
                annotations[BOUND_BY_CONTROLLER] = "yes"
            obj["spec"]["volumeName"] = name

        if not by_user or BIND_COMPLETED not in (meta.get("annotations") or {}):
            self.api.modify(CLAIMS, meta["namespace"], meta["name"], bind_it)
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"].get("accessModes") or [],
            "capacity": volume["spec"].get("capacity") or {},
        }
        self.report(claim, status)

    def _provision(self, claim: Object, storage_class: Object, selected: str) -> None:
        """Create a volume that the selected node can reach."""
        meta, spec = claim["metadata"], claim["spec"]
        name = f"pvc-{meta['uid']}"
        if self.store.entry(VOLUMES, name) is not None:
            return
        provisioner = storage_class["provisioner"]
        made: Object = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: provisioner}},
            "spec": {
                "accessModes": spec.get("accessModes") or [],
                "capacity": {"storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")},
                "claimRef": _reference(claim),
                "csi": {"driver": provisioner, "volumeHandle": name},
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": storage_class["metadata"]["name"],
                "volumeMode": spec.get("volumeMode", "Filesystem"),
            },
        }
        node = self.store.entry(NODES, selected) if selected else None
        if node is not None:
            key = ZONE if ZONE in node.labels else HOSTNAME
            term = {"matchExpressions": [{"key": key, "operator": "In", "values": [node.labels.get(key, selected)]}]}
            made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        self.api.create(VOLUMES, "", made)


def _reference(claim: Object) -> Object:
    of = {name: claim["metadata"][name] for name in ("namespace", "name", "uid")}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **of}


def _is_free_for(volume: Object, claim: Object) -> bool:
    reference = volume["spec"].get("claimRef")
    if not reference:
        return True
    meta = claim["metadata"]
    same = (reference.get("namespace"), reference.get("name")) == (meta["namespace"], meta["name"])
    return same and reference.get("uid") in (None, "", meta["uid"])


class EphemeralVolumeController(Controller):
    """Creates the claims of pods with ephemeral volumes; they belong to the pod and go with it."""

    watches: ClassVar[tuple[str, ...]] = ("pods", "persistentvolumeclaims")

    def noted(self, event: Event) -> Iterable[str]:
        entry = event.entry
        if entry.kind is CLAIMS:  # a deleted one may have blocked the next pod of that name
            if event.type != DELETED:
                return ()
            owner = controller_of(entry.object())
            return (f"{entry.namespace}/{owner['name']}",) if owner and owner["kind"] == "Pod" else ()
        return (entry.key,) if b'"ephemeral"' in entry.raw else ()

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(PODS, key)
        if entry is None or is_terminating(entry.object()):
            return
        pod = entry.object()
        for volume in pod["spec"].get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            if template is None:
                continue
            name = f"{entry.name}-{volume['name']}"
            if self.store.get(CLAIMS, entry.namespace, name) is None:
                given = template.get("metadata") or {}
                made: Object = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {
                        "name": name,
                        "ownerReferences": [reference_to(pod)],
                        **{part: dict(given[part]) for part in ("labels", "annotations") if given.get(part)},
                    },
                    "spec": dict(template["spec"]),
                }
                try:
                    self.api.create(CLAIMS, entry.namespace, made)
                except StatusError as error:
                    if error.code != 409:
                        raise


# Resource claims: made from templates for pods, and released when no pod uses them any more

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
        if entry.kind is RESOURCE_CLAIMS:
            return (entry.key,)
        if entry.kind is RESOURCE_CLAIM_TEMPLATES:
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

            self.modify_status(entry, change)

    def _made_for(self, pod: Object, name: str) -> str:
        for entry in self.store.dependents(pod["metadata"]["uid"]):
            if entry.kind is RESOURCE_CLAIMS:
                annotations = entry.object()["metadata"].get("annotations") or {}
                if annotations.get(POD_CLAIM_NAME) == name:
                    return entry.name
        return ""

    def _make(self, pod: Object, name: str, template: str) -> str:
        meta = pod["metadata"]
        found = self.store.get(RESOURCE_CLAIM_TEMPLATES, meta["namespace"], template)
        if found is None:
            return ""  # the template's creation wakes the pod
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
        return self.api.create(RESOURCE_CLAIMS, meta["namespace"], made).name

    def _look_at_claim(self, key: str) -> None:
        entry = self.store.entry(RESOURCE_CLAIMS, key)
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
            entry = self.modify_status(entry, lambda obj: obj.update(status=status))
        # A scheduler protects a claim before it allocates it: only a deallocated or terminating claim loses its
        # finalizer.
        was_allocated = bool((claim.get("status") or {}).get("allocation"))
        is_done = (was_allocated or is_terminating(claim)) and not status.get("allocation")
        if is_done and FINALIZER in (claim["metadata"].get("finalizers") or ()):
            self.api.modify(RESOURCE_CLAIMS, entry.namespace, entry.name, _unprotect)
        if (
            self.store.entry(RESOURCE_CLAIMS, key) is not None
            and self._owner_is_over(claim)
            and not is_terminating(claim)
        ):
            self.api.delete(RESOURCE_CLAIMS, entry.namespace, entry.name)

    def _still_uses(self, namespace: str, user: Object) -> bool:
        if user.get("resource") != "pods":
            return True
        entry = self.store.get(PODS, namespace, user.get("name", ""))
        return entry is not None and entry.uid == user.get("uid") and not _is_over(entry.object())

    def _owner_is_over(self, claim: Object) -> bool:
        """Report whether the claim was created for a pod that has finished but still exists."""
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
    drop_item(claim["metadata"], "finalizers", FINALIZER)
