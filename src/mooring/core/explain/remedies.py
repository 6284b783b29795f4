"""The smallest changes that would let a refused pod run: plugins offer them, the engine confirms them.

First one plugin at a time is disabled: the nodes that are feasible then are rejected by that plugin only, and a single
change may help. Where several plugins reject a node, a few nodes that are close are repaired step by step. The number
of questions is bounded; on large clusters each costs a few milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from mooring.api.core import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.api.text import count_of, expression_text
from mooring.core.engine.decision import Outcome, ScheduleResult
from mooring.core.framework.interfaces import Change, Remedy
from mooring.core.framework.runtime import Profile
from mooring.core.framework.status import Status
from mooring.core.plugins.devices.allocator import KEY
from mooring.core.plugins.dynamic_resources import DynamicResources
from mooring.core.session import Session, decide
from mooring.core.state.cluster import ClusterState
from mooring.core.state.node_rows import NodeRows, distance
from mooring.core.state.pod_info import PodInfo

# ---- suggestions: changes that were tried and help, and a selection of them
# ---------------------------------------------

MAX_SUGGESTIONS = 8
ANOTHER_CHANGE = 3.0  # cost of each change besides the first


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Changes that together let the pod run, and the nodes. Every suggestion was tried."""

    changes: tuple[str, ...]
    kinds: tuple[str, ...]
    nodes: tuple[str, ...]
    cost: float
    about_node: bool = False  # the change is made on a node, which is then the one that fits
    also: tuple[str, ...] = ()  # other nodes on which the same change helps
    pattern: tuple[str, ...] = ()  # the changes without the node's name; empty if none is made on a node
    remedy: Remedy = field(default=(), compare=False, repr=False)  # empty if none is known

    @staticmethod
    def of(remedy: Remedy, nodes: tuple[str, ...]) -> Suggestion:
        """Return the suggestion for a remedy that helps on these nodes."""
        return Suggestion(
            changes=tuple(str(change) for change in remedy),
            kinds=tuple(change.kind for change in remedy),
            nodes=nodes,
            cost=cost_of(remedy),
            about_node=any(change.node or change.removes for change in remedy),
            pattern=pattern_of(remedy) if any(change.node for change in remedy) else (),
            remedy=remedy,
        )

    @property
    def text(self) -> str:
        what = " and ".join(self.changes)
        if self.about_node:
            return f"{what} (or {', '.join(self.also)})" if self.also else what
        if all(kind == "request" for kind in self.kinds):
            return f"{what} on {self.nodes[0]}" if len(self.nodes) == 1 else f"{what} on any of {len(self.nodes)} nodes"
        return f"{what}: {count_of(len(self.nodes), 'more node')}"


def cost_of(remedy: Remedy) -> float:
    return sum(change.cost for change in remedy) + ANOTHER_CHANGE * (len(remedy) - 1)


def pattern_of(remedy: Remedy) -> tuple[str, ...]:
    """Return the changes without the names of their nodes."""
    return tuple(change.text for change in remedy)


def best(suggestions: Iterable[Suggestion]) -> list[Suggestion]:
    """Return the cheapest; the same change on several nodes is one, and none contains a cheaper one."""
    kept: list[Suggestion] = []
    for suggestion in sorted(suggestions, key=lambda each: each.cost):
        if any(set(other.changes) <= set(suggestion.changes) for other in kept):
            continue
        same = next((i for i, other in enumerate(kept) if other.pattern and other.pattern == suggestion.pattern), None)
        if same is None:
            kept.append(suggestion)
        else:
            also = dict.fromkeys((*kept[same].also, *suggestion.nodes))
            kept[same] = replace(kept[same], also=tuple(also))
    return kept[:MAX_SUGGESTIONS]


# --------------------------------------------------------------------------------------------------------------------
# Hypotheses for the real engine: the same rules with a changed pod, a changed node, or without a pod.
#
# A change describes how the pod or the cluster would differ; the engine decides. Nodes are changed and pods removed on
# a fork, so the actual cluster stays unchanged.

MAX_QUESTIONS = 160


class Exhausted(Exception):
    """The limit of questions for one explanation is reached."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The engine's decision about a hypothesis, with the changed cluster and profile."""

    decision: ScheduleResult
    cluster: ClusterState
    profile: Profile

    @property
    def fits(self) -> bool:
        return self.decision.outcome is Outcome.SCHEDULED

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that the pod could run on."""
        if not self.fits:
            return ()
        if self.decision.scores is not None:
            return tuple(self.decision.scores.names)
        return (self.decision.node,) if self.decision.node else ()

    def refusal(self, node: str) -> Status | None:
        """Return why the node is refused; None if it is not."""
        if self.decision.statuses is None:
            return self.decision.status
        status = self.decision.statuses.get(node)
        return None if status.is_success else status


class WhatIf:
    """Asks hypothetical questions about one pod. Searches every node, without sampling, and evicts no pod."""

    def __init__(self, session: Session, scheduler_name: str, pod: Pod) -> None:
        self.cluster = session.state
        self.pod = deepcopy(pod)
        self.pod.status.nominated_node_name = ""
        self.asked = 0
        self._session = session
        self._scheduler_name = scheduler_name
        self._engine = session.engine_for_hypotheses()
        self._profiles = {preempt: self._profile(session, preempt) for preempt in (False, True)}

    def edited(self, changes: Sequence[Change]) -> Pod:
        """The pod with all changes made to it."""
        pod = deepcopy(self.pod)
        for change in changes:
            if change.edit is not None:
                change.edit(pod)
        return pod

    def ask(self, changes: Sequence[Change] = (), *, without: str = "", preempt: bool = False) -> Hypothesis:
        """Decide with these changes, and without the plugin named ``without``."""
        if self.asked >= MAX_QUESTIONS:
            raise Exhausted
        self.asked += 1
        cluster, engine, profile = self.cluster, self._engine, self._profiles[preempt]
        if any(change.edit_node or change.edit_cluster or change.removes for change in changes):
            cluster = _changed(self.cluster.fork(), changes)
            session = self._session.on(cluster)
            engine, profile = session.engine_for_hypotheses(), self._profile(session, preempt)
        if without:
            profile = profile.without(without, "preFilter", "filter")
        return Hypothesis(decide(engine, profile, cluster.info(self.edited(changes))), cluster, profile)

    def _profile(self, session: Session, preempt: bool) -> Profile:
        """Return the profile for questions: all nodes are searched, and nothing counts as an attempt."""
        profile = session.profiles[self._scheduler_name]
        points = profile.points if preempt else {**profile.points, "postFilter": ()}
        return replace(profile, percentage_of_nodes_to_score=0, observer=None, points=points)


def _changed(cluster: ClusterState, changes: Sequence[Change]) -> ClusterState:
    """Make the changes to nodes, running pods and other objects on a cluster that is the question's own."""
    for change in changes:
        if change.edit_node is not None:
            node = deepcopy(cluster.table.nodes[change.node].node)
            assert node is not None
            change.edit_node(node)
            cluster.set_node(node)
        for pod in change.removes:
            cluster.remove_pod(pod.uid)
        if change.edit_cluster is not None:
            change.edit_cluster(cluster)
    return cluster


# ---- the lowest priority with which a pod gets room by evicting others ---------------------------------------------

MANY_NODES = 2000  # from here on preemption is not tried for every priority
MAX_VICTIMS_NAMED = 3
COST = 5.0
PRIORITY = "priority"  # kind of a change with which the pod evicts others


def lowest_priority(what_if: WhatIf) -> Suggestion | None:
    """Search the priorities of the running pods from the highest down: if that does not help, none does."""
    is_never = what_if.pod.spec.preemption_policy == "Never"
    levels = _levels(what_if, is_never)
    best: Suggestion | None = None
    low, high = 0, len(levels) - 1
    target = high
    for _ in range(2 if len(what_if.cluster.nodes()) > MANY_NODES else 8):
        if low > high:
            break
        change = _priority(levels[target], is_never)
        decision = what_if.ask((change,), preempt=True).decision
        if decision.nominated_node:
            best, high = _suggestion(change, decision), target - 1
        elif best is None:
            break
        else:
            low = target + 1
        target = (low + high) // 2
    return best


def _levels(what_if: WhatIf, is_never: bool) -> list[int]:
    """Return the priorities that would let the pod preempt more pods than now."""
    own = what_if.pod.spec.priority or 0
    present = {running.priority for running in what_if.cluster.pods()}
    levels = sorted(level + 1 for level in present if level >= own)
    if is_never and any(level < own for level in present):
        levels.insert(0, own)
    return levels


def _priority(level: int, is_never: bool) -> Change:
    def edit(pod: Pod) -> None:
        pod.spec.priority = level
        pod.spec.preemption_policy = None

    text = f"priority {level}" + (" and preemptionPolicy PreemptLowerPriority" if is_never else "")
    return Change(text, PRIORITY, COST, edit=edit)


def _suggestion(change: Change, decision: ScheduleResult) -> Suggestion:
    victims = [victim.pod.key for victim in decision.victims]
    more = len(victims) - MAX_VICTIMS_NAMED
    shown = ", ".join(victims[:MAX_VICTIMS_NAMED]) + (f" and {more} more" if more > 0 else "")
    node = decision.nominated_node or ""
    text = f"{change}: evicts {shown or 'only terminating pods'} from {node}"
    return Suggestion((text,), (change.kind,), (node,), change.cost + len(victims), about_node=True, remedy=(change,))


# ---- the plugins that refused a pod
# -------------------------------------------------------------------------------------


def refusers(decision: ScheduleResult) -> list[str]:
    """The plugins that refused the pod somewhere."""
    groups = decision.statuses.groups() if decision.statuses is not None else ()
    named = (plugin for status, _ in groups for plugin in signers(status, decision))
    return list(dict.fromkeys((*named, *sorted(decision.unschedulable_plugins))))


def signers(status: Status, decision: ScheduleResult) -> Sequence[str]:
    """Return the plugin of the status, or all if several plugins together left no node."""
    return (status.plugin,) if status.plugin else sorted(decision.unschedulable_plugins)


MAX_CHANGES = 16  # of one remedy: more is no small change, and a pod may request thousands of labels
MAX_OFFERED = 64  # remedies accepted from one plugin
TRIES_PER_PLUGIN = 8  # of its remedies
MAX_TWINS = 4  # nodes on which the same change is tried
MAX_REPAIRS = 10  # nodes repaired step by step
MAX_STEPS = 5
ONLY_ONE_COST = 30.0


class RemedySearch:
    """Looks for suggestions about one refused decision."""

    def __init__(self, what_if: WhatIf, decision: ScheduleResult) -> None:
        self._what_if = what_if
        self._decision = decision
        self._found: list[Suggestion] = []
        self._tried: set[tuple[str, ...]] = set()
        self.notes: list[str] = []  # about plugins whose remedies failed

    def run(self) -> list[Suggestion]:
        with suppress(Exhausted):
            base = self._what_if.ask()
            if base.decision.outcome is Outcome.GATED:
                self._try_plugin(base.decision.status.plugin, base, base.cluster.nodes())
            elif not base.fits and base.decision.statuses is not None:
                self._search(base)
            # otherwise only a nomination or sampling prevented it; or an error, for which no change is known
        return best(self._found)

    def _search(self, base: Hypothesis) -> None:
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

    def _try_plugin(self, plugin: str, base: Hypothesis, nodes: NodeRows) -> bool:
        """Only this plugin rejects these nodes: try its cheapest remedies, each on a few nodes."""
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

    def _offered(self, name: str, answer: Hypothesis, nodes: NodeRows) -> list[Remedy]:
        """Return the plugin's remedies for these nodes, the cheapest first; an exception becomes a note."""
        plugin = answer.profile.plugins.get(name)
        if plugin is None or plugin.remedies is None:
            return []
        try:
            offered = plugin.remedies(answer.decision.state, answer.decision.pod, nodes)
            checked = [_checked(each) for each in islice(offered, MAX_OFFERED)]
            remedies = [remedy for remedy in checked if len(remedy) <= MAX_CHANGES]
        except Exception as error:
            self._note(f"plugin {name} could not say what would help: {type(error).__name__}: {error}")
            return []
        return sorted((remedy for remedy in remedies if remedy), key=cost_of)

    def _ask(self, remedy: Remedy) -> Hypothesis | None:
        """Decide with a remedy; return None, with a note, if it cannot be applied."""
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
        """Report that this plugin alone rejects these nodes, if no remedy is known."""
        names = tuple(info.name for info in nodes.infos)
        self._found.append(Suggestion((f"only {plugin} stands in the way",), ("plugin",), names, ONLY_ONE_COST))

    # ---- several remedies --------------------------------------------------------------------------------------

    def _repair(self, node: str, answer: Hypothesis, steps: int) -> None:
        """Remove one rejection after the other, by the cheapest change, until the node takes the pod."""
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

    def _step(self, node: str, status: Status, before: Hypothesis, changes: Remedy) -> tuple[Remedy, Hypothesis] | None:
        """Return the cheapest addition to the changes after which the rejection is gone or has another reason."""
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
            raise TypeError(f"found {change!r}, expected a Change")
    return remedy


def _rows(names: Sequence[str], answer: Hypothesis) -> NDArray[np.int64]:
    nodes = answer.cluster.table.nodes
    return np.array([nodes[name].row for name in names], np.int64)


def _representatives(base: ScheduleResult, nodes: NodeRows, helped: set[str]) -> list[str]:
    """Return nodes of plugins without a helpful remedy yet: from each group of refusals the closest ones."""
    return [nodes.infos[row].name for row in islice(dict.fromkeys(_by_turns(base, nodes, helped)), MAX_REPAIRS)]


def _by_turns(base: ScheduleResult, nodes: NodeRows, helped: set[str]) -> Iterator[int]:
    assert base.statuses is not None
    groups = []
    for status, rows in base.statuses.groups():
        if not helped.intersection(signers(status, base)):
            order = np.argsort(distance(base.pod.shape.requests, nodes.subset(rows)), kind="stable")
            groups.append(rows[order].tolist())
    for turn in range(MAX_REPAIRS):
        yield from (group[turn] for group in groups if turn < len(group))


# ---- notes: the facts behind refusals, and the pod's claims and volumes ----------------------------------------------


def facts(decision: ScheduleResult, profile: Profile, cluster: ClusterState) -> list[str]:
    """Return facts of plugins about the cluster, most refused nodes first."""
    if not decision.num_nodes:
        return ["the cluster has no Node objects"]
    refused: dict[str, list[int]] = {}
    for status, rows in decision.statuses.groups() if decision.statuses is not None else ():
        for name in signers(status, decision):
            refused.setdefault(name, []).extend(rows.tolist())
    found: list[str] = []
    for name, mine in sorted(refused.items(), key=lambda entry: -len(entry[1])):
        plugin = profile.plugins.get(name)
        if plugin is None or plugin.facts is None:
            continue
        nodes = cluster.nodes().subset(np.array(sorted(mine), np.int64))
        try:
            found += plugin.facts(decision.state, decision.pod, nodes)
        except Exception as error:  # a user's plugin must not cost the whole explanation
            found.append(f"plugin {name} could not state facts: {type(error).__name__}: {error}")
    return list(dict.fromkeys(found))


def devices(decision: ScheduleResult, profile: Profile, cluster: ClusterState) -> list[dict[str, str]]:
    """Return the devices that the nodes rejected by DynamicResources have, and why each does not serve the pod."""
    plugin = profile.plugins.get(KEY)
    rejected = decision.statuses.groups() if decision.statuses is not None else ()
    rows = [rows for status, rows in rejected if KEY in signers(status, decision)]
    if plugin is None or not isinstance(plugin.plugin, DynamicResources) or not rows:
        return []
    nodes = cluster.nodes().subset(np.array(sorted(np.concatenate(rows).tolist()), np.int64))
    return plugin.plugin.devices_for(decision.state, nodes)


def volume_notes(pod: PodInfo, cluster: ClusterState) -> Iterator[str]:
    """Yield the state of the pod's claims, and where their volumes can be reached."""
    for name in dict.fromkeys(pod.shape.claim_names):
        key = f"{pod.pod.namespace}/{name}"
        claim = cluster.objects.get(PersistentVolumeClaim, key)
        if claim is None:
            yield f"claim {key} does not exist"
        elif not claim.spec.volume_name:
            kind = claim.spec.storage_class_name
            yield f"claim {key} is not bound yet" + (f" (storage class {kind})" if kind else "")
        else:
            volume = cluster.objects.get(PersistentVolume, claim.spec.volume_name)
            yield f"claim {key} is bound to volume {claim.spec.volume_name}" + _reachable(volume)


def _reachable(volume: PersistentVolume | None) -> str:
    if volume is None:
        return ", which does not exist"
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ""
    terms = [
        " and ".join(expression_text(e.key, e.operator, e.values) for e in term.match_expressions)
        for term in affinity.required.node_selector_terms
    ]
    return f", reachable from nodes with {' or '.join(terms)}"
