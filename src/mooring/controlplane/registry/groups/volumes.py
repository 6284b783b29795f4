"""Persistent volumes and their claims, of the core group."""

from __future__ import annotations

from mooring.controlplane.registry.columns import AGE, NAME, at, boolean, get, phase, wide
from mooring.controlplane.registry.validation import immutable, validate_label_selector, validate_node_selector
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Cell, Column, Context, Fields, Kind, Object, Strategy
from mooring.controlplane.types.status import Cause, forbidden_field, invalid_value, required, unsupported

# --------------------------------------------------------------------------------------------------------------------
# The storage.k8s.io group: classes, drivers and what they say about nodes.

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


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(*path: str) -> Cell:
    def cell(obj: Object, _: float) -> str:
        return ",".join(_MODES.get(mode, mode) for mode in dict.fromkeys(get(obj, *path) or ()))

    return cell


def _volume_claim(obj: Object, _: float) -> str:
    reference = get(obj, "spec", "claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


def _default_volume(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    quantities.canonicalize(spec.get("capacity"))
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")


def _admit_volume(obj: Object, context: Context) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.timestamp()}


def _validate_volume(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    if not spec.get("accessModes"):
        found.append(required("spec.accessModes"))
    found += _validate_modes(spec)
    storage = (spec.get("capacity") or {}).get("storage")
    if storage is None:
        found.append(required("spec.capacity"))
    elif quantities.parse(storage) <= 0:
        found.append(invalid_value("spec.capacity[storage]", storage, "must be greater than zero"))
    node_affinity = (spec.get("nodeAffinity") or {}).get("required")
    if node_affinity is not None:
        found += validate_node_selector(node_affinity, "spec.nodeAffinity.required")
    known = {
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    }
    sources = [name for name in spec if name not in known]
    if not sources:
        found.append(required("spec", "must specify a volume type"))
    elif len(sources) > 1:
        found.append(forbidden_field(f"spec.{sources[1]}", "may not specify more than 1 volume type"))
    if "local" in sources and node_affinity is None:
        found.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return found


def _validate_modes(spec: Object) -> list[Cause]:
    return [
        unsupported("spec.accessModes", mode, _ACCESS_MODES)
        for mode in spec.get("accessModes") or ()
        if mode not in _ACCESS_MODES
    ]


def default_claim(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    quantities.canonicalize_requirements(spec.get("resources"))
    spec.setdefault("volumeMode", "Filesystem")


def _admit_claim(obj: Object, context: Context) -> None:
    obj["status"] = {"phase": "Pending"}
    spec = obj["spec"]
    if spec.get("storageClassName") is None and not spec.get("volumeName"):
        marked = [
            entry.object()
            for entry in context.each(STORAGE_CLASSES)
            if b'"storageclass.kubernetes.io/is-default-class":"true"' in entry.raw
        ]
        if marked:
            newest = max(marked, key=lambda found: found["metadata"].get("creationTimestamp", ""))
            spec["storageClassName"] = newest["metadata"]["name"]


def _validate_claim(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found: list[Cause] = []
    if not spec.get("accessModes"):
        found.append(required("spec.accessModes", "at least 1 access mode is required"))
    found += _validate_modes(spec)
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        found.append(required("spec.resources[storage]"))
    elif quantities.parse(storage) <= 0:
        found.append(invalid_value("spec.resources[storage]", storage, "must be greater than zero"))
    found += validate_label_selector(spec.get("selector"), "spec.selector")
    return found


def _update_claim(new: Object, old: Object) -> list[Cause]:
    spec, before = dict(new.get("spec") or {}), dict(old.get("spec") or {})
    if not before.get("volumeName"):
        spec.pop("volumeName", None)
        before.pop("volumeName", None)
    spec.pop("resources", None)
    before.pop("resources", None)
    if before.get("storageClassName") is None:
        spec.pop("storageClassName", None)
    for name in ("volumeAttributesClassName",):
        spec.pop(name, None)
        before.pop(name, None)
    if spec == before:
        return []
    why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [forbidden_field("spec", why)]


_NAME_ONLY = Fields(("name",), lambda _: {})
"""Upstream accepts ``name`` besides ``metadata.name`` for these two."""


PERSISTENT_VOLUME_CLAIMS = Kind(
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    "",
    short_names=("pvc",),
    subresources=("status",),
    fields=_NAME_ONLY,
    strategy=Strategy(
        default=default_claim,
        admit=_admit_claim,
        validate=_validate_claim,
        validate_update=_update_claim,
        returns_deleted=True,
    ),
    columns=(
        NAME,
        Column("Status", phase),
        Column("Volume", at("spec", "volumeName")),
        Column("Capacity", at("status", "capacity", "storage")),
        Column("Access Modes", _modes("status", "accessModes")),
        Column("StorageClass", at("spec", "storageClassName")),
        Column("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default="<unset>")),
        AGE,
        wide("VolumeMode", at("spec", "volumeMode", default="<unset>")),
    ),
)


PERSISTENT_VOLUMES = Kind(
    "PersistentVolume",
    "persistentvolumes",
    "",
    is_namespaced=False,
    short_names=("pv",),
    subresources=("status",),
    fields=_NAME_ONLY,
    strategy=Strategy(default=_default_volume, admit=_admit_volume, validate=_validate_volume, returns_deleted=True),
    columns=(
        NAME,
        Column("Capacity", at("spec", "capacity", "storage")),
        Column("Access Modes", _modes("spec", "accessModes")),
        Column("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy")),
        Column("Status", phase),
        Column("Claim", _volume_claim),
        Column("StorageClass", at("spec", "storageClassName")),
        Column("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default="<unset>")),
        Column("Reason", at("status", "reason")),
        AGE,
        wide("VolumeMode", at("spec", "volumeMode", default="<unset>")),
    ),
)
