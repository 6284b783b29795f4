"""Whole objects for extenders: the JSON behind the typed structs, which keep only what scheduling reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from mooring.api.codec import decode
from mooring.api.core import Node, Pod
from mooring.api.meta import Object

T = TypeVar("T", bound=Object)

_top = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ObjectSource(Protocol):
    """Gives the JSON of an object as extenders expect it: without kind, apiVersion and managedFields."""

    def node_json(self, node: Node) -> bytes: ...

    def pod_json(self, pod: Pod) -> bytes: ...


class StructSource:
    """Writes structs as they are: what scheduling does not read is missing. For tests and simulated clusters."""

    def node_json(self, node: Node) -> bytes:
        return without_type(msgspec.json.encode(node))

    def pod_json(self, pod: Pod) -> bytes:
        return without_type(msgspec.json.encode(pod))


class RawObjects:
    """Keeps the JSON of objects. Informers fill it through ``decoder``, and only if an extender wants whole objects.

    An informer is made with ``replace(NODES, decode=raw.decoder(Node), decode_event=None)`` and calls ``forget`` when
    an object is deleted.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[str, bytes]] = {}  # (kind, key) -> (resourceVersion, JSON)

    def decoder(self, kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
        """A decode function for objects of this kind that keeps their JSON, too."""

        def decode_and_keep(data: bytes | msgspec.Raw) -> T:
            obj: T = decode(kind, data)
            self._keep(kind.__name__, obj, bytes(data))
            return obj

        return decode_and_keep

    def put(self, obj: Object, value: Mapping[str, Any]) -> None:
        """Keep the plain data that an object was made from."""
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
        value = msgspec.json.decode(data)  # assumed: the API server does not know of its node yet
        value.setdefault("spec", {})["nodeName"] = pod.spec.node_name
        return msgspec.json.encode(value)

    def _json(self, obj: Object) -> bytes:
        version, data = self._kept.get((type(obj).__name__, obj.key), ("", b""))
        if not data or version != obj.metadata.resource_version:
            return without_type(msgspec.json.encode(obj))  # incomplete, but of the right version
        return without_type(data)


def without_type(data: bytes) -> bytes:
    """An object's JSON without kind, apiVersion and managedFields, as kube-scheduler sends it."""
    fields = _top.decode(data)
    fields.pop("kind", None)
    fields.pop("apiVersion", None)
    meta = fields.get("metadata")
    if meta is not None and b'"managedFields"' in bytes(meta):
        inner = _top.decode(meta)
        inner.pop("managedFields", None)
        fields["metadata"] = msgspec.Raw(msgspec.json.encode(inner))
    return msgspec.json.encode(fields)
