"""How long a decision takes: an in-process scheduler without an API server, on generated clusters."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mooring.api.core import PodSchedulingGroup
from mooring.api.errors import InputError
from mooring.api.memory import keep_freed_memory, measuring
from mooring.api.meta import ObjectMeta
from mooring.api.pod_groups import GangSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy, PodGroupSpec
from mooring.bench.clusters import add_bound_claim, add_csi_nodes, fill_with_unimportant, make_cluster, pods_of
from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.core.config.load import config_from_dict
from mooring.core.config.versions import V1_37
from mooring.core.engine.decision import Outcome
from mooring.core.framework.pod_groups import PodGroupInfo
from mooring.core.session import open_session
from mooring.core.state.cluster import ClusterState

Progress = Callable[[int, int], None]

GANG = "gang"  # the pods are one pod group, decided together
GANGS = 5  # number of groups that are measured


@dataclass(slots=True)
class DecisionMeasurement:
    """One measurement. Times are those of ``decide`` alone; CPU is of the whole round: read, decide, assume."""

    workload: str
    nodes: int
    running_pods: int
    pods: int
    alike: bool
    placed: int
    median_us: float
    p99_us: float
    cpu_s_per_1000: float
    peak_mib: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    workload: str,
    nodes: int,
    pods: int,
    *,
    running: int = 0,
    alike: bool = True,
    progress: Progress | None = None,
    features: Features = DEFAULT_FEATURES,
) -> DecisionMeasurement:
    """Place pods one after another and take the time of every decision."""
    keep_freed_memory()  # as mooring run does
    cluster = make_cluster(nodes, running)
    if workload == GANG:
        return _measure_gang(cluster, nodes, running, pods, alike)
    if workload == "preemption":
        fill_with_unimportant(cluster, nodes)
    if workload == "volumes":
        add_csi_nodes(cluster, nodes)
    session = open_session(config_from_dict(None, features), cluster, features=features)
    profile = session.profiles["default-scheduler"]
    source = pods_of(workload, alike=alike)
    warm_up = min(20, pods)
    times: list[float] = []
    placed = 0
    with measuring():
        started = time.process_time()
        for i in range(pods + warm_up):
            if i == warm_up:
                started = time.process_time()
                times.clear()
                placed = 0
            if workload == "volumes":
                add_bound_claim(cluster, i)
            pod = cluster.info(next(source))
            before = time.perf_counter()
            decision = session.engine.decide(pod, profile, detail=False)
            times.append(time.perf_counter() - before)
            if decision.outcome is Outcome.SCHEDULED:
                session.assume(pod, decision.node or "")
                placed += 1
            elif decision.victims and decision.nominated_node:
                for victim in decision.victims:
                    cluster.remove_pod(victim.uid)
                session.assume(pod, decision.nominated_node)
                placed += 1
            if progress is not None and i % 100 == 99:
                progress(i, pods)
        cpu = time.process_time() - started
    times.sort()
    return DecisionMeasurement(
        workload=workload,
        nodes=nodes,
        running_pods=running,
        pods=pods,
        alike=alike,
        placed=placed,
        median_us=round(times[len(times) // 2] * 1e6, 1),
        p99_us=round(times[min(len(times) - 1, len(times) * 99 // 100)] * 1e6, 1),
        cpu_s_per_1000=round(cpu / max(pods, 1) * 1000, 4),
        peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    )


def _measure_gang(cluster: ClusterState, nodes: int, running: int, pods: int, alike: bool) -> DecisionMeasurement:
    """Decide about one gang of all pods, several times; times are per pod."""
    features = Features(V1_37, GenericWorkload=True)
    session = open_session(config_from_dict(None, features), cluster, features=features)
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(pods))
    group = PodGroup(metadata=ObjectMeta(name=GANG, namespace="default"), spec=PodGroupSpec(policy))
    cluster.put(group)
    source = pods_of("plain", alike=alike)
    members = [next(source) for _ in range(pods)]
    for pod in members:
        pod.spec.scheduling_group = PodSchedulingGroup(GANG)
    info = PodGroupInfo(group, [cluster.info(pod) for pod in members])
    cycle = session.groups(session.profiles["default-scheduler"])
    times: list[float] = []
    placed, started = 0, time.process_time()
    for _ in range(GANGS):
        before = time.perf_counter()
        placed = len(cycle.decide(info, detail=False).found)
        times.append((time.perf_counter() - before) / pods)
    cpu = (time.process_time() - started) / GANGS
    times.sort()
    return DecisionMeasurement(
        workload=GANG,
        nodes=nodes,
        running_pods=running,
        pods=pods,
        alike=alike,
        placed=placed,
        median_us=round(times[len(times) // 2] * 1e6, 1),
        p99_us=round(times[-1] * 1e6, 1),
        cpu_s_per_1000=round(cpu / pods * 1000, 4),
        peak_mib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    )


def measure_state(nodes: int, pods: int) -> dict[str, float]:
    """Return the memory and the time that it takes to hold a cluster of that size."""
    before = _resident_mib()
    started = time.process_time()
    cluster = make_cluster(nodes, pods)
    cluster.nodes()
    return {
        "nodes": nodes,
        "running_pods": pods,
        "build_cpu_s": round(time.process_time() - started, 2),
        "state_mib": round(_resident_mib() - before, 1),
    }


def _resident_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / (1 << 20)


# --------------------------------------------------------------------------------------------------------------------
# Results of earlier runs, read back from the files that `--save` and `-o json` write.


def read_document(path: Path, format: str, command: str) -> dict[str, Any]:
    """Read the document that a command wrote; raise InputError for anything else."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict) or value.get("format") != format:
        raise InputError(f"{path}: not a result of {command} -o json ({format})")
    return value
