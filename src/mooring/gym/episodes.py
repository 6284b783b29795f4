"""Episodes: a cluster and the pods that come to it. They are drawn from traces and records, or made up."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.api.core import Container, Node, NodeStatus, Pod, PodSpec, ResourceList, ResourceRequirements
from mooring.api.meta import Object, ObjectMeta
from mooring.errors import InputError
from mooring.gpus.requests import COUNT, MILLI
from mooring.importing.imported import Arrival
from mooring.importing.read import import_files
from mooring.record.entries import Bound, Deleted, Put
from mooring.record.reader import Record

Random = np.random.Generator


@dataclass(slots=True)
class Episode:
    """What is there at the start, and the pods that come, in order of their times."""

    objects: list[Object] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)


Episodes = Callable[[Random], Episode]
"""Draws an episode. The same numbers from the generator must give the same episode."""


def from_files(*paths: str | os.PathLike[str], pods: int | None = None, nodes: int | None = None) -> Episodes:
    """Episodes of a trace: the nodes of the files, and ``pods`` of their pods in order from a place drawn by lot.

    Files are those that ``mooring import`` reads. With ``nodes``, so many nodes are drawn.
    """
    imported = import_files(paths)
    return _drawn(Episode(imported.objects, imported.arrivals), pods, nodes, str(paths[0]))


def from_record(path: str | os.PathLike[str], pods: int | None = None) -> Episodes:
    """Episodes of a record: its cluster at the start, and its pods when they came. Each runs for as long as it did."""
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
    """Made-up episodes: equal nodes, and pods that ask for parts of a GPU and some CPU, or for CPU alone.

    Together the pods of GPUs ask for about ``load`` of all GPUs if there are enough of them. With ``run_s`` pods run
    for about that long.
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
