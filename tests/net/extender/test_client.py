"""Calling extenders: connections, TLS, timeouts, the breaker, and what is sent only once."""

from __future__ import annotations

import base64
import gzip
import logging
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from scripted_server import Script, make_certificate, serving

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.core.config.load import config_from_dict
from mooring.core.engine.extenders import Extenders
from mooring.core.framework.extender import ExtenderError
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.live.extenders import ExtenderCalls
from mooring.live.metrics import SchedulerMetrics
from mooring.net.extender import http_client
from mooring.net.extender.client import HttpExtender, build_extenders
from mooring.net.extender.conformance import make_node, make_pod
from mooring.net.extender.wire import RawObjects, SerializedNodes


@pytest.fixture
def server() -> Iterator[Script]:
    with serving(Script()) as script:
        yield script


class World:
    """Some nodes and a pod, whole and as structs."""

    def __init__(self, nodes: int = 3) -> None:
        self.raw = RawObjects()
        self.cluster = ClusterState()
        self.plain = [make_node(i) for i in range(nodes)]
        for value in self.plain:
            node = from_plain(Node, value)
            self.raw.put(node, {"kind": "Node", "apiVersion": "v1", **value})
            self.cluster.put(node)
        self.cluster.nodes()
        value = make_pod("web")
        pod = from_plain(Pod, value)
        self.raw.put(pod, value)
        self.pod: PodInfo = self.cluster.info(pod)

    @property
    def infos(self) -> list[NodeInfo]:
        return list(self.cluster.table.infos)


def extender(world: World, port: int, scheme: str = "http", **fields: Any) -> HttpExtender:
    entry = {"urlPrefix": f"{scheme}://127.0.0.1:{port}/ext/", "filterVerb": "filter", **fields}
    (made,) = build_extenders(config_from_dict({"extenders": [entry]}).extenders, world.raw)
    return made


ALL = {"body": {"NodeNames": ["node-00001"]}}


def test_a_connection_is_kept_and_a_stale_one_is_replaced(server: Script) -> None:
    world = World()
    made = extender(world, server.port, nodeCacheCapable=True)
    server.say("/ext/filter", ALL, ALL, {**ALL, "headers": {"Connection": "close"}}, ALL)
    for _ in range(4):
        assert [info.name for info in made.filter(world.pod, world.infos).nodes] == ["node-00001"]
    connections = [asked.connection for asked in server.asked]
    assert connections[0] == connections[1] == connections[2] != connections[3]
    made.close()


@pytest.mark.parametrize(
    ("userinfo", "sent"),
    [
        pytest.param("me:se%20cret", "me:se cret", id="a user and a password"),
        pytest.param("me", "me:", id="a user alone"),
    ],
)
def test_a_user_in_the_url_is_sent_as_go_sends_it(server: Script, userinfo: str, sent: str) -> None:
    world = World()
    url = f"http://{userinfo}@127.0.0.1:{server.port}"
    made = extender(world, server.port, urlPrefix=url, nodeCacheCapable=True)
    server.say("/filter", ALL)
    made.filter(world.pod, world.infos)
    made.close()
    kind, _, value = server.asked[0].headers["Authorization"].partition(" ")
    assert (kind, base64.b64decode(value).decode()) == ("Basic", sent)
    assert server.asked[0].headers["Host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ALL, id="when all goes well"),
        pytest.param({"hang_up": True}, id="when it hangs up"),
        pytest.param({"status": 500, "raw": "x"}, id="when it fails"),
        pytest.param({"body": {"NodeNames": ["another"]}}, id="when it makes up nodes"),
        pytest.param(
            {"status": 307, "raw": "", "headers": {"Location": "http://me:secret@127.0.0.1:1/"}},
            id="when it sends us elsewhere",
        ),
    ],
)
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("http://me:secret@127.0.0.1:{port}", "http://me:***@127.0.0.1:{port}", id="a password"),
        pytest.param("http://secret@127.0.0.1:{port}", "http://***@127.0.0.1:{port}", id="a token as the user"),
        pytest.param(
            "http://127.0.0.1:{port}/e?token=secret", "http://127.0.0.1:{port}/e?token=***", id="a token in the query"
        ),
    ],
)
def test_secrets_in_the_url_are_shown_nowhere(
    server: Script, answer: dict[str, Any], caplog: pytest.LogCaptureFixture, url: str, shown: str
) -> None:
    caplog.set_level(logging.DEBUG)
    world = World()
    said: list[object] = []

    class Observer:
        def on_call(self, extender: str, verb: str, seconds: float, error: ExtenderError | None) -> None:
            said.extend((extender, error))

        def on_breaker(self, extender: str, is_open: bool, why: str) -> None:
            said.extend((extender, why))

    url = url.format(port=server.port)
    entry = {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True, "ignorable": True}
    configs = config_from_dict({"extenders": [entry]}).extenders
    made = HttpExtender(configs[0], SerializedNodes(world.raw), observer=Observer(), breaker_failures=1)
    server.say(urlsplit(url + "/filter").path, answer)
    metrics = SchedulerMetrics()
    for _ in range(2):
        Extenders([made]).filter(world.pod, world.infos, {})
    for called, error in zip(said[::2], said[1::2], strict=True):
        ExtenderCalls(metrics).on_call(str(called), "filter", 0.1, error if isinstance(error, ExtenderError) else None)
        ExtenderCalls(metrics).on_breaker(str(called), True, str(error))
    made.close()
    assert made.name == shown.format(port=server.port)
    assert len(said) >= 4 and "secret" not in f"{said} {made!r} {caplog.text}"
    exposed = metrics.exposition().decode()
    assert "mooring_extender_calls_total{" in exposed and "secret" not in exposed


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param({"hang_up": True}, 'Post "{url}": EOF', id="it hangs up"),
        pytest.param({"status": 503, "raw": "x"}, "failed filter with extender at URL {url}, code 503", id="503"),
        pytest.param({"status": 204, "raw": ""}, "failed filter with extender at URL {url}, code 204", id="204"),
        pytest.param({"raw": "{}", "length": 50}, "unexpected EOF", id="it stops in the middle of the body"),
        pytest.param(
            {"raw": b"not gzip", "headers": {"Content-Encoding": "gzip"}},
            "gzip: invalid header",
            id="it is not compressed as it says",
        ),
        pytest.param(
            {"status": 302, "raw": "", "headers": {"Location": "/elsewhere"}},
            "failed filter with extender at URL {url}, code 404",
            id="it sends us elsewhere, where nothing is",
        ),
        pytest.param(
            {"status": 307, "raw": "", "headers": {"Location": "filter"}},
            'Post "{url}": stopped after 10 redirects',
            id="it sends us round in circles",
        ),
    ],
)
def test_answers_that_are_none(server: Script, answer: dict[str, Any], said: str) -> None:
    world = World()
    made = extender(world, server.port)
    server.say("/ext/filter", answer)
    with pytest.raises(ExtenderError) as caught:
        made.filter(world.pod, world.infos)
    assert str(caught.value) == said.format(url=f"http://127.0.0.1:{server.port}/ext/filter")
    made.close()


def test_a_redirect_of_307_is_followed_with_the_body(server: Script) -> None:
    world = World()
    made = extender(world, server.port, nodeCacheCapable=True)
    server.say("/ext/filter", {"status": 307, "raw": "", "headers": {"Location": "/there"}})
    server.say("/there", ALL)
    assert len(made.filter(world.pod, world.infos).nodes) == 1
    assert server.asked[0].body == server.asked[1].body
    made.close()


def test_compressed_answers_are_read(server: Script) -> None:
    world = World()
    made = extender(world, server.port, nodeCacheCapable=True)
    packed = gzip.compress(b'{"NodeNames":["node-00002"]}')
    server.say("/ext/filter", {"raw": packed, "headers": {"Content-Encoding": "gzip"}})
    assert [info.name for info in made.filter(world.pod, world.infos).nodes] == ["node-00002"]
    made.close()


def test_large_bodies_are_compressed_for_remote_extenders_that_accept_it(
    server: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "is_loopback", lambda host: False)
    world = World(40)
    made = extender(world, server.port)
    server.say("/ext/filter", {"body": {}, "headers": {"Accept-Encoding": "gzip"}})
    for _ in range(3):
        made.filter(world.pod, world.infos)
    plain, packed, again = server.asked
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == again.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == gzip.decompress(again.body)
    assert __import__("json").loads(gzip.decompress(packed.body)) == plain.body
    made.close()


def test_a_node_is_serialised_once_per_version(server: Script) -> None:
    world = World()
    calls: list[str] = []
    original = world.raw.node_json
    world.raw.node_json = lambda node: calls.append(node.name) or original(node)  # type: ignore[method-assign]
    made = extender(world, server.port)
    server.say("/ext/filter", {"body": {}})
    made.filter(world.pod, world.infos)
    made.filter(world.pod, world.infos)
    assert sorted(calls) == ["node-00000", "node-00001", "node-00002"]
    changed = {
        **world.plain[1],
        "metadata": {**world.plain[1]["metadata"], "resourceVersion": "7", "labels": {"x": "y"}},
    }
    node = from_plain(Node, changed)
    world.raw.put(node, changed)
    world.cluster.put(node)
    made.filter(world.pod, world.infos)
    assert sorted(calls)[1:3] == ["node-00001", "node-00001"] and len(calls) == 4
    assert changed in server.asked[-1].body["Nodes"]["items"]
    made.close()


# ---- TLS -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({"enableHTTPS": True}, "", id="https without a CA trusts anybody"),
        pytest.param({"tlsConfig": {"insecure": True}}, "", id="insecure"),
        pytest.param({"tlsConfig": {"caData": "CA", "serverName": "extender.example"}}, "", id="another server name"),
        pytest.param(
            {"tlsConfig": {"caData": "CA"}},
            "tls: failed to verify certificate: x509: certificate is not valid for 127.0.0.1",
            id="the wrong name",
        ),
        pytest.param(
            {},
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            id="unknown to the system",
        ),
    ],
)
def test_whom_an_https_extender_is_trusted(fields: dict[str, Any], said: str) -> None:
    import base64

    certificate = make_certificate("extender.example")
    if "caData" in fields.get("tlsConfig", {}):
        fields = {"tlsConfig": {**fields["tlsConfig"], "caData": base64.b64encode(certificate.certificate).decode()}}
    world = World()
    with serving(Script(), certificate.context()) as script:
        script.say("/ext/filter", ALL)
        made = extender(world, script.port, "https", nodeCacheCapable=True, **fields)
        if not said:
            assert len(made.filter(world.pod, world.infos).nodes) == 1
        else:
            with pytest.raises(ExtenderError) as caught:
                made.filter(world.pod, world.infos)
            assert str(caught.value) == f'Post "https://127.0.0.1:{script.port}/ext/filter": {said}'
        made.close()


def test_a_client_certificate_is_shown() -> None:
    import base64

    server, client = make_certificate("127.0.0.1"), make_certificate("scheduler")
    context = server.context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=client.certificate.decode())
    encoded = {
        "caData": base64.b64encode(server.certificate).decode(),
        "certData": base64.b64encode(client.certificate).decode(),
        "keyData": base64.b64encode(client.key).decode(),
    }
    world = World()
    with serving(Script(), context) as script:
        script.say("/ext/filter", ALL)
        made = extender(world, script.port, "https", nodeCacheCapable=True, enableHTTPS=True, tlsConfig=encoded)
        assert len(made.filter(world.pod, world.infos).nodes) == 1
        made.close()


# ---- the breaker ---------------------------------------------------------------------------------------------------


def test_a_dead_extender_is_skipped_and_the_observer_is_notified() -> None:
    heard: list[Any] = []

    class Observer:
        def on_call(self, name: str, verb: str, seconds: float, error: ExtenderError | None) -> None:
            heard.append((verb, error is not None))

        def on_breaker(self, name: str, is_open: bool, why: str) -> None:
            heard.append((is_open, "connection refused" in why))

    world = World()
    config = config_from_dict({"extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]})
    (made,) = build_extenders(config.extenders, world.raw, observer=Observer(), now=lambda: 0.0)
    texts = []
    for _ in range(6):
        with pytest.raises(ExtenderError) as caught:
            made.filter(world.pod, world.infos)
        texts.append(str(caught.value))
    assert all("connection refused" in text and text.startswith("Post") for text in texts[:5])
    assert "is not asked: 5 calls in a row got no answer" in texts[5]
    assert heard == [("filter", True)] * 4 + [(True, True)] + [("filter", True)] * 2


def test_errors_that_are_answers_do_not_open_the_breaker(server: Script) -> None:
    world = World()
    made = extender(world, server.port)
    server.say("/ext/filter", {"status": 500, "raw": "x"})
    for _ in range(8):
        with pytest.raises(ExtenderError, match="code 500"):
            made.filter(world.pod, world.infos)
    assert len(server.asked) == 8
    made.close()


def test_extenders_that_may_be_ignored_come_last() -> None:
    entries = [{"urlPrefix": f"http://{i}", "filterVerb": "f", "ignorable": i in (0, 2)} for i in range(4)]
    made = build_extenders(config_from_dict({"extenders": entries}).extenders)
    assert [each.name for each in made] == ["http://1", "http://3", "http://0", "http://2"]


def test_extenders_that_differ_only_in_a_secret_have_names_of_their_own() -> None:
    tokens = ("https://e.example/?token=one", "https://e.example/?token=two", "https://other.example/")
    made = build_extenders(config_from_dict({"extenders": [{"urlPrefix": url} for url in tokens]}).extenders)
    assert [each.name for each in made] == [
        "https://e.example/?token=*** (1)",
        "https://e.example/?token=*** (2)",
        "https://other.example/",
    ]
