"""Nodes as extenders get them: serialised once per version, compressed once, and filled in as Go does."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mooring.api.core import Node
from mooring.extender.objects import ObjectSource
from mooring.extender.payload import deflate
from mooring.framework.extender import AnsweredNode
from mooring.state.node_info import NodeInfo


class SerializedNodes:
    """The JSON of nodes, made once per version; shared by all extenders."""

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
        """Compressed forms of these, made once each."""
        for piece in pieces:
            if len(piece) > 256 and piece not in self._deflated:
                self._deflated[piece] = deflate(piece)
        return self._deflated

    def offered(self, count: int) -> None:
        """Forget everything once there is far more than any call needs: nodes come and go."""
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
    """The JSON of a node that an extender made up, with what Go writes also where nothing is."""
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
