"""The (anti-)affinity terms of the pods that run, each distinct term once, with its number per node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

import msgspec

from mooring.state.node_info import NodeInfo
from mooring.state.node_table import NodeTable
from mooring.state.pod_index import CountColumn
from mooring.state.pod_info import AffinityTerm, PodClass, PodInfo
from mooring.state.sharing import Forkable

Bucket = tuple[str, ...]
ANY_NAMESPACE = "*"  # not a valid namespace, so it cannot be mistaken for one
MAX_REMEMBERED = 1024  # classes whose matching terms are kept; all are forgotten when there are more
Matches = list[tuple["IndexedTerm", CountColumn]]


class TermKind(Enum):
    """What a term of an existing pod means for a pod that comes."""

    REQUIRED_AFFINITY = "required affinity"
    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    PREFERRED_AFFINITY = "preferred affinity"
    PREFERRED_ANTI_AFFINITY = "preferred anti-affinity"


class IndexedTerm(msgspec.Struct, frozen=True):
    kind: TermKind
    term: AffinityTerm
    weight: int = 0


def terms_of(pod: PodInfo) -> Iterator[IndexedTerm]:
    """All terms of a pod, as often as it has them."""
    terms = pod.terms
    for term in terms.required_affinity:
        yield IndexedTerm(TermKind.REQUIRED_AFFINITY, term)
    for term in terms.required_anti_affinity:
        yield IndexedTerm(TermKind.REQUIRED_ANTI_AFFINITY, term)
    for weighted in terms.preferred_affinity:
        yield IndexedTerm(TermKind.PREFERRED_AFFINITY, weighted.term, weighted.weight)
    for weighted in terms.preferred_anti_affinity:
        yield IndexedTerm(TermKind.PREFERRED_ANTI_AFFINITY, weighted.term, weighted.weight)


class TermIndex(Forkable):
    """Distinct terms with their columns, found through a namespace and a label that a pod must carry to be meant."""

    def __init__(self, table: NodeTable) -> None:
        super().__init__()
        self._table = table
        self.version = 0  # grows when a term appears or disappears
        self._columns: dict[IndexedTerm, CountColumn] = {}
        self._buckets: dict[Bucket, dict[IndexedTerm, CountColumn]] = {}
        self._is_behind = False  # a fork whose columns are still over the table of its parent
        self._matches: dict[int, tuple[int, Mapping[str, str], Matches]] = {}  # by class: version, labels, answer

    def fork(self, table: NodeTable) -> TermIndex:
        """The same terms over a fork of the table."""
        fork = TermIndex(table)
        fork.version, fork._columns, fork._buckets = self.version, self._columns, self._buckets
        fork._is_behind = True
        self.share_with(fork, 1)
        return fork

    def _own(self) -> None:
        """Copy what is shared. A fork does so before it reads, too: its columns are over another table."""
        if not self.must_copy(1):
            return
        self._is_behind = False
        self._columns = {term: column.copy(self._table) for term, column in self._columns.items()}
        self._buckets = {
            bucket: {term: self._columns[term] for term in members} for bucket, members in self._buckets.items()
        }
        self._matches = {}

    def add(self, pod: PodInfo, node: NodeInfo) -> None:
        if self.shared:
            self._own()
        for term in terms_of(pod):
            column = self._columns.get(term)
            if column is None:
                column = self._columns[term] = CountColumn(self._table)
                for bucket in _buckets_of(term.term):
                    self._buckets.setdefault(bucket, {})[term] = column
                self.version += 1
            column.add(node, 1)

    def remove(self, pod: PodInfo, node: NodeInfo) -> None:
        if self.shared:
            self._own()
        for term in terms_of(pod):
            column = self._columns[term]
            column.add(node, -1)
            if column.counts:
                continue
            del self._columns[term]
            for bucket in _buckets_of(term.term):
                del self._buckets[bucket][term]
                if not self._buckets[bucket]:
                    del self._buckets[bucket]
            self.version += 1

    @property
    def is_empty(self) -> bool:
        """Whether no pod on a node has a term."""
        return not self._columns

    def matching(self, cls: PodClass, namespace_labels: Mapping[str, str]) -> Matches:
        """The terms of existing pods that mean a pod of this class; do not change the list."""
        if self.is_empty:
            return []
        if self._is_behind:
            self._own()
        known = self._matches.get(cls.id)
        if known is not None and known[0] == self.version and known[1] == namespace_labels:
            return known[2]
        if len(self._matches) >= MAX_REMEMBERED:
            self._matches.clear()
        found = self._find(cls, namespace_labels)
        self._matches[cls.id] = (self.version, dict(namespace_labels), found)
        return found

    def _find(self, cls: PodClass, namespace_labels: Mapping[str, str]) -> Matches:
        found: dict[IndexedTerm, CountColumn] = {}
        for namespace in (cls.namespace, ANY_NAMESPACE):
            for bucket in ((namespace,), *((namespace, key, value) for key, value in cls.labels.items())):
                found.update(self._buckets.get(bucket, {}))
        return [
            (indexed, column)
            for indexed, column in found.items()
            if indexed.term.matches(cls.namespace, cls.labels, namespace_labels)
        ]


def _buckets_of(term: AffinityTerm) -> list[Bucket]:
    """Where a pod that the term means will look for it: by namespace, and by a label that it must have."""
    namespaces = term.namespaces if term.namespace_selector.matches_nothing else {ANY_NAMESPACE}
    label = term.selector.exact[:1]
    return [(namespace, *label[0]) if label else (namespace,) for namespace in namespaces]
