"""How many pods that a selector means run on each node: columns kept in step with every pod that comes and goes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.state.pod_info import PodClass

if TYPE_CHECKING:
    from mooring.state.node_info import NodeInfo
    from mooring.state.node_table import LabelColumn

Predicate = Callable[[PodClass], bool]
Bucket = tuple[str, ...]

EVERYWHERE: Bucket = ()
MAX_COLUMNS = 4096  # selectors kept; the least recently used goes first and is counted anew when it returns


class _Tally:
    """A column summed over the domains of a label, good for one state of the rows and the label."""

    __slots__ = ("by_domain", "generation", "label_version")

    def __init__(self, by_domain: NDArray[np.int64], generation: int, label_version: int) -> None:
        self.by_domain = by_domain  # [domain]
        self.generation = generation
        self.label_version = label_version


class CountColumn:
    """A number per node, kept by node and, while somebody reads it, also in row order and by topology domain."""

    __slots__ = ("_dense", "_generation", "_tallies", "counts", "total", "version")

    def __init__(self) -> None:
        self.counts: dict[NodeInfo, int] = {}
        self.total = 0
        self.version = 0  # grows with every change, for those who derive something from the column
        self._dense: NDArray[np.int64] | None = None  # [node]
        self._generation = -1
        self._tallies: dict[LabelColumn, _Tally] = {}

    def add(self, node: NodeInfo, amount: int) -> None:
        count = self.counts.get(node, 0) + amount
        if count:
            self.counts[node] = count
        else:
            self.counts.pop(node, None)
        self.total += amount
        self.version += 1
        if self._dense is not None and node.row >= 0 and self._generation == node.table_generation:
            self._dense[node.row] += amount
        for label, tally in self._tallies.items():
            # One that is behind stays behind and is counted anew when it is read: neither number ever goes back.
            if tally.generation == node.table_generation and tally.label_version == label.version and node.row >= 0:
                domain = label.ids[node.row]
                if domain >= 0:
                    tally.by_domain[domain] += amount

    def add_all(self, counts: Mapping[NodeInfo, int]) -> None:
        """Add to a column that nobody has read yet."""
        known = self.counts
        for node, count in counts.items():
            known[node] = known.get(node, 0) + count
        self.total += sum(counts.values())
        self.version += 1

    def dense(self, n: int, generation: int) -> NDArray[np.int64]:
        """The column over the nodes in the snapshot; do not write to it."""
        if self._dense is None or self._generation != generation:
            dense = np.zeros(n, np.int64)
            rows, counts = self._by_row()
            dense[rows] = counts
            self._dense, self._generation = dense, generation
        return self._dense

    def by_domain(self, label: LabelColumn, generation: int) -> NDArray[np.int64]:
        """The column summed over the domains of a label, in an array of the caller's own."""
        size = len(label.values)
        tally = self._tallies.get(label)
        if tally is None or tally.generation != generation or tally.label_version != label.version:
            tally = self._tallies[label] = _Tally(self._summed(label, size), generation, label.version)
        elif len(tally.by_domain) < size:  # values that no node has
            grown = np.zeros(size, np.int64)
            grown[: len(tally.by_domain)] = tally.by_domain
            tally.by_domain = grown
        return tally.by_domain.copy()

    def _summed(self, label: LabelColumn, size: int) -> NDArray[np.int64]:
        rows, counts = self._by_row()
        # Shifted by one so that nodes without the label are in a bin of their own. Sums stay far below 2**53.
        return np.bincount(label.ids[rows] + 1, weights=counts, minlength=size + 1)[1:].astype(np.int64)

    def _by_row(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows with a count, and their counts; not those of nodes that the table does not have."""
        n = len(self.counts)
        rows = np.fromiter((node.row for node in self.counts), np.int64, n)
        counts = np.fromiter(self.counts.values(), np.int64, n)
        known = rows >= 0
        return (rows, counts) if known.all() else (rows[known], counts[known])


class _Column(NamedTuple):
    counts: CountColumn
    predicate: Predicate
    buckets: tuple[Bucket, ...]


class PodIndex:
    """Counts pods by class, and by any predicate over classes that somebody has asked about.

    A class and a column find each other through buckets (a namespace, or a
    namespace and one label), so that neither a new class nor a new column has
    to be compared with all of the others.
    """

    def __init__(self) -> None:
        self._classes: dict[Bucket, dict[int, PodClass]] = {}  # those with at least one pod on a node
        self._columns: OrderedDict[Hashable, _Column] = OrderedDict()  # least recently used first
        self._columns_in: dict[Bucket, dict[Hashable, _Column]] = {}

    def add(self, cls: PodClass, node: NodeInfo, amount: int = 1) -> None:
        """Count ``amount`` pods of this class on the node (negative to take them away)."""
        if not cls.nodes and amount > 0:
            self._enter(cls)
        count = cls.nodes.get(node, 0) + amount
        if count > 0:
            cls.nodes[node] = count
        else:
            cls.nodes.pop(node, None)
        for column in cls.columns:
            column.add(node, amount)
        if not cls.nodes:
            self._leave(cls)

    def _enter(self, cls: PodClass) -> None:
        cls.columns = []
        for bucket in _buckets_of(cls):
            self._classes.setdefault(bucket, {})[cls.id] = cls
            for column in self._columns_in.get(bucket, {}).values():
                if column.predicate(cls):
                    cls.columns.append(column.counts)

    def _leave(self, cls: PodClass) -> None:
        for bucket in _buckets_of(cls):
            members = self._classes[bucket]
            del members[cls.id]
            if not members:
                del self._classes[bucket]
        cls.columns = []

    def column(
        self,
        key: Hashable,
        predicate: Predicate,
        namespaces: Iterable[str] | None = None,
        exact: Iterable[tuple[str, str]] = (),
    ) -> CountColumn:
        """The column of pods for which ``predicate(class)`` holds; ``key`` says when two askers mean the same.

        ``namespaces`` (None: all) and ``exact`` say where to look: the predicate must imply them.
        """
        known = self._columns.get(key)
        if known is not None:
            self._columns.move_to_end(key)
            return known.counts
        column = _Column(CountColumn(), predicate, self._narrowest(namespaces, tuple(exact)))
        for bucket in column.buckets:
            self._columns_in.setdefault(bucket, {})[key] = column
            for cls in self._classes.get(bucket, {}).values():
                if predicate(cls):
                    cls.columns.append(column.counts)
                    column.counts.add_all(cls.nodes)
        self._columns[key] = column
        if len(self._columns) > MAX_COLUMNS:
            self._forget(*self._columns.popitem(last=False))
        return column.counts

    def _narrowest(self, namespaces: Iterable[str] | None, exact: tuple[tuple[str, str], ...]) -> tuple[Bucket, ...]:
        """For each namespace the bucket with the fewest classes that still holds all that can match."""
        if namespaces is None:
            return (EVERYWHERE,)
        found: list[Bucket] = []
        for namespace in set(namespaces):
            choices: list[Bucket] = [(namespace, key, value) for key, value in exact] or [(namespace,)]
            found.append(min(choices, key=lambda bucket: len(self._classes.get(bucket, ()))))
        return tuple(found)

    def _forget(self, key: Hashable, column: _Column) -> None:
        for bucket in column.buckets:
            del self._columns_in[bucket][key]
            if not self._columns_in[bucket]:
                del self._columns_in[bucket]
            for cls in self._classes.get(bucket, {}).values():
                if column.counts in cls.columns:
                    cls.columns.remove(column.counts)


def _buckets_of(cls: PodClass) -> Iterator[Bucket]:
    yield EVERYWHERE
    yield (cls.namespace,)
    for key, value in cls.labels.items():
        yield (cls.namespace, key, value)
