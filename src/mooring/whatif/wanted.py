"""The pods that a plan must find room for: those that wait, or those of manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.errors import InputError
from mooring.state.pod_info import PodInfo
from mooring.surface.asked_pod import find_pod
from mooring.surface.cluster import Cluster
from mooring.surface.manifests import read_manifests, warn
from mooring.surface.scheduler import Scheduler
from mooring.whatif.copies import Copies
from mooring.whatif.placing import Placing


def waiting_pods(cluster: Cluster, placing: Placing) -> list[PodInfo]:
    """The pods of the cluster that wait for a node, and are not held back by a gate."""
    return [placing.info(pod) for pod in cluster.pending if not pod.spec.scheduling_gates]


def pods_of(pods: Mapping[str, int | None], scheduler: Scheduler, placing: Placing) -> list[PodInfo]:
    """Copies of these pods; without a number, as many as the workload in the manifest asks for."""
    found: list[PodInfo] = []
    for pod, number in pods.items():
        asked = find_pod(pod, scheduler.cluster)
        warn(asked.warnings)
        for obj in asked.others:
            placing.state.objects.put(obj)
        copies = Copies(asked.pod, placing.state)
        found += [copies.next() for _ in range(_replicas(pod, scheduler) if number is None else number)]
    return found


def _replicas(pod: str, scheduler: Scheduler) -> int:
    """How many pods the workload of a manifest makes; 1 for a pod."""
    if scheduler.cluster.find_pod(pod if "/" in pod else f"default/{pod}") is not None:
        return 1
    workloads = read_manifests([pod], scheduler.cluster.context()).workloads
    return _number(workloads[0][1]) if workloads else 1


def _number(workload: Mapping[str, Any]) -> int:
    if workload["kind"] == "DaemonSet":
        raise InputError(f"DaemonSet {workload['metadata']['name']}: it makes a pod per node; add it to the cluster")
    spec = workload.get("spec") or {}
    if workload["kind"] == "CronJob":
        spec = ((spec.get("jobTemplate") or {}).get("spec")) or {}
    number = spec.get("parallelism" if "Job" in workload["kind"] else "replicas")
    return 1 if number is None else int(number)


def in_queue_order(placing: Placing, pods: Iterable[PodInfo]) -> list[PodInfo]:
    """As the queue would hand them out, had they all come at the same time."""

    def key(pod: PodInfo) -> Any:
        return placing.profile_of(pod.pod).queue_sort[0].sort_key(pod.priority, 0.0)

    return sorted(pods, key=key)


def groups_of(pods: Iterable[PodInfo]) -> list[list[PodInfo]]:
    """Pods that differ in nothing but their names."""
    found: dict[tuple[int, int], list[PodInfo]] = {}
    for pod in pods:
        found.setdefault((pod.shape.id, pod.cls.id), []).append(pod)
    return list(found.values())
