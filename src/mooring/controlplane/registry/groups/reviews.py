"""The authentication.k8s.io and authorization.k8s.io groups: questions that are answered and not stored."""

from __future__ import annotations

from mooring.controlplane.types.kind import Kind

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_CREATE_ONLY = ("create",)


SELF_SUBJECT_REVIEWS = Kind(
    "SelfSubjectReview",
    "selfsubjectreviews",
    _AUTHENTICATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)


TOKEN_REVIEWS = Kind(
    "TokenReview",
    "tokenreviews",
    _AUTHENTICATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)


LOCAL_SUBJECT_ACCESS_REVIEWS = Kind(
    "LocalSubjectAccessReview",
    "localsubjectaccessreviews",
    _AUTHORIZATION,
    verbs=_CREATE_ONLY,
)


SELF_SUBJECT_ACCESS_REVIEWS = Kind(
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    _AUTHORIZATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)


SELF_SUBJECT_RULES_REVIEWS = Kind(
    "SelfSubjectRulesReview",
    "selfsubjectrulesreviews",
    _AUTHORIZATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)


SUBJECT_ACCESS_REVIEWS = Kind(
    "SubjectAccessReview",
    "subjectaccessreviews",
    _AUTHORIZATION,
    is_namespaced=False,
    verbs=_CREATE_ONLY,
)
