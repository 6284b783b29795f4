"""How the cost of a decision grows with the cluster: with its nodes, and with the pods that run there.

Every cluster size runs in its own process, so that memory is measured per size: ``python -m mooring.bench.growth``
reads a request from standard input and writes a JSON value per line, progress and then the result. ``run`` is the other
side. Costs are CPU time of ``decide``, since other processes may use the machine.
"""

from __future__ import annotations

import itertools
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mooring.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
)
from mooring.api.errors import InputError
from mooring.api.memory import measuring
from mooring.api.meta import LabelSelector
from mooring.api.well_known import INSTANCE_TYPE
from mooring.bench.clusters import TEMPLATES, Template, make_cluster, make_pod
from mooring.bench.decisions import read_document
from mooring.bench.own_process import own_process
from mooring.core.config.load import default_config
from mooring.core.engine.decision import Outcome
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState

FORMAT = "mooring-bench-growth/1"
NODES, PODS = "nodes", "pods"  # what grows
NODE_SIZES = (500, 1_000, 2_000, 5_000, 10_000, 20_000)
POD_SIZES = (0, 10_000, 50_000, 100_000, 200_000)
PODS_PER_NODE = 10
FIXED_NODES = 5_000
APPS = 100
ROUNDS = 3  # a disturbed minute then affects only a third of the samples, and not the 5th percentile
WARM_UP = 10  # decisions of every round that are not counted

REGION = "topology.kubernetes.io/region"


def _affinity(i: int, app: str) -> Pod:
    """Return a pod that must run in one region with its own application: all nodes stay feasible at any size."""
    pod = make_pod(i, app)
    term = PodAffinityTerm(LabelSelector(match_labels={"app": app}), [], REGION)
    pod.spec.affinity = Affinity(pod_affinity=PodAffinity(required=[term]))
    return pod


def _node_affinity(i: int, app: str) -> Pod:
    pod = make_pod(i, app)
    types = NodeSelectorRequirement(INSTANCE_TYPE, "In", ["type-0", "type-1", "type-2"])
    ssd = NodeSelectorRequirement("disk", "In", ["ssd"])
    pod.spec.affinity = Affinity(
        node_affinity=NodeAffinity(
            required=NodeSelector([NodeSelectorTerm([types])]),
            preferred=[PreferredSchedulingTerm(10, NodeSelectorTerm([ssd]))],
        )
    )
    return pod


def _no_room(i: int, app: str) -> Pod:
    """Return a pod that wants all CPU of a node: rejected wherever a pod runs, and no victim has a lower priority."""
    return make_pod(i, app, cpu="32")


NO_ROOM = "no room"
RUNNING: dict[str, Template] = {
    "plain": TEMPLATES["plain"][0],
    "spread": TEMPLATES["spread"][0],
    "pod affinity": _affinity,
    "pod anti-affinity": TEMPLATES["anti-affinity"][0],
    "node affinity": _node_affinity,
}
KINDS: dict[str, Template] = {**RUNNING, NO_ROOM: _no_room}


def kinds_at(size: Size, kinds: Iterable[str]) -> list[str]:
    """Return the kinds that mean the same at this size: in an empty cluster no pod is rejected."""
    return [kind for kind in kinds if kind != NO_ROOM or size.running_pods >= size.nodes]


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    running_pods: int

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.running_pods:,} pods"


@dataclass(slots=True)
class Cost:
    """Cost of deciding about pods of a kind, in µs of CPU time. ``alike``: of one template, so that caches help."""

    kind: str
    alike: bool
    decisions: int
    placed: int
    p5_us: float
    median_us: float
    mean_us: float


@dataclass(slots=True)
class Measured:
    """All measurements at one size of cluster. Memory is resident, before any decision."""

    size: Size
    costs: list[Cost] = field(default_factory=list)
    nodes_mib: float = 0.0
    pods_mib: float = 0.0
    peak_mib: float = 0.0
    build_cpu_s: float = 0.0
    # CPU time of a fixed piece of work: shows whether the machine was equally fast for all sizes
    reference_us: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(value: Mapping[str, Any]) -> Measured:
        costs = [Cost(**cost) for cost in value["costs"]]
        return Measured(**{**value, "size": Size(**value["size"]), "costs": costs})


@dataclass(slots=True)
class Curve:
    """One kind of pod over the sizes. ``exponent``: cost grows with size to this power (0 is constant, 1 linear)."""

    by: str
    kind: str
    alike: bool
    sizes: list[int]
    p5_us: list[float]
    median_us: list[float]
    exponent: float | None
    steepest: float | None  # the exponent between two neighbouring sizes where it is largest
    median_exponent: float | None
    ratio: float  # the cost at the largest size divided by that at the smallest

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Progress = Callable[[int, int], None]

# ---- sizes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GrowthPlan:
    """The sizes: nodes with this many pods each, and pods on a fixed number of nodes."""

    nodes: tuple[int, ...] = NODE_SIZES
    pods: tuple[int, ...] = POD_SIZES
    pods_per_node: int = PODS_PER_NODE
    fixed_nodes: int = FIXED_NODES

    def sizes_by(self, what: str) -> list[Size]:
        if what == NODES:
            return [Size(n, n * self.pods_per_node) for n in sorted(set(self.nodes))]
        return [Size(self.fixed_nodes, n) for n in sorted(set(self.pods))]

    def sizes(self) -> list[Size]:
        """Return all of them, each once."""
        return list(dict.fromkeys((*self.sizes_by(NODES), *self.sizes_by(PODS))))


# ---- one size --------------------------------------------------------------------------------------------------------


def measure(
    size: Size, kinds: Sequence[str], decisions: int, *, rounds: int = ROUNDS, progress: Progress | None = None
) -> Measured:
    """Build a cluster, and place and remove pods of every kind in it, in rounds."""
    result = Measured(size)
    started, before = time.process_time(), resident_mib()
    cluster = make_cluster(size.nodes)
    cluster.nodes()
    result.nodes_mib = round(resident_mib() - before, 2)
    before = resident_mib()
    for pod in running_pods(size):
        cluster.set_pod(pod)
    cluster.nodes()
    result.pods_mib = round(resident_mib() - before, 2)
    result.build_cpu_s = round(time.process_time() - started, 2)
    engine = Deciding(cluster)
    kinds = kinds_at(size, kinds)
    series = [(kind, alike, _pods(kind, alike)) for kind in kinds for alike in (True, False)]
    times: dict[tuple[str, bool], list[float]] = {(kind, alike): [] for kind, alike, _ in series}
    placed = dict.fromkeys(times, 0)
    reference: list[float] = []
    per_round = -(-decisions // rounds)
    done, total = 0, per_round * rounds * len(series)
    with measuring():
        for _ in range(rounds):
            for kind, alike, pods in series:
                took, count = engine.place(pods, per_round)
                times[kind, alike] += took
                placed[kind, alike] += count
                reference.append(_reference())
                done += per_round
                if progress is not None:
                    progress(done, total)
    result.costs = [_cost(kind, alike, times[kind, alike], placed[kind, alike]) for kind, alike in times]
    result.reference_us = round(sorted(reference)[len(reference) // 20] * 1e6, 1)
    result.peak_mib = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    return result


def running_pods(size: Size) -> Iterator[Pod]:
    """Yield pods of a hundred applications and all kinds, evenly over nodes and zones, no two alike on a node.

    The measured pods belong to the applications that run here: the matches of a selector and the number of terms grow
    with the cluster.
    """
    kinds = list(itertools.islice(itertools.cycle(RUNNING), APPS))
    apps = [f"{kind.replace(' ', '-')}-{n // len(RUNNING)}" for n, kind in enumerate(kinds)]
    templates = [RUNNING[kind] for kind in kinds]
    for i in range(size.running_pods):
        turn, node = divmod(i, size.nodes)
        app = (7 * node + node // APPS + 37 * turn) % APPS
        pod = templates[app](i, apps[app])
        pod.spec.node_name = f"node-{node:05d}"
        yield pod


def _pods(kind: str, alike: bool) -> Iterator[Pod]:
    """Yield pods of a running application without end. Not ``alike``: each has different requests."""
    template, app = KINDS[kind], f"{kind.replace(' ', '-')}-0"
    for i in itertools.count(1):
        pod = template(i, app)
        pod.metadata.uid = f"new-{pod.metadata.uid}"
        if not alike:
            requests = pod.spec.containers[0].resources.requests
            pod.spec.containers[0].resources.requests = {**requests, "memory": f"{200 + i}Mi"}
        yield pod


class Deciding:
    """A scheduler without an API server on a cluster."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._session = open_session(default_config(), cluster)

    def place(self, pods: Iterator[Pod], count: int) -> tuple[list[float], int]:
        """Return (CPU seconds of each decision, number of placed pods); afterwards the cluster is as before."""
        cluster, session = self._cluster, self._session
        decide, profile = session.engine.decide, session.profiles["default-scheduler"]
        times: list[float] = []
        uids: list[str] = []
        placed = 0
        for i in range(count + WARM_UP):
            pod = cluster.info(next(pods))
            before = time.thread_time()
            decision = decide(pod, profile, detail=False)
            took = time.thread_time() - before
            if decision.outcome is Outcome.SCHEDULED:
                session.assume(pod, decision.node or "")
                uids.append(pod.uid)
            if i >= WARM_UP:
                times.append(took)
                placed += decision.outcome is Outcome.SCHEDULED
        for uid in uids:
            cluster.remove_pod(uid)
        return times, placed


def _cost(kind: str, alike: bool, times: list[float], placed: int) -> Cost:
    times.sort()
    return Cost(
        kind,
        alike,
        len(times),
        placed,
        p5_us=round(times[len(times) // 20] * 1e6, 1),
        median_us=round(times[len(times) // 2] * 1e6, 1),
        mean_us=round(sum(times) / len(times) * 1e6, 1),
    )


def _reference() -> float:
    """Return the CPU seconds of work that does not depend on the cluster."""
    before = time.thread_time()
    column = np.arange(5_000)
    total = 0
    for i in range(100):
        total += int((column * i % 7).argmax())
    return time.thread_time() - before


def resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / (1 << 20)


# ---- curves ----------------------------------------------------------------------------------------------------------


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float | None:
    """Return the slope of the straight line through the points on logarithmic axes; sizes of 0 are left out."""
    points = [(math.log(x), math.log(y)) for x, y in zip(sizes, costs, strict=True) if x > 0 and y > 0]
    if len(points) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return round(sum((x - mean_x) * (y - mean_y) for x, y in points) / spread, 3)


def steepest(sizes: Sequence[float], costs: Sequence[float]) -> float | None:
    """Return the largest exponent between two neighbours: the end of a curve may be steeper than the whole."""
    pairs = [exponent(sizes[i : i + 2], costs[i : i + 2]) for i in range(len(sizes) - 1)]
    return max((slope for slope in pairs if slope is not None), default=None)


def curves(measured: Sequence[Measured], plan: GrowthPlan) -> list[Curve]:
    """Return the measurements as curves: by nodes, then by pods. Missing sizes are left out."""
    known = {each.size: {(cost.kind, cost.alike): cost for cost in each.costs} for each in measured}
    found = []
    for by in (NODES, PODS):
        sizes = [size for size in plan.sizes_by(by) if size in known]
        for kind in KINDS:
            for alike in (True, False):
                costs = [(size, known[size][kind, alike]) for size in sizes if (kind, alike) in known[size]]
                if len(costs) > 1:
                    found.append(_curve(by, kind, alike, costs))
    return found


def _curve(by: str, kind: str, alike: bool, costs: Sequence[tuple[Size, Cost]]) -> Curve:
    sizes = [size.nodes if by == NODES else size.running_pods for size, _ in costs]
    low = [cost.p5_us for _, cost in costs]
    median = [cost.median_us for _, cost in costs]
    ratio = round(low[-1] / low[0], 2) if low[0] else 0.0
    return Curve(
        by, kind, alike, sizes, low, median, exponent(sizes, low), steepest(sizes, low), exponent(sizes, median), ratio
    )


def memory(measured: Sequence[Measured]) -> dict[str, float]:
    """Return KiB of resident memory per node, and per running pod, of the largest cluster of either."""
    found: dict[str, float] = {}
    nodes = max(measured, key=lambda each: each.size.nodes, default=None)
    if nodes is not None:
        found["kib_per_node"] = round(nodes.nodes_mib * 1024 / nodes.size.nodes, 2)
    pods = max(measured, key=lambda each: each.size.running_pods, default=None)
    if pods is not None and pods.size.running_pods:
        found["kib_per_pod"] = round(pods.pods_mib * 1024 / pods.size.running_pods, 2)
    return found


# ---- a run -----------------------------------------------------------------------------------------------------------


def document(measured: Sequence[Measured], plan: GrowthPlan, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run in its JSON form."""
    return {
        "format": FORMAT,
        **about,
        "plan": asdict(plan),
        "memory": memory(measured),
        "curves": [curve.to_dict() for curve in curves(measured, plan)],
        "sizes": [each.to_dict() for each in measured],
    }


def read(path: Path) -> tuple[list[Measured], dict[str, Any]]:
    """Read the sizes of an earlier run, as ``--save`` or ``-o json`` wrote them, and where and when it ran."""
    value = read_document(path, FORMAT, "mooring bench growth")
    try:
        about = {key: value[key] for key in ("date", "machine", "versions")}
        return [Measured.from_dict(item) for item in value["sizes"]], about
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: sizes: {error}") from None


def run(size: Size, kinds: Sequence[str], decisions: int, *, progress: Progress | None = None) -> Measured:
    """Measure one size in its own process."""
    request = {"size": asdict(size), "kinds": list(kinds), "decisions": decisions}
    with own_process("mooring.bench.growth", request) as process:
        for answer in process.answers():
            if "size" in answer:
                return Measured.from_dict(answer)
            if progress is not None:
                progress(answer["done"], answer["total"])
    raise InputError(f"{size}: its process ended with exit code {process.exit_code}; is there enough memory?")


def main() -> int:
    def say(value: dict[str, Any]) -> None:
        print(json.dumps(value), flush=True)

    try:
        request = json.load(sys.stdin)
        result = measure(
            Size(**request["size"]),
            request["kinds"],
            request["decisions"],
            progress=lambda done, total: say({"done": done, "total": total}),
        )
        say(result.to_dict())
    except (KeyboardInterrupt, BrokenPipeError):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
