"""The pod that a command is asked about: out of a manifest, of a workload's template, or one of the cluster's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import click

from mooring.api.core import Pod
from mooring.api.manifests import READ_KINDS, Manifests, load_manifests, parse_manifests
from mooring.api.meta import Object
from mooring.api.pod_templates import made_by
from mooring.api.unknown_fields import unknown_fields
from mooring.errors import InputError, UsageError
from mooring.explanation.why import as_new

_DAEMON_NOTE = "a DaemonSet makes a pod for every node that can take it, and each is tied to its node"


@dataclass(frozen=True, slots=True)
class AskedPod:
    """A pod as it is before it is placed, and the other objects of its manifest, which are created with it."""

    pod: Pod
    others: list[Object] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_pod(name: str, manifests: Manifests) -> AskedPod:
    """The pod that ``name`` means: a manifest, or namespace/name of a pod of the cluster."""
    if name.endswith((".yaml", ".yml", ".json")) or os.path.exists(name):
        return _of_file(name, manifests)
    known = {pod.key: pod for pod in manifests.of(Pod)}
    key = name if "/" in name else f"default/{name}"
    if key in known:
        return AskedPod(as_new(known[key]))
    near = _nearest(key, known)
    hint = f"did you mean {near}?" if near else "expected a manifest file, or namespace/name of a pod of the cluster"
    raise UsageError(f"--pod {name}: no such file, and no such pod among the {len(known)} of the cluster; {hint}")


def warn_unknown(manifests: Manifests) -> None:
    """Say which fields have no effect because Kubernetes does not know them."""
    for note in manifests.unknown_notes:
        click.echo(f"warning: {note}", err=True)


def _of_file(name: str, cluster: Manifests) -> AskedPod:
    found = load_manifests([name], cluster)
    pods, notes = list(found.of(Pod)), []
    if len(pods) + len(found.workloads) != 1:
        raise InputError(f"{name}: expected one Pod or one workload that makes pods, found {_there(found, pods)}")
    if not pods:
        where, workload = found.workloads[0]
        found.unknown += _unknown(where, workload)
        made = _made(where, workload, found, cluster)
        pods = list(made.of(Pod))
        found.objects += made.objects
        if workload["kind"] == "DaemonSet":
            notes.append(_DAEMON_NOTE)
    warn_unknown(found)
    return AskedPod(as_new(pods[0]), [obj for obj in found.objects if obj is not pods[0]], notes)


def _made(where: str, workload: Mapping[str, Any], found: Manifests, cluster: Manifests) -> Manifests:
    """The pod of a workload and its claims, complete as an API server would store them."""
    title = f"{where}: {workload['kind']}"
    try:
        items = made_by(workload)
    except InputError as error:
        raise InputError(f"{title}: {error}") from None
    context = Manifests(objects=[*cluster.objects, *found.objects])
    made = parse_manifests(json.dumps({"kind": "List", "items": items}, default=str), title, context)
    made.unknown.clear()  # they are told with the workload's own paths
    return made


def _unknown(where: str, workload: Mapping[str, Any]) -> list[str]:
    kind, name = str(workload["kind"]), (workload.get("metadata") or {}).get("name")
    if kind in READ_KINDS:  # these were checked when they were read
        return []
    version = str(workload.get("apiVersion") or "")
    return [f"{where}: {kind} {name}: {each}" for each in unknown_fields(workload, kind, version)]


def _there(found: Manifests, pods: list[Pod]) -> str:
    workloads = [f"{value['kind']} {(value.get('metadata') or {}).get('name')}" for _, value in found.workloads]
    return ", ".join([*(f"Pod {pod.key}" for pod in pods), *workloads]) or found.ignored_note or "no objects at all"


def _nearest(key: str, known: Iterable[str]) -> str:
    """The pod that was probably meant: of the same name in another namespace, or of a similar name."""
    space, _, name = key.partition("/")
    keys = sorted(known, key=lambda each: (each.partition("/")[0] != space, each))
    by_name: dict[str, str] = {}
    for each in keys:
        by_name.setdefault(each.partition("/")[2], each)
    near = get_close_matches(name, by_name, n=1)
    return by_name[near[0]] if near else ""
