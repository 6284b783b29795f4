"""InterPodAffinity: places pods near some pods and away from others, by their own terms and those of running pods."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Namespace, Pod, PodAffinity, PodAffinityTerm
from mooring.api.errors import ParseError
from mooring.api.meta import Object
from mooring.api.selectors import NOTHING
from mooring.api.text import MAX_VALUES, missing_label_fact, selector_text
from mooring.core.config.types import InterPodAffinityArgs
from mooring.core.framework.cluster_event import ActionType, EventRegistration, EventResource, Hint, on
from mooring.core.framework.cycle_state import CycleState
from mooring.core.framework.handle import Handle
from mooring.core.framework.interfaces import FEW, MAX_NODE_SCORE, Change, PreFilterResult, Remedy, Scores
from mooring.core.framework.status import SKIP, SUCCESS, Status, Verdict
from mooring.core.state.cluster import ClusterState
from mooring.core.state.facets import CountFacet, Facet, LabelledFacet, domain_facet
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_rows import KindRows, NodeRows
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_index import CountColumn, PodIndex, TermKind
from mooring.core.state.pod_info import NO_TERMS, AffinityTerm, AffinityTerms, PodClass, PodInfo, compile_term
from mooring.core.state.term_sums import TermSum

Ints = NDArray[np.int64]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

LOST = Status.error('error reading "PreFilterInterPodAffinity" from cycleState: not found')
Weighted = dict[str, list[tuple[CountColumn, int]]]  # by topology key, pods and what each of them is worth

AFFINITY = Status.unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY = Status.unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY = Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")


class DomainCounts:
    """Counts by topology key and domain: arrays, so that a node's answer is an index.


    They are summed up when they are first needed, by the end of the attempt. Where only a few nodes are asked about,
    and each is alone in its domain, they are not needed at all.
    """

    __slots__ = ("_columns", "_nodes", "_sums")

    def __init__(self, nodes: NodeRows) -> None:
        """``nodes`` are all nodes of the cluster."""
        self._nodes = nodes
        self._columns: dict[str, tuple[tuple[CountColumn, int], ...]] = {}  # what is to be added up, and how often
        self._sums: dict[str, Ints] = {}

    @property
    def keys(self) -> Iterable[str]:
        return {**self._columns, **self._sums} if self._sums else tuple(self._columns)

    def add(self, key: str, column: CountColumn, times: int = 1) -> None:
        self._columns[key] = (*self._columns.get(key, ()), (column, times))

    def of(self, key: str) -> Ints | None:
        """The sum by domain."""
        for column, times in self._columns.pop(key, ()):
            counts = times * self._nodes.counts_by_domain(column, key)
            old = self._sums.get(key)
            self._sums[key] = counts if old is None else old + counts
        return self._sums.get(key)

    def change(self, key: str, node: NodeInfo, amount: int) -> None:
        """Add or subtract one pod on a node, in a dry run."""
        value = node.labels.get(key)
        if value is None:
            return
        old, column = self.of(key), self._nodes.label(key)
        domain = column.intern(value)
        counts = np.zeros(len(column.values), np.int64)
        if old is not None:
            counts[: len(old)] = old
        counts[domain] += amount
        self._sums[key] = counts

    @property
    def is_empty(self) -> bool:
        if any(counts.any() for counts in self._sums.values()):
            return False
        return not any(_is_near(key, column) for key, added in self._columns.items() for column, _ in added)

    def positive(self, nodes: NodeRows, key: str) -> NDArray[np.bool_]:
        """Return where the node's domain has some; never where the label is missing."""
        label = nodes.label(key)
        if key not in self._sums and type(nodes) is KindRows and label.is_of_one_node_each():
            found = np.zeros(len(nodes), np.bool_)
            for column, _ in self._columns.get(key, ()):
                found |= nodes.counts(column) > 0
            return found & (nodes.label_ids(key) >= 0)
        found = np.zeros(len(label.values) + 1, np.bool_)  # the last entry is read for a missing label
        counts = self.of(key)
        if counts is not None:
            found[: len(counts)] = counts > 0
        return found.take(nodes.label_ids(key))

    def facets(self, table: NodeTable) -> Iterator[Facet | None]:
        """What tells nodes apart here, None where that cannot be named."""
        for key in self.keys:
            columns = () if key in self._sums else tuple(column for column, _ in self._columns[key])
            yield from _facets(table, key, columns, any=True)

    def clone(self) -> DomainCounts:
        copy = DomainCounts(self._nodes)
        # ``change`` replaces arrays, it never writes into them
        copy._columns, copy._sums = dict(self._columns), dict(self._sums)
        return copy


def _is_near(key: str, column: CountColumn) -> bool:
    """Report whether one of the column's pods is on a node with the label."""
    nodes = (column.table.nodes[name] for name in column.counts)
    return any(node.row >= 0 and key in node.labels for node in nodes)


def _facets(table: NodeTable, key: str, columns: Iterable[CountColumn], *, any: bool) -> Iterator[Facet | None]:
    """What a rule about pods in a node's domain must know of the node: its domain, or the pods on it if it is alone."""
    label = table.label(key)
    if not label.is_of_one_node_each():
        yield domain_facet(table, key)
        return
    for column in columns:
        yield CountFacet(column, any)
    if not label.present()[1]:
        yield LabelledFacet(key)


class Matches(NamedTuple):
    """By topology key, how many terms a pod on a node matches, or how many of its own terms match the new pod."""

    existing_anti_affinity: Mapping[str, int]
    affinity: Mapping[str, int]
    anti_affinity: Mapping[str, int]


class CountedTerms(NamedTuple):
    """Some of the pod's own terms and the column of the pods that match them."""

    sum: TermSum
    column: CountColumn


class AffinityFilterState:
    """Result of PreFilter: the pod's own terms, and counts of pods that match them or repel it."""

    __slots__ = (
        "_index",
        "_matches",
        "affinity",
        "anti_affinity",
        "existing_anti_affinity",
        "namespace_labels",
        "nodes",
        "pod",
        "terms",
        "unwanted",
        "wanted",
    )

    def __init__(
        self,
        pod: PodInfo,
        terms: AffinityTerms,
        namespace_labels: dict[str, str],
        nodes: NodeRows,
        index: PodIndex,
    ) -> None:
        self._index = index
        self.pod = pod
        self.terms = terms  # with namespaces resolved
        self.namespace_labels = namespace_labels
        self.nodes = nodes
        self.affinity = DomainCounts(nodes)
        self.anti_affinity = DomainCounts(nodes)
        self.existing_anti_affinity = DomainCounts(nodes)
        # By template and labels of another pod. A pod with thousands of terms is compared with each kind of pod once,
        # not with every pod of every node in a dry run.
        self._matches: dict[tuple[int, int], Matches] = {}
        self.wanted: CountedTerms | None = None  # required affinity: all terms together
        self.unwanted: dict[str, CountedTerms] = {}  # required anti-affinity: each term, by topology key

    def change(self, other: PodInfo, node: NodeInfo, amount: int) -> None:
        """Count a pod that a dry run adds (1) or removes (-1)."""
        for counts, by_key in zip(
            (self.existing_anti_affinity, self.affinity, self.anti_affinity), self._matches_of(other), strict=True
        ):
            for key, number in by_key.items():
                counts.change(key, node, amount * number)

    def _matches_of(self, other: PodInfo) -> Matches:
        kind = (other.shape.id, other.cls.id)
        matches = self._matches.get(kind)
        if matches is None:
            pod = self.pod.pod.metadata
            existing = (
                term.topology_key
                for term in _terms_of(other).required_anti_affinity
                if term.matches(pod.namespace, pod.labels, self.namespace_labels)
            )
            is_wanted = self.wanted is not None and self._times(other.cls, self.wanted, self.wanted.sum.holds)
            affinity = self.terms.required_affinity if is_wanted else ()
            unwanted = ((key, self._times(other.cls, each, each.sum.count)) for key, each in self.unwanted.items())
            matches = self._matches[kind] = Matches(
                Counter(existing),
                Counter(term.topology_key for term in affinity),
                {key: number for key, number in unwanted if number},
            )
        return matches

    def _times(self, cls: PodClass, terms: CountedTerms, count: Callable[[PodClass], int]) -> int:
        """Return the column's count for a kind of pods, or compute it."""
        known = self._index.times(cls, terms.column)
        return count(cls) if known is None else known

    def clone(self) -> AffinityFilterState:
        copy = AffinityFilterState(self.pod, self.terms, self.namespace_labels, self.nodes, self._index)
        copy.affinity = self.affinity.clone()
        copy.anti_affinity = self.anti_affinity.clone()
        copy.existing_anti_affinity = self.existing_anti_affinity.clone()
        copy._matches, copy.wanted, copy.unwanted = self._matches, self.wanted, self.unwanted  # of any node
        return copy


class InterPodAffinity:
    """Required terms reject, preferred ones score, and both count in both directions.

    Where no matching pod is in reach, evicting pods does not help: that is unresolvable. A repelling pod could be
    evicted, so those verdicts are resolvable.
    """

    name: ClassVar[str] = "InterPodAffinity"

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods
        self._cluster: ClusterState = handle.cluster
        self._replaces_selectors = handle.is_enabled("MergedNamespacesReplaceTheSelector")
        self._any_term_wakes = handle.is_enabled("AnyAntiAffinityTermWakes")
        self._own_labels_wake = handle.is_enabled("OwnLabelsWake", True)
        self._nominated_wake = handle.is_enabled("NominatedPodsWake", True)
        self._deleted_objectors_wake = handle.is_enabled("DeletedObjectorsWake", True)

    def sign(self, pod: PodInfo) -> Hashable:
        if pod.shape.has_pod_affinity:
            return None
        return () if self._ignore_existing else tuple(sorted(pod.cls.labels.items()))

    def node_facets(self, state: CycleState, pod: PodInfo) -> Sequence[Facet] | None:
        """For each topology key of a term that counts, the domain of the node or the pods on it."""
        found: AffinityFilterState | None = None if self.name in state.skip_filter else state.read(self.name)
        table = self._cluster.table
        facets: list[Facet | None] = []
        if found is None and not pod.shape.has_pod_affinity and self._cluster.terms.is_empty:
            return ()
        if found is not None:
            for counts in (found.affinity, found.anti_affinity, found.existing_anti_affinity):
                facets += counts.facets(table)
        try:
            for key, columns in self._weighted(state, pod).items():
                facets += _facets(table, key, (column for column, _ in columns), any=False)
        except ParseError:
            return None
        named = [facet for facet in facets if facet is not None]
        return named if len(named) == len(facets) else None

    # ---- filter ------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status | PreFilterResult:
        if not pod.shape.has_pod_affinity and self._cluster.terms.is_empty:
            return SKIP
        meta = pod.pod.metadata
        try:
            own = pod.shape.terms(meta.namespace)
        except ParseError as error:
            return Status.unresolvable(f"parsing pod: {error}")
        namespace_labels = self._cluster.namespace_labels(meta.namespace)
        objections = [
            (indexed.term, column)
            for indexed, column in self._cluster.terms.matching(pod.cls, namespace_labels)
            if indexed.kind is TermKind.REQUIRED_ANTI_AFFINITY
        ]
        if not (objections or own.required_affinity or own.required_anti_affinity):
            return SKIP
        terms = AffinityTerms(self._resolved(own.required_affinity), self._resolved(own.required_anti_affinity))
        found = AffinityFilterState(pod, terms, namespace_labels, nodes, self._cluster.pod_index)
        for term, column in objections:
            found.existing_anti_affinity.add(term.topology_key, column)
        if terms.required_affinity:
            found.wanted = self._all_of_these(terms.required_affinity)
            for key, number in Counter(term.topology_key for term in terms.required_affinity).items():
                found.affinity.add(key, found.wanted.column, number)
        for key, same_key in _grouped((term.topology_key, term) for term in terms.required_anti_affinity).items():
            if not nodes.label(key).values:
                continue  # no node has it, so no pod is near
            found.unwanted[key] = self._each_of_these(same_key)
            found.anti_affinity.add(key, found.unwanted[key].column)
        if not (terms.required_affinity or terms.required_anti_affinity) and found.existing_anti_affinity.is_empty:
            return SKIP
        state.write(self.name, found)
        return SUCCESS

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status:
        state.read(self.name).change(added, node, 1)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status:
        state.read(self.name).change(removed, node, -1)
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Verdict | None:
        found: AffinityFilterState | None = state.read(self.name)
        if found is None:
            return Verdict.where(np.ones(len(nodes), np.bool_), LOST)
        ids: Ints | None = None
        if found.terms.required_affinity:
            ids = np.where(self._meets_affinity(found, nodes), 0, 1)
        for key in found.anti_affinity.keys:
            ids = _first(ids, found.anti_affinity.positive(nodes, key), 2)
        for key in found.existing_anti_affinity.keys:
            ids = _first(ids, found.existing_anti_affinity.positive(nodes, key), 3)
        if ids is None or not ids.any():
            return None
        return Verdict.choose(ids, (AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY))

    @staticmethod
    def _meets_affinity(found: AffinityFilterState, nodes: NodeRows) -> NDArray[np.bool_]:
        keys = list(dict.fromkeys(term.topology_key for term in found.terms.required_affinity))
        if not all(nodes.label(key).values for key in keys):
            return np.zeros(len(nodes), np.bool_)  # a key that no node has
        meta = found.pod.pod.metadata
        if found.affinity.is_empty and _matches_all(found.terms.required_affinity, meta.namespace, meta.labels):
            # The first pod of a group with affinity to itself: it matches its own terms wherever the labels are.
            return _all_of([nodes.label_ids(key) >= 0 for key in keys])
        return _all_of([found.affinity.positive(nodes, key) for key in keys])

    # ---- score -------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Status:
        if not pod.shape.has_pod_affinity and self._cluster.terms.is_empty:
            return SKIP
        try:
            by_key = self._weighted(state, pod)
        except ParseError as error:
            return Status.error(f"failed to parse pod: {error}")
        # Something is produced as soon as one of the pods is on a node with the label, even if sums cancel out.
        if not any(_is_near(key, column) for key, columns in by_key.items() for column, _ in columns):
            return SKIP
        state.write(self.name + "/score", by_key)
        return SUCCESS

    def _weighted(self, state: CycleState, pod: PodInfo) -> Weighted:
        """The pods that count, worked out once for an attempt."""
        known: Weighted | None = state.read(self.name + "/weighted")
        if known is not None:
            return known
        by_key: Weighted = {}
        state.write(self.name + "/weighted", by_key)
        meta = pod.pod.metadata
        own = pod.shape.terms(meta.namespace)
        has_wishes = own.preferred_affinity or own.preferred_anti_affinity
        if self._ignore_existing and not has_wishes:
            return by_key
        wishes = (
            *((w.weight, w.term) for w in own.preferred_affinity),
            *((-w.weight, w.term) for w in own.preferred_anti_affinity),
        )
        weighted: list[tuple[str, CountColumn, int]] = []  # (topology key, pods, weight of each)
        alike = _grouped(((term.topology_key, weight > 0, weight == 0), (weight, term)) for weight, term in wishes)
        for (key, _, _), same_sign in alike.items():  # none cancels another out
            unit = math.gcd(*(weight for weight, _ in same_sign))
            weights = tuple(abs(weight) // unit for weight, _ in same_sign) if unit else ()
            terms = tuple(self._resolve(term) for _, term in same_sign)
            column = self._each_of_these(terms, weights if any(each != 1 for each in weights) else ()).column
            weighted.append((key, column, unit if same_sign[0][0] > 0 else -unit))
        for indexed, column in self._cluster.terms.matching(pod.cls, self._cluster.namespace_labels(meta.namespace)):
            weight = self._existing_weight(indexed.kind, indexed.weight)
            if weight:
                weighted.append((indexed.term.topology_key, column, weight))
        for key, column, weight in weighted:
            if column.counts:
                by_key.setdefault(key, []).append((column, weight))
        return by_key

    def _existing_weight(self, kind: TermKind, weight: int) -> int:
        """Return the weight of an existing pod's term for a pod that matches it."""
        match kind:
            case TermKind.REQUIRED_AFFINITY:
                return self._hard_weight
            case TermKind.PREFERRED_AFFINITY:
                return weight
            case TermKind.PREFERRED_ANTI_AFFINITY:
                return -weight
            case _:
                return 0

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Scores:
        total = np.zeros(len(nodes), np.int64)
        everywhere = NodeRows(nodes.table)
        for key, columns in state.read(self.name + "/score").items():
            if type(nodes) is KindRows and nodes.label(key).is_of_one_node_each():
                here = sum(weight * nodes.counts(column) for column, weight in columns)
                total += np.where(nodes.label_ids(key) >= 0, here, 0)
            else:
                by_domain = sum(weight * everywhere.counts_by_domain(column, key) for column, weight in columns)
                total += nodes.at_domain(key, by_domain)
        return total

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores, nodes: NodeRows) -> Scores:
        low, high = int(scores.min()), int(scores.max())
        if high == low:
            return np.zeros_like(scores)
        # Divided first and multiplied after, in floating point: 29 of 100 makes 28, as upstream.
        return (float(MAX_NODE_SCORE) * ((scores - low) / float(high - low))).astype(np.int64)

    # ---- terms -------------------------------------------------------------------------------------------------

    def _resolved(self, terms: tuple[AffinityTerm, ...]) -> tuple[AffinityTerm, ...]:
        """Return the pod's own terms with the namespaces of their selectors listed by name.

        Until 1.36 the selector stays and is evaluated for an empty label set: one made only of negations then matches
        every namespace. That is upstream's behaviour, kept on purpose.
        """
        return tuple(self._resolve(term) for term in terms)

    def _resolve(self, term: AffinityTerm) -> AffinityTerm:
        selector = term.namespace_selector
        if selector.is_empty or selector is NOTHING:
            return term
        named = {ns.name for ns in self._cluster.objects.all(Namespace) if selector.matches(ns.metadata.labels)}
        return AffinityTerm(
            term.topology_key, term.selector, term.namespaces | named, NOTHING if self._replaces_selectors else selector
        )

    def _all_of_these(self, terms: tuple[AffinityTerm, ...]) -> CountedTerms:
        """Return the column of pods that match all of these (resolved) terms."""
        if len(terms) == 1:
            return self._each_of_these(terms)
        found, first = TermSum(terms), terms[0]
        anywhere = any(term.namespace_selector.matches({}) for term in terms)
        column = self._cluster.pod_index.column(
            ("all", terms),
            found.holds,
            None if anywhere else first.namespaces,
            first.selector.exact,
            of_all=found.hold_all,
            size=len(terms),
        )
        return CountedTerms(found, column)

    def _each_of_these(self, terms: tuple[AffinityTerm, ...], weights: tuple[int, ...] = ()) -> CountedTerms:
        """Return the column of pods that match any of these (resolved) terms; a pod counts once per matching term."""
        found = TermSum(terms, weights)
        anywhere = any(term.namespace_selector.matches({}) for term in terms)
        column = self._cluster.pod_index.column(
            ("each", tuple((t.selector, t.namespaces, t.namespace_selector) for t in terms), weights),
            found.count,
            None if anywhere else frozenset().union(*(term.namespaces for term in terms)),
            terms[0].selector.exact if len(terms) == 1 else (),
            of_all=found.count_all,
            size=len(terms),
        )
        return CountedTerms(found, column)

    # ---- what would help ---------------------------------------------------------------------------------------

    def facts(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterable[str]:
        return facts(pod.pod, self._cluster)

    def remedies(self, state: CycleState, pod: PodInfo, nodes: NodeRows) -> Iterator[Remedy]:
        found: AffinityFilterState | None = state.read(self.name)
        if found is None:
            return
        some = nodes.subset(np.arange(min(FEW, len(nodes))))
        is_met = self._meets_affinity(found, some) if found.terms.required_affinity else np.ones(len(some), np.bool_)
        anti = [found.anti_affinity.positive(some, term.topology_key) for term in found.terms.required_anti_affinity]
        for i, node in enumerate(some.infos):
            broken = [number for number, mask in enumerate(anti) if mask[i]]
            if not is_met[i]:
                yield from without_affinity(pod.pod)
            elif broken:
                yield from without_anti_affinity(pod.pod, broken)
            else:
                yield from without_objectors(pod.pod, node, self._cluster)

    def events_to_register(self) -> Sequence[EventRegistration]:
        about_pods = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
        about_nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (
            on(EventResource.POD, about_pods, self._after_pod_change),
            on(EventResource.NODE, about_nodes, self._after_node_change),
        )

    def _terms(self, pod: Pod) -> AffinityTerms:
        return self._cluster.info(pod).shape.terms(pod.namespace)

    def _after_pod_change(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A pod that affinity wants was added, one that anti-affinity avoids was deleted, or labels changed to that
        effect.

        A pod that affinity wants must match all terms at once. Until 1.36 so must one that anti-affinity avoids: a pod
        that matches only some of its terms wakes no pod, though it may have been in the way.
        """
        if old is not None and new is not None and new.uid == pod.uid and self._own_labels_wake:
            return Hint.QUEUE
        for each in (old, new):
            if isinstance(each, Pod) and not self._is_placed(each):
                return Hint.SKIP
        terms = self._terms(pod)
        wanted, unwanted = terms.required_affinity, terms.required_anti_affinity
        if old is not None and new is not None:
            has_come = not _means(wanted, old) and _means(wanted, new)
            return _hint(has_come or (self._avoids(unwanted, old) and not self._avoids(unwanted, new)))
        if new is not None:
            return _hint(_means(wanted, new))
        assert isinstance(old, Pod)
        objected = self._deleted_objectors_wake and self._avoids(self._terms(old).required_anti_affinity, pod)
        return _hint(objected or self._avoids(unwanted, old))

    def _is_placed(self, pod: Pod) -> bool:
        return bool(pod.spec.node_name or (self._nominated_wake and pod.status.nominated_node_name))

    def _avoids(self, terms: tuple[AffinityTerm, ...], pod: Object) -> bool:
        if self._any_term_wakes:
            return any(term.matches(pod.namespace, pod.labels, {}) for term in terms)
        return _means(terms, pod)

    def _after_node_change(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        """A node has joined a domain with possible matching pods, or left one with pods to avoid."""
        assert new is not None
        terms = self._terms(pod)
        if old is None:
            has_key = any(term.topology_key in new.labels for term in terms.required_affinity)
            return _hint(has_key or bool(terms.required_anti_affinity))
        for term in terms.required_affinity:
            after = new.labels.get(term.topology_key)
            if after is not None and after != old.labels.get(term.topology_key):
                return Hint.QUEUE
        for term in terms.required_anti_affinity:
            before = old.labels.get(term.topology_key)
            if before is not None and before != new.labels.get(term.topology_key):
                return Hint.QUEUE
        return Hint.SKIP


def _terms_of(other: PodInfo) -> AffinityTerms:
    """Return another pod's terms; a pod whose selectors do not parse counts without them, also in dry runs."""
    try:
        return other.shape.terms(other.pod.metadata.namespace)
    except ParseError:
        return NO_TERMS


def _grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, tuple[T, ...]]:
    """Terms grouped by what they have in common, in the order of arrival."""
    groups: dict[K, list[T]] = {}
    for key, term in pairs:
        groups.setdefault(key, []).append(term)
    return {key: tuple(terms) for key, terms in groups.items()}


def _matches_all(terms: tuple[AffinityTerm, ...], namespace: str, labels: dict[str, str]) -> bool:
    return bool(terms) and all(term.matches(namespace, labels, {}) for term in terms)


def _first(ids: Ints | None, rejected: NDArray[np.bool_], number: int) -> Ints:
    """Mark the newly rejected nodes."""
    if ids is None:
        return rejected.astype(np.int64) * number
    ids[rejected & (ids == 0)] = number
    return ids


def _all_of(masks: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    mask = masks[0]
    for more in masks[1:]:
        mask = mask & more
    return mask


def _means(terms: tuple[AffinityTerm, ...], pod: Object) -> bool:
    return _matches_all(terms, pod.namespace, pod.labels)


def _hint(helps: bool) -> Hint:
    return Hint.QUEUE if helps else Hint.SKIP


# ---- remedies for a pod that other pods repel, or that waits for pods to be near to
# ------------------------------------

MAX_BLOCKERS = 3


def facts(pod: Pod, cluster: ClusterState) -> Iterator[str]:
    """Yield, for each required affinity without a matching pod, that there is none, or only in other namespaces."""
    for term in _affinity(pod).required:
        try:
            compiled = compile_term(term, pod.namespace)
        except ParseError:
            continue
        text = selector_text(term.label_selector)
        alike = [other.cls for other in cluster.pods() if compiled.selector.matches(other.cls.labels)]
        if not alike:
            yield f"no pod has {text}" if term.label_selector else "a pod affinity without labelSelector matches no pod"
        elif not any(
            compiled.matches(cls.namespace, cls.labels, cluster.namespace_labels(cls.namespace)) for cls in alike
        ):
            spaces = sorted({cls.namespace for cls in alike})
            more = f" and {len(spaces) - MAX_VALUES} more" if len(spaces) > MAX_VALUES else ""
            yield f"pods with {text} are only in the namespace {', '.join(spaces[:MAX_VALUES])}{more}"
        else:
            fact = missing_label_fact(term.topology_key, [node.labels for node in cluster.nodes().infos])
            if fact:
                yield fact


def without_affinity(pod: Pod) -> Iterator[Remedy]:
    """Yield removals of one of the pod's required affinity terms, or all of them."""
    terms = _affinity(pod).required
    yield from _without_terms(terms, range(len(terms)), is_anti=False)


def without_anti_affinity(pod: Pod, broken: Sequence[int]) -> Iterator[Remedy]:
    """Yield removals of one of the broken anti-affinity terms, or all of these."""
    yield from _without_terms(_anti_affinity(pod).required, broken, is_anti=True)


def without_objectors(pod: Pod, node: NodeInfo, cluster: ClusterState) -> Iterator[Remedy]:
    """Yield the running pods whose anti-affinity repels the pod from the node."""
    objectors = [other.pod for other in _objectors(pod, node, cluster)]
    if 0 < len(objectors) <= MAX_BLOCKERS:
        keys = ", ".join(other.key for other in objectors)
        text = f"without {keys}, whose anti-affinity keeps this pod away from {node.name}"
        yield (Change(text, "removePod", 4.0 + 2.0 * len(objectors), removes=tuple(objectors)),)


def _affinity(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity.pod_affinity if pod.spec.affinity is not None else None) or PodAffinity()


def _anti_affinity(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None) or PodAffinity()


def _without_terms(terms: Sequence[PodAffinityTerm], which: Sequence[int], *, is_anti: bool) -> Iterator[Remedy]:
    for i in which:
        yield (_without_term(i, terms[i], is_anti=is_anti),)
    if len(which) > 1:  # the last one first, so that the numbers of the others hold
        yield tuple(_without_term(i, terms[i], is_anti=is_anti) for i in reversed(which))


def _without_term(index: int, term: PodAffinityTerm, *, is_anti: bool) -> Change:
    def edit(pod: Pod) -> None:
        del (_anti_affinity(pod) if is_anti else _affinity(pod)).required[index]

    what = "anti-affinity" if is_anti else "affinity"
    text = f"without the required {what} term on {term.topology_key} ({selector_text(term.label_selector)})"
    return Change(text, "podAntiAffinity" if is_anti else "podAffinity", 4.0, edit=edit)


def _objectors(pod: Pod, node: NodeInfo, cluster: ClusterState) -> Iterator[PodInfo]:
    """Yield running pods whose required anti-affinity matches this pod, and whose domain includes the node."""
    namespace_labels = cluster.namespace_labels(pod.namespace)
    nodes = cluster.table.nodes
    for other in cluster.pods():
        labels = nodes[other.pod.spec.node_name].labels
        for term in other.terms.required_anti_affinity:
            value = node.labels.get(term.topology_key)
            is_near = value is not None and labels.get(term.topology_key) == value
            if is_near and term.matches(pod.namespace, pod.labels, namespace_labels):
                yield other
                break
