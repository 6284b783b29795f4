"""The cluster of an episode: pods arrive, wait, are placed by the agent, run and end, in the episode's own time.

Filters, scores, reservations and preemption are those of a profile of the ordinary engine. A pod that fits nowhere may
evict others, as the profile's PostFilter says; otherwise it waits until a pod ends.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.api.clock import VirtualClock
from mooring.api.core import Container, Node, NodeStatus, Pod, PodSpec, ResourceList, ResourceRequirements
from mooring.api.errors import InputError
from mooring.api.meta import Object, ObjectMeta
from mooring.core.config.load import config_from_dict
from mooring.core.engine.decision import CycleAttempt, Outcome, ScheduleResult
from mooring.core.engine.in_tree import in_tree_registry
from mooring.core.engine.search import SearchResult, choose
from mooring.core.framework.cycle_state import CycleError
from mooring.core.framework.runtime import Profile
from mooring.core.plugins.gpus.requests import COUNT, MILLI
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodInfo
from mooring.record.entries import Bound, Deleted, Put
from mooring.record.reader import Record
from mooring.sim.imports.read import import_files
from mooring.sim.workload import Arrival

# --------------------------------------------------------------------------------------------------------------------
# Episodes: a cluster and its arriving pods. They are drawn from traces and records, or generated.

Random = np.random.Generator


@dataclass(slots=True)
class Episode:
    """The initial objects, and the arriving pods in order of their times."""

    objects: list[Object] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)


Episodes = Callable[[Random], Episode]
"""Draws an episode. The same random numbers must give the same episode."""


def from_files(*paths: str | os.PathLike[str], pods: int | None = None, nodes: int | None = None) -> Episodes:
    """Return episodes of a trace: the nodes of the files, and ``pods`` of their pods in order from a random start.

    Files are those that ``mooring import`` reads. With ``nodes``, this many nodes are drawn at random.
    """
    imported = import_files(paths)
    return _drawn(Episode(imported.objects, imported.arrivals), pods, nodes, str(paths[0]))


def from_record(path: str | os.PathLike[str], pods: int | None = None) -> Episodes:
    """Return episodes of a record: its initial cluster, and its pods at their arrival times, with their run times."""
    arrivals: dict[str, Arrival] = {}
    bound_at: dict[str, float] = {}
    run_s: dict[str, float] = {}
    objects: dict[tuple[str, str], Object] = {}
    with Record.open(os.fspath(path)) as record:
        start = record.first_time
        for time, entry in record.entries():
            if isinstance(entry, Put) and isinstance(entry.object, Pod):
                pod = entry.object
                if not pod.spec.node_name:
                    arrivals.setdefault(pod.uid, Arrival(max(0.0, time - start), pod))
                elif pod.uid not in arrivals:
                    objects[("Pod", pod.key)] = pod
            elif isinstance(entry, Put) and (time <= start or isinstance(entry.object, Node)):
                objects[(type(entry.object).__name__, entry.object.key)] = entry.object
            elif isinstance(entry, Bound):
                bound_at[entry.uid] = time
            elif isinstance(entry, Deleted) and entry.uid in bound_at:
                run_s[entry.uid] = max(0.0, time - bound_at[entry.uid])
    came = [Arrival(each.at_s, each.pod, run_s.get(uid)) for uid, each in arrivals.items()]
    return _drawn(Episode(list(objects.values()), sorted(came, key=lambda each: each.at_s)), pods, None, str(path))


def _drawn(whole: Episode, pods: int | None, nodes: int | None, where: str) -> Episodes:
    if not any(isinstance(obj, Node) for obj in whole.objects):
        raise InputError(f"{where}: no nodes; expected a file with nodes beside the one with pods")
    if not whole.arrivals:
        raise InputError(f"{where}: no pods that arrive")

    def draw(rng: Random) -> Episode:
        arrivals, objects = whole.arrivals, whole.objects
        if pods is not None and pods < len(arrivals):
            first = int(rng.integers(0, len(arrivals) - pods + 1))
            begin_s = arrivals[first].at_s
            arrivals = [Arrival(a.at_s - begin_s, a.pod, a.run_s) for a in arrivals[first : first + pods]]
        if nodes is not None:
            all_nodes = [obj for obj in objects if isinstance(obj, Node)]
            kept = sorted(rng.permutation(len(all_nodes))[:nodes].tolist())
            objects = [all_nodes[i] for i in kept] + [obj for obj in objects if not isinstance(obj, Node | Pod)]
        return Episode(objects, arrivals)

    return draw


SHARES: Sequence[int] = (160, 230, 320, 470, 470, 650, 810, 1000, 1000, 1000)


def generated(
    nodes: int = 100, pods: int = 1000, gpus: int = 4, cores: int = 48, load: float = 1.2, run_s: float | None = None
) -> Episodes:
    """Return generated episodes: equal nodes, and pods that want parts of a GPU and some CPU, or only CPU.

    Together the GPU pods request about ``load`` of all GPUs if there are enough of them. With ``run_s`` pods run for
    about that long.
    """

    def draw(rng: Random) -> Episode:
        objects: list[Object] = [_node(f"node-{i:04}", cores, gpus) for i in range(nodes)]
        wanted, arrivals = load * nodes * gpus * 1000, list[Arrival]()
        for i in range(pods):
            milli = int(rng.choice(SHARES)) if gpus and rng.random() < 0.85 and wanted > 0 else 0
            wanted -= milli
            cpu = int(rng.integers(1, 13)) * 1000
            length = None if run_s is None else float(rng.exponential(run_s))
            arrivals.append(Arrival(float(i), _pod(f"pod-{i:05}", cpu, milli), length))
        return Episode(objects, arrivals)

    return draw


def _node(name: str, cores: int, gpus: int) -> Node:
    amounts: ResourceList = {
        "cpu": str(cores),
        "memory": f"{4 * cores}Gi",
        "pods": "250",
        **({COUNT: str(gpus)} if gpus else {}),
    }
    status = NodeStatus(allocatable=amounts, capacity=amounts)
    return Node(metadata=ObjectMeta(name=name, uid=f"node:{name}"), status=status)


def _pod(name: str, cpu: int, milli: int) -> Pod:
    annotations = {MILLI: str(milli), COUNT: "1"} if milli else {}
    requests: ResourceList = {"cpu": f"{cpu}m", "memory": f"{cpu // 1000}Gi"}
    meta = ObjectMeta(name=name, namespace="default", uid=f"pod:{name}", annotations=annotations)
    container = Container(name="main", resources=ResourceRequirements(requests=requests))
    return Pod(metadata=meta, spec=PodSpec(containers=[container], scheduler_name="default-scheduler"))


Offer = tuple[CycleAttempt, SearchResult]
NO_ROWS: NDArray[np.int64] = np.zeros(0, np.int64)


class GymWorld:
    """``pod`` is the next one to be placed, ``rows`` are its feasible nodes; None at the end."""

    def __init__(self, episode: Episode, config: Mapping[str, Any] | None, plugins: Iterable[type] = ()) -> None:
        """``plugins`` are classes beside the in-tree ones."""
        self.clock = VirtualClock()
        self.cluster = ClusterState()
        for obj in episode.objects:
            self.cluster.put(obj)
        registry = in_tree_registry()
        for plugin in plugins:
            registry.register(plugin)
        self.session = open_session(
            config_from_dict(config), self.cluster, clock=self.clock, registry=registry, takes_all=True
        )
        self.profile: Profile = next(iter(self.session.profiles.values()))
        self.pod: PodInfo | None = None
        self.offer: Offer | None = None
        self.placed = self.refused = self.evicted = 0
        self.waited_s = 0.0  # total waiting time of all pods so far
        self._arrivals = episode.arrivals
        self._next = 0  # index of the next arrival
        self._arrival: Arrival | None = None  # of the pod to be placed
        self._ends: list[tuple[float, int, str]] = []  # (time, number, uid)
        self._waiting: list[Arrival] = []
        self._again: list[Arrival] = []  # waiting pods to be tried now, the last first
        self._infos: dict[str, PodInfo] = {each.pod.uid: self.cluster.info(each.pod) for each in episode.arrivals}
        self._come: set[str] = set()  # uids of the pods that have arrived
        self.advance()

    # ---- the pod to be placed ------------------------------------------------------------------------------------

    @property
    def rows(self) -> NDArray[np.int64]:
        return NO_ROWS if self.offer is None else self.offer[1].rows

    def pods(self) -> Iterable[PodInfo]:
        """Return the pods of the episode, including those that have not arrived yet."""
        return self._infos.values()

    def best_row(self) -> int:
        """Return the node that the profile's own score plugins choose."""
        assert self.offer is not None
        attempt, result = self.offer
        if len(result.rows) == 1:
            return int(result.rows[0])
        kept = self.session.engine.search.kept_for(self.profile)
        return choose(attempt, result, kept, None).row

    def place(self, row: int) -> bool:
        """Place the pod; return False if Reserve or Permit rejects it."""
        assert self.pod is not None and self._arrival is not None and self.offer is not None
        node, state = self.cluster.table.infos[row].name, self.offer[0].state
        chosen = ScheduleResult(self.pod, Outcome.SCHEDULED, node, state=state)
        if self.session.commit(chosen).node is None:
            self.drop()
            return False
        self.placed += 1
        if self._arrival.run_s is not None:
            heapq.heappush(self._ends, (self.clock.now() + self._arrival.run_s, self.placed, self.pod.uid))
        return True

    def drop(self) -> None:
        """Leave the pod without a node for good."""
        self.refused += 1

    # ---- time ----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Advance time until a pod has a feasible node, or until no event is left."""
        self.pod = self.offer = None
        while True:
            if self._again:
                arrival, is_new = self._again.pop(), False
            elif self._next_is_arrival():
                arrival, is_new = self._arrivals[self._next], True
                self._next += 1
                self._pass(arrival.at_s)
            elif self._ends:
                self._end_next()
                continue
            else:
                return
            if self._try(arrival, is_new):
                return

    def _next_is_arrival(self) -> bool:
        if self._next >= len(self._arrivals):
            return False
        return not self._ends or self._arrivals[self._next].at_s < self._ends[0][0]

    def _pass(self, until_s: float) -> None:
        self.waited_s += max(0.0, until_s - self.clock.now()) * len(self._waiting)
        self.clock.advance_to(until_s)

    def _end_next(self) -> None:
        at_s, _, uid = heapq.heappop(self._ends)
        self._pass(at_s)
        self.cluster.remove_pod(uid)
        self._again, self._waiting = self._waiting[::-1], []

    def _try(self, arrival: Arrival, is_new: bool) -> bool:
        info = self._info(arrival.pod)
        offer = self._look(info)
        if offer is None and info.priority > 0 and self._make_room(info):
            offer = self._look(info)
        if offer is None:
            self._waiting.append(arrival)
            return False
        self.pod, self.offer, self._arrival = info, offer, arrival
        return True

    def _info(self, pod: Pod) -> PodInfo:
        info = self._infos[pod.uid]
        if pod.uid in self._come and self.cluster.pod(pod.uid) is not None:  # drawn again: another one like it
            again = copy(pod)
            again.metadata = copy(pod.metadata)
            again.metadata.uid = f"{pod.uid}/{self._next}"
            info = PodInfo(again, info.shape, info.cls)
        self._come.add(pod.uid)
        return info

    def _look(self, info: PodInfo) -> Offer | None:
        try:
            offer = self.session.engine.look(info, self.profile)
        except CycleError:
            return None
        return offer if len(offer[1].rows) else None

    def _make_room(self, info: PodInfo) -> bool:
        """Evict the victims that preemption finds; they are not recreated."""
        victims = self.session.engine.decide(info, self.profile, detail=False).victims
        for victim in victims:
            self.cluster.remove_pod(victim.uid)
        self.evicted += len(victims)
        return bool(victims)

    # ---- copies --------------------------------------------------------------------------------------------------

    def clone(self) -> GymWorld:
        """Return an independent copy of the world. Unchanged parts are shared."""
        other = copy(self)
        other.cluster = self.cluster.fork()
        other.clock = VirtualClock(self.clock.now())
        other.session = self.session.on(other.cluster, clock=other.clock)
        other.profile = other.session.profiles[self.profile.scheduler_name]
        other._ends, other._waiting, other._again = list(self._ends), list(self._waiting), list(self._again)
        other._come = set(self._come)
        other.offer = None if self.pod is None else other._look(self.pod)
        return other
