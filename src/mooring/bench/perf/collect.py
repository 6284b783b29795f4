"""Measurements of a workload: which pods were bound and when, and what that cost the process."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mooring.api.errors import MooringError
from mooring.live.metrics import SchedulerMetrics
from mooring.net.prometheus import HistogramChild, exponential_buckets

SCHEDULED, ATTEMPTED = "Scheduled", "Attempted"
WINDOW_S = 1.0
_RESULTS = ("scheduled", "unschedulable", "error")


class WorkloadFailed(MooringError):
    """A workload could not be run to its end."""


@dataclass(slots=True, eq=False)
class PodRecord:
    """A pod that a step has created."""

    key: str
    namespace: str
    labels: Mapping[str, str]
    group: int  # the step's position
    is_bound: bool = False
    is_attempted: bool = False
    is_gone: bool = False
    waits: list[Wait] = field(default_factory=list)

    def has_reached(self, stage: str) -> bool:
        return self.is_bound or self.is_gone or (stage == ATTEMPTED and self.is_attempted)

    def is_selected(self, namespaces: Sequence[str], labels: Mapping[str, str]) -> bool:
        if namespaces and self.namespace not in namespaces:
            return False
        return all(self.labels.get(key) == value for key, value in labels.items())


class Wait:
    """Waits until the remaining pods have reached a stage."""

    def __init__(self, board: PodBoard, records: Iterable[PodRecord], stage: str) -> None:
        self._board, self._stage = board, stage
        self._done = asyncio.Event()
        self._pending = {record for record in records if not record.has_reached(stage)}
        for record in self._pending:
            record.waits.append(self)
        if not self._pending:
            self._done.set()

    def look(self, record: PodRecord) -> None:
        if record in self._pending and record.has_reached(self._stage):
            self._pending.discard(record)
            if not self._pending:
                self._done.set()

    async def finished(self, stall_s: float, where: str) -> None:
        """Return when all are bound; raise when nothing has happened for ``stall_s``."""
        seen, since = self._board.changes, time.monotonic()
        while True:
            try:
                async with asyncio.timeout(min(1.0, stall_s)):
                    await self._done.wait()
                return
            except TimeoutError:
                if self._board.changes != seen:
                    seen, since = self._board.changes, time.monotonic()
                elif time.monotonic() - since >= stall_s:
                    example = min(record.key for record in self._pending)
                    raise WorkloadFailed(
                        f"{where}: nothing has happened for {stall_s:g}s and {len(self._pending)} pods are not "
                        f"{self._stage.lower()} yet, {example} for one"
                    ) from None


class PodBoard:
    """All pods that steps have created, and their progress. A target reports events."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.records: dict[str, PodRecord] = {}
        self.collectors: list[Collector] = []
        self.on_bound: list[Callable[[PodRecord], None]] = []
        self.changes = 0
        self.bound = 0
        self._clock = clock

    def expect(self, namespace: str, name: str, labels: Mapping[str, str], group: int) -> PodRecord:
        record = PodRecord(f"{namespace}/{name}", namespace, labels, group)
        self.records[record.key] = record
        return record

    def wait(self, records: Iterable[PodRecord], stage: str = SCHEDULED) -> Wait:
        return Wait(self, records, stage)

    def select(self, namespaces: Sequence[str], labels: Mapping[str, str]) -> list[PodRecord]:
        return [record for record in self.records.values() if record.is_selected(namespaces, labels)]

    # ---- from a target -----------------------------------------------------------------------------------------

    def pod_bound(self, key: str) -> None:
        record = self.records.get(key)
        if record is None or record.is_bound:
            return
        record.is_bound = True
        self.bound += 1
        for collector in self.collectors:
            if collector.matches(record):
                collector.times.append(self._clock())
        self._changed(record)
        for callback in self.on_bound:
            callback(record)

    def pod_attempted(self, key: str) -> None:
        record = self.records.get(key)
        if record is not None and not record.is_attempted:
            record.is_attempted = True
            self._changed(record)

    def pod_gone(self, key: str) -> None:
        record = self.records.pop(key, None)
        if record is not None:
            record.is_gone = True
            self._changed(record)

    def _changed(self, record: PodRecord) -> None:
        self.changes += 1
        for wait in record.waits:
            wait.look(record)


# ---- cost --------------------------------------------------------------------------------------------------------


class Process(Protocol):
    """The process whose cost is measured."""

    def cpu_s(self) -> float: ...

    def peak_mib(self) -> float: ...

    def reset_peak(self) -> None: ...


class ThisProcess:
    """This process."""

    def cpu_s(self) -> float:
        return time.process_time()

    def peak_mib(self) -> float:
        peak = _high_water_mib("self")
        return peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def reset_peak(self) -> None:
        """Reset the peak, where the system supports it."""
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
        except OSError:
            pass


class OtherProcess:
    """A scheduler in another process of this machine, by its process id."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.cpu_s()

    def cpu_s(self) -> float:
        try:
            with open(f"/proc/{self._pid}/stat", encoding="utf-8", errors="replace") as file:
                after_name = file.read().rpartition(")")[2].split()
        except OSError:
            raise WorkloadFailed(f"process {self._pid}: there is none whose CPU time could be read") from None
        return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mib(self) -> float:
        return _high_water_mib(str(self._pid))

    def reset_peak(self) -> None:
        """Do nothing: the peak of another process cannot be reset."""


def _high_water_mib(pid: str) -> float:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


@dataclass(slots=True)
class Latencies:
    """Milliseconds."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latencies:
        if not seconds:
            return cls()
        ordered = sorted(seconds)
        points = (_ms(percentile(ordered, share)) for share in (50, 90, 99))
        return cls(len(ordered), _ms(sum(ordered) / len(ordered)), *points)

    @classmethod
    def of_buckets(cls, bounds: Sequence[float], counts: Sequence[int], total_s: float) -> Latencies:
        """Estimate them as upstream does: linear inside buckets. The mean is exact."""
        count = sum(counts)
        if not count:
            return cls()
        points = (_ms(_from_buckets(bounds, counts, share / 100 * count)) for share in (50, 90, 99))
        return cls(count, _ms(total_s / count), *points)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest rank of an ascending sequence."""
    return ordered[max(0, min(len(ordered) - 1, -int(-len(ordered) * share // 100) - 1))]


def _from_buckets(bounds: Sequence[float], counts: Sequence[int], rank: float) -> float:
    seen = 0.0
    for i, count in enumerate(counts):
        if seen + count >= rank and count:
            if i >= len(bounds):
                return bounds[-1]
            low = bounds[i - 1] if i else 0.0
            return low + (bounds[i] - low) * (rank - seen) / count
        seen += count
    return bounds[-1]


class Latency:
    """Observes a scheduler's own metrics while a collector runs."""

    def __init__(self, metrics: SchedulerMetrics, profiles: Sequence[str]) -> None:
        self._metrics, self._profiles = metrics, profiles
        self._algorithm = metrics.scheduling_algorithm_duration.labels()
        self._samples: list[float] = []
        self._before: dict[str, tuple[list[int], float]] = {}

    def start(self) -> None:
        self._inner = self._algorithm.later
        inner, note = self._inner, self._samples.append

        def observe(seconds: float) -> None:
            inner(seconds)
            note(seconds)

        self._algorithm.later = observe
        self._before = {result: self._attempts(result) for result in _RESULTS}

    def stop(self) -> None:
        self._algorithm.later = self._inner

    def _children(self, result: str) -> list[HistogramChild]:
        family = self._metrics.scheduling_attempt_duration
        return [family.labels(result, profile) for profile in self._profiles]

    def _attempts(self, result: str) -> tuple[list[int], float]:
        children = self._children(result)
        counts = [sum(column) for column in zip(*(child.counts for child in children), strict=True)]
        return counts, sum(child.sum for child in children)

    def algorithm(self) -> Latencies:
        return Latencies.of(self._samples)

    def attempts(self) -> dict[str, Latencies]:
        """Return latencies by result, since the start."""
        found: dict[str, Latencies] = {}
        for result in _RESULTS:
            (now, total), (before, total_before) = self._attempts(result), self._before[result]
            counts = [a - b for a, b in zip(now, before, strict=True)]
            bounds = exponential_buckets(0.001, 2, len(counts) - 1)
            latencies = Latencies.of_buckets(bounds, counts, total - total_before)
            if latencies.count:
                found[result] = latencies
        return found


# ---- throughput --------------------------------------------------------------------------------------------------


class Collector:
    """Notes when the selected pods are bound, and the resources used, between ``start`` and ``stop``."""

    def __init__(
        self,
        name: str,
        matches: Callable[[PodRecord], bool],
        process: Process | None,
        latency: Latency | None,
        load_cpu_s: Callable[[], float] = lambda: 0.0,
        on_start: Callable[[], None] = lambda: None,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_start, self._on_stop = on_start, on_stop
        self.name = name
        self.matches = matches
        self.times: list[float] = []
        self.process = process
        self.latency = latency
        self.cpu_s: float | None = None
        self.load_cpu_s = 0.0
        self.started = self.stopped = 0.0
        self._load_cpu = load_cpu_s

    def start(self) -> None:
        self._on_start()
        if self.latency is not None:
            self.latency.start()
        self.load_cpu_s = -self._load_cpu()
        if self.process is not None:
            self.cpu_s = -self.process.cpu_s()
        self.started = time.perf_counter()

    def stop(self) -> None:
        self.stopped = time.perf_counter()
        if self.process is not None and self.cpu_s is not None:
            self.cpu_s += self.process.cpu_s()
        self.load_cpu_s += self._load_cpu()
        if self.latency is not None:
            self.latency.stop()
        self._on_stop()


def windows(times: Sequence[float], started: float, width_s: float = WINDOW_S) -> list[float]:
    """Return pods per second in consecutive windows from the start.

    A remainder at the end is its own window if it is at least half as long; otherwise the last window is longer.
    """
    if not times:
        return []
    length_s = max(max(times) - started, 1e-9)
    number = max(1, int(length_s / width_s + 0.5))
    counts = [0] * number
    for at in times:
        counts[min(number - 1, int((at - started) / width_s))] += 1
    last_s = length_s - (number - 1) * width_s
    return [count / width_s for count in counts[:-1]] + [counts[-1] / last_s]
