"""The pod of a question: from the cluster, a manifest, a workload's template, or an object."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from mooring.api.checks import pod_name_problem
from mooring.api.core import Pod, recreated_pod
from mooring.api.defaults import set_default_meta
from mooring.api.errors import InputError
from mooring.api.manifests import READ_KINDS, Manifests, parse_manifests
from mooring.api.meta import Object
from mooring.api.pod_groups import PodGroup
from mooring.api.pod_templates import made_by
from mooring.api.type_table import unknown_fields
from mooring.core.cluster import Cluster, nearest_key, read_manifests
from mooring.core.config.features import Features
from mooring.core.state.cluster import group_of

Askable: TypeAlias = str | Path | Mapping[str, Any] | Pod
"""``namespace/name`` of a pod of the cluster, the path of a manifest, a manifest as a dict, or a pod."""

_DAEMON_NOTE = "a DaemonSet makes a pod for every node that can take it, and each is tied to its node"
MAX_NAMED = 3  # objects of a manifest that has no pod
_SUFFIXES = (".yaml", ".yml", ".json")
_KUBECTL = ("pod/", "pods/", "po/")
_IS_DIRECTORY = "is a directory; expected a manifest file, or namespace/name of a pod of the cluster"


@dataclass(frozen=True, slots=True)
class AskedPod:
    """A pod before it is placed, and the other objects of its manifest, which are created with it."""

    pod: Pod
    others: list[Object] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # fields that Kubernetes does not know
    as_it_is: list[str] = field(default_factory=list)  # limits of a decision about it as a new pod


def find_pod(asked: Askable, cluster: Cluster) -> AskedPod:
    """Return the pod of a reference; raise InputError with the one that was probably meant."""
    match asked:
        case Pod():
            pod = recreated_pod(deepcopy(asked))  # the caller may change it later
            set_default_meta(pod)
            return AskedPod(pod, as_it_is=_as_it_is(asked))
        case Mapping() | Path():
            return _of_manifest(asked, cluster)
        case str() if asked.endswith(_SUFFIXES) or (os.path.exists(asked) and not os.path.isdir(asked)):
            return _of_manifest(asked, cluster)
        case str():
            known = _of_cluster(asked, cluster)
            return AskedPod(recreated_pod(known), as_it_is=_as_it_is(known))
    raise InputError(f"found {asked!r}; expected a pod: namespace/name, a manifest (path or dict), or a Pod")


def _as_it_is(pod: Pod) -> list[str]:
    """Return why the pod would not be placed as it is."""
    if pod.is_terminating:
        return ["the pod is being deleted: no scheduler places it any more"]
    if pod.spec.node_name:
        return [f"the pod is on {pod.spec.node_name} already; this says where it would go if it came now"]
    return []


def _of_cluster(name: str, cluster: Cluster) -> Pod:
    key = name if "/" in name else f"{cluster.namespace}/{name}"
    pod = cluster.find_pod(key)
    if pod is None and name.startswith(_KUBECTL):  # pod/web or pod/shop/web, unless a namespace has that name
        named = name.partition("/")[2]
        pod = cluster.find_pod(named if "/" in named else f"{cluster.namespace}/{named}")
    if pod is not None:
        return pod
    if os.path.isdir(name):
        raise InputError(f"{name}: {_IS_DIRECTORY}")
    known = [pod.key for pod in (*cluster.pods, *cluster.pending)]
    near = nearest_key(key, known)
    hint = f"did you mean {near}?" if near else "expected a manifest file, or namespace/name of a pod of the cluster"
    raise InputError(f"{name}: no such file, and no such pod among the {len(known)} of the cluster; {hint}")


def _of_manifest(source: str | Path | Mapping[str, Any], cluster: Cluster) -> AskedPod:
    if not isinstance(source, Mapping) and os.path.isdir(source):
        raise InputError(f"{source}: {_IS_DIRECTORY}")
    found = read_manifests([source], cluster.context())
    pods, notes = list(found.of(Pod)), []
    if len(pods) + len(found.workloads) != 1:
        raise InputError(
            f"{_where(source)}: expected one Pod or one workload that makes pods, found {_there(found, pods)}"
        )
    if not pods:
        where, workload = found.workloads[0]
        made = _made(where, workload, found, cluster)
        found.unknown += _unknown(where, workload)
        pods = list(made.of(Pod))
        found.objects += made.objects
        if workload["kind"] == "DaemonSet":
            notes.append(_DAEMON_NOTE)
    others = [obj for obj in found.objects if obj is not pods[0]]
    problem = pod_name_problem(pods[0].name)
    refused = [f"{_where(source)}: Pod {pods[0].name}: {problem}"] if problem else []
    return AskedPod(recreated_pod(pods[0]), others, notes, [*refused, *found.unknown_notes])


def _where(source: str | Path | Mapping[str, Any]) -> str:
    return "the given manifest" if isinstance(source, Mapping) else str(source)


def _made(where: str, workload: Mapping[str, Any], found: Manifests, cluster: Cluster) -> Manifests:
    """Return the pod of a workload and its claims, completed as an API server would."""
    title = f"{where}: {workload['kind']}"
    try:
        items = made_by(workload)
    except InputError as error:
        raise InputError(f"{title}: {error}") from None
    context = Manifests(objects=[*cluster.context().objects, *found.objects])
    return parse_manifests(json.dumps({"kind": "List", "items": items}, default=str), title, context)


def _unknown(where: str, workload: Mapping[str, Any]) -> list[str]:
    kind, name = str(workload["kind"]), (workload.get("metadata") or {}).get("name")
    if kind in READ_KINDS:  # these were checked when they were read
        return []
    version = str(workload.get("apiVersion") or "")
    return [f"{where}: {kind} {name}: {each}" for each in unknown_fields(workload, kind, version)]


def _there(found: Manifests, pods: list[Pod]) -> str:
    workloads = [f"{value['kind']} {(value.get('metadata') or {}).get('name')}" for _, value in found.workloads]
    others = [f"{type(obj).__name__} {obj.key}" for obj in found.objects[:MAX_NAMED]]
    more = [f"{len(found.objects) - MAX_NAMED} more"] if len(found.objects) > MAX_NAMED else []
    named = [*(f"Pod {pod.key}" for pod in pods), *workloads] or [*others, *more]
    return ", ".join(named) or found.ignored_note or "no objects at all"


# --------------------------------------------------------------------------------------------------------------------
# Pod groups in questions: which exist, their pods, and the gates they need.

PREFIXES = ("podgroup/", "podgroups/", "pg/")


def with_groups(features: Features, objects: Iterable[Object]) -> Features:
    """Enable the gates that a cluster with these objects must have: it serves PodGroups.

    A version that cannot schedule them stays as it is.
    """
    groups = [obj for obj in objects if isinstance(obj, PodGroup)]
    if not groups or "GenericWorkload" in features.version.unsupported:
        return features
    on = {"GenericWorkload": True}
    if any(group.topology_key for group in groups):
        on["TopologyAwareWorkloadScheduling"] = True
    return Features(features.version, **{**features.changed(), **on})


def asked_group(text: str, namespace: str = "default") -> str:
    """Return ``namespace/name`` of the requested group, or "": ``podgroup/train-1`` is one."""
    for prefix in PREFIXES:
        if text.startswith(prefix):
            key = text.removeprefix(prefix)
            return key if "/" in key else f"{namespace}/{key}"
    return ""


def find_group(key: str, cluster: Cluster) -> tuple[PodGroup, list[Pod]]:
    """Return the group, and its pods without a node, in the order of their creation."""
    group = cluster.state.objects.get(PodGroup, key)
    if group is None:
        known = [each.key for each in cluster.state.objects.all(PodGroup)]
        near = nearest_key(key, known)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(known)) or 'none'}"
        raise InputError(f"there is no PodGroup {key}; {hint}")
    pods = [pod for pod in cluster.pending if group_of(pod) == key]
    return group, sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or "")
