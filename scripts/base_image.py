"""Prints deploy/Dockerfile with its base named by digest, as the registry has it now; for ``scripts/release``.

A tag can be moved, a digest cannot. The digest is that of the list of all platforms, and it is checked against what the
registry sends. ``BASE_DIGEST=sha256:…`` names the one that a release must have: another one is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

DOCKERFILE = Path(__file__).parents[1] / "deploy" / "Dockerfile"
REGISTRY = "https://registry-1.docker.io"
LISTS = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
_BASE = re.compile(r"^FROM ([a-z0-9]+):([\w.-]+)", re.MULTILINE)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MAX_BYTES = 1 << 20


class Unknown(Exception):
    """The digest cannot be known; the message says why."""


def with_digest(text: str, registry: str, expected: str = "") -> str:
    """The Dockerfile with the digest behind the tag in every line that names the base."""
    if expected and not _DIGEST.fullmatch(expected):
        raise Unknown(f"BASE_DIGEST is {expected!r}; expected sha256: and 64 hexadecimal digits")
    bases = set(_BASE.findall(text))
    if len(bases) != 1:
        raise Unknown(f"found {len(bases)} base images in the Dockerfile; expected one, such as python:3.11.15-slim")
    name, tag = bases.pop()
    found = digest_of(registry, f"library/{name}", tag)
    if expected and found != expected:
        raise Unknown(f"{name}:{tag} is {found} in the registry; BASE_DIGEST is {expected}")
    return _BASE.sub(lambda line: f"{line.group()}@{found}", text)


def digest_of(registry: str, name: str, tag: str) -> str:
    """The digest of a tag's list of platforms."""
    address = f"{registry}/v2/{name}/manifests/{tag}"
    try:
        body, said = _manifest(address)
    except (OSError, ValueError) as error:
        raise Unknown(f"{address}: {error}") from None
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    if said != digest:
        raise Unknown(f"{address}: the registry says {said or 'no digest'}, but what it sent is {digest}")
    return digest


def _manifest(address: str) -> tuple[bytes, str]:
    """The list, and the digest that the registry says it has; a token is fetched if it asks for one."""
    headers = {"Accept": LISTS}
    try:
        return _get(address, headers)
    except urllib.error.HTTPError as error:
        challenge = error.headers.get("WWW-Authenticate", "")
        if error.code != 401 or not challenge.startswith("Bearer "):
            raise
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    wanted = {key: fields[key] for key in ("service", "scope") if key in fields}
    granted, _ = _get(f"{fields.get('realm', '')}?{urllib.parse.urlencode(wanted)}", {})
    token = json.loads(granted).get("token", "")
    return _get(address, {**headers, "Authorization": f"Bearer {token}"})


def _get(address: str, headers: dict[str, str]) -> tuple[bytes, str]:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=30) as answer:
        return answer.read(MAX_BYTES), answer.headers.get("Docker-Content-Digest", "")


def main() -> int:
    registry, expected = os.environ.get("REGISTRY", REGISTRY), os.environ.get("BASE_DIGEST", "")
    try:
        sys.stdout.write(with_digest(DOCKERFILE.read_text(encoding="utf-8"), registry.rstrip("/"), expected))
    except Unknown as problem:
        print(f"base_image: the base of deploy/Dockerfile has no digest: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
