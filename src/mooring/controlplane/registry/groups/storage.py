"""The storage.k8s.io group: classes, drivers and what they say about nodes."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME, at, boolean, get
from mooring.controlplane.registry.meta import immutable
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Column, Kind, Strategy
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import Cause, required, unsupported

_GROUP = "storage.k8s.io"


def _storage_class_name(obj: Object, _: float) -> str:
    name = str(get(obj, "metadata", "name"))
    annotations: dict[str, str] = get(obj, "metadata", "annotations") or {}
    return f"{name} (default)" if annotations.get("storageclass.kubernetes.io/is-default-class") == "true" else name


def _audiences(obj: Object, _: float) -> str:
    requests = get(obj, "spec", "tokenRequests")
    return "<unset>" if requests is None else ",".join(request.get("audience", "") for request in requests)


def _default_storage_class(obj: Object) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _validate_storage_class(obj: Object) -> list[Cause]:
    found = [] if obj.get("provisioner") else [required("provisioner")]
    if obj.get("volumeBindingMode") not in ("Immediate", "WaitForFirstConsumer"):
        found.append(
            unsupported("volumeBindingMode", obj.get("volumeBindingMode"), ("Immediate", "WaitForFirstConsumer"))
        )
    return found


def _update_storage_class(new: Object, old: Object) -> list[Cause]:
    return [
        cause
        for name in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")
        for cause in immutable(new, old, name, name)
    ]


def _default_csi_driver(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for name, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("volumeLifecycleModes", ["Persistent"]),
        ("storageCapacity", False),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
    ):
        spec.setdefault(name, value)


def _default_capacity(obj: Object) -> None:
    for name in ("capacity", "maximumVolumeSize"):
        if obj.get(name) is not None:
            obj[name] = quantities.canonical(obj[name])


CSI_DRIVERS = Kind(
    "CSIDriver",
    "csidrivers",
    _GROUP,
    is_namespaced=False,
    strategy=Strategy(default=_default_csi_driver),
    columns=(
        NAME,
        Column("AttachRequired", boolean("spec", "attachRequired"), "boolean"),
        Column("PodInfoOnMount", boolean("spec", "podInfoOnMount"), "boolean"),
        Column("StorageCapacity", boolean("spec", "storageCapacity"), "boolean"),
        Column("TokenRequests", _audiences),
        Column("RequiresRepublish", boolean("spec", "requiresRepublish"), "boolean"),
        Column("Modes", lambda obj, _: ",".join(get(obj, "spec", "volumeLifecycleModes") or ()) or "<none>"),
        AGE,
    ),
)


CSI_NODES = Kind(
    "CSINode",
    "csinodes",
    _GROUP,
    is_namespaced=False,
    columns=(
        NAME,
        Column("Drivers", lambda obj, _: len(get(obj, "spec", "drivers") or ()), "integer"),
        AGE,
    ),
)


CSI_STORAGE_CAPACITIES = Kind(
    "CSIStorageCapacity",
    "csistoragecapacities",
    _GROUP,
    strategy=Strategy(default=_default_capacity),
    columns=(
        NAME,
        Column("StorageClassName", at("storageClassName")),
        Column("Capacity", at("capacity")),
    ),
)


STORAGE_CLASSES = Kind(
    "StorageClass",
    "storageclasses",
    _GROUP,
    is_namespaced=False,
    short_names=("sc",),
    strategy=Strategy(
        default=_default_storage_class, validate=_validate_storage_class, validate_update=_update_storage_class
    ),
    columns=(
        Column("Name", _storage_class_name),
        Column("Provisioner", at("provisioner")),
        Column("ReclaimPolicy", at("reclaimPolicy")),
        Column("VolumeBindingMode", at("volumeBindingMode")),
        Column("AllowVolumeExpansion", boolean("allowVolumeExpansion")),
        AGE,
    ),
)


VOLUME_ATTACHMENTS = Kind(
    "VolumeAttachment",
    "volumeattachments",
    _GROUP,
    is_namespaced=False,
    subresources=("status",),
    columns=(
        NAME,
        Column("Attacher", at("spec", "attacher")),
        Column("PV", at("spec", "source", "persistentVolumeName")),
        Column("Node", at("spec", "nodeName")),
        Column("Attached", boolean("status", "attached"), "boolean"),
        AGE,
    ),
)
