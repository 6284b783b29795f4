"""A plan of moves as a story for ``mooring scenario run`` and ``mooring simulate``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.api.core import Namespace, Pod
from mooring.api.meta import Object
from mooring.api.storage import PersistentVolume
from mooring.api.well_known import HOSTNAME
from mooring.api.workloads import PriorityClass
from mooring.ask.moves import EVICT, Step
from mooring.core.cluster import Cluster
from mooring.sim.backend import IDENTITY, manifest_of

_SYSTEM_CLASSES = {2_000_000_000: "system-cluster-critical", 2_000_001_000: "system-node-critical"}
_VOLUME_SOURCES = {  # those that scheduling reads
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "csi",
    "gcePersistentDisk",
    "portworxVolume",
    "vsphereVolume",
}


PAUSE = "10s"  # before each step, so that the page shows one after another


def story_of(cluster: Cluster, steps_to_make: list[Step], headline: str) -> dict[str, Any]:
    """Return a story with the cluster, then every step.

    A moved pod is deleted and recreated with a nodeSelector for its new node, so that the scheduler binds it there by
    its own filters. Owners are left out: the story creates all pods itself.
    """
    pods = {pod.key: pod for pod in (*cluster.pods, *cluster.pending)}
    there = [*cluster.nodes, *cluster.state.objects]
    known = {each.name for each in there if isinstance(each, Namespace)} | {"default"}
    namespaces = sorted({pod.namespace for pod in pods.values()} - known)
    classes = {
        pod.spec.priority: _SYSTEM_CLASSES.get(pod.spec.priority, f"priority-{pod.spec.priority}")
        for pod in pods.values()
        if pod.spec.priority
    }
    steps: list[dict[str, Any]] = [
        {"say": headline},
        {
            "apply": [
                *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces),
                *(
                    {
                        "apiVersion": "scheduling.k8s.io/v1",
                        "kind": "PriorityClass",
                        "metadata": {"name": name},
                        "value": value,
                    }
                    for value, name in classes.items()
                    if value not in _SYSTEM_CLASSES
                ),
                *(_story_object(each) for each in there if not isinstance(each, PriorityClass)),
                *(_story_pod(pod, classes) for pod in cluster.pods),
            ]
        },
    ]
    for step in steps_to_make:
        steps.append({"advance": PAUSE})
        if step.action == EVICT:
            steps.append({"delete": {"target": f"pod/{step.pod}", "gracePeriodSeconds": 0, "wait": True}})
        else:
            steps.append({"create": _story_pod(pods[step.pod], classes, step.node)})
            steps.append({"expect": {"pod": step.pod, "node": step.node}})
    return {"title": "A better placement, step by step", "steps": steps}


def _story_object(obj: Object) -> dict[str, Any]:
    found = manifest_of(obj, without=IDENTITY)
    if isinstance(obj, PersistentVolume) and not found["spec"].keys() & _VOLUME_SOURCES:
        found["spec"]["local"] = {"path": "/"}  # a scheduler does not read what the volume is
    return found


def _story_pod(pod: Pod, classes: Mapping[int, str], target: str = "") -> dict[str, Any]:
    """Return the pod on its node; with a target, restricted to that node."""
    found = manifest_of(pod, without=(*IDENTITY, "ownerReferences"))
    found.pop("status", None)
    spec = found["spec"]
    if (priority := spec.pop("priority", None)) in classes:
        spec["priorityClassName"] = classes[priority]
    if target:
        spec.pop("nodeName", None)
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), HOSTNAME: target}
    return found
