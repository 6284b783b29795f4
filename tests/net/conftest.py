"""Certificates and small servers that the client's tests share."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Issued:
    certificate: bytes
    key: bytes
    certificate_file: str
    key_file: str


class Authority:
    """A certificate authority that lives for one test session."""

    def __init__(self, folder: Path, name: str = "test-ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            self._builder(subject, subject, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)
        self.file = str(folder / f"{name}.crt")
        Path(self.file).write_bytes(self.pem)

    @staticmethod
    def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def issue(self, name: str, *, hosts: tuple[str, ...] = (), organization: str = "") -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        builder = self._builder(x509.Name(attributes), self._certificate.subject, key)
        if hosts:
            names: list[x509.GeneralName] = []
            for host in hosts:
                try:
                    names.append(x509.IPAddress(ipaddress.ip_address(host)))
                except ValueError:
                    names.append(x509.DNSName(host))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        pem_key = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificate_file, key_file = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate_file.write_bytes(certificate)
        key_file.write_bytes(pem_key)
        return Issued(certificate, pem_key, str(certificate_file), str(key_file))

    def server_context(self, issued: Issued, *, verify_clients: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.certificate_file, issued.key_file)
        if verify_clients:
            context.load_verify_locations(cadata=self.pem.decode())
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other-pki"), "other-ca")


@pytest.fixture(scope="session")
def server_certificate(authority: Authority) -> Issued:
    return authority.issue("server", hosts=("127.0.0.1", "localhost", "api.example"))


Eventually = Callable[[Callable[[], object]], Awaitable[None]]


@pytest.fixture
def eventually() -> Eventually:
    """Wait until a condition holds, however slow this machine is; a test that waits for ever is ended by pytest."""

    async def wait(condition: Callable[[], object]) -> None:
        while not condition():  # noqa: ASYNC110 - any condition, not an event of ours
            await asyncio.sleep(0.001)

    return wait


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[..., Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a server on loopback that gives every request to one handler; returns its URL."""
    runners: list[web.AppRunner] = []

    async def start(handler: Handler, *, tls: ssl.SSLContext | None = None, port: int = 0) -> str:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{tail:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handle_signals=False)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls, reuse_address=True)
        await site.start()
        runners.append(runner)
        chosen = runner.addresses[0][1]
        return f"{'https' if tls else 'http'}://127.0.0.1:{chosen}"

    async def stop() -> None:
        while runners:
            await runners.pop().cleanup()

    start.stop = stop  # type: ignore[attr-defined]
    yield start
    await stop()


DEEP = b"[" * 5000 + b"]" * 5000


def encoded(value: object) -> bytes:
    """JSON in which the text DEEP stands for lists of thousands of levels, which Python cannot write."""
    return json.dumps(value).encode().replace(b'"DEEP"', DEEP)


class FakeApi:
    """One kind on a server that can be told to misbehave: versions, history, watches, pages, cuts."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.compacted = 0
        self.streaming = True
        self.requests: list[dict[str, str]] = []
        self.faults: list[Callable[[web.Request], Awaitable[web.StreamResponse | None]]] = []
        self.watchers: list[asyncio.Queue[bytes | None]] = []
        self.since: dict[asyncio.Queue[bytes | None], int] = {}  # the version from which each of them watches

    # What a test does to it

    def put(self, name: str, *, uid: str = "", **fields: Any) -> dict[str, Any]:
        self.version += 1
        old = self.objects.get(name)
        meta = {
            "name": name,
            "namespace": "default",
            "uid": uid or (old["metadata"]["uid"] if old else f"uid-{name}"),
            "resourceVersion": str(self.version),
        }
        item = {"metadata": meta, **fields}
        self.objects[name] = item
        self._happened("MODIFIED" if old else "ADDED", item)
        return item

    def delete(self, name: str) -> None:
        self.version += 1
        item = self.objects.pop(name)
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        self._happened("DELETED", item)

    def _happened(self, type_: str, item: dict[str, Any]) -> None:
        self.history.append((self.version, type_, item))
        for watcher in self.watchers:
            if self.since[watcher] < self.version:
                watcher.put_nowait(encoded({"type": type_, "object": item}) + b"\n")

    def send(self, event: dict[str, Any] | bytes) -> None:
        """Send an event, or bytes as they are, to all watchers."""
        data = event if isinstance(event, bytes) else encoded(event) + b"\n"
        for watcher in self.watchers:
            watcher.put_nowait(data)

    def bookmark(self) -> None:
        self.send({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}})

    def forget(self) -> None:
        """Forget all history, as a compaction does."""
        self.compacted = self.version
        self.history.clear()

    def backup(self) -> tuple[int, dict[str, dict[str, Any]]]:
        return self.version, dict(self.objects)

    def restore(self, backup: tuple[int, dict[str, dict[str, Any]]]) -> None:
        """Go back to an older state, as an API server does whose etcd was restored."""
        self.version, self.objects = backup[0], dict(backup[1])
        self.history.clear()
        self.cut()

    def cut(self) -> None:
        for watcher in self.watchers:
            watcher.put_nowait(None)
        self.watchers.clear()

    def watches(self) -> list[dict[str, str]]:
        return [query for query in self.requests if query.get("watch")]

    # What a client does to it

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append(query)
        if self.faults:
            answer = await self.faults.pop(0)(request)
            if answer is not None:
                return answer
        if not (query.get("resourceVersion") or "0").isdecimal():
            return self.status(400, "BadRequest", "resourceVersion: Invalid value")
        if query.get("watch"):
            return await self._watch(request, query)
        return self._list(query)

    def _list(self, query: dict[str, str]) -> web.Response:
        names = sorted(self.objects)
        start = int(query.get("continue", "0"))
        limit = int(query.get("limit", "0")) or len(names)
        page = names[start : start + limit]
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(names):
            meta["continue"] = str(start + limit)
        body = encoded({"metadata": meta, "items": [self.objects[name] for name in page]})
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request, query: dict[str, str]) -> web.StreamResponse:
        initial = query.get("sendInitialEvents") == "true"
        if initial and not self.streaming:
            return self.status(422, "Invalid", "sendInitialEvents: Forbidden: not here")
        version = int(query.get("resourceVersion") or 0)
        if not initial and version < self.compacted:
            return self.status(410, "Expired", f"too old resource version: {version} ({self.compacted})")
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        if initial:
            for name in sorted(self.objects):
                queue.put_nowait(encoded({"type": "ADDED", "object": self.objects[name]}) + b"\n")
            mark = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
            queue.put_nowait(json.dumps({"type": "BOOKMARK", "object": {"metadata": mark}}).encode() + b"\n")
        else:
            for at, type_, item in self.history:
                if at > version:
                    queue.put_nowait(encoded({"type": type_, "object": item}) + b"\n")
        self.watchers.append(queue)
        self.since[queue] = 0 if initial else version  # one that is still to come is waited for, in silence
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        while (data := await queue.get()) is not None:
            await response.write(data)
        return response

    @staticmethod
    def status(code: int, reason: str, message: str = "injected") -> web.Response:
        return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": message}, status=code)


@pytest.fixture
async def fake_api() -> AsyncIterator[FakeApi]:
    api = FakeApi()
    yield api
    api.cut()
