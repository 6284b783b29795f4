"""What happens to nodes, passed on to the pods of workloads. The control plane does the same for its own pods."""

from __future__ import annotations

import asyncio

from mooring.api.clock import Clock
from mooring.api.codec import KINDS, decode
from mooring.api.core import Node, Pod, Taint
from mooring.controlplane.cluster.kubelet import KUBELET
from mooring.controlplane.cluster.node_lifecycle import QUARANTINE_S, tolerated_for
from mooring.controlplane.storage.store import DELETED, Event
from mooring.sim.streamed_pods import StreamedPods


class NodeWatch:
    """Silences pods of a stopped kubelet, evicts them by taints, and removes them when their node is gone."""

    def __init__(self, streamed: StreamedPods, clock: Clock) -> None:
        self._streamed, self._clock = streamed, clock
        self._loop = asyncio.get_running_loop()
        self._since: dict[str, dict[str, float]] = {}  # node -> key of a NoExecute taint -> when it came
        self._nodes: dict[str, Node] = {}  # those with such taints
        self._stopped: set[str] = set()
        self._gone: set[str] = set()

    def note(self, event: Event) -> None:
        """Hear of a change. What follows from it happens after the write that it is told within."""
        self._loop.call_soon(self._look_at, event)

    def placed(self, pod: Pod, node: str) -> None:
        """A pod was bound; its node may have taints already."""
        if node in self._nodes:
            self._evict(pod.key, pod.uid, node)

    def _look_at(self, event: Event) -> None:
        name = event.entry.name
        if event.type == DELETED:
            self._forget(name)
            self._gone.add(name)
            self._streamed.ahead += 1
            self._loop.call_later(QUARANTINE_S, self._collect, name)
            return
        self._gone.discard(name)
        raw = event.entry.raw
        if not (name in self._stopped or name in self._nodes or b'"NoExecute"' in raw or KUBELET.encode() in raw):
            return
        node: Node = decode(KINDS["Node"], raw)
        is_stopped = node.metadata.annotations.get(KUBELET) == "stopped"
        if is_stopped and name not in self._stopped:
            self._stopped.add(name)
            self._streamed.silence(name)
        elif not is_stopped and name in self._stopped:
            self._stopped.discard(name)
            self._streamed.hear(name)
        self._note_taints(name, node)

    def _forget(self, name: str) -> None:
        self._since.pop(name, None)
        self._nodes.pop(name, None)
        if name in self._stopped:
            self._stopped.discard(name)

    def _collect(self, name: str) -> None:
        """Remove the pods of a node that is gone for good."""
        self._streamed.ahead -= 1
        if name in self._gone:
            self._gone.discard(name)
            for pod in self._streamed.on(name):
                self._streamed.remove(pod)

    def _note_taints(self, name: str, node: Node) -> None:
        taints = [taint for taint in node.spec.taints if taint.effect == "NoExecute"]
        before = self._since.pop(name, {})
        if not taints:
            self._nodes.pop(name, None)
            return
        now = self._clock.now()
        self._since[name] = {taint.key: before.get(taint.key, now) for taint in taints}
        self._nodes[name] = node
        if self._since[name].keys() - before.keys():
            for pod in self._streamed.on(name):
                self._evict(pod.key, pod.uid, name)

    def _evict(self, key: str, uid: str, node: str) -> None:
        """Delete a pod whose patience with its node's taints is over, or look again when it will be."""
        pod = self._streamed.pods.get(key)
        known = self._nodes.get(node)
        if pod is None or pod.uid != uid or pod.spec.node_name != node or known is None or pod.is_terminating:
            return
        left_s = self._patience(pod, known.spec.taints, self._since[node])
        if left_s is None:
            return
        if left_s <= 0:
            self._streamed.delete(pod)
            return
        self._streamed.ahead += 1
        self._loop.call_later(left_s, self._evict_later, key, uid, node)

    def _evict_later(self, key: str, uid: str, node: str) -> None:
        self._streamed.ahead -= 1
        self._evict(key, uid, node)

    def _patience(self, pod: Pod, taints: list[Taint], since: dict[str, float]) -> float | None:
        """Seconds until the pod has to go; None if it may stay for ever."""
        now = self._clock.now()
        limits = [
            since[taint.key] + patience_s - now
            for taint in taints
            if taint.effect == "NoExecute" and (patience_s := tolerated_for(pod, taint)) is not None
        ]
        return min(limits, default=None)
