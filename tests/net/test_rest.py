"""Requests over real HTTP and TLS: what is sent, what is retried, what an error says."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import socket

import pytest
from aiohttp import web

from mooring.api.clock import VirtualClock
from mooring.api.errors import ApiError
from mooring.net.credentials import ExecCredentials, ExecPlugin, StaticCredentials, TokenFileCredentials, bearer
from mooring.net.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Fenced,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    RequestTimeout,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import PAPERWORK_CONNECTIONS, RestClient, user_agent, with_query
from mooring.net.tls import TlsSettings

PODS = "/api/v1/namespaces/default/pods"


class Naps:
    """Stands in for asyncio.sleep and records the requested times."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def client_for(url: str, **kwargs):
    config = kwargs.pop("config", None) or ClientConfig(server=url, credentials=bearer("t0ken"))
    client = RestClient(config, **kwargs)
    try:
        yield client
    finally:
        await client.close()


def status(code: int, reason: str = "", message: str = "because", **headers: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    return web.json_response({**body, "code": code}, status=code, headers=headers)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_what_is_on_the_wire(serve, method):
    seen = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.method, request.raw_path, dict(request.headers), await request.read()))
        return web.json_response({"kind": "Status"})

    url = await serve(handler)
    body = b"" if method == "GET" else b'{"a":1}'
    async with client_for(url, agent=user_agent("mooring", "scheduler")) as client:
        path = with_query(PODS, {"fieldSelector": "status.phase!=Succeeded", "allow": "x"})
        kind = "application/json" if body else ""
        answer = await client.request(method, path, body, content_type=kind)
    assert answer.status == 200
    assert answer.body == b'{"kind": "Status"}'
    got_method, raw_path, headers, got_body = seen[0]
    assert (got_method, raw_path, got_body) == (
        method,
        f"{PODS}?allow=x&fieldSelector=status.phase%21%3DSucceeded",
        body,
    )
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["Accept"] == "application/json"
    assert headers["User-Agent"].startswith("mooring/v")
    assert headers["User-Agent"].endswith("/scheduler")
    assert "Accept-Encoding" not in headers
    assert headers.get("Content-Type", "") == kind


async def test_a_server_behind_a_path_prefix(serve):
    seen = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.json_response({})

    url = await serve(handler)
    async with client_for(url + "/k8s/clusters/c1") as client:
        await client.get("/version")
        await client.create(PODS, b"{}")
    assert seen == ["/k8s/clusters/c1/version", "/k8s/clusters/c1" + PODS]


@pytest.mark.parametrize(
    ("code", "reason", "want"),
    [
        pytest.param(400, "BadRequest", BadRequest, id="400"),
        pytest.param(401, "Unauthorized", Unauthorized, id="401"),
        pytest.param(403, "Forbidden", Forbidden, id="403"),
        pytest.param(404, "NotFound", NotFound, id="404"),
        pytest.param(409, "Conflict", Conflict, id="409"),
        pytest.param(409, "AlreadyExists", AlreadyExists, id="409 on create"),
        pytest.param(410, "Expired", Gone, id="410"),
        pytest.param(418, "", ApiError, id="any other"),
        pytest.param(422, "Invalid", Invalid, id="422"),
        pytest.param(429, "TooManyRequests", TooManyRequests, id="429 without Retry-After"),
        pytest.param(500, "InternalError", ServerError, id="500 without Retry-After"),
        pytest.param(503, "", ServerError, id="503 without Retry-After"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_errors_by_status_code(serve, method, code, reason, want):
    calls = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return status(code, reason)

    async with client_for(await serve(handler)) as client:
        with pytest.raises(ApiError) as caught:
            await client.request(method, PODS)
    assert type(caught.value) is want
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert "because" in str(caught.value)
    assert calls == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_429_and_5xx_wait_for_retry_after(serve, method):
    answers = [status(429, **{"Retry-After": "3"}), status(503, **{"Retry-After": "0"}), web.json_response({})]

    async def handler(_: web.Request) -> web.Response:
        return answers.pop(0)

    naps = Naps()
    async with client_for(await serve(handler), sleep=naps) as client:
        assert (await client.request(method, PODS)).status == 200
    assert naps.taken == [3.0, 0.0]


async def test_pauses_end_with_the_time_of_the_request(serve):
    async def handler(_: web.Request) -> web.Response:
        return status(429, **{"Retry-After": "1" + 30 * "0"})

    naps = Naps()
    async with client_for(await serve(handler), sleep=naps) as client:
        with pytest.raises(TooManyRequests):
            await client.create(PODS, b"{}", timeout_s=35)
    assert naps.taken == [10.0, 10.0, 10.0]


async def test_a_client_that_tries_again_by_itself_does_not_wait_here(serve):
    async def handler(_: web.Request) -> web.Response:
        return status(429, **{"Retry-After": "5"})

    naps = Naps()
    async with client_for(await serve(handler), sleep=naps, heeds_retry_after=False) as client:
        with pytest.raises(TooManyRequests):
            await client.update(PODS, b"{}")
    assert naps.taken == []


async def test_retries_end_after_ten(serve):
    calls = 0

    async def handler(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return status(429, **{"Retry-After": "1"})

    naps = Naps()
    async with client_for(await serve(handler), sleep=naps) as client:
        with pytest.raises(TooManyRequests) as caught:
            await client.create(PODS, b"{}")
    assert calls == 11
    assert caught.value.retry_after_s == 1.0


async def test_forbidden_names_verb_and_resource_even_if_the_server_does_not(serve):
    async def handler(_: web.Request) -> web.Response:
        return web.Response(status=403, text="no way\nat all")

    async with client_for(await serve(handler)) as client:
        with pytest.raises(Forbidden, match=r"may not create pods/binding: no way at all"):
            await client.create(PODS + "/web/binding", b"{}")
        with pytest.raises(Forbidden, match=r"may not watch leases\.coordination\.k8s\.io"):
            await client.get("/apis/coordination.k8s.io/v1/leases", {"watch": "true"})


async def test_forbidden_keeps_a_text_that_says_it_all(serve):
    text = 'nodes is forbidden: User "x" cannot list resource "nodes" in API group "" at the cluster scope'

    async def handler(_: web.Request) -> web.Response:
        return status(403, "Forbidden", text)

    async with client_for(await serve(handler)) as client:
        with pytest.raises(Forbidden) as caught:
            await client.get("/api/v1/nodes")
    assert str(caught.value) == text


async def test_a_401_reads_the_token_again_once(serve, tmp_path):
    file = tmp_path / "token"
    file.write_text("old")
    credentials = TokenFileCredentials(str(file))
    credentials.read()
    file.write_text("new")
    seen = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response({}) if seen[-1] == "Bearer new" else status(401, "Unauthorized")

    url = await serve(handler)
    async with client_for(url, config=ClientConfig(server=url, credentials=credentials)) as client:
        await client.create(PODS, b"{}")
        file.write_text("newest")
        await client.get(PODS)
        credentials.invalidate()
        with pytest.raises(Unauthorized, match="refused the credentials"):
            await client.get(PODS)
    assert seen == ["Bearer old", "Bearer new", "Bearer new", "Bearer newest", "Bearer newest"]


async def test_tls_with_client_certificate_and_server_name(serve, authority, server_certificate):
    client_certificate = authority.issue("tls-client", organization="system:masters")

    async def handler(request: web.Request) -> web.Response:
        peer = request.transport.get_extra_info("peercert")
        return web.json_response({"name": dict(pair[0] for pair in peer["subject"])["commonName"]})

    url = await serve(handler, tls=authority.server_context(server_certificate, verify_clients=True))
    tls = TlsSettings(
        ca_data=authority.pem,
        server_name="api.example",
        certificate_file=client_certificate.certificate_file,
        key_file=client_certificate.key_file,
    )
    async with client_for(url, config=ClientConfig(server=url, tls=tls)) as client:
        for method in ("GET", "POST", "POST"):
            assert (await client.request(method, PODS)).body == b'{"name": "tls-client"}'


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_wrong_authority_is_one_clear_line(serve, authority, other_authority, server_certificate, method):
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({})

    url = await serve(handler, tls=authority.server_context(server_certificate))
    config = ClientConfig(server=url, tls=TlsSettings(ca_data=other_authority.pem))
    async with client_for(url, config=config) as client:
        with pytest.raises(ConnectionFailed, match="certificate is not trusted") as caught:
            await client.request(method, PODS)
    assert caught.value.was_sent is False
    assert "\n" not in str(caught.value)
    async with client_for(url, config=ClientConfig(server=url, tls=TlsSettings(insecure=True))) as client:
        assert (await client.request(method, PODS)).status == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_ca_file_that_is_half_written_leaves_the_last_one_in_use(
    serve, tmp_path, authority, other_authority, server_certificate, method
):
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({})

    url = await serve(handler, tls=authority.server_context(server_certificate))
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.pem)
    clock = VirtualClock()
    config = ClientConfig(server=url, tls=TlsSettings(ca_file=str(file), clock=clock))
    async with client_for(url, config=config) as client:
        assert (await client.request(method, PODS)).status == 200
        file.write_text("half a certifi")
        clock.advance(1.0)
        assert (await client.request(method, PODS)).status == 200
        file.write_bytes(other_authority.pem)  # whole again, and another one
        clock.advance(1.0)
        with pytest.raises(ConnectionFailed, match="certificate is not trusted"):
            await client.request(method, PODS)
        file.write_bytes(authority.pem)
        clock.advance(1.0)
        assert (await client.request(method, PODS)).status == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_ca_file_that_was_never_good_is_like_a_server_that_is_away(serve, tmp_path, method):
    file = tmp_path / "ca.crt"
    file.write_text("half a certifi")
    config = ClientConfig(server="https://127.0.0.1:1", tls=TlsSettings(ca_file=str(file)))
    async with client_for("https://127.0.0.1:1", config=config) as client:
        with pytest.raises(ConnectionFailed, match="no PEM certificate in it") as caught:
            await client.request(method, PODS)
        assert caught.value.was_sent is False


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unreachable_server(method):
    async with client_for(f"http://127.0.0.1:{free_port()}") as client:
        with pytest.raises(Unreachable, match="cannot connect to") as caught:
            await client.request(method, PODS)
    assert caught.value.was_sent is False


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_slow_server_runs_into_the_timeout(serve, method):
    release = asyncio.Event()

    async def handler(_: web.Request) -> web.Response:
        await release.wait()
        return web.json_response({})

    async with client_for(await serve(handler)) as client:
        with pytest.raises(RequestTimeout):
            await client.request(method, PODS, timeout_s=0.05)
        release.set()
        assert (await client.request(method, PODS)).status == 200


@contextlib.asynccontextmanager
async def raw_server(answer: bytes | None):
    """A server that reads a request, answers with these bytes and closes; with None it only closes."""
    heads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer or b"")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="no answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", id="half an answer"),
        pytest.param(b"220 smtp.example ESMTP\r\n\r\n", id="no HTTP answer"),
    ],
)
@pytest.mark.parametrize(
    ("method", "is_proxied", "is_repeated"),
    [
        pytest.param("GET", False, True, id="a read is asked again"),
        pytest.param("POST", False, False, id="a write is not"),
        pytest.param("POST", True, False, id="a write through a proxy is not"),
    ],
)
async def test_a_request_that_was_cut_off_was_sent(method, is_proxied, is_repeated, answer):
    async with raw_server(answer) as (url, heads):
        config = ClientConfig(server="http://api.example" if is_proxied else url, proxy_url=url if is_proxied else None)
        async with client_for(url, config=config, sleep=Naps()) as client:
            with pytest.raises(ConnectionFailed) as caught:
                await client.request(method, PODS)
    assert caught.value.was_sent is True
    assert (len(heads) > 1) is is_repeated


@pytest.mark.parametrize(
    ("server", "answer", "text"),
    [
        pytest.param("https://api.example", b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", "403", id="it refuses"),
        pytest.param("http://api.example", None, "cannot connect", id="it is away"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_that_did_not_get_past_the_proxy_was_not_sent(method, server, answer, text):
    async with raw_server(answer) as (url, heads):
        proxy_url = url if answer else f"http://127.0.0.1:{free_port()}"
        async with client_for("", config=ClientConfig(server=server, proxy_url=proxy_url)) as client:
            with pytest.raises(ConnectionFailed, match=text) as caught:
                await client.request(method, PODS)
    assert caught.value.was_sent is False
    assert len(heads) == (1 if answer else 0)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_credential_plugin_that_fails_is_like_a_server_that_is_away(serve, tmp_path, method):
    """It may work the next time: watches and writers try again, as they do when the connection is refused."""

    async def handler(_: web.Request) -> web.Response:
        raise AssertionError("no request without credentials")

    url = await serve(handler)
    credentials = ExecCredentials(ExecPlugin(command="/bin/false"), where="user 'u'")
    async with client_for(url, config=ClientConfig(server=url, credentials=credentials)) as client:
        with pytest.raises(ConnectionFailed, match="failed with status 1") as caught:
            await client.request(method, PODS)
        assert caught.value.was_sent is False
        with pytest.raises(ConnectionFailed, match="failed with status 1"):
            async with client.stream(PODS, timeout_s=1):
                pass


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "spoken to over TLS"])
async def test_plain_requests_go_through_a_proxy(serve, authority, server_certificate, is_tls: bool) -> None:
    """It is asked for the whole URL, and passes the request on."""
    seen = []

    async def proxy(request: web.Request) -> web.Response:
        seen.append((request.method, request.raw_path, request.host, request.headers.get("Proxy-Authorization")))
        return web.Response(body=b"{}", content_type="application/json")

    url = await serve(proxy, tls=authority.server_context(server_certificate) if is_tls else None)
    config = ClientConfig(
        server="http://api.example/base",
        proxy_url=url.replace("://", "://me:a%40b@"),
        tls=TlsSettings(ca_data=authority.pem),
    )
    async with client_for("", config=config) as client:
        await client.get("/version")
        await client.create(PODS, b"{}")
        async with client.stream(PODS, {"watch": "true"}, timeout_s=10) as got:
            assert await got.readany() == b"{}"
    targets = [("GET", "/version"), ("POST", PODS), ("GET", f"{PODS}?watch=true")]
    assert seen == [
        (method, f"http://api.example/base{target}", "api.example", "Basic bWU6YUBi") for method, target in targets
    ]


class Tunnel:
    """A proxy that knows CONNECT and nothing else."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        self.asked.append(f"{method} {target}")
        host, _, port = target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()


async def test_a_client_that_is_closed_leaves_no_socket_open_that_was_being_connected(
    serve, authority, server_certificate
):
    """At whatever moment of the handshake the request is given up."""

    async def handler(_: web.Request) -> web.Response:
        return web.json_response({})

    url = await serve(handler, tls=authority.server_context(server_certificate))

    async def closes_after(turns: int) -> bool:
        async with client_for(url, config=ClientConfig(server=url, tls=TlsSettings(ca_data=authority.pem))) as client:
            reading = asyncio.create_task(client.get("/version"))
            for _ in range(turns):
                await asyncio.sleep(0)
            was_answered = not reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        return was_answered

    for _ in range(20):  # which turn meets which moment differs
        for turns in itertools.count():
            if await asyncio.to_thread(lambda turns=turns: asyncio.run(closes_after(turns))):
                break
    gc.collect()  # an unclosed socket warns, and a warning is an error


async def test_tls_goes_through_a_tunnel(serve, authority, server_certificate):
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({})

    url = await serve(handler, tls=authority.server_context(server_certificate))
    tunnel = Tunnel()
    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    proxy_url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    config = ClientConfig(server=url, tls=TlsSettings(ca_data=authority.pem), proxy_url=proxy_url)
    async with client_for(url, config=config) as client:
        assert (await client.get("/version")).status == 200
        assert (await client.create(PODS, b"{}")).status == 200
    proxy.close()
    assert tunnel.asked
    assert set(tunnel.asked) == {"CONNECT " + url.removeprefix("https://")}


async def test_a_401_runs_the_exec_plugin_again(serve, tmp_path):
    program = tmp_path / "plugin"
    program.write_text(
        "#!/bin/sh\n"
        f"echo x >> {tmp_path}/runs\n"
        'echo "{\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",\\"kind\\":\\"ExecCredential\\",'
        f'\\"status\\":{{\\"token\\":\\"run$(wc -l < {tmp_path}/runs | tr -d \' \')\\"}}}}"\n'
    )
    program.chmod(0o755)
    seen = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.json_response({}) if seen[-1] == "Bearer run2" else status(401, "Unauthorized")

    url = await serve(handler)
    credentials = ExecCredentials(ExecPlugin(command=str(program)), where="user 'u'")
    async with client_for(url, config=ClientConfig(server=url, credentials=credentials)) as client:
        await client.create(PODS, b"{}")
        await client.get(PODS)
    assert seen == ["Bearer run1", "Bearer run2", "Bearer run2"]


async def test_siblings_share_connections_but_not_the_limit(serve):
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({})

    naps = Naps()
    async with client_for(await serve(handler), qps=0.001, burst=1, sleep=naps) as client:
        other = client.sibling(agent="other")
        await client.create(PODS, b"{}")
        await other.create(PODS, b"{}")
        assert naps.taken == []
        await client.create(PODS, b"{}")
        assert naps.taken == [pytest.approx(1000, abs=300)]
        assert other.transport is client.transport


async def test_paperwork_has_connections_of_its_own_and_shares_them(serve):
    """However much of it there is, a binding finds a connection."""
    ports: dict[str, set[object]] = {"binding": set(), "event": set()}
    release = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        what = (await request.read()).decode()
        ports[what].add(request.transport.get_extra_info("peername"))
        if what == "event":
            await release.wait()
        return web.json_response({})

    async with client_for(await serve(handler), qps=-1, max_connections=1) as client:
        events = client.sibling(is_paperwork=True)
        written = [asyncio.create_task(events.create(PODS, b"event")) for _ in range(60)]
        await client.create(PODS, b"binding")
        assert not any(task.done() for task in written)
        release.set()
        assert [answer.status for answer in await asyncio.gather(*written)] == [200] * 60
    assert len(ports["event"]) <= PAPERWORK_CONNECTIONS and not ports["event"] & ports["binding"]


async def test_the_observer_is_notified_of_every_request(serve):
    async def handler(_: web.Request) -> web.Response:
        return status(404, "NotFound")

    class Heard:
        def __init__(self):
            self.requests, self.waits = [], []

        def requested(self, host, method, code, duration_s, sent, received):
            self.requests.append((method, code, sent, received > 0))

        def held_back(self, host, method, seconds):
            self.waits.append((method, seconds))

    heard = Heard()
    url = await serve(handler)
    async with client_for(url, observer=heard) as client:
        with pytest.raises(NotFound):
            await client.get(PODS)
    async with client_for(f"http://127.0.0.1:{free_port()}", observer=heard) as client:
        with pytest.raises(ConnectionFailed):
            await client.create(PODS, b"{}")
    assert heard.requests == [("GET", "404", 0, True), ("POST", "<error>", 2, False)]
    assert heard.waits == [("GET", 0.0), ("POST", 0.0)]


async def test_a_name_may_have_letters_beyond_latin(serve):
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text=request.headers["Impersonate-User"])

    url = await serve(handler)
    config = ClientConfig(server=url, extra_headers=(("Impersonate-User", "zoë-名"),))
    async with client_for(url, config=config) as client:
        assert [(await client.request(method, PODS)).body.decode() for method in ("GET", "POST")] == ["zoë-名"] * 2


def test_no_credentials_send_no_header():
    client = RestClient(ClientConfig(server="http://x", credentials=StaticCredentials()))
    assert "Authorization" not in dict(client._headers(""))


@pytest.mark.parametrize("proxied", [False, True], ids=["to the server", "through a proxy"])
async def test_who_is_fenced_while_held_back_writes_nothing_but_may_read(serve, proxied: bool) -> None:
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.method)
        return web.json_response({})

    fenced: list[bool] = []

    async def sleep(seconds: float) -> None:
        fenced.append(True)  # the lease expires while the limiter holds the request back

    url = await serve(handle)
    config = ClientConfig(server="http://api.example" if proxied else url, proxy_url=url if proxied else None)
    async with client_for(url, config=config, qps=1, burst=1, sleep=sleep, is_fenced=lambda: bool(fenced)) as client:
        await client.create(PODS, b"{}")
        with pytest.raises(Fenced) as failure:
            await client.create(PODS, b"{}")
        assert not failure.value.was_sent
        await client.get(PODS)
    assert seen == ["POST", "GET"]
