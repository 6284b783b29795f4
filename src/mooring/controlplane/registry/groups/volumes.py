"""Persistent volumes and their claims, and the storage.k8s.io group: classes, drivers, attachments."""

from __future__ import annotations

from mooring.controlplane.registry.columns import boolean, columns, get, phase
from mooring.controlplane.registry.validation import fill, immutable, validate_label_selector, validate_node_selector
from mooring.controlplane.types import quantities
from mooring.controlplane.types.kind import Cell, Column, Context, Fields, Kind, Object
from mooring.controlplane.types.status import Cause, forbidden_field, invalid_value, required, unsupported

_STORAGE = "storage.k8s.io"


# Storage classes


def _default_storage_class(obj: Object) -> None:
    fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _validate_storage_class(obj: Object) -> list[Cause]:
    found = [] if obj.get("provisioner") else [required("provisioner")]
    modes = ("Immediate", "WaitForFirstConsumer")
    if obj.get("volumeBindingMode") not in modes:
        found.append(unsupported("volumeBindingMode", obj.get("volumeBindingMode"), modes))
    return found


def _update_storage_class(new: Object, old: Object) -> list[Cause]:
    return immutable(new, old, "provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")


def _storage_class_name(obj: Object, _: float) -> str:
    name = str(get(obj, "metadata.name"))
    annotations: dict[str, str] = get(obj, "metadata.annotations") or {}
    return f"{name} (default)" if annotations.get("storageclass.kubernetes.io/is-default-class") == "true" else name


STORAGE_CLASSES = Kind(
    "StorageClass",
    _STORAGE,
    is_namespaced=False,
    short_names=("sc",),
    default=_default_storage_class,
    validate=_validate_storage_class,
    validate_update=_update_storage_class,
    columns=columns(
        Column("Name", _storage_class_name),
        "Provisioner: provisioner",
        "ReclaimPolicy: reclaimPolicy",
        "VolumeBindingMode: volumeBindingMode",
        Column("AllowVolumeExpansion", lambda obj, _: bool(obj.get("allowVolumeExpansion"))),
        "Age",
    ),
)


# Volumes and claims

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_NAME_ONLY = Fields(("name",), lambda _: {})
"""Upstream accepts ``name`` besides ``metadata.name`` for these two."""
_NO_SOURCES = frozenset(
    [
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    ]
)
"""Fields of a volume's spec besides its source."""


def _modes(path: str) -> Cell:
    return lambda obj, _: ",".join(_MODES.get(mode, mode) for mode in dict.fromkeys(get(obj, path) or ()))


def _validate_modes(spec: Object, why: str = "") -> list[Cause]:
    modes = spec.get("accessModes") or ()
    found = [] if modes else [required("spec.accessModes", why)]
    return found + [unsupported("spec.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]


def _validate_size(size: str | None, at: str, missing: str) -> list[Cause]:
    if size is None:
        return [required(missing)]
    return [] if quantities.parse(size) > 0 else [invalid_value(at, size, "must be greater than zero")]


def _default_volume(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    quantities.canonicalize(spec.get("capacity"))
    fill(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")


def _admit_volume(obj: Object, context: Context) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.timestamp()}


def _validate_volume(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    found = _validate_modes(spec)
    found += _validate_size((spec.get("capacity") or {}).get("storage"), "spec.capacity[storage]", "spec.capacity")
    node_affinity = (spec.get("nodeAffinity") or {}).get("required")
    if node_affinity is not None:
        found += validate_node_selector(node_affinity, "spec.nodeAffinity.required")
    sources = [name for name in spec if name not in _NO_SOURCES]
    if not sources:
        found.append(required("spec", "must specify a volume type"))
    elif len(sources) > 1:
        found.append(forbidden_field(f"spec.{sources[1]}", "may not specify more than 1 volume type"))
    if "local" in sources and node_affinity is None:
        found.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return found


def _volume_claim(obj: Object, _: float) -> str:
    reference = get(obj, "spec.claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


PERSISTENT_VOLUMES = Kind(
    "PersistentVolume",
    is_namespaced=False,
    short_names=("pv",),
    subresources=("status",),
    fields=_NAME_ONLY,
    default=_default_volume,
    admit=_admit_volume,
    validate=_validate_volume,
    returns_deleted=True,
    columns=columns(
        "Name",
        "Capacity: spec.capacity.storage",
        Column("Access Modes", _modes("spec.accessModes")),
        "Reclaim Policy: spec.persistentVolumeReclaimPolicy",
        Column("Status", phase),
        Column("Claim", _volume_claim),
        "StorageClass: spec.storageClassName",
        "VolumeAttributesClass: spec.volumeAttributesClassName | <unset>",
        "Reason: status.reason",
        "Age",
        "+VolumeMode: spec.volumeMode | <unset>",
    ),
)


def default_claim(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    quantities.canonicalize_requirements(spec.get("resources"))
    fill(spec, volumeMode="Filesystem")


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
    size, at = ((spec.get("resources") or {}).get("requests") or {}).get("storage"), "spec.resources[storage]"
    found = _validate_modes(spec, "at least 1 access mode is required") + _validate_size(size, at, at)
    return found + validate_label_selector(spec.get("selector"), "spec.selector")


def _update_claim(new: Object, old: Object) -> list[Cause]:
    before = old.get("spec") or {}
    changeable = {"resources", "volumeAttributesClassName"}
    if not before.get("volumeName"):
        changeable.add("volumeName")
    if before.get("storageClassName") is None:
        changeable.add("storageClassName")
    specs = [{k: v for k, v in (obj.get("spec") or {}).items() if k not in changeable} for obj in (new, old)]
    if specs[0] == specs[1]:
        return []
    why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [forbidden_field("spec", why)]


PERSISTENT_VOLUME_CLAIMS = Kind(
    "PersistentVolumeClaim",
    short_names=("pvc",),
    subresources=("status",),
    fields=_NAME_ONLY,
    default=default_claim,
    admit=_admit_claim,
    validate=_validate_claim,
    validate_update=_update_claim,
    returns_deleted=True,
    columns=columns(
        "Name",
        Column("Status", phase),
        "Volume: spec.volumeName",
        "Capacity: status.capacity.storage",
        Column("Access Modes", _modes("status.accessModes")),
        "StorageClass: spec.storageClassName",
        "VolumeAttributesClass: spec.volumeAttributesClassName | <unset>",
        "Age",
        "+VolumeMode: spec.volumeMode | <unset>",
    ),
)


# Drivers, and their state on nodes


def _default_csi_driver(obj: Object) -> None:
    fill(
        obj.setdefault("spec", {}),
        attachRequired=True,
        podInfoOnMount=False,
        volumeLifecycleModes=["Persistent"],
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
    )


def _audiences(obj: Object, _: float) -> str:
    requests = get(obj, "spec.tokenRequests")
    return "<unset>" if requests is None else ",".join(request.get("audience", "") for request in requests)


def _default_capacity(obj: Object) -> None:
    for name in ("capacity", "maximumVolumeSize"):
        if obj.get(name) is not None:
            obj[name] = quantities.canonical(obj[name])


CSI_DRIVERS = Kind(
    "CSIDriver",
    _STORAGE,
    is_namespaced=False,
    default=_default_csi_driver,
    columns=columns(
        "Name",
        boolean("AttachRequired", "spec.attachRequired"),
        boolean("PodInfoOnMount", "spec.podInfoOnMount"),
        boolean("StorageCapacity", "spec.storageCapacity"),
        Column("TokenRequests", _audiences),
        boolean("RequiresRepublish", "spec.requiresRepublish"),
        Column("Modes", lambda obj, _: ",".join(get(obj, "spec.volumeLifecycleModes") or ()) or "<none>"),
        "Age",
    ),
)

CSI_NODES = Kind(
    "CSINode",
    _STORAGE,
    is_namespaced=False,
    columns=columns("Name", Column("Drivers", lambda obj, _: len(get(obj, "spec.drivers") or ()), "integer"), "Age"),
)

CSI_STORAGE_CAPACITIES = Kind(
    "CSIStorageCapacity",
    _STORAGE,
    default=_default_capacity,
    columns=columns("Name", "StorageClassName: storageClassName", "Capacity: capacity"),
)

VOLUME_ATTACHMENTS = Kind(
    "VolumeAttachment",
    _STORAGE,
    is_namespaced=False,
    subresources=("status",),
    columns=columns(
        "Name",
        "Attacher: spec.attacher",
        "PV: spec.source.persistentVolumeName",
        "Node: spec.nodeName",
        boolean("Attached", "status.attached"),
        "Age",
    ),
)
