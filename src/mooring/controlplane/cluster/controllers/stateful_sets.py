"""StatefulSets: pods with numbers, each with its own claims, one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from mooring.controlplane.cluster.controllers.base import (
    Controller,
    is_terminating,
    is_true,
    phase,
    pod_from_template,
    reference_to,
)
from mooring.controlplane.cluster.controllers.deployments import template_hash
from mooring.controlplane.cluster.controllers.replicas import is_available
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.groups.apps import CONTROLLER_REVISIONS as REVISIONS
from mooring.controlplane.registry.groups.apps import STATEFUL_SETS
from mooring.controlplane.registry.groups.volumes import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from mooring.controlplane.storage.store import Event
from mooring.controlplane.types import quantities
from mooring.controlplane.types.objects import Object

HASH = "controller-revision-hash"


class StatefulSetController(Controller):
    """Creates pods in the order of their numbers, updates and removes them in the opposite order."""

    watches: ClassVar[tuple[str, ...]] = ("statefulsets.apps", "pods")

    def noted(self, event: Event) -> Iterable[str]:
        return self.owner_keys(event, "StatefulSet") if event.kind is PODS else (event.entry.key,)

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(STATEFUL_SETS, key)
        if entry is None:
            return
        owner = entry.object()
        revision = self._revision(owner)
        if not is_terminating(owner):
            self._bring_about(key, owner, revision)
        self._report(key, owner, revision)

    def _revision(self, owner: Object) -> str:
        """The name of the present template, remembered as a ControllerRevision."""
        metadata = owner["metadata"]
        template = owner["spec"]["template"]
        name = f"{metadata['name']}-{template_hash(template)}"
        if self.store.get(REVISIONS, metadata["namespace"], name) is None and not is_terminating(owner):
            known = [e for e in self.store.dependents(metadata["uid"]) if e.kind is REVISIONS]
            self.api.create(
                REVISIONS,
                metadata["namespace"],
                {
                    "apiVersion": "apps/v1",
                    "kind": "ControllerRevision",
                    "metadata": {"name": name, "ownerReferences": [reference_to(owner)], "labels": {HASH: name}},
                    "data": {"spec": {"template": {**template, "$patch": "replace"}}},
                    "revision": 1 + max((e.object().get("revision", 0) for e in known), default=0),
                },
            )
        return name

    def _bring_about(self, key: str, owner: Object, revision: str) -> None:
        spec = owner["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + spec.get("replicas", 1))
        pods = {self._number(pod): pod for pod in self.owned(owner["metadata"]["uid"], PODS)}
        one_by_one = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        for number in wanted:
            pod = pods.get(number)
            if pod is not None and phase(pod) in ("Failed", "Succeeded") and not is_terminating(pod):
                self._delete(pod)
                if one_by_one:
                    return
            elif pod is None:
                pod = pods[number] = self._create(owner, number, self._revision_for(owner, number, revision))
            if one_by_one and (is_terminating(pod) or not self._is_up(owner, pod)):
                self.enqueue_after(key, 1.0) if is_true(pod, "Ready") else None
                return
        for number in sorted((n for n in pods if n not in wanted), reverse=True):
            if not is_terminating(pods[number]):
                self._delete(pods[number])
            if one_by_one:
                return
        self._update(owner, revision, [pods[number] for number in wanted])

    def _update(self, owner: Object, revision: str, pods: list[Object]) -> None:
        """Replace pods of another version, the highest number first, each after the one before is up."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for pod in reversed(pods):
            if self._number(pod) < partition:
                return
            if (pod["metadata"].get("labels") or {}).get(HASH) != revision:
                if not is_terminating(pod):
                    self._delete(pod)
                return
            if not self._is_up(owner, pod):
                return

    def _revision_for(self, owner: Object, number: int, revision: str) -> str:
        partition = ((owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition", 0)
        current = (owner.get("status") or {}).get("currentRevision", "")
        return current if current and number < partition else revision

    def _is_up(self, owner: Object, pod: Object) -> bool:
        return not is_terminating(pod) and is_available(
            pod, owner["spec"].get("minReadySeconds", 0), self.api.clock.now()
        )

    def _create(self, owner: Object, number: int, revision: str) -> Object:
        metadata, spec = owner["metadata"], owner["spec"]
        name = f"{metadata['name']}-{number}"
        template = spec["template"]
        if revision != f"{metadata['name']}-{template_hash(template)}":
            kept = self.store.get(REVISIONS, metadata["namespace"], revision)
            if kept is not None:
                template = {k: v for k, v in kept.object()["data"]["spec"]["template"].items() if k != "$patch"}
        pod = pod_from_template(owner, template, name=name)
        labels = pod["metadata"].setdefault("labels", {})
        labels |= {
            HASH: revision,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(number),
        }
        pod["spec"]["hostname"] = name
        if spec.get("serviceName"):
            pod["spec"]["subdomain"] = spec["serviceName"]
        for claim in spec.get("volumeClaimTemplates") or ():
            self._add_claim(owner, pod, claim, number)
        return self.api.create(PODS, metadata["namespace"], pod).object()

    def _add_claim(self, owner: Object, pod: Object, template: Object, number: int) -> None:
        metadata = owner["metadata"]
        volume = template["metadata"]["name"]
        name = f"{volume}-{metadata['name']}-{number}"
        if self.store.get(CLAIMS, metadata["namespace"], name) is None:
            labels = {**((owner["spec"].get("selector") or {}).get("matchLabels") or {})}
            made = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": template["metadata"].get("annotations") or {},
                },
                "spec": dict(template["spec"]),
            }
            self.api.create(CLAIMS, metadata["namespace"], made)
        others = [each for each in pod["spec"].get("volumes") or () if each["name"] != volume]
        pod["spec"]["volumes"] = [*others, {"name": volume, "persistentVolumeClaim": {"claimName": name}}]

    def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self.api.delete(PODS, metadata["namespace"], metadata["name"], {"preconditions": {"uid": metadata["uid"]}})

    @staticmethod
    def _number(pod: Object) -> int:
        text = pod["metadata"]["name"].rpartition("-")[2]
        number = quantities.whole(text)
        return -1 if number is None else number

    def _report(self, key: str, owner: Object, revision: str) -> None:
        entry = self.store.entry(STATEFUL_SETS, key)
        if entry is None or entry.uid != owner["metadata"]["uid"]:
            return
        spec, before = owner["spec"], owner.get("status") or {}
        pods = [pod for pod in self.owned(entry.uid, PODS) if not is_terminating(pod)]
        now = self.api.clock.now()
        updated = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(HASH) == revision]
        current = before.get("currentRevision") or revision
        ready = [pod for pod in pods if is_true(pod, "Ready")]
        wanted = spec.get("replicas", 1)
        if len(updated) == wanted == len(ready) and len(pods) == wanted:
            current = revision
        counts = {
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "currentReplicas": len([p for p in pods if (p["metadata"].get("labels") or {}).get(HASH) == current]),
            "updatedReplicas": len(updated),
            "availableReplicas": len([p for p in ready if is_available(p, spec.get("minReadySeconds", 0), now)]),
        }
        status: Object = {"observedGeneration": owner["metadata"].get("generation", 1), "collisionCount": 0}
        status["replicas"] = counts.pop("replicas")
        status |= {name: count for name, count in counts.items() if count}
        status |= {
            "availableReplicas": counts["availableReplicas"],
            "currentRevision": current,
            "updateRevision": revision,
        }
        self.set_status(entry, status)
