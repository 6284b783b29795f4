"""What rules may ask: the other objects, and the cluster with nothing on its nodes but what runs on every node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy, deepcopy
from functools import cached_property
from typing import Any

import numpy as np

from mooring.api.core import Pod, Taint
from mooring.api.defaults import SYSTEM_PRIORITIES, Admission
from mooring.api.meta import Object
from mooring.api.workloads import PriorityClass
from mooring.engine.decision import Decision
from mooring.errors import InputError
from mooring.framework.cycle_state import CycleState
from mooring.framework.interfaces import PreFilterResult
from mooring.linting.subjects import Subject
from mooring.state.node_rows import Mask, NodeRows
from mooring.surface.cluster import Cluster
from mooring.surface.scheduler import Configuration, PluginReference, Scheduler


class Context:
    """The manifests and the cluster that they are meant for; ``cluster`` is None where there is none."""

    def __init__(
        self,
        subjects: list[Subject],
        cluster: Cluster | None,
        config: Configuration = None,
        plugins: Iterable[PluginReference] = (),
        kubernetes_version: str | None = None,
    ) -> None:
        self._version = kubernetes_version
        self.subjects = subjects
        self.cluster = cluster
        self._config, self._plugins = config, tuple(plugins)
        self._objects: dict[type[Any], Mapping[str, Any]] = {}
        self._asked: tuple[Pod, dict[str, Mask]] | None = None  # the rules look at one pod after another
        self._complete_pods()

    def _complete_pods(self) -> None:
        """Fill in what an API server would, so that pods are as the scheduler would see them."""
        others: list[Object] = [] if self.cluster is None else list(self.cluster.state.objects)
        others += [each.obj for each in self.subjects if each.obj is not None and not isinstance(each.obj, Pod)]
        admission = Admission(others)
        for subject in self.subjects:
            pod = subject.pod
            if pod is None or subject.problems:
                continue
            if pod.spec.priority_class_name not in self.priorities:
                pod.spec.priority_class_name = ""  # a rule says so; the rest of the pod can still be looked at
            try:
                admission.admit_pod(pod)
            except InputError as error:
                subject.problems.append(str(error))

    # ---- other objects -----------------------------------------------------------------------------------------

    def all(self, kind: type[Any]) -> Mapping[str, Any]:
        """All objects of a kind, of manifests and of the cluster, by key. A manifest replaces what has its name."""
        if kind not in self._objects:
            theirs = () if self.cluster is None else self.cluster.state.objects.all(kind)
            ours = (subject.obj for subject in self.subjects if isinstance(subject.obj, kind))
            self._objects[kind] = {obj.key: obj for obj in (*theirs, *ours)}
        return self._objects[kind]

    @cached_property
    def priorities(self) -> Mapping[str, int]:
        """Every priority class by name."""
        return {**SYSTEM_PRIORITIES, **{each.name: each.value for each in self.all(PriorityClass).values()}}

    @cached_property
    def pods_in(self) -> Mapping[str, list[Pod]]:
        """The pods of the cluster, by namespace."""
        found: dict[str, list[Pod]] = {}
        for pod in () if self.cluster is None else (*self.cluster.pods, *self.cluster.pending):
            found.setdefault(pod.namespace, []).append(pod)
        return found

    # ---- the cluster -------------------------------------------------------------------------------------------

    @cached_property
    def empty(self) -> Cluster:
        """The cluster with only the pods of DaemonSets on it, also of those in the manifests: what is left is the most
        that a pod can have."""
        assert self.cluster is not None
        daemons = [pod for pod in self.cluster.pods if _is_daemon(pod)]
        empty = Cluster().take_over([*self.cluster.nodes, *daemons, *self.cluster.state.objects])
        empty.release = self.cluster.release
        running = {(pod.namespace, owner.name) for pod in daemons if (owner := pod.metadata.controller()) is not None}
        for subject in self.subjects:
            pod = subject.pod
            if subject.kind != "DaemonSet" or pod is None or subject.problems:
                continue
            if (pod.namespace, subject.name) not in running:
                self._run_everywhere(pod, empty)
        return empty

    def _run_everywhere(self, daemon: Pod, cluster: Cluster) -> None:
        """A pod on each node that the DaemonSet's pods may go to, whether there is room or not."""
        scheduler = Scheduler(cluster, self._config, self._plugins, kubernetes_version=self._version)
        allowed = _passing(scheduler, "NodeAffinity", daemon) & _passing(scheduler, "TaintToleration", daemon)
        names = [info.name for info, here in zip(cluster.state.nodes().infos, allowed, strict=True) if here]
        for name in names:
            twin = copy(daemon)
            twin.metadata = copy(daemon.metadata)
            twin.metadata.name = twin.metadata.uid = f"{daemon.name}-{name}"
            cluster.bind(twin, name)

    @cached_property
    def scheduler(self) -> Scheduler:
        scheduler = Scheduler(self.empty, self._config, self._plugins, kubernetes_version=self._version)
        scheduler.built.engine.batching.is_enabled = False
        return scheduler

    @property
    def nodes(self) -> NodeRows:
        return self.empty.state.nodes()

    @cached_property
    def node_labels(self) -> list[dict[str, str]]:
        """The labels of each node."""
        return [node.labels for node in self.empty.nodes]

    @cached_property
    def label_keys(self) -> frozenset[str]:
        """Every key that some node has."""
        return frozenset(key for labels in self.node_labels for key in labels)

    @cached_property
    def taints(self) -> list[Taint]:
        """Every taint that some node has, once."""
        found = {
            (taint.key, taint.value, taint.effect): taint for node in self.empty.nodes for taint in node.spec.taints
        }
        return list(found.values())

    def passes(self, plugin: str, pod: Pod) -> Mask:
        """Where this plugin of the scheduler lets the pod pass; everywhere if the profile does not have it."""
        if self._asked is None or self._asked[0] is not pod:
            self._asked = (pod, {})
        known = self._asked[1]
        if plugin not in known:
            known[plugin] = _passing(self.scheduler, plugin, pod)
        return known[plugin]

    def decide(self, pod: Pod) -> Decision:
        """What the scheduler says of the pod where no other pod is in its way.

        What may come later is left out: other pods that it wants to be with, claims that are not bound, gates.
        """
        alone = deepcopy(pod)
        spec = alone.spec
        spec.scheduling_gates, spec.volumes, spec.resource_claims = [], [], []
        if spec.affinity is not None:
            spec.affinity.pod_affinity = None
        profiles = self.scheduler.built.profiles
        if spec.scheduler_name not in profiles:
            spec.scheduler_name = next(iter(profiles))
        return self.scheduler.built.decide(alone, detail=False)


def _passing(scheduler: Scheduler, name: str, pod: Pod) -> Mask:
    cluster, profiles = scheduler.cluster.state, scheduler.built.profiles
    nodes, info, state = cluster.nodes(), cluster.info(pod), CycleState()
    profile = profiles.get(pod.spec.scheduler_name) or next(iter(profiles.values()))
    plugin = profile.plugins.get(name)
    mask = np.ones(len(nodes), np.bool_)
    if plugin is None:
        return mask
    if "preFilter" in plugin.points:
        answer = plugin.pre_filter(state, info, nodes)
        if isinstance(answer, PreFilterResult):
            if answer.node_names is not None:
                mask &= np.array([node.name in answer.node_names for node in nodes.infos], np.bool_)
        elif answer.is_skip:
            return mask
        elif not answer.is_success:
            return np.zeros(len(nodes), np.bool_)
    verdict = plugin.filter(state, info, nodes) if "filter" in plugin.points else None
    return mask if verdict is None else mask & (verdict.ids == 0)


def _is_daemon(pod: Pod) -> bool:
    owner = pod.metadata.controller()
    return owner is not None and owner.kind == "DaemonSet"
