"""What a story expects of a pod, and how the pod differs from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.sim.backend import Object


class WantedPod(msgspec.Struct, frozen=True):
    """What is expected of a pod."""

    nodes: list[str] | None
    phase: str | None
    pending: str | bool | None
    nominated: str | None

    def compare(self, pod: Object | None) -> str:
        """Why the pod is not as wanted; nothing if it is."""
        if pod is None:
            return "it does not exist"
        status = pod.get("status") or {}
        node = pod["spec"].get("nodeName", "")
        message = why_pending(status)
        if self.nodes is not None and node not in self.nodes:
            return f"it is on {node}" if node else f"it has no node: {message or 'it was not tried yet'}"
        if self.phase is not None and status.get("phase") != self.phase:
            return f"it is {status.get('phase')}"
        if self.pending and node:
            return f"it is on {node}"
        if self.pending is False and not node:
            return f"it has no node: {message}"
        if isinstance(self.pending, str) and self.pending not in message:
            return f"it says {message!r}" if message else "it does not say why it waits"
        if self.pending is True and not message:
            return "it was not tried yet"
        if self.nominated is not None and status.get("nominatedNodeName", "") != self.nominated:
            return f"its nominated node is {status.get('nominatedNodeName') or 'none'}"
        return ""

    def __str__(self) -> str:
        parts = []
        if self.nodes is not None:
            parts.append("has no node" if self.nodes == [""] else "is on " + " or ".join(self.nodes))
        if self.phase is not None:
            parts.append(f"is {self.phase}")
        if self.pending is True:
            parts.append("is pending")
        elif self.pending:
            parts.append(f'is pending because "{self.pending}"')
        if self.nominated is not None:
            parts.append(f"is nominated to {self.nominated or 'no node'}")
        return " and ".join(parts) or "exists"


def why_pending(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""
