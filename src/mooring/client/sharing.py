"""Pods of one template share what they have in common, which takes little more than half the memory.

Ten thousand pods of a Deployment carry ten thousand equal lists of containers. After a pod is decoded its equal parts
are replaced by those seen before. Objects from an informer are never changed, so sharing parts is safe.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import msgspec

from mooring.api.core import Pod, PodSpec, PodStatus
from mooring.api.meta import Object, ObjectMeta, Struct
from mooring.client.resource_kind import TypedEvent

LIMIT = 50_000
"""At most this many distinct parts are remembered. Then all are forgotten, and pods that come later share anew."""
SPECS, SPECS_BYTES = 2_000, 4 << 20
"""The same for whole specs: a pod's next version mostly comes soon."""
LIMIT_BYTES = 16 << 20
"""The remembered parts, encoded, may have this length. Decoded they take several times as much memory."""


class PodSharing:
    """Replaces equal parts of pods by one and the same object."""

    def __init__(self, limit: int = LIMIT, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._encode = msgspec.msgpack.Encoder().encode
        self._parts: dict[bytes, tuple[Any, ...]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def __call__(self, pod: Pod) -> None:
        self.share_spec(pod.spec)
        self.share_metadata(pod.metadata)

    def share_spec(self, spec: PodSpec) -> None:
        (
            spec.containers,
            spec.init_containers,
            spec.tolerations,
            spec.affinity,
            spec.topology_spread_constraints,
            spec.node_selector,
            spec.overhead,
        ) = self._shared(
            (
                spec.containers,
                spec.init_containers,
                spec.tolerations,
                spec.affinity,
                spec.topology_spread_constraints,
                spec.node_selector,
                spec.overhead,
            )
        )

    def share_metadata(self, meta: ObjectMeta) -> None:
        """Apart from the spec, because a StatefulSet gives each pod a label with its name."""
        meta.labels, meta.owner_references = self._shared((meta.labels, meta.owner_references))

    def _shared(self, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        key = self._encode(parts)
        known = self._parts.get(key)
        if known is not None:
            return known
        if len(self._parts) >= self._limit or self._bytes >= self._limit_bytes:
            self._parts.clear()
            self._bytes = 0
        self._parts[key] = parts
        self._bytes += len(key)
        return parts


class _PodInParts(Object, kw_only=True):
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class _NodeOnly(Struct):
    node_name: str = ""


_split = msgspec.json.Decoder(TypedEvent[_PodInParts]).decode
_node_of = msgspec.json.Decoder(_NodeOnly).decode
_spec_of = msgspec.json.Decoder(PodSpec).decode


class PodEvents:
    """Decodes watch events of pods, with equal parts shared. A spec that has come before is not decoded again.

    Specs are compared as bytes and without the node: what a template makes, and what a pod was before it was bound.
    """

    def __init__(self, share: PodSharing, limit: int = SPECS, limit_bytes: int = SPECS_BYTES) -> None:
        self._share = share
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._specs: dict[bytes, PodSpec] = {}

    def __len__(self) -> int:
        return len(self._specs)

    def __call__(self, line: bytes) -> TypedEvent[Pod]:
        event = _split(line)
        found = event.object
        self._share.share_metadata(found.metadata)
        spec = self._spec(bytes(found.spec))
        pod = Pod(
            api_version=found.api_version, kind=found.kind, metadata=found.metadata, spec=spec, status=found.status
        )
        return TypedEvent(event.type, pod)

    def _spec(self, data: bytes) -> PodSpec:
        node = ""
        if b'"nodeName"' in data:
            node = _node_of(data).node_name
            entry = b'"nodeName":"%b",' % node.encode()
            # Only once: a selector may have the same key, and then it is not known which of them the entry is.
            if not node or data.count(b'"nodeName"') != 1 or entry not in data:
                return self._decode(data)
            data = data.replace(entry, b"")
        spec = self._specs.get(data)
        if spec is None:
            spec = self._decode(data)
            self._remember(data, spec)
        if node:
            spec = copy(spec)
            spec.node_name = node
        return spec

    def _decode(self, data: bytes) -> PodSpec:
        spec = _spec_of(data)
        self._share.share_spec(spec)
        return spec

    def _remember(self, data: bytes, spec: PodSpec) -> None:
        if len(self._specs) >= self._limit or self._bytes >= self._limit_bytes:
            self._specs.clear()
            self._bytes = 0
        self._specs[data] = spec
        self._bytes += len(data)
