"""Pods of one template share what they have in common, which takes little more than half the memory.

Ten thousand pods of a Deployment carry ten thousand equal lists of containers. After a pod is decoded its equal parts
are replaced by those seen before. Objects from an informer are never changed, so sharing parts is safe.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.core import Pod

LIMIT = 50_000
"""At most this many distinct parts are remembered. Then all are forgotten, and pods that come later share anew."""
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
        spec = pod.spec
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
        # Apart from the spec, because a StatefulSet gives each pod a label with its name.
        meta = pod.metadata
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
