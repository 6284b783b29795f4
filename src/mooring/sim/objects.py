"""Objects for stories: manifests in any form as dicts, and short ways to write nodes, pods and taints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mooring.api import yaml
from mooring.errors import InputError
from mooring.sim.backend import Object


def documents(*manifests: Any) -> list[Object]:
    """Manifests as dicts: from mappings, lists, Lists, and YAML or JSON text."""
    found: list[Object] = []
    for each in manifests:
        if isinstance(each, str | bytes):
            found += documents(*yaml.load_all(each))
        elif isinstance(each, Mapping):
            if str(each.get("kind", "")).endswith("List") and "items" in each:
                found += documents(*(each["items"] or ()))
            else:
                found.append(dict(each))
        elif isinstance(each, Sequence):
            found += documents(*each)
        elif each is not None:
            raise InputError(f"a manifest is a mapping or YAML text, not {type(each).__name__}")
    return found


def taint(text: str) -> Object:
    """``key=value:Effect`` or ``key:Effect`` as a taint."""
    left, colon, effect = text.rpartition(":")
    if not colon or not left or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise InputError(f"taint {text!r}: expected key=value:NoSchedule (or PreferNoSchedule, NoExecute)")
    key, _, value = left.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    unschedulable: bool = False,
    capacity: Mapping[str, str] | None = None,
) -> Object:
    """A node as a healthy kubelet would register it."""
    made = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if zone:
        made["topology.kubernetes.io/zone"] = zone
    spec: Object = {}
    if unschedulable:
        spec["unschedulable"] = True
    if taints:
        spec["taints"] = [taint(each) for each in taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**made, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": {"cpu": cpu, "memory": memory, "pods": pods, **(capacity or {})}},
    }


def pod(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    image: str = "registry.k8s.io/pause:3.10",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> Object:
    """A pod with one container; further keyword arguments are fields of its spec, as the wire names them."""
    container: Object = {"name": "main", "image": image}
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    if requests:
        container["resources"] = {"requests": requests}
    metadata: Object = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }
