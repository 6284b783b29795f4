"""PodTopologySpread: spreads matching pods evenly over zones, racks or nodes."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Node, Pod, ReplicationController, Service, TopologySpreadConstraint
from mooring.api.errors import ParseError
from mooring.api.meta import Object
from mooring.api.selectors import EVERYTHING, Requirement, Selector, compile_selector, compile_set, first_untolerated
from mooring.api.text import missing_label_fact
from mooring.api.well_known import HOSTNAME, ZONE
from mooring.api.workloads import ReplicaSet, StatefulSet
from mooring.core.config.types import PodTopologySpreadArgs
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import MAX_NODE_SCORE, Change, PreFilterResult, Remedy, Scores, few
from mooring.core.framework.registry import Traits
from mooring.core.framework.status import SKIP, SKIP_FOR_TEMPLATE, SUCCESS, Status, Verdict
from mooring.core.state.cluster import ClusterState
from mooring.core.state.columns import sum_by_domain
from mooring.core.state.facets import CountFacet, Facet, LabelledFacet, domain_facet
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import Mask, NodeRows
from mooring.core.state.node_selector import node_requirements
from mooring.core.state.pod_index import CountColumn
from mooring.core.state.pod_info import PodClass, PodInfo, PodShape

Ints = NDArray[np.int64]

LOST = Status.error('reading "PreFilterPodTopologySpread" from cycleState: not found')
MISSING_LABEL = Status.unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
TOO_SKEWED = Status.unschedulable("node(s) didn't match pod topology spread constraints")
NO_DOMAIN = 2**31 - 1  # the minimum over no domains: nothing is ever too skewed against it
MAX_KEPT = 1024

SYSTEM_DEFAULTS = [
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A parsed constraint."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


class Domains:
    """One hard constraint's pods by domain, and the two emptiest domains as upstream tracks them.

    Upstream keeps only the two smallest entries and updates them one pod at a time; after several additions to one
    domain its minimum can be larger than the true one. Dry runs (preemption, nominated pods) must reproduce that.
    """

    __slots__ = ("counts", "critical", "present")

    def __init__(self, counts: Ints, present: Mask) -> None:
        self.counts = counts  # [domain]
        self.present = present  # [domain]: some node that counts is in it
        self.critical: list[list[int]] | None = None  # [domain, count] of the two smallest, once a pod moved

    @property
    def size(self) -> int:
        return int(np.count_nonzero(self.present))

    @property
    def minimum(self) -> int:
        if self.critical is not None:
            return self.critical[0][1]
        return int(self.counts.min(where=self.present, initial=NO_DOMAIN))

    def change(self, domain: int, amount: int) -> None:
        if self.critical is None:
            self.critical = self._two_smallest()
        if domain >= len(self.counts):
            grow = domain + 1 - len(self.counts)
            self.counts = np.concatenate((self.counts, np.zeros(grow, np.int64)))
            self.present = np.concatenate((self.present, np.zeros(grow, np.bool_)))
        self.counts[domain] += amount
        self.present[domain] = True
        self._track(domain, int(self.counts[domain]))

    def _two_smallest(self) -> list[list[int]]:
        domains = np.flatnonzero(self.present)
        order = np.argsort(self.counts[domains], kind="stable")[:2]
        found = [[int(domains[i]), int(self.counts[domains[i]])] for i in order]
        return found + [[-1, NO_DOMAIN]] * (2 - len(found))

    def _track(self, domain: int, count: int) -> None:
        paths = self.critical
        assert paths is not None
        for i in (0, 1):
            if paths[i][0] == domain:
                paths[i] = [domain, count]
                if paths[0][1] > paths[1][1]:
                    paths[0], paths[1] = paths[1], paths[0]
                return
        if count < paths[0][1]:
            paths[1] = paths[0]
            paths[0] = [domain, count]
        elif count < paths[1][1]:
            paths[1] = [domain, count]

    def clone(self) -> Domains:
        copy = Domains(self.counts.copy(), self.present.copy())
        copy.critical = None if self.critical is None else [list(path) for path in self.critical]
        return copy


class SpreadFilterState:
    __slots__ = ("constraints", "domains", "nodes")

    def __init__(self, constraints: tuple[Constraint, ...], domains: list[Domains], nodes: NodeRows) -> None:
        self.constraints = constraints
        self.domains = domains
        self.nodes = nodes

    def clone(self) -> SpreadFilterState:
        return SpreadFilterState(self.constraints, [domains.clone() for domains in self.domains], self.nodes)


@dataclass(slots=True)
class ScoreState:
    constraints: tuple[Constraint, ...]
    by_domain: list[Ints | None]  # None: counted per node (hostname)
    weights: list[float]
    require_all: bool


class PodTopologySpread:
    """Hard constraints reject nodes where the skew would be too large; soft ones prefer emptier domains.

    A missing topology label is unresolvable; too much skew is not, since evicting a counted pod lessens it.
    """

    name: ClassVar[str] = "PodTopologySpread"

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._cluster: ClusterState = handle.cluster
        self._compares = handle.is_enabled("TaintTolerationComparisonOperators")
        self._nominated_wake = handle.is_enabled("NominatedPodsWake", True)
        self._empty_selects_all = handle.is_enabled("EmptySelectorsCountEveryPod")
        self._system_defaulted = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system_defaulted else args.default_constraints
        self._default_actions = {constraint.when_unsatisfiable for constraint in self._defaults}
        # Default constraints make every pod depend on others: then no two pods are equivalent.
        self.traits = Traits(signs=not self._defaults)
        self._masks: OrderedDict[tuple[int, bool, bool], tuple[Hashable, Mask]] = OrderedDict()
        self._parsed: OrderedDict[Hashable, tuple[Constraint, ...]] = OrderedDict()

    def sign(self, pod: PodInfo) -> Hashable:
        return None if pod.shape.spec.topology_spread_constraints or self._defaults else ()

    # ---- constraints -------------------------------------------------------------------------------------------

    def constraints_of(self, pod: PodInfo, action: str) -> tuple[Constraint, ...]:
        """Return the pod's own constraints with this action, or else the defaults with a deduced selector."""
        own = pod.shape.spec.topology_spread_constraints
        if own:
            key = (pod.shape.id, pod.cls.id, action)
            parsed = self._parsed.get(key)
            if parsed is None:
                parsed = self._parsed[key] = _parse(own, pod.cls.labels, action)
                if len(self._parsed) > MAX_KEPT:
                    self._parsed.popitem(last=False)
            return parsed
        if action not in self._default_actions:
            return ()
        selector = self._deduced_selector(pod.pod)
        if selector.is_empty:
            return ()
        defaults = _parse(self._defaults, pod.cls.labels, action)
        return tuple(replace(constraint, selector=selector) for constraint in defaults)

    def _deduced_selector(self, pod: Pod) -> Selector:
        """Return the combined selector of the pod's services and its controller."""
        meta, objects = pod.metadata, self._cluster.objects
        labels: dict[str, str] = {}
        for service in objects.in_namespace(Service, meta.namespace):
            wanted = service.spec.selector
            if wanted is not None and all(meta.labels.get(key) == value for key, value in wanted.items()):
                labels.update(wanted)
        owner = meta.controller()
        if owner is None and not labels:
            return EVERYTHING
        key = "" if owner is None else f"{meta.namespace}/{owner.name}"
        match (owner.api_version, owner.kind) if owner is not None else ("", ""):
            case ("v1", "ReplicationController"):
                controller = objects.get(ReplicationController, key)
                if controller is not None:
                    labels.update(controller.spec.selector or {})
            case ("apps/v1", "ReplicaSet" | "StatefulSet" as kind):
                workload = objects.get(ReplicaSet, key) if kind == "ReplicaSet" else objects.get(StatefulSet, key)
                if workload is not None:
                    try:
                        return compile_set(labels).with_requirements(
                            *compile_selector(workload.spec.selector).requirements
                        )
                    except ParseError:
                        pass  # upstream also continues with the services' selectors
        return compile_set(labels)

    # ---- counting ----------------------------------------------------------------------------------------------

    def _column(self, namespace: str, selector: Selector) -> CountColumn | None:
        """Return matching pods per node; until 1.37 the empty selector counts no pod, though it matches every pod."""
        if selector.matches_nothing or (selector.is_empty and not self._empty_selects_all):
            return None

        def alike(cls: PodClass) -> bool:
            return not cls.terminating and cls.namespace == namespace and selector.matches(cls.labels)

        return self._cluster.pod_index.column(("spread", namespace, selector), alike, (namespace,), selector.exact)

    def _counts(self, nodes: NodeRows, namespace: str, selector: Selector) -> Ints:
        column = self._column(namespace, selector)
        return np.zeros(len(nodes), np.int64) if column is None else nodes.counts(column)

    def _counts_by_domain(self, nodes: NodeRows, namespace: str, constraint: Constraint, counted: Mask | None) -> Ints:
        """Return matching pods by domain, on the nodes that are counted; None means all."""
        key = constraint.topology_key
        column = self._column(namespace, constraint.selector)
        if column is None:
            return np.zeros(len(nodes.label(key).values), np.int64)
        if counted is None:
            return nodes.counts_by_domain(column, key)
        return sum_by_domain(nodes.label_ids(key), nodes.counts(column) * counted, len(nodes.label(key).values))

    def _included(self, shape: PodShape, constraint: Constraint, everywhere: NodeRows) -> Mask | None:
        """Return which nodes take part according to the constraint's policies; None means all."""
        affinity = constraint.honor_affinity and not node_requirements(shape).is_empty
        if not affinity and not constraint.honor_taints:
            return None
        table = everywhere.table
        version = table.node_version
        key = (shape.id, affinity, constraint.honor_taints)
        known = self._masks.get(key)
        if known is not None and known[0] == version:
            return known[1]
        mask = node_requirements(shape).mask(everywhere) if affinity else np.ones(len(everywhere), np.bool_)
        if constraint.honor_taints:
            tolerated = np.fromiter(
                (
                    first_untolerated(taints, shape.spec.tolerations, comparison_operators=self._compares) is None
                    for taints in table.taint_sets
                ),
                np.bool_,
            )
            mask = mask & tolerated[table.taint_set]
        self._masks[key] = (version, mask)
        if len(self._masks) > MAX_KEPT:
            self._masks.popitem(last=False)
        return mask

    def eligible(self, pod: PodInfo, constraint: Constraint, has_all_keys: Mask | None, nodes: NodeRows) -> Mask | None:
        """Return which nodes count for one of the pod's constraints; None means all."""
        included = self._included(pod.shape, constraint, nodes)
        return included if has_all_keys is None else _both(has_all_keys, included)

    @staticmethod
    def has_all_keys(nodes: NodeRows, constraints: tuple[Constraint, ...]) -> Mask | None:
        """Return which nodes have every constraint's label; None means all."""
        distinct = dict.fromkeys(each.topology_key for each in constraints)  # thousands of constraints may share a few
        keys = [key for key in distinct if not nodes.label(key).present()[1]]
        if not keys:
            return None
        mask = nodes.label_ids(keys[0]) >= 0
        for key in keys[1:]:
            mask = mask & (nodes.label_ids(key) >= 0)
        return mask

    def node_facets(self, state: CycleState, pod: PodInfo) -> Sequence[Facet] | None:
        """The domains of the constraints' keys; for a soft constraint on host names, how many alike pods there are."""
        table = self._cluster.table
        found: SpreadFilterState | None = None if self.name in state.skip_filter else state.read(self.name)
        facets: list[Facet | None] = []
        if found is not None:
            facets += [domain_facet(table, constraint.topology_key) for constraint in found.constraints]
        try:
            soft = self.constraints_of(pod, "ScheduleAnyway")
        except ParseError:
            return None
        for constraint in soft:
            if constraint.topology_key != HOSTNAME:
                facets.append(domain_facet(table, constraint.topology_key))
                continue
            column = self._column(pod.pod.metadata.namespace, constraint.selector)
            if column is not None:
                facets.append(CountFacet(column))
            if not table.label(HOSTNAME).present()[1]:
                facets.append(LabelledFacet(HOSTNAME))
        named = [facet for facet in facets if facet is not None]
        return named if len(named) == len(facets) else None

    # ---- filter ------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        try:
            constraints = self.constraints_of(pod, "DoNotSchedule")
        except ParseError as error:
            return Status.error(f"get constraints from pod: {error}")
        if not constraints:
            return SKIP if "DoNotSchedule" in self._default_actions else SKIP_FOR_TEMPLATE
        constraints = _up_to_an_absent_key(constraints, nodes)
        namespace, has_all_keys = pod.pod.metadata.namespace, self.has_all_keys(nodes, constraints)
        all_domains = []
        for constraint in constraints:
            eligible = self.eligible(pod, constraint, has_all_keys, nodes)
            key = constraint.topology_key
            by_domain = self._counts_by_domain(nodes, namespace, constraint, eligible)
            if eligible is None and nodes.index is None:
                present = nodes.label(key).present()[0].copy()
            else:
                ones = np.ones(len(nodes), np.int64) if eligible is None else eligible.astype(np.int64)
                present = sum_by_domain(nodes.label_ids(key), ones, len(by_domain)) > 0
            all_domains.append(Domains(by_domain, present))
        state.write(self.name, SpreadFilterState(constraints, all_domains, nodes))
        return SUCCESS

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status:
        self._change(state.read(self.name), pod, added, node, 1)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status:
        self._change(state.read(self.name), pod, removed, node, -1)
        return SUCCESS

    def _change(self, found: SpreadFilterState, pod: PodInfo, other: PodInfo, node: NodeInfo, amount: int) -> None:
        """Count a pod in a dry run. A terminating pod is subtracted although it was not counted, as upstream does."""
        meta = other.pod.metadata
        if meta.namespace != pod.pod.metadata.namespace or node.row < 0:
            return
        if any(constraint.topology_key not in node.labels for constraint in found.constraints):
            return
        for constraint, domains in zip(found.constraints, found.domains, strict=True):
            if not constraint.selector.matches(meta.labels):
                continue
            included = self._included(pod.shape, constraint, NodeRows(found.nodes.table))
            if included is None or included[node.row]:
                column = found.nodes.label(constraint.topology_key)
                domains.change(column.intern(node.labels[constraint.topology_key]), amount)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        found: SpreadFilterState | None = state.read(self.name)
        if found is None:
            return Verdict.where(np.ones(len(nodes), np.bool_), LOST)
        result: Ints | None = None
        for constraint, domains in zip(found.constraints, found.domains, strict=True):
            skews = _skews(constraint, domains, pod, nodes)
            numbers = 2 * (skews > constraint.max_skew)
            numbers[-1] = 1
            verdict = numbers.take(nodes.label_ids(constraint.topology_key))
            result = verdict if result is None else np.where(result == 0, verdict, result)
        if result is None or not result.any():
            return None
        return Verdict.choose(result, (MISSING_LABEL, TOO_SKEWED))

    # ---- score -------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        try:
            constraints = self.constraints_of(pod, "ScheduleAnyway")
        except ParseError as error:
            return Status.error(f"calculating preScoreState: obtaining pod's soft topology spread constraints: {error}")
        if not constraints:
            return SKIP
        require_all = bool(pod.shape.spec.topology_spread_constraints) or not self._system_defaulted
        everywhere = NodeRows(nodes.table)
        counted = self.has_all_keys(nodes, constraints) if require_all else None
        takes_part = self.has_all_keys(everywhere, constraints) if require_all else None
        found = ScoreState(constraints, [], [], require_all)
        for constraint in constraints:
            key = constraint.topology_key
            if key == HOSTNAME:
                found.by_domain.append(None)
                found.weights.append(math.log((nodes.num_nodes if counted is None else nodes.num_where(counted)) + 2))
                continue
            bins = _bins(nodes, key)
            size = int(np.count_nonzero(np.bincount(bins if counted is None else bins[counted])))
            found.weights.append(math.log(size + 2))
            included = self._included(pod.shape, constraint, everywhere)
            eligible = included if takes_part is None else _both(takes_part, included)
            by_domain = self._counts_by_domain(everywhere, pod.pod.metadata.namespace, constraint, eligible)
            empty = everywhere.label(key).id_of("")
            if empty >= 0:
                unlabelled = everywhere.label_ids(key) < 0
                counts = self._counts(everywhere, pod.pod.metadata.namespace, constraint.selector)
                by_domain[empty] += counts[_both(unlabelled, eligible)].sum()
            found.by_domain.append(by_domain)
        state.write(self.name + "/score", found)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        found: ScoreState = state.read(self.name + "/score")
        total = np.zeros(len(nodes))
        for constraint, by_domain, weight in zip(found.constraints, found.by_domain, found.weights, strict=True):
            if by_domain is None:
                counts = self._counts(nodes, pod.pod.metadata.namespace, constraint.selector)
            else:
                counts = nodes.at_domain(constraint.topology_key, by_domain)
            share = counts * weight + float(constraint.max_skew - 1)
            if not nodes.label(constraint.topology_key).present()[1]:
                share[nodes.label_ids(constraint.topology_key) < 0] = 0.0
            total += share
        counted = self.has_all_keys(nodes, found.constraints) if found.require_all else None
        if counted is not None:
            total[~counted] = 0.0
        whole = np.floor(total)
        return (whole + (total - whole >= 0.5)).astype(np.int64)  # half away from zero; totals are not negative

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        found: ScoreState = state.read(self.name + "/score")
        counted = self.has_all_keys(nodes, found.constraints) if found.require_all else None
        judged = scores if counted is None else scores[counted]
        if not len(judged):
            return np.zeros_like(scores)
        low, high = int(judged.min()), int(judged.max())
        if high == 0:
            normalized = np.full_like(scores, MAX_NODE_SCORE)
        else:
            normalized = MAX_NODE_SCORE * (high + low - scores) // high
        return normalized if counted is None else np.where(counted, normalized, 0)

    # ---- what would help ---------------------------------------------------------------------------------------

    def facts(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[str]:
        return facts(pod.pod, NodeRows(nodes.table).infos)

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterator[Remedy]:
        found: SpreadFilterState | None = state.read(self.name)
        if found is None or not pod.pod.spec.topology_spread_constraints:
            return  # the pod cannot change the profile's default constraints
        skews = np.stack(
            [
                _skews(constraint, domains, pod, nodes).take(nodes.label_ids(constraint.topology_key))
                for constraint, domains in zip(found.constraints, found.domains, strict=True)
            ]
        )  # [constraint, node]
        if len(skews) == len(_hard(pod.pod)):  # otherwise no node has one of the labels
            yield from allow_more_skew(pod.pod, nodes, skews)
        for node in few(nodes):
            yield from soften(pod.pod, node.labels)

    def events_to_register(self) -> Sequence[EventRegistration]:
        about_pods = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
        about_nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return (
            on(EventResource.POD, about_pods, self._after_pod_change),
            on(EventResource.NODE, about_nodes, self._after_node_change),
        )

    def _hard_constraints(self, pod: Pod) -> tuple[Constraint, ...]:
        return self.constraints_of(self._cluster.info(pod), "DoNotSchedule")

    def _after_pod_change(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A counted pod was added or deleted, or is selected differently; or this pod tolerates more."""
        if any(isinstance(each, Pod) and not self._takes_part(each, pod) for each in (old, new)):
            return Hint.SKIP
        constraints = self._hard_constraints(pod)
        if not isinstance(old, Pod) or not isinstance(new, Pod):
            only = old or new
            assert only is not None
            return _hint(any(constraint.selector.matches(only.labels) for constraint in constraints))
        tolerates_more = new.uid == pod.uid and new.spec.tolerations != old.spec.tolerations
        if tolerates_more and any(constraint.honor_taints for constraint in constraints):
            return Hint.QUEUE
        return _hint(
            new.labels != old.labels
            and any(each.selector.matches(old.labels) != each.selector.matches(new.labels) for each in constraints)
        )

    def _takes_part(self, other: Pod, pod: Pod) -> bool:
        """Report whether this constraint may count a pod: it is in the namespace, on a node or nominated to one."""
        if other.uid == pod.uid:
            return True
        is_placed = other.spec.node_name or (self._nominated_wake and other.status.nominated_node_name)
        return bool(is_placed) and other.namespace == pod.namespace

    def _after_node_change(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A participating node was added or deleted, changed its domain or taints, or begins or stops participating."""
        keys = [constraint.topology_key for constraint in self._hard_constraints(pod)]
        before = old is not None and all(key in old.labels for key in keys)
        after = new is not None and all(key in new.labels for key in keys)
        if not isinstance(old, Node) or not isinstance(new, Node):
            return _hint(before or after)
        moved = any(old.labels.get(key) != new.labels.get(key) for key in keys)
        return _hint(before != after or (after and (moved or old.spec.taints != new.spec.taints)))


def _up_to_an_absent_key(constraints: tuple[Constraint, ...], nodes: NodeRows) -> tuple[Constraint, ...]:
    """Return the constraints that can decide: the first whose key no node has rejects all remaining nodes.

    A pod may have thousands of constraints, but nodes have few label keys, and no two constraints have the same.
    """
    for i, constraint in enumerate(constraints):
        if not nodes.label(constraint.topology_key).values:
            return constraints[: i + 1]
    return constraints


def _skews(constraint: Constraint, domains: Domains, pod: PodInfo, nodes: NodeRows) -> Ints:
    """Return by domain the skew with the pod in it: upstream's matchNum + selfMatchNum - minMatchNum.

    An additional entry at the end stands for a missing label (-1) and has no meaning.
    """
    minimum = 0 if domains.size < constraint.min_domains else domains.minimum
    itself = 1 if constraint.selector.matches(pod.cls.labels) else 0
    skews = np.full(len(nodes.label(constraint.topology_key).values) + 1, itself - minimum, np.int64)
    skews[: len(domains.counts)] += domains.counts
    return skews


def _bins(nodes: NodeRows, key: str) -> NDArray[np.int64]:
    """Return domain numbers for bincount: 0 for a missing label and for an empty value, which scoring treats alike."""
    ids = nodes.label_ids(key).astype(np.int64) + 1
    empty = nodes.label(key).id_of("")
    return ids if empty < 0 else np.where(ids == empty + 1, 0, ids)


def _both(mask: Mask, other: Mask | None) -> Mask:
    return mask if other is None else mask & other


def _parse(constraints: list[TopologySpreadConstraint], labels: dict[str, str], action: str) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(
            constraint.max_skew,
            constraint.topology_key,
            _selector(constraint, labels),
            1 if constraint.min_domains is None else constraint.min_domains,
            (constraint.node_affinity_policy or "Honor") == "Honor",
            (constraint.node_taints_policy or "Ignore") == "Honor",
        )
        for constraint in constraints
        if constraint.when_unsatisfiable == action
    )


def _selector(constraint: TopologySpreadConstraint, labels: dict[str, str]) -> Selector:
    """The label selector, narrowed by the pod's own values of ``matchLabelKeys``."""
    selector = compile_selector(constraint.label_selector)
    own = [Requirement(key, "In", (labels[key],)) for key in constraint.match_label_keys if key in labels]
    return selector.with_requirements(*own) if own else selector


def _hint(helps: bool) -> Hint:
    return Hint.QUEUE if helps else Hint.SKIP


# ---- remedies for a pod whose topology spread constraints reject nodes
# -------------------------------------------------

MAX_EXTRA_SKEW = 512


def facts(pod: Pod, nodes: Sequence[NodeInfo]) -> Iterator[str]:
    """Yield, for each key that the pod must be spread over, how many nodes lack it."""
    for _, constraint in _hard(pod):
        fact = missing_label_fact(constraint.topology_key, [node.labels for node in nodes])
        if fact:
            yield fact


def allow_more_skew(pod: Pod, nodes: NodeRows, skews: NDArray[np.int64]) -> Iterator[Remedy]:
    """Yield maxSkew values that allow the pod on the nodes where its skew is smallest.

    ``skews`` are by hard constraint and node. Where the pod breaks several constraints, all of them must allow more.
    """
    hard = _hard(pod)
    allowed = np.array([constraint.max_skew for _, constraint in hard]).reshape(-1, 1)
    labelled = np.all([nodes.label_ids(constraint.topology_key) >= 0 for _, constraint in hard], axis=0)
    extra = np.where(labelled, np.maximum(skews - allowed, 0).sum(axis=0), MAX_EXTRA_SKEW + 1)
    tried: set[tuple[int, ...]] = set()
    for i in np.argsort(extra, kind="stable").tolist():
        broken = tuple(np.flatnonzero(skews[:, i] > allowed[:, 0]).tolist())
        if 0 < extra[i] <= MAX_EXTRA_SKEW and broken not in tried:
            tried.add(broken)
            yield tuple(_max_skew(*hard[k], int(skews[k, i])) for k in broken)


def soften(pod: Pod, labels: Mapping[str, str]) -> Iterator[Remedy]:
    """Yield softened constraints: those by keys that the node lacks, or else any one."""
    hard = _hard(pod)
    lacking = [(i, constraint) for i, constraint in hard if constraint.topology_key not in labels]
    for i, constraint in lacking or hard:
        yield (_soft(i, constraint.topology_key),)
    if len(lacking) > 1:
        yield tuple(_soft(i, constraint.topology_key) for i, constraint in lacking)


def _hard(pod: Pod) -> list[tuple[int, TopologySpreadConstraint]]:
    """Return the hard constraints with their positions."""
    constraints = enumerate(pod.spec.topology_spread_constraints)
    return [(i, constraint) for i, constraint in constraints if constraint.when_unsatisfiable == "DoNotSchedule"]


def _soft(index: int, key: str) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.topology_spread_constraints[index].when_unsatisfiable = "ScheduleAnyway"

    return Change(f"spread over {key} only where possible (ScheduleAnyway)", "spread", 5.0, edit=edit)


def _max_skew(index: int, constraint: TopologySpreadConstraint, skew: int) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.topology_spread_constraints[index].max_skew = skew

    text = f"spread over {constraint.topology_key}: allow maxSkew {skew} (now {constraint.max_skew})"
    return Change(text, "maxSkew", 1.0 + (skew - constraint.max_skew), edit=edit)
