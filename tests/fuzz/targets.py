"""Parsers that meet text from elsewhere. Whatever the bytes, each answers with a value or with one of our own errors.

A target is a function of bytes; ``allowed`` are the exceptions that are answers. ``strategy`` draws bytes that look
like what the parser expects, so that most of them get past the first character. ``scripts/fuzz`` runs these for as long
as wanted; ``test_fuzz.py`` runs them a little and replays the corpus.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
from hypothesis import strategies as st

from mooring.api import yaml
from mooring.api.codec import decode
from mooring.api.core import Node, Pod
from mooring.api.errors import MooringError
from mooring.api.manifests import parse_manifests
from mooring.api.meta import LabelSelector
from mooring.api.quantity import ceil_milli, ceil_value, parse_quantity
from mooring.api.selectors import compile_selector
from mooring.api.times import parse_duration
from mooring.controlplane.registry.catalog import NAMESPACES
from mooring.controlplane.registry.catalog import PODS as POD_KIND
from mooring.controlplane.registry.verbs import Api, Options
from mooring.controlplane.storage.selectors import parse_fields, parse_labels
from mooring.controlplane.storage.store import Store
from mooring.controlplane.types import protobuf
from mooring.controlplane.types.patch import APPLY, JSON, MERGE, patched
from mooring.core.config.load import load_config, read_document
from mooring.core.config.policy import convert_policy, is_policy
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState
from mooring.net import http2
from mooring.net.connect import HeaderFields, HttpRequest
from mooring.net.extender import wire
from mooring.net.extender.sdk import Node as ExtenderNode
from mooring.net.extender.server import serve_object
from mooring.net.http1 import BadMessage, MessageReader, inflate
from mooring.net.http2_connection import Http2Connection
from mooring.net.kinds import PODS, RESOURCE_CLAIMS
from mooring.net.kubeconfig import load_kubeconfig
from mooring.net.lists import ItemSplitter
from mooring.net.watch_events import EventReader, Garbled
from mooring.record import files as blocks
from mooring.record.reader import Record
from mooring.sim.imports import openb, simkube
from mooring.sim.imports.imported import read_json
from mooring.sim.imports.simulator import import_export, import_record, is_export

STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True)
class Target:
    name: str
    run: Callable[[bytes], object]
    strategy: st.SearchStrategy[bytes]
    allowed: tuple[type[BaseException], ...] = (MooringError,)


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def _words(*words: str) -> st.SearchStrategy[str]:
    """Texts glued from pieces that the grammar knows and a few that it does not."""
    pieces = st.sampled_from(words) | st.text(max_size=4) | st.integers().map(str)
    return st.lists(pieces, max_size=12).map("".join)


def _utf8(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return strategy.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=40)


WIRE_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)


def _json(*keys: str, leaves: st.SearchStrategy[Any] = SCALARS, max_leaves: int = 12) -> st.SearchStrategy[Any]:
    """Values whose objects mostly have keys that are known."""
    key = st.sampled_from(keys) | st.text(max_size=5)
    return st.recursive(
        leaves | st.sampled_from(keys),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(key, inner, max_size=5),
        max_leaves=max_leaves,
    )


# ---- quantities, durations, selectors ----------------------------------------------------------------------------


def quantity(data: bytes) -> object:
    value = parse_quantity(data.decode("utf-8", "replace"))
    return ceil_value(value), ceil_milli(value)


def duration(data: bytes) -> object:
    return parse_duration(data.decode("utf-8", "replace"))


def selector(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    parsed = parse_labels(text)
    return parsed, parse_fields(text, frozenset(("metadata.name", "spec.nodeName")), "Pod")


_selector_decoder = msgspec.json.Decoder(LabelSelector)


def label_selector(data: bytes) -> object:
    return compile_selector(_selector_decoder.decode(data)).matches({"app": "web", "tier": "1"})


# ---- configuration and manifests ---------------------------------------------------------------------------------


def config(data: bytes) -> object:
    return load_config(data, source="fuzz.yaml")


def policy(data: bytes) -> object:
    document = read_document(data)
    return convert_policy(document) if is_policy(document) else None


def manifests(data: bytes) -> object:
    return parse_manifests(data, "fuzz.yaml")


def imported_table(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    path = Path("fuzz.csv")
    return openb.import_nodes(path, text) if text.startswith("sn") else openb.import_pods(path, text)


def imported_record(data: bytes) -> object:
    return import_record(Path("fuzz.jsonl"), data.decode("utf-8", "replace"))


def imported_export(data: bytes) -> object:
    value = read_json(data.decode("utf-8", "replace"), "fuzz.json")
    return import_export(Path("fuzz.json"), value) if is_export(value) else None


def imported_trace(data: bytes) -> object:
    path = Path("fuzz.sktrace")
    return simkube.import_trace(path, simkube.decode_msgpack(path, data))


TABLE_PARTS = ("sn", "name", "cpu_milli", "memory_mib", "gpu", "model", "num_gpu", "gpu_milli", "creation_time",
               "deletion_time", ",", ",", "\n", "\n", '"', "1", "0")  # fmt: skip
OBJECT_KEYS = ("kind", "apiVersion", "metadata", "name", "namespace", "spec", "status", "template", "jobTemplate",
               "ownerReferences", "nodeName", "phase", "containers", "replicas", "volumes", "annotations", "Pod",
               "Node", "Deployment", "CronJob", "v1", "apps/v1")  # fmt: skip
RECORD_KEYS = ("time", "event", "resource", "Add", "Update", "Delete", "2026-01-31T12:00:00.123456789Z", *OBJECT_KEYS)
EXPORT_KEYS = ("nodes", "pods", "pvs", "pvcs", "schedulerConfig", "priorityClasses", *OBJECT_KEYS)
TRACE_KEYS = ("version", "events", "ts", "applied_objs", "deleted_objs", "pod_lifecycles", "Finished", "Running",
              *OBJECT_KEYS)  # fmt: skip


def _record_line(resource: Any) -> bytes:
    return _encoded({"time": "2026-01-31T12:00:00Z", "event": "Add", "resource": resource})


def _trace(events: Any) -> bytes:
    return msgspec.msgpack.encode(
        {"version": 2, "events": [{"ts": 1, "applied_objs": [events]}], "pod_lifecycles": events}
    )


CONFIG_KEYS = (
    "apiVersion", "kind", "profiles", "schedulerName", "plugins", "pluginConfig", "score", "filter", "multiPoint",
    "enabled", "disabled", "name", "weight", "args", "extenders", "urlPrefix", "tlsConfig", "leaderElection",
    "leaseDuration", "parallelism", "percentageOfNodesToScore", "podMaxBackoffSeconds", "NodeResourcesFit",
    "scoringStrategy", "resources", "type", "shape", "*",
)  # fmt: skip
POLICY_KEYS = ("kind", "predicates", "priorities", "name", "weight", "argument", "labelPreference", "extenders",
               "serviceAffinity", "labels", "hardPodAffinitySymmetricWeight", "EqualPriority")  # fmt: skip


SELECTOR_KEYS = ("matchLabels", "matchExpressions", "key", "operator", "values", "In", "NotIn", "Exists", "app")


def _policies() -> st.SearchStrategy[bytes]:
    body = st.dictionaries(st.sampled_from(POLICY_KEYS), _json(*POLICY_KEYS))
    return body.map(lambda value: _encoded({"kind": "Policy", "apiVersion": "v1", **value}))


def _configs() -> st.SearchStrategy[bytes]:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    body = st.dictionaries(st.sampled_from(CONFIG_KEYS[2:]), _json(*CONFIG_KEYS), max_size=5)
    documents = body.map(lambda value: _encoded({**head, **value}))
    text = _words(
        "apiVersion: ", "kind: ", "\n", "  ", "- ", "{", "}", "[", "]", "&a ", "*a", "!!str ", "|\n", "---", "1e3"
    )
    return documents | _utf8(text)


KUBECONFIG_KEYS = (
    "apiVersion", "kind", "clusters", "users", "contexts", "current-context", "name", "cluster", "user", "context",
    "server", "https://h:1", "proxy-url", "tls-server-name", "certificate-authority", "certificate-authority-data",
    "insecure-skip-tls-verify", "client-certificate-data", "client-key", "token", "tokenFile", "username", "password",
    "as", "as-groups", "as-user-extra", "exec", "command", "args", "env", "interactiveMode", "extensions", "YQ==", "\0",
)  # fmt: skip


def kubeconfig(data: bytes) -> object:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return load_kubeconfig([file.name], environ={})


def _kubeconfigs() -> st.SearchStrategy[bytes]:
    """Files whose context leads to a cluster and a user of any content, and YAML that is not meant well."""
    inner = st.dictionaries(st.sampled_from(KUBECONFIG_KEYS), _json(*KUBECONFIG_KEYS), max_size=4)
    text = st.dictionaries(st.sampled_from(KUBECONFIG_KEYS), st.sampled_from(KUBECONFIG_KEYS) | st.text(max_size=8))
    section = inner | text | text.map(lambda value: {**value, "server": "https://h:1"})
    named = {
        "current-context": st.just("x"),
        "contexts": st.just([{"name": "x", "context": {"cluster": "x", "user": "x"}}]),
        "clusters": section.map(lambda value: [{"name": "x", "cluster": value}]),
        "users": section.map(lambda value: [{"name": "x", "user": value}]),
    }
    files = st.fixed_dictionaries(named) | inner
    words = _words(
        "clusters: ", "users: ", "\n", "  ", "- ", "{", "}", "[", "]" * 9, "[" * 300, "&a ", "*a", "<<: ", "!!str "
    )
    return files.map(_encoded) | files.map(lambda value: yaml.dump(value).encode()) | _utf8(words)


# ---- objects from the API server ---------------------------------------------------------------------------------


OBJECT_KEYS = (
    "apiVersion", "kind", "metadata", "name", "namespace", "uid", "labels", "annotations", "ownerReferences", "spec",
    "status", "containers", "initContainers", "resources", "requests", "limits", "cpu", "memory", "nodeSelector",
    "affinity", "nodeAffinity", "podAffinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms", "matchExpressions", "matchLabels", "key", "operator", "values", "tolerations", "effect",
    "topologySpreadConstraints", "maxSkew", "topologyKey", "volumes", "persistentVolumeClaim", "ports", "hostPort",
    "allocatable", "capacity", "taints", "images", "conditions", "priority", "overhead", "In", "Gt", "NoSchedule",
)  # fmt: skip


def _pod_like(**more: str) -> st.SearchStrategy[dict[str, Any]]:
    inner = st.dictionaries(st.sampled_from(OBJECT_KEYS), _json(*OBJECT_KEYS), max_size=6)
    meta = st.fixed_dictionaries({"name": st.just("web"), "namespace": st.just("default"), "uid": st.just("u")})
    fixed = {key: st.just(value) for key, value in ({"apiVersion": "v1", **more} if more else {}).items()}
    return st.fixed_dictionaries({"metadata": meta, **fixed}, optional={"spec": inner, "status": inner})


def _events() -> st.SearchStrategy[bytes]:
    return _pod_like().map(lambda value: _encoded({"type": "ADDED", "object": value})) | st.binary(max_size=60)


def scheduled_pod(data: bytes) -> object:
    """A pod and a node out of one document: whatever decodes can be counted and decided about, without an exception."""
    try:
        pod = decode(Pod, data)
        node = decode(Node, data)
    except (MooringError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if not node.metadata.name:
        return None
    cluster = ClusterState()
    session = open_session(_default(), cluster)
    cluster.put(node)
    pod.spec.node_name = ""
    (profile,) = session.profiles.values()
    return session.engine.decide(cluster.info(pod), profile).outcome


def _default() -> Any:
    from mooring.core.config.load import default_config

    return default_config()


def watch_line(data: bytes) -> object:
    return EventReader(PODS).read(data), EventReader(RESOURCE_CLAIMS).read(data)


def protobuf_body(data: bytes) -> object:
    return protobuf.to_json(b"k8s\x00" + data)


# ---- patches and extenders ---------------------------------------------------------------------------------------


def _patch_target(content_type: str) -> Callable[[bytes], object]:
    def run(data: bytes) -> object:
        container = {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}
        obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "labels": {"a": "b"}, "finalizers": ["x"]},
            "spec": {"containers": [container], "tolerations": [{"key": "k"}]},
        }
        return patched(content_type, "core.v1.Pod", obj, data)

    return run


def apply_patch(data: bytes) -> object:
    """Server-side apply, from YAML or JSON: onto a pod that another manager owns, then the same intent once more."""
    api = Api(Store())
    api.create(NAMESPACES, "", {"metadata": {"name": "default"}})
    first = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]},
    }
    api.patch(POD_KIND, "default", "web", APPLY, _encoded(first), Options(manager="one"))
    for force in (True, False):
        entry, _ = api.patch(POD_KIND, "default", "web", APPLY, data, Options(manager="two", force=force))
    return entry


PATCH_KEYS = (
    "metadata",
    "labels",
    "finalizers",
    "spec",
    "containers",
    "name",
    "env",
    "tolerations",
    "$patch",
    "delete",
    "replace",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "$retainKeys",
)
POINTERS = (
    "",
    "/",
    "/metadata/labels/a",
    "/spec/containers/0",
    "/spec/containers/-",
    "/spec/containers/1",
    "/a~1b",
    "/~",
    "/spec/containers/0/env/0/value",
    "/metadata/finalizers/00",
    "/spec/containers/-1",
)


def _json_patches() -> st.SearchStrategy[bytes]:
    operation = st.fixed_dictionaries(
        {},
        optional={
            "op": st.sampled_from(("add", "remove", "replace", "move", "copy", "test")) | SCALARS,
            "path": st.sampled_from(POINTERS) | SCALARS,
            "from": st.sampled_from(POINTERS) | SCALARS,
            "value": _json(*PATCH_KEYS),
        },
    )
    return (st.lists(operation, max_size=5) | SCALARS).map(_encoded)


APPLY_KEYS = (*PATCH_KEYS, "apiVersion", "v1", "kind", "Pod", "web", "x/y", "annotations", "status", "managedFields")


def _apply_patches() -> st.SearchStrategy[bytes]:
    """Pods as YAML and as JSON, and YAML that is not meant well."""
    inner = st.dictionaries(st.sampled_from(APPLY_KEYS), _json(*APPLY_KEYS), max_size=4)
    containers = st.lists(inner.map(lambda value: {"name": "c", **value}), max_size=3)
    pods = st.fixed_dictionaries(
        {"apiVersion": st.just("v1"), "kind": st.just("Pod")},
        optional={
            "metadata": inner,
            "spec": inner | st.fixed_dictionaries({"containers": containers}),
            "status": inner,
        },
    )
    words = _words(
        "kind: ", "Pod", "\n", "  ", "- ", "{", "}", "[", "]" * 9, "[" * 300, "&a ", "*a", "<<: ", "? ", "!!str "
    )
    return pods.map(_encoded) | pods.map(lambda pod: yaml.dump(pod).encode()) | _utf8(words)


def extender_answer(data: bytes) -> object:
    answers: list[object] = []
    readers: tuple[Callable[[bytes], object], ...] = (
        wire.read_filter_answer,
        wire.read_priorities,
        wire.read_preemption_answer,
        wire.read_binding_answer,
    )
    for read in readers:
        try:
            answers.append(read(data))
        except MooringError:
            answers.append(None)
    return answers


EXTENDER_KEYS = (
    "nodes",
    "Nodes",
    "NodeNames",
    "failedNodes",
    "FailedAndUnresolvableNodes",
    "Error",
    "items",
    "metadata",
    "Host",
    "Score",
    "NodeNameToMetaVictims",
    "Pods",
    "UID",
    "NumPDBViolations",
)


def _keep_all(pod: Pod, nodes: list[ExtenderNode]) -> list[ExtenderNode]:
    return nodes


_SERVED = serve_object(type("Module", (), {"filter": staticmethod(_keep_all)})(), "fuzz").verbs["filter"]


def extender_request(data: bytes) -> object:
    return _SERVED(data)


# ---- HTTP --------------------------------------------------------------------------------------------------------


def http1(data: bytes) -> object:
    """Requests and answers; wherever the bytes are cut, the same messages come out, or none."""
    for reads_answers in (False, True):
        whole = _messages([data], reads_answers=reads_answers)
        half = len(data) // 2
        assert whole == _messages([data[:half], data[half:]], reads_answers=reads_answers), "cut in two"
        single = [data[i : i + 1] for i in range(len(data))]
        assert whole == _messages(single, reads_answers=reads_answers), "byte by byte"
    return inflate(data, "gzip", 1000)


def _messages(pieces: list[bytes], *, reads_answers: bool) -> tuple[list[object], bool]:
    reader = MessageReader(reads_answers=reads_answers, max_body_bytes=50, most=5)
    is_bad = False
    try:
        for piece in pieces:
            if piece:
                reader.feed(piece)
    except BadMessage:
        is_bad = True
    found = [
        (message.method, message.target, message.status, message.headers, bytes(message.body), message.keeps_alive)
        for message in reader.complete
    ]
    return [*found], is_bad


HTTP_PARTS = (
    "GET / HTTP/1.1\r\n", "POST /filter HTTP/1.1\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 204 No Content\r\n", "\r\n",
    "Content-Length: 5\r\n", "Content-Length: 51\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n",
    "Expect: 100-continue\r\n", "HTTP/1.0", "Upgrade: h2c\r\n", "5\r\nhello\r\n", "0\r\n\r\n", "hello",
    "A: b\r\n", " ", ":",
)  # fmt: skip

QUANTITY_PARTS = ("1", ".", "e", "E", "-", "+", "Ki", "Mi", "m", "n", "u", "k", "99999999")
SELECTOR_PARTS = (
    "app",
    "=",
    "==",
    "!=",
    "!",
    "(",
    ")",
    ",",
    "a.b/c",
    ">",
    "<",
    "\\",
    "metadata.name",
    " in ",
    " notin ",
)
MALFORMED_JSON = (MooringError, msgspec.MsgspecError, UnicodeDecodeError)
# ---- lists ---------------------------------------------------------------------------------------------------------


def list_items(data: bytes) -> object:
    """However a list arrives, the same items come out."""
    step = 1 + data[0] % 16 if data else 1
    body = b'{"metadata":{"resourceVersion":"7"},"items":[' + data[1:]
    found = []
    for size in (step, len(body)):
        splitter = ItemSplitter()
        items = [item.strip() for at in range(0, len(body), size) for item in splitter.feed(body[at : at + size])]
        found.append((items, splitter.end()))
    assert found[0] == found[1]
    return found


def _lists() -> st.SearchStrategy[bytes]:
    items = st.lists(_json("items", "metadata", "name"), max_size=5).map(lambda each: _encoded(each)[1:-1])
    broken = _utf8(_words("{", "}", "[", "]", '"', ",", ":", "null", "\\", " "))
    return st.builds(
        lambda step, body, end: bytes((step,)) + body + end, st.integers(0, 255), items | broken, st.just(b"]}")
    )


# ---- HTTP/2: what a server says to our client, and what it hears from it -------------------------------------------

_HTTP2_FIELDS = HeaderFields("example.com", [("Accept", "application/json"), ("Authorization", "Bearer " + "x" * 300)])


class _PaperTransport:
    """The far end of a connection. As a server it holds the client to its word: sizes, windows, order (RFC 9113)."""

    def __init__(self) -> None:
        self._data = b""
        self.is_aborted = False
        self.frame_bytes, self.window, self.stream_window = 16_384, 65_535, 65_535
        self.windows: dict[int, int] = {}  # of streams under way
        self.bodies: dict[int, int] = {}  # bytes of their bodies that came
        self.ended: set[int] = set()
        self._fields_of = 0  # the stream whose fields go on

    def write(self, data: bytes) -> None:
        assert data and not self.is_aborted, "something is written to a closed connection"
        self._data = (self._data + data).removeprefix(http2.PREFACE)
        while len(self._data) >= 9:
            high, low, kind, flags, stream = http2.HEAD.unpack_from(self._data)
            end = 9 + (high << 8 | low)
            if len(self._data) < end:
                break
            payload, self._data = self._data[9:end], self._data[end:]
            self._hear(kind, flags, stream, payload)
        assert not self._data, "half a frame is written"

    def _hear(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        assert len(payload) <= self.frame_bytes, "a frame is too long"
        assert not self._fields_of or (kind, stream) == (http2.CONTINUATION, self._fields_of), "fields are interrupted"
        if kind in (http2.HEADERS, http2.CONTINUATION):
            if kind == http2.HEADERS:
                assert stream % 2 and stream > max(self.windows, default=0), "a stream number is used twice"
                self.windows[stream], self.bodies[stream] = self.stream_window, 0
            self._fields_of = 0 if flags & http2.END_HEADERS else stream
        elif kind == http2.DATA:
            assert stream in self.windows and stream not in self.ended, "a body comes out of order"
            self.windows[stream] -= len(payload)
            self.window -= len(payload)
            assert self.window >= 0 and self.windows[stream] >= 0, "more is sent than there is room for"
            self.bodies[stream] += len(payload)
        if flags & http2.END_STREAM and kind in (http2.HEADERS, http2.DATA):
            self.ended.add(stream)

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted


async def _hear_all(said: Iterable[bytes], sizes: Iterable[int]) -> None:
    transport = _PaperTransport()
    connection = Http2Connection(lambda connection: None)
    connection.connection_made(cast("asyncio.Transport", transport))
    loop = asyncio.get_running_loop()
    requests = [
        HttpRequest("POST", b"/x", _HTTP2_FIELDS, b"b" * size, 0.0, lambda: False, loop.create_future())
        for size in sizes
    ]
    connection.send(requests)
    for data in said:
        if not transport.is_aborted:
            connection.data_received(data)
    connection.connection_lost(None)
    for request in requests:
        assert request.answer.done(), "a request stays pending for ever"
        request.answer.exception()


def http2_said(data: bytes) -> object:
    """Anything may come from a server: every request ends, and nothing is raised."""
    step = 1 + data[0] if data else 1
    return asyncio.run(_hear_all([data[at : at + step] for at in range(0, len(data), step)], (0, 3, 5)))


def http2_heard(data: bytes) -> object:
    """Whatever windows and frame sizes a server announces, the client keeps to them; four bytes are one of them."""

    async def play() -> None:
        transport, loop = _PaperTransport(), asyncio.get_running_loop()
        connection = Http2Connection(lambda connection: None)
        connection.connection_made(cast("asyncio.Transport", transport))
        requests: list[HttpRequest] = []
        for at in range(0, len(data) - 3, 4):
            what, stream, size = data[at] % 6, 2 * (data[at + 1] % 4) + 1, data[at + 2] << 8 | data[at + 3]
            if transport.is_aborted:
                break
            if what == 0:
                body = b"b" * (3 * size)
                requests.append(
                    HttpRequest("PUT", b"/x", _HTTP2_FIELDS, body, 0.0, lambda: False, loop.create_future())
                )
                connection.send(requests[-1:])
            elif what == 1:
                more, transport.stream_window = size - transport.stream_window, size
                for each in transport.windows:
                    transport.windows[each] += more
                connection.data_received(http2.settings([(http2.INITIAL_WINDOW_SIZE, size)]))
            elif what == 2:
                transport.frame_bytes = 16_384 + size
                connection.data_received(http2.settings([(http2.MAX_FRAME_SIZE, transport.frame_bytes)]))
            elif what == 3 and transport.window + size <= http2.MOST_WINDOW:
                transport.window += size
                connection.data_received(http2.window_update(0, size))
            elif what == 4 and stream in transport.windows:
                transport.windows[stream] += size
                connection.data_received(http2.window_update(stream, size))
            elif what == 5:
                flags = http2.END_HEADERS | http2.END_STREAM
                connection.data_received(http2.frame(http2.HEADERS, flags, stream, b"\x88"))
        connection.connection_lost(None)
        assert all(request.answer.done() for request in requests)
        for request in requests:
            request.answer.exception()

    return asyncio.run(play())


_FRAMES = st.builds(
    http2.frame,
    st.integers(0, 10),
    st.sampled_from([0, 1, 4, 5, 8, 9, 12, 13, 0x20, 0xFF]),
    st.sampled_from([0, 1, 3, 5, 7, 2**31 - 1]),
    st.binary(max_size=24) | st.sampled_from([b"\x88", b"\x8d", b"\x8d\xff\xff", http2.encode_field(":status", "409")]),
)
_HTTP2_SAID = st.lists(_FRAMES | st.binary(max_size=12), max_size=8).map(lambda each: b"\xff" + b"".join(each))


# ---- records ---------------------------------------------------------------------------------------------------------


def record(data: bytes) -> object:
    """Read all entries, look at the end, and decide again about the first attempt."""
    with contextlib.closing(Record(io.BytesIO(data), "fuzz")) as found:
        number = sum(1 for _ in found.entries())
        found.moment(found.last_time)
        return number, found.attempt(1).decide()


def _record(entries: list[Any], header: Any = None, cut: int = 0) -> bytes:
    """A file whose blocks are whole, whatever is in them."""
    about = header or {"format": 1, "mooring": "0", "kubernetes": "1.36", "source": "watch"}
    packed = [
        blocks.head(),
        blocks.pack_block(blocks.HEADER, _encoded(about), 1, 0, 0, 0),
        blocks.pack_block(blocks.KEYFRAME, msgspec.msgpack.encode(entries[:2]), 2, 0, 0, 0),
        blocks.pack_block(blocks.ENTRIES, msgspec.msgpack.encode(entries), len(entries), 0, 10, 0),
        blocks.pack_block(blocks.END, b"", 0, 10, 10, 1),
    ]
    return b"".join(packed)[: -cut or None]


_POD = [0, [1, "Pod", {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"schedulerName": "s"}}]]
_NODE = [0, [1, "Node", {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}]]
_ATTEMPT = [0, [10, 1, "d/p", "u", "s", "scheduled", "n"]]
_NAMES = st.sampled_from(["d/p", "u", "n", "Pod", "Node", "", "active"]) | st.text(max_size=3)
_OBJECTS = _json(*OBJECT_KEYS, "name", "uid", "nodeName", leaves=WIRE_SCALARS, max_leaves=8)
_ENTRIES = st.one_of(
    st.sampled_from([_POD, _NODE, _ATTEMPT]),
    st.tuples(st.integers(-5, 5), st.tuples(st.just(1), _NAMES, _OBJECTS)),
    st.tuples(st.integers(-5, 5), st.tuples(st.integers(0, 32), _NAMES, _NAMES, _NAMES, _NAMES)),
    st.tuples(st.integers(-(2**63), 2**63), st.lists(WIRE_SCALARS, max_size=8)),
)
_RECORDS = st.builds(
    _record,
    st.lists(_ENTRIES, max_size=8).map(lambda entries: [_POD, _NODE, *entries, _ATTEMPT]),
    st.none() | st.none() | _json("format", "mooring", "kubernetes", "configuration", "gates"),
    st.sampled_from([0, 0, 0, 1, 60, 150]),
)


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "quantity",
            quantity,
            _utf8(_words(*QUANTITY_PARTS)),
        ),
        Target("record", record, _RECORDS | st.binary(max_size=40).map(lambda data: blocks.head() + data)),
        Target("imported-table", imported_table, _utf8(_words(*TABLE_PARTS))),
        Target(
            "imported-record",
            imported_record,
            _json(*RECORD_KEYS).map(_encoded) | _json(*OBJECT_KEYS, max_leaves=20).map(_record_line),
        ),
        Target("imported-export", imported_export, _json(*EXPORT_KEYS).map(lambda each: _encoded({"nodes": each}))),
        Target(
            "imported-trace",
            imported_trace,
            _json(*TRACE_KEYS, leaves=WIRE_SCALARS, max_leaves=20).map(_trace) | st.binary(max_size=60),
        ),
        Target("duration", duration, _utf8(_words("1", ".", "h", "m", "s", "ms", "us", "µs", "ns", "-", "+"))),
        Target(
            "selector",
            selector,
            _utf8(
                _words(
                    *["app", "=", "==", "!=", "!", "(", ")", ",", "a.b/c", ">", "<", "\\", "metadata.name"],
                    " in ",
                    " notin ",
                )
            ),
        ),
        Target(
            "label-selector",
            label_selector,
            _json(*SELECTOR_KEYS).map(_encoded),
            MALFORMED_JSON,
        ),
        Target("config", config, _configs()),
        Target("kubeconfig", kubeconfig, _kubeconfigs()),
        Target("policy", policy, _policies()),
        Target("manifests", manifests, _pod_like(kind="Pod").map(_encoded) | _configs()),
        Target("pod", scheduled_pod, _pod_like().map(_encoded)),
        Target("watch", watch_line, _events(), (MooringError, Garbled)),
        Target("protobuf", protobuf_body, st.binary(max_size=200)),
        Target("json-patch", _patch_target(JSON), _json_patches()),
        Target("merge-patch", _patch_target(MERGE), _json(*PATCH_KEYS).map(_encoded)),
        Target("strategic-patch", _patch_target(STRATEGIC), _json(*PATCH_KEYS).map(_encoded)),
        Target("apply-patch", apply_patch, _apply_patches()),
        Target("http1", http1, _utf8(_words(*HTTP_PARTS)), (BadMessage,)),
        Target("http2-said", http2_said, _HTTP2_SAID),
        Target("http2-heard", http2_heard, st.binary(max_size=160)),
        Target("list", list_items, _lists(), (Garbled,)),
        Target(
            "extender-request", extender_request, _json("Pod", *EXTENDER_KEYS).map(_encoded) | st.binary(max_size=60)
        ),
        Target("extender", extender_answer, _json(*EXTENDER_KEYS).map(_encoded) | st.binary(max_size=60)),
    )
}


def check(target: Target, data: bytes) -> None:
    """Run one input; an exception that is not an answer comes out."""
    with contextlib.suppress(*target.allowed):
        target.run(data)
