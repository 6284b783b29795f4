"""The smallest changes that would let a refused pod run, each confirmed by the engine before it is told.

First one plugin at a time is silenced: the nodes that are feasible then have
only that plugin against them, and a single change may do. Where every node
has two or more against it, a few nodes that are close are repaired step by
step. The number of questions is bounded; on large clusters each costs about a
millisecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.engine.decision import Decision
from mooring.engine.proposals import Proposal, Question, closeness, max_skew, propose
from mooring.engine.what_if import Answer, Change, Exhausted, WhatIf
from mooring.framework.status import Status
from mooring.state.cluster import Cluster
from mooring.state.node_rows import NodeRows
from mooring.state.pod_info import PodInfo

Rows = NDArray[np.int64]

MAX_SUGGESTIONS = 8
ROWS_PER_PLUGIN = 8  # nodes for which proposals are made
TRIES_PER_PLUGIN = 8  # proposals that are tried
MAX_TWINS = 4  # further nodes on which the same change is tried
MAX_REPAIRS = 10  # nodes that are repaired step by step
MAX_STEPS = 5
MAX_EXTRA_SKEW = 512
MANY_NODES = 2000  # from here on a preemption is not tried for every priority
SILENCED_COST = 30.0


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Changes that together let the pod run, and on which nodes. Every one of them was tried."""

    changes: tuple[str, ...]
    kinds: tuple[str, ...]
    nodes: tuple[str, ...]
    cost: float
    about_node: bool = False  # the change is made on a node, which is then the one that fits
    also: tuple[str, ...] = ()  # other nodes on which the same change would do

    @property
    def text(self) -> str:
        what = " and ".join(self.changes)
        if self.about_node:
            return f"{what} (or {', '.join(self.also)})" if self.also else what
        if all(kind == "request" for kind in self.kinds):
            return f"{what} on {self.nodes[0]}" if len(self.nodes) == 1 else f"{what} on any of {len(self.nodes)} nodes"
        return f"{what}: {len(self.nodes)} more node{'s' if len(self.nodes) != 1 else ''}"


@dataclass(slots=True)
class Finder:
    """Looks for suggestions about one refused decision."""

    what_if: WhatIf
    decision: Decision
    found: list[tuple[Proposal, Suggestion]] = field(default_factory=list)
    _tried: set[tuple[str, ...]] = field(default_factory=set)

    def run(self) -> list[Suggestion]:
        with suppress(Exhausted):
            self._search()
        return self._best()

    def _search(self) -> None:
        answer = self.what_if.ask()
        base = answer.decision
        if answer.fits or base.statuses is None:
            return  # only a nomination or sampling stood in the way; or something broke, and no change is known
        nodes = self.what_if.cluster.nodes()
        plugins = self._refusers(base)
        silent: dict[str, Rows] = {}
        for plugin in plugins:
            silent[plugin] = self._rows(self.what_if.ask(without=plugin).nodes)
        for plugin, rows in silent.items():
            if len(rows):
                before = len(self.found)
                self._try_plugin(plugin, rows, base, nodes)
                if len(self.found) == before:
                    self._name_plugin(plugin, rows, nodes)
        if not any(proposal for proposal, _ in self.found):
            self._repair_some(answer)
        self._try_priority(len(nodes))

    @staticmethod
    def _refusers(decision: Decision) -> list[str]:
        assert decision.statuses is not None
        named = [status.plugin for status, _ in decision.statuses.groups() if status.plugin]
        return list(dict.fromkeys((*named, *sorted(decision.unschedulable_plugins))))

    def _rows(self, names: Sequence[str]) -> Rows:
        nodes = self.what_if.cluster.table.nodes
        return np.array([nodes[name].row for name in names], np.int64)

    def _question(self, node: str, status: Status, cluster: Cluster, changes: Proposal = ()) -> Question:
        pod = self.what_if.edited(changes)
        return Question(cluster, cluster.nodes(), pod, cluster.info(pod), cluster.table.nodes[node], status.reasons)

    # ---- one change --------------------------------------------------------------------------------------------

    def _try_plugin(self, plugin: str, rows: Rows, base: Decision, nodes: NodeRows) -> None:
        """Only this plugin is against these nodes: make proposals for some, and try the cheapest."""
        assert base.statuses is not None
        proposals: dict[tuple[str, ...], Proposal] = {}
        for row in self._sample(plugin, rows, base.pod, nodes):
            question = self._question(nodes.table.infos[row].name, base.statuses.at(row), self.what_if.cluster)
            if plugin == "PodTopologySpread":
                self._try_skew(question)
            for proposal in propose(plugin, question):
                proposals.setdefault(_key(proposal), proposal)
        twins: dict[tuple[str, ...], int] = {}
        tries = 0
        for proposal in sorted(proposals.values(), key=_cost):
            pattern = _pattern(proposal)
            is_twin = pattern in twins
            if tries >= TRIES_PER_PLUGIN or (is_twin and twins[pattern] >= MAX_TWINS):
                continue
            twins[pattern] = twins.get(pattern, 0) + 1
            tries += not is_twin
            self._try(proposal)

    @staticmethod
    def _sample(plugin: str, rows: Rows, pod: PodInfo, nodes: NodeRows) -> list[int]:
        """A few rows that stand for the others: the closest, and at least one of each set of taints and labels."""
        if plugin == "NodeResourcesFit":
            order = np.argsort(closeness(pod, nodes.subset(rows)), kind="stable")
            return [int(row) for row in rows[order][:ROWS_PER_PLUGIN]]
        if plugin == "TaintToleration":
            _, first = np.unique(nodes.taint_set[rows], return_index=True)
            return [int(row) for row in rows[np.sort(first)][:ROWS_PER_PLUGIN]]
        return [int(row) for row in rows[:ROWS_PER_PLUGIN]]

    def _try(self, proposal: Proposal) -> bool:
        key = _key(proposal)
        if not proposal or key in self._tried:
            return False
        self._tried.add(key)
        answer = self.what_if.ask(proposal)
        if not answer.fits:
            return False
        self._add(proposal, answer.nodes)
        return True

    def _add(self, proposal: Proposal, names: Sequence[str]) -> None:
        on_nodes = any(change.node or change.removes for change in proposal)
        suggestion = Suggestion(
            tuple(change.text for change in proposal),
            tuple(change.kind for change in proposal),
            tuple(names),
            _cost(proposal),
            on_nodes,
        )
        self.found.append((proposal, suggestion))

    def _try_skew(self, question: Question) -> None:
        """Find the smallest maxSkew that does, for each constraint in turn: up in doubling steps, then down."""
        node = question.node.name
        for i, constraint in enumerate(question.pod.spec.topology_spread_constraints):
            if constraint.when_unsatisfiable != "DoNotSchedule" or (f"skew {i}",) in self._tried:
                continue
            self._tried.add((f"skew {i}",))
            now, key = constraint.max_skew, constraint.topology_key
            low, high = now, now + 1
            while not (found := self.what_if.ask((max_skew(i, key, high, now),)).fits) and high - now < MAX_EXTRA_SKEW:
                low, high = high, now + 2 * (high - now)
            if not found or not node:
                continue
            while high - low > 1:
                middle = (low + high) // 2
                if self.what_if.ask((max_skew(i, key, middle, now),)).fits:
                    high = middle
                else:
                    low = middle
            self._try((max_skew(i, key, high, now),))

    def _name_plugin(self, plugin: str, rows: Rows, nodes: NodeRows) -> None:
        """Nobody knows what would please this plugin; that it is alone against these nodes is worth saying."""
        names = tuple(nodes.table.infos[row].name for row in rows.tolist())
        text = f"only {plugin} stands in the way"
        self.found.append(((), Suggestion((text,), ("plugin",), names, SILENCED_COST)))

    # ---- several changes ---------------------------------------------------------------------------------------

    def _repair_some(self, base: Answer) -> None:
        for node in self._representatives(base.decision, base.cluster.nodes()):
            self._repair(node, base)

    def _representatives(self, base: Decision, nodes: NodeRows) -> list[str]:
        """From each group of refusals the nodes that look closest, in turn, until there are enough."""
        assert base.statuses is not None
        groups = []
        for _, rows in base.statuses.groups():
            order = np.argsort(closeness(base.pod, nodes.subset(rows)), kind="stable")
            groups.append([int(row) for row in rows[order][:MAX_REPAIRS]])
        picked: list[int] = []
        for turn in range(MAX_REPAIRS):
            picked += [group[turn] for group in groups if turn < len(group)]
        return [nodes.table.infos[row].name for row in dict.fromkeys(picked)][:MAX_REPAIRS]

    def _repair(self, node: str, answer: Answer) -> None:
        """Remove one objection after the other, the cheapest way each, until the node takes the pod."""
        changes: Proposal = ()
        for _ in range(MAX_STEPS):
            status = answer.refusal(node)
            if status is None:
                if answer.fits and _key(changes) not in self._tried:
                    self._tried.add(_key(changes))
                    self._add(changes, answer.nodes)
                return
            step = self._step(node, status, answer, changes)
            if step is None:
                return
            changes, answer = step

    def _step(self, node: str, status: Status, before: Answer, changes: Proposal) -> tuple[Proposal, Answer] | None:
        """The cheapest addition to the changes after which nobody objects, or not for the same reason."""
        for plugin in (status.plugin,) if status.plugin else sorted(before.decision.unschedulable_plugins):
            question = self._question(node, status, before.cluster, changes)
            for proposal in sorted(propose(plugin, question), key=_cost):
                more = (*changes, *proposal)
                answer = self.what_if.ask(more)
                left = answer.refusal(node)
                if left is None or (left.plugin, left.reasons) != (status.plugin, status.reasons):
                    return more, answer
        return None

    # ---- preemption --------------------------------------------------------------------------------------------

    def _try_priority(self, num_nodes: int) -> None:
        """Find the lowest priority at which evicting others makes room."""
        if self.decision.nominated_node:
            return
        pod = self.what_if.pod
        present = {running.priority for running in self.what_if.cluster.pods()}
        never = pod.spec.preemption_policy == "Never"
        levels = sorted(level + 1 for level in present if level >= (pod.spec.priority or 0))
        if never and any(level < (pod.spec.priority or 0) for level in present):
            levels.insert(0, pod.spec.priority or 0)
        if not levels:
            return
        best: tuple[Proposal, Decision] | None = None
        low, high = 0, len(levels) - 1
        target = high  # if the highest does not help, none does
        for _ in range(2 if num_nodes > MANY_NODES else 8):
            change = (_priority(levels[target], never),)
            decision = self.what_if.ask(change, preempt=True).decision
            if decision.nominated_node:
                best, high = (change, decision), target - 1
            elif best is None:
                return
            else:
                low = target + 1
            if low > high:
                break
            target = (low + high) // 2
        if best is not None:
            self._add_preemption(*best)

    def _add_preemption(self, proposal: Proposal, decision: Decision) -> None:
        victims = [victim.pod.key for victim in decision.victims]
        shown = ", ".join(victims[:3]) + (f" and {len(victims) - 3} more" if len(victims) > 3 else "")
        text = f"{proposal[0].text}: evicts {shown or 'nobody who is not going already'} from {decision.nominated_node}"
        suggestion = Suggestion(
            (text,), ("priority",), (decision.nominated_node or "",), _cost(proposal) + len(victims), True
        )
        self.found.append((proposal, suggestion))

    # ---- the choice --------------------------------------------------------------------------------------------

    def _best(self) -> list[Suggestion]:
        """The smallest changes; the same change on several nodes is one, and nothing that contains a smaller one."""
        ordered = sorted(self.found, key=lambda entry: entry[1].cost)
        kept: list[tuple[Proposal, Suggestion]] = []
        for proposal, suggestion in ordered:
            texts = set(suggestion.changes)
            if any(set(other.changes) <= texts for _, other in kept):
                continue
            twin = next((i for i, (other, _) in enumerate(kept) if _is_twin(other, proposal)), None)
            if twin is None:
                kept.append((proposal, suggestion))
            else:
                kept[twin] = (kept[twin][0], _joined(kept[twin][1], suggestion))
        return [suggestion for _, suggestion in kept][:MAX_SUGGESTIONS]


def _joined(one: Suggestion, other: Suggestion) -> Suggestion:
    return Suggestion(
        one.changes, one.kinds, one.nodes, one.cost, one.about_node, tuple(dict.fromkeys((*one.also, *other.nodes)))
    )


def _pattern(proposal: Proposal) -> tuple[str, ...]:
    """The changes with the names of the nodes that they are made on left out."""
    return tuple(change.same or change.text for change in proposal)


def _is_twin(one: Proposal, other: Proposal) -> bool:
    """The same changes, on another node."""
    return any(change.node for change in one) and _pattern(one) == _pattern(other)


def _priority(level: int, never: bool) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.priority = level
        pod.spec.preemption_policy = None

    what = f"priority {level}" + (" and preemptionPolicy PreemptLowerPriority" if never else "")
    return Change(what, "priority", 5.0, edit=edit)


def _key(proposal: Iterable[Change]) -> tuple[str, ...]:
    return tuple(change.text for change in proposal)


def _cost(proposal: Iterable[Change]) -> float:
    changes = tuple(proposal)
    return sum(change.cost for change in changes) + 3.0 * (len(changes) - 1)
