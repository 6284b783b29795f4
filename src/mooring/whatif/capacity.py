"""How many more of these pods fit, where, and what stops the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.api.core import Pod
from mooring.api.wording import count_of
from mooring.engine.decision import Decision
from mooring.errors import InputError
from mooring.surface.asked_pod import Askable, find_pod
from mooring.surface.cluster import Cluster
from mooring.surface.manifests import warn
from mooring.surface.scheduler import Configuration, PluginReference, Scheduler
from mooring.whatif.copies import Copies
from mooring.whatif.filling import fill
from mooring.whatif.node_kinds import add_node_like, node_kinds
from mooring.whatif.placing import Placing

MAX_KINDS = 12


@dataclass(frozen=True, slots=True)
class MoreRoom:
    """What one more node of a kind would add once the cluster is full."""

    kind: str
    like: str  # a node of this kind
    nodes: int  # how many of this kind there are
    fits: int  # how many more pods, or whole sets, would fit


@dataclass(slots=True)
class Capacity:
    """How many fit, on which nodes, and why no more. Printed, it reads as ``mooring capacity`` shows it."""

    asked: dict[str, int]  # pods, with their share in a set
    copies: int | None  # how many were asked for; None: as many as fit
    fits: int = 0  # pods of the one kind that was asked for, or whole sets of several
    nodes: dict[str, int] = field(default_factory=dict)  # pods by node
    stopped_by: str | None = None  # kube-scheduler's message for the next pod; None: nothing stopped it
    stopped_pod: str | None = None  # the one of several that does not fit
    reasons: dict[str, int] = field(default_factory=dict)  # of the refusal, with the number of nodes
    preempted: list[str] = field(default_factory=list)
    one_more_node: list[MoreRoom] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_enough(self) -> bool:
        """Report whether as many fit as were asked for, or at least one."""
        return self.fits >= (1 if self.copies is None else self.copies)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, camelCase, as ``-o json`` prints it."""
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

    def __repr__(self) -> str:
        from mooring.whatif.capacity_text import text

        return text(self)


def capacity(
    cluster: Cluster,
    pods: Askable | Iterable[Askable] | Mapping[Any, int],
    copies: int | None = None,
    *,
    preempt: bool = False,
    config: Configuration = None,
    plugins: Iterable[PluginReference] = (),
    kubernetes_version: str | None = None,
) -> Capacity:
    """Say how many more of these pods fit. The cluster stays as it is.

    ``pods`` is a pod, several of which one each makes a set, or a mapping of pods to their shares in a set. With
    ``copies`` the count ends there. With ``preempt`` less important pods are evicted where that makes room.
    """
    return capacity_of(
        Scheduler(cluster, config, plugins, kubernetes_version=kubernetes_version), pods, copies, preempt
    )


def capacity_of(
    scheduler: Scheduler,
    pods: Askable | Iterable[Askable] | Mapping[Any, int],
    copies: int | None = None,
    preempt: bool = False,
) -> Capacity:
    """The same, asked of a scheduler and its cluster."""
    if copies is not None and copies < 1:
        raise InputError(f"copies: {copies}; expected 1 or more")
    placing = Placing.of(scheduler)
    sets, notes = _sets(_shares(pods), scheduler.cluster, placing)
    found = Capacity({each.pod.key: share for each, share in sets}, copies, notes=notes)
    found.notes += _waiting(scheduler.cluster)
    filled = fill(placing, sets, copies, preempt=preempt)
    found.fits, found.preempted = filled.sets, filled.preempted
    found.nodes = dict(sorted(filled.nodes.items(), key=lambda entry: (-entry[1], entry[0])))
    refusal = filled.refusal
    if refusal is None:
        if copies is None:
            found.notes.append("nothing stops the next one; the count ends where there are more than nodes allow pods")
        return found
    found.stopped_by = refusal.message
    found.stopped_pod = None if len(sets) == 1 else _origin(refusal, sets)
    if refusal.statuses is not None:
        found.reasons = dict(refusal.statuses.histogram().most_common())
    found.one_more_node = list(_one_more_node(placing, sets))
    return found


def _shares(pods: Askable | Iterable[Askable] | Mapping[Any, int]) -> list[tuple[Askable, int]]:
    """Each pod with its share; a manifest is a mapping, too, and its values are not all numbers."""
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
    shares: list[tuple[Askable, int]], cluster: Cluster, placing: Placing
) -> tuple[list[tuple[Copies, int]], list[str]]:
    asked = [(find_pod(pod, cluster), share) for pod, share in shares]
    notes: list[str] = []
    for found, _ in asked:
        warn(found.warnings)
        notes += found.notes
        theirs, ours = found.pod.spec.scheduler_name, placing.profile_of(found.pod).scheduler_name
        if theirs != ours:
            notes.append(f"{found.pod.key} is for {theirs}; it is placed as {ours} would place it")
        for obj in found.others:
            placing.state.objects.put(obj)
    keys = [found.pod.key for found, _ in asked]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{key} is asked for twice; a share says how many of it are in a set")
    return [(Copies(found.pod, placing.state), share) for found, share in asked], notes


def _origin(refusal: Decision, sets: list[tuple[Copies, int]]) -> str:
    """Which of the pods that were asked for the refused one is a copy of."""
    uid = refusal.pod.uid.rpartition(":")[0]
    return next(each.pod.key for each, _ in sets if each.pod.uid == uid)


def _one_more_node(full: Placing, sets: list[tuple[Copies, int]]) -> Iterable[MoreRoom]:
    for kind in node_kinds(full.state)[:MAX_KINDS]:
        with_it = full.fork()
        add_node_like(with_it.state, kind.like, f"{kind.like.name}-more")
        more = fill(with_it, [(each.on(with_it.state), share) for each, share in sets])
        yield MoreRoom(kind.name, kind.like.name, kind.count, more.sets)


def _waiting(cluster: Cluster) -> Iterable[str]:
    waiting = cluster.pending
    nominated = sum(bool(pod.status.nominated_node_name) for pod in waiting)
    if waiting:
        which = f"; the {nominated} that are nominated to a node keep their place" if nominated else ""
        yield f"{count_of(len(waiting), 'pod')} of the cluster wait for a node and are not counted{which}"
