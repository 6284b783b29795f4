"""The pod and the nodes of a filter or prioritize request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.extender.requests import BadRequest, Body, Entry, ExtenderArgs, NodeReader, WrongForm, read_request


class OfferedNodes:
    """The nodes of a request: by name, or whole."""

    def __init__(self, body: Body, reader: NodeReader, node_type: Any) -> None:
        quick = reader.read(body)
        if quick is not None:
            self.pod, entries = quick
            self._take(entries, node_type)
            return
        args: ExtenderArgs = read_request(ExtenderArgs, body)
        self.pod = args.Pod
        if args.NodeNames is not None:
            if node_type is not str:
                raise WrongForm("NodeNames without Nodes: this extender reads whole nodes; set nodeCacheCapable: false")
            self.are_names = True
            self.names = args.NodeNames
            self.raw: dict[str, bytes] = {}
            self.views: Sequence[Any] = self.names
            return
        if args.Nodes is None:
            raise BadRequest("expected Nodes or NodeNames, found neither")
        raws = [bytes(raw) for raw in args.Nodes.items or ()]
        self._take([reader.decode(raw, f"Nodes.items[{i}]") for i, raw in enumerate(raws)], node_type)

    def _take(self, entries: list[Entry], node_type: Any) -> None:
        self.are_names = False
        raws, names, views = zip(*entries, strict=True) if entries else ((), (), ())
        self.names = list(names)
        self.raw = dict(zip(names, raws, strict=True))
        self.views = self.names if node_type is str else list(views)


class NameOnly(msgspec.Struct):
    """A node of which nothing but the name is wanted."""


class _KeyMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Keyed(msgspec.Struct):
    metadata: _KeyMeta = msgspec.field(default_factory=_KeyMeta)


_keyed = msgspec.json.Decoder(_Keyed)


def pod_key(raw: msgspec.Raw) -> str:
    """namespace/name, for logs."""
    try:
        meta = _keyed.decode(raw).metadata
    except msgspec.MsgspecError:
        return ""
    return f"{meta.namespace}/{meta.name}"
