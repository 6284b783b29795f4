"""What is served: group and resource lists, legacy and aggregated, and the version."""

from __future__ import annotations

from typing import Any

from mooring.controlplane.registry.catalog import KINDS, group_versions
from mooring.controlplane.types.kind import Kind

GIT_VERSION = "v1.36.4+mooring"
_SCALE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
_SUBRESOURCES: dict[str, tuple[dict[str, str] | None, tuple[str, ...]]] = {
    "status": (None, ("get", "patch", "update")),
    "scale": (_SCALE, ("get", "patch", "update")),
    "binding": ({"group": "", "version": "v1", "kind": "Binding"}, ("create",)),
    "eviction": ({"group": "policy", "version": "v1", "kind": "Eviction"}, ("create",)),
    "finalize": (None, ("update",)),
    "ephemeralcontainers": (None, ("get", "patch", "update")),
    "resize": (None, ("get", "patch", "update")),
    "token": ({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}, ("create",)),
}


def version() -> dict[str, str]:
    return {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


def core_versions(address: str) -> dict[str, Any]:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _group(group: str, kind: bool = False) -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for g, version in group_versions() if g == group
    ]
    found: dict[str, Any] = {"name": group, "versions": versions, "preferredVersion": versions[0]}
    return {"kind": "APIGroup", "apiVersion": "v1", **found} if kind else found


def groups() -> dict[str, Any]:
    names = dict.fromkeys(group for group, _ in group_versions() if group)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in names]}


def group(name: str) -> dict[str, Any] | None:
    return _group(name, kind=True) if name and any(g == name for g, _ in group_versions()) else None


def resources(group: str, version: str) -> dict[str, Any] | None:
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    if not kinds:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": [resource for kind in kinds for resource in _legacy(kind)],
    }


def _legacy(kind: Kind) -> list[dict[str, Any]]:
    main: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    found = [main]
    for name in kind.subresources:
        gvk, verbs = _SUBRESOURCES[name]
        entry: dict[str, Any] = {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.is_namespaced,
            "kind": gvk["kind"] if gvk else kind.kind,
            "verbs": list(verbs),
        }
        if gvk and gvk["group"]:
            entry.update({"group": gvk["group"], "version": gvk["version"]})
        found.append(entry)
    return found


def aggregated(core: bool) -> dict[str, Any]:
    """apidiscovery.k8s.io/v2: everything about the core group, or about all others, in one answer."""
    names = [""] if core else [name for name in dict.fromkeys(g for g, _ in group_versions()) if name]
    items = []
    for name in names:
        versions = []
        for group, version in group_versions():
            if group == name:
                kinds = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
                versions.append(
                    {"version": version, "freshness": "Current", "resources": [_aggregated(kind) for kind in kinds]}
                )
        items.append({"metadata": {"name": name, "creationTimestamp": None}, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated(kind: Kind) -> dict[str, Any]:
    scope = "Namespaced" if kind.is_namespaced else "Cluster"
    found: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": scope,
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        found["shortNames"] = list(kind.short_names)
    if kind.categories:
        found["categories"] = list(kind.categories)
    if kind.subresources:
        found["subresources"] = [
            {
                "subresource": name,
                "responseKind": _SUBRESOURCES[name][0]
                or {"group": kind.group, "version": kind.version, "kind": kind.kind},
                "verbs": list(_SUBRESOURCES[name][1]),
            }
            for name in kind.subresources
        ]
    return found
