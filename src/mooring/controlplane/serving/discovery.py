"""What is served: group and resource lists, legacy and aggregated, and the version."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from mooring.controlplane.registry.catalog import KINDS, group_versions
from mooring.controlplane.types import schema
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


# --------------------------------------------------------------------------------------------------------------------
# OpenAPI v3 documents, made from the type table: enough for kubectl to validate, patch and explain.

_encode = msgspec.json.Encoder().encode
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
    """``core.v1.Pod`` as clients know it."""
    if name.startswith("meta."):
        return f"io.k8s.apimachinery.pkg.apis.{name}"
    return f"io.k8s.api.{name}"


def _path(kind: Kind) -> str:
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else "/api/v1"
    return f"{base}/namespaces/{{namespace}}/{kind.plural}" if kind.is_namespaced else f"{base}/{kind.plural}"


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def document(path: str) -> bytes | None:
    """The index at ``/openapi/v3``, or one group's document below it."""
    rest = path.removeprefix("/openapi/v3").strip("/")
    if not rest:
        return _index()
    for group, version in group_versions():
        if rest == _root(group, version):
            return _openapi_group(group, version)
    return None


@cache
def _index() -> bytes:
    paths = {
        _root(group, version): {"serverRelativeURL": f"/openapi/v3/{_root(group, version)}?hash=mooring"}
        for group, version in group_versions()
    }
    return _encode({"paths": paths})


@cache
def _openapi_group(group: str, version: str) -> bytes:
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
    schemas: dict[str, Any] = {}
    for kind in kinds:
        _collect(kind.type_name, schemas)
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        schemas[full_name(kind.type_name)]["x-kubernetes-group-version-kind"] = [gvk]
    _collect("meta.v1.DeleteOptions", schemas)
    document = {
        "openapi": "3.0.0",
        "info": {"title": "mooring", "version": "v1.36.4"},
        "paths": {path: item for kind in kinds for path, item in _paths(kind)},
        "components": {"schemas": schemas},
    }
    return _encode(document)


def _paths(kind: Kind) -> list[tuple[str, dict[str, Any]]]:
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
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
            "x-kubernetes-group-version-kind": gvk,
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


def _collect(name: str, into: dict[str, Any]) -> None:
    """Add a type and everything it refers to."""
    if full_name(name) in into:
        return
    described = schema.types()[name]
    shown: dict[str, Any] = {"type": "object", "properties": {}}
    into[full_name(name)] = shown
    required = [known.name for known in described.fields.values() if known.is_required]
    if required:
        shown["required"] = required
    if described.is_atomic:
        shown["x-kubernetes-map-type"] = "atomic"
    for known in described.fields.values():
        shown["properties"][known.name] = _property(known)
        if known.element.lstrip("[]{}") not in schema.SCALARS:
            _collect(known.element.lstrip("[]{}"), into)


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
