"""The cheapest nodes to add so that pods fit: starts from the relaxed problem, and is repaired until a placement proves
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.core import Node
from mooring.api.errors import InputError
from mooring.api.tables import print_notes, print_refused, print_table, printed, printed_html
from mooring.api.text import count_of
from mooring.ask.relaxation import INSTALL, LowerBound, lower_bound, problem
from mooring.ask.scheduler import Scheduler
from mooring.ask.wanted import (
    Daemons,
    Variant,
    Wanted,
    add_node,
    groups_of,
    in_queue_order,
    pods_of,
    read_types,
    types_of_catalogue,
    types_of_cluster,
    waiting_pods,
)
from mooring.core.cluster import Cluster
from mooring.core.engine.decision import ScheduleResult
from mooring.core.session import Configuration, PluginReference, Session
from mooring.core.state.pod_info import PodInfo
from mooring.sim.catalogue import ARCHITECTURE, Catalogue, read_catalogue

MAX_MENDS = 20
MAX_TRIES = 60  # of cheaper plans
_NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class NewNodes:
    """A number of new nodes of a type in a zone."""

    type: str
    zone: str
    count: int
    price: float  # of one


@dataclass(slots=True)
class Plan:
    """Nodes to add, what they cost, and where each pod goes then. Printed, it reads as ``mooring plan`` shows it."""

    pods: int  # number of pods to place
    nodes: list[NewNodes] = field(default_factory=list)
    cost: float = 0.0
    lower_bound: float = 0.0  # no plan costs less
    is_solved: bool = True  # whether a solver found the bound
    new_nodes: list[Node] = field(default_factory=list)  # new Node objects
    placed: dict[str, str] = field(default_factory=dict)  # pod -> node, in the proof
    unplaced: dict[str, str] = field(default_factory=dict)  # pod -> why no new node helps
    notes: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Report whether every pod is placed."""
        return not self.unplaced

    @property
    def is_cheapest(self) -> bool:
        """Report whether no plan for these pods can be cheaper."""
        return self.cost <= self.lower_bound + 1e-5

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        return {
            "pods": self.pods,
            "nodes": [
                {"type": each.type, "zone": each.zone or None, "count": each.count, "price": each.price}
                for each in self.nodes
            ],
            "cost": self.cost,
            "lowerBound": self.lower_bound,
            "isCheapest": self.is_cheapest,
            "placed": self.placed,
            "unplaced": [{"pod": pod, "message": message} for pod, message in self.unplaced.items()],
            "notes": self.notes,
        }

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return printed_html(lambda to: draw(to, self))


@dataclass(slots=True)
class Proof:
    """A cluster with new nodes in which pods were placed in the queue's order."""

    session: Session
    placed: dict[str, str] = field(default_factory=dict)
    refused: list[ScheduleResult] = field(default_factory=list)


class Adding:
    """Searches for a cheap plan. Every returned plan has been proved by placing all pods."""

    def __init__(
        self, base: Session, pods: Iterable[PodInfo], variants: Sequence[Variant], daemons: Daemons | None = None
    ) -> None:
        """``daemons`` run on every new node; by default those of the cluster."""
        self._base = base
        self._pods = in_queue_order(base, pods)
        self._variants = [variant for variant in variants if variant.max != 0]
        self._daemons = daemons or Daemons(base.state)
        self._zone: str | None = None  # if set, nodes are added there alone

    def plan(self) -> Plan:
        found = Plan(len(self._pods))
        hopeless = self._leave_out_hopeless()
        now = self.prove(Counter())
        best: tuple[float, Counter[int], Proof] = (0.0, Counter(), now)
        bound = LowerBound(0.0, None, is_solved=True)
        if now.refused:
            bound = self._bound()
            starts = [Counter[int]()] if bound.nodes is None else [Counter(dict(enumerate(bound.nodes))), Counter()]
            best = self._best(starts, bound)
            zones = sorted({variant.zone for variant in self._variants})
            for zone in zones if best[2].refused and len(zones) > 1 else ():
                # A node in a formerly empty zone can prevent placements elsewhere of pods that spread over zones.
                self._zone = zone
                best = min(best, self._best([Counter()], bound), key=lambda found: (len(found[2].refused), found[0]))
            self._zone = None
        found.cost, counts, proof = best
        found.lower_bound, found.is_solved = bound.cost, bound.is_solved
        found.nodes = [
            NewNodes(self._variants[i].type, self._variants[i].zone, count, self._variants[i].price)
            for i, count in sorted(counts.items())
            if count
        ]
        found.new_nodes = list(self._new(counts))
        found.placed = proof.placed
        found.unplaced = {each.pod.pod.key: each.message for each in (*hopeless, *proof.refused)}
        self._note(found, bound, bool(proof.refused))
        return found

    def _note(self, found: Plan, bound: LowerBound, lacks: bool) -> None:
        if lacks and not bound.is_possible:
            found.notes.append("the limits of the types are too small for all pods")
        if lacks:
            found.lower_bound = 0.0
            found.notes.append("the bound is for all pods; this plan has no place for some, so there is none for it")
        elif found.cost and not bound.is_solved:
            found.notes.append(f"the lower bound is rough, because no solver is installed: {INSTALL}")

    # ---- the pods -----------------------------------------------------------------------------------------------

    def _leave_out_hopeless(self) -> list[ScheduleResult]:
        """Set aside pods that fit nowhere, even with new nodes of every kind and little else on them."""
        probe = self._with(Counter(dict.fromkeys(range(len(self._variants)), 3)))
        left = groups_of(self._pods)
        count = -1
        while count != len(left):  # a pod may need to be near another one that is placed later
            count = len(left)
            left = [group for group in left if probe.place(group[0]).node is None]
        alone = self._with(Counter(dict.fromkeys(range(len(self._variants)), 1)))
        refusals: list[ScheduleResult] = []
        for group in left:
            proof = Proof(alone.fork())
            self._place(proof, group[:1])
            if proof.refused:
                self._place(proof, group[1:])
                refusals += proof.refused
        hopeless = {each.pod.uid for each in refusals}
        self._pods = [pod for pod in self._pods if pod.uid not in hopeless]
        return refusals

    def _bound(self) -> LowerBound:
        """Solve the relaxed problem."""
        probe = self._base.fork()
        for variant in self._variants:
            add_node(probe.state, variant.named(0), self._daemons)
        return lower_bound(problem(probe, groups_of(self._pods), self._variants), self._variants)

    # ---- proving -----------------------------------------------------------------------------------------------

    def prove(self, counts: Counter[int]) -> Proof:
        """Add this many nodes of each variant, and place all pods one after another."""
        proof = Proof(self._with(counts))
        self._place(proof, self._pods)
        return proof

    def _with(self, counts: Counter[int]) -> Session:
        session = self._base.fork()
        for node in self._new(counts):
            add_node(session.state, node, self._daemons)
        return session

    def _new(self, counts: Counter[int]) -> Iterator[Node]:
        for i, count in sorted(counts.items()):
            for number in range(1, count + 1):
                yield self._variants[i].named(number)

    def _place(self, proof: Proof, pods: Iterable[PodInfo]) -> None:
        """Place pods. An equal pod that follows without a change is refused for the same reason."""
        known: dict[tuple[int, int], tuple[int, ScheduleResult]] = {}
        for pod in pods:
            alike = pod.shape.id, pod.cls.id
            before = known.get(alike)
            if before is not None and before[0] == len(proof.placed):
                refusal = before[1]
                proof.refused.append(
                    ScheduleResult(pod, refusal.outcome, status=refusal.status, _message=refusal.message)
                )
                continue
            decision = proof.session.place(pod)
            if decision.node is None:
                proof.refused.append(decision)
                known[alike] = len(proof.placed), decision
            else:
                proof.placed[pod.pod.key] = decision.node

    # ---- the search ---------------------------------------------------------------------------------------------

    def _best(self, starts: Iterable[Counter[int]], bound: LowerBound) -> tuple[float, Counter[int], Proof]:
        """Repair each start until it is proved, and return the cheapest of those that place most."""
        best: tuple[float, Counter[int], Proof] | None = None
        for start in starts:
            counts, proof = self._mended(start)
            if not proof.refused:
                counts, proof = self._pruned(counts, proof)
            found = self._cost(counts), counts, proof
            if best is None or (len(proof.refused), found[0]) < (len(best[2].refused), best[0]):
                best = found
            if not proof.refused and found[0] <= bound.cost + 1e-5:
                break  # none can be cheaper
        assert best is not None, "there is at least one start"
        return best

    def _mended(self, counts: Counter[int]) -> tuple[Counter[int], Proof]:
        """Add nodes until the proof places everything, or nothing helps."""
        proof = self.prove(counts)
        for _ in range(MAX_MENDS):
            more = self._more(counts, proof)
            if not proof.refused or not more:
                break
            counts = counts + more
            proof = self.prove(counts)
        return counts, proof

    def _more(self, counts: Counter[int], proof: Proof) -> Counter[int]:
        """Continue from a proof: repeatedly add the node that places most for its price."""
        added: Counter[int] = Counter()
        left, end = proof.refused, proof.session
        while left:
            best: tuple[float, int, Proof] | None = None
            for i, variant in enumerate(self._variants):
                if not self._may_add(counts + added, i):
                    continue
                trial = Proof(end.fork())
                add_node(trial.session.state, variant.named(counts[i] + added[i] + 1), self._daemons)
                self._place(trial, [each.pod for each in left])
                if not trial.placed:
                    continue
                worth = self._worth(trial.placed, left) / max(variant.price, _NOTHING)
                if best is None or worth > best[0] + _NOTHING:
                    best = worth, i, trial
            if best is None:
                return added
            added[best[1]] += 1
            left, end = best[2].refused, best[2].session
        return added

    def _worth(self, placed: dict[str, str], left: list[ScheduleResult]) -> float:
        """Return how much of the rest was placed: the mean of its shares in number, CPU and memory."""
        pods = [each.pod for each in left]
        mine = [pod for pod in pods if pod.pod.key in placed]
        shares = [len(mine) / len(pods)]
        for name in ("cpu", "memory"):
            whole = sum(pod.shape.requests.get(name, 0) for pod in pods)
            if whole:
                shares.append(sum(pod.shape.requests.get(name, 0) for pod in mine) / whole)
        return sum(shares) / len(shares)

    def _pruned(self, counts: Counter[int], proof: Proof) -> tuple[Counter[int], Proof]:
        """Remove unnecessary nodes, the most expensive first, or replace them by cheaper ones."""
        is_better, tries = True, 0
        while is_better and tries < MAX_TRIES:
            is_better = False
            for fewer in self._cheaper(counts):
                tries += 1
                trial = self.prove(fewer)
                if not trial.refused:
                    counts, proof, is_better = fewer, trial, True
                    break
        return counts, proof

    def _cheaper(self, counts: Counter[int]) -> Iterable[Counter[int]]:
        price: Callable[[int], float] = lambda i: self._variants[i].price  # noqa: E731
        for i in sorted((i for i, count in counts.items() if count), key=price, reverse=True):
            step = counts[i] // 2
            while step > 1:  # a far too large start shrinks quickly
                yield counts - Counter({i: step})
                step //= 2
            without = counts - Counter([i])
            yield without
            for j in sorted(range(len(self._variants)), key=price):
                if price(j) < price(i) and self._may_add(without, j):
                    yield without + Counter([j])

    def _may_add(self, counts: Counter[int], i: int) -> bool:
        """Report whether the type's limit allows one more."""
        if self._zone not in (None, self._variants[i].zone):
            return False
        most = self._variants[i].max
        same = (j for j, variant in enumerate(self._variants) if variant.type == self._variants[i].type)
        return most is None or sum(counts[j] for j in same) < most

    def _cost(self, counts: Counter[int]) -> float:
        return round(sum(self._variants[i].price * count for i, count in counts.items()), 9)


# ---- questions ------------------------------------------------------------------------------------------------------

Types = str | Path | Mapping[str, Any] | None
"""The path of a file with types of nodes, or the same as a dict; None: the kinds of nodes that the cluster has."""
CatalogueReference = str | Path | Iterable[Mapping[str, Any]] | Catalogue | None
"""The path of a catalogue of instance types, its rows as dicts, or a catalogue that has been read."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What can be bought: ``types`` or a ``catalogue``, with its ``zones`` and spot nodes."""

    types: Types = None
    catalogue: CatalogueReference = None
    zones: Sequence[str] = ()
    spot: bool = False

    def __post_init__(self) -> None:
        if self.types is not None and self.catalogue is not None:
            raise InputError("types and a catalogue both say which nodes can be added; expected one of them")
        if self.catalogue is None and (self.zones or self.spot):
            raise InputError("zones and spot nodes are those of a catalogue; expected a catalogue")

    def variants(self, session: Session, pods: Iterable[PodInfo]) -> list[Variant]:
        """The kinds of nodes, as they would join this cluster."""
        if self.types is not None:
            return read_types(self.types, session.state)
        if self.catalogue is None:
            return types_of_cluster(session, pods)
        read = self.catalogue if isinstance(self.catalogue, Catalogue) else read_catalogue(self.catalogue)
        return types_of_catalogue(read, session.state, self.zones, spot=self.spot)


def plan(
    cluster: Cluster,
    types: Types = None,
    pods: Mapping[str, int | None] | Iterable[str] = (),
    *,
    catalogue: CatalogueReference = None,
    zones: Sequence[str] = (),
    spot: bool = False,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Plan:
    """Find the cheapest nodes to add so that all pending pods fit; or these ``pods``, with their numbers of copies.

    The cluster stays unchanged. The plan is proved: all pods were placed with it, one after another.
    """
    scheduler = Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version)
    return plan_with(scheduler, Offer(types, catalogue, zones, spot), pods)


def plan_with(scheduler: Scheduler, offer: Offer, pods: Mapping[str, int | None] | Iterable[str] = ()) -> Plan:
    """Answer for a scheduler and its cluster."""
    session = scheduler.session.fork()
    asked = pods if isinstance(pods, Mapping) else dict.fromkeys(pods)
    wanted = pods_of(asked, scheduler, session) if asked else Wanted(waiting_pods(scheduler.cluster, session))
    variants = offer.variants(session, wanted.pods)
    daemons = Daemons(session.state, wanted.daemons)
    for pod in [pod for node in scheduler.cluster.nodes for pod in Daemons(Cluster().state, wanted.daemons).on(node)]:
        session.state.set_pod(pod)  # they also run on existing nodes
    found = Adding(session, wanted.pods, variants, daemons).plan()
    if offer == Offer() and found.nodes:
        found.notes.append("without types, one more node of any kind that the cluster has costs 1")
    architectures = {node.labels.get(ARCHITECTURE, "") for node in (*found.new_nodes, *scheduler.cluster.nodes)} - {""}
    if offer.catalogue is not None and found.new_nodes and len(architectures) > 1:
        found.notes.append(
            f"nodes of {' and '.join(sorted(architectures))}: a pod that selects no {ARCHITECTURE} may run on each"
        )
    return found


# ---- rendering
# --------------------------------------------------------------------------------------------------------

TOP = 20


def draw(to: Console, found: Plan, top: int = TOP) -> None:
    """Print the nodes to add, their cost, the bound, and unplaced pods."""
    colour = "green" if found.is_complete else "red"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    if found.nodes:
        to.print(_how_good(found))
        to.print()
        rows = [
            (str(each.count), Text(each.type), each.zone or "-", f"{each.price:g}", f"{each.price * each.count:g}")
            for each in found.nodes
        ]
        print_table(to, ["NODES", "TYPE", "ZONE", "PRICE", "SUM"], rows)
    if found.unplaced:
        to.print()
        to.print("No node that can be added makes room for:")
        print_refused(to, found.unplaced, "", top)
    print_notes(to, found.notes)


def text(found: Plan) -> str:
    """Return the text without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Plan) -> str:
    """Return one line: what to add."""
    pods = count_of(found.pods, "pod")
    if not found.pods:
        return "No pods need a place"
    if found.is_complete and not found.nodes:
        return f"No node is needed: there is room for {pods}"
    new = count_of(sum(each.count for each in found.nodes), "node")
    if found.is_complete:
        return f"Add {new} for {found.cost:g}: then there is room for {pods}"
    lacking = f"{len(found.unplaced)} of {pods} have no place"
    return f"Add {new} for {found.cost:g}: {lacking} even then" if found.nodes else f"{lacking}, and no new node helps"


def _how_good(found: Plan) -> str:
    if not found.is_complete:
        return "All other pods were placed on a copy of the cluster with these nodes."
    proof = "All pods were placed on a copy of the cluster with these nodes."
    if found.is_cheapest:
        return f"{proof} No plan is cheaper."
    if not found.lower_bound:
        return proof
    share = 100 * (1 - found.lower_bound / found.cost)
    return f"{proof} No plan costs less than {found.lower_bound:g}: at most {share:.0f}% could be saved."
