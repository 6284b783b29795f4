"""Token and access reviews: questions about users, answered and not stored."""

from __future__ import annotations

from mooring.controlplane.serving.access import Access, ApiUser, Attributes
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.objects import Object


def answer(kind: Kind, review: Object, access: Access, user: ApiUser, namespace: str) -> Object:
    """The review with its status filled in."""
    spec = review.setdefault("spec", {})
    match kind.kind:
        case "TokenReview":
            found = access.user_of(spec.get("token", ""))
            spec.pop("token", None)
            review["status"] = (
                {"authenticated": True, "user": _user_info(found)}
                if found is not None
                else {"user": {}, "error": "invalid bearer token"}
            )
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
    info: Object = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    return info


def _decision(access: Access, spec: Object, name: str, groups: tuple[str, ...], namespace: str) -> Object:
    resource, path = spec.get("resourceAttributes") or {}, spec.get("nonResourceAttributes") or {}
    asked = Attributes(
        user=name,
        groups=groups,
        verb=resource.get("verb") or path.get("verb", ""),
        group=resource.get("group", ""),
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", namespace),
        name=resource.get("name", ""),
        path=path.get("path", ""),
    )
    return {"allowed": access.is_allowed(asked)}
