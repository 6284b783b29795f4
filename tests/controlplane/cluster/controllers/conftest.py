"""A small cluster without a scheduler: a store, controllers, kubelets, and time that passes when a test says so."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from mooring.api.clock import VirtualClock
from mooring.controlplane.cluster.garbage import GarbageCollector
from mooring.controlplane.cluster.kubelet import Kubelets
from mooring.controlplane.cluster.manager import ControllerManager
from mooring.controlplane.registry.catalog import NODES, PODS, by_resource
from mooring.controlplane.registry.subresources import bind_pod
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage.store import Store
from mooring.controlplane.types.status import StatusError
from tests.controlplane.timers import DiscreteTimers

Object = dict[str, Any]
START = 1_767_225_600.0


class Lab:
    """Everything, and a scheduler that puts pods on the first ready node."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.timers = DiscreteTimers(self.clock)
        numbers = itertools.count(1)
        self.api = Api(
            Store(),
            self.clock,
            new_uid=lambda: f"uid-{next(numbers)}",
            rng=random.Random(0),
            default_tolerations=True,
        )
        self.store = self.api.store
        for name in ("default", "kube-node-lease"):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, settle=False)
        self.garbage = GarbageCollector(self.api)
        self.garbage.start()
        self.controllers = ControllerManager(self.api, self.timers)
        self.kubelets = Kubelets(self.api, self.timers)
        self.controllers.start()
        self.kubelets.start()
        self.binds = True

    def create(self, obj: Object, *, settle: bool = True) -> Object:
        kind = by_resource_of(obj)
        space = obj["metadata"].get("namespace", "default") if kind.is_namespaced else ""
        made = self.api.create(kind, space, obj).object()
        if settle:
            self.settle()
        return made

    def nodes(self, count: int, **labels: str) -> None:
        for i in range(1, count + 1):
            self.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node{i}", "labels": labels}})

    def pod(self, name: str, **parts: Any) -> Object:
        annotations = parts.pop("annotations", {})
        spec = {"containers": [{"name": "main", "image": "app"}], **parts}
        metadata = {"name": name, "annotations": annotations, "labels": parts.pop("labels", {})}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def settle(self) -> None:
        """Let everybody react until nothing changes any more."""
        for _ in range(200):
            before = self.store.rv
            self.timers.settle()
            self.garbage.drain()
            if self.binds:
                self._schedule()
            if self.store.rv == before:
                return
        raise AssertionError("the controllers never come to rest")

    def _schedule(self) -> None:
        nodes = [entry.object() for entry in self.store.iterate(NODES)]
        ready = [
            n["metadata"]["name"] for n in nodes if not n["spec"].get("taints") and not n["spec"].get("unschedulable")
        ]
        for entry in list(self.store.iterate(PODS)):
            pod = entry.object()
            if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
                continue
            target = _wanted_node(pod) or (min(ready, key=lambda n: len(self.store.pods_on(n))) if ready else "")
            if target:
                try:
                    bind_pod(self.api, entry.namespace, entry.name, target, {})
                except StatusError:
                    continue

    def advance(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass in steps, everybody reacting in between."""
        left = seconds
        while left > 0:
            self.timers.advance(min(step, left))
            left -= step
            self.settle()

    def get(self, resource: str, name: str, namespace: str = "default") -> Object | None:
        kind = by_resource(resource)
        entry = self.store.get(kind, namespace if kind.is_namespaced else "", name)
        return None if entry is None else entry.object()

    def must(self, resource: str, name: str) -> Object:
        found = self.get(resource, name)
        assert found is not None, f"{resource} {name} does not exist"
        return found

    def list(self, resource: str) -> list[Object]:
        return [entry.object() for entry in self.store.iterate(by_resource(resource))]

    def change(self, resource: str, name: str, change: Any, namespace: str = "default") -> None:
        kind = by_resource(resource)
        self.api.modify(kind, namespace if kind.is_namespaced else "", name, change)
        self.settle()

    def delete(self, resource: str, name: str, **options: Any) -> None:
        kind = by_resource(resource)
        self.api.delete(kind, "default" if kind.is_namespaced else "", name, options)
        self.settle()


def by_resource_of(obj: Object) -> Any:
    from mooring.controlplane.registry.catalog import by_group_kind

    group = obj["apiVersion"].rpartition("/")[0]
    kind = by_group_kind(group, obj["kind"])
    assert kind is not None
    return kind


def _wanted_node(pod: Object) -> str:
    from mooring.controlplane.cluster.pod_sets import target_node

    return target_node(pod)


@pytest.fixture
def lab() -> Lab:
    return Lab()


def template(labels: dict[str, str], **spec: Any) -> Object:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}], **spec}}


def workload(kind: str, name: str = "web", **spec: Any) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": template(labels, terminationGracePeriodSeconds=1),
            **spec,
        },
    }
