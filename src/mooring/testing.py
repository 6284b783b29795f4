"""Builders and a scheduler without a cluster: for tests of plugins, of configurations, and of mooring itself.

    from mooring.testing import decide, make_node, make_pod

Objects are ordinary API objects: fields without a parameter are written as on the wire, in camelCase, through ``spec``,
``metadata`` and ``status``. A :class:`Scheduler` keeps its cluster, so that pods can be placed one after another;
:func:`filter_statuses`, :func:`scores`, :func:`facts` and :func:`remedies` call one plugin alone. A method of an SDK
plugin takes a pod and a :func:`make_node_view`.

Objects are ordinary API objects: what a builder has no parameter for is written as on the wire, in camelCase, through
``spec``, ``metadata`` and ``status``. A :class:`Scheduler` keeps its cluster, so that pods can come one after another;
:func:`filter_statuses`, :func:`scores`, :func:`facts` and :func:`remedies` ask one plugin alone. A method of an SDK
plugin takes a pod and a :func:`make_node_view`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from mooring.api.clock import VirtualClock
from mooring.api.codec import from_plain, struct_of
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.api.pod_groups import PodGroup
from mooring.api.well_known import HOSTNAME, ZONE
from mooring.ask import scheduler as surface_scheduler
from mooring.core import cluster as surface_cluster
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.config.versions import DEFAULT_VERSION
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import Change, PreFilterResult
from mooring.core.framework.per_node import NodeView, NodeViews
from mooring.core.framework.registry import ResolvedPlugin, resolve
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import SUCCESS, Status
from mooring.core.session import Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows

__all__ = [
    "DEFAULT_SCHEDULER",
    "NOON",
    "Scheduler",
    "bound",
    "decide",
    "facts",
    "filter_statuses",
    "make_cluster",
    "make_handle",
    "make_node",
    "make_node_view",
    "make_object",
    "make_pod",
    "make_pod_group",
    "remedies",
    "scores",
]

DEFAULT_SCHEDULER = "default-scheduler"
NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z: the time of a test's clock


# ---- objects -----------------------------------------------------------------------------------------------------


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node: str = "",
    priority: int | None = None,
    group: str = "",
    cpu: str | int | None = None,
    memory: str | int | None = None,
    requests: Mapping[str, str | int] | None = None,
    image: str = "",
    host_ports: Iterable[int] = (),
    spec: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Pod:
    """Return a pod with one container that requests ``cpu``, ``memory`` and other ``requests``; ``node`` is where it
    runs.

    ``group`` is its pod group.

    ``spec``, ``metadata`` and ``status`` are merged into it in wire format; a ``containers`` list in ``spec`` replaces
    the container.
    """
    wanted: dict[str, str | int] = dict(requests or {})
    wanted |= {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    container: dict[str, Any] = {"name": "main", "image": image or "registry.example/app:1"}
    if wanted:
        container["resources"] = {"requests": wanted}
    ports = [{"containerPort": port, "hostPort": port} for port in host_ports]
    if ports:
        container["ports"] = ports
    whole_spec: dict[str, Any] = {"schedulerName": DEFAULT_SCHEDULER, "containers": [container]}
    if node:
        whole_spec["nodeName"] = node
    if priority is not None:
        whole_spec["priority"] = priority
    if group:
        whole_spec["schedulingGroup"] = {"podGroupName": group}
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid or f"uid-{namespace}-{name}"}
    if labels:
        meta["labels"] = dict(labels)
    if annotations:
        meta["annotations"] = dict(annotations)
    value = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, **(metadata or {})},
        "spec": {**whole_spec, **(spec or {})},
        "status": dict(status or {}),
    }
    pod: Pod = from_plain(Pod, value)
    return pod


def make_pod_group(
    name: str = "group",
    *,
    gang: int | None = None,
    priority: int = 0,
    namespace: str = "default",
    topology: str = "",
    evicted_as_one: bool = False,
) -> PodGroup:
    """Return a pod group: a gang of which this many pods must run together, or a basic group.

    ``topology`` is the node label that must be equal for all its pods.
    """
    spec: dict[str, Any] = {
        "schedulingPolicy": {"basic": {}} if gang is None else {"gang": {"minCount": gang}},
        "disruptionMode": {"all" if evicted_as_one else "single": {}},
        "priority": priority,
    }
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    made: PodGroup = make_object("PodGroup", name, namespace, spec=spec)
    return made


def make_node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    zone: str = "",
    cpu: str | int = "4",
    memory: str | int = "8Gi",
    pods: str | int | None = 110,
    allocatable: Mapping[str, str | int] | None = None,
    taints: Iterable[str | Mapping[str, str]] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    features: Sequence[str] = (),
    spec: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Node:
    """Return a ready node of 4 cores and 8 GiB with its hostname label, and a zone label if given.

    Taints may be written as kubectl writes them, ``key=value:Effect``; ``images`` are names with their sizes.
    """
    amounts: dict[str, str | int] = {"cpu": cpu, "memory": memory, **(allocatable or {})}
    if pods is not None:
        amounts["pods"] = pods
    whole_status: dict[str, Any] = {
        "allocatable": amounts,
        "capacity": amounts,
        "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
        "declaredFeatures": list(features),
    }
    whole_spec: dict[str, Any] = {"taints": [_taint(taint) for taint in taints]}
    if unschedulable:
        whole_spec["unschedulable"] = True
    whole_labels = {HOSTNAME: name, **({ZONE: zone} if zone else {}), **(labels or {})}
    meta: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "labels": whole_labels}
    if annotations:
        meta["annotations"] = dict(annotations)
    value = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**meta, **(metadata or {})},
        "spec": {**whole_spec, **(spec or {})},
        "status": {**whole_status, **(status or {})},
    }
    node: Node = from_plain(Node, value)
    return node


def _taint(taint: str | Mapping[str, str]) -> Mapping[str, str]:
    if not isinstance(taint, str):
        return taint
    rest, _, effect = taint.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect}


def make_node_view(node: Node | str = "node-1", *pods: Pod, **fields: Any) -> NodeView:
    """Return a node as an SDK plugin sees it, with these pods on it; a name and fields are those of ``make_node``."""
    made = make_node(node, **fields) if isinstance(node, str) else node
    cluster = make_cluster(made, *(bound(pod, made.name) for pod in pods))
    return NodeViews(cluster.snapshot())[0]


def make_object(kind: str, name: str, namespace: str = "", **fields: Any) -> Any:
    """Return an object of any kind that scheduling reads; ``fields`` are its other top-level fields, as on the wire."""
    meta = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}", **fields.pop("metadata", {})}
    if namespace:
        meta["namespace"] = namespace
    struct = struct_of(kind, fields.get("apiVersion"))
    assert struct is not None, f"scheduling reads no {kind}"
    return from_plain(struct, {"kind": kind, "metadata": meta, **fields})


def bound(pod: Pod, node: str) -> Pod:
    """Return the same pod, running on a node."""
    placed = copy(pod)
    placed.spec = copy(pod.spec)
    placed.spec.node_name = node
    return placed


# ---- clusters and decisions --------------------------------------------------------------------------------------


def make_cluster(*objects: Object) -> ClusterState:
    """Return a cluster with these objects, added in order."""
    cluster = ClusterState()
    for obj in objects:
        cluster.put(obj)
    return cluster


def make_handle(cluster: ClusterState, **fields: Any) -> Handle:
    """Return a plugin's handle, with a clock that does not advance."""
    return Handle(cluster, **{"clock": VirtualClock(NOON), **fields})


class Scheduler:
    """A :class:`mooring.Scheduler` whose clock is fixed at noon, for tests of the engine's own decisions."""

    def __init__(
        self,
        *objects: Object,
        config: Mapping[str, Any] | KubeSchedulerConfiguration | None = None,
        plugins: Iterable[type] = (),
        uses_cache: bool = True,
        kubernetes_version: str = str(DEFAULT_VERSION),
    ) -> None:
        """``config`` is a KubeSchedulerConfiguration (apiVersion and kind may be left out); ``plugins`` are classes
        beside the in-tree ones. A profile in ``config`` enables them by name; without ``config`` they are enabled."""
        cluster = surface_cluster.Cluster().take_over(objects)
        self.clock = VirtualClock(NOON)
        self.session: Session = surface_scheduler.Scheduler(
            cluster, config, plugins, clock=self.clock, kubernetes_version=kubernetes_version
        ).session
        self.session.engine.uses_cache = uses_cache
        self.session.takes_all = False  # a test names the profile
        self.cluster = cluster.state
        self.nominations = cluster.nominations

    @property
    def profiles(self) -> dict[str, Profile]:
        return self.session.profiles

    def put(self, *objects: Object) -> None:
        """Add or update objects."""
        for obj in objects:
            self.cluster.put(obj)

    def nominate(self, pod: Pod, node: str) -> None:
        """Nominate a pending pod to a node."""
        self.nominations.nominate(self.cluster.info(pod), node)

    def decide(self, pod: Pod) -> ScheduleResult:
        """Decide about one pod; the cluster stays unchanged."""
        return self.session.engine.decide(self.cluster.info(pod), self.session.profile_for(pod))

    def place(self, pod: Pod) -> ScheduleResult:
        """Decide, and let the pod run on its node."""
        decision = self.decide(pod)
        if decision.outcome is Outcome.SCHEDULED:
            self.cluster.put(bound(pod, str(decision.node)))
        return decision


def decide(
    pod: Pod,
    *objects: Object,
    config: Mapping[str, Any] | KubeSchedulerConfiguration | None = None,
    plugins: Iterable[type] = (),
    kubernetes_version: str = str(DEFAULT_VERSION),
) -> ScheduleResult:
    """Decide about one pod in a cluster of these objects."""
    return Scheduler(*objects, config=config, plugins=plugins, kubernetes_version=kubernetes_version).decide(pod)


# ---- one plugin alone --------------------------------------------------------------------------------------------


def filter_statuses(plugin: Any, cluster: ClusterState, pod: Pod) -> dict[str, Status]:
    """Return the combined status of a plugin's PreFilter and Filter for every node, by node name.

    A PreFilter that rejects the pod rejects it on every node; one that skips lets all nodes pass; one that narrows the
    search leaves the other nodes with ``node(s) didn't satisfy plugin(s) [name]``, as in a cycle.
    """
    return _judged(resolve(plugin), CycleState(), cluster, pod)


def facts(plugin: Any, cluster: ClusterState, pod: Pod) -> list[str]:
    """Return a plugin's facts about the nodes where it rejects the pod."""
    asked, state = resolve(plugin), CycleState()
    refused = _refused(asked, state, cluster, pod)
    return [] if asked.facts is None else list(asked.facts(state, cluster.info(pod), refused))


def remedies(plugin: Any, cluster: ClusterState, pod: Pod) -> list[str]:
    """Return a plugin's remedies for the nodes that it rejects. Only a decision can tell whether one helps."""
    asked, state = resolve(plugin), CycleState()
    refused = _refused(asked, state, cluster, pod)
    offered = [] if asked.remedies is None else list(asked.remedies(state, cluster.info(pod), refused))
    changes = [(each,) if isinstance(each, Change) else each for each in offered]
    return list(dict.fromkeys(" and ".join(str(change) for change in remedy) for remedy in changes if remedy))


def _refused(plugin: ResolvedPlugin, state: CycleState, cluster: ClusterState, pod: Pod) -> NodeRows:
    statuses = _judged(plugin, state, cluster, pod)
    return _named(cluster.nodes(), (name for name, status in statuses.items() if not status.is_success))


def _judged(plugin: ResolvedPlugin, state: CycleState, cluster: ClusterState, pod: Pod) -> dict[str, Status]:
    info, nodes = cluster.info(pod), cluster.nodes()
    names = [node.name for node in nodes.infos]
    allowed: frozenset[str] | None = None
    if "preFilter" in plugin.points:
        answer = plugin.pre_filter(state, info, nodes)
        if isinstance(answer, PreFilterResult):
            allowed = answer.node_names
        elif answer.is_skip:
            return dict.fromkeys(names, SUCCESS)
        elif not answer.is_success:
            return dict.fromkeys(names, answer)
    found = dict.fromkeys(names, SUCCESS)
    if "filter" in plugin.points:
        verdict = plugin.filter(state, info, nodes)
        if verdict is not None:
            found = {name: verdict.status_of(int(number)) for name, number in zip(names, verdict.ids, strict=True)}
    if allowed is not None:
        outside = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{plugin.name}]")
        found = {name: status if name in allowed else outside for name, status in found.items()}
    return found


def scores(
    plugin: Any, cluster: ClusterState, pod: Pod, feasible: Iterable[str] | None = None, *, normalized: bool = True
) -> dict[str, int] | None:
    """A plugin's scores of the feasible nodes (all, unless named), by node name; None when it skips."""
    everywhere = cluster.nodes()
    info, state = cluster.info(pod), CycleState()
    nodes = everywhere if feasible is None else _named(everywhere, feasible)
    asked = resolve(plugin)
    if "preScore" in asked.points:
        status = asked.pre_score(state, info, nodes)
        if status.is_skip:
            return None
        if not status.is_success:
            raise ValueError(status.message)
    found = asked.score(state, info, nodes)
    if found is None:  # 0 everywhere
        found = np.zeros(len(nodes), np.int64)
    if normalized and asked.normalize is not None:
        found = asked.normalize(state, info, np.array(found), nodes)
    return {node.name: int(score) for node, score in zip(nodes.infos, found, strict=True)}


def _named(nodes: NodeRows, names: Iterable[str]) -> NodeRows:
    wanted = set(names)
    return nodes.subset(np.array([i for i, info in enumerate(nodes.infos) if info.name in wanted], np.int64))
