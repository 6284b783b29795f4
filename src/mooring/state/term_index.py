"""The (anti-)affinity terms of the pods that run, each distinct term once, with its number per node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from mooring.state.pod_index import CountColumn
from mooring.state.pod_info import AffinityTerm, PodClass, PodInfo

if TYPE_CHECKING:
    from mooring.state.node_info import NodeInfo


class TermKind(Enum):
    """What a term of an existing pod means for a pod that comes."""

    REQUIRED_AFFINITY = "required affinity"
    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    PREFERRED_AFFINITY = "preferred affinity"
    PREFERRED_ANTI_AFFINITY = "preferred anti-affinity"


@dataclass(frozen=True, slots=True)
class IndexedTerm:
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


class TermIndex:
    """Distinct terms with their columns; ``version`` grows when a term appears or disappears."""

    def __init__(self) -> None:
        self.columns: dict[IndexedTerm, CountColumn] = {}
        self.version = 0

    def add(self, pod: PodInfo, node: NodeInfo) -> None:
        for term in terms_of(pod):
            column = self.columns.get(term)
            if column is None:
                column = self.columns[term] = CountColumn()
                self.version += 1
            column.add(node, 1)

    def remove(self, pod: PodInfo, node: NodeInfo) -> None:
        for term in terms_of(pod):
            column = self.columns[term]
            column.add(node, -1)
            if not column.counts:
                del self.columns[term]
                self.version += 1

    def matching(self, cls: PodClass, namespace_labels: dict[str, str]) -> list[tuple[IndexedTerm, CountColumn]]:
        """The terms of existing pods that mean a pod of this class."""
        return [
            (indexed, column)
            for indexed, column in self.columns.items()
            if indexed.term.matches(cls.namespace, cls.labels, namespace_labels)
        ]
