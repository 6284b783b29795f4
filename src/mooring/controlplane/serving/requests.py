"""Requests and answers, independent of their transport.

For a socket, ``http`` makes an :class:`ApiRequest`; callers in this process make one themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from mooring.controlplane.registry.catalog import by_path
from mooring.controlplane.types import patch, protobuf, quantities, schema, status
from mooring.controlplane.types.kind import Kind, Object
from mooring.controlplane.types.status import StatusError, bad_request, not_acceptable, path_not_found

# Content negotiation: which form of an answer a client accepts, and the type of a body

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"


_FORMS = {  # Accept may ask for other forms of an object or a list than its own
    ("meta.k8s.io", "Table"): "Table",
    ("meta.k8s.io", "PartialObjectMetadata"): "PartialObjectMetadata",
    ("meta.k8s.io", "PartialObjectMetadataList"): "PartialObjectMetadata",
    ("apidiscovery.k8s.io", "APIGroupDiscoveryList"): "APIGroupDiscoveryList",
}


OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@lru_cache(maxsize=512)
def accept(header: str) -> str:
    """Return the first acceptable form that is supported, empty for the object itself; 406 if there is none."""
    if not header:
        return ""
    for part in header.split(","):
        kind, *rest = (piece.strip() for piece in part.split(";"))
        options = dict(piece.partition("=")[::2] for piece in rest)
        if kind == OPENAPI_V2:
            return kind
        if kind in (JSON, "application/*", "*/*"):
            if "as" not in options:
                return ""
            form = _FORMS.get((options.get("g", ""), options["as"]), "")
            versions = ("v2",) if form == "APIGroupDiscoveryList" else ("v1", "v1beta1")
            if form and options.get("v", "") in versions:
                return form
    raise not_acceptable([JSON])


def content_type(header: str) -> str:
    return header.partition(";")[0].strip().lower()


_encode = msgspec.json.Encoder().encode
_WARNING_CHARACTERS = 400


class ApiRequest:
    """A request: method, target (path and query), headers, body."""

    __slots__ = ("_body", "headers", "method", "target")

    def __init__(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self._body = body

    async def read(self) -> bytes:
        """Return the whole body; a StatusError if it is too large or too slow."""
        return self._body

    def cut(self) -> None:
        """Close the connection of the request, if there is one."""

    @property
    def content_type(self) -> str:
        return content_type(self.headers.get("Content-Type", ""))

    @property
    def patch_type(self) -> str:
        """Return the type of the patch; 415 for an unknown one."""
        kind = self.content_type
        if kind not in patch.TYPES:
            raise status.unsupported_media(kind, patch.TYPES)
        return kind

    @property
    def agent(self) -> str:
        """Return the name of the client, which manages the fields that it writes."""
        name = self.headers.get("User-Agent", "").partition("/")[0][:128]
        return name if name.isprintable() else ascii(name)[1:129]

    async def body(self) -> bytes:
        """Return the body as JSON (or unchanged, for a patch)."""
        body = await self.read()
        kind = self.content_type
        if kind == PROTOBUF:
            return protobuf.to_json(body)
        if body and self.method != "PATCH" and kind not in ("", JSON, "text/plain", "application/octet-stream"):
            raise status.unsupported_media(kind, [JSON, PROTOBUF])
        return body


class Reply:
    """A complete answer."""

    __slots__ = ("body", "code", "content_type", "headers", "is_last")

    def __init__(self, body: bytes, code: int = 200, content_type: str = JSON) -> None:
        self.body = body
        self.code = code
        self.content_type = content_type
        self.headers: list[tuple[str, str]] = []
        self.is_last = False
        """Whether the connection is closed after this."""

    @staticmethod
    def json(obj: Any, code: int = 200) -> Reply:
        return Reply(_encode(obj), code)

    @staticmethod
    def failure(error: StatusError) -> Reply:
        try:
            body = _encode(error.to_status())
        except UnicodeEncodeError:  # it quotes a header that is not UTF-8
            body = json.dumps(error.to_status()).encode()
        reply = Reply(body, error.code)
        reply.headers.extend(error.headers.items())
        reply.is_last = error.code in (401, 413)
        return reply

    def warn(self, text: str) -> None:
        """Add a warning that clients show to their users; characters that a header cannot hold are escaped."""
        shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:_WARNING_CHARACTERS])
        quoted = shown.replace("\\", "\\\\").replace('"', '\\"')
        self.headers.append(("Warning", f'299 - "{quoted}"'))


def delete_options(body: bytes, parameters: Mapping[str, str]) -> Object:
    """Return the DeleteOptions of a request: its body, completed by its query parameters."""
    options: Object = {}
    if body.strip():
        options, _ = schema.decode("meta.v1.DeleteOptions", body, "DeleteOptions", "v1")
        if options.get("dryRun") and options["dryRun"] != ["All"]:
            causes = [status.unsupported("dryRun", options["dryRun"], ["All"])]
            raise status.invalid("DeleteOptions", "meta.k8s.io", "", causes)
    if "propagationPolicy" in parameters:
        options.setdefault("propagationPolicy", parameters["propagationPolicy"])
    if "gracePeriodSeconds" in parameters:
        text = parameters["gracePeriodSeconds"]
        seconds = quantities.whole(text)
        if seconds is None:
            raise status.bad_request(f"gracePeriodSeconds: expected a number of seconds, found {text[:40]!r}")
        options.setdefault("gracePeriodSeconds", seconds)
    if "orphanDependents" in parameters:
        options.setdefault("orphanDependents", parameters["orphanDependents"] in ("true", "1"))
    return options


# URL paths: a kind, perhaps a namespace, a name, a subresource

MAX_PATH = 4096
OF_CONTAINERS = ("log", "exec", "attach", "portforward", "proxy")  # answered by a kubelet


class Route(NamedTuple):
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    is_watch_path: bool = False
    """The deprecated ``/watch/`` prefix: a list that is a watch."""


def split(raw: str) -> tuple[str, dict[str, str]]:
    """Return path and query parameters of a request target; of a repeated parameter the first counts."""
    if not raw.isascii():
        try:
            raw.encode()
        except UnicodeEncodeError:
            raise bad_request("the request target is not valid UTF-8") from None
    path, _, query = raw.partition("?")
    if len(path) > MAX_PATH:
        raise StatusError(414, "BadRequest", "the request path is too long")
    if "%" in path:
        try:
            path = unquote(path, errors="strict")
        except UnicodeDecodeError:
            raise bad_request("the request path is not valid UTF-8") from None
    parameters: dict[str, str] = {}
    if query:
        try:
            for key, value in parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100):
                parameters.setdefault(key, value)
        except (UnicodeDecodeError, ValueError):
            raise bad_request("the query string cannot be understood") from None
    return path, parameters


def parse(path: str) -> Route:
    """Return the route of an API path below ``/api/v1`` or ``/apis/group/version``; a 404 for anything else."""
    parts = path.strip("/").split("/")
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise path_not_found()
    is_watch = rest[0] == "watch" and len(rest) > 1
    if is_watch:
        rest = rest[1:]
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) >= 3
        and not (group == "" and len(rest) == 3 and rest[2] in ("status", "finalize"))
    ):
        namespace, rest = rest[1], rest[2:]
        if not namespace:
            raise path_not_found()
    kind = by_path(group, version, rest[0])
    if kind is None or len(rest) > 3 or (len(rest) > 1 and not rest[1]) or (namespace and not kind.is_namespaced):
        raise path_not_found()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if kind.is_namespaced and name and not namespace:
        raise path_not_found()
    if kind.plural == "pods" and subresource in OF_CONTAINERS:
        what = "no container runs here: nodes and their kubelets are simulated, and pods have no processes"
        raise StatusError(501, "NotImplemented", f"pods/{subresource}: {what}")
    if subresource and subresource not in kind.subresources:
        raise path_not_found()
    if name and "list" not in kind.verbs:
        raise path_not_found()
    return Route(kind, namespace, name, subresource, is_watch)
