"""Large dumps, read quickly: lists that ``kubectl get -o json`` printed, straight from bytes to structs.

Only what is plainly an API server's own output is read so. Everything else is left to the reader of manifests, which
allows more, looks for unknown and repeated fields, and says what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mooring.api.codec import decoder
from mooring.api.core import Node
from mooring.api.defaults import is_stored
from mooring.api.meta import Object, Struct

_KIND = re.compile(rb'"kind":\s*"(\w+)"')
_HEAD = 256  # kubectl sorts keys: the kind comes right after apiVersion


class _List(Struct):
    kind: str = ""
    items: list[msgspec.Raw] = []


class _NodeInfo(Struct):
    kubelet_version: str = ""


class _NodeStatus(Struct):
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class _Kubelet(Struct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


_LISTS = msgspec.json.Decoder(_List)
_KUBELETS = msgspec.json.Decoder(_Kubelet)
Item = tuple[Object | None, str, bytes]
"""A stored object and, of a node, its kubelet's version; or the bytes of an item that was not read."""


def stored_items(text: bytes, kinds: dict[str, type[Object]]) -> Iterator[Item] | None:
    """The items of a list of mixed kinds; None if the text is something else. Only ``kinds`` are read."""
    try:
        found = _LISTS.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if found.kind != "List":
        return None
    return (_item(raw, kinds) for raw in found.items)


def _item(raw: msgspec.Raw, kinds: dict[str, type[Object]]) -> Item:
    named = _KIND.search(memoryview(raw), 0, _HEAD)
    kind = kinds.get(named[1].decode()) if named is not None else None
    if kind is None:
        return None, "", bytes(raw)
    try:
        obj: Object = decoder(kind).decode(raw)
        kubelet = _KUBELETS.decode(raw).status.node_info.kubelet_version if kind is Node else ""
    except (msgspec.MsgspecError, RecursionError):
        return None, "", bytes(raw)
    if obj.kind != kind.__name__ or not is_stored(obj):
        return None, "", bytes(raw)
    return obj, kubelet, b""
