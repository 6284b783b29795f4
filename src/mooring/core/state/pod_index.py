"""Pods and (anti-)affinity terms counted per node, in columns that are updated with every pod."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.core.state.columns import LabelColumn, sum_by_domain
from mooring.core.state.node_info import NodeInfo
from mooring.core.state.node_table import NodeTable
from mooring.core.state.pod_info import AffinityTerm, PodClass, PodInfo
from mooring.core.state.sharing import Forkable

Predicate = Callable[[PodClass], int]  # how often a pod of the class counts, mostly once or not at all
Bucket = tuple[str, ...]

EVERYWHERE: Bucket = ()
NONE: Mapping[CountColumn, int] = {}
# selectors with a column; the least recently used is dropped and counted again when needed
MAX_COLUMNS = 4096
MAX_SINCE = 1024  # changes of a fork after which it counts its columns itself


class _Tally:
    """A column summed over the domains of a label, valid for one state of the rows and the label."""

    __slots__ = ("by_domain", "generation", "label_version")

    def __init__(self, by_domain: NDArray[np.int64], generation: int, label_version: int) -> None:
        self.by_domain = by_domain  # [domain]
        self.generation = generation
        self.label_version = label_version


class CountColumn:
    """A number per node, kept by name and, once it has been read, also in row order and by domain."""

    __slots__ = ("_dense", "_generation", "_tallies", "counts", "is_kept", "table", "total")

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.counts: dict[str, int] = {}  # by name of the node
        self.total = 0
        self.is_kept = True  # updated with the pods; not once the index has dropped it
        self._dense: NDArray[np.int64] | None = None  # [node]
        self._generation = -1
        self._tallies: dict[LabelColumn, _Tally] = {}

    def copy(self, table: NodeTable) -> CountColumn:
        """Return a copy over a fork of the table, in the rows that this one has."""
        copy = CountColumn(table)
        copy.counts, copy.total = dict(self.counts), self.total
        copy._dense, copy._generation = self.dense().copy(), self._generation
        return copy

    def add(self, node: NodeInfo, amount: int) -> None:
        count = self.counts.get(node.name, 0) + amount
        if count:
            self.counts[node.name] = count
        else:
            self.counts.pop(node.name, None)
        self.total += amount
        row, generation = node.row, self.table.generation
        if row < 0:
            return
        if self._dense is not None and self._has_rows():
            self._dense[row] += amount
        for label, tally in self._tallies.items():
            # An outdated column stays so and is counted again when it is read; versions are never reused.
            if tally.generation == generation and tally.label_version == label.version:
                domain = label.ids[row]
                if domain >= 0:
                    tally.by_domain[domain] += amount

    def add_all(self, counts: Mapping[str, int], times: int = 1) -> None:
        """Add to a column that has not been read yet."""
        known = self.counts
        for name, count in counts.items():
            known[name] = known.get(name, 0) + count * times
        self.total += sum(counts.values()) * times

    def add_before(self, name: str, row: int, amount: int) -> None:
        """Add to a copy in whose rows the fork may have moved since; ``row`` is that of the copied column."""
        self.counts[name] = self.counts.get(name, 0) + amount
        if not self.counts[name]:
            del self.counts[name]
        self.total += amount
        assert self._dense is not None, "it was copied with the rest"
        if row >= 0:
            self._dense[row] += amount

    def _has_rows(self) -> bool:
        """Report whether the column is in the table's rows, after following them if they have moved once."""
        generation, moved = self.table.generation, self.table.moved
        if self._dense is not None and self._generation != generation:
            if moved is not None and moved[0] == self._generation:
                self._dense, self._generation = self._dense.take(moved[1]), generation
            else:
                self._dense = None
        return self._dense is not None

    def dense(self) -> NDArray[np.int64]:
        """The column over the table's rows; do not write to it."""
        if self._dense is None or not self._has_rows():
            dense = np.zeros(len(self.table), np.int64)
            rows, counts = self._by_row()
            dense[rows] = counts
            self._dense, self._generation = dense, self.table.generation
        assert self._dense is not None
        return self._dense

    def by_domain(self, label: LabelColumn) -> NDArray[np.int64]:
        """Return the column summed over the domains of a label of the same table, in a new array."""
        size, generation = len(label.values), self.table.generation
        tally = self._tallies.get(label)
        if tally is None or tally.generation != generation or tally.label_version != label.version:
            if self._dense is not None and self._has_rows():
                by_domain = sum_by_domain(label.ids, self._dense, size)
            else:
                rows, counts = self._by_row()
                by_domain = sum_by_domain(label.ids[rows], counts, size)
            tally = self._tallies[label] = _Tally(by_domain, generation, label.version)
        elif len(tally.by_domain) < size:  # values that no node has
            grown = np.zeros(size, np.int64)
            grown[: len(tally.by_domain)] = tally.by_domain
            tally.by_domain = grown
        return tally.by_domain.copy()

    def _by_row(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows with a count, and their counts; without nodes that the table does not have."""
        n, nodes = len(self.counts), self.table.nodes
        rows = np.fromiter((nodes[name].row for name in self.counts), np.int64, n)
        counts = np.fromiter(self.counts.values(), np.int64, n)
        known = rows >= 0
        return (rows, counts) if known.all() else (rows[known], counts[known])


class _Column(NamedTuple):
    counts: CountColumn
    predicate: Predicate
    buckets: tuple[Bucket, ...]
    size: int  # number of selectors in the predicate


class PodIndex(Forkable):
    """Counts pods by class, and by any predicate over classes that a plugin has asked about.

    A class and a column find each other through buckets (a namespace, or a namespace and one label), so that neither a
    new class nor a new column has to be compared with all of the others.
    """

    def __init__(self, table: NodeTable) -> None:
        super().__init__()
        self._table = table
        self._nodes: dict[PodClass, dict[str, int]] = {}  # how many pods of a class run on which node
        self._classes: dict[Bucket, dict[int, PodClass]] = {}  # those with at least one pod with a node
        self._columns: OrderedDict[Hashable, _Column] = OrderedDict()  # least recently used first
        self._columns_in: dict[Bucket, dict[Hashable, _Column]] = {}
        self._columns_size = 0  # of all of them together
        self._columns_of: dict[PodClass, dict[CountColumn, int]] = {}  # that count the class, and how often
        self._own_classes: set[PodClass] | None = None  # whose numbers are not shared with a fork; None: all of them
        self._version = 0  # grows with every change
        self._base: tuple[PodIndex, int] | None = None  # what this is a fork of, and its version then
        self._since: list[tuple[PodClass, str, int]] = []  # what has changed in the fork since

    def fork(self, table: NodeTable) -> PodIndex:
        """Return the index for a fork of the table. Its columns are copied or counted on first use."""
        fork = PodIndex(table)
        fork._nodes, fork._classes = self._nodes, self._classes
        fork._base = self, self._version
        self.share_with(fork, 1)
        return fork

    def _own(self) -> None:
        if not self.must_copy(1):
            if not self.is_fork and not self.has_forks():
                self._own_classes = None
            return
        self._nodes = dict(self._nodes)
        self._classes = {bucket: dict(members) for bucket, members in self._classes.items()}
        self._own_classes = set()

    def add(self, cls: PodClass, node: NodeInfo, amount: int = 1) -> None:
        """Count ``amount`` pods of this class on the node (negative to remove them)."""
        if self.shared:
            self._own()
        nodes = self._nodes.get(cls)
        if nodes is None:
            nodes = self._nodes[cls] = {}
            self._enter(cls)
        elif self._own_classes is not None and cls not in self._own_classes:
            nodes = self._nodes[cls] = dict(nodes)
            self._own_classes.add(cls)
        count = nodes.get(node.name, 0) + amount
        if count > 0:
            nodes[node.name] = count
        else:
            nodes.pop(node.name, None)
        for column, times in self._columns_of.get(cls, NONE).items():
            column.add(node, amount * times)
        self._version += 1
        if self._base is not None:
            self._since.append((cls, node.name, amount))
            if len(self._since) > MAX_SINCE:
                self._base, self._since = None, []
        if not nodes:
            self._leave(cls)

    def _enter(self, cls: PodClass) -> None:
        if self._own_classes is not None:
            self._own_classes.add(cls)
        columns = {}
        for bucket in _buckets_of(cls):
            self._classes.setdefault(bucket, {})[cls.id] = cls
            for column in self._columns_in.get(bucket, {}).values():
                times = column.predicate(cls)
                if times:
                    columns[column.counts] = times
        if columns:
            self._columns_of[cls] = columns

    def _leave(self, cls: PodClass) -> None:
        for bucket in _buckets_of(cls):
            members = self._classes[bucket]
            del members[cls.id]
            if not members:
                del self._classes[bucket]
        del self._nodes[cls]
        self._columns_of.pop(cls, None)
        if self._own_classes is not None:
            self._own_classes.discard(cls)

    def column(
        self,
        key: Hashable,
        predicate: Predicate,
        namespaces: Iterable[str] | None = None,
        exact: Iterable[tuple[str, str]] = (),
        *,
        of_all: Callable[[Sequence[PodClass]], Iterable[int]] | None = None,
        size: int = 1,
    ) -> CountColumn:
        """Return the column of pods for which ``predicate(class)`` holds; equal ``key``s share a column.

        ``namespaces`` (None: all) and ``exact`` restrict the search: the predicate must imply them. One with ``size``
        selectors has a faster way for many classes together, ``of_all``.
        """
        known = self._columns.get(key)
        if known is not None:
            self._columns.move_to_end(key)
            return known.counts
        copied = self._copied(key, predicate)
        counts = CountColumn(self._table) if copied is None else copied
        column = _Column(counts, predicate, self._narrowest(namespaces, tuple(exact)), size)
        for bucket in column.buckets:
            self._columns_in.setdefault(bucket, {})[key] = column
        classes = [cls for bucket in column.buckets for cls in self._classes.get(bucket, {}).values()]
        for cls, times in zip(classes, of_all(classes) if of_all else map(predicate, classes), strict=True):
            if times:
                self._columns_of.setdefault(cls, {})[column.counts] = times
                if copied is None:
                    counts.add_all(self._nodes[cls], times)
        self._columns[key] = column
        self._columns_size += size
        while self._columns_size > MAX_COLUMNS and len(self._columns) > 1:
            self._forget(*self._columns.popitem(last=False))
        return column.counts

    def _copied(self, key: Hashable, predicate: Predicate) -> CountColumn | None:
        """The column of what this is a fork of, with what has changed in the fork; None if there is none to copy."""
        if self._base is None:
            return None
        base, version = self._base
        known = base._columns.get(key)
        if known is None or base._version != version or base._table.is_stale:
            return None
        column, nodes = known.counts.copy(self._table), base._table.nodes
        for cls, name, amount in self._since:
            times = predicate(cls)
            if times:
                info = nodes.get(name)
                column.add_before(name, -1 if info is None else info.row, amount * times)
        return column

    def times(self, cls: PodClass, column: CountColumn) -> int | None:
        """Return how often a pod of the class counts in a column; None if that is not cached here."""
        if not column.is_kept or cls not in self._nodes:
            return None
        return self._columns_of.get(cls, NONE).get(column, 0)

    def _narrowest(self, namespaces: Iterable[str] | None, exact: tuple[tuple[str, str], ...]) -> tuple[Bucket, ...]:
        """Return for each namespace the bucket with the fewest classes that still includes all possible matches."""
        if namespaces is None:
            return (EVERYWHERE,)
        found: list[Bucket] = []
        for namespace in set(namespaces):
            choices: list[Bucket] = [(namespace, key, value) for key, value in exact] or [(namespace,)]
            found.append(min(choices, key=lambda bucket: len(self._classes.get(bucket, ()))))
        return tuple(found)

    def _forget(self, key: Hashable, column: _Column) -> None:
        column.counts.is_kept = False
        self._columns_size -= column.size
        for bucket in column.buckets:
            del self._columns_in[bucket][key]
            if not self._columns_in[bucket]:
                del self._columns_in[bucket]
            for cls in self._classes.get(bucket, {}).values():
                self._columns_of.get(cls, {}).pop(column.counts, None)


def _buckets_of(cls: PodClass) -> Iterator[Bucket]:
    yield EVERYWHERE
    yield (cls.namespace,)
    for key, value in cls.labels.items():
        yield (cls.namespace, key, value)


# ---- the (anti-)affinity terms of running pods, each distinct term once, with its number per node
# ---------------------

ANY_NAMESPACE = "*"  # not a valid namespace
MAX_REMEMBERED = 1024  # classes with cached matching terms; all are dropped beyond that
Matches = list[tuple["IndexedTerm", CountColumn]]


class TermKind(Enum):
    """Kinds of terms of existing pods."""

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
    """Distinct terms with their columns, indexed by namespace and a label that a matching pod must have."""

    def __init__(self, table: NodeTable) -> None:
        super().__init__()
        self._table = table
        self.version = 0  # grows when a term is added or removed
        self._columns: dict[IndexedTerm, CountColumn] = {}
        self._buckets: dict[Bucket, dict[IndexedTerm, CountColumn]] = {}
        self._is_behind = False  # a fork whose columns are still over its parent's table
        self._matches: dict[int, tuple[int, Mapping[str, str], Matches]] = {}  # by class: version, labels, answer

    def fork(self, table: NodeTable) -> TermIndex:
        """The same terms over a fork of the table."""
        fork = TermIndex(table)
        fork.version, fork._columns, fork._buckets = self.version, self._columns, self._buckets
        fork._is_behind = True
        self.share_with(fork, 1)
        return fork

    def _own(self) -> None:
        """Copy shared data. A fork also does so before it reads: its columns belong to another table."""
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
                for bucket in _term_buckets(term.term):
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
            for bucket in _term_buckets(term.term):
                del self._buckets[bucket][term]
                if not self._buckets[bucket]:
                    del self._buckets[bucket]
            self.version += 1

    @property
    def is_empty(self) -> bool:
        """Report whether no pod with a node has a term."""
        return not self._columns

    def matching(self, cls: PodClass, namespace_labels: Mapping[str, str]) -> Matches:
        """Return the terms of existing pods that match a pod of this class; do not change the list."""
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


def _term_buckets(term: AffinityTerm) -> list[Bucket]:
    """Return the buckets of a term: by namespace, and by a label that a matching pod must have."""
    namespaces = term.namespaces if term.namespace_selector.matches_nothing else {ANY_NAMESPACE}
    label = term.selector.exact[:1]
    return [(namespace, *label[0]) if label else (namespace,) for namespace in namespaces]
