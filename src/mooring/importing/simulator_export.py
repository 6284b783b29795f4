"""An export of kube-scheduler-simulator: one JSON object with lists of objects and the scheduler's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.api.manifests import Manifests, read_values
from mooring.config.load import config_from_dict
from mooring.errors import InputError, MooringError
from mooring.importing.imported import Imported, Omissions

# The simulator writes the items of its lists without kind.
_KINDS = {
    "namespaces": ("v1", "Namespace"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "pvs": ("v1", "PersistentVolume"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
}
CONFIG = "schedulerConfig"


def is_export(value: Any) -> bool:
    """Whether a value has the shape of an export."""
    return isinstance(value, Mapping) and "kind" not in value and ("pods" in value or "nodes" in value)


def import_export(path: Path, value: Mapping[str, Any]) -> Imported:
    """The cluster that was exported, and its configuration."""
    omissions = Omissions()
    items = [each for field in _KINDS for each in _items(path, value, field)]
    for field in value:
        if field not in _KINDS and field != CONFIG:
            omissions.add(f"{field}: a field that exports of kube-scheduler-simulator do not have", 0)
    config = value.get(CONFIG)
    if config is not None and not isinstance(config, Mapping):
        raise InputError(f"{path}: {CONFIG}: {type(config).__name__} where a KubeSchedulerConfiguration would be right")
    try:
        config_from_dict(config)
    except MooringError as error:
        raise InputError(f"{path}: {CONFIG}: {error}") from None
    found: Manifests = read_values(items)
    for note in found.unknown:
        omissions.add(f"field that Kubernetes does not know: {note}", 0)
    return Imported(
        "kube-scheduler-simulator export",
        objects=found.objects,
        config=config or None,
        not_simulated=omissions.lines(),
    )


def _items(path: Path, value: Mapping[str, Any], field: str) -> list[tuple[str, Any]]:
    listed = value.get(field)
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise InputError(f"{path}: {field}: {type(listed).__name__} where a list would be right")
    version, kind = _KINDS[field]
    items: list[tuple[str, Any]] = []
    for i, item in enumerate(listed):
        if not isinstance(item, Mapping):
            raise InputError(f"{path}: {field}[{i}]: {type(item).__name__} where an object would be right")
        items.append((f"{path}: {field}[{i}]", {**item, "apiVersion": version, "kind": kind}))
    return items
