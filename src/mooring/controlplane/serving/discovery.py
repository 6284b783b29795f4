"""Discovery (legacy and aggregated), the version, and OpenAPI v3 documents.

The documents are made from the type table: enough for kubectl to validate, patch and explain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mooring.controlplane.registry.catalog import group_versions, kinds_of
from mooring.controlplane.types import schema
from mooring.controlplane.types.kind import Kind
from mooring.core.config.versions import DEFAULT_VERSION, KubernetesVersion

_encode = msgspec.json.Encoder().encode
SUFFIX = "+mooring"  # of gitVersion: by it our own commands recognise an embedded control plane
_READ_WRITE = ("get", "patch", "update")
_SUBRESOURCES: dict[str, tuple[dict[str, str] | None, tuple[str, ...]]] = {
    "status": (None, _READ_WRITE),
    "scale": ({"group": "autoscaling", "version": "v1", "kind": "Scale"}, _READ_WRITE),
    "binding": ({"group": "", "version": "v1", "kind": "Binding"}, ("create",)),
    "eviction": ({"group": "policy", "version": "v1", "kind": "Eviction"}, ("create",)),
    "finalize": (None, ("update",)),
    "ephemeralcontainers": (None, _READ_WRITE),
    "resize": (None, _READ_WRITE),
    "token": ({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}, ("create",)),
}
"""The kind of each subresource, if it is not the resource's own, and its verbs."""


def git_version(version: KubernetesVersion | None) -> str:
    return f"{(version or DEFAULT_VERSION).tag}{SUFFIX}"


def version_info(version: KubernetesVersion | None) -> dict[str, str]:
    minor = (version or DEFAULT_VERSION).minor
    return {
        "major": "1",
        "minor": str(minor),
        "emulationMajor": "1",
        "emulationMinor": str(minor),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": str(minor - 1),
        "gitVersion": git_version(version),
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


class Discovery:
    """Describes what is served: everything, or the part of one version of Kubernetes."""

    def __init__(self, version: KubernetesVersion | None = None) -> None:
        self.version = version
        self.kinds = kinds_of(version)
        self._group_versions = group_versions(self.kinds)
        self._documents: dict[str, bytes] = {}

    def _group_names(self) -> list[str]:
        return [name for name in dict.fromkeys(group for group, _ in self._group_versions) if name]

    def _group(self, name: str) -> dict[str, Any]:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version}
            for g, version in self._group_versions
            if g == name
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _kinds_of(self, group: str, version: str) -> list[Kind]:
        return [kind for kind in self.kinds if (kind.group, kind.version) == (group, version)]

    def groups(self) -> dict[str, Any]:
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [self._group(name) for name in self._group_names()],
        }

    def group(self, name: str) -> dict[str, Any] | None:
        is_served = name in self._group_names()
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)} if is_served else None

    def resources(self, group: str, version: str) -> dict[str, Any] | None:
        kinds = self._kinds_of(group, version)
        if not kinds:
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": kinds[0].api_version,
            "resources": [resource for kind in kinds for resource in _resources_of(kind)],
        }

    def aggregated(self, core: bool) -> dict[str, Any]:
        """Return apidiscovery.k8s.io/v2: everything about the core group, or about all others, in one answer."""
        items = []
        for name in [""] if core else self._group_names():
            versions = [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [_aggregated(k) for k in self._kinds_of(name, version)],
                }
                for group, version in self._group_versions
                if group == name
            ]
            items.append({"metadata": {"name": name, "creationTimestamp": None}, "versions": versions})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }

    def document(self, path: str) -> bytes | None:
        """Return the index at ``/openapi/v3``, or one group's document below it."""
        rest = path.removeprefix("/openapi/v3").strip("/")
        if rest not in self._documents:
            served = {_root(group, version): (group, version) for group, version in self._group_versions}
            if not rest:
                self._documents[rest] = _index(served)
            elif rest in served:
                tag = (self.version or DEFAULT_VERSION).tag
                later = self.version.later_api_fields if self.version is not None else frozenset()
                self._documents[rest] = _document(self._kinds_of(*served[rest]), tag, later)
            else:
                return None
        return self._documents[rest]


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _other_names(kind: Kind) -> dict[str, Any]:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {key: value for key, value in names.items() if value}


def _resources_of(kind: Kind) -> list[dict[str, Any]]:
    main: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        **_other_names(kind),
    }
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
            entry |= {"group": gvk["group"], "version": gvk["version"]}
        found.append(entry)
    return found


def _aggregated(kind: Kind) -> dict[str, Any]:
    found: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": _gvk(kind),
        "scope": "Namespaced" if kind.is_namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **_other_names(kind),
    }
    subresources = [
        {"subresource": name, "responseKind": gvk or _gvk(kind), "verbs": list(verbs)}
        for name, (gvk, verbs) in ((name, _SUBRESOURCES[name]) for name in kind.subresources)
    ]
    return {**found, "subresources": subresources} if subresources else found


# OpenAPI

_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intstr": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def full_name(name: str) -> str:
    """Return the name as clients know it, for ``core.v1.Pod``."""
    if name.startswith("meta."):
        return f"io.k8s.apimachinery.pkg.apis.{name}"
    return f"io.k8s.api.{name}"


def _path(kind: Kind) -> str:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
    return f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.is_namespaced else f"{base}/{kind.plural}"


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _index(roots: Iterable[str]) -> bytes:
    paths = {root: {"serverRelativeURL": f"/openapi/v3/{root}?hash=mooring"} for root in roots}
    return _encode({"paths": paths})


def _document(kinds: Sequence[Kind], tag: str, later: frozenset[str]) -> bytes:
    schemas: dict[str, Any] = {}
    for kind in kinds:
        _collect(kind.type_name, schemas, later)
        schemas[full_name(kind.type_name)]["x-kubernetes-group-version-kind"] = [_gvk(kind)]
    _collect("meta.v1.DeleteOptions", schemas, later)
    document = {
        "openapi": "3.0.0",
        "info": {"title": "mooring", "version": tag},
        "paths": {path: item for kind in kinds for path, item in _paths(kind)},
        "components": {"schemas": schemas},
    }
    return _encode(document)


def _paths(kind: Kind) -> list[tuple[str, dict[str, Any]]]:
    reference = {"$ref": f"#/components/schemas/{full_name(kind.type_name)}"}
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}}
    query = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]

    def operation(action: str, parameters: list[Any]) -> dict[str, Any]:
        return {
            "operationId": f"{action}{kind.kind}",
            "parameters": parameters,
            "responses": answer,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(kind),
        }

    collection: dict[str, Any] = {"post": operation("post", query)}
    if kind.is_namespaced:
        collection["parameters"] = [_in_path("namespace", "object name and auth scope, such as for teams and projects")]
    if kind.verbs == ("create",):
        return [(_path(kind), collection)]
    collection["get"] = operation("list", [])
    item: dict[str, Any] = {
        "parameters": [_in_path("name", f"name of the {kind.kind}"), *collection.get("parameters", ())],
        "get": operation("get", []),
        "put": operation("put", query),
        "patch": operation("patch", [*query, {"name": "force", "in": "query", "schema": {"type": "boolean"}}]),
        "delete": operation("delete", query[:1]),
    }
    return [(_path(kind), collection), (_path(kind) + "/{name}", item)]


def _in_path(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "description": description, "required": True, "schema": schema}


def _collect(name: str, into: dict[str, Any], later: frozenset[str]) -> None:
    """Add a type and everything it refers to, without later fields."""
    if full_name(name) in into:
        return
    described = schema.types()[name]
    shown: dict[str, Any] = {"type": "object", "properties": {}}
    into[full_name(name)] = shown
    fields = [known for known in described.fields.values() if f"{name}.{known.name}" not in later]
    required = [known.name for known in fields if known.is_required]
    if required:
        shown["required"] = required
    if described.is_atomic:
        shown["x-kubernetes-map-type"] = "atomic"
    for known in fields:
        shown["properties"][known.name] = _property(known)
        if known.element.lstrip("[]{}") not in schema.SCALARS:
            _collect(known.element.lstrip("[]{}"), into, later)


def _property(known: schema.Field) -> dict[str, Any]:
    shown = _shown_type(known.type)
    if known.list_keys:
        shown["x-kubernetes-list-type"] = "map"
        shown["x-kubernetes-list-map-keys"] = list(known.list_keys)
    elif known.is_set:
        shown["x-kubernetes-list-type"] = "set"
    if known.merge_key:
        shown["x-kubernetes-patch-merge-key"] = known.merge_key
    if known.strategies:
        shown["x-kubernetes-patch-strategy"] = ",".join(known.strategies)
    return shown


def _shown_type(name: str) -> dict[str, Any]:
    if name.startswith("[]"):
        return {"type": "array", "items": _shown_type(name[2:])}
    if name.startswith("{}"):
        return {"type": "object", "additionalProperties": _shown_type(name[2:])}
    if name in _SCALARS:
        return dict(_SCALARS[name])
    return {"allOf": [{"$ref": f"#/components/schemas/{full_name(name)}"}]}
