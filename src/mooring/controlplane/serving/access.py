"""Access to the server: bearer tokens, a kubeconfig for the administrator, an optional authoriser.

Anonymous requests are refused except for health and version. Tokens never reach a log or an error text.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from mooring.api import yaml
from mooring.api.errors import UsageError
from mooring.controlplane.types.kind import Kind, Object
from mooring.controlplane.types.status import StatusError, forbidden, unauthorized

MAX_ISSUED = 1000
MASTERS = "system:masters"
OPEN_PATHS = frozenset(["/healthz", "/livez", "/readyz", "/version", "/version/"])


class ApiUser(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


class Attributes(msgspec.Struct, frozen=True):
    """What a request wants, in the terms of an access review."""

    user: str
    groups: tuple[str, ...]
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


Authorizer = Callable[[Attributes], bool]


@runtime_checkable
class GrantGuard(Protocol):
    """An authoriser that also checks what roles and bindings would grant."""

    def check_grant(self, user: ApiUser, kind: Kind, namespace: str, new: Object, old: Object | None) -> None:
        """Raise 403 if a user would grant more than the user has."""


ANONYMOUS = ApiUser("system:anonymous", groups=("system:unauthenticated",))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


@dataclass(slots=True)
class Access:
    """Knows the tokens and decides what each user may do. Without an authoriser every known user may do everything."""

    admin_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    tokens: dict[str, ApiUser] = field(default_factory=dict, repr=False)
    authorizer: Authorizer | None = None
    _digests: dict[bytes, ApiUser] = field(default_factory=dict, repr=False)
    _issued: deque[str] = field(default_factory=deque, repr=False)

    def __post_init__(self) -> None:
        self.tokens[self.admin_token] = ApiUser("kubernetes-admin", groups=(MASTERS, "system:authenticated"))

    def authenticate(self, header: str) -> ApiUser:
        """Return the user of an Authorization header; 401 if it names no known user."""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            raise unauthorized()
        user = self.user_of(token.strip())
        if user is None:
            raise unauthorized()
        return user

    def user_of(self, token: str) -> ApiUser | None:
        """Look a token up by its digest, so that timing reveals nothing about the tokens."""
        return self._by_digest().get(_digest(token))

    def _by_digest(self) -> dict[bytes, ApiUser]:
        if not self._digests:
            self._digests = {_digest(token): user for token, user in self.tokens.items()}
        return self._digests

    def issue(self, user: ApiUser) -> str:
        """Return a new token for a user, valid until the server stops."""
        token = secrets.token_urlsafe(32)
        self._issued.append(token)
        if len(self._issued) > MAX_ISSUED:
            self.tokens.pop(self._issued.popleft(), None)
        self.add({token: user})
        return token

    def add(self, tokens: Mapping[str, ApiUser]) -> None:
        self.tokens.update(tokens)
        self._digests = {}

    def is_allowed(self, attributes: Attributes) -> bool:
        if self.authorizer is None or MASTERS in attributes.groups:
            return True
        return self.authorizer(attributes)

    def check_grant(self, user: ApiUser, kind: Kind, namespace: str, new: Object, old: Object | None) -> None:
        """Ask the authoriser whether a write of a role or binding would grant more than its writer has."""
        if isinstance(self.authorizer, GrantGuard) and MASTERS not in user.groups:
            self.authorizer.check_grant(user, kind, namespace, new, old)

    def authorize(self, attributes: Attributes) -> None:
        if self.is_allowed(attributes):
            return
        if attributes.resource:
            where = f' in the namespace "{attributes.namespace}"' if attributes.namespace else " at the cluster scope"
            resource = attributes.resource + (f"/{attributes.subresource}" if attributes.subresource else "")
            why = (
                f'User "{attributes.user}" cannot {attributes.verb} resource "{resource}" '
                f'in API group "{attributes.group}"{where}'
            )
            raise forbidden(attributes.resource, attributes.group, attributes.name, why)
        raise StatusError(
            403,
            "Forbidden",
            f'forbidden: User "{attributes.user}" cannot {attributes.verb} path "{attributes.path[:200]}"',
        )


def kubeconfig(server: str, token: str, ca: bytes | None = None) -> Mapping[str, object]:
    cluster: dict[str, object] = {"server": server}
    if ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "mooring", "cluster": cluster}],
        "users": [{"name": "mooring-admin", "user": {"token": token}}],
        "contexts": [{"name": "mooring", "context": {"cluster": "mooring", "user": "mooring-admin"}}],
        "current-context": "mooring",
    }


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, completely or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise UsageError(f"{path}: cannot write: {error.strerror}") from None


def write_kubeconfig(path: Path, server: str, token: str, ca: bytes | None = None) -> None:
    write_private(path, yaml.dump(dict(kubeconfig(server, token, ca)), sort_keys=False))


# Token and access reviews: questions about users, answered and not stored


def answer_review(kind: Kind, review: Object, access: Access, user: ApiUser, namespace: str) -> Object:
    """Return the review with its status."""
    spec = review.setdefault("spec", {})
    match kind.kind:
        case "TokenReview":
            found = access.user_of(spec.pop("token", ""))
            review["status"] = {"user": {}, "error": "invalid bearer token"}
            if found is not None:
                review["status"] = {"authenticated": True, "user": _user_info(found)}
        case "SelfSubjectReview":
            review.pop("spec", None)
            review["status"] = {"userInfo": _user_info(user)}
        case "SelfSubjectRulesReview":
            review["status"] = {
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": access.authorizer is not None,
            }
        case "SelfSubjectAccessReview":
            review["status"] = _decision(access, spec, user.name, user.groups, namespace)
        case _:
            review["status"] = _decision(access, spec, spec.get("user", ""), tuple(spec.get("groups") or ()), namespace)
    return review


def _user_info(user: ApiUser) -> Object:
    info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {key: value for key, value in info.items() if value}


def _decision(access: Access, spec: Object, name: str, groups: tuple[str, ...], namespace: str) -> Object:
    resource, path = spec.get("resourceAttributes") or {}, spec.get("nonResourceAttributes") or {}
    asked_for = {key: resource.get(key, "") for key in ("group", "resource", "subresource", "name")}
    verb, namespace = resource.get("verb") or path.get("verb", ""), resource.get("namespace", namespace)
    asked = Attributes(name, groups, verb, **asked_for, namespace=namespace, path=path.get("path", ""))
    return {"allowed": access.is_allowed(asked)}
