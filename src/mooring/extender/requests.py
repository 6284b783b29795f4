"""What a scheduler asks, decoded: straight into the types that a handler wants, whole nodes only once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mooring.api.codec import from_plain
from mooring.api.core import Pod
from mooring.errors import MooringError

MAX_KEPT_BYTES = 256 << 20


class BadRequest(MooringError):
    """A request that no scheduler sends; the text says what was found."""


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


def read_request(kind: type[Any], body: bytes) -> Any:
    """Decode a request, or say in one line what is wrong with it."""
    if not body:
        raise BadRequest(f"the body is empty; {kind.__name__} as JSON would be right")
    try:
        return _decoders[kind].decode(body)
    except msgspec.ValidationError as error:
        raise BadRequest(f"not {kind.__name__}: {_one_line(error)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return str(error).replace("\n", " ").replace("`", "")[:300]


def read_object(kind: Any, raw: bytes | msgspec.Raw, what: str) -> Any:
    """Decode a pod or node into what the handler asks for: a struct, or plain data for ``dict``."""
    try:
        return _object_decoder(kind)(raw)
    except msgspec.ValidationError as error:
        try:
            return from_plain(kind, msgspec.json.decode(raw))  # nulls where lists belong: legal, slower
        except (MooringError, msgspec.MsgspecError, AttributeError, TypeError):
            raise BadRequest(f"{what}: {_one_line(error)}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"{what}: {_one_line(error)}") from None


_made: dict[Any, Callable[[Any], Any]] = {}


def _object_decoder(kind: Any) -> Callable[[Any], Any]:
    decode = _made.get(kind)
    if decode is None:
        decode = _made[kind] = msgspec.json.Decoder(kind).decode
    return decode


def read_pod(raw: msgspec.Raw, kind: Any = Pod) -> Any:
    pod = read_object(kind, raw, "Pod")
    if pod is None:
        raise BadRequest("Pod is null; a pod would be right")
    return pod


class NodeReader:
    """Decodes nodes of one type; a node that comes again unchanged is taken from what is kept.

    Handlers therefore must not change the nodes they are given.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._kept: dict[bytes, tuple[str, Any]] = {}
        self._size = 0

    def read(self, raws: Sequence[bytes]) -> list[tuple[str, Any]]:
        """(name, node) for each."""
        kept = self._kept
        return [kept.get(raw) or self._decode(raw, i) for i, raw in enumerate(raws)]

    def _decode(self, raw: bytes, i: int) -> tuple[str, Any]:
        node = read_object(self._kind, raw, f"Nodes.items[{i}]")
        name = _name_of(node, raw, i)
        if self._size > MAX_KEPT_BYTES:
            self._kept.clear()
            self._size = 0
        self._kept[raw] = name, node
        self._size += 2 * len(raw)
        return name, node


class _Meta(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


def _name_of(node: Any, raw: bytes, i: int) -> str:
    name = read_object(_Named, raw, f"Nodes.items[{i}]").metadata.name if node is not None else ""
    if not name:
        raise BadRequest(f"Nodes.items[{i}]: has no metadata.name")
    return str(name)
