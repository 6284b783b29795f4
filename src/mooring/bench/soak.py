"""A soak: two replicas of the real scheduler process on the embedded control plane, for as long as wanted, with faults.

Afterwards: no pod lost, none bound twice, no node overfilled, no task left over, and the memory's slope.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mooring.bench.soak_audit import Audit
from mooring.bench.soak_churn import NAMESPACE, Churn
from mooring.bench.soak_holdings import BLOCKS, OPEN_FILES, Holdings, count_holdings, left_behind
from mooring.bench.soak_memory import resident_mib, slope_per_minute
from mooring.bench.soak_replicas import Leaders, Replica
from mooring.controlplane.cluster.kubelet import Kubelets
from mooring.controlplane.cluster.manager import ControllerManager
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.faults import Faults
from mooring.live.flags import parse_flags
from mooring.live.settings import Settings, load_settings

LEASE = "soak"
REPLICAS = 2
SAMPLE_S = 5.0
SETTLE_S = 90.0
REST_S = 60.0
PATIENCE_S = 1500.0
MAX_SLOPE_MIB_PER_MIN = 0.5
SLOPE_FROM_MIN = 30.0  # in a shorter run caches and histories are still filling, and the slope is only reported
EVENT_TTL_S = 60.0
HISTORY = 1000  # what the API server remembers of each kind: soon full, or its filling would look like a leak


@dataclass(frozen=True, slots=True)
class Least:
    """What has to have happened before a soak may end: on a slow machine it takes longer, and shows as much."""

    changes: int = 0
    leader_changes: int = 0
    pods_bound: int = 0

    def missing(self, changes: int, leader_changes: int, pods_bound: int) -> list[str]:
        reached = {"changes": changes, "leader changes": leader_changes, "pods bound": pods_bound}
        wanted = {"changes": self.changes, "leader changes": self.leader_changes, "pods bound": self.pods_bound}
        return [f"{reached[what]} of {least} {what}" for what, least in wanted.items() if reached[what] < least]


@dataclass(frozen=True, slots=True)
class Sample:
    """What the process held at one moment; few numbers, because a soak keeps all of them."""

    at_s: float
    memory_mib: float
    open_files: int
    blocks: int


@dataclass
class Report:
    """What a soak found; ``problems`` is empty if all is well."""

    seconds: float
    seed: int
    pods_bound: int = 0
    leaders: int = 0
    done: dict[str, int] = field(default_factory=dict)
    settled_s: float = 0.0
    memory_first_mib: float = 0.0
    memory_middle_mib: float = 0.0
    memory_last_mib: float = 0.0
    memory_slope_mib_per_min: float = 0.0
    memory_per_open_file_mib: float = 0.0
    memory_slope_at_equal_open_files_mib_per_min: float = 0.0
    blocks_slope_per_min: float = 0.0
    held_middle: Holdings = field(default_factory=dict)
    held_last: Holdings = field(default_factory=dict)
    held_most: Holdings = field(default_factory=dict)
    tasks_left: int = 0
    problems: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


Progress = Callable[[float, Report], None]


async def soak(
    seconds: float,
    *,
    nodes: int = 20,
    rate: float = 20.0,
    seed: int = 1,
    leader_every_s: float = 30.0,
    least: Least | None = None,
    progress: Progress = lambda elapsed, report: None,
) -> Report:
    """Shake a cluster for a while and say what was wrong afterwards."""
    report = Report(seconds, seed)
    before = asyncio.all_tasks()
    with tempfile.TemporaryDirectory(prefix="mooring-soak-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        faults = Faults()
        async with ControlPlane(
            kubeconfig_path=kubeconfig, faults=faults, event_ttl_s=EVENT_TTL_S, history=HISTORY
        ) as plane:
            shaking = _Shaking(plane, Churn(plane, faults, random.Random(seed), nodes, LEASE), report, progress)
            await shaking.run(_settings(kubeconfig), rate, leader_every_s, least or Least())
    await asyncio.sleep(0.5)  # connections that are being closed
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    report.tasks_left = len(left)
    if left:
        names = sorted({task.get_name() for task in left})
        report.problems.append(f"{len(left)} tasks are left over: {', '.join(names[:5])}")
    return report


class _Shaking:
    """The time between the start of the control plane and its end."""

    def __init__(self, plane: ControlPlane, churn: Churn, report: Report, progress: Progress) -> None:
        self._plane, self._churn, self._report, self._progress = plane, churn, report, progress
        self._rng = random.Random(report.seed + 1)
        self._audit = Audit(plane.store)
        self._replicas: list[Replica] = []
        self._samples: list[Sample] = []

    async def run(self, settings: Settings, rate: float, leader_every_s: float, least: Least) -> None:
        plane, report = self._plane, self._report
        loop = asyncio.get_running_loop()
        kubelets, controllers = Kubelets(plane.api, loop), ControllerManager(plane.api, loop)
        self._audit.start()
        kubelets.start()
        controllers.start()
        self._churn.set_up()
        self._replicas = [Replica(settings, report.problems) for _ in range(REPLICAS)]
        running = [asyncio.create_task(replica.run(), name="replica") for replica in self._replicas]
        leaders = Leaders(self._replicas, self._churn, self._rng)
        try:
            await self._shake(rate, leaders, leader_every_s, least)
            report.settled_s = await self._settle()
            report.problems += await self._come_to_rest()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            controllers.stop()
            kubelets.stop()
            self._audit.stop()
        report.pods_bound, report.done = self._audit.bound, dict(sorted(self._churn.done.items()))
        report.leaders = leaders.terms
        report.problems += self._audit.problems
        judge_memory(self._samples, report)

    async def _shake(self, rate: float, leaders: Leaders, leader_every_s: float, least: Least) -> None:
        report, rng = self._report, self._rng
        next_leader, next_sample = leader_every_s, SAMPLE_S
        started = time.monotonic()
        while True:
            elapsed = time.monotonic() - started
            if elapsed >= report.seconds:
                missing = least.missing(self._churn.steps, leaders.changes, self._audit.bound)
                if not missing:
                    return
                if elapsed >= report.seconds + PATIENCE_S:
                    report.problems.append(f"after {elapsed:.0f} s there were only {', '.join(missing)}")
                    return
            self._churn.step()
            if elapsed >= next_leader and leaders.change():
                next_leader = elapsed + leader_every_s * rng.uniform(0.7, 1.3)
            if elapsed >= next_sample:
                next_sample = elapsed + SAMPLE_S
                self._sample(elapsed)
                report.pods_bound, report.leaders = self._audit.bound, leaders.terms
                self._progress(elapsed, report)
            await asyncio.sleep(rng.expovariate(rate))

    def _sample(self, elapsed: float) -> None:
        report = self._report
        held = count_holdings(self._plane, [r.live for r in self._replicas if r.live is not None])
        self._samples.append(Sample(elapsed, resident_mib(), held[OPEN_FILES], held[BLOCKS]))
        report.memory_last_mib = self._samples[-1].memory_mib
        note_holdings(held, report, is_warm=elapsed >= report.seconds / 2)

    async def _settle(self) -> float:
        """With room for all and no more faults every pod must find a node; how long that took."""
        self._churn.calm(0.6)
        store = self._plane.store
        started = time.monotonic()
        while time.monotonic() - started < SETTLE_S:
            waiting = [e.key for e in store.iterate(PODS, NAMESPACE) if not (e.fields or {}).get("spec.nodeName")]
            if not waiting:
                return time.monotonic() - started
            await asyncio.sleep(0.1)
        self._report.problems.append(
            f"{len(waiting)} pods found no node although there is room: {', '.join(waiting[:5])}"
        )
        return SETTLE_S

    async def _come_to_rest(self) -> list[str]:
        """With nothing left to do, both replicas must know what is there, and hold nothing else; what they still do."""
        deadline = time.monotonic() + REST_S
        while True:
            schedulers = [replica.live for replica in self._replicas]
            held = [["no scheduler is running"] if s is None else left_behind(self._plane, s) for s in schedulers]
            if not any(held) or time.monotonic() >= deadline:
                return [f"a replica at rest holds {', '.join(what)}" for what in held if what]
            await asyncio.sleep(0.1)


def _settings(kubeconfig: Path) -> Settings:
    flags = (
        f"--kubeconfig={kubeconfig}",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        f"--leader-elect-resource-name={LEASE}",
        "--leader-elect-lease-duration=6s",  # short, or stolen leases would be most of a soak
        "--leader-elect-renew-deadline=4s",  # long enough for a busy machine
        "--leader-elect-retry-period=500ms",
    )
    return load_settings(parse_flags(flags))


def note_holdings(held: Holdings, report: Report, *, is_warm: bool) -> None:
    """Keep what was held after the warm-up, last, and at most."""
    report.held_last = held
    if is_warm and not report.held_middle:
        report.held_middle = held
    for name, count in held.items():
        report.held_most[name] = max(count, report.held_most.get(name, 0))


def judge_memory(samples: list[Sample], report: Report) -> None:
    """Warm-up is the first half; what is held in the second must not grow with time."""
    if not samples:
        return
    second_half = samples[len(samples) // 2 :]
    middle, last = second_half[0], samples[-1]
    report.memory_first_mib, report.memory_middle_mib = samples[0].memory_mib, middle.memory_mib
    report.memory_last_mib = last.memory_mib
    memory = [(sample.at_s, sample.memory_mib) for sample in second_half]
    blocks = [(sample.at_s, sample.blocks) for sample in second_half]
    report.memory_slope_mib_per_min, _ = slope_per_minute(memory)
    report.blocks_slope_per_min, _ = slope_per_minute(blocks)
    # Connections come and go, and both ends of each hold a quarter of a MiB: their number must not look like a trend.
    slope, each = slope_per_minute(memory, [sample.open_files for sample in second_half])
    report.memory_slope_at_equal_open_files_mib_per_min, report.memory_per_open_file_mib = slope, each
    if report.seconds >= SLOPE_FROM_MIN * 60 and slope > MAX_SLOPE_MIB_PER_MIN:
        report.problems.append(f"memory grows by {slope:.2f} MiB per minute")
