"""Exceptions for unsuccessful responses, by status code, and for requests without a response.

ApiError
├── BadRequest 400, Unauthorized 401, Forbidden 403, NotFound 404, MethodNotAllowed 405, NotAcceptable 406
├── Conflict 409 (AlreadyExists where the Status says so), Gone 410, Invalid 422, TooManyRequests 429
├── ServerError 5xx
│   └── VersionTooLarge   504: the server has not seen this resourceVersion yet
└── ConnectionFailed      no answer at all; ``was_sent`` says whether the server may have seen the request
    ├── Fenced            not sent, because this process may no longer write
    ├── RequestTimeout    no answer in time
    └── Unreachable       the connection was refused, or there is no route or no such host; nothing was sent
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from mooring.api.errors import ApiError

MAX_RETRY_AFTER_S = 10.0
"""kube-apiserver asks for 1 to 8 seconds. A proxy or an attacker may ask for years."""
VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class BadRequest(ApiError):
    """400: the server cannot interpret the request."""


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: the user lacks permission; the text names the verb and the resource."""


class NotFound(ApiError):
    """404: the object or the kind does not exist."""


class MethodNotAllowed(ApiError):
    """405: the kind does not support this verb."""


class NotAcceptable(ApiError):
    """406: the server does not support the requested media type."""


class Conflict(ApiError):
    """409: the object has changed, or the request contradicts its state."""


class AlreadyExists(Conflict):
    """409 on create: the name is taken."""


class Gone(ApiError):
    """410: the resourceVersion is too old; a new list is needed."""


class Invalid(ApiError):
    """422: the server rejects the content of the request."""


class TooManyRequests(ApiError):
    """429: the server asks to wait for ``retry_after_s``."""


class ServerError(ApiError):
    """5xx: a problem of the server."""


class VersionTooLarge(ServerError):
    """504: the server has not reached this resourceVersion; it was restored from a backup, or it lags."""


class ConnectionFailed(ApiError):
    """There was no response: no connection was made, it broke, or the server's certificate is invalid.

    ``was_sent`` is false only if no byte of the request was written: then the server cannot have acted on it. If it is
    true, the server may have carried the request out. Code that repeats a write, or gives it up, decides by this.
    """

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class Fenced(ConnectionFailed):
    """The request was not sent, because this process may have lost its right to write, such as a lease."""

    def __init__(self) -> None:
        super().__init__("not sent: the lease is lost, another replica may be leading", was_sent=False)


class RequestTimeout(ConnectionFailed):
    """There was no response within the timeout."""


class Unreachable(ConnectionFailed):
    """The connection was refused, or there is no route or no such host. A retry puts no load on a server."""

    def __init__(self, message: str) -> None:
        super().__init__(message, was_sent=False)


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    406: NotAcceptable,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None

    @property
    def causes(self) -> list[str]:
        """Return the machine-readable reasons in the details."""
        return [cause.reason for cause in (self.details and self.details.causes) or ()]


_status_decoder = msgspec.json.Decoder(_Status)


def why_not(error: OSError) -> str:
    """Return the system's reason why there is no connection, which asyncio hides behind "Connect call failed"."""
    number = error.errno or 0  # name lookups have negative numbers
    return os.strerror(number) if number > 0 else error.strerror or str(error)


def resource_of(path: str) -> str:
    """Return the resource of a request path, as RBAC names it: ``pods/binding``, ``leases.coordination.k8s.io``."""
    parts = [part for part in path.partition("?")[0].split("/") if part]
    group = ""
    if parts[:1] == ["api"]:
        parts = parts[2:]
    elif parts[:1] == ["apis"]:
        group = parts[1] if len(parts) > 1 else ""
        parts = parts[3:]
    else:
        return path.partition("?")[0]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    if not parts:
        return path.partition("?")[0]
    name = parts[0] + (f".{group}" if group else "")
    return f"{name}/{parts[2]}" if len(parts) > 2 else name


def verb_of(method: str, path: str) -> str:
    """Return the verb of a request, as RBAC names it: a GET without a name is a list or a watch."""
    if method != "GET":
        return VERBS.get(method, method.lower())
    bare, _, query = path.partition("?")
    parts = [part for part in bare.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if len(rest) != 1:
        return "get"
    return "watch" if "watch=true" in query or "watch=1" in query else "list"


def parse_retry_after(value: str | None) -> float | None:
    """Parse a Retry-After header; invalid values count as none, and long times as ``MAX_RETRY_AFTER_S``.

    API servers send seconds. A date would need synchronised clocks, so it counts as invalid.
    """
    value = (value or "").strip()
    if not (value.isascii() and value.isdecimal()):
        return None
    return MAX_RETRY_AFTER_S if len(value) > 4 else min(float(value), MAX_RETRY_AFTER_S)


def _error_of(status: _Status, code: int, message: str, *, retry_after_s: float | None = None) -> ApiError:
    """Choose the exception for a status code and a Status object."""
    kind = _BY_CODE.get(code, ServerError if code >= 500 else ApiError)
    if code == 409 and status.reason == "AlreadyExists":
        kind = AlreadyExists
    elif code == 504 and "ResourceVersionTooLarge" in status.causes:
        kind = VersionTooLarge
    return kind(message, code=code, reason=status.reason, retry_after_s=retry_after_s)


def error_of_answer(code: int, body: bytes, headers: Mapping[str, str], *, method: str, path: str) -> ApiError:
    """Turn an unsuccessful response into an exception with a text of one line."""
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):  # a body that is nested too deeply to be a Status
        text = " ".join(body[:200].decode("utf-8", "replace").split())
        status = _Status(message=text)
    message = " ".join(status.message.split())
    resource = resource_of(path)
    if not message:
        message = f"the server answered {code}"
    if code == 403 and not ("cannot" in message and resource.partition("/")[0].partition(".")[0] in message):
        message = f"forbidden: may not {verb_of(method, path)} {resource}: {message}"
    elif code == 401:
        message = f"the server refused the credentials (401) on {verb_of(method, path)} {resource}: {message}"
    retry_after_s = parse_retry_after(headers.get("Retry-After") or headers.get("retry-after"))
    return _error_of(status, code, message, retry_after_s=retry_after_s)


def error_of_watch(body: bytes) -> ApiError:
    """Turn the Status object of an ERROR event into an exception."""
    try:
        status = _status_decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return ServerError("an ERROR event without a Status", code=500)
    code = status.code or (410 if status.reason in ("Expired", "Gone") else 500)
    return _error_of(status, code, " ".join(status.message.split()))
