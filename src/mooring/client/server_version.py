"""Which Kubernetes an API server is: what it answers to ``GET /version``."""

from __future__ import annotations

import re

import msgspec

from mooring.client.errors import ServerError
from mooring.client.rest import RestClient

_LEADING_DIGITS = re.compile(r"\d+")


class ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The version as the server says it. A provider may add to it: minor ``34+``, gitVersion ``v1.34.1-gke.200``."""

    major: str = ""
    minor: str = ""
    git_version: str = ""

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor as numbers, to compare; (0, 0) if the server does not say."""
        major, minor = _LEADING_DIGITS.match(self.major), _LEADING_DIGITS.match(self.minor)
        return (int(major[0]), int(minor[0])) if major and minor else (0, 0)


async def server_version(client: RestClient, *, timeout_s: float | None = None) -> ServerVersion:
    """Ask the server for its version."""
    answer = await client.get("/version", timeout_s=timeout_s)
    try:
        return msgspec.json.decode(answer.body, type=ServerVersion)
    except msgspec.DecodeError as error:
        raise ServerError(f"the answer to GET /version is no version: {error}") from None
