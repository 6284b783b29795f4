"""An authoriser that reads roles and bindings from the store, as RBAC does; without it every user may do all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.controlplane.registry.groups.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.serving.access import Attributes
from mooring.controlplane.types.objects import Object

_DISCOVERY = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz")


class Rbac:
    """Allows what a rule of a bound role allows; pass the class as ``ControlPlane(authorizer=Rbac)``."""

    def __init__(self, api: Api) -> None:
        self._store = api.store

    def __call__(self, asked: Attributes) -> bool:
        if not asked.resource and _is_discovery(asked.path) and "system:authenticated" in asked.groups:
            return True
        if asked.group in ("authorization.k8s.io", "authentication.k8s.io") and asked.resource.startswith(
            "selfsubject"
        ):
            return True
        return any(_allows(rule, asked) for rule in self._rules(asked))

    def _rules(self, asked: Attributes) -> Iterator[Object]:
        for entry in self._store.iterate(CLUSTER_ROLE_BINDINGS):
            binding = entry.object()
            if _is_bound(binding, asked, ""):
                yield from self._rules_of(binding, "")
        if asked.namespace:
            for entry in self._store.iterate(ROLE_BINDINGS, asked.namespace):
                binding = entry.object()
                if _is_bound(binding, asked, asked.namespace):
                    yield from self._rules_of(binding, asked.namespace)

    def _rules_of(self, binding: Object, namespace: str) -> Iterator[Object]:
        reference = binding.get("roleRef") or {}
        if reference.get("kind") == "ClusterRole":
            entry = self._store.get(CLUSTER_ROLES, "", reference.get("name", ""))
        else:
            entry = self._store.get(ROLES, namespace, reference.get("name", ""))
        if entry is not None:
            yield from entry.object().get("rules") or ()


def _is_discovery(path: str) -> bool:
    return any(path == known or path.startswith(known + "/") for known in _DISCOVERY)


def _is_bound(binding: Object, asked: Attributes, namespace: str) -> bool:
    for subject in binding.get("subjects") or ():
        name = subject.get("name", "")
        match subject.get("kind"):
            case "User" if name == asked.user:
                return True
            case "Group" if name in asked.groups:
                return True
            case "ServiceAccount":
                if asked.user == f"system:serviceaccount:{subject.get('namespace') or namespace}:{name}":
                    return True
    return False


def _has(rule: Object, key: str, value: str) -> bool:
    values: Any = rule.get(key) or ()
    return "*" in values or value in values


def _allows(rule: Object, asked: Attributes) -> bool:
    if not _has(rule, "verbs", asked.verb):
        return False
    if not asked.resource:
        urls = rule.get("nonResourceURLs") or ()
        return any(url in ("*", asked.path) or (url.endswith("*") and asked.path.startswith(url[:-1])) for url in urls)
    if not _has(rule, "apiGroups", asked.group):
        return False
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    resources = rule.get("resources") or ()
    if not ("*" in resources or resource in resources or (asked.subresource and f"*/{asked.subresource}" in resources)):
        return False
    names = rule.get("resourceNames")
    return not names or asked.name in names
