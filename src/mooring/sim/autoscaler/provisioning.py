"""Which nodes Karpenter would launch for pods: its packing simulation on a fork, perhaps proved by real decisions.

Pods are taken by size. Each goes to the first feasible existing node, else to the planned node with the fewest pods,
else to a new one of the first NodePool by weight. A planned node keeps all types that hold its pods, until the cheapest
of them is launched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from operator import attrgetter

from mooring.api.core import Node, NodeSelector, Pod, Taint
from mooring.core.session import Session
from mooring.core.state.node_selector import node_requirements
from mooring.core.state.pod_info import PodInfo
from mooring.core.state.requests import CPU, MEMORY, PODS
from mooring.sim.autoscaler.cloud import Offering, usage_of
from mooring.sim.autoscaler.fleet import Fleet
from mooring.sim.autoscaler.node_pool import NodePool
from mooring.sim.autoscaler.packing import Kind, feasible_rows, fits, kind_of, names_of, place_all
from mooring.sim.catalogue import SPOT

MAX_ROUNDS = 8  # of planning and proving
_VARIANTS = "autoscaler/variants"
_by_price: Callable[[Offering], float] = attrgetter("price")


@dataclass(eq=False, slots=True)
class Claim:
    """A planned node: the offerings that hold all its pods, cheapest first."""

    pool: NodePool
    name: str
    options: list[Offering]
    requests: dict[str, int]  # of its pods and its daemons
    shown: Offering  # whose labels the node in the fork has
    pods: list[PodInfo] = field(default_factory=list)
    refused: set[Kind] = field(default_factory=set)

    @property
    def launched(self) -> Offering:
        """Return the offering to launch: spot where that is allowed, then the cheapest."""
        return launch_of(self.options)


def launch_of(options: Iterable[Offering]) -> Offering:
    """Return the offering that a provider launches out of these: spot before on demand, then the cheapest."""
    return min(options, key=lambda each: (each.capacity_type != SPOT, each.price))


@dataclass(slots=True)
class Plan:
    """Result of a simulation."""

    claims: list[Claim] = field(default_factory=list)
    placed: dict[str, str] = field(default_factory=dict)  # uid -> node, existing or planned
    left: list[PodInfo] = field(default_factory=list)  # pods that no node would help

    def pods_on(self, claim: Claim, pods: Iterable[PodInfo]) -> list[str]:
        """Return the keys of the pods that are planned for a claim."""
        return [pod.pod.key for pod in pods if self.placed.get(pod.uid) == claim.name]


@dataclass(frozen=True, slots=True)
class Wish:
    """Pods that need a place, in the order of the queue."""

    pods: Sequence[PodInfo]
    without: Collection[str] = ()  # nodes to be removed
    keeps_off: Collection[str] = ()  # nodes to which moving pods do not go
    moving: Collection[str] = ()  # the uids of these pods


class Provisioning:
    """Plans with the NodePools of a fleet."""

    def __init__(self, fleet: Fleet, pools: Sequence[NodePool], *, is_exact: bool) -> None:
        # By weight; of equal weights the name that is later in the alphabet comes first, as upstream.
        self.pools = sorted(sorted(pools, key=lambda pool: pool.name, reverse=True), key=lambda pool: -pool.weight)
        self.is_exact = is_exact
        self.unavailable: dict[Offering, float] = {}  # until when the cloud has no capacity
        self._fleet = fleet

    def plan(self, wish: Wish) -> Plan:
        """Find nodes for pods."""
        plan = self.packed(wish)
        return self.proved(wish, plan) if self.is_exact else plan

    def packed(self, wish: Wish) -> Plan:
        """Plan as upstream simulates. With exact packing, preferences are ignored: they are only scores."""
        session = self._fleet.fork(wish.without)
        return _Solver(self._fleet, self.pools, session, self.unavailable, wish, prefers=not self.is_exact).solve(
            wish.pods
        )

    def proved(self, wish: Wish, plan: Plan) -> Plan:
        """Return the plan with the scheduler's own placements. Pods that it leaves over get further nodes."""
        claims, hopeless = plan.claims, {pod.uid for pod in plan.left}
        for _ in range(MAX_ROUNDS):
            session = self._fleet.fork(wish.without)
            for claim in claims:
                self._fleet.plan(session, claim.launched.node(claim.name, claim.pool.taints))
            placed, left = place_all(session, wish.pods)
            wanting = [pod for pod in left if pod.uid not in hopeless]
            if not wanting:
                break
            more = _Solver(self._fleet, self.pools, session, self.unavailable, wish, before=claims).solve(wanting)
            if not more.claims:
                break
            claims = [*claims, *more.claims]
        used = set(placed.values())
        return Plan([claim for claim in claims if claim.name in used], placed, left)


class _Solver:
    """One simulation. It changes its session."""

    def __init__(
        self,
        fleet: Fleet,
        pools: Sequence[NodePool],
        session: Session,
        unavailable: Mapping[Offering, float],
        wish: Wish,
        *,
        prefers: bool = False,
        before: Sequence[Claim] = (),
    ) -> None:
        self._fleet, self._pools, self._session = fleet, pools, session
        self._prefers = prefers  # whether preferences count as requirements while they can be met
        self._keeps_off, self._moving = wish.keeps_off, wish.moving
        now_s = fleet.now_s
        self._missing = {offering for offering, until_s in unavailable.items() if until_s > now_s}
        self._claims: list[Claim] = []
        self._ahead = {pool.name: sum(claim.pool.name == pool.name for claim in before) for pool in pools}
        self._remaining = {pool.name: self._left_of(pool, before) for pool in pools if pool.limits}
        self._matches: dict[tuple[int, Offering], bool] = {}
        self._full: set[Kind] = set()  # equal pods that fit on no existing node
        self._coming = set(fleet.coming)
        self._planned = {claim.name for claim in before}
        self._existing = {info.name for info in session.state.nodes().infos}
        if prefers:
            self._know_all_zones()

    def _know_all_zones(self) -> None:
        """Add zones without nodes: upstream knows all zones of the offerings, the scheduler only those with a node."""
        zones = {offering.zone: offering for pool in self._pools for offering in pool.offerings if offering.zone}
        for zone, offering in zones.items():
            closed = Taint(key="mooring/only-a-zone", effect="NoSchedule")
            self._session.state.set_node(offering.node(f"~{zone}", [closed]))

    def _left_of(self, pool: NodePool, before: Sequence[Claim]) -> dict[str, int]:
        used = self._fleet.usage(pool.name)
        for claim in before:
            if claim.pool.name == pool.name:
                used.update(usage_of(claim.launched))
        return {name: most - used[name] for name, most in pool.limits.items()}

    def solve(self, pods: Sequence[PodInfo]) -> Plan:
        """Repeat while some pod finds a place: one may need another that comes later."""
        plan = Plan(self._claims)
        queue = deque(sorted(pods, key=_largest_first))
        last_length: dict[str, int] = {}
        refused: dict[Kind, int] = {}  # number of pods placed when an equal one was rejected
        while queue:
            pod = queue.popleft()
            if last_length.get(pod.uid) == len(queue) + 1:
                queue.appendleft(pod)
                break
            kind = kind_of(pod)
            node = None if refused.get(kind) == len(plan.placed) else self._place(pod)
            if node is None:
                refused[kind] = len(plan.placed)
                queue.append(pod)
                last_length[pod.uid] = len(queue)
            else:
                plan.placed[pod.uid] = node
        plan.left = list(queue)
        for claim in self._claims:
            claim.options.sort(key=_by_price)
        return plan

    def _place(self, pod: PodInfo) -> str | None:
        for variant in self._variants(pod) if self._prefers else (pod,):
            node = self._on_existing(variant) or self._on_planned(variant) or self._on_new(variant)
            if node is not None:
                return node
        return None

    def _variants(self, pod: PodInfo) -> Iterable[PodInfo]:
        """Yield the pod with its preferences as requirements, and then with one less after another."""
        known: list[Pod] | None = pod.shape.kept.get(_VARIANTS)
        if known is None:
            known = pod.shape.kept[_VARIANTS] = relaxations(pod.pod)
        for variant in known:
            made = variant.__copy__()
            made.metadata = pod.pod.metadata
            yield self._session.info(made)
        yield pod

    # ---- placement of a pod --------------------------------------------------------------------------------------

    def _on_existing(self, pod: PodInfo) -> str | None:
        kind = kind_of(pod)
        if kind in self._full and not pod.shape.has_pod_affinity:
            return None
        names = [name for name in names_of(self._session, feasible_rows(self._session, pod)) if name in self._existing]
        if pod.uid in self._moving:
            names = [name for name in names if name not in self._keeps_off]
        elif not names:
            self._full.add(kind)
        if not names:
            return None
        return self._commit(pod, min(names, key=self._rank))

    def _rank(self, name: str) -> tuple[bool, bool, str]:
        """Ready nodes first, then by name: upstream's order. Planned nodes are last."""
        return name in self._planned, name in self._coming, name

    def _on_planned(self, pod: PodInfo) -> str | None:
        kind = kind_of(pod)
        for claim in sorted(self._claims, key=lambda claim: len(claim.pods)):
            if kind in claim.refused and not pod.shape.has_pod_affinity:
                continue
            options = self._options(pod, claim.options, claim.name, claim.requests)
            if options and claim.pool.has_min_values(options) and self._lets_in(pod, claim, options):
                self._take(claim, pod, options)
                return claim.name
            claim.refused.add(kind)
        return None

    def _on_new(self, pod: PodInfo) -> str | None:
        for pool in self._pools:
            name = self._fleet.name(pool.name, self._ahead[pool.name] + 1)
            remaining = self._remaining.get(pool.name)
            options = [each for each in pool.offerings if each not in self._missing and _within(each, remaining)]
            groups: dict[tuple[str, ...], list[Offering]] = {}
            for option in self._options(pod, options, name, {}):
                groups.setdefault(option.group, []).append(option)
            for group in sorted(groups.values(), key=lambda each: (min(map(_by_price, each)), each[0].group)):
                if self._begin(pool, name, group, pod):
                    return name
        return None

    def _begin(self, pool: NodePool, name: str, options: list[Offering], pod: PodInfo) -> bool:
        """Plan a new node with these options, if the pod fits on it."""
        claim = Claim(pool, name, options, {}, options[0])
        daemons = self._fleet.plan(self._session, self._shown(claim))
        for daemon in daemons:
            _add(claim.requests, self._session.info(daemon))
        options = self._options(pod, options, name, claim.requests)
        if options and pool.has_min_values(options) and self._lets_in(pod, claim, options):
            self._ahead[pool.name] += 1
            self._take(claim, pod, options)
            self._claims.append(claim)
            remaining = self._remaining.get(pool.name)
            if remaining is not None:  # upstream assumes the largest of its types
                for resource in remaining:
                    remaining[resource] -= max(usage_of(option).get(resource, 0) for option in options)
            return True
        for daemon in daemons:
            self._session.state.remove_pod(daemon.uid)
        self._session.state.remove_node(name)
        return False

    def _options(
        self, pod: PodInfo, options: Sequence[Offering], name: str, before: Mapping[str, int]
    ) -> list[Offering]:
        """Return the offerings that the pod allows, and that have room for it and the claim's other pods."""
        requests = dict(before)
        _add(requests, pod)
        found = []
        for option in options:
            key = (pod.shape.id, option)
            matches = self._matches.get(key)
            if matches is None:
                matches = self._matches[key] = node_requirements(pod.shape).matches(name, option.labels)
            if matches and option.holds(requests):
                found.append(option)
        return found

    def _lets_in(self, pod: PodInfo, claim: Claim, options: list[Offering]) -> bool:
        """Report whether the node in the fork takes the pod. Its labels are those of an option that the pod allows."""
        if claim.shown not in options:
            claim.shown = options[0]
            self._session.state.set_node(self._shown(claim))
        return self._commit(pod, claim.name) is not None

    def _shown(self, claim: Claim) -> Node:
        """Return the node of a claim in the fork: as large as the largest of its options in each resource."""
        node = claim.shown.node(claim.name, claim.pool.taints)
        largest: dict[str, tuple[int, str]] = {}
        for option in claim.options:
            for name, amount in option.amounts.items():
                if name not in largest or amount > largest[name][0]:
                    largest[name] = amount, option.allocatable[name]
        node.status.allocatable = {name: text for name, (_, text) in largest.items()}
        node.status.capacity = dict(node.status.allocatable)
        return node

    def _take(self, claim: Claim, pod: PodInfo, options: list[Offering]) -> None:
        claim.options = options
        claim.pods.append(pod)
        _add(claim.requests, pod)

    def _commit(self, pod: PodInfo, node: str) -> str | None:
        decision = fits(self._session, pod, node)
        return None if decision is None else self._session.commit(decision).node


def _within(offering: Offering, remaining: Mapping[str, int] | None) -> bool:
    if remaining is None:
        return True
    used = usage_of(offering)
    return all(used.get(name, 0) <= left for name, left in remaining.items())


def _add(requests: dict[str, int], pod: PodInfo) -> None:
    for name, amount in pod.shape.requests.items():
        requests[name] = requests.get(name, 0) + amount
    requests[PODS] = requests.get(PODS, 0) + 1


def _largest_first(pod: PodInfo) -> tuple[int, int]:
    requests = pod.shape.requests
    return -requests.get(CPU, 0), -requests.get(MEMORY, 0)


# --------------------------------------------------------------------------------------------------------------------
# Preferences. Upstream plans with them as if they were requirements, and drops one after another while no node meets
# them: of pod affinity, of pod anti-affinity, of node affinity (the heaviest first), then ScheduleAnyway.


def relaxations(pod: Pod) -> list[Pod]:
    """Return the pod with its preferences as requirements, from the strictest to the last before the pod itself."""
    found: list[Pod] = []
    current = deepcopy(pod)
    while True:
        strict = _strict(current)
        if strict is None:
            return found
        found.append(strict)
        _relax(current)


def _strict(pod: Pod) -> Pod | None:
    """Return the pod with its preferences as requirements; None if it has none."""
    strict = deepcopy(pod)
    changed = False
    affinity = strict.spec.affinity
    for kind in (None,) if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
        if kind is not None and kind.preferred:
            kind.required = [*kind.required, *(term.pod_affinity_term for term in kind.preferred)]
            changed = True
    if affinity is not None and affinity.node_affinity is not None and affinity.node_affinity.preferred:
        node = affinity.node_affinity
        heaviest = max(node.preferred, key=lambda term: term.weight).preference
        if node.required is None:
            node.required = NodeSelector(node_selector_terms=[heaviest])
        else:
            for term in node.required.node_selector_terms:
                term.match_expressions = [*term.match_expressions, *heaviest.match_expressions]
        changed = True
    for constraint in strict.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable == "ScheduleAnyway":
            constraint.when_unsatisfiable = "DoNotSchedule"
            changed = True
    return strict if changed else None


def _relax(pod: Pod) -> None:
    """Drop one preference."""
    affinity = pod.spec.affinity
    if affinity is not None:
        for kind in (affinity.pod_affinity, affinity.pod_anti_affinity):
            if kind is not None and kind.preferred:
                kind.preferred = sorted(kind.preferred, key=lambda term: -term.weight)[1:]
                return
        if affinity.node_affinity is not None and affinity.node_affinity.preferred:
            preferred = affinity.node_affinity.preferred
            affinity.node_affinity.preferred = sorted(preferred, key=lambda term: -term.weight)[1:]
            return
    constraints = pod.spec.topology_spread_constraints
    for i, constraint in enumerate(constraints):
        if constraint.when_unsatisfiable == "ScheduleAnyway":
            pod.spec.topology_spread_constraints = constraints[:i] + constraints[i + 1 :]
            return
