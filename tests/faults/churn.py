"""What happens during a soak: pods are created and deleted, nodes flap, watches drop, requests fail, leaders change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from mooring.controlplane.registry.catalog import NODES, PODS, by_resource
from mooring.controlplane.registry.subresources import evict
from mooring.controlplane.registry.verbs import Options
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import FaultRule, Faults
from mooring.controlplane.types.status import StatusError

NAMESPACE = "default"
LEASES = by_resource("leases.coordination.k8s.io")
CLASSES = by_resource("priorityclasses.scheduling.k8s.io")
CPUS = ("100m", "250m", "500m", "1", "2")
MEMORY = ("64Mi", "256Mi", "1Gi")
NODE_AMOUNTS = {"cpu": "8", "memory": "16Gi", "pods": "30"}
ZONE = "topology.kubernetes.io/zone"
FAULT_EVERY = 20  # of so many steps one is a fault
FULL = 0.9  # pods are made until they ask for this share of all CPUs, then as many go as come


class Churn:
    """Does one random thing at a time, from a seeded generator; ``done`` counts what.

    Faults are dealt like cards: before one comes again more often than its share, all others have come.
    """

    def __init__(self, plane: ControlPlane, faults: Faults, rng: random.Random, nodes: int, lease: str) -> None:
        self._api, self._hub, self._faults, self._rng = plane.api, plane.hub, faults, rng
        self._node_names = [f"node-{i:03d}" for i in range(nodes)]
        self._lease = lease
        self._count = 0
        self.steps = 0
        self.done: Counter[str] = Counter()
        self._common: dict[Callable[[], None], int] = {self._create: 50, self._delete: 30, self._evict: 6}
        self._faulty: dict[Callable[[], None], int] = {
            self._cordon: 6,
            self._lose_node: 3,
            self._drop_watch: 4,
            self._expire_watch: 2,
            self._fail_binding: 4,
            self._fail_requests: 2,
        }
        self._deck: list[Callable[[], None]] = []

    def set_up(self) -> None:
        self._api.create(CLASSES, "", _object("scheduling.k8s.io/v1", "PriorityClass", "high", value=1000))
        for name in self._node_names:
            self._create_node(name)

    @property
    def steps_for_all_faults(self) -> int:
        """After so many steps every kind of fault has come."""
        return FAULT_EVERY * sum(self._faulty.values())

    def step(self) -> None:
        """Make one change; a change that the API server refuses, because another was faster, does not happen."""
        self.steps += 1
        if self.steps % FAULT_EVERY == 0:
            act = self._deal()
        else:
            act = self._rng.choices(list(self._common), list(self._common.values()))[0]
        try:
            act()
        except StatusError as error:
            self.done[f"refused {error.code}"] += 1
        else:
            self.done[act.__name__.strip("_")] += 1

    def _deal(self) -> Callable[[], None]:
        if not self._deck:
            self._deck = [act for act, times in self._faulty.items() for _ in range(times)]
            self._rng.shuffle(self._deck)
        return self._deck.pop()

    def calm(self, share: float) -> None:
        """End all faults, repair the nodes, and delete pods until the rest certainly has room."""
        self._faults.rules.clear()
        for name in self._node_names:
            if self._api.store.get(NODES, "", name) is None:
                self._create_node(name)
            self._api.modify(NODES, "", name, lambda obj: obj["spec"].pop("unschedulable", None))
        names = [entry.name for entry in self._api.store.iterate(PODS, NAMESPACE)]
        self._rng.shuffle(names)
        keep = int(len(self._node_names) * 8 * share / max(float(_cpus(cpu)) for cpu in CPUS))
        for name in names[keep:]:
            self._api.delete(PODS, NAMESPACE, name, {"gracePeriodSeconds": 0})

    # Pods

    def _create(self) -> None:
        if self._asked_share() > FULL:
            self._delete()
        self._count += 1
        requests = {"cpu": self._rng.choice(CPUS), "memory": self._rng.choice(MEMORY)}
        labels = {"app": f"app-{self._rng.randrange(5)}"}
        spec: dict[str, Any] = {"containers": [{"name": "c", "image": "app", "resources": {"requests": requests}}]}
        spec["terminationGracePeriodSeconds"] = self._rng.choice((0, 1))
        kind = self._rng.random()
        if kind < 0.1:
            spec["priorityClassName"] = "high"
        elif kind < 0.3:
            soft = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
            spec["topologySpreadConstraints"] = [{**soft, "labelSelector": {"matchLabels": labels}}]
        elif kind < 0.4:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
            wish = {"weight": 10, "podAffinityTerm": term}
            spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
        pod = _object("v1", "Pod", f"pod-{self._count:06d}", spec=spec)
        pod["metadata"]["labels"] = labels
        self._api.create(PODS, NAMESPACE, pod)

    def _asked_share(self) -> float:
        return self._api.store.count(PODS) * 0.77 / (len(self._node_names) * 8)  # 0.77: the mean of CPUS

    def _some_pod(self) -> str:
        keys = [entry.name for entry in self._api.store.iterate(PODS, NAMESPACE)]
        if not keys:
            raise StatusError(404, "NotFound", "there are no pods")
        return self._rng.choice(keys)

    def _delete(self) -> None:
        self._api.delete(PODS, NAMESPACE, self._some_pod())

    def _evict(self) -> None:
        evict(self._api, NAMESPACE, self._some_pod(), b"", Options())

    # Nodes

    def _create_node(self, name: str) -> None:
        node = _object("v1", "Node", name, status={"capacity": NODE_AMOUNTS, "allocatable": NODE_AMOUNTS}, spec={})
        node["metadata"]["labels"] = {"kubernetes.io/hostname": name, ZONE: f"zone-{hash_of(name) % 3}"}
        self._api.create(NODES, "", node)

    def _cordon(self) -> None:
        """Cordon a node, or uncordon it; where a quarter is cordoned already, one of those is uncordoned."""

        def change(obj: dict[str, Any]) -> None:
            if not obj["spec"].pop("unschedulable", False):
                obj["spec"]["unschedulable"] = True

        present = list(self._api.store.iterate(NODES))
        cordoned = [entry for entry in present if entry.object()["spec"].get("unschedulable")]
        choices = cordoned if 4 * len(cordoned) >= len(present) else present
        if choices:
            self._api.modify(NODES, "", self._rng.choice(choices).name, change)

    def _lose_node(self) -> None:
        """A node goes, and its pods with it; or one that went comes back, at the latest when a fifth is missing."""
        missing = [name for name in self._node_names if self._api.store.get(NODES, "", name) is None]
        name = self._rng.choice(missing if 5 * len(missing) >= len(self._node_names) else self._node_names)
        if name in missing:
            self._create_node(name)
            return
        self._api.delete(NODES, "", name)
        for entry in list(self._api.store.pods_on(name)):
            self._api.delete(PODS, entry.namespace, entry.name, {"gracePeriodSeconds": 0})

    # The API server

    def _drop_watch(self) -> None:
        self._hub.close_all(self._rng.choice((PODS, NODES, None)))

    def _expire_watch(self) -> None:
        self._faults.add(FaultRule("gone", on_watch=True, path=self._rng.choice(("/pods", "/nodes"))))

    def _fail_binding(self) -> None:
        action, code = self._rng.choice((("error", 500), ("error", 409), ("throttle", 429), ("drop", 0)))
        self._faults.add(FaultRule(action, "POST", r"/binding$", code=code, seconds=1))

    def _fail_requests(self) -> None:
        self._faults.add(FaultRule(self._rng.choice(("error", "drop")), path=r"/(status|events)", times=3))
        if len(self._faults.rules) > 50:
            self._faults.rules[:] = [rule for rule in self._faults.rules if rule.times > 0]

    def steal_lease(self) -> bool:
        """Write the lease in another name: the leader must notice and stop before that lease expires.

        The duration stays: a lease shorter than the leader's renewal deadline would allow two leaders by the rules.
        """

        def change(obj: dict[str, Any]) -> None:
            obj["spec"]["holderIdentity"] = "a-thief"

        try:
            self._api.modify(LEASES, "kube-system", self._lease, change)
        except StatusError as error:
            self.done[f"refused {error.code}"] += 1
            return False
        self.done["steal_lease"] += 1
        return True


def hash_of(name: str) -> int:
    """A number that is the same in every process, unlike hash()."""
    return sum(name.encode())


def _cpus(quantity: str) -> float:
    return float(quantity.removesuffix("m")) / (1000 if quantity.endswith("m") else 1)


def _object(api_version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **rest}
