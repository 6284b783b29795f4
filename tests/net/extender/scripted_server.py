"""A plain HTTP server with scripted answers that records its requests."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Asked:
    path: str
    body: Any
    headers: dict[str, str]
    connection: tuple[str, int]
    attempt: int


@dataclass
class Script:
    """Answers by path, in order; the last one is repeated. An answer: status, body or raw, delaySeconds."""

    answers: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    asked: list[Asked] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    port: int = 0
    attempt: int = 1  # counted by the code that drives the client

    def say(self, path: str, *answers: dict[str, Any]) -> None:
        self.answers[path].extend(answers)

    def next_answer(self, path: str) -> dict[str, Any]:
        left = self.answers.get(path) or [{"status": 404, "raw": "nothing is written here"}]
        return left.pop(0) if len(left) > 1 else left[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet, or each answer takes 40 ms
    script: Script

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(data)
        except ValueError:
            body = data
        script = self.script
        script.asked.append(Asked(self.path, body, dict(self.headers), self.client_address, script.attempt))
        answer = script.next_answer(self.path)
        if answer.get("delaySeconds"):
            script.released.wait(answer["delaySeconds"])
        if answer.get("hang_up"):
            self.close_connection = True
            return
        raw = answer["raw"] if "raw" in answer else json.dumps(answer.get("body"))
        payload = raw if isinstance(raw, bytes) else raw.encode()
        self.send_response(answer.get("status", 200))
        self.send_header("Content-Length", str(answer.get("length", len(payload))))
        for name, value in answer.get("headers", {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)
        if answer.get("keep_open"):
            self.wfile.flush()
            script.released.wait(5)
        if answer.get("length"):
            self.close_connection = True

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that gives up is part of the tests


@contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[Script]:
    handler = type("Handler", (_Handler,), {"script": script})
    server = _Server(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    script.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        script.released.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


@dataclass(frozen=True)
class Certificate:
    certificate: bytes
    key: bytes

    def context(self, purpose: ssl.Purpose = ssl.Purpose.CLIENT_AUTH) -> ssl.SSLContext:
        context = ssl.create_default_context(purpose)
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(self.certificate + self.key)
            file.flush()
            context.load_cert_chain(file.name)
        return context


def make_certificate(*names: str) -> Certificate:
    """A self-signed certificate for these names or addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    alternatives: list[x509.GeneralName] = []
    for name in names:
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            alternatives.append(x509.DNSName(name))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificate(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
