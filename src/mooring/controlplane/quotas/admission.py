"""Admission: which pending workloads get quota, in which flavors, and which workloads they preempt.

A cycle takes the head of each ClusterQueue, assigns flavors to all of them as if each were alone, and goes through them
in order, the one that borrows least first. What a workload takes counts for those after it. Kueue: pkg/scheduler.

Not modelled: admission checks and provisioning, topology-aware scheduling, partial admission, elastic jobs, waiting for
ready pods, fair sharing by past usage, several clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mooring.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodSpec
from mooring.api.selectors import first_untolerated
from mooring.controlplane.quotas.preemption import Search, Victim
from mooring.controlplane.quotas.tree import Amounts, FlavorResource, QuotaNode
from mooring.controlplane.quotas.workloads import (
    ANY,
    NEVER,
    PODS,
    PREEMPTION_OVER_BORROWING,
    STRICT_FIFO,
    TRY_NEXT,
    Assignment,
    ClusterQueue,
    Flavor,
    Mode,
    PodSet,
    ResourceGroup,
    Workload,
)
from mooring.core.state.node_selector import NodeRequirements
from mooring.core.state.requests import written

_Level = tuple[Mode, int]  # how well it fits, and from how high up is borrowed
_WORST, _BEST = (Mode.NO_FIT, 1 << 30), (Mode.FIT, 0)


@dataclass(frozen=True, slots=True)
class Cycle:
    """Result of one cycle."""

    admitted: Sequence[Workload] = ()
    preempted: Sequence[tuple[Workload, Victim]] = ()  # the preemptor, and its victim
    has_changed: bool = False  # whether another cycle could have another result


@dataclass(slots=True)
class _Entry:
    workload: Workload
    assignment: Assignment
    victims: list[Victim]


@dataclass(slots=True)
class Quotas:
    """All ClusterQueues with their workloads."""

    queues: dict[str, ClusterQueue] = field(default_factory=dict)
    flavors: dict[str, Flavor] = field(default_factory=dict)
    is_fair: bool = False
    cycles: int = 0

    # ---- changes of workloads -------------------------------------------------------------------------------------

    def submit(self, workload: Workload) -> None:
        """Add a workload that waits for quota."""
        workload.assignment, workload.is_evicted = None, False
        self.queues[workload.queue].pending[workload.key] = workload

    def restore(self, workload: Workload) -> None:
        """Count a workload that has quota already."""
        self.queues[workload.queue].charge(workload)

    def remove(self, workload: Workload) -> None:
        """Remove a workload that has finished or was deleted, and release its quota."""
        queue = self.queues[workload.queue]
        queue.pending.pop(workload.key, None)
        queue.waiting.pop(workload.key, None)
        if workload.key in queue.admitted:
            queue.discharge(workload)
            self._freed(queue)

    def released(self, workload: Workload) -> None:
        """Release the quota of a preempted workload whose pods are gone; it waits again."""
        queue = self.queues[workload.queue]
        queue.discharge(workload)
        self.submit(workload)
        self._freed(queue)

    def _freed(self, queue: ClusterQueue) -> None:
        """Reconsider everything that waits in this tree of cohorts."""
        root = queue.node.root
        for node in [root] if root.is_queue else root.queues():
            each = self.queues[node.name]
            each.generation += 1
            self.look_again(each)

    def look_again(self, queue: ClusterQueue) -> None:
        queue.pending.update(queue.waiting)
        queue.waiting.clear()

    # ---- cycles ------------------------------------------------------------------------------------------------

    def run(self, now: float) -> Iterator[Cycle]:
        """Run cycles until nothing changes. A caller's reaction to a cycle belongs to the next one."""
        while True:
            done = self.cycle(now)
            yield done
            if not done.has_changed:
                return

    def cycle(self, now: float) -> Cycle:
        self.cycles += 1
        heads = [head for name in sorted(self.queues) if (head := self.queues[name].head()) is not None]
        before = [(head.key, head.last.tried if head.last else None) for head in heads]
        for head in heads:
            del self.queues[head.queue].pending[head.key]
        entries = [_Entry(head, *self._assigned(head)) for head in heads]
        usages = {id(node): (node, dict(node.usage)) for node in self._nodes()}
        admitted: list[Workload] = []
        preempted: list[tuple[Workload, Victim]] = []
        claimed: dict[str, Victim] = {}
        for entry in self._ordered(entries):
            self._process(entry, claimed, admitted, preempted)
        for node, usage in usages.values():
            node.usage = usage
        for workload in admitted:
            workload.reserved = now
            self.queues[workload.queue].charge(workload)
        new = [(by, victim) for by, victim in preempted if not victim.workload.is_evicted]
        for _, victim in new:
            victim.workload.is_evicted = True
        after = [
            (head.key, head.last.tried if head.last else None)
            for name in sorted(self.queues)
            if (head := self.queues[name].head()) is not None
        ]
        return Cycle(admitted, new, bool(admitted or new or after != before))

    def _nodes(self) -> Iterator[QuotaNode]:
        for queue in self.queues.values():
            yield queue.node
            yield from queue.node.ancestors()

    def _process(
        self,
        entry: _Entry,
        claimed: dict[str, Victim],
        admitted: list[Workload],
        preempted: list[tuple[Workload, Victim]],
    ) -> None:
        workload, assignment = entry.workload, entry.assignment
        queue = self.queues[workload.queue]
        workload.message = assignment.message
        needs_victims = Mode.NO_FIT < assignment.mode < Mode.FIT
        if assignment.mode is Mode.NO_FIT:
            self._requeue(workload, at_once=False)
        elif needs_victims and not entry.victims:
            if queue.reclaim != ANY:  # what it cannot always take back is kept for it
                queue.node.add(_reserved(assignment, queue))
            self._requeue(workload, at_once=False)
        elif any(victim.workload.key in claimed for victim in entry.victims):
            workload.message = "Workload has overlapping preemption targets with another workload"
            self._requeue(workload, at_once=True)
        elif not self._fits(queue, assignment, [*claimed.values(), *entry.victims]):
            workload.message = "Workload no longer fits after processing another workload"
            self._requeue(workload, at_once=True)
        else:
            queue.node.add(assignment.usage)
            if not needs_victims:
                workload.assignment, workload.last, workload.message = assignment, None, ""
                queue.first = "" if queue.first == workload.key else queue.first
                admitted.append(workload)
                return
            claimed.update((victim.workload.key, victim) for victim in entry.victims)
            preempted += [(workload, victim) for victim in entry.victims]
            workload.message += f". Pending the preemption of {len(entry.victims)} workload(s)"
            workload.last, queue.first = None, workload.key
            self._requeue(workload, at_once=True)

    def _requeue(self, workload: Workload, *, at_once: bool) -> None:
        """Let a workload wait for the next cycle or for a change; for a change, together with equal ones."""
        queue = self.queues[workload.queue]
        has_more = workload.last is not None and workload.last.has_more_flavors
        if at_once or has_more or queue.strategy == STRICT_FIFO:
            queue.pending[workload.key] = workload
            return
        queue.waiting[workload.key] = workload
        for equal in [each for each in queue.pending.values() if each.shape == workload.shape]:
            queue.waiting[equal.key] = queue.pending.pop(equal.key)
            equal.message = workload.message

    def _fits(self, queue: ClusterQueue, assignment: Assignment, victims: Iterable[Victim]) -> bool:
        gone = {victim.workload.key: victim.workload for victim in victims}
        for each in gone.values():
            assert each.assignment is not None
            self.queues[each.queue].node.remove(each.assignment.usage)
        fits = all(max(0, queue.node.available(of)) >= amount for of, amount in assignment.usage.items())
        for each in gone.values():
            assert each.assignment is not None
            self.queues[each.queue].node.add(each.assignment.usage)
        return fits

    # ---- the order of a cycle ----------------------------------------------------------------------------------

    def _ordered(self, entries: list[_Entry]) -> Iterator[_Entry]:
        if not self.is_fair:
            yield from sorted(entries, key=lambda e: (e.assignment.borrowing, -e.workload.priority, e.workload.created))
            return
        left = {entry.workload.queue: entry for entry in entries}
        while left:
            first = self.queues[next(iter(left))].node
            winner = left[first.name] if first.parent is None else self._winner(first.root, left)
            assert winner is not None
            del left[winner.workload.queue]
            yield winner

    def _winner(self, cohort: QuotaNode, left: Mapping[str, _Entry]) -> _Entry | None:
        """Return the entry whose node right below the cohort would have the smallest share with it."""
        found = []
        for child in [*(c for c in cohort.children if not c.is_queue), *(c for c in cohort.children if c.is_queue)]:
            entry = left.get(child.name) if child.is_queue else self._winner(child, left)
            if entry is None:
                continue
            leaf = self.queues[entry.workload.queue].node
            leaf.add(entry.assignment.usage)
            share = child.share()
            leaf.remove(entry.assignment.usage)
            wanted = {of for of, amount in entry.assignment.usage.items() if amount > 0}
            borrows = not share.borrowed.isdisjoint(wanted)
            found.append(((borrows, share.key, -entry.workload.priority, entry.workload.created), entry))
        return min(found, key=lambda each: each[0])[1] if found else None

    # ---- flavors -----------------------------------------------------------------------------------------------

    def _assigned(self, workload: Workload) -> tuple[Assignment, list[Victim]]:
        queue = self.queues[workload.queue]
        if self.cycles - workload.last_cycle > 1 and queue.generation > workload.last_generation:
            workload.last = None
        assignment = self._assign(workload, queue)
        victims: list[Victim] = []
        if Mode.NO_FIT < assignment.mode < Mode.FIT:
            usage = {of: amount for of, amount in assignment.usage.items() if of[1] != PODS and amount}  # as Kueue
            victims = Search(self.queues, workload, usage, assignment.to_preempt, self.is_fair).victims()
        workload.last, workload.last_cycle, workload.last_generation = assignment, self.cycles, queue.generation
        return assignment, victims

    def _assign(self, workload: Workload, queue: ClusterQueue) -> Assignment:
        made: list[Mapping[str, str]] = []
        tried: list[Mapping[str, int]] = []
        usage: Amounts = {}
        mode, borrowing = Mode.FIT, 0
        reasons: list[str] = []
        contested: set[FlavorResource] = set()
        for i, pod_set in enumerate(workload.pod_sets):
            found, last, why = self._assign_pod_set(workload, queue, i, usage)
            if why:
                reasons.append(f"couldn't assign flavors to pod set {pod_set.name}: {', '.join(sorted(why))}")
                mode = min([mode, *(level for _, (level, _) in found.values())]) if found else Mode.NO_FIT
            for name, (flavor, (level, height)) in found.items():
                amount = pod_set.count if name == PODS else pod_set.requests[name]
                usage[flavor, name] = usage.get((flavor, name), 0) + amount
                borrowing = max(borrowing, height)
                if level is not Mode.FIT:
                    contested.add((flavor, name))
            made.append({name: flavor for name, (flavor, _) in found.items()})
            tried.append(last)
            if mode is Mode.NO_FIT:
                break
        return Assignment(made, usage, mode, borrowing, frozenset(contested), tried, reasons)

    def _assign_pod_set(
        self, workload: Workload, queue: ClusterQueue, i: int, usage: Amounts
    ) -> tuple[dict[str, tuple[str, _Level]], dict[str, int], list[str]]:
        """Return flavors by resource (empty if one has none), the last ones tried, and why others were rejected."""
        pod_set = workload.pod_sets[i]
        requests = dict(pod_set.requests)
        if queue.group_of(PODS) is not None:
            requests[PODS] = pod_set.count
        flavors: dict[str, tuple[str, _Level]] = {}
        tried: dict[str, int] = {}
        reasons: list[str] = []
        for resource in sorted(requests):
            group = queue.group_of(resource)
            if resource in flavors or (group is None and not requests[resource]):
                continue
            if group is None:
                return {}, {}, [f"resource {resource} unavailable in ClusterQueue"]
            asked = {name: amount for name, amount in requests.items() if name in group.resources}
            start = _first(workload, i, resource)
            found, last, why = self._flavor(workload, queue, group, asked, usage, pod_set, start)
            if not found:
                return {}, {}, why or [f"no flavor is left to try for {resource}"]
            flavors.update(found)
            tried.update(dict.fromkeys(found, last))
            reasons += why
        return flavors, tried, reasons

    def _flavor(
        self,
        workload: Workload,
        queue: ClusterQueue,
        group: ResourceGroup,
        asked: Mapping[str, int],
        before: Amounts,
        pod_set: PodSet,
        start: int,
    ) -> tuple[dict[str, tuple[str, _Level]], int, list[str]]:
        """Return the best flavor of a group: for each resource with its level; the last one tried; and why others were
        rejected.
        """
        best: dict[str, tuple[str, _Level]] = {}
        best_level: _Level = _WORST
        reasons: list[str] = []
        last = -1
        for i in range(start, len(group.flavors)):
            last, name = i, group.flavors[i]
            refusal = self._refusal(name, pod_set.spec)
            if refusal:
                reasons.append(refusal)
                continue
            found: dict[str, tuple[str, _Level]] = {}
            worst: _Level = _BEST
            for resource in sorted(asked):
                level, why = self._level(workload, queue, (name, resource), before.get((name, resource), 0), asked)
                reasons += why
                worst = level if self._is_better(worst, level, queue) else worst
                found[resource] = name, level
            if not self._goes_further(worst, queue):
                best, best_level = found, worst
                break
            if self._is_better(worst, best_level, queue):
                best, best_level = found, worst
        if last == len(group.flavors) - 1:
            last = -1  # begin with the first one again
        return best, last, [] if best_level[0] is Mode.FIT else reasons

    def _refusal(self, flavor_name: str, spec: PodSpec) -> str:
        flavor = self.flavors.get(flavor_name)
        if flavor is None:
            return f"flavor {flavor_name} not found"
        taint = first_untolerated(flavor.taints, [*spec.tolerations, *flavor.tolerations])
        if taint is not None:
            return f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {flavor_name}"
        if not NodeRequirements(_about(spec, flavor.labels)).matches("", flavor.labels):
            return f"flavor {flavor_name} doesn't match node affinity"
        return ""

    def _level(
        self, workload: Workload, queue: ClusterQueue, of: FlavorResource, before: int, asked: Mapping[str, int]
    ) -> tuple[_Level, list[str]]:
        """Return how well a resource fits in a flavor, including what earlier pod sets take of it."""
        flavor, resource = of
        node = queue.node
        amount = before + asked[resource]
        most, available = node.potential(of), max(0, node.available(of))
        if amount > most:
            return (Mode.NO_FIT, 0), [
                f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests "
                f"({written(resource, before)}) + current podset request ({written(resource, asked[resource])}) > "
                f"maximum capacity ({written(resource, most)})"
            ]
        height, may_reclaim = node.height_that_fits(of, amount)
        if amount <= available:
            return (Mode.FIT, height), []
        why = [
            f"insufficient unused quota for {resource} in flavor {flavor}, {written(resource, amount - available)} "
            "more needed"
        ]
        while_borrowing = queue.borrow_policy != NEVER or (self.is_fair and queue.reclaim != NEVER)
        if node.quota(of).nominal >= amount or may_reclaim or while_borrowing:
            search = Search(self.queues, workload, {of: amount}, frozenset([of]), self.is_fair)
            return search.possibility(of), why
        return (Mode.NO_FIT, height), why

    def _is_better(self, one: _Level, other: _Level, queue: ClusterQueue) -> bool:
        if Mode.NO_FIT in (one[0], other[0]):
            return one[0] is not Mode.NO_FIT
        if (one[0] is Mode.NO_CANDIDATES) != (other[0] is Mode.NO_CANDIDATES):
            return other[0] is Mode.NO_CANDIDATES
        keys = [(-each[0], each[1]) for each in (one, other)]
        if queue.preference == PREEMPTION_OVER_BORROWING:
            keys = [(height, mode) for mode, height in keys]
        return keys[0] < keys[1]

    def _goes_further(self, level: _Level, queue: ClusterQueue) -> bool:
        """Report whether the next flavor is tried, too."""
        mode, height = level
        if mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
            return True
        if mode in (Mode.PREEMPT, Mode.RECLAIM) and queue.when_can_preempt == TRY_NEXT:
            return True
        return height > 0 and queue.when_can_borrow == TRY_NEXT


def _first(workload: Workload, i: int, resource: str) -> int:
    """Return the first flavor to try: after those of the last attempt."""
    if workload.last is None or i >= len(workload.last.tried) or resource not in workload.last.tried[i]:
        return 0
    return workload.last.tried[i][resource] + 1


def _reserved(assignment: Assignment, queue: ClusterQueue) -> Amounts:
    """Return what is reserved for a waiting workload: up to the queue's quota, or to its borrowing limit."""
    kept = {}
    for of, amount in assignment.usage.items():
        quota, used = queue.node.quota(of), queue.node.usage.get(of, 0)
        if assignment.borrowing == 0:
            kept[of] = max(0, min(amount, quota.nominal - used))
        elif quota.borrowing_limit is None:
            kept[of] = amount
        else:
            kept[of] = min(amount, quota.nominal + quota.borrowing_limit - used)
    return kept


def _about(spec: PodSpec, labels: Mapping[str, str]) -> PodSpec:
    """Return the pod's requirements on these labels; others are left to the scheduler."""
    selector = {key: value for key, value in (spec.node_selector or {}).items() if key in labels}
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    terms: list[NodeSelectorTerm] = []
    for term in affinity.required.node_selector_terms if affinity and affinity.required else ():
        kept = [each for each in term.match_expressions if each.key in labels]
        if not kept:  # one term that any flavor meets
            terms = []
            break
        terms.append(NodeSelectorTerm(match_expressions=kept))
    required = Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=terms))) if terms else None
    return PodSpec(node_selector=selector, affinity=required)
