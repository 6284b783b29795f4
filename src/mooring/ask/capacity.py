"""How many more of these pods fit, where, and why the next one does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.core import Pod
from mooring.api.errors import InputError, warn
from mooring.api.tables import print_more, print_notes, print_table, printed, printed_html
from mooring.api.text import count_of, first_of
from mooring.ask.asked_pod import Askable, find_pod
from mooring.ask.copies import Copies, NodeKind, add_node_like, are_ours, node_kinds
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.core.engine.decision import ScheduleResult
from mooring.core.explain.decision import DecisionTable
from mooring.core.framework.cycle_state import CycleError, CycleState
from mooring.core.session import Configuration, PluginReference, Session
from mooring.core.state.pod_info import PodInfo

# --------------------------------------------------------------------------------------------------------------------
# Filling a cluster with copies of pods until the next one does not fit.


@dataclass(slots=True)
class Filled:
    """Result of filling: whole sets, and the number of pods per node."""

    sets: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    preempted: list[str] = field(default_factory=list)
    refusal: ScheduleResult | None = None


def fill(
    session: Session, sets: Sequence[tuple[Copies, int]], limit: int | None = None, *, preempt: bool = False
) -> Filled:
    """Place one set after another until one does not fit, or ``limit`` is reached.

    Without a limit it ends when there are more sets than the nodes allow pods: then nothing limits them. The pods of an
    incomplete set are undone.
    """
    filled = Filled()
    if limit is None and len(sets) == 1 and sets[0][1] == 1 and sets[0][0].are_alike:
        _fill_in_rounds(session, sets[0][0], filled)
    if limit is None:
        limit = int(session.state.nodes().allowed_pods.sum()) + 1
    while filled.sets < limit:
        begun: list[ScheduleResult] = []
        for copies, share in sets:
            for _ in range(share):
                decision = session.place(copies.next(), preempt=preempt)
                if decision.node is None:
                    for each in reversed(begun):
                        session.undo(each)
                    filled.refusal = decision
                    return filled
                begun.append(decision)
        filled.sets += 1
        for each in begun:
            filled.nodes[each.node or ""] += 1
            filled.preempted += [victim.pod.key for victim in each.victims]
    return filled


def _fill_in_rounds(session: Session, copies: Copies, filled: Filled) -> None:
    """Place as many copies as fit, if their order does not matter. The rest is placed one by one."""
    pod = copies.next()
    most = int(session.state.nodes().allowed_pods.max(initial=0))
    for _ in range(most):  # for a pod without limits it would never end
        nodes = nodes_with_room(session, pod)
        if not nodes:
            return
        for node in nodes:
            session.assume(copies.next(), node)
            filled.nodes[node] += 1
        filled.sets += len(nodes)


# --------------------------------------------------------------------------------------------------------------------
# Filling nodes in rounds: a fast way to the same result for pods that depend only on their own node.
#
# If every filter that concerns a pod reads only the row of a node, then pods on one node never matter to another. The
# order in which nodes are filled does not matter either: in the end each has as many as it can take. So a round places
# one copy on every node that can take one, until none can. Scores decide only the order, and are not needed.


def nodes_with_room(session: Session, pod: PodInfo) -> list[str] | None:
    """Return the nodes that can take one copy each; None if copies must be placed one by one.

    The latter applies if a plugin may read more than the row: a user's own, one that counts pods elsewhere, one that
    reads volumes or devices; and if extenders or nominated pods take part.
    """
    profile = session.profile_for(pod.pod)
    engine = session.engine
    if engine.extenders is not None or engine.nominator.nominated_nodes() or not are_ours(profile):
        return None
    if pod.shape.volumes or pod.pod.spec.resource_claims or pod.pod.spec.scheduling_gates:
        return None
    nodes, state = session.state.nodes(), CycleState()
    try:
        pre = profile.run_pre_filter(state, pod, nodes)
        plan = profile.filter_plan(state)
        if not pre.status.is_success or pre.node_names is not None or not plan.keeps_all(pod):
            return None
        feasible = profile.run_filters(state, pod, nodes, plan.active).feasible
    except CycleError:
        return None
    infos = nodes.infos
    return [infos[row].name for row in feasible.nonzero()[0].tolist()]


# --------------------------------------------------------------------------------------------------------------------
# The result.

MAX_KINDS = 12


@dataclass(frozen=True, slots=True)
class MoreRoom:
    """How many more would fit with one more node of a kind once the cluster is full."""

    kind: str
    like: str  # a node of this kind
    nodes: int  # number of nodes of this kind
    fits: int  # how many more pods, or whole sets, would fit


@dataclass(slots=True)
class Capacity:
    """How many fit, on which nodes, and why the next one does not. It prints as ``mooring capacity`` does."""

    asked: dict[str, int]  # pods, with their share in a set
    copies: int | None  # how many were requested; None: as many as fit
    fits: int = 0  # pods of a single kind, or whole sets of several
    nodes: dict[str, int] = field(default_factory=dict)  # pods by node
    stopped_by: str | None = None  # kube-scheduler's message for the next pod; None: nothing stopped it
    stopped_pod: str | None = None  # of several, the one that does not fit
    reasons: dict[str, int] = field(default_factory=dict)  # of the refusal, with the number of nodes
    preempted: list[str] = field(default_factory=list)
    one_more_node: list[MoreRoom] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_enough(self) -> bool:
        """Report whether the requested number fits, or at least one."""
        return self.fits >= (1 if self.copies is None else self.copies)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        return {
            "asked": [{"pod": pod, "share": share} for pod, share in self.asked.items()],
            "copies": self.copies,
            "fits": self.fits,
            "nodes": self.nodes,
            "stoppedBy": self.stopped_by,
            "stoppedPod": self.stopped_pod,
            "reasons": self.reasons,
            "preempted": self.preempted,
            "oneMoreNode": [
                {"kind": each.kind, "like": each.like, "nodes": each.nodes, "fits": each.fits}
                for each in self.one_more_node
            ],
            "notes": self.notes,
        }

    def table(self) -> DecisionTable:
        """Return how many pods each node takes, most first."""
        return DecisionTable(("node", "pods"), list(self.nodes.items()))

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per node that takes some."""
        return self.table().to_pandas("node")

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return printed_html(lambda to: draw(to, self))


def capacity(
    cluster: Cluster,
    pods: Askable | Iterable[Askable] | Mapping[Any, int] | None = None,
    copies: int | None = None,
    *,
    pod: Askable | None = None,
    preempt: bool = False,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Capacity:
    """Return how many more of these pods fit. The cluster stays unchanged.

    ``pods`` is a pod, several of which one each makes a set, or a mapping of pods to their shares in a set. A single
    one may also be given as ``pod``. With ``copies`` the count ends there. With ``preempt`` lower-priority pods are
    evicted where that makes room.
    """
    if (pods is None) == (pod is None):
        raise InputError(f"capacity: found {'neither' if pods is None else 'both'}; expected pods or pod")
    pods = pod if pods is None else pods
    assert pods is not None
    return capacity_of(
        Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version), pods, copies, preempt
    )


def capacity_of(
    scheduler: Scheduler,
    pods: Askable | Iterable[Askable] | Mapping[Any, int],
    copies: int | None = None,
    preempt: bool = False,
) -> Capacity:
    """Answer for a scheduler and its cluster."""
    if copies is not None and copies < 1:
        raise InputError(f"copies: {copies}; expected 1 or more")
    session = scheduler.session.fork()
    sets, notes = _sets(_shares(pods), scheduler.cluster, session)
    found = Capacity({each.pod.key: share for each, share in sets}, copies, notes=notes)
    found.notes += _waiting(scheduler.cluster)
    filled = fill(session, sets, copies, preempt=preempt)
    found.fits, found.preempted = filled.sets, filled.preempted
    found.nodes = dict(sorted(filled.nodes.items(), key=lambda entry: (-entry[1], entry[0])))
    refusal = filled.refusal
    if refusal is None:
        if copies is None:
            found.notes.append("nothing stops the next one; the count ends where there are more than nodes allow pods")
        return found
    found.stopped_by = refusal.message
    if len(sets) > 1:
        original = refusal.pod.uid.rpartition(":")[0]  # the uid of the pod that the refused one is a copy of
        found.stopped_pod = next(each.pod.key for each, _ in sets if each.pod.uid == original)
    if refusal.statuses is not None:
        found.reasons = dict(refusal.statuses.histogram().most_common())
    kinds = node_kinds(session, [session.info(each.pod) for each, _ in sets])
    found.one_more_node = [_one_more_node(session, sets, kind) for kind in kinds[:MAX_KINDS]]
    if len(kinds) > MAX_KINDS:
        found.notes.append(f"one more node was tried of the {MAX_KINDS} kinds with most nodes; there are {len(kinds)}")
    return found


def _shares(pods: Askable | Iterable[Askable] | Mapping[Any, int]) -> list[tuple[Askable, int]]:
    """Return each pod with its share; a manifest is also a mapping, but its values are not all numbers."""
    if isinstance(pods, Mapping) and pods and all(type(share) is int for share in pods.values()):
        shares = list(pods.items())
    elif isinstance(pods, str | Pod | Mapping) or not isinstance(pods, Iterable):
        shares = [(pods, 1)]
    else:
        shares = [(pod, 1) for pod in pods]
    if not shares or any(share < 1 for _, share in shares):
        raise InputError("expected at least one pod, each with a share of 1 or more")
    return shares


def _sets(
    shares: list[tuple[Askable, int]], cluster: Cluster, session: Session
) -> tuple[list[tuple[Copies, int]], list[str]]:
    asked = [(find_pod(pod, cluster), share) for pod, share in shares]
    notes: list[str] = []
    for found, _ in asked:
        warn(found.warnings)
        notes += found.notes
        theirs, ours = found.pod.spec.scheduler_name, session.profile_for(found.pod).scheduler_name
        if theirs != ours:
            notes.append(f"{found.pod.key} is for {theirs}; it is placed as {ours} would place it")
        for obj in found.others:
            session.state.objects.put(obj)
    keys = [found.pod.key for found, _ in asked]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{key} is given twice; its share is how many of it are in a set")
    return [(Copies(found.pod, session.state), share) for found, share in asked], notes


def _one_more_node(full: Session, sets: list[tuple[Copies, int]], kind: NodeKind) -> MoreRoom:
    with_it = full.fork()
    add_node_like(with_it.state, kind.like, f"{kind.like.name}-more")
    more = fill(with_it, [(each.on(with_it.state), share) for each, share in sets])
    return MoreRoom(kind.name, kind.like.name, kind.count, more.sets)


def _waiting(cluster: Cluster) -> Iterable[str]:
    waiting = cluster.pending
    nominated = sum(bool(pod.status.nominated_node_name) for pod in waiting)
    if waiting:
        which = f"; the {nominated} that are nominated to a node keep their place" if nominated else ""
        yield f"{count_of(len(waiting), 'pod')} of the cluster wait for a node and are not counted{which}"


# --------------------------------------------------------------------------------------------------------------------
# Rendering of the answer.

MAX_NODES = 10


def draw(to: Console, found: Capacity, top: int = MAX_NODES) -> None:
    """Print the request, how many fit, where, and why the next one does not."""
    colour = "green" if found.is_enough else "red"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    if found.stopped_by is not None:
        which = f" ({found.stopped_pod})" if found.stopped_pod else ""
        to.print(f"The next one{escape(which)} is stopped by:")
        to.print(f"  {escape(found.stopped_by)}")
    if found.nodes:
        to.print()
        _draw_nodes(to, found, top)
    if found.reasons:
        to.print()
        rows = [(str(count), Text(reason)) for reason, count in found.reasons.items()]
        print_table(to, ["NODES", "REFUSE THE NEXT ONE BECAUSE"], rows)
    if found.preempted:
        to.print()
        to.print(f"{count_of(len(found.preempted), 'pod')} would be preempted: {escape(first_of(found.preempted))}")
    if found.one_more_node:
        to.print()
        kinds = [(str(each.fits), Text(each.kind), str(each.nodes), each.like) for each in found.one_more_node]
        print_table(to, ["MORE", "WITH ONE MORE NODE OF", "NODES", "SUCH AS"], kinds)
    print_notes(to, found.notes)


def text(found: Capacity) -> str:
    """Return the text without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Capacity) -> str:
    """Return one line: how many fit."""
    number = f"{found.fits} more" if found.copies is None else f"{found.fits} of {found.copies}"
    pods = " and ".join(pod if share == 1 else f"{share} {pod}" for pod, share in found.asked.items())
    what = pods if list(found.asked.values()) == [1] else f"sets of {pods}"
    where = f", on {count_of(len(found.nodes), 'node')}" if found.nodes else ""
    return f"{number} {what} {'fits' if found.fits == 1 else 'fit'}{where}"


def _draw_nodes(to: Console, found: Capacity, top: int) -> None:
    """Print nodes with the same number in one line."""
    by_number: dict[int, list[str]] = {}
    for node, number in found.nodes.items():
        by_number.setdefault(number, []).append(node)
    rows = [
        (str(number), str(len(nodes)), first_of(nodes))
        for number, nodes in sorted(by_number.items(), reverse=True)[:top]
    ]
    print_table(to, ["PODS EACH", "NODES", "WHICH"], rows)
    print_more(to, len(by_number), top, "-o json has them all")
