"""Errors in upstream's shape: every error that a client sees is a Status object with these reasons and texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from mooring.api.errors import ApiError


class StatusError(ApiError):
    """An error that becomes a Status with ``code`` and ``reason``; ``details`` as clients expect them."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, code=code, reason=reason, retry_after_s=retry_after_s)
        self.details = dict(details) if details else {}
        self.headers = dict(headers) if headers else {}
        if retry_after_s is not None:
            self.details.setdefault("retryAfterSeconds", round(retry_after_s))
            self.headers.setdefault("Retry-After", str(round(retry_after_s)))

    def to_status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status


class Cause(msgspec.Struct, frozen=True):
    """One field's problem; ``message`` is worded as in upstream's field errors."""

    reason: str
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", field, "Required value" + (f": {detail}" if detail else ""))


def _shown(value: Any) -> str:
    """Return a value as Go's field errors print it: strings quoted, numbers and booleans bare, objects as JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=not isinstance(value, str))


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    return Cause("FieldValueInvalid", field, f"Invalid value: {_shown(value)}: {detail}")


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    options = ", ".join(f'"{option}"' for option in supported)
    return Cause("FieldValueNotSupported", field, f"Unsupported value: {_shown(value)}: supported values: {options}")


def duplicate(field: str, value: Any) -> Cause:
    return Cause("FieldValueDuplicate", field, f"Duplicate value: {_shown(value)}")


def forbidden_field(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def field_not_found(field: str, value: Any) -> Cause:
    return Cause("FieldValueNotFound", field, f"Not found: {_shown(value)}")


def too_long(field: str, limit: int) -> Cause:
    return Cause("FieldValueTooLong", field, f"Too long: may not be more than {limit} bytes")


def qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}


def not_found(resource: str, group: str, name: str) -> StatusError:
    text = f'{qualified(resource, group)} "{name}" not found'
    return StatusError(404, "NotFound", text, details=_details(name, group, resource))


def already_exists(resource: str, group: str, name: str) -> StatusError:
    text = f'{qualified(resource, group)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", text, details=_details(name, group, resource))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, group: str, name: str, why: str = MODIFIED) -> StatusError:
    text = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}'
    return StatusError(409, "Conflict", text, details=_details(name, group, resource))


def uid_conflict(resource: str, group: str, name: str, wanted: Any, found: str) -> StatusError:
    why = f"Precondition failed: UID in precondition: {str(wanted)[:64]}, UID in object meta: {found}"
    return conflict(resource, group, name, why)


def apply_conflict(causes: Sequence[tuple[str, str]]) -> StatusError:
    """Return the error of a server-side apply that changes fields of other managers: (manager, field) pairs."""
    managers = sorted({manager for manager, _ in causes})
    count = "1 conflict" if len(causes) == 1 else f"{len(causes)} conflicts"
    if len(causes) == 1:
        shown = f' with "{managers[0]}": {causes[0][1]}'
    elif len(managers) == 1:
        shown = f' with "{managers[0]}":\n' + "\n".join(f"- {field}" for _, field in causes)
    else:
        lines = []
        for manager in managers:
            lines.append(f'conflicts with "{manager}":')
            lines += [f"- {field}" for owner, field in causes if owner == manager]
        shown = ": " + "\n".join(lines)
    details = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": field}
        for manager, field in causes
    ]
    return StatusError(409, "Conflict", f"Apply failed with {count}: conflicts{shown}", details={"causes": details})


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> StatusError:
    texts = list(dict.fromkeys(str(cause) for cause in causes))
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = _details(name, group, kind)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return StatusError(422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {text}', details=details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def forbidden(resource: str, group: str, name: str, why: str) -> StatusError:
    subject = qualified(resource, group) + (f' "{name}"' if name else "")
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details=_details(name, group, resource))


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def gone(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_old(asked: int, oldest: int) -> StatusError:
    return gone(f"too old resource version: {asked} ({oldest})")


def too_large(asked: int, current: int) -> StatusError:
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(504, "Timeout", message, details={"causes": [cause]}, retry_after_s=1)


def too_many_requests(message: str, retry_after_s: float, cause: Mapping[str, Any] | None = None) -> StatusError:
    details = {"causes": [dict(cause)]} if cause else None
    return StatusError(429, "TooManyRequests", message, details=details, retry_after_s=retry_after_s or None)


def method_not_allowed(message: str = "the server does not allow this method on the requested resource") -> StatusError:
    return StatusError(405, "MethodNotAllowed", message)


def unsupported_media(content_type: str, accepted: Sequence[str]) -> StatusError:
    text = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    cause = {"reason": "UnexpectedServerResponse", "message": f"unknown: {content_type[:100]}"}
    return StatusError(415, "UnsupportedMediaType", text, details={"causes": [cause]})


def not_acceptable(accepted: Sequence[str]) -> StatusError:
    text = "only the following media types are accepted: " + ", ".join(accepted)
    return StatusError(406, "NotAcceptable", text)


def path_not_found() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")
