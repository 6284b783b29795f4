"""What ``kubectl get`` prints, and other manifests: single objects, lists, several documents, directories of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mooring.api.core import Pod
from mooring.api.manifests import Manifests, load_manifests
from mooring.errors import InputError
from mooring.importing.imported import Imported, Omissions, Workload
from mooring.importing.objects import without_finished


def import_manifests(paths: Iterable[Path], contents: Mapping[Path, bytes] | None = None) -> Imported:
    """The cluster that the manifests describe, at the start; nothing happens later. ``contents``: what was read."""
    paths = list(paths)
    found = load_manifests(paths, contents=contents)
    if not (found.objects or found.workloads or found.ignored):
        names = ", ".join(map(str, paths))
        raise InputError(f"{names}: no object; expected nodes, pods or workloads, as kubectl get -o yaml prints them")
    omissions = Omissions()
    for kind, count in sorted(found.ignored.items()):
        if kind not in _kinds(found):
            omissions.add(f"{kind}: scheduling does not read it", count)
    for note in found.unknown_notes:
        omissions.add(f"field that Kubernetes does not know: {note}", 0)
    there = without_finished(found.objects, omissions)
    owners = _owners(found)
    workloads: list[Workload] = []
    places: list[str] = []
    for where, workload in found.workloads:
        if _identity(workload) in owners or _is_owned(workload):
            omissions.add(f"{workload.get('kind')} whose pods are in the file or that another workload owns: "
                          "the pods stay as they are")  # fmt: skip
        else:
            workloads.append(workload)
            places.append(where)
    notes = omissions.lines()
    return Imported("Kubernetes manifests", objects=there, workloads=workloads, places=places, not_simulated=notes)


def _kinds(found: Manifests) -> set[str]:
    return {str(workload.get("kind")) for _, workload in found.workloads}


def _owners(found: Manifests) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of everything that owns a pod of the file, directly or through another object."""
    above: dict[tuple[str, str, str], list[tuple[str, str, str]]] = {}
    for _, workload in found.workloads:
        above[_identity(workload)] = _references(workload)
    owners: set[tuple[str, str, str]] = set()
    left = [
        (owner.kind, pod.namespace, owner.name)
        for pod in found.of(Pod)
        if not pod.is_finished
        for owner in pod.metadata.owner_references
    ]
    while left:
        owner = left.pop()
        if owner not in owners:
            owners.add(owner)
            left += above.get(owner, ())
    return owners


def _is_owned(workload: Workload) -> bool:
    return bool(_references(workload))


def _references(workload: Workload) -> list[tuple[str, str, str]]:
    _, namespace, _ = _identity(workload)
    listed = _meta(workload).get("ownerReferences")
    references = listed if isinstance(listed, list) else []
    return [
        (str(each.get("kind")), namespace, str(each.get("name"))) for each in references if isinstance(each, Mapping)
    ]


def _identity(workload: Workload) -> tuple[str, str, str]:
    meta = _meta(workload)
    return str(workload.get("kind")), str(meta.get("namespace") or "default"), str(meta.get("name"))


def _meta(workload: Workload) -> Mapping[str, Any]:
    meta = workload.get("metadata")
    return meta if isinstance(meta, Mapping) else {}
