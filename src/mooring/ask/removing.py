"""Nodes that can be emptied and removed, and the order of the moves.

| a pod of the node | can it be moved? |
|---|---|
| of a DaemonSet, or static | it goes with the node |
| without a controller | no: nobody would make it anew |
| with a budget that allows no disruption | no |
| with a volume that only this node can reach, or a hostPath | no |
| with an emptyDir | only if its data may be deleted |
| any other | if it fits elsewhere, without preemption |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.budgets import budgets_of
from mooring.api.core import Node
from mooring.api.tables import print_more, print_table, printed
from mooring.api.text import count_of, first_of
from mooring.api.workloads import PodDisruptionBudget
from mooring.ask.copies import stays_with_node
from mooring.ask.drill import coming_back, lost_volumes
from mooring.ask.scheduler import Scheduler
from mooring.ask.wanted import in_queue_order
from mooring.core.cluster import Cluster
from mooring.core.session import Configuration, PluginReference, Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import PODS

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that is evicted from one node, and where its successor goes."""

    pod: str
    source: str
    target: str


@dataclass(slots=True)
class Removal:
    """Nodes to remove, in order, with their moves. Printed, it reads as ``mooring plan --remove`` shows it."""

    nodes: list[str] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    at_most: int = 0  # no plan removes more nodes
    kept: dict[str, str] = field(default_factory=dict)  # nodes that stay, and why

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
        return {
            "nodes": self.nodes,
            "moves": [{"pod": move.pod, "from": move.source, "to": move.target} for move in self.moves],
            "atMost": self.at_most,
            "kept": self.kept,
        }

    def __repr__(self) -> str:
        return text(self)


def plan_removal(
    cluster: Cluster,
    *,
    delete_emptydir_data: bool = False,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Removal:
    """Find nodes that can be emptied and removed, and the moves that empty them. The cluster stays as it is."""
    scheduler = Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version)
    return removal_with(scheduler, delete_emptydir_data=delete_emptydir_data)


def removal_with(
    scheduler: Scheduler, *, delete_emptydir_data: bool = False, progress: Progress = lambda done, total: None
) -> Removal:
    """The same, asked of a scheduler and its cluster."""
    return Removing(scheduler.session.fork(), delete_emptydir_data=delete_emptydir_data, progress=progress).plan()


class Removing:
    """Tries nodes one after another, the emptiest first. Nodes that were chosen stay closed to all moves."""

    def __init__(
        self, base: Session, *, delete_emptydir_data: bool = False, progress: Progress = lambda done, total: None
    ) -> None:
        self._base = base
        self._progress = progress
        self._deletes = delete_emptydir_data

    def plan(self) -> Removal:
        found = Removal()
        movable: list[str] = []
        for node in _emptiest_first(self._base.state):
            why = self._blocked(node)
            if why:
                found.kept[node.name] = why
            else:
                movable.append(node.name)
        found.at_most = _at_most(self._base.state, movable)
        at, chosen = self._base.fork(), list[str]()
        for i, name in enumerate(movable):
            self._progress(i, len(movable))
            if len(chosen) == found.at_most:
                found.kept[name] = "the nodes that are left have no room for its pods"
                continue
            trial = at.fork()
            _cordon(trial.state, [name])
            _, stuck = self._move(trial, [name])
            if stuck:
                found.kept[name] = stuck
            else:
                chosen.append(name)
                at = trial
        moves = self._proved(chosen)
        while moves is None:
            found.kept[chosen.pop()] = "its pods fit only where nodes before it were"
            moves = self._proved(chosen)
        found.nodes, found.moves = chosen, moves
        return found

    def _proved(self, nodes: Sequence[str]) -> list[Move] | None:
        """The moves if all these nodes are closed first and then emptied in order; None if a pod finds no place."""
        session = self._base.fork()
        _cordon(session.state, nodes)
        moves, stuck = self._move(session, nodes)
        return None if stuck else moves

    def _move(self, session: Session, nodes: Iterable[str]) -> tuple[list[Move], str]:
        """Move all pods off these nodes; or why a pod cannot be moved."""
        moves: list[Move] = []
        for node in nodes:
            pods = _to_move(session.state.table.nodes[node])
            for pod in in_queue_order(session, sorted(pods, key=lambda pod: pod.pod.key)):
                session.state.remove_pod(pod.uid)  # one at a time: its budgets are whole again before the next
                decision = session.place(coming_back(session.state, pod.pod))
                if decision.node is None:
                    return moves, f"no place for {pod.pod.key}: {decision.message}"
                moves.append(Move(pod.pod.key, node, decision.node))
            for pod in list(session.state.table.nodes[node].pods.values()):
                session.state.remove_pod(pod.uid)
            session.state.remove_node(node)
        return moves, ""

    def _blocked(self, node: Node) -> str:
        """Why a pod keeps the node, whatever room there is elsewhere."""
        cluster = self._base.state
        pods = _to_move(cluster.table.nodes[node.name])
        for pod in pods:
            key = pod.pod.key
            if pod.pod.metadata.controller() is None:
                return f"{key} has no controller that would make it anew"
            theirs = cluster.objects.in_namespace(PodDisruptionBudget, pod.pod.namespace)
            for budget in budgets_of(pod.pod, theirs):
                if budget.status.disruptions_allowed <= 0:
                    return f"the budget {budget.key} allows no disruption of {key}"
            if any(volume.host_path is not None for volume in pod.pod.spec.volumes):
                return f"{key} uses a hostPath"
            if not self._deletes and any(volume.empty_dir is not None for volume in pod.pod.spec.volumes):
                return f"{key} has data in an emptyDir (--delete-emptydir-data lets them go)"
        volumes = sorted(set(lost_volumes(cluster, pods, frozenset([node.name]))))
        return f"only this node can reach the volume {volumes[0]}" if volumes else ""


def _cordon(cluster: ClusterState, names: Iterable[str]) -> None:
    for name in names:
        node = deepcopy(cluster.table.nodes[name].node)
        assert node is not None
        node.spec.unschedulable = True
        cluster.set_node(node)


def _emptiest_first(cluster: ClusterState) -> Iterator[Node]:
    """By the larger share of CPU or memory that is requested, without pods that go with the node."""
    rows = cluster.nodes()
    use = []
    for i, info in enumerate(rows.infos):
        shares = [0.0]
        for name in ("cpu", "memory"):
            whole = int(rows.allocatable(name)[i])
            mine = sum(_asks(pod, name) for pod in _to_move(info))
            shares.append(mine / whole if whole else 0.0)
        use.append((max(shares), info.name, info.node))
    return (node for _, _, node in sorted(use, key=lambda each: each[:2]) if node is not None)


def _at_most(cluster: ClusterState, movable: Iterable[str]) -> int:
    """How many of these could go if pods could be cut into pieces.

    What is requested on nodes that go must fit into what is free on those that stay. So the sum of both over the nodes
    that go is at most all that is free.
    """
    rows = cluster.nodes()
    index = [cluster.table.nodes[name].row for name in movable]
    bounds = [len(index)]
    for name in ("cpu", "memory", PODS):
        free = (
            rows.allowed_pods - rows.pod_count if name == PODS else rows.allocatable(name) - rows.requested(name)
        ).clip(min=0)
        weights = sorted(int(free[i]) + sum(_asks(pod, name) for pod in _to_move(rows.infos[i])) for i in index)
        bounds.append(sum(total <= int(free.sum()) for total in accumulate(weights)))
    return min(bounds)


def _to_move(info: NodeInfo) -> list[PodInfo]:
    return [pod for pod in info.pods.values() if not (pod.pod.is_terminating or stays_with_node(pod.pod))]


def _asks(pod: PodInfo, resource: str) -> int:
    return 1 if resource == PODS else pod.shape.requests.get(resource, 0)


# ---- how a removal looks in print ------------------------------------------------------------------------------------

TOP = 20


def draw(to: Console, found: Removal, top: int = TOP) -> None:
    """Print the nodes to remove, the moves in their order, and why the others stay."""
    colour = "green" if found.nodes else "yellow"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    if found.nodes:
        to.print(f"In this order, all of them cordoned first: {escape(first_of(found.nodes, top))}")
    if found.moves:
        to.print()
        rows = [(str(i), Text(move.pod), move.source, move.target) for i, move in enumerate(found.moves[:top], 1)]
        print_table(to, ["MOVE", "POD", "FROM", "TO"], rows)
        print_more(to, len(found.moves), top)
    if found.kept:
        to.print()
        kept = [(name, Text(why)) for name, why in list(found.kept.items())[:top]]
        print_table(to, ["STAYS", "BECAUSE"], kept)
        print_more(to, len(found.kept), top)


def text(found: Removal) -> str:
    """The same without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Removal) -> str:
    """One line: how many nodes can go."""
    if not found.nodes:
        return "No node can be removed"
    most = "No plan removes more" if len(found.nodes) == found.at_most else f"No plan removes more than {found.at_most}"
    moves = f"with {count_of(len(found.moves), 'move')}" if found.moves else "without a move"
    return f"{count_of(len(found.nodes), 'node')} can be removed {moves}. {most}."
