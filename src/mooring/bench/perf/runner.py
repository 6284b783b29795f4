"""Runs a workload: a cluster, a scheduler, the steps, and the measurements."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import string
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from mooring.api.errors import MooringError
from mooring.bench.perf.collect import Collector, Latency, OtherProcess, PodBoard, PodRecord, Process, ThisProcess
from mooring.bench.perf.definitions import PerfWorkload
from mooring.bench.perf.opcodes import Executor
from mooring.bench.perf.report import PerfResult, blank, result_of
from mooring.bench.perf.targets import ClusterTarget, EmbeddedTarget, Target
from mooring.core.config.features import Features
from mooring.core.config.load import default_config, load_config_file
from mooring.core.config.versions import DEFAULT_VERSION
from mooring.live.context import SchedulerOptions
from mooring.live.live_scheduler import LiveScheduler
from mooring.net.kubeconfig import load_kubeconfig

T = TypeVar("T")
SETTLE_S, SETTLE_STEP_S = 120.0, 0.01
"""How long the scheduler may take to see new nodes before the next step."""
TICK_S = 0.2


class Profiler(Protocol):
    """Profiles this process during a measurement."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How workloads are run; the defaults are the embedded control plane with everything in one process."""

    kubeconfig: str = ""
    with_scheduler: bool = True
    scheduler_pid: int = 0
    over_http: bool = False
    stall_s: float = 120.0
    freezes_gc: bool = True
    """Hide objects that exist before the measurement from the garbage collector, as after a first sync."""


@dataclass(frozen=True, slots=True)
class BenchProgress:
    """Progress of a workload: its current step, pods bound, pods expected so far."""

    workload: str
    stage: str
    bound: int
    expected: int


OnProgress = Callable[[BenchProgress], None]


def run(
    workload: PerfWorkload,
    options: RunOptions | None = None,
    *,
    on_progress: OnProgress | None = None,
    profiler: Profiler | None = None,
) -> list[PerfResult]:
    """Run a workload in its own event loop. A failure is a result, and its ``error`` says what went wrong."""
    return in_loop(run_workload(workload, options or RunOptions(), on_progress, profiler))


def in_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run in the fastest event loop that is installed."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


async def run_workload(
    workload: PerfWorkload,
    options: RunOptions,
    on_progress: OnProgress | None = None,
    profiler: Profiler | None = None,
) -> list[PerfResult]:
    """Run a workload in the running event loop."""
    target_name = ""
    notes: list[str] = []
    try:
        features, notes = features_of(workload)
        target = _target(options)
        target_name = target.description
        process: Process = ThisProcess()
        process.reset_peak()
        async with target, _scheduler(target, workload, features, options) as live:
            results = await _measure(workload, options, target, live, on_progress, profiler)
    except MooringError as error:
        failed = blank(workload, target_name)
        failed.error = str(error)
        results = [failed]
    finally:
        if options.freezes_gc:
            gc.unfreeze()
    for result in results:
        result.notes = notes + result.notes
        result.cpu_includes_api_server = not options.kubeconfig
    return results


def _target(options: RunOptions) -> Target:
    board = PodBoard()
    if options.kubeconfig:
        return ClusterTarget(board, load_kubeconfig([options.kubeconfig]))
    return EmbeddedTarget(board, over_http=options.over_http)


def features_of(workload: PerfWorkload) -> tuple[Features, list[str]]:
    """Return the feature gates of a workload, and notes on those that this version does not have."""
    wanted: dict[str, bool] = {}
    notes: list[str] = []
    for name, on in workload.feature_gates.items():
        gate = DEFAULT_VERSION.gates.get(name)
        if gate is None:
            notes.append(f"feature gate {name} is not known here")
        elif gate.locked:
            if on != gate.default:
                notes.append(f"{name} cannot be {'on' if on else 'off'} in this version")
        else:
            wanted[name] = on
    return Features(**wanted), notes


@contextlib.asynccontextmanager
async def _scheduler(
    target: Target, workload: PerfWorkload, features: Features, options: RunOptions
) -> AsyncIterator[LiveScheduler | None]:
    """Run a scheduler in this process, unless one runs elsewhere."""
    if not options.with_scheduler:
        await target.watch_pods(None)
        yield None
        return
    if workload.scheduler_config is not None:
        config = load_config_file(workload.scheduler_config, features).config
    else:
        config = default_config(features)
    async with LiveScheduler(
        target.client, config, SchedulerOptions(features=features), tune_gc=options.freezes_gc
    ) as live:
        await target.watch_pods(live.informers["pods"])
        yield live


async def _measure(
    workload: PerfWorkload,
    options: RunOptions,
    target: Target,
    live: LiveScheduler | None,
    on_progress: OnProgress | None,
    profiler: Profiler | None,
) -> list[PerfResult]:
    process: Process | None = None
    if options.scheduler_pid:
        process = OtherProcess(options.scheduler_pid)
    elif live is not None:
        process = ThisProcess()

    def begin() -> None:
        if options.freezes_gc:
            gc.collect()
            gc.freeze()
        if profiler is not None:
            profiler.start()

    def new_collector(name: str, matches: Callable[[PodRecord], bool]) -> Collector:
        latency = None
        if live is not None:
            latency = Latency(live.scheduler.meters.metrics, list(live.scheduler.profiles))
        end = profiler.stop if profiler is not None else lambda: None
        return Collector(name, matches, process, latency, lambda: target.load_cpu_s, begin, end)

    async def settled(nodes: int) -> None:
        if live is None:
            return
        for _ in range(int(SETTLE_S / SETTLE_STEP_S)):
            if len(live.informers["nodes"]) >= nodes:
                return
            await asyncio.sleep(SETTLE_STEP_S)

    executor = Executor(
        workload,
        target,
        new_collector,
        settled=settled,
        stall_s=options.stall_s,
        tag=_tag() if options.kubeconfig else "",
    )
    ticker = asyncio.create_task(_tick(workload, executor, on_progress)) if on_progress is not None else None
    try:
        await executor.run()
    finally:
        if ticker is not None:
            ticker.cancel()
            await asyncio.gather(ticker, return_exceptions=True)
    return [result_of(workload, collector, target.description) for collector in executor.collectors]


async def _tick(workload: PerfWorkload, executor: Executor, on_progress: OnProgress) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        board = executor.board
        on_progress(BenchProgress(workload.full_name, executor.stage, board.bound, executor.expected))


def _tag() -> str:
    """Return a tag that keeps names distinct from those of earlier runs on the same cluster."""
    return "".join(random.choices(string.ascii_lowercase + string.digits, k=5)) + "-"
