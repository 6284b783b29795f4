"""The tree of quotas: cohorts, and ClusterQueues as its leaves.

A node's quota is its own and what its children lend. What a child keeps for itself (its quota above its lending limit)
is invisible to its parent; usage beyond that is counted in the parent, too. Kueue: pkg/cache/scheduler/resource_node.go
and fair_sharing.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from mooring.api.errors import InputError

FlavorResource: TypeAlias = tuple[str, str]  # a flavor and a resource
Amounts: TypeAlias = dict[FlavorResource, int]  # CPU in thousandths, everything else in units


@dataclass(frozen=True, slots=True)
class Quota:
    """A node's quota of a resource in a flavor. Without a limit it may borrow or lend everything."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


_NONE = Quota(0)


@dataclass(eq=False, slots=True)
class QuotaNode:
    """A cohort or a ClusterQueue."""

    name: str
    is_queue: bool = False
    weight: float = 1.0  # in fair sharing
    quotas: dict[FlavorResource, Quota] = field(default_factory=dict)
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    total: Amounts = field(default_factory=dict)  # its own quota, and what its children lend
    usage: Amounts = field(default_factory=dict)

    def quota(self, of: FlavorResource) -> Quota:
        return self.quotas.get(of, _NONE)

    def ancestors(self) -> Iterator[QuotaNode]:
        """Yield its cohort, that one's cohort, and so on up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> QuotaNode:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def queues(self) -> Iterator[QuotaNode]:
        """Yield the ClusterQueues below a cohort."""
        for child in self.children:
            if child.is_queue:
                yield child
            else:
                yield from child.queues()

    @property
    def height(self) -> int:
        """Distance to the furthest leaf."""
        if self.is_queue:
            return 0
        below = [child.height + 1 for child in self.children if not child.is_queue]
        return max([min(len(self.children), 1), *below])

    # ---- quota and usage ---------------------------------------------------------------------------------------

    def kept(self, of: FlavorResource) -> int:
        """Return what is never lent to the parent."""
        limit = self.quota(of).lending_limit
        return 0 if limit is None else max(0, self.total.get(of, 0) - limit)

    def kept_free(self, of: FlavorResource) -> int:
        """Return the unused part of that."""
        return max(0, self.kept(of) - self.usage.get(of, 0))

    def available(self, of: FlavorResource) -> int:
        """Return how much more may be used here, including borrowing; below 0 if quotas have shrunk."""
        used = self.usage.get(of, 0)
        if self.parent is None:
            return self.total.get(of, 0) - used
        of_parent = self.parent.available(of)
        limit = self.quota(of).borrowing_limit
        if limit is not None:
            kept = self.kept(of)
            shared = self.total.get(of, 0) - kept
            of_parent = min(shared - max(0, used - kept) + limit, of_parent)
        return self.kept_free(of) + of_parent

    def potential(self, of: FlavorResource) -> int:
        """Return how much could be used here if nothing were in use."""
        total = self.total.get(of, 0)
        if self.parent is None:
            return total
        most = self.kept(of) + self.parent.potential(of)
        limit = self.quota(of).borrowing_limit
        return most if limit is None else min(total + limit, most)

    def is_borrowing(self, of: FlavorResource, more: int = 0) -> bool:
        """Report whether usage, with this much more, is above the quota."""
        quota = self.quota(of).nominal if self.is_queue else self.total.get(of, 0)
        return quota < self.usage.get(of, 0) + more

    def is_within(self, resources: Iterable[FlavorResource]) -> bool:
        """Report whether usage is within the quota of all these resources."""
        return all(self.total.get(of, 0) >= self.usage.get(of, 0) for of in resources)

    def add(self, amounts: Mapping[FlavorResource, int]) -> None:
        for of, amount in amounts.items():
            self._add(of, amount)

    def _add(self, of: FlavorResource, amount: int) -> None:
        free = self.kept_free(of)
        self.usage[of] = self.usage.get(of, 0) + amount
        if self.parent is not None and amount > free:
            self.parent._add(of, amount - free)

    def remove(self, amounts: Mapping[FlavorResource, int]) -> None:
        for of, amount in amounts.items():
            self._remove(of, amount)

    def _remove(self, of: FlavorResource, amount: int) -> None:
        in_parent = self.usage.get(of, 0) - self.kept(of)
        self.usage[of] = self.usage.get(of, 0) - amount
        if self.parent is not None and in_parent > 0:
            self.parent._remove(of, min(amount, in_parent))

    def height_that_fits(self, of: FlavorResource, amount: int) -> tuple[int, bool]:
        """Return the height of the lowest subtree with room for this, and whether there is a larger one."""
        if self.parent is None or not self.is_borrowing(of, amount):
            return 0, self.parent is not None
        amount -= self.kept_free(of)
        for node in self.ancestors():
            if not node.is_borrowing(of, amount):
                return node.height, node.parent is not None
            amount -= node.kept_free(of)
        return self.root.height, False

    # ---- fair sharing ------------------------------------------------------------------------------------------

    def share(self) -> Share:
        """Return the borrowed share of everything lendable; the resource with the largest share decides."""
        if self.parent is None:
            return Share(0.0, self.weight)
        borrowed: dict[str, int] = {}
        on = set()
        for of, total in self.total.items():
            more = self.usage.get(of, 0) - total
            if more > 0:
                borrowed[of[1]] = borrowed.get(of[1], 0) + more
                on.add(of)
        lendable: dict[str, int] = {}
        for of in self.root.total if borrowed else ():
            lendable[of[1]] = lendable.get(of[1], 0) + self.parent.potential(of)
        ratios = [more * 1000.0 / lendable[name] for name, more in borrowed.items() if lendable.get(name, 0) > 0]
        return Share(max(ratios, default=0.0), self.weight, frozenset(on))


@dataclass(frozen=True, slots=True)
class Share:
    """A node's dominant resource share. Lower is admitted first, higher is preempted first."""

    ratio: float
    weight: float = 1.0
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def key(self) -> tuple[bool, float]:
        """Sort key of shares. A borrowing node of weight 0 comes after all others."""
        if self.weight == 0 and self.ratio:
            return True, self.ratio
        return False, self.ratio / self.weight if self.ratio else 0.0

    @property
    def is_endless(self) -> bool:
        return self.weight == 0 and self.ratio != 0

    @property
    def value(self) -> float:
        return inf if self.is_endless else self.key[1]


def count_totals(root: QuotaNode) -> None:
    """Compute ``total`` from the leaves up, without changing usage."""
    root.total = {of: quota.nominal for of, quota in root.quotas.items()}
    for child in root.children:
        count_totals(child)
        for of, total in child.total.items():
            root.total[of] = root.total.get(of, 0) + total - child.kept(of)


def join(nodes: Iterable[QuotaNode], parents: Mapping[QuotaNode, QuotaNode]) -> None:
    """Build the trees and compute their totals. Raise InputError for a cycle of cohorts."""
    nodes = list(nodes)
    for node in nodes:
        node.parent, node.children = None, []
    for child, parent in parents.items():
        if parent is child or any(each is child for each in parent.ancestors()):
            raise InputError(f"Cohort {child.name}: parentName: {parent.name!r} is below it; cohorts must form a tree")
        child.parent = parent
        parent.children.append(child)
    for node in nodes:
        if node.parent is None:
            count_totals(node)
