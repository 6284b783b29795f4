"""The pods that a plan must find room for: those that wait, or those of manifests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.api.core import Pod
from mooring.api.manifests import SUFFIXES
from mooring.errors import InputError
from mooring.state.pod_info import PodInfo
from mooring.surface.asked_pod import AskedPod, find_pod
from mooring.surface.cluster import Cluster
from mooring.surface.manifests import read_manifests, warn
from mooring.surface.scheduler import Scheduler
from mooring.whatif.copies import Copies
from mooring.whatif.placing import Placing


def waiting_pods(cluster: Cluster, placing: Placing) -> list[PodInfo]:
    """The pods of the cluster that wait for a node, and are not held back by a gate."""
    return [placing.info(pod) for pod in cluster.pending if not pod.spec.scheduling_gates]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Pods that need a place, and pods that DaemonSets put onto every node, not tied to one yet."""

    pods: list[PodInfo] = field(default_factory=list)
    daemons: list[Pod] = field(default_factory=list)


def pods_of(pods: Mapping[str, int | None], scheduler: Scheduler, placing: Placing) -> Wanted:
    """Copies of these pods; without a number, as many as the workloads in the manifests ask for.

    A name is a pod of the cluster, a file or a directory. All pods and workloads of a file are meant, and what else is
    in it is created.
    """
    wanted = Wanted()
    for name, number in pods.items():
        if not os.path.exists(name) and not name.endswith(SUFFIXES):
            wanted.pods.extend(_copies(find_pod(name, scheduler.cluster), number or 1, placing))
            continue
        found = read_manifests([name], scheduler.cluster.context())
        warn(found.unknown_notes)
        others = [obj for obj in found.objects if not isinstance(obj, Pod)]
        cluster = scheduler.cluster.fork().take_over(others)  # whose classes count
        for obj in others:
            placing.state.put(obj)
        made = [(find_pod(workload, cluster), workload) for _, workload in found.workloads]
        if not made and not any(found.of(Pod)):
            raise InputError(f"{name}: expected pods or workloads that make pods; {found.ignored_note or 'found none'}")
        for pod in found.of(Pod):
            wanted.pods.extend(_copies(find_pod(pod, cluster), number or 1, placing))
        for asked, workload in made:
            if workload["kind"] == "DaemonSet":
                wanted.daemons.append(asked.pod)
            else:
                replicas = _replicas(workload) if number is None else number
                wanted.pods.extend(_copies(asked, replicas, placing))
    return wanted


def _copies(asked: AskedPod, number: int, placing: Placing) -> Iterator[PodInfo]:
    for obj in asked.others:
        placing.state.put(obj)
    copies = Copies(asked.pod, placing.state)
    return (copies.next() for _ in range(number))


def _replicas(workload: Mapping[str, Any]) -> int:
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
