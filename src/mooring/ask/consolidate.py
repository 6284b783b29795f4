"""Nodes that could be removed: the order, the moves that empty them, the savings, and what keeps the others.

Pods of DaemonSets and static pods are removed with the node. ``why_it_stays`` says which others keep it; movable pods
must fit elsewhere, without preemption.
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

from mooring.api.core import Node
from mooring.api.tables import print_more, print_table, printed, printed_html
from mooring.api.text import count_of, first_of
from mooring.ask.copies import stays_with_node
from mooring.ask.drill import coming_back
from mooring.ask.moves import Prices, price_of, why_it_stays
from mooring.ask.scheduler import Scheduler
from mooring.ask.wanted import in_queue_order
from mooring.core.cluster import Cluster
from mooring.core.engine.decision import ScheduleResult
from mooring.core.explain.why import explain_pod
from mooring.core.session import Configuration, PluginReference, Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import PODS

MAX_SUGGESTIONS = 20  # nodes with suggestions
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that is evicted from one node, and the new node of its replacement."""

    pod: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class KeptNode:
    """Why a node stays, and the smallest change that would help, if known."""

    why: str
    helps: str = ""


@dataclass(slots=True)
class Consolidation:
    """Nodes to remove, in order, with their moves. Printed, it reads as ``mooring consolidate`` shows it."""

    nodes: list[str] = field(default_factory=list)
    moves: list[Eviction] = field(default_factory=list)
    at_most: int = 0  # no plan removes more nodes
    kept: dict[str, KeptNode] = field(default_factory=dict)  # nodes that stay
    prices: dict[str, float] = field(default_factory=dict)  # of all nodes; empty without a price table

    @property
    def saves(self) -> float:
        """Price of the removable nodes."""
        return round(sum(self.prices.get(name, 0.0) for name in self.nodes), 6)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        return {
            "nodes": self.nodes,
            "moves": [{"pod": move.pod, "from": move.source, "to": move.target} for move in self.moves],
            "atMost": self.at_most,
            "kept": [{"node": name, "why": kept.why, "helps": kept.helps or None} for name, kept in self.kept.items()],
            "saves": self.saves if self.prices else None,
            "cost": round(sum(self.prices.values()), 6) if self.prices else None,
        }

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return printed_html(lambda to: draw(to, self))


def consolidate(
    cluster: Cluster,
    *,
    prices: Prices = None,
    delete_emptydir_data: bool = False,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Consolidation:
    """Find nodes that can be emptied and removed, with the moves. The cluster stays unchanged."""
    scheduler = Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version)
    return consolidate_with(scheduler, prices=prices, delete_emptydir_data=delete_emptydir_data)


def consolidate_with(
    scheduler: Scheduler,
    *,
    prices: Prices = None,
    delete_emptydir_data: bool = False,
    progress: Progress = lambda done, total: None,
) -> Consolidation:
    """Answer for a scheduler and its cluster."""
    session = scheduler.session.fork()
    price = price_of(prices, session)
    found = Consolidating(session, price, delete_emptydir_data=delete_emptydir_data, progress=progress).plan()
    if prices is not None:
        found.prices = {node.name: price(node.name) for node in scheduler.cluster.nodes}
    return found


class Consolidating:
    """Tries nodes one after another, the most expensive relative to its use first. Chosen nodes accept no moves."""

    def __init__(
        self,
        base: Session,
        price: Callable[[str], float] = lambda name: 1.0,
        *,
        delete_emptydir_data: bool = False,
        progress: Progress = lambda done, total: None,
    ) -> None:
        self._base = base
        self._price = price
        self._progress = progress
        self._deletes = delete_emptydir_data

    def plan(self) -> Consolidation:
        found = Consolidation()
        movable: list[str] = []
        for node in _emptiest_first(self._base.state, self._price):
            why = self._blocked(node)
            if why:
                found.kept[node.name] = KeptNode(why)
            else:
                movable.append(node.name)
        found.at_most = _at_most(self._base.state, movable)
        at, chosen = self._base.fork(), list[str]()
        for i, name in enumerate(movable):
            self._progress(i, len(movable))
            if len(chosen) == found.at_most:
                found.kept[name] = KeptNode("the nodes that are left have no room for its pods")
                continue
            trial = at.fork()
            _cordon(trial.state, [name])
            _, stuck = self._move(trial, [name])
            if stuck is not None:
                found.kept[name] = self._kept(stuck, trial, name, asks=len(found.kept) < MAX_SUGGESTIONS)
            else:
                chosen.append(name)
                at = trial
        moves = self._proved(chosen)
        while moves is None:
            found.kept[chosen.pop()] = KeptNode("its pods fit only where nodes before it were")
            moves = self._proved(chosen)
        found.nodes, found.moves = chosen, moves
        return found

    def _kept(self, stuck: ScheduleResult, there: Session, name: str, *, asks: bool) -> KeptNode:
        """Return why a pod finds no other node, with a suggestion computed on the cluster without the node."""
        state = there.state
        for pod in list(state.table.nodes[name].pods.values()):
            state.remove_pod(pod.uid)
        state.remove_node(name)
        profile = there.profile_for(stuck.pod.pod)
        decision = there.engine.attempt(stuck.pod, profile, detail=False, makes_room=False)
        suggestions = explain_pod(there, stuck.pod.pod).suggestions if asks else []
        helps = "; ".join(suggestions[0].changes) if suggestions else ""
        return KeptNode(f"no place for {stuck.pod.pod.key}: {decision.message}", helps)

    def _proved(self, nodes: Sequence[str]) -> list[Eviction] | None:
        """Return the moves if all these nodes are cordoned first, then emptied in order; None if a pod does not fit."""
        session = self._base.fork()
        _cordon(session.state, nodes)
        moves, stuck = self._move(session, nodes)
        return moves if stuck is None else None

    def _move(self, session: Session, nodes: Iterable[str]) -> tuple[list[Eviction], ScheduleResult | None]:
        """Move all pods off these nodes; or return the decision about a pod that cannot be moved."""
        moves: list[Eviction] = []
        for node in nodes:
            pods = _to_move(session.state.table.nodes[node])
            for pod in in_queue_order(session, sorted(pods, key=lambda pod: pod.pod.key)):
                session.state.remove_pod(pod.uid)  # one at a time: its budgets are restored before the next
                decision = session.place(coming_back(session.state, pod))
                if decision.node is None:
                    return moves, decision
                moves.append(Eviction(pod.pod.key, node, decision.node))
            for pod in list(session.state.table.nodes[node].pods.values()):
                session.state.remove_pod(pod.uid)
            session.state.remove_node(node)
        return moves, None

    def _blocked(self, node: Node) -> str:
        """Return why a pod keeps the node, independently of room elsewhere."""
        pods = _to_move(self._base.state.table.nodes[node.name])
        reasons = (why_it_stays(pod, self._base.state, delete_emptydir_data=self._deletes) for pod in pods)
        return next((why for why in reasons if why), "")


def _cordon(cluster: ClusterState, names: Iterable[str]) -> None:
    for name in names:
        node = deepcopy(cluster.table.nodes[name].node)
        assert node is not None
        node.spec.unschedulable = True
        cluster.set_node(node)


def _emptiest_first(cluster: ClusterState, price: Callable[[str], float]) -> Iterator[Node]:
    """Sort by the larger share of requested CPU or memory relative to the price, without pods bound to the node."""
    rows = cluster.nodes()
    use = []
    for i, info in enumerate(rows.infos):
        shares = [0.0]
        for name in ("cpu", "memory"):
            whole = int(rows.allocatable(name)[i])
            mine = sum(_asks(pod, name) for pod in _to_move(info))
            shares.append(mine / whole if whole else 0.0)
        use.append((max(shares) / max(price(info.name), 1e-9), info.name, info.node))
    return (node for _, _, node in sorted(use, key=lambda each: each[:2]) if node is not None)


def _at_most(cluster: ClusterState, movable: Iterable[str]) -> int:
    """Return how many of these could be removed if pods could be split.

    The requests on removed nodes must fit into the free resources of the others. So for the removed nodes the sum of
    both is at most all that is free.
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


# ---- rendering
# ----------------------------------------------------------------------------------------------------------

TOP = 20


def draw(to: Console, found: Consolidation, top: int = TOP) -> None:
    """Print the removable nodes, the moves in order, and why the others stay."""
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
        kept = [
            (name, Text(f"{each.why} (what would help: {each.helps})" if each.helps else each.why))
            for name, each in list(found.kept.items())[:top]
        ]
        print_table(to, ["STAYS", "BECAUSE"], kept)
        print_more(to, len(found.kept), top)


def text(found: Consolidation) -> str:
    """Return the text without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Consolidation) -> str:
    """Return one line: how many nodes can be removed."""
    if not found.nodes:
        return "No node can be removed"
    most = "No plan removes more" if len(found.nodes) == found.at_most else f"No plan removes more than {found.at_most}"
    moves = f"with {count_of(len(found.moves), 'move')}" if found.moves else "without a move"
    saved = f", which saves {found.saves:g} of {sum(found.prices.values()):g}" if found.prices else ""
    return f"{count_of(len(found.nodes), 'node')} can be removed {moves}{saved}. {most}."
