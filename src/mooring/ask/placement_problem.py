"""Where movable pods could be: groups of equal pods, room, and the rules between them, read off a cluster.

Equal pods are one group, so the program has one number per group and node: how many pods of the group are there. The
program is a relaxation. Every placement that the engine accepts is a solution of it; a solution need not be accepted by
the engine, because some rules are left out. The optimiser replays each solution, and what the engine refuses comes back
as a cut. That is why every bound of the program is a bound for the real problem.

| rule | in the program |
|---|---|
| requests, number of pods, nodes that a filter refuses whatever else runs there | always |
| shares of GPUs | their sum, and how many shares of a size one GPU takes at most (`_gpu_amount`) |
| required anti-affinity, host ports | at most one in a domain, or either this or that in a domain |
| required affinity to other pods | a pod may come where a matching pod is |
| topology spread with DoNotSchedule | no domain has more than the emptiest and the skew |
| volumes, devices, own plugins and everything else | by cuts |

Pods that stay are not checked again: Kubernetes ignores most rules while a pod runs. So a limit never forbids the
present state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import recreated_pod
from mooring.api.errors import ParseError
from mooring.ask.copies import stays_with_node
from mooring.core.framework.cycle_state import CycleError, CycleState
from mooring.core.plugins.gpus.requests import NO_GPU, WHOLE, GpuRequest, gpus_of, held_by, request_of
from mooring.core.plugins.pod_topology_spread import Constraint, PodTopologySpread
from mooring.core.session import Session
from mooring.core.state.pod_info import AffinityTerm, PodInfo
from mooring.core.state.requests import PODS

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]  # [group, node]

_SPREAD, _AFFINITY = "PodTopologySpread", "InterPodAffinity"


@dataclass(frozen=True, slots=True)
class EqualPods:
    """Movable and pending pods that differ only in their names. ``running`` are on a node now."""

    running: tuple[PodInfo, ...]
    waiting: tuple[PodInfo, ...]

    @property
    def like(self) -> PodInfo:
        return (self.running or self.waiting)[0]

    @property
    def size(self) -> int:
        return len(self.running) + len(self.waiting)


@dataclass(frozen=True, slots=True)
class AtMost:
    """These groups together have at most ``limit`` pods on these nodes."""

    groups: tuple[int, ...]
    rows: Ints
    limit: int


@dataclass(frozen=True, slots=True)
class Apart:
    """One of two groups may be on these nodes, not both."""

    one: int
    other: int
    rows: Ints


@dataclass(frozen=True, slots=True)
class Near:
    """A group may use these nodes only if one of the other groups is on them."""

    group: int
    others: tuple[int, ...]
    rows: Ints


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """Nodes with one value of a topology key. ``fixed`` matching pods cannot be moved."""

    rows: Ints
    fixed: int
    counts: bool  # whether it takes part in finding the emptiest domain


@dataclass(frozen=True, slots=True)
class Even:
    """A spread constraint of one group over the pods of several."""

    group: int
    matching: tuple[int, ...]
    domains: tuple[SpreadRows, ...]
    max_skew: int
    counts_zero: bool  # fewer domains than minDomains: the emptiest one counts as empty


@dataclass(slots=True)
class PlacementProblem:
    """The cluster without its movable pods, and these pods by groups."""

    groups: list[EqualPods]
    names: list[str]  # [node]
    allowed: Mask  # [group, node]: no filter refuses it whatever movable pods do
    current: Counts  # [group, node]: where they run now
    resources: list[str]
    wanted: Ints  # [group, resource]
    free: Ints  # [node, resource]: without movable pods
    whole: Ints  # [node, resource]: allocatable
    is_held: Mask  # [node]: a pod that cannot be moved keeps it in use
    price: NDArray[np.float64]  # [node]
    sample: Ints | None = None  # [resource]: what a pod asks for that should find room, too
    sample_rows: Mask | None = None  # [node]: where such a pod may be
    at_most: list[AtMost] = field(default_factory=list)
    apart: list[Apart] = field(default_factory=list)
    near: list[Near] = field(default_factory=list)
    even: list[Even] = field(default_factory=list)

    @property
    def has_rules(self) -> bool:
        """Report whether rules between pods are more than their amounts."""
        return bool(self.at_most or self.apart or self.near or self.even)

    @property
    def sizes(self) -> Ints:
        return np.array([group.size for group in self.groups], np.int64)

    @property
    def most(self) -> Counts:
        """[group, node]: how many could be there at most."""
        room = np.repeat(self.sizes[:, None], len(self.names), axis=1)
        for k in range(len(self.resources)):
            asked = self.wanted[:, k]
            for g in np.flatnonzero(asked):
                room[g] = np.minimum(room[g], self.free[:, k].clip(min=0) // asked[g])
        return np.maximum(room * self.allowed, self.current)


# ---- reading it off a cluster --------------------------------------------------------------------------------------


def read_problem(
    session: Session,
    movable: Sequence[PodInfo],
    waiting: Sequence[PodInfo],
    price: Callable[[str], float],
    sample: PodInfo | None = None,
    sample_nodes: Collection[str] = (),
) -> PlacementProblem:
    """The problem of these pods. ``session`` is changed: movable pods are removed from it."""
    session.state.nodes()  # settles which row each node has
    nodes_of = {pod.uid: session.state.table.nodes[pod.pod.spec.node_name].row for pod in movable}
    for pod in movable:
        session.state.remove_pod(pod.uid)
    rows = session.state.nodes()
    groups = list(_grouped(movable, waiting))
    current = np.zeros((len(groups), len(rows)), np.int64)
    for g, group in enumerate(groups):
        for pod in group.running:
            current[g, nodes_of[pod.uid]] += 1
    likes = [group.like for group in groups] + ([sample] if sample is not None else [])
    asked = sorted({name for like in likes for name, amount in like.shape.requests.items() if amount})
    names = [name for name in asked if rows.allocatable(name).any()]
    wanted = [[like.shape.requests.get(name, 0) for name in names] + [1] for like in likes]
    free = [*(rows.allocatable(name) - rows.requested(name) for name in names), rows.allowed_pods - rows.pod_count]
    whole = [*(rows.allocatable(name) for name in names), rows.allowed_pods]
    names.append(PODS)
    for name, of_pods, of_nodes in _gpus(session, likes):
        names.append(name)
        for row, amount in zip(wanted, of_pods, strict=True):
            row.append(amount)
        free.append(of_nodes)
        whole.append(of_nodes)
    amounts = np.array(wanted, np.int64).reshape(len(likes), len(free))
    found = PlacementProblem(
        groups=groups,
        names=[info.name for info in rows.infos],
        allowed=np.stack([_allowed(session, group.like) for group in groups])
        if groups
        else np.zeros((0, len(rows)), np.bool_),
        current=current,
        resources=names,
        wanted=amounts[: len(groups)],
        free=np.stack(free, axis=1),
        whole=np.stack(whole, axis=1),
        is_held=np.array([any(not stays_with_node(pod.pod) for pod in info.pods.values()) for info in rows.infos]),
        price=np.array([price(info.name) for info in rows.infos], np.float64),
        sample=None if sample is None else amounts[-1],
        sample_rows=None if sample is None else np.array([info.name in sample_nodes for info in rows.infos], np.bool_),
    )
    _Rules(session, found).read()
    return found


def group_key(pod: PodInfo) -> Hashable:
    """The same for pods that differ only in their names."""
    return pod.shape.id, pod.cls.id, pod.priority, _gpu_request(pod)  # shares of GPUs are annotations


def _grouped(movable: Sequence[PodInfo], waiting: Sequence[PodInfo]) -> Iterator[EqualPods]:
    found: dict[Hashable, tuple[list[PodInfo], list[PodInfo]]] = {}
    for i, pods in enumerate((movable, waiting)):
        for pod in pods:
            found.setdefault(group_key(pod), ([], []))[i].append(pod)
    return (EqualPods(tuple(running), tuple(pending)) for running, pending in found.values())


# ---- shares of GPUs ------------------------------------------------------------------------------------------------

_PARTS = 5
_UNIT = 60  # of a thousandth; all numbers up to _PARTS divide it


def _gpu_request(pod: PodInfo) -> GpuRequest:
    try:
        return request_of(pod)
    except ParseError:
        return NO_GPU


def _gpu_amount(request: GpuRequest, parts: int) -> int:
    """What a pod takes of its node's GPUs, if sizes are rounded so that no set of shares that fits is forbidden.

    With ``parts`` 0 it is the amount itself. Else it is Fekete and Schepers' dual feasible function u^(k): a share
    above 1/(k+1) counts as if GPUs had k places. More than half a GPU counts as a whole one with k = 1.
    """
    if not parts or request.milli * (parts + 1) % WHOLE == 0:
        return request.total * _UNIT
    return request.count * ((parts + 1) * request.milli // WHOLE) * (WHOLE * _UNIT // parts)


def _gpus(session: Session, likes: Sequence[PodInfo]) -> Iterator[tuple[str, list[int], Ints]]:
    """Room on GPUs as amounts of each pod and each node, where pods share GPUs by the plugin GpuShare."""
    infos = session.state.nodes().infos
    requests = [_gpu_request(like) for like in likes]
    shares = any(
        each.name == "GpuShare"
        for like, request in zip(likes, requests, strict=True)
        if request.count
        for each in session.profile_for(like.pod).filter
    )
    if not shares:
        return
    fixed = [[held_by(pod)[0] for pod in info.pods.values()] for info in infos]
    for parts in range(_PARTS + 1):
        of_nodes = [
            WHOLE * _UNIT * (0 if info.node is None else gpus_of(info.node))
            - sum(_gpu_amount(request, parts) for request in held)
            for info, held in zip(infos, fixed, strict=True)
        ]
        yield f"gpu/{parts}", [_gpu_amount(request, parts) for request in requests], np.array(of_nodes, np.int64)


def _allowed(session: Session, pod: PodInfo) -> Mask:
    """[node]: whether the pod would fit if no movable pod were there.

    Left out is what other pods can make better: spread, affinity, and plugins of which we do not know.
    """
    rows, state = session.state.nodes(), CycleState()
    profile = session.profile_for(pod.pod)
    pod = PodInfo(recreated_pod(pod.pod), pod.shape, pod.cls)  # one that runs names its node
    try:
        pre = profile.run_pre_filter(state, pod, rows)
        if not pre.status.is_success:
            return np.zeros(len(rows), np.bool_)
        needs_others = _needs_others(pod)
        asked = [
            plugin
            for plugin in profile.filter_plan(state).active
            if plugin.name != _SPREAD
            and not (plugin.name == _AFFINITY and needs_others)
            and type(plugin.plugin).__module__.startswith("mooring.core.plugins.")
        ]
        found = profile.run_filters(state, pod, rows, asked).feasible
    except CycleError:
        return np.zeros(len(rows), np.bool_)
    if pre.node_names is not None:
        found = found & np.array([info.name in pre.node_names for info in rows.infos], np.bool_)
    return found


def _needs_others(pod: PodInfo) -> bool:
    try:
        return bool(pod.shape.terms(pod.cls.namespace).required_affinity)
    except ParseError:
        return False


class _Rules:
    """Reads the rules between pods."""

    def __init__(self, session: Session, problem: PlacementProblem) -> None:
        self._session = session
        self._problem = problem
        self._likes = [group.like for group in problem.groups]

    def read(self) -> None:
        for g, pod in enumerate(self._likes):
            try:
                terms = pod.shape.terms(pod.cls.namespace)
            except ParseError:
                continue  # the engine refuses the pod everywhere
            for term in terms.required_anti_affinity:
                self._keep_apart(g, term)
            for term in terms.required_affinity:
                self._keep_near(g, term, len(terms.required_affinity))
            self._keep_even(g, pod)
        self._keep_ports()

    def _matching(self, term: AffinityTerm) -> list[int]:
        labels = self._session.state.namespace_labels
        return [
            h
            for h, other in enumerate(self._likes)
            if term.matches(other.cls.namespace, other.cls.labels, labels(other.cls.namespace))
        ]

    def _domains(self, key: str) -> Iterator[Ints]:
        """The rows of each domain. Nodes without the label are in none."""
        ids = self._session.state.table.label(key).ids
        return (np.flatnonzero(ids == value) for value in np.unique(ids[ids >= 0]).tolist())

    def _keep_apart(self, g: int, term: AffinityTerm) -> None:
        problem = self._problem
        matching = self._matching(term)
        for rows in self._domains(term.topology_key):
            here = problem.current[:, rows].sum(axis=1)
            for h in matching:
                if h == g:
                    problem.at_most.append(AtMost((g,), rows, max(1, int(here[g]))))
                elif not (here[g] and here[h]):
                    problem.apart.append(Apart(g, h, rows))

    def _keep_ports(self) -> None:
        by_port: dict[tuple[str, int], list[int]] = {}
        for g, pod in enumerate(self._likes):
            for ip, protocol, port in pod.shape.host_ports:
                if ip == "0.0.0.0":  # others may share a port of different addresses: cuts know
                    by_port.setdefault((protocol, port), []).append(g)
        for groups in by_port.values():
            for row in range(len(self._problem.names)):
                here = int(self._problem.current[groups, row].sum())
                self._problem.at_most.append(AtMost(tuple(dict.fromkeys(groups)), np.array([row]), max(1, here)))

    def _keep_near(self, g: int, term: AffinityTerm, number: int) -> None:
        """Several terms must be matched by the same pod; then, or if pods depend on each other, cuts decide."""
        matching = self._matching(term)
        if number > 1 or g in matching:
            return
        ids = self._session.state.table.label(term.topology_key).ids
        self._problem.near.append(Near(g, (), np.flatnonzero(ids < 0)))
        for rows in self._domains(term.topology_key):
            if not self._has_fixed(rows, lambda pod: self._is_meant(term, pod)):
                self._problem.near.append(Near(g, tuple(matching), rows))

    def _is_meant(self, term: AffinityTerm, pod: PodInfo) -> bool:
        labels = self._session.state.namespace_labels(pod.cls.namespace)
        return term.matches(pod.cls.namespace, pod.cls.labels, labels)

    def _has_fixed(self, rows: Ints, is_meant: Callable[[PodInfo], bool]) -> bool:
        infos = self._session.state.nodes().infos
        return any(is_meant(pod) for row in rows.tolist() for pod in infos[row].pods.values())

    def _keep_even(self, g: int, pod: PodInfo) -> None:
        plugin = next((each.plugin for each in self._session.profile_for(pod.pod).filter if each.name == _SPREAD), None)
        if not isinstance(plugin, PodTopologySpread):
            return
        try:
            constraints = plugin.constraints_of(pod, "DoNotSchedule")
        except ParseError:
            return
        nodes = self._session.state.nodes()
        for constraint in constraints:
            lacks_label = np.flatnonzero(nodes.label_ids(constraint.topology_key) < 0)
            self._problem.near.append(Near(g, (), lacks_label))
            eligible = plugin.eligible(pod, constraint, plugin.has_all_keys(nodes, constraints), nodes)
            counted = np.ones(len(nodes), np.bool_) if eligible is None else eligible
            self._problem.even.append(self._even(g, pod, constraint, counted))

    def _even(self, g: int, pod: PodInfo, constraint: Constraint, counted: Mask) -> Even:
        def is_counted(other: PodInfo) -> bool:
            if other.cls.terminating or other.cls.namespace != pod.cls.namespace:
                return False
            return not constraint.selector.is_empty and constraint.selector.matches(other.cls.labels)

        infos = self._session.state.nodes().infos
        domains = []
        for rows in self._domains(constraint.topology_key):
            mine = rows[counted[rows]]
            fixed = sum(is_counted(other) for row in mine.tolist() for other in infos[row].pods.values())
            domains.append(SpreadRows(mine, fixed, bool(len(mine))))
        matching = tuple(h for h, other in enumerate(self._likes) if is_counted(other))
        present = sum(domain.counts for domain in domains)
        return Even(g, matching, tuple(domains), constraint.max_skew, present < constraint.min_domains)
