"""An export of kube-scheduler-simulator: one object with lists of objects and the scheduler's configuration.

Its API answers in JSON, its page saves the same as YAML (``export.yml``). What the versions of it differ in:

| since | an export has |
|---|---|
| February 2022 | a configuration of v1beta2 without ``apiVersion`` and ``kind``, with all defaults written out |
| 2022 (0.2) | ``apiVersion`` and ``kind``, too |
| March 2023 (0.3) | ``namespaces`` |
| April 2023 (0.3) | a configuration of v1, with the plugins that v1 had before Kubernetes 1.33 |
| October 2024 (0.4) | the configuration null, if another scheduler runs |
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mooring.api.core import Pod
from mooring.api.manifests import read_values
from mooring.config.convert import OLD_VERSIONS, convert_document
from mooring.config.load import config_from_dict
from mooring.config.types import KIND
from mooring.errors import InputError, MooringError
from mooring.importing.imported import Imported, Omissions
from mooring.importing.objects import without_finished

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
# What its scheduler writes about each step of a decision; the second is that of the first versions.
_RESULTS = ("kube-scheduler-simulator.sigs.k8s.io/", "scheduler-simulator/")


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
    config = _config(path, value.get(CONFIG), omissions)
    found = read_values(items)
    for note in found.unknown:
        omissions.add(f"field that Kubernetes does not know: {note}", 0)
    objects = without_finished(found.objects, omissions)
    for obj in objects:
        if isinstance(obj, Pod) and any(key.startswith(_RESULTS) for key in obj.metadata.annotations):
            omissions.add(f"Pod with results of the exported scheduler ({_RESULTS[0]}…): the simulation decides itself")
    return Imported("kube-scheduler-simulator export", objects=objects, config=config, not_simulated=omissions.lines())


def _config(path: Path, found: Any, omissions: Omissions) -> Mapping[str, Any] | None:
    """The configuration as v1 has it today; None if the export has none."""
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise InputError(f"{path}: {CONFIG}: {type(found).__name__} where a KubeSchedulerConfiguration would be right")
    config: Mapping[str, Any] = found
    # The first versions, which had v1beta2, did not say it. v1 lost plugins after it began, as v1beta3 lost them.
    version = config.get("apiVersion") or OLD_VERSIONS[1]
    converted, notes = convert_document(
        {"kind": KIND, **config, "apiVersion": version if version in OLD_VERSIONS else OLD_VERSIONS[2]}
    )
    notes = [note for note in notes if not note.path.endswith("apiVersion")]
    for note in notes:
        omissions.add(f"{CONFIG}.{note}", 0)
    if notes or version in OLD_VERSIONS:
        config = converted
    try:
        config_from_dict(config)
    except MooringError as error:
        raise InputError(f"{path}: {CONFIG}: {error}") from None
    return config


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
