"""Writes a record of a large cluster: scripts/large_record.py FILE [NODES] [PODS] [DECISIONS] [CONFIG]

Most pods are there from the beginning. Then pods come and go for an hour of the record's own time, and the engine
decides about each of them, so that every attempt of the record can be opened. For the page's benchmark and pictures.
"""

from __future__ import annotations

import random
import sys
from copy import copy

from mooring.api.core import Pod
from mooring.api.version import __version__
from mooring.ask.scheduler import Scheduler
from mooring.core.cluster import Cluster
from mooring.core.config.load import config_from_dict, load_config_file
from mooring.core.config.wire import to_wire
from mooring.core.engine.decision import Outcome
from mooring.record import entries
from mooring.record.files import FORMAT
from mooring.record.writer import RecordWriter
from mooring.testing import bound, make_node, make_pod

HOUR = 3600.0
BEGIN = 1_767_258_000.0  # a morning in January
SIZES = (("250m", "512Mi"), ("500m", "1Gi"), ("1", "2Gi"), ("2", "8Gi"))
MACHINES = (
    ("m6.4xlarge", "16", "64Gi"),
    ("m6.8xlarge", "32", "128Gi"),
    ("c6.8xlarge", "32", "64Gi"),
    ("m6.16xlarge", "64", "256Gi"),
)
LARGE = ("48", "64Gi")  # what most nodes have no room for
TEAMS = ("shop", "search", "payments", "reports")


class LargeRecord:
    def __init__(self, path: str, config_path: str | None = None, seed: int = 5) -> None:
        self.rng = random.Random(seed)
        self.file = open(path, "wb")  # noqa: SIM115
        self.config = config_from_dict(None) if config_path is None else load_config_file(config_path).config
        config = to_wire(self.config)
        header = entries.Header(
            format=FORMAT,
            mooring=__version__,
            kubernetes="1.36",
            source="simulation",
            started=BEGIN,
            configuration=config,
        )
        self.writer = RecordWriter(self.file, header)
        self.writer.write_state(BEGIN, [])
        self.cluster = Cluster()
        self.now = BEGIN
        self.attempts = 0
        self.running: list[Pod] = []
        self.shapes = [make_pod("shape", cpu=cpu, memory=memory) for cpu, memory in SIZES]

    def write(self, *items: object) -> None:
        self.writer.write([self.now] * len(items), list(items))  # type: ignore[arg-type]

    def pod(self, number: int, shape: Pod | None = None) -> Pod:
        made = copy(shape or self.rng.choices(self.shapes, (8, 6, 3, 1))[0])
        made.metadata = copy(made.metadata)
        team = self.rng.choice(TEAMS)
        made.metadata.namespace, made.metadata.name, made.metadata.uid = team, f"{team}-{number:06d}", f"pod-{number}"
        return made

    def fill(self, nodes: int, pods: int) -> None:
        """The cluster as it is found: nodes of three zones, some of them for batch jobs only, and pods on them."""
        rng = self.rng
        made = []
        for i in range(nodes):
            kind, cpu, memory = rng.choice(MACHINES)
            labels = {
                "node.kubernetes.io/instance-type": kind,
                "pool": rng.choice(("general", "general", "general", "batch")),
            }
            taints = ["pool=batch:NoSchedule"] if labels["pool"] == "batch" else []
            made.append(
                make_node(
                    f"node-{i:04d}",
                    zone=f"zone-{'abc'[i % 3]}",
                    cpu=cpu,
                    memory=memory,
                    labels=labels,
                    taints=taints,
                    unschedulable=rng.random() < 0.01,
                )
            )
        self.write(*made)
        self.cluster.take_over(made)
        room = [(int(node.status.allocatable["cpu"]) * rng.betavariate(6, 2.2), node.name) for node in made]
        weights = [share for share, _ in room]
        chosen = rng.choices(room, weights, k=pods)
        placed = []
        free = {name: share for share, name in room}
        for number in range(pods):
            pod = self.pod(number)
            cpu = (0.25, 0.5, 1, 2)[[shape.spec is pod.spec for shape in self.shapes].index(True)]
            name = chosen[number][1]
            if free[name] < cpu:
                name = max(rng.sample(room, 8), key=lambda each: free[each[1]])[1]
            free[name] -= cpu
            placed.append(bound(pod, name))
        self.write(*placed)
        self.cluster.take_over(placed)
        self.running = placed

    def play(self, decisions: int) -> None:
        """An hour: pods come and go; every now and then one that fits nowhere."""
        scheduler = Scheduler(self.cluster, self.config, kubernetes_version="1.36")
        rng, first = self.rng, len(self.running)
        large = make_pod("large", cpu=LARGE[0], memory=LARGE[1])
        for i in range(decisions):
            self.now += rng.expovariate(decisions / HOUR)
            while rng.random() < 0.45 and self.running:
                gone = self.running.pop(rng.randrange(len(self.running)))
                self.cluster.remove(gone)
                self.write(entries.Deleted("Pod", gone.key, gone.uid))
            pod = self.pod(first + i, large if i % 40 == 17 else None)
            self.write(pod, entries.Moved(pod.key, pod.uid, "active", "PodAdd"))
            self.cluster.take_over([pod])
            self.decide(scheduler, pod)

    def decide(self, scheduler: Scheduler, pod: Pod) -> None:
        decided = scheduler.session.decide(pod)
        self.attempts += 1
        node = decided.node or ""
        plugins = tuple(sorted(decided.unschedulable_plugins))
        attempt = entries.Attempt(
            self.attempts,
            pod.key,
            pod.uid,
            "default-scheduler",
            decided.outcome.value,
            node,
            "" if node else decided.message,
            num_nodes=decided.num_nodes,
            evaluated=decided.evaluated_nodes,
            feasible=decided.feasible_nodes,
            plugins=plugins,
            start=decided.start,
            hint=decided.hint,
        )
        self.write(attempt)
        if decided.outcome is Outcome.SCHEDULED:
            placed = bound(pod, node)
            self.cluster.take_over([placed])
            self.running.append(placed)
            self.write(entries.Bound(pod.key, pod.uid, node), placed)
        else:
            self.write(entries.Moved(pod.key, pod.uid, "unschedulable", "ScheduleAttemptFailure"))

    def close(self) -> None:
        self.writer.close(self.now)
        self.file.close()


def main(
    path: str, nodes: int = 5_000, pods: int = 148_000, decisions: int = 4_000, config_path: str | None = None
) -> None:
    record = LargeRecord(path, config_path)
    record.fill(nodes, pods)
    record.play(decisions)
    record.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), *sys.argv[5:])
