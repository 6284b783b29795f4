"""The effect of losing each node, zone or rack: tried on forks, one loss after another."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from math import comb
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from mooring.api.core import Node, Pod, recreated_pod
from mooring.api.errors import InputError, ParseError
from mooring.api.resource import ResourceClaim, ResourceClaimStatus
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.api.tables import print_more, print_refused, print_table, printed, printed_html
from mooring.api.text import first_of, hint
from mooring.api.well_known import ZONE
from mooring.ask.copies import stays_with_node, unbound
from mooring.ask.scheduler import Scheduler
from mooring.ask.workers import Question, workers_for
from mooring.core.cluster import Cluster
from mooring.core.explain.decision import DecisionTable
from mooring.core.plugins.devices.claims import ClaimProblem, claim_name
from mooring.core.plugins.volumes.claims import claims_of
from mooring.core.plugins.volumes.node_topology import compile_affinity
from mooring.core.session import Configuration, PluginReference, Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo

# --------------------------------------------------------------------------------------------------------------------
# One loss on a fork: nodes are removed, controllers recreate their pods, and these are placed in the queue's order.
#
# | the pod of a lost node | what becomes of it |
# |---|---|
# | of a controller (ReplicaSet, StatefulSet, Job …) | a new pod is placed; claims stay, node-local data are gone |
# | of a DaemonSet, or static | it belongs to the node, and does not come back elsewhere |
# | without a controller | it is placed again: its owner has to recreate it |
# | about to end already | it ends |


@dataclass(slots=True)
class Loss:
    """Effects of losing these nodes."""

    lost: tuple[str, ...]  # the names of what is lost: nodes, zones, values of a label
    nodes: tuple[str, ...]
    pods: int = 0  # number of pods on these nodes
    replaced: dict[str, str] = field(default_factory=dict)  # recreated pods, and their new node
    unplaced: dict[str, str] = field(default_factory=dict)  # pods without a node, and why
    preempted: dict[str, str] = field(default_factory=dict)  # preempted pods, and the pod that each made room for
    broken_budgets: list[str] = field(default_factory=list)
    bare_pods: list[str] = field(default_factory=list)  # pods that only their owner can recreate
    lost_volumes: list[str] = field(default_factory=list)  # that only these nodes can reach
    node_pods: list[str] = field(default_factory=list)  # of DaemonSets, and static ones
    use: dict[str, float] = field(default_factory=dict)  # of the remaining nodes, in percent, by resource

    @property
    def is_harmless(self) -> bool:
        """Report whether all pods are placed again, no volume is lost, and no budget breaks."""
        return not (self.unplaced or self.broken_budgets or self.lost_volumes)

    @property
    def harm(self) -> tuple[int, ...]:
        """Sort key, larger is worse: unplaced pods, lost volumes, broken budgets, preempted pods, and utilisation."""
        full = round(10 * max(self.use.values(), default=0))
        return len(self.unplaced), len(self.lost_volumes), len(self.broken_budgets), len(self.preempted), full

    def to_dict(self) -> dict[str, Any]:
        return {
            "lost": list(self.lost),
            "nodes": list(self.nodes),
            "pods": self.pods,
            "replaced": self.replaced,
            "unplaced": [{"pod": pod, "message": message} for pod, message in self.unplaced.items()],
            "preempted": [{"pod": pod, "for": whom} for pod, whom in self.preempted.items()],
            "brokenBudgets": self.broken_budgets,
            "barePods": self.bare_pods,
            "lostVolumes": self.lost_volumes,
            "nodePods": self.node_pods,
            "use": self.use,
            "isHarmless": self.is_harmless,
        }


Progress = Callable[[int, int], None]
"""Called with how many are done, and of how many; may raise to stop."""


def lose(base: Session, lost: Sequence[str], nodes: Sequence[str], progress: Progress = lambda done, of: None) -> Loss:
    """Lose these nodes on a fork, and place the recreated pods."""
    loss = Loss(tuple(lost), tuple(nodes))
    session = base.fork()
    gone = [pod for node in nodes for pod in session.state.table.nodes[node].pods.values()]
    loss.pods = len(gone)
    loss.lost_volumes = sorted(set(lost_volumes(session.state, gone, frozenset(nodes))))
    session.lose(nodes)
    coming: list[PodInfo] = []
    for pod in sorted(gone, key=lambda pod: pod.pod.key):
        if pod.pod.is_terminating:
            continue
        if stays_with_node(pod.pod):
            loss.node_pods.append(pod.pod.key)
        else:
            coming.append(_coming_back(session, pod, loss))
    _place(session, coming, loss, progress)
    # each once, though it may have been recreated and preempted again
    loss.bare_pods = list(dict.fromkeys(loss.bare_pods))
    loss.broken_budgets = sorted(session.broken_budgets)
    loss.use = _use(session.state)
    return loss


def _place(session: Session, pods: Iterable[PodInfo], loss: Loss, progress: Progress) -> None:
    """Place pods in the queue's order. Preempted pods follow later."""
    queue: list[tuple[Any, int, PodInfo]] = []
    count = 0

    def put(pod: PodInfo, time: int) -> None:
        nonlocal count
        count += 1
        sort_key = session.profile_for(pod.pod).queue_sort[0].sort_key
        heapq.heappush(queue, (sort_key(pod.priority, float(time)), count, pod))

    for pod in pods:
        put(pod, 0)
    while queue:
        pod = heapq.heappop(queue)[2]
        decision = session.place(pod, preempt=True)
        key = pod.pod.key
        if decision.node is not None:
            loss.replaced[key] = decision.node
        else:
            loss.unplaced[key] = decision.message
        for victim in decision.victims:
            name = victim.pod.key
            loss.preempted[name] = key
            loss.replaced.pop(name, None)
            put(_coming_back(session, victim, loss), count)
        progress(count - len(queue), count)


def _coming_back(session: Session, pod: PodInfo, loss: Loss) -> PodInfo:
    """Return the replacement of a pod; note if no controller creates it."""
    if pod.pod.metadata.controller() is None:
        loss.bare_pods.append(pod.pod.key)
    return coming_back(session.state, pod)


def coming_back(cluster: ClusterState, gone: PodInfo) -> PodInfo:
    """Return the replacement of a pod, with its claims at that time."""
    pod = gone.pod
    new = recreated_pod(pod, f"{pod.uid}:anew")
    for volume in pod.spec.volumes:
        claim = cluster.objects.get(PersistentVolumeClaim, f"{pod.namespace}/{pod.name}-{volume.name}")
        if volume.ephemeral is not None and claim is not None:
            fresh = unbound(claim)
            for owner in fresh.metadata.owner_references:
                owner.uid = new.uid
            cluster.objects.put(fresh)
    _release_devices(cluster, pod, new)
    return cluster.interner.info_like(gone, new)


def _release_devices(cluster: ClusterState, pod: Pod, new: Pod) -> None:
    """Release the devices of claims that no other pod uses, and let the new pod own its claims."""
    for wanted in pod.spec.resource_claims:
        try:
            name, _ = claim_name(pod, wanted)
        except ClaimProblem:
            continue
        claim = cluster.objects.get(ResourceClaim, f"{pod.namespace}/{name}")
        if claim is None:
            continue
        changed = copy(claim)
        changed.metadata, changed.status = copy(claim.metadata), copy(claim.status)
        changed.status.reserved_for = [each for each in claim.status.reserved_for if each.uid != pod.uid]
        if not changed.status.reserved_for:
            changed.status = ResourceClaimStatus()
        owners = [copy(owner) for owner in claim.metadata.owner_references]
        for owner in owners:
            owner.uid = new.uid if owner.uid == pod.uid else owner.uid
        changed.metadata.owner_references = owners
        cluster.objects.put(changed)


def lost_volumes(cluster: ClusterState, gone: Iterable[PodInfo], nodes: frozenset[str]) -> Iterator[str]:
    """Yield volumes of these pods that no other node can reach."""
    for pod in gone:
        for ref in claims_of(pod) if pod.shape.volumes else ():
            claim = cluster.objects.get(PersistentVolumeClaim, f"{pod.pod.namespace}/{ref.name}")
            volume = cluster.objects.get(PersistentVolume, claim.spec.volume_name) if claim is not None else None
            if (
                volume is not None
                and volume.spec.node_affinity is not None
                and not _is_reachable(volume, cluster, nodes)
            ):
                yield volume.name


def _is_reachable(volume: PersistentVolume, cluster: ClusterState, lost: frozenset[str]) -> bool:
    try:
        terms = compile_affinity(volume.spec.node_affinity)
    except ParseError:
        return False
    return any(
        all(requirement.matches(info.labels) for requirement in term)
        for info in cluster.nodes().infos
        if info.name not in lost
        for term in terms
    )


def _use(cluster: ClusterState) -> dict[str, float]:
    """Return the requested percentage of all remaining resources."""
    rows = cluster.nodes()
    found = {}
    for resource in ("cpu", "memory"):
        whole = int(rows.allocatable(resource).sum())
        if whole:
            found[resource] = round(100 * int(rows.requested(resource).sum()) / whole, 1)
    return found


# --------------------------------------------------------------------------------------------------------------------
# Domains that can be lost: a node, a zone, all nodes with one value of a label.

MAX_LOSSES = 100_000


@dataclass(frozen=True, slots=True)
class Domain:
    """Nodes that are lost together, with their names."""

    names: tuple[str, ...]  # of one node, zone or value; of two in a pair
    nodes: tuple[str, ...]


def domains(nodes: list[Node], lose: str, together: int) -> list[Domain]:
    """Return all domains of this kind, or all pairs of them; or the named node or zone, or those of a label's value."""
    single = list(_single(nodes, lose))
    if len(single) < together:
        raise InputError(f"only {len(single)} can be lost; expected {together} or more to lose {together} together")
    if comb(len(single), together) > MAX_LOSSES:
        raise InputError(
            f"{comb(len(single), together):,} pairs are too many to try; lose zones or a label with fewer values"
        )
    return [
        Domain(tuple(each.names[0] for each in group), tuple(node for each in group for node in each.nodes))
        for group in combinations(single, together)
    ]


def _single(nodes: list[Node], lose: str) -> Iterator[Domain]:
    names = [node.name for node in nodes]
    if lose == "node":
        return (Domain((name,), (name,)) for name in names)
    if lose == "zone" or lose.startswith("label="):
        key, _, value = (ZONE if lose == "zone" else lose.removeprefix("label=")).partition("=")
        found = _by_label(nodes, key)
        if not found:
            raise InputError(f"no node has the label {key}; the nodes have {', '.join(_labels(nodes)) or 'none'}")
        values = [each.names[0] for each in found]
        if value and value not in values:
            raise InputError(f"no node has the label {key}={value}; {hint(value, values)}")
        return iter([each for each in found if value in ("", each.names[0])])
    if lose in names:
        return iter((Domain((lose,), (lose,)),))
    zones = _by_label(nodes, ZONE)
    found = [zone for zone in zones if zone.names == (lose,)]
    if not found:
        known = ["node", "zone", *names, *(zone.names[0] for zone in zones)]
        meant = hint(lose, known, "expected node, zone, label=KEY, or the name of a node or zone")
        raise InputError(f"{lose}: no node or zone of that name; {meant}")
    return iter(found)


def _by_label(nodes: list[Node], key: str) -> list[Domain]:
    """Group nodes by the label's values, in order; nodes without the label are in no group."""
    members: dict[str, list[str]] = {}
    for node in nodes:
        if key in node.labels:
            members.setdefault(node.labels[key], []).append(node.name)
    return [Domain((value,), tuple(names)) for value, names in sorted(members.items())]


def _labels(nodes: list[Node]) -> list[str]:
    return sorted({key for node in nodes for key in node.labels})


PARALLEL_FROM = 10_000_000  # nodes of the cluster times losses: less is done before other processes have started


@dataclass(frozen=True, slots=True)
class Drill:
    """All losses that were tried, the worst first. Printed, it reads as ``mooring drill`` shows it."""

    lose: str
    n: int
    losses: list[Loss]
    total: int  # how many there were to try: more than these if Ctrl-C has ended it

    @property
    def is_complete(self) -> bool:
        """Report whether all were tried."""
        return len(self.losses) == self.total

    @property
    def is_safe(self) -> bool:
        """Report whether all losses were tried, and each is harmless."""
        return self.is_complete and all(loss.is_harmless for loss in self.losses)

    @property
    def harmful(self) -> list[Loss]:
        return [loss for loss in self.losses if not loss.is_harmless]

    def to_list(self) -> list[dict[str, Any]]:
        """Return everything as plain values in camelCase, as ``-o json`` prints it."""
        return [loss.to_dict() for loss in self.losses]

    def table(self) -> DecisionTable:
        """Return a row per loss, with counts."""
        return DecisionTable(
            ("lost", "pods", "unplaced", "lost volumes", "broken budgets", "preempted"),
            [(_lost(loss), loss.pods, *_counts(loss)) for loss in self.losses],
        )

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row per loss."""
        return self.table().to_pandas("lost")

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return printed_html(lambda to: draw(to, self))


def drill(
    cluster: Cluster,
    lose: str = "node",
    n: int = 1,
    *,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
    workers: int | None = 1,
    on: str | None = None,
) -> Drill:
    """Return the effect of each loss. The cluster stays unchanged.

    ``lose`` is ``"node"``, ``"zone"``, ``"label=KEY"``, the name of one node or zone, or ``"label=KEY=VALUE"``. With
    ``n=2`` every pair is tried.

    ``workers`` is the number of processes, which import the calling script; None uses all cores for large drills.
    ``on`` is the address of a cluster, such as ``"dask://scheduler:8786"``. The answer is the same with all of them.
    """
    scheduler = Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version)
    found = drill_with(scheduler, lose, n, workers=workers, on=on)
    if not found.is_complete:
        raise KeyboardInterrupt
    return found


def drill_with(
    scheduler: Scheduler,
    lose: str = "node",
    n: int = 1,
    progress: Progress = lambda done, total: None,
    *,
    workers: int | None = 1,
    on: str | None = None,
) -> Drill:
    """Answer for a scheduler and its cluster. Ctrl-C ends it with what is known by then."""
    if n not in (1, 2):
        raise InputError(f"n: {n}; expected 1 or 2 simultaneous losses")
    nodes = scheduler.cluster.nodes
    if not nodes:
        raise InputError("the cluster has no nodes to lose")
    tried = domains(nodes, lose, n)
    question = Question(scheduler, partial(_prepare, num_losses=len(tried)), _lose)
    losses: list[Loss] = []
    pays = len(tried) * len(nodes) >= PARALLEL_FROM
    with suppress(KeyboardInterrupt), workers_for(workers, on, pays=pays) as where:
        for _, loss in question.ask(tried, where):
            losses.append(loss)
            progress(len(losses), len(tried))
    worst_first = sorted(losses, key=lambda loss: (tuple(-part for part in loss.harm), loss.lost))
    return Drill(lose, n, worst_first, len(tried))


def _prepare(base: Session, num_losses: int) -> None:
    """Compute once what all forks share: rows, labels as numbers, and pods by selector.

    A decision is made about each kind of pod that will be recreated. Extenders are not called.
    """
    base.state.nodes()
    if base.handle.extenders:
        return
    kinds = {(pod.shape, pod.cls): pod.pod for pod in base.state.pods() if not stays_with_node(pod.pod)}
    for pod in list(kinds.values())[:num_losses]:
        base.decide(recreated_pod(pod, f"{pod.uid}:asked"), detail=False)


def _lose(base: Session, domain: Domain) -> Loss:
    return lose(base, domain.names, domain.nodes)


# --------------------------------------------------------------------------------------------------------------------
# Rendering of a drill.

TOP = 10
DETAILED = 3  # losses
REASONS = 5  # of each why pods do not fit


def draw(to: Console, found: Drill, top: int = TOP) -> None:
    """Print the verdict, the losses with the worst first, details of the worst, and how to see the others."""
    colour = "green" if found.is_safe else "red"
    to.print(f"[{colour}]{escape(headline(found))}[/{colour}]")
    to.print()
    print_table(
        to,
        ["LOST", "PODS", "UNPLACED", "LOST VOLUMES", "BROKEN BUDGETS", "PREEMPTED", "USE OF THE REST"],
        [_row(loss) for loss in found.losses[:top]],
    )
    print_more(to, len(found.losses), top)
    harmful = found.harmful
    for loss in harmful[:DETAILED] or [loss for loss in found.losses[:1] if loss.preempted]:
        _draw_loss(to, loss)
    if len(harmful) > DETAILED:
        to.print()
        to.print(f"Also harmful: losing {escape(first_of([_lost(loss) for loss in harmful[DETAILED:]]))}")
        to.print(f"  {escape(_shown_by(found, harmful[DETAILED]))} shows what it does")


def text(found: Drill) -> str:
    """Return the text without colours."""
    return printed(lambda to: draw(to, found))


def headline(found: Drill) -> str:
    """Return one line: whether all tried losses are harmless."""
    harmful, total = len(found.harmful), len(found.losses)
    if not found.is_complete:
        return f"Interrupted after {total} of {found.total} losses; {harmful} of these {total} do harm"
    if total == 1:
        return f"Losing {_lost(found.losses[0])} does {'harm' if harmful else 'no harm'}"
    key = found.lose.removeprefix("label=").partition("=")[0]
    one, many = (f"value of {key}", f"values of {key}") if key != found.lose else (key, f"{key}s")
    if found.n == 2:
        one, many = f"pair of {many}", f"pairs of {many}"
    if not harmful:
        return f"Safe: any {one} can be lost ({total} were tried)"
    return f"Not safe: losing {harmful} of {total} {many} does harm"


def _row(loss: Loss) -> list[str | Text]:
    use = ", ".join(f"{resource} {percent:g}%" for resource, percent in loss.use.items())
    return [Text(_lost(loss)), str(loss.pods), *map(str, _counts(loss)), use]


def _counts(loss: Loss) -> list[int]:
    return [len(each) for each in (loss.unplaced, loss.lost_volumes, loss.broken_budgets, loss.preempted)]


def _lost(loss: Loss) -> str:
    return " and ".join(loss.lost)


def _shown_by(found: Drill, loss: Loss) -> str:
    """Return the option for a drill of this loss alone."""
    if found.n > 1:
        return "-o json"
    is_value = found.lose.startswith("label=")
    return f"--lose {f'{found.lose}={loss.lost[0]}' if is_value else loss.lost[0]}"


def _draw_loss(to: Console, loss: Loss) -> None:
    to.print()
    to.print(f"[bold]Without {escape(_lost(loss))}[/bold]")
    print_refused(to, loss.unplaced, "no place for ", REASONS)
    for what, names in (
        ("volumes lost, because no other node can reach them", loss.lost_volumes),
        ("budgets broken until pods run again", loss.broken_budgets),
        ("preempted", [f"{pod} (for {whom})" for pod, whom in loss.preempted.items()]),
        ("without a controller, so their owner must recreate them", loss.bare_pods),
        ("gone with their nodes, as DaemonSets' and static pods are", loss.node_pods),
    ):
        if names:
            to.print(f"  {what}: {escape(first_of(names))}")
