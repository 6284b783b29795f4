"""Preemption for quota: the smallest sufficient set of victims of a workload.

The usage of candidates is taken from the tree and put back: nothing has changed when a function returns. Kueue:
pkg/scheduler/preemption.

| without fair sharing | with fair sharing |
|---|---|
| candidates leave in one order while their queues borrow | the queue with the largest share gives up one first |
| hierarchical reclaim first, then by priority, then own queue | shares before and after decide (rules S2-a and S2-b) |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from mooring.controlplane.quotas.tree import FlavorResource, QuotaNode, Share
from mooring.controlplane.quotas.workloads import (
    ANY,
    LOWER_OR_NEWER,
    LOWER_PRIORITY,
    NEVER,
    ClusterQueue,
    Mode,
    Workload,
)

IN_QUEUE, RECLAIM = "InClusterQueue", "InCohortReclamation"
FAIR, WHILE_BORROWING = "InCohortFairSharing", "InCohortReclaimWhileBorrowing"


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload to preempt with the reason of its Preempted condition."""

    workload: Workload
    reason: str


class _Variant(Enum):
    """The condition under which a workload of another queue is a candidate."""

    HIERARCHICAL = RECLAIM
    WITHOUT_BORROWING = "only if the preemptor does not borrow afterwards"
    BORROWING = WHILE_BORROWING

    @property
    def reason(self) -> str:
        return RECLAIM if self is _Variant.WITHOUT_BORROWING else self.value


@dataclass(frozen=True, slots=True)
class _Candidate:
    workload: Workload
    variant: _Variant | None = None  # None: of the same queue
    below: QuotaNode | None = None  # the lowest cohort that both queues are in


@dataclass(slots=True)
class Search:
    """Searches the victims of one workload that needs ``usage``, of which ``contested`` does not fit now."""

    queues: Mapping[str, ClusterQueue]
    workload: Workload
    usage: Mapping[FlavorResource, int]
    contested: frozenset[FlavorResource]
    is_fair: bool = False
    queue: ClusterQueue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = self.queues[self.workload.queue]

    def victims(self) -> list[Victim]:
        """Return the workloads to preempt; empty if preemption does not help."""
        found = self._fair() if self.is_fair else self._classical()
        for victim in found:
            self._put_back(victim.workload)
        return found

    def possibility(self, of: FlavorResource) -> tuple[Mode, int]:
        """Return what preemption could do for one resource, and from which height it would borrow then."""
        found = self.victims()
        for victim in found:
            self._take(victim.workload)
        height, _ = self.queue.node.height_that_fits(of, self.usage[of])
        for victim in found:
            self._put_back(victim.workload)
        if not found:
            return Mode.NO_CANDIDATES, height
        is_own = any(victim.workload.queue == self.queue.name for victim in found)
        return (Mode.PREEMPT if is_own else Mode.RECLAIM), height

    def _take(self, workload: Workload) -> None:
        self.queues[workload.queue].discharge(workload)

    def _put_back(self, workload: Workload) -> None:
        self.queues[workload.queue].charge(workload)

    def _fits(self, may_borrow: bool = True) -> bool:
        node = self.queue.node
        return all(
            (may_borrow or not node.is_borrowing(of, amount)) and amount <= max(0, node.available(of))
            for of, amount in self.usage.items()
        )

    def _without_needless(self, found: list[Victim], may_borrow: bool) -> list[Victim]:
        """Restore victims, the last but one first, while the workload still fits."""
        kept = list(found)
        for i in range(len(kept) - 2, -1, -1):
            self._put_back(kept[i].workload)
            if self._fits(may_borrow):
                kept[i] = kept[-1]
                kept.pop()
            else:
                self._take(kept[i].workload)
        return kept

    def _allows(self, policy: str, candidate: Workload) -> bool:
        mine = self.workload
        if policy == LOWER_PRIORITY:
            return mine.priority > candidate.priority
        if policy == LOWER_OR_NEWER:
            is_newer = mine.priority == candidate.priority and mine.created < candidate.created
            return mine.priority > candidate.priority or is_newer
        return policy == ANY

    def _order(self, workload: Workload) -> tuple[bool, bool, int, float, str]:
        """Sort evicted ones first, then other queues', lower priorities, and later admissions."""
        is_own = workload.queue == self.queue.name
        return not workload.is_evicted, is_own, workload.priority, -workload.reserved, workload.uid

    # ---- without fair sharing ----------------------------------------------------------------------------------

    def _classical(self) -> list[Victim]:
        hierarchical, by_priority = self._of_other_queues()
        own = [_Candidate(each) for each in self._allowed(self.queue, self.queue.within_queue)]
        lists = [
            sorted(each, key=lambda candidate: self._order(candidate.workload))
            for each in (hierarchical, by_priority, own)
        ]
        evicted = [each for some in lists for each in some if each.workload.is_evicted]
        candidates = [*evicted, *(each for some in lists for each in some if not each.workload.is_evicted)]
        for may_borrow in self._attempts(hierarchical, by_priority):
            found: list[Victim] = []
            for candidate in candidates:
                if not self._is_valid(candidate, may_borrow):
                    continue
                self._take(candidate.workload)
                found.append(Victim(candidate.workload, candidate.variant.reason if candidate.variant else IN_QUEUE))
                if self._fits(may_borrow):
                    return self._without_needless(found, may_borrow)
            for victim in found:
                self._put_back(victim.workload)
        return []

    def _attempts(self, hierarchical: list[_Candidate], by_priority: list[_Candidate]) -> tuple[bool, ...]:
        """Return whether the workload may borrow, in the order of attempts: without borrowing there are more
        candidates.
        """
        may_not_borrow = self.queue.borrow_policy == NEVER
        node = self.queue.node
        is_under = all(node.quota(of).nominal > node.usage.get(of, 0) for of in self.contested)
        if not (hierarchical or by_priority) or (may_not_borrow and not is_under):
            return (True,)
        return (False, True) if may_not_borrow and not hierarchical else (True, False)

    def _is_valid(self, candidate: _Candidate, may_borrow: bool) -> bool:
        """Check a candidate again, because earlier victims can make it invalid: only queues and cohorts that still
        borrow lose more.
        """
        if candidate.variant is None:
            return True
        if may_borrow and candidate.variant is _Variant.WITHOUT_BORROWING:
            return False
        node = self.queues[candidate.workload.queue].node
        if node.is_within(self.contested):
            return False
        for cohort in node.ancestors():
            if cohort is candidate.below:
                return True
            if cohort.is_within(self.contested):
                return False
        return True

    def _of_other_queues(self) -> tuple[list[_Candidate], list[_Candidate]]:
        """Return candidates over which the workload has an advantage by its place in the tree, and the others."""
        hierarchical: list[_Candidate] = []
        by_priority: list[_Candidate] = []
        node = self.queue.node
        if self.queue.reclaim == NEVER:
            return hierarchical, by_priority
        has_advantage, left = _fits_at(node, self.usage)
        below: QuotaNode | None = None
        for cohort in node.ancestors():
            for queue in self._borrowing(cohort, below):
                for each in self._allowed(queue, self.queue.reclaim):
                    variant = _Variant.HIERARCHICAL if has_advantage else self._variant(each)
                    (hierarchical if has_advantage else by_priority).append(_Candidate(each, variant, cohort))
            fits, left = _fits_at(cohort, left)
            has_advantage = has_advantage or fits
            below = cohort
        return hierarchical, by_priority

    def _borrowing(self, cohort: QuotaNode, skipped: QuotaNode | None) -> Iterator[ClusterQueue]:
        """Yield the queues in a subtree that borrow contested resources, in cohorts that do so, too."""
        cohorts = [child for child in cohort.children if not child.is_queue]
        for child in cohorts:
            if child is not skipped and not child.is_within(self.contested):
                yield from self._borrowing(child, skipped)
        for child in cohort.children:
            if child.is_queue and child is not self.queue.node and not child.is_within(self.contested):
                yield self.queues[child.name]

    def _allowed(self, queue: ClusterQueue, policy: str) -> list[Workload]:
        if policy == NEVER:
            return []
        return [each for each in queue.admitted.values() if each.uses(self.contested) and self._allows(policy, each)]

    def _variant(self, candidate: Workload) -> _Variant:
        threshold = self.queue.borrow_threshold
        is_above = candidate.priority >= self.workload.priority or (
            threshold is not None and candidate.priority > threshold
        )
        return _Variant.WITHOUT_BORROWING if self.queue.borrow_policy == NEVER or is_above else _Variant.BORROWING

    # ---- with fair sharing -------------------------------------------------------------------------------------

    def _fair(self) -> list[Victim]:
        candidates = self._allowed(self.queue, self.queue.within_queue)
        root = self.queue.node.root
        for node in root.queues() if self.queue.reclaim != NEVER else ():
            if node is not self.queue.node and any(node.is_borrowing(of) for of in self.contested):
                candidates += self._allowed(self.queues[node.name], self.queue.reclaim)
        candidates.sort(key=self._order)
        self.queue.node.add(self.usage)  # shares are compared as if it were admitted
        found: list[Victim] = []
        again: list[Workload] = []
        fits = self._first_rule(candidates, found, again) or self._second_rule(again, found)
        self.queue.node.remove(self.usage)
        if not fits:
            for victim in found:
                self._put_back(victim.workload)
            return []
        return self._without_needless(found, may_borrow=True)

    def _fits_now(self) -> bool:
        self.queue.node.remove(self.usage)
        fits = self._fits()
        self.queue.node.add(self.usage)
        return fits

    def _first_rule(self, candidates: Iterable[Workload], found: list[Victim], again: list[Workload]) -> bool:
        """Apply S2-a: a workload is preempted if its queue still has at least the preemptor's share afterwards.

        Returns whether that is enough. ``again`` gets the workloads that stay.
        """
        order = _Order(self, candidates)
        is_entitled = not any(self.queue.node.is_borrowing(of) for of in self.contested)
        for queue in order:
            left = order.left[queue.name]
            if queue is self.queue or is_entitled:
                victim = Victim(left.pop(0), IN_QUEUE if queue is self.queue else RECLAIM)
                if self._gives_up(found, victim):
                    return True
                continue
            mine, theirs = self._level_with(queue)
            ours = mine.share()
            if ours.is_endless and not theirs.share().is_endless:
                again += left
                left.clear()
            while left:
                each = left.pop(0)
                assert each.assignment is not None
                queue.node.remove(each.assignment.usage)
                passes = ours.key <= theirs.share().key
                queue.node.add(each.assignment.usage)
                if not passes:
                    again.append(each)
                    continue
                if self._gives_up(found, Victim(each, FAIR)):
                    return True
                break  # another queue may have the largest share now
        return False

    def _second_rule(self, candidates: Iterable[Workload], found: list[Victim]) -> bool:
        """Apply S2-b: preempt a workload if its queue has a larger share than the preemptor's now, one per queue."""
        order = _Order(self, candidates)
        for queue in order:
            mine, theirs = self._level_with(queue)
            each = order.left[queue.name].pop(0)
            order.dropped.add(queue.node)
            if mine.share().key < theirs.share().key and self._gives_up(found, Victim(each, FAIR)):
                return True
        return False

    def _gives_up(self, found: list[Victim], victim: Victim) -> bool:
        """Take a victim; return whether that is enough."""
        self._take(victim.workload)
        found.append(victim)
        return self._fits_now()

    def _level_with(self, queue: ClusterQueue) -> tuple[QuotaNode, QuotaNode]:
        """Return the nodes to compare: the preemptor's and the queue's, right below their lowest common cohort."""
        mine = {id(node) for node in self.queue.node.ancestors()}
        common = next(node for node in queue.node.ancestors() if id(node) in mine)
        return _below(common, self.queue.node), _below(common, queue.node)


def _fits_at(node: QuotaNode, usage: Mapping[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
    """Report whether this is within the node's quota, and what of it its parent would have to give."""
    fits = all(node.total.get(of, 0) >= node.usage.get(of, 0) + amount for of, amount in usage.items())
    return fits, {of: max(0, amount - node.kept_free(of)) for of, amount in usage.items()}


def _below(cohort: QuotaNode, node: QuotaNode) -> QuotaNode:
    while node.parent is not cohort:
        assert node.parent is not None
        node = node.parent
    return node


class _Order:
    """The queue that loses a workload next: from the root down, the child with the largest share."""

    def __init__(self, search: Search, candidates: Iterable[Workload]) -> None:
        self.search = search
        self.left: dict[str, list[Workload]] = {}
        for each in candidates:
            self.left.setdefault(each.queue, []).append(each)
        self.dropped: set[QuotaNode] = set()
        self._mine = {id(node) for node in search.queue.node.ancestors()}

    def __iter__(self) -> Iterator[ClusterQueue]:
        node = self.search.queue.node
        if node.parent is None:
            while node not in self.dropped and self.left.get(node.name):
                yield self.search.queue
            return
        root = node.root
        while root not in self.dropped:
            found = self._next(root)
            if found is not None:
                yield self.search.queues[found.name]

    def _next(self, cohort: QuotaNode) -> QuotaNode | None:
        """Return the queue; None if some nodes turned out to have no candidates."""
        queue: QuotaNode | None = None
        other: QuotaNode | None = None
        for child in cohort.children:
            if child in self.dropped:
                continue
            share = child.share()
            if child.is_queue:
                may = share.borrowed or child is self.search.queue.node
                if not may or not self.left.get(child.name):
                    self.dropped.add(child)
                elif queue is None or self._gives_before(child, share, queue):
                    queue = child
            elif not share.borrowed and id(child) not in self._mine:
                self.dropped.add(child)
            elif other is None or share.key >= other.share().key:
                other = child
        if queue is None and other is None:
            self.dropped.add(cohort)
            return None
        if other is not None and (queue is None or other.share().key >= queue.share().key):
            return self._next(other)
        return queue

    def _gives_before(self, child: QuotaNode, share: Share, best: QuotaNode) -> bool:
        theirs = best.share()
        if share.key != theirs.key:
            return share.key > theirs.key
        order: Callable[[QuotaNode], tuple[bool, bool, int, float, str]] = lambda node: self.search._order(  # noqa: E731
            self.left[node.name][0]
        )
        return order(child) < order(best)
