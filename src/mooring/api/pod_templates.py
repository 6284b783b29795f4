"""The pod that a controller creates for a Deployment, StatefulSet, DaemonSet, Job, CronJob, ReplicaSet or similar.

| kind | what its controller adds |
|---|---|
| Deployment | the label ``pod-template-hash`` (here of the template alone; a running Deployment's differs) |
| StatefulSet | name and labels of the first pod, and a claim for each of its ``volumeClaimTemplates`` |
| DaemonSet | tolerations for what befalls nodes. The node affinity that ties each pod to its node is left out, so that all nodes are looked at |
| Job, CronJob | the labels that name the Job; an index where pods have one |
"""  # noqa: E501

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from mooring.api import well_known
from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.api.errors import InputError

Plain = dict[str, Any]

# Conditions of nodes that daemons tolerate: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset
_DAEMONS_TOLERATE = (
    (well_known.NOT_READY, "NoExecute"),
    (well_known.UNREACHABLE, "NoExecute"),
    (well_known.DISK_PRESSURE, "NoSchedule"),
    (well_known.MEMORY_PRESSURE, "NoSchedule"),
    (well_known.PID_PRESSURE, "NoSchedule"),
    (well_known.UNSCHEDULABLE, "NoSchedule"),
)
_INDEX = "batch.kubernetes.io/job-completion-index"


def is_workload(kind: str) -> bool:
    """Report whether a controller creates pods for objects of this kind."""
    return kind in _MAKERS


def made_by(workload: Mapping[str, Any]) -> list[Plain]:
    """Return the first pod that the workload's controller creates, and then its claims."""
    kind = str(workload.get("kind"))
    return _MAKERS[kind](workload)


def _of_template(workload: Mapping[str, Any]) -> list[Plain]:
    return [_pod(workload)]


def _of_deployment(workload: Mapping[str, Any]) -> list[Plain]:
    pod = _pod(workload)
    template = json.dumps(workload["spec"]["template"], sort_keys=True, default=str)
    _labels(pod)["pod-template-hash"] = hashlib.sha256(template.encode()).hexdigest()[:10]
    return [pod]


def _of_stateful_set(workload: Mapping[str, Any]) -> list[Plain]:
    pod, spec = _pod(workload), workload["spec"]
    first = (spec.get("ordinals") or {}).get("start", 0)
    name = f"{workload['metadata']['name']}-{first}"
    pod["metadata"]["name"] = name
    del pod["metadata"]["generateName"]
    _labels(pod).update(
        {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(first)},
    )
    claims = []
    for template in spec.get("volumeClaimTemplates") or ():
        volume = _field(template, "volumeClaimTemplates: metadata.name", "metadata", "name")
        claim = deepcopy({**template, "apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        claim["metadata"] |= {"name": f"{volume}-{name}", "namespace": pod["metadata"]["namespace"]}
        claims.append(claim)
        others = [each for each in pod["spec"].get("volumes") or () if each.get("name") != volume]
        pod["spec"]["volumes"] = [
            *others,
            {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}},
        ]
    return [pod, *claims]


def _of_daemon_set(workload: Mapping[str, Any]) -> list[Plain]:
    pod = _pod(workload)
    pod["spec"]["tolerations"] = daemon_tolerations(pod["spec"])
    return [pod]


def daemon_tolerations(spec: Mapping[str, Any]) -> list[Plain]:
    """A pod's tolerations with those that a DaemonSet's controller adds."""
    tolerated = [*_DAEMONS_TOLERATE]
    if spec.get("hostNetwork"):
        tolerated.append((well_known.NETWORK_UNAVAILABLE, "NoSchedule"))
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerated]
    given = list(spec.get("tolerations") or ())
    return [*given, *(each for each in added if each not in given)]


def _of_job(workload: Mapping[str, Any]) -> list[Plain]:
    pod, name = _pod(workload), workload["metadata"]["name"]
    _labels(pod).update({"batch.kubernetes.io/job-name": name, "job-name": name})
    if workload["spec"].get("completionMode") == "Indexed":
        pod["metadata"]["generateName"] = f"{name}-0-"
        _labels(pod)[_INDEX] = "0"
        pod["metadata"].setdefault("annotations", {})[_INDEX] = "0"
    return [pod]


def _of_cron_job(workload: Mapping[str, Any]) -> list[Plain]:
    _field(workload, "metadata.name", "metadata", "name")
    template = _field(workload, "spec.jobTemplate", "spec", "jobTemplate")
    metadata = {**(template.get("metadata") or {}), **workload["metadata"]}
    return _of_job({"kind": "Job", "metadata": metadata, "spec": _field(template, "spec.jobTemplate.spec", "spec")})


_MAKERS: dict[str, Callable[[Mapping[str, Any]], list[Plain]]] = {
    "CronJob": _of_cron_job,
    "DaemonSet": _of_daemon_set,
    "Deployment": _of_deployment,
    "Job": _of_job,
    "ReplicaSet": _of_template,
    "ReplicationController": _of_template,
    "StatefulSet": _of_stateful_set,
}


def _pod(workload: Mapping[str, Any]) -> Plain:
    name = _field(workload, "metadata.name", "metadata", "name")
    template = _field(workload, "spec.template", "spec", "template")
    spec = _field(template, "spec.template.spec", "spec")
    given = template.get("metadata") or {}
    from_plain(Pod, {"metadata": given, "spec": spec})  # later additions rely on the types of existing fields
    metadata: Plain = {
        "generateName": f"{name}-",
        "namespace": workload["metadata"].get("namespace") or "default",
        **{part: deepcopy(given[part]) for part in ("labels", "annotations") if given.get(part)},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": deepcopy(spec)}


def _labels(pod: Plain) -> Plain:
    labels: Plain = pod["metadata"].setdefault("labels", {})
    return labels


def _field(value: Any, path: str, *names: str) -> Any:
    """Return the value at a path; a workload without it is an error that names the path."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not value or (not isinstance(value, Mapping) and names[-1] != "name"):
        raise InputError(f"{path}: missing; a controller cannot make a pod without it")
    return value
