"""A request and its answer, without the framework that carries them.

Over a socket ``http`` makes a :class:`Request` of what aiohttp received; a caller in the same process makes one itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.controlplane.serving import media
from mooring.controlplane.types import patch, protobuf, quantities, schema, status
from mooring.controlplane.types.objects import Object
from mooring.controlplane.types.status import StatusError

_encode = msgspec.json.Encoder().encode
JSON = media.JSON
_WARNING_CHARACTERS = 400


class ApiRequest:
    """What is asked: method, target (path and query), headers, body."""

    __slots__ = ("_body", "headers", "method", "target")

    def __init__(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self._body = body

    async def read(self) -> bytes:
        """The whole body; a StatusError when it is too large or too slow."""
        return self._body

    def cut(self) -> None:
        """Cut the connection that brought the request, if there is one."""

    @property
    def content_type(self) -> str:
        return media.content_type(self.headers.get("Content-Type", ""))

    @property
    def patch_type(self) -> str:
        """Which kind of patch the body is; 415 when it is none."""
        kind = self.content_type
        if kind not in patch.TYPES:
            raise status.unsupported_media(kind, patch.TYPES)
        return kind

    @property
    def agent(self) -> str:
        """The name of the client, which manages the fields that it writes."""
        name = self.headers.get("User-Agent", "").partition("/")[0][:128]
        return name if name.isprintable() else ascii(name)[1:129]

    async def body(self) -> bytes:
        """The body as JSON (or as it is, for a patch)."""
        body = await self.read()
        kind = self.content_type
        if kind == media.PROTOBUF:
            return protobuf.to_json(body)
        if body and self.method != "PATCH" and kind not in ("", JSON, "text/plain", "application/octet-stream"):
            raise status.unsupported_media(kind, [JSON, media.PROTOBUF])
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
        """Add a warning that clients show to their users; what a header cannot hold is escaped."""
        shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:_WARNING_CHARACTERS])
        quoted = shown.replace("\\", "\\\\").replace('"', '\\"')
        self.headers.append(("Warning", f'299 - "{quoted}"'))


def delete_options(body: bytes, parameters: Mapping[str, str]) -> Object:
    """The DeleteOptions of a request: its body, completed by its query parameters."""
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
