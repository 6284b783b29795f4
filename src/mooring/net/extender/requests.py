"""Decoding of a scheduler's requests into the types of a handler. A node is decoded once per version."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.api.errors import MooringError

MAX_KEPT_BYTES = 256 << 20
Body = bytes | bytearray  # a large one is not copied


class BadExtenderRequest(MooringError):
    """A request that no scheduler sends, with a description of what was found."""


class WrongForm(BadExtenderRequest):
    """A request in a form that this extender does not read: the scheduler's configuration is wrong."""


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class ExtenderArgs(msgspec.Struct):
    """A filter or prioritize request."""

    Pod: msgspec.Raw
    Nodes: _NodeList | None = None
    NodeNames: list[str] | None = None


class MetaPod(msgspec.Struct):
    UID: str = ""


class WireVictims(msgspec.Struct):
    Pods: list[msgspec.Raw] | None = None
    NumPDBViolations: int = 0


class WireMetaVictims(msgspec.Struct):
    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0


class PreemptionArgs(msgspec.Struct):
    Pod: msgspec.Raw
    NodeNameToVictims: dict[str, WireVictims] | None = None
    NodeNameToMetaVictims: dict[str, WireMetaVictims] | None = None


class BindingArgs(msgspec.Struct):
    PodName: str
    Node: str
    PodNamespace: str = ""
    PodUID: str = ""


_decoders = {
    kind: msgspec.json.Decoder(kind) for kind in (ExtenderArgs, PreemptionArgs, BindingArgs)
}  # fmt: skip


def read_request(kind: type[Any], body: Body) -> Any:
    """Decode a request; a mistake is reported in one line."""
    if not body:
        raise BadExtenderRequest(f"the body is empty; expected {kind.__name__} as JSON")
    try:
        return _decoders[kind].decode(body)
    except msgspec.ValidationError as error:
        raise BadExtenderRequest(f"not {kind.__name__}: {_one_line(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadExtenderRequest(f"the body is not JSON: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return str(error).replace("\n", " ").replace("`", "")[:300]


def read_object(kind: Any, raw: bytes | msgspec.Raw, what: str) -> Any:
    """Decode a pod or node into the handler's type: a struct, or plain data for ``dict``."""
    try:
        return _object_decoder(kind)(raw)
    except msgspec.ValidationError as error:
        try:
            return from_plain(kind, msgspec.json.decode(raw))  # legal but slower: null instead of a list
        except (MooringError, msgspec.MsgspecError, AttributeError, TypeError):
            raise BadExtenderRequest(f"{what}: {_one_line(error)}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadExtenderRequest(f"{what}: {_one_line(error)}") from None


_made: dict[Any, Callable[[Any], Any]] = {}
_making = threading.Lock()


def _object_decoder(kind: Any) -> Callable[[Any], Any]:
    decode = _made.get(kind)
    return prepare(kind) if decode is None else decode


def prepare(kind: Any) -> Callable[[Any], Any]:
    """Build the decoder of a type before threads use it.

    msgspec caches what it knows about a Struct on the class, and another thread might use it half built, which crashes.
    """
    with _making:
        if kind not in _made:
            _made[kind] = msgspec.json.Decoder(kind).decode
        return _made[kind]


def read_pod(raw: msgspec.Raw, kind: Any = Pod) -> Any:
    pod = read_object(kind, raw, "Pod")
    if pod is None:
        raise BadExtenderRequest("Pod is null; expected a pod")
    return pod


Entry = tuple[bytes, str, Any]  # a node's JSON, its name, and the decoded object

_START = b'{"Pod":'
_HEAD = b',"Nodes":{"metadata":{},"items":['
_ITEM = b'{"metadata":{"name":"'
_TAIL = b']},"NodeNames":null}'


class NodeReader:
    """Decodes nodes into one type, with a cache for unchanged nodes.

    Go writes requests in one form, in which each node begins with its name. A node with a known name and the same bytes
    need not be parsed; requests in other forms are decoded as usual. Handlers must not change the nodes.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        prepare(kind)
        self._kept: dict[bytes, Entry] = {}  # by the encoded name
        self._size = 0

    def read(self, body: Body) -> tuple[msgspec.Raw, list[Entry]] | None:
        """Return the pod and the nodes of a request in Go's form; None for another form."""
        start = body.find(_HEAD)
        if start < 0 or not body.startswith(_START) or not body.endswith(_TAIL):
            return None
        position, end = start + len(_HEAD), len(body) - len(_TAIL)
        entries: list[Entry] = []
        known, find, startswith, to_name = self._kept.get, body.find, body.startswith, len(_ITEM)
        try:
            while position < end:
                name_at = position + to_name
                entry = known(bytes(body[name_at : find(b'"', name_at)]))
                if entry is None or not startswith(entry[0], position):
                    entry = self._new(body, position, end)
                entries.append(entry)
                position += len(entry[0])
                if position < end and body[position] != _COMMA:
                    return None
                position += 1
        except BadExtenderRequest:
            return None
        return msgspec.Raw(bytes(body[len(_START) : start])), entries

    def _new(self, body: Body, position: int, end: int) -> Entry:
        """Decode a node that is unknown or has changed."""
        if not body.startswith(_ITEM, position):
            raise BadExtenderRequest("in another form")
        name_at = position + len(_ITEM)
        name = bytes(body[name_at : body.find(b'"', name_at)])
        following = body.find(b"," + _ITEM, position, end)
        entry = self.decode(bytes(body[position : end if following < 0 else following]), "a node")
        self._keep(name, entry, self._kept.get(name))
        return entry

    def _keep(self, name: bytes, entry: Entry, before: Entry | None) -> None:
        self._size += len(entry[0]) - (0 if before is None else len(before[0]))
        if self._size > MAX_KEPT_BYTES:
            self._kept.clear()
            self._size = len(entry[0])
        self._kept[name] = entry

    def decode(self, raw: bytes, what: str) -> Entry:
        node = read_object(self._kind, raw, what)
        name = read_object(_Keyed, raw, what).metadata.name
        if not name:
            raise BadExtenderRequest(f"{what}: has no metadata.name")
        return raw, name, node


_COMMA = ord(",")


class _KeyMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Keyed(msgspec.Struct):
    metadata: _KeyMeta = msgspec.field(default_factory=_KeyMeta)


prepare(_Keyed)


def pod_key(raw: msgspec.Raw) -> str:
    """Return namespace/name, for logs."""
    try:
        meta = read_object(_Keyed, raw, "Pod").metadata
    except BadExtenderRequest:
        return ""
    return f"{meta.namespace}/{meta.name}"
