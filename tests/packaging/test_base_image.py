"""The base image of a release is named by its digest, or there is no release."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLATFORMS = b'{"schemaVersion": 2, "manifests": []}'
DIGEST = f"sha256:{hashlib.sha256(PLATFORMS).hexdigest()}"


class Registry(ThreadingHTTPServer):
    """A registry that has one list of platforms, and gives it to those who fetched a token."""

    said = DIGEST
    status = 200

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        if self.path.startswith("/token?"):
            assert "scope=repository%3Alibrary%2Fpython%3Apull" in self.path
            self._send(200, json.dumps({"token": "for-python"}).encode())
        elif self.headers.get("Authorization") != "Bearer for-python":
            realm = f'Bearer realm="{self.server.address}/token",service="r",scope="repository:library/python:pull"'
            self._send(401, b"", ("WWW-Authenticate", realm))
        else:
            assert "index" in self.headers["Accept"] and re.fullmatch(r"/v2/library/python/manifests/3\S+", self.path)
            self._send(self.server.status, PLATFORMS, ("Docker-Content-Digest", self.server.said))

    def _send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def written(registry: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "base_image.py")],
        env={**os.environ, "no_proxy": "127.0.0.1", "REGISTRY": registry, **environment},
        check=False,
        capture_output=True,
        text=True,
    )


def test_both_stages_name_the_digest_and_nothing_else_changes(registry):
    done = written(registry.address, BASE_DIGEST=DIGEST)
    assert done.returncode == 0, done.stderr
    bases = re.findall(r"^FROM (\S+)", done.stdout, re.MULTILINE)
    assert len(bases) == 2 and all(base.endswith(f"@{DIGEST}") for base in bases)
    assert done.stdout.replace(f"@{DIGEST}", "") == (ROOT / "deploy" / "Dockerfile").read_text()


OTHER = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("said", "status", "expected", "want"),
    [
        pytest.param(OTHER, 200, "", f"the registry says {OTHER}", id="what was sent is not what was said"),
        pytest.param("", 200, "", "the registry says no digest", id="no digest is said"),
        pytest.param(DIGEST, 404, "", "HTTP Error 404", id="the tag is gone"),
        pytest.param(DIGEST, 200, OTHER, f"BASE_DIGEST is {OTHER}", id="the tag was moved"),
        pytest.param(DIGEST, 200, "latest", "expected sha256: and 64", id="the expected digest is none"),
    ],
)
def test_a_digest_that_cannot_be_known_or_is_another_one_is_an_error(registry, said, status, expected, want):
    registry.said, registry.status = said, status
    done = written(registry.address, BASE_DIGEST=expected)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("base_image: the base of deploy/Dockerfile has no digest: ") and want in line


def test_without_a_registry_there_is_no_digest(registry):
    registry.shutdown()
    registry.server_close()
    done = written(registry.address)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Connection refused" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_release_stops_before_anything_is_built_if_the_base_has_no_digest():
    lines = (ROOT / "scripts" / "release").read_text().splitlines()
    assert "set -euo pipefail" in lines
    filled = next(i for i, line in enumerate(lines) if "scripts/base_image.py > dist/Dockerfile" in line)
    assert filled < next(i for i, line in enumerate(lines) if "hatchling build" in line)
