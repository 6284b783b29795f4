"""The extender protocol: requests and answers with upstream's field names.

Go's types have no JSON tags, so field names are capitalised (``Pod``, ``NodeNames``), and unused fields are null.
Answers are read as by Go: names in any case, unknown fields skipped, null as missing, and the same error texts.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from mooring.api.codec import decode
from mooring.api.core import Node, Pod
from mooring.api.meta import Object
from mooring.core.framework.extender import AnsweredNode
from mooring.core.state.node_info import NodeInfo
from mooring.net.extender.go_json import MAX_INT64, MIN_INT64, FilterAnswer, GoDecoder, MetaVictims

# ---- requests ----------------------------------------------------------------------------------------------------


def args_with_names(pod: bytes, names: Sequence[str]) -> bytes:
    """Encode ExtenderArgs for an extender that caches nodes."""
    return b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, msgspec.json.encode(names))


def args_with_nodes(pod: bytes, nodes: Iterable[bytes]) -> list[bytes]:
    """Encode ExtenderArgs with whole nodes, in pieces: those of the nodes are the same from call to call."""
    pieces = [b'{"Pod":%b,"Nodes":{"metadata":{},"items":[' % pod]
    for node in nodes:
        pieces += (node, b",")
    if len(pieces) > 1:
        pieces.pop()
    pieces.append(b']},"NodeNames":null}')
    return pieces


def preemption_args(
    pod: bytes,
    *,
    victims: Mapping[str, tuple[Sequence[bytes], int]] | None = None,
    uids: Mapping[str, tuple[Sequence[str], int]] | None = None,
) -> bytes:
    """Encode ExtenderPreemptionArgs: (pods or their uids, violated budgets) by node, in one of the two forms."""
    whole = meta = b"null"
    if victims is not None:
        whole = _object(
            (node, b'{"Pods":[%b],"NumPDBViolations":%d}' % (b",".join(pods), violations))
            for node, (pods, violations) in sorted(victims.items())
        )
    if uids is not None:
        meta = msgspec.json.encode(
            {
                node: {"Pods": [{"UID": uid} for uid in pods], "NumPDBViolations": violations}
                for node, (pods, violations) in sorted(uids.items())
            }
        )
    return b'{"Pod":%b,"NodeNameToVictims":%b,"NodeNameToMetaVictims":%b}' % (pod, whole, meta)


def binding_args(name: str, namespace: str, uid: str, node: str) -> bytes:
    """Encode ExtenderBindingArgs."""
    return msgspec.json.encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


def _object(members: Iterable[tuple[str, bytes]]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (msgspec.json.encode(key), value) for key, value in members)


# ---- answers -----------------------------------------------------------------------------------------------------


Int64 = Annotated[int, msgspec.Meta(ge=MIN_INT64, le=MAX_INT64)]


class _HostPriority(msgspec.Struct):
    Host: str  # required, so that other spellings use the slower decoder
    Score: Int64


_top = msgspec.json.Decoder(dict[str, msgspec.Raw])
_names = msgspec.json.Decoder(list[str] | None)
_reasons = msgspec.json.Decoder(dict[str, str] | None)
_text = msgspec.json.Decoder(str | None)
_items = msgspec.json.Decoder(list[msgspec.Raw] | None)
_priorities = msgspec.json.Decoder(list[_HostPriority])


def read_filter_answer(body: bytes) -> FilterAnswer:
    try:
        return _quick_filter_answer(body)
    except (msgspec.MsgspecError, RecursionError):
        return GoDecoder("ExtenderFilterResult", body).filter_answer()


def _quick_filter_answer(body: bytes) -> FilterAnswer:
    answer = FilterAnswer()
    for key, raw in _top.decode(body).items():
        match key.lower():
            case "nodes":
                answer.nodes = _quick_items(raw)
            case "nodenames":
                answer.node_names = _names.decode(raw)
            case "failednodes":
                answer.failed = _reasons.decode(raw) or {}
            case "failedandunresolvablenodes":
                answer.failed_and_unresolvable = _reasons.decode(raw) or {}
            case "error":
                answer.error = _text.decode(raw) or ""
    return answer


def _quick_items(raw: msgspec.Raw) -> list[bytes] | None:
    if bytes(raw) == b"null":
        return None
    items: list[bytes] = []
    for key, value in _top.decode(raw).items():
        if key.lower() == "items":
            items = [bytes(item) for item in _items.decode(value) or ()]
    return items


def read_priorities(body: bytes) -> list[tuple[str, int]]:
    """Decode HostPriorityList."""
    try:
        return [(entry.Host, entry.Score) for entry in _priorities.decode(body)]
    except (msgspec.MsgspecError, RecursionError):
        return GoDecoder("HostPriorityList", body).priorities()


def read_preemption_answer(body: bytes) -> dict[str, MetaVictims]:
    """Decode ExtenderPreemptionResult, which has uids whatever form was sent."""
    return GoDecoder("ExtenderPreemptionResult", body).meta_victims()


def read_binding_answer(body: bytes) -> str:
    """Decode the Error of ExtenderBindingResult."""
    return GoDecoder("ExtenderBindingResult", body).binding_error()


# --------------------------------------------------------------------------------------------------------------------
# Request bodies in pieces, some of them compressed in earlier calls.


class Payload:
    """A request's body."""

    __slots__ = ("_deflated", "pieces")

    def __init__(self, pieces: Sequence[bytes], deflated: dict[bytes, bytes] | None = None) -> None:
        self.pieces = pieces
        self._deflated = {} if deflated is None else deflated

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def gzipped(self) -> bytes:
        """Return one gzip member. Each piece is a run of blocks, so that those of unchanged nodes are reused."""
        parts = [b"\x1f\x8b\x08\0\0\0\0\0\0\xff"]
        crc = size = 0
        for piece in self.pieces:
            crc = zlib.crc32(piece, crc)
            size += len(piece)
            deflated = self._deflated.get(piece)
            parts.append(deflate(piece) if deflated is None else deflated)
        parts.append(b"\x03\x00")  # an empty last block
        parts.append(struct.pack("<II", crc, size & 0xFFFFFFFF))
        return b"".join(parts)


def deflate(piece: bytes) -> bytes:
    """Compress a piece to blocks that can be put anywhere in a stream."""
    compressor = zlib.compressobj(1, zlib.DEFLATED, -15)
    return compressor.compress(piece) + compressor.flush(zlib.Z_FULL_FLUSH)


# --------------------------------------------------------------------------------------------------------------------
# Whole objects for extenders: the JSON behind the typed structs, which keep only what scheduling reads.

T = TypeVar("T", bound=Object)


class ObjectSource(Protocol):
    """Source of an object's JSON as extenders expect it: without kind, apiVersion and managedFields."""

    def node_json(self, node: Node) -> bytes: ...

    def pod_json(self, pod: Pod) -> bytes: ...


class StructSource:
    """Encodes structs, without fields that scheduling does not read. For tests and simulated clusters."""

    def node_json(self, node: Node) -> bytes:
        return without_type(msgspec.json.encode(node))

    def pod_json(self, pod: Pod) -> bytes:
        return without_type(msgspec.json.encode(pod))


class RawObjects:
    """Caches the JSON of objects. Informers fill it through ``decoder``, and only if an extender needs whole objects.

    An informer is made with ``replace(NODES, decode=raw.decoder(Node), decode_event=None)`` and calls ``forget`` when
    an object is deleted.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[str, bytes]] = {}  # (kind, key) -> (resourceVersion, JSON)

    def decoder(self, kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
        """Return a decode function for objects of this kind that also caches their JSON."""

        def decode_and_keep(data: bytes | msgspec.Raw) -> T:
            obj: T = decode(kind, data)
            self._keep(kind.__name__, obj, bytes(data))
            return obj

        return decode_and_keep

    def put(self, obj: Object, value: Mapping[str, Any]) -> None:
        """Cache the plain data that an object was made from."""
        self._keep(type(obj).__name__, obj, msgspec.json.encode(value))

    def _keep(self, kind: str, obj: Object, data: bytes) -> None:
        self._kept[kind, obj.key] = obj.metadata.resource_version, data

    def forget(self, obj: Object) -> None:
        self._kept.pop((type(obj).__name__, obj.key), None)

    def __len__(self) -> int:
        return len(self._kept)

    def node_json(self, node: Node) -> bytes:
        return self._json(node)

    def pod_json(self, pod: Pod) -> bytes:
        data = self._json(pod)
        if not pod.spec.node_name or b'"nodeName"' in data:
            return data
        value = msgspec.json.decode(data)  # assumed: the API server does not know its node yet
        value.setdefault("spec", {})["nodeName"] = pod.spec.node_name
        return msgspec.json.encode(value)

    def _json(self, obj: Object) -> bytes:
        version, data = self._kept.get((type(obj).__name__, obj.key), ("", b""))
        if not data or version != obj.metadata.resource_version:
            return without_type(msgspec.json.encode(obj))  # incomplete, but of the right version
        return without_type(data)


def without_type(data: bytes) -> bytes:
    """Return an object's JSON without kind, apiVersion and managedFields, as kube-scheduler sends it."""
    fields = _top.decode(data)
    fields.pop("kind", None)
    fields.pop("apiVersion", None)
    meta = fields.get("metadata")
    if meta is not None and b'"managedFields"' in bytes(meta):
        inner = _top.decode(meta)
        inner.pop("managedFields", None)
        fields["metadata"] = msgspec.Raw(msgspec.json.encode(inner))
    return msgspec.json.encode(fields)


# --------------------------------------------------------------------------------------------------------------------
# Nodes for extenders, serialised and compressed once per version.


class SerializedNodes:
    """The JSON of nodes, encoded once per version; shared by all extenders."""

    def __init__(self, objects: ObjectSource) -> None:
        self.objects = objects
        self._kept: dict[str, tuple[Node, bytes]] = {}  # by name
        self._deflated: dict[bytes, bytes] = {}
        self._most = 0

    def json(self, info: NodeInfo) -> bytes:
        if isinstance(info, AnsweredNode):
            return info.raw
        assert info.node is not None
        kept = self._kept.get(info.name)
        if kept is not None and kept[0] is info.node:
            return kept[1]
        data = self.objects.node_json(info.node)
        if kept is not None:
            self._deflated.pop(kept[1], None)
        self._kept[info.name] = info.node, data
        return data

    def deflated(self, pieces: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the compressed pieces, each compressed once."""
        for piece in pieces:
            if len(piece) > 256 and piece not in self._deflated:
                self._deflated[piece] = deflate(piece)
        return self._deflated

    def offered(self, count: int) -> None:
        """Clear the cache once it is far larger than a call needs: nodes are added and removed."""
        self._most = max(self._most, count)
        if len(self._kept) > 2 * self._most + 1000:
            self._kept.clear()
            self._deflated.clear()


_BARE_NODE_STATUS = {
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "nodeInfo": dict.fromkeys(
        (
            "machineID",
            "systemUUID",
            "bootID",
            "kernelVersion",
            "osImage",
            "containerRuntimeVersion",
            "kubeletVersion",
            "kubeProxyVersion",
            "operatingSystem",
            "architecture",
        ),
        "",
    ),
}


def as_go_writes(raw: bytes) -> bytes:
    """Return the JSON of an extender's own node with the empty fields that Go writes."""
    value = msgspec.json.decode(raw)
    if not isinstance(value, dict):
        return raw
    status = value.get("status") or {}
    if "nodeInfo" in status and "daemonEndpoints" in status and "spec" in value:
        return raw
    value.pop("kind", None)
    value.pop("apiVersion", None)
    filled = {"metadata": {}, "spec": {}, **value, "status": {**status, **_BARE_NODE_STATUS, **status}}
    return msgspec.json.encode(filled)
