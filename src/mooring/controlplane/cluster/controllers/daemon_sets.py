"""DaemonSets: one pod on every node that will have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.api.errors import MooringError
from mooring.api.pod_templates import daemon_tolerations
from mooring.api.selectors import first_untolerated
from mooring.controlplane.cluster.controllers.base import (
    Controller,
    is_active,
    is_terminating,
    is_true,
    phase,
    pod_from_template,
)
from mooring.controlplane.cluster.controllers.deployments import share, template_hash
from mooring.controlplane.cluster.controllers.replicas import MANY, is_available
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.apps import DAEMON_SETS
from mooring.controlplane.storage.store import ADDED, DELETED, Event
from mooring.controlplane.types.objects import Object
from mooring.core.state.node_selector import NodeRequirements

HASH = "controller-revision-hash"
PACE_S = 0.0005  # per node: all of them are looked at each time


class DaemonSetController(Controller):
    """Creates pods that may go to one node only; the scheduler then decides whether they fit there."""

    watches: ClassVar[tuple[str, ...]] = ("daemonsets.apps", "pods", "nodes")

    def noted(self, event: Event) -> Iterable[str]:
        if event.kind is PODS:
            return self.owner_keys(event, "DaemonSet")
        if event.kind is NODES:
            if event.type not in (ADDED, DELETED) and not _matters(event):
                return ()
            return [entry.key for entry in self.store.iterate(DAEMON_SETS)]
        return (event.entry.key,)

    def reconcile(self, key: str) -> None:
        entry = self.store.entry(DAEMON_SETS, key)
        if entry is None:
            return
        owner = entry.object()
        revision = template_hash(owner["spec"]["template"])
        wanted = self._nodes_wanted(owner)
        if not is_terminating(owner):
            self._bring_about(owner, revision, wanted)
        self._report(key, owner, revision, wanted)
        nodes = self.store.count(NODES)
        if nodes > MANY:
            self.pace(key, nodes * PACE_S)

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
                    self._delete(pod)
            alive = [pod for pod in pods if is_active(pod)]
            if not alive and not any(is_terminating(pod) for pod in pods):
                self._create(owner, name, revision)
            for extra in sorted(alive, key=lambda pod: pod["metadata"]["creationTimestamp"])[1:]:
                self._delete(extra)
        for name, pods in by_node.items():
            if name not in wanted:
                for pod in pods:
                    if not is_terminating(pod):
                        self._delete(pod)
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
            if alive and (alive[0]["metadata"].get("labels") or {}).get(HASH) != revision:
                old.append((up, alive[0]))
            elif not up:
                down += 1
        for up, pod in sorted(old, key=lambda each: each[0]):
            if up and down >= allowed:
                return
            down += 1
            self._delete(pod)

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

    def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        self.api.delete(PODS, metadata["namespace"], metadata["name"], {"preconditions": {"uid": metadata["uid"]}})

    def _report(self, key: str, owner: Object, revision: str, wanted: set[str]) -> None:
        entry = self.store.entry(DAEMON_SETS, key)
        if entry is None or entry.uid != owner["metadata"]["uid"]:
            return
        pods = [pod for pod in self.owned(entry.uid, PODS) if is_active(pod)]
        on = {target_node(pod): pod for pod in pods if target_node(pod) in wanted}
        now, min_ready_s = self.api.clock.now(), owner["spec"].get("minReadySeconds", 0)
        there = [pod for pod in on.values() if is_available(pod, min_ready_s, now)]
        updated = [pod for pod in on.values() if (pod["metadata"].get("labels") or {}).get(HASH) == revision]
        status: Object = {
            "currentNumberScheduled": len(on),
            "numberMisscheduled": len(pods) - len(on),
            "desiredNumberScheduled": len(wanted),
            "numberReady": len([pod for pod in on.values() if is_true(pod, "Ready")]),
            "observedGeneration": owner["metadata"].get("generation", 1),
        }
        rest = {
            "updatedNumberScheduled": len(updated),
            "numberAvailable": len(there),
            "numberUnavailable": len(wanted) - len(there),
        }
        status |= {name: count for name, count in rest.items() if count}
        self.set_status(entry, status)


def made_for(owner: Object) -> Object:
    """The pod of a DaemonSet, before it is bound to go to one node."""
    pod = pod_from_template(owner, owner["spec"]["template"], generateName=f"{owner['metadata']['name']}-")
    pod["spec"]["tolerations"] = daemon_tolerations(pod["spec"])
    return pod


def nodes_for(pod: Pod) -> Callable[[Node], bool]:
    """Says which nodes get a DaemonSet's pod: by its selector, affinity and tolerations. Room does not matter."""
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
    """Whether a node's change can change who belongs there: heartbeats do not."""
    before, after = event.previous.object() if event.previous else {}, event.entry.object()
    return (before.get("spec"), (before.get("metadata") or {}).get("labels")) != (
        after.get("spec"),
        after["metadata"].get("labels"),
    )
