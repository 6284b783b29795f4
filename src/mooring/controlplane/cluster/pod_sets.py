"""Controllers that keep a set of pods: ReplicaSets (and ReplicationControllers), StatefulSets, DaemonSets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.api.errors import MooringError
from mooring.api.pod_templates import daemon_tolerations
from mooring.api.selectors import Selector, first_untolerated
from mooring.controlplane.cluster.base import (
    ClusterApi,
    Controller,
    Timers,
    condition,
    controller_of,
    is_active,
    is_terminating,
    is_true,
    label,
    nonzero,
    phase,
    pod_from_template,
    reference_to,
)
from mooring.controlplane.cluster.deployments import share, template_hash
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.volumes import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from mooring.controlplane.registry.groups.workloads import CONTROLLER_REVISIONS as REVISIONS
from mooring.controlplane.registry.groups.workloads import DAEMON_SETS, STATEFUL_SETS
from mooring.controlplane.registry.validation import parse_time
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.store import ADDED, DELETED, Event, StoredEntry
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Object
from mooring.core.state.node_selector import NodeRequirements

BURST = 500
"""Pods created or deleted before other tasks run."""
MANY, PACE_S = 100, 0.0002
"""Owners of many pods are processed less often, the more there are."""


def is_available(pod: Object, min_ready_s: int, now: float) -> bool:
    """Report whether a pod has been ready for long enough."""
    return ready_in(pod, min_ready_s, now) == 0.0


def ready_in(pod: Object, min_ready_s: int, now: float) -> float | None:
    """Seconds until a ready pod counts as available; None for a pod that is not ready."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    since = parse_time(ready.get("lastTransitionTime") or "") or now
    return max(0.0, since + min_ready_s - now) if min_ready_s else 0.0


def first_to_go(pod: Object) -> tuple[Any, ...]:
    """Orders pods for scaling down, as upstream ranks them: the least useful pod comes first."""
    metadata, started = pod["metadata"], (condition(pod, "Ready") or {}).get("lastTransitionTime", "")
    cost = (metadata.get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    return (
        bool(pod["spec"].get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
        is_true(pod, "Ready"),
        quantities.whole(cost) or 0,
        _reversed(started),
        _reversed(metadata["creationTimestamp"]),
        metadata["name"],
    )


def _reversed(text: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in text)


class _PodView(NamedTuple):
    """A ReplicaSet's data about a pod, cached per version, because decoding thousands of pods takes a while."""

    rv: int
    namespace: str
    name: str
    uid: str
    controller: str
    is_active: bool
    ready_since: float | None  # None: not ready
    order: tuple[Any, ...]
    labels: Mapping[str, str]


def _view(entry: StoredEntry) -> _PodView:
    pod = entry.object()
    ready = condition(pod, "Ready")
    since = None
    if ready is not None and ready.get("status") == "True":
        since = parse_time(ready.get("lastTransitionTime") or "") or 0.0
    controller = (controller_of(pod) or {}).get("uid", "")
    active = is_active(pod)
    order = first_to_go(pod) if active else ()
    return _PodView(entry.rv, entry.namespace, entry.name, entry.uid, controller, active, since, order, entry.labels)


class ReplicaSetController(Controller):
    """Keeps a ReplicaSet's number of pods."""

    watches: ClassVar[tuple[str, ...]] = ("replicasets.apps", "pods")

    def __init__(self, api: ClusterApi, timers: Timers) -> None:
        super().__init__(api, timers)
        self._views: dict[str, _PodView] = {}  # by uid

    def noted(self, event: Event) -> Iterable[str]:
        if event.kind is PODS and event.type == DELETED:
            self._views.pop(event.entry.uid, None)
        return super().noted(event)

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(self.kind, key)
        if entry is None:
            return
        owner = entry.object()
        if not (owner.get("status") or {}).get("observedGeneration") and not is_terminating(owner):
            self._adopt(owner)
        active = self._active(entry.uid)
        if not is_terminating(owner) and self._scale(key, owner, active):
            active = self._active(entry.uid)
        self._report(key, owner, active)
        if len(active) > MANY:
            self.pace(key, len(active) * PACE_S)

    def _active(self, uid: str) -> list[_PodView]:
        """Return the active pods, decoded only where they have changed since."""
        found = []
        for entry in self.store.dependents(uid):
            if entry.kind is PODS:
                view = self._views.get(entry.uid)
                if view is None or view.rv != entry.rv:
                    view = self._views[entry.uid] = _view(entry)
                if view.is_active and view.controller == uid:
                    found.append(view)
        return found

    def _selector(self, owner: Object) -> Selector | None:
        return selectors.from_object((owner.get("spec") or {}).get("selector"))

    def _adopt(self, owner: Object) -> None:
        """Adopt matching pods without an owner, once, when the new owner is created."""
        selector = self._selector(owner)
        if selector is None:
            return
        for entry in list(self.store.iterate(PODS, owner["metadata"]["namespace"])):
            if not entry.owners and entry.labels and selector.matches(entry.labels) and is_active(entry.object()):
                self.api.modify(PODS, entry.namespace, entry.name, lambda obj: _add_owner(obj, owner))

    def _scale(self, key: str, owner: Object, active: list[_PodView]) -> bool:
        """Create missing pods or delete excess ones; true if there was something to do."""
        wanted: int = (owner.get("spec") or {}).get("replicas", 1)
        missing = wanted - len(active)
        if missing > 0:
            template = owner["spec"].get("template") or {}
            for _ in range(min(missing, BURST)):
                name = owner["metadata"]["name"]
                pod = pod_from_template(owner, template, generateName=f"{name}-")
                self.api.create(PODS, owner["metadata"]["namespace"], pod)
        elif missing < 0:
            for view in sorted(active, key=lambda view: view.order)[: min(-missing, BURST)]:
                self.api.delete(PODS, view.namespace, view.name, {"preconditions": {"uid": view.uid}})
        if abs(missing) > BURST:
            self.enqueue(key)
        return missing != 0

    def _report(self, key: str, owner: Object, active: list[_PodView]) -> None:
        spec = owner.get("spec") or {}
        now, min_ready_s = self.api.clock.now(), spec.get("minReadySeconds", 0)
        ready = [view.ready_since for view in active if view.ready_since is not None]
        soon = [since + min_ready_s - now for since in ready if min_ready_s and since + min_ready_s > now]
        if soon:
            self.enqueue_after(key, min(soon) + 0.01)
        labels = (((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}).items()
        status: Object = {"replicas": len(active)}
        status |= nonzero(
            fullyLabeledReplicas=len([view for view in active if labels <= view.labels.items()]),
            readyReplicas=len(ready),
            availableReplicas=len(ready) - len(soon),
        )
        status["observedGeneration"] = owner["metadata"].get("generation", 1)
        self.report(owner, status)


class ReplicationControllerController(ReplicaSetController):
    """Likewise for ReplicationControllers."""

    watches: ClassVar[tuple[str, ...]] = ("replicationcontrollers", "pods")

    def _selector(self, owner: Object) -> Selector | None:
        return selectors.from_object({"matchLabels": (owner.get("spec") or {}).get("selector") or {}})


def _add_owner(pod: Object, owner: Object) -> None:
    pod["metadata"].setdefault("ownerReferences", []).append(reference_to(owner))


# StatefulSets: pods with numbers, each with its own claims, one after another

HASH = "controller-revision-hash"


class StatefulSetController(Controller):
    """Creates pods in the order of their numbers, updates and removes them in the opposite order."""

    watches: ClassVar[tuple[str, ...]] = ("statefulsets.apps", "pods")

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(STATEFUL_SETS, key)
        if entry is None:
            return
        owner = entry.object()
        revision = self._revision(owner)
        if not is_terminating(owner):
            self._bring_about(key, owner, revision)
        self._report(owner, revision)

    def _revision(self, owner: Object) -> str:
        """Return the name of the current template, stored as a ControllerRevision."""
        metadata = owner["metadata"]
        template = owner["spec"]["template"]
        name = f"{metadata['name']}-{template_hash(template)}"
        if self.store.get(REVISIONS, metadata["namespace"], name) is None and not is_terminating(owner):
            known = [e for e in self.store.dependents(metadata["uid"]) if e.kind is REVISIONS]
            made = {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {"name": name, "ownerReferences": [reference_to(owner)], "labels": {HASH: name}},
                "data": {"spec": {"template": {**template, "$patch": "replace"}}},
                "revision": 1 + max((e.object().get("revision", 0) for e in known), default=0),
            }
            self.api.create(REVISIONS, metadata["namespace"], made)
        return name

    def _bring_about(self, key: str, owner: Object, revision: str) -> None:
        spec = owner["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + spec.get("replicas", 1))
        pods = {_number(pod): pod for pod in self.owned(owner["metadata"]["uid"], PODS)}
        one_by_one = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        for number in wanted:
            pod = pods.get(number)
            if pod is not None and phase(pod) in ("Failed", "Succeeded") and not is_terminating(pod):
                self.delete_pod(pod)
                if one_by_one:
                    return
            elif pod is None:
                pod = pods[number] = self._create(owner, number, self._revision_for(owner, number, revision))
            if one_by_one and (is_terminating(pod) or not self._is_up(owner, pod)):
                self.enqueue_after(key, 1.0) if is_true(pod, "Ready") else None
                return
        for number in sorted((n for n in pods if n not in wanted), reverse=True):
            if not is_terminating(pods[number]):
                self.delete_pod(pods[number])
            if one_by_one:
                return
        self._update(owner, revision, [pods[number] for number in wanted])

    def _update(self, owner: Object, revision: str, pods: list[Object]) -> None:
        """Replace pods of another version, the highest number first, each after the previous one is ready."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        for pod in reversed(pods):
            if _number(pod) < _partition(owner):
                return
            if label(pod, HASH) != revision:
                if not is_terminating(pod):
                    self.delete_pod(pod)
                return
            if not self._is_up(owner, pod):
                return

    def _revision_for(self, owner: Object, number: int, revision: str) -> str:
        current = (owner.get("status") or {}).get("currentRevision", "")
        return current if current and number < _partition(owner) else revision

    def _is_up(self, owner: Object, pod: Object) -> bool:
        min_ready_s = owner["spec"].get("minReadySeconds", 0)
        return not is_terminating(pod) and is_available(pod, min_ready_s, self.api.clock.now())

    def _create(self, owner: Object, number: int, revision: str) -> Object:
        metadata, spec = owner["metadata"], owner["spec"]
        name = f"{metadata['name']}-{number}"
        template = spec["template"]
        if revision != f"{metadata['name']}-{template_hash(template)}":
            kept = self.store.get(REVISIONS, metadata["namespace"], revision)
            if kept is not None:
                template = {k: v for k, v in kept.object()["data"]["spec"]["template"].items() if k != "$patch"}
        pod = pod_from_template(owner, template, name=name)
        labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
        pod["metadata"].setdefault("labels", {}).update({HASH: revision, **labels})
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
            given = {"name": name, "labels": labels, "annotations": template["metadata"].get("annotations") or {}}
            made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": given}
            self.api.create(CLAIMS, metadata["namespace"], {**made, "spec": dict(template["spec"])})
        others = [each for each in pod["spec"].get("volumes") or () if each["name"] != volume]
        pod["spec"]["volumes"] = [*others, {"name": volume, "persistentVolumeClaim": {"claimName": name}}]

    def _report(self, owner: Object, revision: str) -> None:
        spec, before = owner["spec"], owner.get("status") or {}
        pods = [pod for pod in self.owned(owner["metadata"]["uid"], PODS) if not is_terminating(pod)]
        now = self.api.clock.now()
        updated = [pod for pod in pods if label(pod, HASH) == revision]
        current = before.get("currentRevision") or revision
        ready = [pod for pod in pods if is_true(pod, "Ready")]
        wanted = spec.get("replicas", 1)
        if len(updated) == wanted == len(ready) and len(pods) == wanted:
            current = revision
        status: Object = {"observedGeneration": owner["metadata"].get("generation", 1), "collisionCount": 0}
        status["replicas"] = len(pods)
        status |= nonzero(
            readyReplicas=len(ready),
            currentReplicas=len([pod for pod in pods if label(pod, HASH) == current]),
            updatedReplicas=len(updated),
        )
        there = len([pod for pod in ready if is_available(pod, spec.get("minReadySeconds", 0), now)])
        status |= {"availableReplicas": there, "currentRevision": current, "updateRevision": revision}
        self.report(owner, status)


def _partition(owner: Object) -> int:
    strategy = owner["spec"].get("updateStrategy") or {}
    return int((strategy.get("rollingUpdate") or {}).get("partition", 0))


def _number(pod: Object) -> int:
    number = quantities.whole(pod["metadata"]["name"].rpartition("-")[2])
    return -1 if number is None else number


# DaemonSets: one pod on every eligible node

NODE_PACE_S = 0.0005  # per node: all of them are checked each time


class DaemonSetController(Controller):
    """Creates pods that are restricted to one node; the scheduler then decides whether they fit there."""

    watches: ClassVar[tuple[str, ...]] = ("daemonsets.apps", "pods", "nodes")

    def noted(self, event: Event) -> Iterable[str]:
        if event.kind is not NODES:
            return super().noted(event)
        if event.type not in (ADDED, DELETED) and not _matters(event):
            return ()
        return [entry.key for entry in self.store.iterate(DAEMON_SETS)]

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(DAEMON_SETS, key)
        if entry is None:
            return
        owner = entry.object()
        revision = template_hash(owner["spec"]["template"])
        wanted = self._nodes_wanted(owner)
        if not is_terminating(owner):
            self._bring_about(owner, revision, wanted)
        self._report(owner, revision, wanted)
        nodes = self.store.count(NODES)
        if nodes > MANY:
            self.pace(key, nodes * NODE_PACE_S)

    def _nodes_wanted(self, owner: Object) -> set[str]:
        try:
            pod: Pod = from_plain(Pod, made_for(owner))
        except MooringError:
            return set()
        nodes: Iterable[Node] = (from_plain(Node, entry.object()) for entry in self.store.iterate(NODES))
        return {node.name for node in filter(nodes_for(pod), nodes)}

    def _bring_about(self, owner: Object, revision: str, wanted: set[str]) -> None:
        by_node: dict[str, list[Object]] = {}
        for pod in self.owned(owner["metadata"]["uid"], PODS):
            by_node.setdefault(target_node(pod), []).append(pod)
        for name in sorted(wanted):
            pods = by_node.get(name, [])
            for pod in pods:
                if phase(pod) in ("Failed", "Succeeded") and not is_terminating(pod):
                    self.delete_pod(pod)
            alive = [pod for pod in pods if is_active(pod)]
            if not alive and not any(is_terminating(pod) for pod in pods):
                self._create(owner, name, revision)
            for extra in sorted(alive, key=lambda pod: pod["metadata"]["creationTimestamp"])[1:]:
                self.delete_pod(extra)
        for name, pods in by_node.items():
            if name not in wanted:
                for pod in pods:
                    if not is_terminating(pod):
                        self.delete_pod(pod)
        self._update(owner, revision, wanted, by_node)

    def _update(self, owner: Object, revision: str, wanted: set[str], by_node: dict[str, list[Object]]) -> None:
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete" or not wanted:
            return
        allowed = max(1, share((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(wanted), up=True))
        now, min_ready_s = self.api.clock.now(), owner["spec"].get("minReadySeconds", 0)
        old: list[tuple[bool, Object]] = []
        down = 0
        for name in sorted(wanted):
            alive = [pod for pod in by_node.get(name, []) if is_active(pod)]
            up = bool(alive) and is_available(alive[0], min_ready_s, now)
            if alive and label(alive[0], HASH) != revision:
                old.append((up, alive[0]))
            elif not up:
                down += 1
        for up, pod in sorted(old, key=lambda each: each[0]):
            if up and down >= allowed:
                return
            down += 1
            self.delete_pod(pod)

    def _create(self, owner: Object, node: str, revision: str) -> None:
        metadata = owner["metadata"]
        pod = made_for(owner)
        pod["metadata"].setdefault("labels", {})[HASH] = revision
        affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        field: Object = {"key": "metadata.name", "operator": "In", "values": [node]}
        required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{}]})
        for term in required["nodeSelectorTerms"]:
            term["matchFields"] = [field]
        self.api.create(PODS, metadata["namespace"], pod)

    def _report(self, owner: Object, revision: str, wanted: set[str]) -> None:
        pods = [pod for pod in self.owned(owner["metadata"]["uid"], PODS) if is_active(pod)]
        on = {target_node(pod): pod for pod in pods if target_node(pod) in wanted}
        now, min_ready_s = self.api.clock.now(), owner["spec"].get("minReadySeconds", 0)
        there = [pod for pod in on.values() if is_available(pod, min_ready_s, now)]
        updated = [pod for pod in on.values() if label(pod, HASH) == revision]
        status: Object = {
            "currentNumberScheduled": len(on),
            "numberMisscheduled": len(pods) - len(on),
            "desiredNumberScheduled": len(wanted),
            "numberReady": len([pod for pod in on.values() if is_true(pod, "Ready")]),
            "observedGeneration": owner["metadata"].get("generation", 1),
        }
        status |= nonzero(
            updatedNumberScheduled=len(updated),
            numberAvailable=len(there),
            numberUnavailable=len(wanted) - len(there),
        )
        self.report(owner, status)


def made_for(owner: Object) -> Object:
    """Return the pod of a DaemonSet, before it is restricted to a node."""
    pod = pod_from_template(owner, owner["spec"]["template"], generateName=f"{owner['metadata']['name']}-")
    pod["spec"]["tolerations"] = daemon_tolerations(pod["spec"])
    return pod


def nodes_for(pod: Pod) -> Callable[[Node], bool]:
    """Return a function that selects nodes for a DaemonSet's pod: by selector, affinity and tolerations, without regard
    to room.
    """
    requirements, spec = NodeRequirements(pod.spec), pod.spec

    def belongs(node: Node) -> bool:
        return (
            requirements.matches(node.name, node.metadata.labels)
            and spec.node_name in ("", node.name)
            and first_untolerated(node.spec.taints, spec.tolerations) is None
        )

    return belongs


def target_node(pod: Object) -> str:
    """The node a daemon's pod is on, or was made for."""
    name = pod["spec"].get("nodeName")
    if name:
        return str(name)
    affinity: Any = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _matters(event: Event) -> bool:
    """Report whether a node's change can change which pods belong there: heartbeats cannot."""
    before, after = event.previous.object() if event.previous else {}, event.entry.object()
    return (before.get("spec"), (before.get("metadata") or {}).get("labels")) != (
        after.get("spec"),
        after["metadata"].get("labels"),
    )
