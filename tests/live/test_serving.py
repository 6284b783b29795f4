"""Our endpoints beside kube-scheduler's: status, headers and bodies over real TLS; access to them; certificates."""

from __future__ import annotations

import asyncio
import datetime
import json
import logging
import re
import socket
import ssl
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mooring.api.clock import VirtualClock
from mooring.api.core import Pod
from mooring.api.errors import UsageError
from mooring.live import serving
from mooring.live.control import HealthChecks, ping
from mooring.live.metrics import SchedulerMetrics
from mooring.live.serving import EndpointServer, ServingSettings, Sources, default_health, negotiate
from mooring.live.serving_auth import DelegatedAuth, ServerTls, TlsFiles, client_ca_of_cluster, user_of_certificate
from mooring.net.connect import HttpAnswer
from mooring.net.errors import ConnectionFailed
from mooring.net.tls import self_signed

WIRE = Path(__file__).parent / "wire"
POD = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}
ENDPOINTS = json.loads((WIRE / "endpoints.json").read_text())


class Reviews:
    """Stands in for the API server: knows tokens and what their owners may do."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any], Any]] = []
        self.users: dict[str, dict[str, Any]] = {"good": {"username": "jane", "groups": ["dev"], "uid": "7"}}
        self.allowed = True
        self.error: Exception | None = None

    async def create(self, path: str, body: bytes, query: Any = None) -> HttpAnswer:
        document = json.loads(body)
        self.requests.append((path, document, query))
        if self.error is not None:
            raise self.error
        if path.endswith("tokenreviews"):
            user = self.users.get(document["spec"]["token"])
            status: dict[str, Any] = {"authenticated": user is not None, "user": user or {}}
        else:
            status = {"allowed": self.allowed, "reason": "" if self.allowed else "no rule says so"}
        return HttpAnswer(201, {}, json.dumps({"status": status}).encode())

    def paths(self) -> list[str]:
        return [path.rpartition("/")[2] for path, _, _ in self.requests]


class Bench:
    """A running server and its client."""

    def __init__(self) -> None:
        self.reviews = Reviews()
        self.clock = VirtualClock(start=1_794_773_500)
        self.metrics = SchedulerMetrics()
        self.health = default_health()
        self.health.add("shutdown", ping, "readyz")
        self.health.add("sched-handler-sync", ping, "readyz")
        self.sources = Sources(
            metrics=self.metrics,
            health=self.health,
            config=lambda: json.loads((WIRE / "configz.json").read_text())["componentconfig"],
            flags=lambda: json.loads((WIRE / "flagz.json").read_text())["flags"],
            pods=lambda: [msgspec.convert(POD, Pod)],
            json_endpoints={"/mooring/queue": lambda: {"active": []}},
        )
        self.auth = DelegatedAuth(self.reviews, self.reviews, clock=self.clock)
        self.settings = ServingSettings(port=0)
        self.server: EndpointServer | None = None
        self.session: aiohttp.ClientSession | None = None

    async def start(self, **kwargs: Any) -> None:
        self.server = EndpointServer(self.settings, self.sources, self.auth, clock=self.clock)
        await self.server.start(**kwargs)
        self.session = aiohttp.ClientSession(skip_auto_headers=("Accept",))

    async def ask(
        self, path: str, *, method: str = "GET", tls: Any = False, data: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], str]:
        assert self.session is not None
        assert self.server is not None
        url = f"https://127.0.0.1:{self.server.port}{path}"
        async with self.session.request(method, url, headers=headers, ssl=tls, data=data) as answer:
            return answer.status, dict(answer.headers), await answer.text()

    async def stop(self) -> None:
        if self.session is not None:
            await self.session.close()
        if self.server is not None:
            await self.server.stop()


@pytest.fixture
async def bench():
    made = Bench()
    yield made
    await made.stop()


SHOWN = [row for row in ENDPOINTS if not row["path"].startswith("/debug/pprof")]


@pytest.mark.parametrize(
    "row", SHOWN, ids=[f"{row['path']} as {row['accept']}{' with token' * row['token']}" for row in SHOWN]
)
async def test_an_endpoint_answers_as_recorded(bench, row):
    bench.clock.advance_to(1_794_773_500)
    await bench.start()
    bench.clock.advance(129)
    headers = {"Accept": row["accept"]} | ({"Authorization": "Bearer good"} if row["token"] else {})
    for path in ("/healthz", "/livez", "/readyz"):
        await bench.ask(path)
    status, got_headers, body = await bench.ask(row["path"], **headers)
    assert status == row["status"]
    for name in ("Cache-Control", "Content-Type", "X-Content-Type-Options", "Warning"):
        assert got_headers.get(name) == row["headers"].get(name), name
    assert ("Process-Start-Time-Unix" in got_headers) == ("Process-Start-Time-Unix" in row["headers"])
    recorded = row["body"]
    if row["path"] == "/metrics":
        assert "# TYPE scheduler_preemption_attempts_total counter" in body
    elif row["path"].startswith("/metrics/"):
        assert body.startswith(recorded.rstrip("…").rpartition("\n")[0])
    elif row["path"] == "/configz":
        assert json.loads(body) == json.loads((WIRE / "configz.json").read_text())
        assert body.startswith('{"componentconfig":{')
    elif row["path"] == "/statusz":
        assert re.sub(r"python[\d.]+", "go1.26.6", body) == recorded
    elif "json" in row["contentType"]:
        assert json.loads(body) == json.loads(recorded)
    else:
        assert body == recorded


async def test_a_token_and_access_review_as_recorded(bench):
    await bench.start()
    await bench.ask("/configz", Authorization="Bearer good")
    (token_path, token_body, token_query), (access_path, access_body, access_query) = bench.reviews.requests
    assert token_path == "/apis/authentication.k8s.io/v1/tokenreviews"
    assert token_query is None
    assert token_body == {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "spec": {"token": "good"},
        "status": {"user": {}},
    }
    assert (access_path, access_query) == (
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {"timeout": "10s"},
    )
    assert access_body == {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {
            "nonResourceAttributes": {"path": "/configz", "verb": "get"},
            "user": "jane",
            "groups": ["dev"],
            "uid": "7",
        },
        "status": {"allowed": False},
    }


async def test_open_paths_need_no_authentication(bench):
    await bench.start()
    for path in ("/healthz", "/livez", "/readyz", "/readyz?verbose"):
        assert (await bench.ask(path))[0] == 200
    assert bench.reviews.requests == []
    assert (await bench.ask("/readyz/shutdown"))[0] == 200
    assert bench.reviews.paths() == ["subjectaccessreviews"], "a single check is not an open path"


async def test_answers_are_believed_for_ten_seconds(bench):
    await bench.start()
    for _ in range(3):
        await bench.ask("/metrics", Authorization="Bearer good")
        bench.clock.advance(3)
    assert bench.reviews.paths() == ["tokenreviews", "subjectaccessreviews"]
    bench.clock.advance(2)
    await bench.ask("/metrics", Authorization="Bearer good")
    assert len(bench.reviews.requests) == 4


async def test_a_bad_token_is_401(bench):
    await bench.start()
    status, headers, body = await bench.ask("/metrics", Authorization="Bearer bad")
    assert (status, headers["Content-Type"]) == (401, "application/json")
    assert json.loads(body)["reason"] == "Unauthorized"
    assert bench.reviews.paths() == ["tokenreviews"]


async def test_an_unauthorised_user_gets_403_with_the_missing_permission(bench):
    bench.reviews.allowed = False
    await bench.start()
    status, _, body = await bench.ask("/metrics", Authorization="Bearer good")
    assert status == 403
    assert json.loads(body)["message"] == 'forbidden: User "jane" cannot get path "/metrics": no rule says so'


async def test_masters_need_not_ask(bench):
    bench.reviews.users["root"] = {"username": "admin", "groups": ["system:masters"]}
    bench.reviews.allowed = False
    await bench.start()
    assert (await bench.ask("/configz", Authorization="Bearer root"))[0] == 200
    assert bench.reviews.paths() == ["tokenreviews"]


async def test_without_delegation_everybody_is_a_stranger(bench):
    bench.auth = DelegatedAuth(None, None)
    await bench.start()
    assert (await bench.ask("/metrics", Authorization="Bearer good"))[0] == 403
    assert (await bench.ask("/healthz"))[0] == 200


async def test_an_api_server_that_is_away(bench, caplog):
    bench.reviews.error = ConnectionFailed("cannot connect", was_sent=False)
    await bench.start()
    assert (await bench.ask("/metrics"))[0] == 500
    assert (await bench.ask("/metrics", Authorization="Bearer s3cret"))[0] == 401
    bench.reviews.error = None
    assert (await bench.ask("/metrics"))[0] == 200, "failures are not remembered"
    assert "s3cret" not in caplog.text


async def test_a_failing_check(bench):
    bench.health.add("leaderElection", lambda: "failed election to renew", "healthz", "readyz")
    await bench.start()
    status, _, body = await bench.ask("/healthz")
    assert (status, body) == (500, "[+]ping ok\n[-]leaderElection failed: reason withheld\nhealthz check failed\n")
    assert (await bench.ask("/livez"))[0] == 200
    status, _, body = await bench.ask("/healthz?verbose&exclude=leaderElection")
    assert (status, body) == (200, "[+]ping ok\n[+]leaderElection excluded: ok\nhealthz check passed\n")
    status, _, body = await bench.ask("/healthz?verbose&exclude=leaderElection&exclude=nothing")
    assert 'warn: some health checks cannot be excluded: no matches for "nothing"\n' in body
    assert (await bench.ask("/healthz/ping"))[2] == "ok"
    status, _, body = await bench.ask("/healthz/leaderElection")
    assert (status, body) == (500, "internal server error: failed election to renew\n")
    _, _, slis = await bench.ask("/metrics/slis")
    assert 'kubernetes_healthcheck{name="leaderElection",type="healthz"} 0\n' in slis
    assert 'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1\n' in slis


def test_a_check_that_raises_is_a_failed_check():
    health = HealthChecks()
    health.add("broken", lambda: 1 / 0, "livez")
    assert health.run("livez").status == 500


async def test_a_scheduler_that_is_busy_delays_no_endpoint_that_can_do_without_it(bench):
    async def busy(question):
        raise TimeoutError

    bench.sources.ask = busy
    bench.metrics.preemption_attempts.inc(4)
    await bench.start()
    status, _, body = await bench.ask("/metrics")
    assert status == 200 and "scheduler_preemption_attempts_total 4" in body
    assert (await bench.ask("/healthz"))[0] == 200
    status, _, body = await bench.ask("/mooring/queue")
    assert (status, body) == (503, "the scheduler is busy; try again\n")


@pytest.mark.parametrize("path", ["/metrics", "/metrics/resources"])
async def test_a_flood_of_scrapes_costs_two_and_delays_no_other_request(bench, monkeypatch, path):
    """The lease is renewed in the loop that answers. A scrape that takes long must not hold it up."""
    begun, goes_on, calls = threading.Event(), threading.Event(), []

    def slow(*_: Any) -> bytes:
        calls.append(threading.current_thread())
        begun.set()
        assert goes_on.wait(60.0)
        return b"metrics\n"

    bench.sources.metrics = SimpleNamespace(refresh=lambda: None, exposition=slow)
    monkeypatch.setattr(serving, "render_pod_resources", slow)
    bench.auth = DelegatedAuth(None, None, always_allow_paths=("/*",), clock=bench.clock)
    await bench.start()
    asked, answer = [], bench.server._routes[path]

    async def counted(request: Any) -> Any:
        asked.append(request)
        return await answer(request)

    bench.server._routes[path] = counted
    scrapes = [asyncio.create_task(bench.ask(path))]
    await asyncio.to_thread(begun.wait, 60.0)
    scrapes += [asyncio.create_task(bench.ask(path)) for _ in range(30)]
    while len(asked) < 31:  # noqa: ASYNC110 - the network makes it true
        await asyncio.sleep(0.001)
    assert (await bench.ask("/healthz"))[0] == 200, "while a scrape is under way"
    goes_on.set()
    assert {(status, body) for status, _, body in await asyncio.gather(*scrapes)} == {(200, "metrics\n")}
    assert len(calls) == 2 and threading.current_thread() not in calls


async def test_silent_connections_block_no_others(bench):
    await bench.start()
    idle = [socket.create_connection(("127.0.0.1", bench.server.port)) for _ in range(300)]
    try:
        for _ in range(3):
            assert (await bench.ask("/healthz"))[0] == 200
    finally:
        for each in idle:
            each.close()


async def test_delete_resets_the_metrics(bench):
    bench.metrics.preemption_attempts.inc(4)
    await bench.start()
    assert "scheduler_preemption_attempts_total 4" in (await bench.ask("/metrics"))[2]
    status, _, body = await bench.ask("/metrics", method="DELETE")
    assert (status, body) == (200, "metrics reset\n")
    assert bench.reviews.requests[-1][1]["spec"]["nonResourceAttributes"]["verb"] == "delete"
    assert "scheduler_preemption_attempts_total 0" in (await bench.ask("/metrics"))[2]


async def connect(bench) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return await asyncio.open_connection("127.0.0.1", bench.server.port, ssl=context)


async def raw(bench, request: bytes) -> bytes:
    """Send bytes, and read until the server closes the connection."""
    async with asyncio.timeout(600.0):
        reader, writer = await connect(bench)
        try:
            writer.write(request)
            return await reader.read()
        finally:
            writer.close()


@pytest.mark.parametrize(
    "token", [b"\xff", b"\xc3\x28", b"good\xff"], ids=["one byte", "half a character", "good, and more"]
)
async def test_a_token_that_is_no_text_is_401(bench, caplog, token):
    await bench.start()
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %b\r\n\r\n" % token
    answer = await raw(bench, request)
    assert answer.startswith(b"HTTP/1.1 401 ") and b'"reason":"Unauthorized"' in answer
    said = [record for record in caplog.records if "TLS handshake" not in record.getMessage()]  # of other tests' floods
    assert said == [] and bench.reviews.requests == []


async def test_a_silent_connection_is_closed_without_a_response(bench):
    bench.settings = ServingSettings(port=0, idle_s=0.05)
    await bench.start()
    assert await raw(bench, b"") == b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost:", 408, id="the headers do not end"),
        pytest.param(b"PUT /debug/flags/v HTTP/1.1\r\nContent-Length: 9\r\n\r\n4", 408, id="the body does not end"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", 400, id="another protocol"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * (80 << 10), 431, id="headers that are too large"),
        pytest.param(
            b"PUT /debug/flags/v HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", 413, id="a body that is too large"
        ),
        pytest.param(
            b"PUT /debug/flags/v HTTP/1.1\r\nContent-Length: 1\r\nContent-Encoding: br\r\n\r\n4",
            415,
            id="an encoding that is not known",
        ),
    ],
)
async def test_an_invalid_request_gets_an_error_and_the_connection_is_closed(bench, sent, status):
    bench.settings = ServingSettings(port=0, read_s=0.05 if status == 408 else 600.0)
    await bench.start()
    answer = await raw(bench, sent)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"HTTP/1.1 ") == 1 and b"Connection: close\r\n" in answer


async def test_several_requests_share_a_connection_and_head_has_no_body(bench):
    await bench.start()
    asked = [b"GET /healthz HTTP/1.1\r\n\r\n", b"HEAD /healthz HTTP/1.1\r\n\r\n", b"GET /livez HTTP/1.0\r\n\r\n"]
    first, second, third = (await raw(bench, b"".join(asked))).split(b"HTTP/1.1 ")[1:]
    assert first.endswith(b"\r\n\r\nok") and third.endswith(b"Connection: close\r\n\r\nok")
    assert second.endswith(b"\r\n\r\n") and b"Content-Length: 2\r\n" in second


async def test_an_answer_in_flight_is_finished_and_others_are_sent_away(bench, monkeypatch):
    monkeypatch.setattr(serving, "SHUTDOWN_S", 600.0)
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def ask(question):
        asked.set()
        await may_answer.wait()
        return question()

    bench.sources.ask = ask
    await bench.start()
    reader, writer = await connect(bench)
    writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
    await reader.readuntil(b"\r\n\r\nok")  # by now this one has a thread
    flying = asyncio.create_task(raw(bench, b"GET /mooring/queue HTTP/1.1\r\n\r\n"))
    await asked.wait()
    stopping = asyncio.create_task(bench.server.stop())
    assert await reader.read() == b"", "the server does not wait for a client that sends nothing"
    writer.close()
    assert not stopping.done()
    may_answer.set()
    assert (await flying).endswith(b'{"active":[]}')
    await stopping


async def test_a_connection_in_its_handshake_is_closed(bench):
    await bench.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", bench.server.port)
    assert (await bench.ask("/healthz"))[0] == 200  # by now the other one has a thread
    await bench.server.stop()
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("page", ["flagz", "statusz"])
async def test_a_page_whose_gate_is_off_is_not_there(bench, page):
    setattr(bench.sources, f"has_{page}", False)
    await bench.start()
    assert (await bench.ask(f"/{page}", Accept="text/plain"))[0] == 404
    if page == "flagz":
        assert "/flagz" not in (await bench.ask("/statusz", Accept="text/plain"))[2]


async def test_further_json_endpoints(bench):
    await bench.start()
    status, headers, body = await bench.ask("/mooring/queue")
    assert (status, headers["Content-Type"], body) == (200, "application/json", '{"active":[]}')


async def test_a_source_that_raises_is_500_and_no_traceback(bench, caplog):
    def fail() -> Any:
        raise RuntimeError("inside")

    bench.sources.config = fail
    await bench.start()
    status, _, body = await bench.ask("/configz")
    assert (status, body) == (500, "internal server error\n")
    (record,) = [record for record in caplog.records if record.getMessage() == "Failed to serve an endpoint"]
    assert record.values == {"err": "inside", "path": "/configz"} and record.exc_info is None


async def test_verbosity_can_be_set_while_running(bench):
    await bench.start()
    logger = logging.getLogger("mooring")
    before = logger.level
    try:
        status, _, body = await bench.ask("/debug/flags/v", method="PUT", data=b"4")
        assert (status, body) == (200, "successfully set klog.logging.verbosity to 4")
        assert logger.level == logging.INFO - 4
        assert (await bench.ask("/debug/flags/v", method="PUT", data=b"loud"))[0] == 400
    finally:
        logger.setLevel(before)


async def test_without_profiling_there_is_no_debugging(bench):
    bench.settings = ServingSettings(port=0, profiling=False)
    await bench.start()
    assert (await bench.ask("/debug/flags/v"))[0] == 404


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        pytest.param("", ("text/plain", ""), id="nothing said"),
        pytest.param("*/*", ("text/plain", ""), id="anything"),
        pytest.param("application/json", None, id="plain json"),
        pytest.param("application/json, text/plain", ("text/plain", ""), id="json or text"),
        pytest.param(
            "application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz",
            ("application/yaml", "v1beta1"),
            id="yaml of a version",
        ),
        pytest.param("application/json;v=v2;g=config.k8s.io;as=Flagz", None, id="an unknown version"),
        pytest.param("application/json;v=v1beta1;g=config.k8s.io;as=Statusz", None, id="another kind"),
    ],
)
def test_negotiation(accept, want):
    assert negotiate(accept, "Flagz") == want


async def test_yaml(bench):
    await bench.start()
    accept = "application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz"
    _, headers, body = await bench.ask("/statusz", Accept=accept)
    assert headers["Content-Type"] == "application/yaml;g=config.k8s.io;v=v1beta1;as=Statusz"
    assert "kind: Statusz\n" in body


# Certificates


def write_pair(folder: Path, name: str) -> tuple[str, str, bytes]:
    certificate, key = self_signed("localhost", "127.0.0.1")
    (folder / f"{name}.crt").write_bytes(certificate)
    (folder / f"{name}.key").write_bytes(key)
    return str(folder / f"{name}.crt"), str(folder / f"{name}.key"), certificate


def write_client(folder: Path, name: str, organization: str) -> tuple[str, bytes]:
    """A client certificate that is its own authority; a file with certificate and key, and the authority's PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [(NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, name)]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    pem_key = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "client.pem").write_bytes(pem + pem_key)
    return str(folder / "client.pem"), pem


def shown(port: int) -> bytes:
    return ssl.get_server_certificate(("127.0.0.1", port)).encode()


def same(one: bytes, other: bytes) -> bool:
    return x509.load_pem_x509_certificate(one) == x509.load_pem_x509_certificate(other)


async def test_a_self_signed_certificate_names_localhost(bench):
    await bench.start()
    pem = await asyncio.to_thread(shown, bench.server.port)
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    trusting = ssl.create_default_context(cadata=pem.decode())
    assert (await bench.ask("/healthz", tls=trusting))[0] == 200


async def test_a_replaced_certificate_is_taken_up(bench, tmp_path, caplog):
    certificate_file, key_file, first = write_pair(tmp_path, "tls")
    bench.settings = ServingSettings(port=0, tls=TlsFiles(certificate_file, key_file))
    await bench.start(reload_s=0.005)
    port = bench.server.port
    assert same(await asyncio.to_thread(shown, port), first)
    (tmp_path / "tls.crt").write_bytes(b"half written")
    for _ in range(1000):
        if "cannot be used" in caplog.text:
            break
        await asyncio.sleep(0.005)
    assert same(await asyncio.to_thread(shown, port), first), "a pair that does not fit changes nothing"
    _, _, second = write_pair(tmp_path, "tls")
    for _ in range(1000):
        if same(await asyncio.to_thread(shown, port), second):
            break
        await asyncio.sleep(0.005)
    assert same(await asyncio.to_thread(shown, port), second)


def test_a_context_that_others_may_be_using_is_not_changed(tmp_path):
    certificate_file, key_file, _ = write_pair(tmp_path, "tls")
    tls = ServerTls(TlsFiles(certificate_file, key_file), hosts=("localhost",))
    first = tls.context
    old_key = (tmp_path / "tls.key").read_bytes()
    write_pair(tmp_path, "tls")
    new_key = (tmp_path / "tls.key").read_bytes()
    (tmp_path / "tls.key").write_bytes(old_key)
    assert not tls.reload() and tls.context is first, "half replaced"
    (tmp_path / "tls.key").write_bytes(new_key)
    assert tls.reload() and tls.context is not first
    assert not tls.reload()


async def test_a_client_certificate_names_a_user(bench, tmp_path):
    identity_file, pem = write_client(tmp_path, "jane", "dev")
    bench.settings = ServingSettings(port=0, client_ca=pem)
    await bench.start()
    client = ssl.create_default_context()
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    client.load_cert_chain(identity_file)
    assert (await bench.ask("/configz", tls=client))[0] == 200
    spec = bench.reviews.requests[-1][1]["spec"]
    assert (spec["user"], spec["groups"]) == ("jane", ["dev", "system:authenticated"])


def test_user_of_a_certificate():
    peer = {"subject": ((("organizationName", "system:masters"),), (("commonName", "admin"),))}
    user = user_of_certificate(peer)
    assert (user.name, user.groups) == ("admin", ("system:masters", "system:authenticated"))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        pytest.param(TlsFiles(certificate_file="x"), "go together", id="certificate alone"),
        pytest.param(TlsFiles("nowhere.crt", "nowhere.key"), "No such file", id="missing files"),
        pytest.param(TlsFiles(min_version="VersionTLS10"), "VersionTLS12 or VersionTLS13", id="an old version"),
        pytest.param(TlsFiles(ciphers="NONSENSE"), "none of them is known", id="unknown ciphers"),
        pytest.param(TlsFiles(client_ca_file="nowhere.crt"), "--client-ca-file", id="missing client CA"),
    ],
)
def test_bad_tls_flags_get_one_line(files, words):
    with pytest.raises(UsageError, match=words) as caught:
        ServerTls(files, hosts=("localhost",))
    assert "\n" not in str(caught.value)


async def test_a_port_in_use_is_one_line(bench):
    await bench.start()
    other = EndpointServer(ServingSettings(port=bench.server.port), bench.sources, bench.auth)
    with pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1:\d+"):
        await other.start()


async def test_the_clusters_client_ca():
    class Client:
        body: bytes | None = json.dumps({"data": {"client-ca-file": "PEM"}}).encode()

        async def get(self, path: str) -> HttpAnswer:
            assert path.endswith("/configmaps/extension-apiserver-authentication")
            if self.body is None:
                raise ConnectionFailed("away", was_sent=False)
            return HttpAnswer(200, {}, self.body)

    client = Client()
    assert await client_ca_of_cluster(client) == b"PEM"
    client.body = b"{}"
    assert await client_ca_of_cluster(client) is None
    client.body = None
    assert await client_ca_of_cluster(client) is None
