"""What a URL path means: a kind, perhaps a namespace, a name, a subresource."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from mooring.controlplane.registry.catalog import by_path
from mooring.controlplane.types.kind import Kind
from mooring.controlplane.types.status import StatusError, bad_request, path_not_found

MAX_PATH = 4096


class Route(NamedTuple):
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    is_watch_path: bool = False
    """The deprecated ``/watch/`` prefix: a list that is a watch."""


def split(raw: str) -> tuple[str, dict[str, str]]:
    """Path and query parameters of a request target; of a repeated parameter the first counts."""
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
    """The route of an API path below ``/api/v1`` or ``/apis/group/version``; a 404 for anything else."""
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
    if subresource and subresource not in kind.subresources:
        raise path_not_found()
    if name and "list" not in kind.verbs:
        raise path_not_found()
    return Route(kind, namespace, name, subresource, is_watch)
