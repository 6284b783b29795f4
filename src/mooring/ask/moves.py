"""Moving pods: which may be evicted, and in which order a placement can be reached.

| a pod | can it be moved? |
|---|---|
| of a DaemonSet, or static | no: it belongs to its node |
| about to end | no |
| without a controller | only with force: nothing would recreate it |
| with an annotation that forbids eviction | no |
| with a budget that allows no disruption | no |
| with a volume that only this node can reach, or a hostPath | no |
| with an emptyDir | only if its data may be deleted |
| of a pod group | no: a group is placed as a whole |
| any other | yes |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from mooring.api import yaml
from mooring.api.budgets import budgets_of
from mooring.api.core import Pod
from mooring.api.errors import InputError
from mooring.api.manifests import read_bytes
from mooring.api.well_known import INSTANCE_TYPE, ZONE
from mooring.api.workloads import PodDisruptionBudget
from mooring.ask.copies import stays_with_node
from mooring.ask.drill import coming_back, lost_volumes
from mooring.core.engine.decision import ScheduleResult
from mooring.core.session import Session
from mooring.core.state.cluster import ClusterState, group_of
from mooring.core.state.pod_info import PodInfo
from mooring.sim.catalogue import Catalogue, read_catalogue

EVICT, BIND = "evict", "bind"
# Annotations that cluster-autoscaler and Karpenter respect.
_FORBID = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}


def why_it_stays(
    pod: PodInfo, cluster: ClusterState, *, delete_emptydir_data: bool = False, force: bool = False
) -> str:
    """Return why a running pod cannot be moved to another node; "" if it can."""
    key, meta = pod.pod.key, pod.pod.metadata
    if not force and meta.controller() is None:
        return f"{key} has no controller to recreate it"
    for name, value in _FORBID.items():
        if meta.annotations.get(name) == value:
            return f"{key} has the annotation {name}: {value}"
    for budget in _budgets(pod.pod, cluster):
        if budget.status.disruptions_allowed <= 0:
            return f"the budget {budget.key} allows no disruption of {key}"
    if any(volume.host_path is not None for volume in pod.pod.spec.volumes):
        return f"{key} uses a hostPath"
    if not delete_emptydir_data and any(volume.empty_dir is not None for volume in pod.pod.spec.volumes):
        return f"{key} has data in an emptyDir (--delete-emptydir-data lets them go)"
    volumes = sorted(set(lost_volumes(cluster, [pod], frozenset([pod.pod.spec.node_name]))))
    return f"only this node can reach the volume {volumes[0]}" if volumes else ""


def _budgets(pod: Pod, cluster: ClusterState) -> Iterable[PodDisruptionBudget]:
    return budgets_of(pod, cluster.objects.in_namespace(PodDisruptionBudget, pod.namespace))


def movable_pods(
    session: Session, *, delete_emptydir_data: bool = False, force: bool = False
) -> tuple[list[PodInfo], dict[str, str]]:
    """Return the movable pods; and those that must stay although they do not belong to their node."""
    movable: list[PodInfo] = []
    stay: dict[str, str] = {}
    for info in session.state.nodes().infos:
        for pod in info.pods.values():
            if stays_with_node(pod.pod) or pod.pod.is_terminating:
                continue
            why = why_it_stays(pod, session.state, delete_emptydir_data=delete_emptydir_data, force=force)
            if not why and group_of(pod.pod):
                why = f"{pod.pod.key} is placed together with its pod group"
            if why:
                stay[pod.pod.key] = why
            else:
                movable.append(pod)
    return movable, stay


@dataclass(frozen=True, slots=True)
class Move:
    """A pod and its new node. A pending pod has no source; an evicted pod has no target."""

    pod: PodInfo
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step. Before the next one, wait until an evicted pod is gone, or a bound pod is ready."""

    action: str  # EVICT or BIND
    pod: str
    node: str


@dataclass(slots=True)
class MoveReplay:
    """Carries moves out on a fork, each only when every filter accepts the pod.

    Budgets limit how many pods may be down at the same time. A pod that is bound again returns its disruption.
    """

    session: Session
    steps: list[Step] = field(default_factory=list)
    safe: int = 0  # after this many steps every evicted pod has a node again
    left: list[Move] = field(default_factory=list)  # moves that could not be made
    refusals: dict[str, ScheduleResult] = field(default_factory=dict)  # by uid, the last rejection
    _down: dict[str, PodInfo] = field(default_factory=dict)  # by the old uid: evicted, not bound yet
    _used: Counter[str] = field(default_factory=Counter)  # disruptions, by budget

    def run(self, moves: Iterable[Move]) -> bool:
        """Make all moves; False if some cannot be made in any order that was tried."""
        self.left = list(moves)
        for move in [move for move in self.left if not move.target]:
            self._evict(move)
            self.left.remove(move)
            del self._down[move.pod.uid]  # no caller waits for it
        while self.left:
            if not self._one_round() and not self._evict_one():
                return False
        return True

    def make(self, step: Step, move: Move) -> None:
        """Make a step that was possible before."""
        if step.action == EVICT:
            self._evict(move)
        else:
            assert self._bind(move, self._down.get(move.pod.uid, move.pod)), f"{step} was possible before"

    def _one_round(self) -> bool:
        """Make every move that is possible now."""
        done: list[Move] = []
        for move in self.left:
            if self._move(move):
                done.append(move)
                if not self._down:
                    self.safe = len(self.steps)
        made = {move.pod.uid for move in done}
        self.left = [move for move in self.left if move.pod.uid not in made]
        return bool(done)

    def _move(self, move: Move) -> bool:
        if not move.source or move.pod.uid in self._down:
            return self._bind(move, self._down.get(move.pod.uid, move.pod))
        if not self._may_evict(move.pod):
            return False
        has_claims = bool(move.pod.shape.volumes or move.pod.pod.spec.resource_claims)
        if has_claims:  # an eviction changes them: try it on a fork first
            trial = self.session.fork()
            trial.state.remove_pod(move.pod.uid)
            decision = bound(trial, coming_back(trial.state, move.pod), move.target)
            if decision.node is None:
                self.refusals[move.pod.uid] = decision
                return False
        self._evict(move)
        if self._bind(move, self._down[move.pod.uid]):
            return True
        if not has_claims:
            self._take_back(move)
        return False

    def _bind(self, move: Move, pod: PodInfo) -> bool:
        decision = bound(self.session, pod, move.target)
        if decision.node is not None:
            decision = self.session.commit(decision)
        if decision.node is None:
            self.refusals[move.pod.uid] = decision
            return False
        if self._down.pop(move.pod.uid, None) is not None:
            self._used.subtract(self._budgets(move.pod))
        self.steps.append(Step(BIND, move.pod.pod.key, move.target))
        self.refusals.pop(move.pod.uid, None)
        return True

    def _evict_one(self) -> bool:
        """Evict a pod before its new node can take it: one from the node that most others need."""
        wanted = Counter(move.target for move in self.left)
        able = [
            move for move in self.left if move.source and move.pod.uid not in self._down and self._may_evict(move.pod)
        ]
        if not able:
            return False
        self._evict(max(able, key=lambda move: wanted[move.source]))
        return True

    def _may_evict(self, pod: PodInfo) -> bool:
        return all(
            budget.status.disruptions_allowed > self._used[budget.key]
            for budget in _budgets(pod.pod, self.session.state)
        )

    def _evict(self, move: Move) -> None:
        self.session.state.remove_pod(move.pod.uid)
        self._used.update(self._budgets(move.pod))
        self._down[move.pod.uid] = coming_back(self.session.state, move.pod)
        self.steps.append(Step(EVICT, move.pod.pod.key, move.source))

    def _take_back(self, move: Move) -> None:
        """Undo the last step, an eviction that did not help."""
        self.session.state.set_pod(move.pod.pod)
        self._used.subtract(self._budgets(move.pod))
        del self._down[move.pod.uid]
        self.steps.pop()

    def _budgets(self, pod: PodInfo) -> list[str]:
        return [budget.key for budget in _budgets(pod.pod, self.session.state)]


def bound(session: Session, pod: PodInfo, node: str) -> ScheduleResult:
    """Return the decision about a pod restricted to this node."""
    session.state.nodes()  # determines the row of each node
    row = session.state.table.nodes[node].row
    profile = session.profile_for(pod.pod)
    return session.engine.attempt(pod, profile, detail=False, within=np.array([row]), makes_room=False)


# ---- prices of nodes
# -----------------------------------------------------------------------------------------------------

Prices = str | Path | Mapping[str, float] | Catalogue | None
"""Prices by node name or instance type (a YAML file or a dict), or a catalogue (CSV, JSON). None: each node costs 1."""


def price_of(given: Prices, session: Session) -> Callable[[str], float]:
    """Return a function for the price of a node: its own, else that of its instance type, else an error."""
    if given is None:
        return lambda name: 1.0
    if isinstance(given, str | Path) and str(given).endswith((".csv", ".json")):
        given = read_catalogue(given)
    if isinstance(given, Catalogue):
        return _catalogue_price(given, session)
    where = "prices" if isinstance(given, Mapping) else str(given)
    raw = given if isinstance(given, Mapping) else yaml.load(read_bytes(Path(given)), where)
    try:
        table = msgspec.convert(raw, dict[str, float], strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}; expected a price for each node name or instance type") from None
    if any(price < 0 for price in table.values()):
        raise InputError(f"{where}: found a price below 0; expected 0 or more")

    def price(name: str) -> float:
        kind = session.state.table.nodes[name].labels.get(INSTANCE_TYPE, "")
        found = table.get(name, table.get(kind))
        if found is None:
            raise InputError(f"{where}: no price for node {name}; expected one for the node or its type {kind!r}")
        return found

    return price


def _catalogue_price(catalogue: Catalogue, session: Session) -> Callable[[str], float]:
    def price(name: str) -> float:
        labels = session.state.table.nodes[name].labels
        found = catalogue.price_of(labels)
        if found is None:
            kind, zone = labels.get(INSTANCE_TYPE, ""), labels.get(ZONE, "")
            raise InputError(
                f"{catalogue.source}: no price for node {name}; expected a row for its type {kind!r} in zone {zone!r}"
            )
        return found

    return price
