"""The smallest changes that would let a refused pod run: plugins offer them, the engine confirms them.

First one plugin at a time is silenced: the nodes that are feasible then have
only that plugin against them, and a single change may help. Where a node has
several plugins against it, a few nodes that are close are repaired step by
step. The number of questions is bounded; on large clusters each costs a few
milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mooring.engine.decision import Decision, Outcome
from mooring.explanation.priorities import lowest_priority
from mooring.explanation.refusers import refusers, signers
from mooring.explanation.suggestion import Suggestion, best, cost_of, pattern_of
from mooring.explanation.what_if import Answer, Exhausted, WhatIf
from mooring.framework.remedies import Change, Remedy
from mooring.framework.status import Status
from mooring.state.node_rows import NodeRows
from mooring.state.shortfall import distance

MAX_OFFERED = 64  # remedies that are taken from one plugin
TRIES_PER_PLUGIN = 8  # remedies of it that are tried
MAX_TWINS = 4  # nodes on which the same change is tried
MAX_REPAIRS = 10  # nodes that are repaired step by step
MAX_STEPS = 5
ONLY_ONE_COST = 30.0


class RemedySearch:
    """Looks for suggestions about one refused decision."""

    def __init__(self, what_if: WhatIf, decision: Decision) -> None:
        self._what_if = what_if
        self._decision = decision
        self._found: list[Suggestion] = []
        self._tried: set[tuple[str, ...]] = set()
        self.notes: list[str] = []  # about plugins whose remedies could not be used

    def run(self) -> list[Suggestion]:
        with suppress(Exhausted):
            base = self._what_if.ask()
            if base.decision.outcome is Outcome.GATED:
                self._try_plugin(base.decision.status.plugin, base, base.cluster.nodes())
            elif not base.fits and base.decision.statuses is not None:
                self._search(base)
            # otherwise only a nomination or sampling stood in the way; or something broke, and no change is known
        return best(self._found)

    def _search(self, base: Answer) -> None:
        nodes = base.cluster.nodes()
        helped: set[str] = set()
        for plugin in refusers(base.decision):
            alone = _rows(self._what_if.ask(without=plugin).nodes, base)
            if not len(alone):
                continue
            if self._try_plugin(plugin, base, nodes.subset(alone)):
                helped.add(plugin)
            else:
                self._name_plugin(plugin, nodes.subset(alone))
        if not self._decision.nominated_node:
            raised = lowest_priority(self._what_if)
            if raised is not None:
                self._found.append(raised)
        for node in _representatives(base.decision, nodes, helped):
            self._repair(node, base, 1 if helped else MAX_STEPS)

    # ---- one remedy --------------------------------------------------------------------------------------------

    def _try_plugin(self, plugin: str, base: Answer, nodes: NodeRows) -> bool:
        """Only this plugin is against these nodes: try its cheapest remedies, each on a few nodes."""
        tries: Counter[tuple[str, ...]] = Counter()
        before = len(self._found)
        for remedy in self._offered(plugin, base, nodes):
            key, pattern = tuple(str(change) for change in remedy), pattern_of(remedy)
            if key in self._tried or tries[pattern] >= MAX_TWINS:
                continue
            if pattern not in tries and len(tries) >= TRIES_PER_PLUGIN:
                continue
            self._tried.add(key)
            tries[pattern] += 1
            answer = self._ask(remedy)
            if answer is not None and answer.fits:
                self._found.append(Suggestion.of(remedy, answer.nodes))
        return len(self._found) > before

    def _offered(self, name: str, answer: Answer, nodes: NodeRows) -> list[Remedy]:
        """What the plugin offers for these nodes, the cheapest first; what it raises is worth a note."""
        plugin = answer.profile.plugins.get(name)
        if plugin is None or plugin.remedies is None:
            return []
        try:
            offered = plugin.remedies(answer.decision.state, answer.decision.pod, nodes)
            remedies = [_checked(each) for each in islice(offered, MAX_OFFERED)]
        except Exception as error:
            self._note(f"plugin {name} could not say what would help: {type(error).__name__}: {error}")
            return []
        return sorted((remedy for remedy in remedies if remedy), key=cost_of)

    def _ask(self, remedy: Remedy) -> Answer | None:
        """What the engine says of a remedy; None if it cannot be made, which is worth a note."""
        try:
            return self._what_if.ask(remedy)
        except Exhausted:
            raise
        except Exception as error:
            text = " and ".join(str(change) for change in remedy)
            self._note(f"the remedy {text!r} could not be tried: {type(error).__name__}: {error}")
            return None

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _name_plugin(self, plugin: str, nodes: NodeRows) -> None:
        """Nobody knows what would change this plugin's mind. That it is alone against these nodes is worth saying."""
        names = tuple(info.name for info in nodes.infos)
        self._found.append(Suggestion((f"only {plugin} stands in the way",), ("plugin",), names, ONLY_ONE_COST))

    # ---- several remedies --------------------------------------------------------------------------------------

    def _repair(self, node: str, answer: Answer, steps: int) -> None:
        """Remove one objection after the other, the cheapest way each, until the node takes the pod."""
        changes: Remedy = ()
        for _ in range(steps):
            status = answer.refusal(node)
            step = None if status is None else self._step(node, status, answer, changes)
            if step is None:
                return
            changes, answer = step
            if answer.fits and answer.refusal(node) is None:
                self._found.append(Suggestion.of(changes, answer.nodes))
                return

    def _step(self, node: str, status: Status, before: Answer, changes: Remedy) -> tuple[Remedy, Answer] | None:
        """The cheapest addition to the changes after which nobody objects, or not for the same reason."""
        here = before.cluster.nodes().subset(_rows((node,), before))
        for plugin in signers(status, before.decision):
            for remedy in self._offered(plugin, before, here):
                more = (*changes, *remedy)
                answer = self._ask(more)
                if answer is None:
                    continue
                left = answer.refusal(node)
                if left is None or (left.plugin, left.reasons) != (status.plugin, status.reasons):
                    return more, answer
        return None


def _checked(offer: Change | Remedy) -> Remedy:
    remedy = (offer,) if isinstance(offer, Change) else tuple(offer)
    for change in remedy:
        if not isinstance(change, Change):
            raise TypeError(f"{change!r} where a Change is expected")
    return remedy


def _rows(names: Sequence[str], answer: Answer) -> NDArray[np.int64]:
    nodes = answer.cluster.table.nodes
    return np.array([nodes[name].row for name in names], np.int64)


def _representatives(base: Decision, nodes: NodeRows, helped: set[str]) -> list[str]:
    """Nodes of plugins that nothing has helped with yet: from each group of refusals those that look closest."""
    return [nodes.infos[row].name for row in islice(dict.fromkeys(_by_turns(base, nodes, helped)), MAX_REPAIRS)]


def _by_turns(base: Decision, nodes: NodeRows, helped: set[str]) -> Iterator[int]:
    assert base.statuses is not None
    groups = []
    for status, rows in base.statuses.groups():
        if not helped.intersection(signers(status, base)):
            order = np.argsort(distance(base.pod.shape.requests, nodes.subset(rows)), kind="stable")
            groups.append(rows[order].tolist())
    for turn in range(MAX_REPAIRS):
        yield from (group[turn] for group in groups if turn < len(group))
