"""A soak: two replicas of the real scheduler process on the embedded control plane, for as long as wanted, with faults.

Afterwards: no pod lost, none bound twice, no node overfilled, no task left over, and the memory's slope.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mooring.bench.soak_audit import Audit
from mooring.bench.soak_churn import NAMESPACE, Churn
from mooring.controlplane.controllers.manager import ControllerManager
from mooring.controlplane.faults import Faults
from mooring.controlplane.kinds import PODS
from mooring.controlplane.kubelet import Kubelets
from mooring.controlplane.server import ControlPlane
from mooring.scheduler.flags import parse_flags
from mooring.scheduler.process import SchedulerProcess
from mooring.scheduler.settings import Settings, load_settings

LEASE = "soak"
REPLICAS = 2
SAMPLE_S = 5.0
SETTLE_S = 90.0
MAX_SLOPE_MIB_PER_MIN = 0.5
SLOPE_FROM_MIN = 30.0  # in a shorter run caches and histories are still filling, and the slope is only reported
EVENT_TTL_S = 60.0
HISTORY = 1000  # what the API server remembers of each kind: soon full, or its filling would look like a leak


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
    memory_last_mib: float = 0.0
    memory_slope_mib_per_min: float = 0.0
    tasks_left: int = 0
    problems: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Replica:
    """One scheduler process, started anew whenever it has ended."""

    def __init__(self, settings: Settings, problems: list[str]) -> None:
        self._settings = settings
        self._problems = problems
        self._process: SchedulerProcess | None = None
        self.terms = 0

    async def run(self) -> None:
        """Be a replica until cancelled. Losing the lease (exit code 1) is part of the game."""
        while True:
            self._process = SchedulerProcess(self._settings, self._settings.client_config())
            task = asyncio.create_task(self._process.run(signals=False))
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                self._process.stop()
                await task
                raise
            except Exception as error:
                self._problems.append(f"a scheduler ended with {type(error).__name__}: {error}")
                await asyncio.sleep(1.0)
            finally:
                self.terms += self._process.ready.is_set()

    @property
    def leads(self) -> bool:
        return self._process is not None and self._process.ready.is_set()

    def stop_leading(self) -> None:
        if self._process is not None:
            self._process.stop()


async def soak(
    seconds: float,
    *,
    nodes: int = 20,
    rate: float = 20.0,
    seed: int = 1,
    leader_every_s: float = 30.0,
    progress: Callable[[float, Report], None] = lambda elapsed, report: None,
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
            await _shake(plane, faults, kubeconfig, report, nodes, rate, leader_every_s, progress)
    await asyncio.sleep(0.5)  # connections that are being closed
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    report.tasks_left = len(left)
    if left:
        names = sorted({task.get_name() for task in left})
        report.problems.append(f"{len(left)} tasks are left over: {', '.join(names[:5])}")
    return report


async def _shake(
    plane: ControlPlane,
    faults: Faults,
    kubeconfig: Path,
    report: Report,
    nodes: int,
    rate: float,
    leader_every_s: float,
    progress: Callable[[float, Report], None],
) -> None:
    rng = random.Random(report.seed)
    loop = asyncio.get_running_loop()
    kubelets, controllers = Kubelets(plane.api, loop), ControllerManager(plane.api, loop)
    audit = Audit(plane.store)
    churn = Churn(plane, faults, rng, nodes, LEASE)
    audit.start()
    kubelets.start()
    controllers.start()
    churn.set_up()
    settings = _settings(kubeconfig)
    replicas = [_Replica(settings, report.problems) for _ in range(REPLICAS)]
    running = [asyncio.create_task(replica.run(), name="replica") for replica in replicas]
    memory: list[tuple[float, float]] = []
    started = time.monotonic()
    try:
        next_leader, next_sample = leader_every_s, SAMPLE_S
        while (elapsed := time.monotonic() - started) < report.seconds:
            churn.step(with_faults=True)
            if elapsed >= next_leader:
                next_leader += leader_every_s * rng.uniform(0.7, 1.3)
                _change_leader(replicas, churn, rng)
            if elapsed >= next_sample:
                next_sample += SAMPLE_S
                memory.append((elapsed, resident_mib()))
                report.pods_bound = audit.bound
                progress(elapsed, report)
            await asyncio.sleep(rng.expovariate(rate))
        report.settled_s = await _settle(plane, churn, audit, report)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        controllers.stop()
        kubelets.stop()
        audit.stop()
    report.pods_bound, report.done = audit.bound, dict(sorted(churn.done.items()))
    report.leaders = sum(replica.terms for replica in replicas)
    report.problems += audit.problems
    _judge_memory(memory, report)


def _settings(kubeconfig: Path) -> Settings:
    flags = (
        f"--kubeconfig={kubeconfig}",
        "--secure-port=0",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        f"--leader-elect-resource-name={LEASE}",
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
    )
    return load_settings(parse_flags(flags))


def _change_leader(replicas: list[_Replica], churn: Churn, rng: random.Random) -> None:
    if rng.random() < 0.5:
        churn.steal_lease()
        return
    for replica in replicas:
        if replica.leads:
            replica.stop_leading()
            churn.done["stop_leader"] += 1


async def _settle(plane: ControlPlane, churn: Churn, audit: Audit, report: Report) -> float:
    """With room for all and no more faults every pod must find a node; how long that took."""
    churn.calm(0.6)
    started = time.monotonic()
    while time.monotonic() - started < SETTLE_S:
        waiting = [e.key for e in plane.store.iterate(PODS, NAMESPACE) if not (e.fields or {}).get("spec.nodeName")]
        if not waiting:
            return time.monotonic() - started
        await asyncio.sleep(0.1)
    report.problems.append(f"{len(waiting)} pods found no node although there is room: {', '.join(waiting[:5])}")
    return SETTLE_S


def resident_mib() -> float:
    """The memory that this process holds, garbage aside."""
    gc.unfreeze()  # a scheduler freezes what it has read; here it is restarted again and again
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def slope_per_minute(samples: list[tuple[float, float]]) -> float:
    """The line through (second, MiB) that fits best, in MiB per minute."""
    if len(samples) < 2:
        return 0.0
    mean_x = sum(x for x, _ in samples) / len(samples)
    mean_y = sum(y for _, y in samples) / len(samples)
    spread = sum((x - mean_x) ** 2 for x, _ in samples)
    return 60.0 * sum((x - mean_x) * (y - mean_y) for x, y in samples) / spread if spread else 0.0


def _judge_memory(samples: list[tuple[float, float]], report: Report) -> None:
    if not samples:
        return
    report.memory_first_mib, report.memory_last_mib = samples[0][1], samples[-1][1]
    second_half = samples[len(samples) // 2 :]
    report.memory_slope_mib_per_min = slope_per_minute(second_half)
    if report.seconds >= SLOPE_FROM_MIN * 60 and report.memory_slope_mib_per_min > MAX_SLOPE_MIB_PER_MIN:
        report.problems.append(f"memory grows by {report.memory_slope_mib_per_min:.2f} MiB per minute")
