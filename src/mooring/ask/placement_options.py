"""What is asked of a better placement, and how a placement is measured.

The objective is lexicographic: more pods placed, those of the highest priority first; then what was asked for; then
fewer moves.

| objective | what counts after the placed pods |
|---|---|
| nodes | fewer nodes in use |
| cost | the lowest price of the nodes in use |
| spread | the fullest node as empty as possible |
| fragmentation | more room in one piece: how many more pods like the largest one would fit |
| pending | nothing |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np

from mooring.api.core import recreated_pod
from mooring.api.errors import InputError, ParseError
from mooring.api.text import hint
from mooring.ask.asked_pod import find_pod
from mooring.ask.copies import stays_with_node
from mooring.ask.moves import Prices, price_of
from mooring.ask.relaxation import however_full
from mooring.ask.scheduler import Scheduler
from mooring.core.plugins.gpus.requests import MILLI, request_of
from mooring.core.session import Session
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import PODS

PENDING, NODES, COST, SPREAD, FRAGMENTATION = "pending", "nodes", "cost", "spread", "fragmentation"
OBJECTIVES = (NODES, COST, SPREAD, FRAGMENTATION, PENDING)
HIGHS, CP_SAT = "highs", "cp-sat"
SOLVERS = (HIGHS, CP_SAT)
TIME_LIMIT_S = 60.0


class PlacementOptions(TypedDict, total=False):
    """What else can be said about a better placement."""

    prices: Prices  # needed for the objective cost
    preempt: bool  # pods may lose their place to pods of a higher priority
    max_moves: int | None
    delete_emptydir_data: bool  # move pods with an emptyDir, too
    force: bool  # move pods without a controller, too
    time_limit_s: float
    weigh: str  # placed pods count by what they request of this resource; empty: each counts as one
    room_for: str  # the pod that fragmentation makes room for; empty: the largest one
    solver: str  # HIGHS or CP_SAT


@dataclass(frozen=True, slots=True)
class PlacementMeasures:
    """A cluster in figures, as the objective counts them."""

    placed: dict[int, int]  # pods on nodes by priority, without those that belong to their node
    pending: int
    nodes: int  # in use: by a pod that does not belong to it
    cost: float  # of the nodes in use
    peak: float  # the largest share of CPU or memory that is requested on one node, in percent
    room: int | None = None  # how many more pods like the one that was asked for would fit
    weight: dict[int, int] | None = None  # by priority, what placed pods request of the resource that was asked for

    def to_dict(self) -> dict[str, Any]:
        """Plain values, camelCase."""
        return {
            "placed": _by_priority(self.placed),
            "pending": self.pending,
            "nodes": self.nodes,
            "cost": self.cost,
            "peakPercent": self.peak,
            "room": self.room,
            "weight": None if self.weight is None else _by_priority(self.weight),
        }


def _by_priority(counts: dict[int, int]) -> dict[str, int]:
    return {str(priority): count for priority, count in sorted(counts.items(), reverse=True)}


@dataclass(frozen=True, slots=True)
class PlacementGoal:
    """An objective with its prices, weights and sample, for one cluster."""

    objective: str
    price: Callable[[str], float]
    weigh: str = ""
    sample: PodInfo | None = None  # fragmentation makes room for pods like this one
    sample_nodes: frozenset[str] = field(default_factory=frozenset)  # where it may be, however full they are

    @staticmethod
    def of(objective: str, scheduler: Scheduler, session: Session, options: PlacementOptions) -> PlacementGoal:
        """Read what was asked; InputError if it makes no sense."""
        if objective not in OBJECTIVES:
            raise InputError(f"objective: found {objective!r}; {hint(objective, OBJECTIVES)}")
        unknown = options.keys() - PlacementOptions.__annotations__.keys()
        if unknown:
            raise InputError(f"no option {min(unknown)}; {hint(min(unknown), PlacementOptions.__annotations__)}")
        if options.get("solver", HIGHS) not in SOLVERS:
            raise InputError(f"solver: found {options['solver']!r}; {hint(options['solver'], SOLVERS)}")
        prices = options.get("prices")
        if (prices is not None) != (objective == COST):
            raise InputError("prices belong to the objective cost, and cost needs prices")
        wanted = options.get("room_for", "")
        if wanted and objective != FRAGMENTATION:
            raise InputError("room_for belongs to the objective fragmentation")
        price, weigh = price_of(prices, session), options.get("weigh", "")
        if objective != FRAGMENTATION:
            return PlacementGoal(objective, price, weigh)
        sample = session.info(find_pod(wanted, scheduler.cluster).pod) if wanted else _largest(scheduler, session)
        names = [info.name for info in session.state.nodes().infos]
        if sample is not None and sample.pod.spec.node_name:
            sample = PodInfo(recreated_pod(sample.pod), sample.shape, sample.cls)  # it may be on any node
        allowed = [] if sample is None else np.flatnonzero(however_full(session, sample)).tolist()
        return PlacementGoal(objective, price, weigh, sample, frozenset(names[row] for row in allowed))

    def weight(self, pod: PodInfo) -> int:
        """How much a placed pod counts."""
        if not self.weigh:
            return 1
        if self.weigh == MILLI:
            try:
                return request_of(pod).total
            except ParseError:
                return 0
        return int(pod.shape.requests.get(self.weigh, 0))

    def measures(self, session: Session, waiting: Iterable[PodInfo]) -> PlacementMeasures:
        """A cluster in figures; ``waiting`` pods have no node."""
        rows = session.state.nodes()
        placed: Counter[int] = Counter()
        weight: Counter[int] = Counter()
        for info in rows.infos:
            for pod in info.pods.values():
                if not stays_with_node(pod.pod):
                    placed[pod.priority] += 1
                    weight[pod.priority] += self.weight(pod)
        pending = list(waiting)
        for pod in pending:
            placed[pod.priority] += 0
            weight[pod.priority] += 0
        used = in_use(session)
        peak = 0.0
        for name in ("cpu", "memory"):
            whole = rows.allocatable(name)
            share = np.divide(rows.requested(name), whole, out=np.zeros(len(rows)), where=whole > 0)
            peak = max(peak, float(share.max(initial=0.0)))
        return PlacementMeasures(
            placed=dict(placed),
            pending=len(pending),
            nodes=len(used),
            cost=round(sum(self.price(name) for name in used), 6),
            peak=round(100 * peak, 1),
            room=None if self.objective != FRAGMENTATION else self._room(session),
            weight=dict(weight) if self.weigh else None,
        )

    def _room(self, session: Session) -> int:
        """How many more pods like the sample fit by their requests, on nodes that would let one in if it were empty."""
        if self.sample is None:
            return 0
        rows = session.state.nodes()
        room = rows.allowed_pods - rows.pod_count
        for name, amount in self.sample.shape.requests.items():
            if amount:
                room = np.minimum(room, (rows.allocatable(name) - rows.requested(name)) // amount)
        allowed = np.array([info.name in self.sample_nodes for info in rows.infos], np.bool_)
        return int((room.clip(min=0) * allowed).sum())

    def rank(self, found: PlacementMeasures, steps: int) -> tuple[Any, ...]:
        """Larger is better, in the order of the objective."""
        counted = found.placed if found.weight is None else found.weight
        by_priority = tuple(count for _, count in sorted(counted.items(), reverse=True))
        return (*by_priority, -self.value(found), -steps)

    def value(self, found: PlacementMeasures) -> float:
        """What the objective makes as small as possible."""
        values = {NODES: found.nodes, COST: found.cost, SPREAD: found.peak, FRAGMENTATION: -(found.room or 0)}
        return values.get(self.objective, 0)

    def figure(self, found: PlacementMeasures) -> str:
        """The objective's figure in words, for the progress line."""
        return {
            NODES: f"{found.nodes} nodes",
            COST: f"cost {found.cost:g}",
            SPREAD: f"peak {found.peak:g}%",
            FRAGMENTATION: f"room for {found.room}",
            PENDING: f"{found.pending} pending",
        }[self.objective]


def in_use(session: Session) -> list[str]:
    """Nodes with a pod that does not belong to them."""
    return [
        info.name
        for info in session.state.nodes().infos
        if any(not stays_with_node(pod.pod) for pod in info.pods.values())
    ]


def _largest(scheduler: Scheduler, session: Session) -> PodInfo | None:
    """The pod that asks for the largest share of an average node; by its name among equals."""
    rows = session.state.nodes()
    pods = [pod for info in rows.infos for pod in info.pods.values() if not stays_with_node(pod.pod)]
    pods += [session.info(pod) for pod in scheduler.cluster.pending]
    names = {name for pod in pods for name in pod.shape.requests}
    whole = {name: float(rows.allocatable(name).mean()) for name in names if name != PODS and len(rows)}

    def size(pod: PodInfo) -> float:
        return max((amount / whole[k] for k, amount in pod.shape.requests.items() if whole.get(k)), default=0.0)

    return min(pods, key=lambda pod: (-size(pod), pod.pod.key), default=None)
