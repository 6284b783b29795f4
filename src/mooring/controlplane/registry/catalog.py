"""The served kinds: one row each. Adding a kind is a row here (and its types in ``types.txt``)."""

from __future__ import annotations

from typing import Final

from mooring.controlplane.types.kind import ALL_VERBS, Kind


def _row(
    group: str,
    types: str,
    kind: str,
    plural: str,
    short: str = "",
    *,
    cluster: bool = False,
    sub: str = "",
    categories: str = "",
    verbs: tuple[str, ...] = ALL_VERBS,
    generation: bool = False,
    stored_as: str = "",
    version: str = "v1",
) -> Kind:
    return Kind(
        kind=kind,
        plural=plural,
        group=group,
        version=version,
        type_name=f"{types}.{version}.{kind}",
        is_namespaced=not cluster,
        short_names=tuple(short.split()),
        subresources=tuple(sub.split()),
        categories=tuple(categories.split()),
        verbs=verbs,
        has_generation=generation,
        stored_as=stored_as,
    )


_CREATE_ONLY = ("create",)
_AUTHN, _AUTHZ, _RBAC = "authentication.k8s.io", "authorization.k8s.io", "rbac.authorization.k8s.io"
_DRA, _STORAGE = "resource.k8s.io", "storage.k8s.io"

KINDS: Final[tuple[Kind, ...]] = (
    _row("", "core", "ConfigMap", "configmaps", "cm"),
    _row("", "core", "Event", "events", "ev"),
    _row("", "core", "LimitRange", "limitranges", "limits"),
    _row("", "core", "Namespace", "namespaces", "ns", cluster=True, sub="finalize status"),
    _row("", "core", "Node", "nodes", "no", cluster=True, sub="status"),
    _row("", "core", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", sub="status"),
    _row("", "core", "PersistentVolume", "persistentvolumes", "pv", cluster=True, sub="status"),
    _row(
        "",
        "core",
        "Pod",
        "pods",
        "po",
        sub="binding ephemeralcontainers eviction resize status",
        categories="all",
        generation=True,
    ),
    _row(
        "",
        "core",
        "ReplicationController",
        "replicationcontrollers",
        "rc",
        sub="scale status",
        categories="all",
        generation=True,
    ),
    _row("", "core", "ResourceQuota", "resourcequotas", "quota", sub="status"),
    _row("", "core", "Secret", "secrets"),
    _row("", "core", "ServiceAccount", "serviceaccounts", "sa", sub="token"),
    _row("", "core", "Service", "services", "svc", sub="status", categories="all"),
    _row("apps", "apps", "ControllerRevision", "controllerrevisions"),
    _row("apps", "apps", "DaemonSet", "daemonsets", "ds", sub="status", categories="all", generation=True),
    _row("apps", "apps", "Deployment", "deployments", "deploy", sub="scale status", categories="all", generation=True),
    _row("apps", "apps", "ReplicaSet", "replicasets", "rs", sub="scale status", categories="all", generation=True),
    _row("apps", "apps", "StatefulSet", "statefulsets", "sts", sub="scale status", categories="all", generation=True),
    _row(_AUTHN, "authentication", "SelfSubjectReview", "selfsubjectreviews", cluster=True, verbs=_CREATE_ONLY),
    _row(_AUTHN, "authentication", "TokenReview", "tokenreviews", cluster=True, verbs=_CREATE_ONLY),
    _row(_AUTHZ, "authorization", "LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=_CREATE_ONLY),
    _row(
        _AUTHZ,
        "authorization",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        cluster=True,
        verbs=_CREATE_ONLY,
    ),
    _row(
        _AUTHZ, "authorization", "SelfSubjectRulesReview", "selfsubjectrulesreviews", cluster=True, verbs=_CREATE_ONLY
    ),
    _row(_AUTHZ, "authorization", "SubjectAccessReview", "subjectaccessreviews", cluster=True, verbs=_CREATE_ONLY),
    _row("batch", "batch", "Job", "jobs", sub="status", categories="all", generation=True),
    _row("coordination.k8s.io", "coordination", "Lease", "leases"),
    _row("events.k8s.io", "events", "Event", "events", "ev", stored_as="events"),
    _row("networking.k8s.io", "networking", "NetworkPolicy", "networkpolicies", "netpol", generation=True),
    _row("node.k8s.io", "node", "RuntimeClass", "runtimeclasses", cluster=True),
    _row("policy", "policy", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", sub="status", generation=True),
    _row(_RBAC, "rbac", "ClusterRoleBinding", "clusterrolebindings", cluster=True),
    _row(_RBAC, "rbac", "ClusterRole", "clusterroles", cluster=True),
    _row(_RBAC, "rbac", "RoleBinding", "rolebindings"),
    _row(_RBAC, "rbac", "Role", "roles"),
    _row(_DRA, "resource", "DeviceClass", "deviceclasses", cluster=True, generation=True),
    _row(_DRA, "resource", "ResourceClaim", "resourceclaims", sub="status"),
    _row(_DRA, "resource", "ResourceClaimTemplate", "resourceclaimtemplates"),
    _row(_DRA, "resource", "ResourceSlice", "resourceslices", cluster=True, generation=True),
    _row("scheduling.k8s.io", "scheduling", "PriorityClass", "priorityclasses", "pc", cluster=True, generation=True),
    _row(
        "scheduling.x-k8s.io",
        "scheduling-x",
        "PodGroup",
        "podgroups",
        "pg",
        sub="status",
        generation=True,
        version="v1alpha1",
    ),
    _row(_STORAGE, "storage", "CSIDriver", "csidrivers", cluster=True),
    _row(_STORAGE, "storage", "CSINode", "csinodes", cluster=True),
    _row(_STORAGE, "storage", "CSIStorageCapacity", "csistoragecapacities"),
    _row(_STORAGE, "storage", "StorageClass", "storageclasses", "sc", cluster=True),
    _row(_STORAGE, "storage", "VolumeAttachment", "volumeattachments", cluster=True, sub="status"),
)

_BY_PATH: Final = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
_BY_RESOURCE: Final = {kind.resource: kind for kind in KINDS if kind.version == "v1"}
_BY_GROUP_KIND: Final = {(kind.group, kind.kind): kind for kind in KINDS}
STORED: Final = tuple(kind for kind in KINDS if kind.is_stored)


def by_path(group: str, version: str, plural: str) -> Kind | None:
    """The kind served under ``/apis/group/version/plural``."""
    return _BY_PATH.get((group, version, plural))


def by_group_kind(group: str, kind: str) -> Kind | None:
    return _BY_GROUP_KIND.get((group, kind))


def by_resource(resource: str) -> Kind:
    """The kind of ``pods`` or ``deployments.apps``; a KeyError names a resource that is not served."""
    return _BY_RESOURCE[resource]


def storage_of(kind: Kind) -> Kind:
    """The kind whose objects these are: events.k8s.io Events live with the core ones."""
    return by_resource(kind.stored_as) if kind.stored_as else kind


def group_versions() -> list[tuple[str, str]]:
    """Served (group, version) pairs, the core group first."""
    return list(dict.fromkeys((kind.group, kind.version) for kind in KINDS))


PODS: Final = by_resource("pods")
NODES: Final = by_resource("nodes")
NAMESPACES: Final = by_resource("namespaces")
