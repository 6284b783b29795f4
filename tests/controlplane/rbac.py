"""An authoriser that reads roles and bindings from the store, as RBAC does; without it every user may do all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from mooring.controlplane.registry.groups.core import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.serving.access import ApiUser, Attributes
from mooring.controlplane.types import status
from mooring.controlplane.types.kind import Kind, Object

MAX_PERMISSIONS = 10_000
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

    def check_grant(self, user: ApiUser, kind: Kind, namespace: str, new: Object, old: Object | None) -> None:
        """Refuse to let a user grant more than the user has, as upstream does.

        The verb ``escalate`` on roles and the verb ``bind`` on the role of a binding lift this.
        """
        if kind not in (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS) or _is_same_grant(new, old):
            return
        name = new["metadata"].get("name", "")
        verb, role, target = "escalate", kind, name
        if kind in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS):
            reference = new.get("roleRef") or {}
            role = CLUSTER_ROLES if reference.get("kind") == "ClusterRole" else ROLES
            verb, target = "bind", str(reference.get("name", ""))
        asked = Attributes(user.name, user.groups, verb, role.group, role.plural, "", namespace, target)
        if self(asked):
            return
        rules = new.get("rules") or []
        if verb == "bind":
            entry = self._store.get(role, namespace if role is ROLES else "", target)
            if entry is None:
                raise status.not_found(role.plural, role.group, target)
            rules = entry.object().get("rules") or []
        missing = not_covered(rules, list(self._rules(asked)))
        if missing:
            groups = " ".join(f'"{group}"' for group in user.groups)
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                + "\n".join(missing)
            )
            raise status.forbidden(kind.plural, kind.group, name, why)

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


# What a user may grant


def _is_same_grant(new: Object, old: Object | None) -> bool:
    """Whether a write changes nothing but what garbage collection needs to change."""
    return old is not None and _essence(new) == _essence(old)


def _essence(obj: Object) -> Object:
    changing = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")
    metadata = {key: value for key, value in obj["metadata"].items() if key not in changing}
    return {**obj, "metadata": metadata}


def not_covered(rules: list[Object], held: list[Object]) -> list[str]:
    """Those permissions in ``rules`` that no rule in ``held`` gives, as upstream writes them."""
    missing: dict[tuple[str, str, str, str], list[str]] = {}
    count = 0
    for rule in rules:
        parts = [rule.get(name) or () for name in ("verbs", "apiGroups", "resources", "nonResourceURLs")]
        names = rule.get("resourceNames") or ("",)
        count += len(parts[0]) * (len(parts[1]) * len(parts[2]) * len(names) + len(parts[3]))
        if count > MAX_PERMISSIONS:
            raise status.bad_request(f"the rules stand for more than {MAX_PERMISSIONS} single permissions")
        for verb in parts[0]:
            for group, resource, name in product(parts[1], parts[2], names):
                if not any(_gives(each, verb, group, resource, name) for each in held):
                    missing.setdefault((group, resource, name, ""), []).append(verb)
            for url in parts[3]:
                if not any(_gives_url(each, verb, url) for each in held):
                    missing.setdefault(("", "", "", url), []).append(verb)
    return sorted(_compact(*key, verbs) for key, verbs in missing.items())


def _gives(held: Object, verb: str, group: str, resource: str, name: str) -> bool:
    if not _has(held, "verbs", verb) or not _has(held, "apiGroups", group):
        return False
    resources = held.get("resources") or ()
    _, slash, subresource = resource.partition("/")
    if not ("*" in resources or resource in resources or (slash and f"*/{subresource}" in resources)):
        return False
    names = held.get("resourceNames") or ()
    return not names or (bool(name) and name in names)


def _gives_url(held: Object, verb: str, url: str) -> bool:
    urls = held.get("nonResourceURLs") or ()
    return _has(held, "verbs", verb) and any(
        known == url or (known.endswith("*") and url.startswith(known.rstrip("*"))) for known in urls
    )


def _compact(group: str, resource: str, name: str, url: str, verbs: list[str]) -> str:
    quoted = " ".join(f'"{verb}"' for verb in dict.fromkeys(verbs))
    if url:
        return f'{{NonResourceURLs:["{url}"], Verbs:[{quoted}]}}'
    names = f', ResourceNames:["{name}"]' if name else ""
    return f'{{APIGroups:["{group}"], Resources:["{resource}"]{names}, Verbs:[{quoted}]}}'
