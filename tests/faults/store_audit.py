"""The audit of a soak: sees every write to a pod or a node and remembers what must never happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mooring.api.quantity import milli_value_of, value_of
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.storage.store import DELETED, Event, Store
from mooring.controlplane.types.kind import Object

MAX_TOLD = 20
Amounts = tuple[int, int, int]  # milli-CPUs, bytes, pods


@dataclass(slots=True)
class _Placed:
    node: str
    amounts: Amounts


@dataclass
class Audit:
    """Follows a store. ``problems`` stays empty if every pod was bound at most once and no node ever held too much.

    A node that comes back smaller, or a pod that is bound to a node while that node is being deleted, is not the
    scheduler's doing: room is checked when a pod arrives, against the node as it is then.
    """

    store: Store
    bound: int = 0
    problems: list[str] = field(default_factory=list)
    _placed: dict[str, _Placed] = field(default_factory=dict)  # by uid
    _room: dict[str, Amounts] = field(default_factory=dict)
    _used: dict[str, list[int]] = field(default_factory=dict)
    _was_bound: set[str] = field(default_factory=set)
    _stops: list[Callable[[], None]] = field(default_factory=list)

    def start(self) -> None:
        self._stops = [self.store.subscribe(NODES, self.node), self.store.subscribe(PODS, self.pod)]

    def take_in(self) -> None:
        """Begin with the existing objects: the store was opened again."""
        for entry in self.store.iterate(NODES):
            self._room[entry.name] = _allocatable(entry.object())
        for entry in self.store.iterate(PODS):
            pod = entry.object()
            node, phase = pod["spec"].get("nodeName", ""), (pod.get("status") or {}).get("phase")
            if node and phase not in ("Succeeded", "Failed"):
                placed = self._placed[entry.uid] = _Placed(node, _requests(pod))
                self._was_bound.add(entry.uid)
                self._add(placed, 1)

    def stop(self) -> None:
        for stop in self._stops:
            stop()

    @property
    def placed(self) -> int:
        """Pods that are on nodes now."""
        return len(self._placed)

    def node(self, event: Event) -> None:
        if event.type == DELETED:
            self._room.pop(event.entry.name, None)
            return
        self._room[event.entry.name] = _allocatable(event.entry.object())

    def pod(self, event: Event) -> None:
        entry = event.entry
        fields = entry.fields or {}  # most writes change nothing that has to be read from the pod itself
        uid, node = entry.uid, fields.get("spec.nodeName", "")
        is_over = event.type == DELETED or fields.get("status.phase") in ("Succeeded", "Failed")
        before = self._placed.get(uid)
        if before is not None and (is_over or before.node != node):
            self._add(before, -1)
            del self._placed[uid]
            if not is_over:
                self._tell(f"pod {entry.key} was moved from {before.node} to {node}")
        if event.type == DELETED:
            self._was_bound.discard(uid)  # a uid never comes back
        if is_over or not node or uid in self._placed:
            return
        if uid in self._was_bound:
            self._tell(f"pod {entry.key} was bound twice, now to {node}")
        self._was_bound.add(uid)
        self.bound += 1
        placed = _Placed(node, _requests(entry.object()))
        self._placed[uid] = placed
        self._add(placed, 1)
        room, used = self._room.get(node), self._used[node]
        if room is not None and any(u > r for u, r in zip(used, room, strict=True)):
            self._tell(f"node {node} holds {used}, has room for {list(room)} (with {entry.key})")

    def _add(self, placed: _Placed, sign: int) -> None:
        used = self._used.setdefault(placed.node, [0, 0, 0])
        for i, amount in enumerate(placed.amounts):
            used[i] += sign * amount

    def _tell(self, problem: str) -> None:
        if len(self.problems) < MAX_TOLD:
            self.problems.append(problem)


def _allocatable(node: Object) -> Amounts:
    amounts = (node.get("status") or {}).get("allocatable") or {}
    return milli_value_of(amounts.get("cpu", 0)), value_of(amounts.get("memory", 0)), value_of(amounts.get("pods", 0))


def _requests(pod: Object) -> Amounts:
    wanted = [(c.get("resources") or {}).get("requests") or {} for c in pod["spec"]["containers"]]
    return sum(milli_value_of(w.get("cpu", 0)) for w in wanted), sum(value_of(w.get("memory", 0)) for w in wanted), 1
