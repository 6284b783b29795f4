"""Results of a run as a table, as JSON, and compared with an earlier run."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mooring.api.errors import InputError
from mooring.api.version import __version__
from mooring.bench.decisions import read_document
from mooring.bench.perf.collect import Collector, Latencies, percentile, windows
from mooring.bench.perf.definitions import PerfWorkload

FORMAT = "mooring-bench-perf/1"
_PACKAGES = ("numpy", "msgspec", "httptools", "uvloop")


@dataclass(slots=True)
class Throughput:
    """Pods bound per second: the average from the first pod created to the last one bound, and in 1-second windows."""

    average: float = 0.0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    windows: list[float] = field(default_factory=list)


@dataclass(slots=True)
class PerfResult:
    """One measurement of one workload."""

    case: str
    workload: str
    topic: str
    params: dict[str, Any]
    target: str
    pods: int = 0
    seconds: float = 0.0
    throughput: Throughput = field(default_factory=Throughput)
    threshold: float | None = None
    cpu_s: float | None = None
    cpu_s_per_1000: float | None = None
    cpu_includes_api_server: bool = False
    load_cpu_s: float = 0.0
    peak_mib: float | None = None
    algorithm_ms: Latencies | None = None
    attempts_ms: dict[str, Latencies] = field(default_factory=dict)
    collector: str = ""
    notes: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.case}/{self.workload}" + (f" ({self.collector})" if self.collector else "")

    @property
    def is_passed(self) -> bool | None:
        """Return whether the threshold was met; None without one."""
        if self.threshold is None or self.error:
            return None
        return self.throughput.average >= self.threshold

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.is_passed}

    @staticmethod
    def from_dict(value: Mapping[str, Any]) -> PerfResult:
        fields = {key: item for key, item in value.items() if key in PerfResult.__slots__}
        fields["throughput"] = Throughput(**fields.get("throughput") or {})
        if fields.get("algorithm_ms"):
            fields["algorithm_ms"] = Latencies(**fields["algorithm_ms"])
        fields["attempts_ms"] = {name: Latencies(**item) for name, item in (fields.get("attempts_ms") or {}).items()}
        return PerfResult(**fields)


def blank(workload: PerfWorkload, target: str = "") -> PerfResult:
    """Return a result before any measurement."""
    return PerfResult(
        workload.case, workload.name, workload.topic, dict(workload.params), target, threshold=workload.threshold
    )


def result_of(workload: PerfWorkload, collector: Collector, target: str) -> PerfResult:
    """Return the result of a collector."""
    result = blank(workload, target)
    times = collector.times
    result.collector = collector.name
    result.pods = len(times)
    result.seconds = round((max(times) if times else collector.stopped) - collector.started, 3)
    rates = [round(rate, 1) for rate in windows(times, collector.started)]
    average = len(times) / max(result.seconds, 1e-3)
    ordered = sorted(rates) or [0.0]
    result.throughput = Throughput(
        round(average, 1), percentile(ordered, 50), percentile(ordered, 90), percentile(ordered, 99), rates
    )
    if collector.cpu_s is not None:
        result.cpu_s = round(collector.cpu_s, 3)
        result.cpu_s_per_1000 = round(collector.cpu_s / len(times) * 1000, 3) if times else None
        result.load_cpu_s = round(collector.load_cpu_s, 3)
    if collector.process is not None:
        result.peak_mib = round(collector.process.peak_mib(), 1)
    if collector.latency is not None:
        result.algorithm_ms = collector.latency.algorithm()
        result.attempts_ms = collector.latency.attempts()
        failed = result.attempts_ms.get("error")
        if failed is not None:
            result.notes.append(f"{failed.count:,} attempts ended in an error")
    return result


# ---- about the run -------------------------------------------------------------------------------------------------


def about() -> dict[str, Any]:
    """Return the machine, the versions and the date, without which numbers mean little."""
    versions = {"mooring": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
            "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "load_average": round(os.getloadavg()[0], 2),
        },
        "versions": versions,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def about_line(about: Mapping[str, Any]) -> str:
    machine, versions = about["machine"], about["versions"]
    return (
        f"{about['date']}, {machine['cores']} cores of {machine['processor']}, load {machine['load_average']} at the "
        f"start, {', '.join(f'{name} {version}' for name, version in versions.items())}"
    )


def document(results: Sequence[PerfResult], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run in its JSON form."""
    return {"format": FORMAT, **about, "results": [result.to_dict() for result in results]}


def read(path: Path) -> list[PerfResult]:
    """Read the results of an earlier run, as ``-o json`` wrote them."""
    value = read_document(path, FORMAT, "mooring bench perf")
    try:
        return [PerfResult.from_dict(item) for item in value["results"]]
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: results: {error}") from None


# ---- tables ----------------------------------------------------------------------------------------------------------

COLUMNS = (
    "workload",
    "pods",
    "pods/s",
    "p50",
    "p90",
    "p99",
    "threshold",
    "CPU s/1,000 pods",
    "decide ms p50/p99",
    "attempt ms p50/p99",
    "peak MiB",
)


def rows(results: Sequence[PerfResult]) -> list[list[str]]:
    """Return one row per result, in the order of COLUMNS."""
    return [_row(result) for result in results]


def _row(result: PerfResult) -> list[str]:
    if result.error:
        return [result.full_name, "-", "failed", *["-"] * (len(COLUMNS) - 3)]
    throughput = result.throughput
    threshold = "-"
    if result.threshold is not None:
        threshold = f"{result.threshold:g} {'kept' if result.is_passed else 'missed'}"
    scheduled = result.attempts_ms.get("scheduled")
    return [
        result.full_name,
        f"{result.pods:,}",
        f"{throughput.average:,.0f}",
        f"{throughput.p50:,.0f}",
        f"{throughput.p90:,.0f}",
        f"{throughput.p99:,.0f}",
        threshold,
        "-" if result.cpu_s_per_1000 is None else f"{result.cpu_s_per_1000:.3f}",
        _pair(result.algorithm_ms),
        _pair(scheduled),
        "-" if not result.peak_mib else f"{result.peak_mib:,.0f}",
    ]


def _pair(latencies: Latencies | None) -> str:
    if latencies is None or not latencies.count:
        return "-"
    return f"{latencies.p50:.2f}/{latencies.p99:.2f}"


def footnotes(results: Sequence[PerfResult]) -> list[str]:
    """Return notes for the readers of the table."""
    found: dict[str, None] = {}
    if any(result.cpu_includes_api_server and not result.error for result in results):
        load = sum(result.load_cpu_s for result in results)
        total = sum(result.cpu_s or 0.0 for result in results)
        share = f" ({load / total:.0%} of it)" if total else ""
        found[f"CPU is that of the whole process: scheduler, API server, and the making of objects{share}."] = None
    for result in results:
        for note in result.notes:
            found[f"{result.full_name}: {note}"] = None
        if result.error:
            found[f"{result.full_name}: {result.error}"] = None
    return list(found)


COMPARED = ("workload", "pods/s", "was", "ratio", "CPU s/1,000", "was", "ratio", "peak MiB", "was", "ratio")


def compare(new: Sequence[PerfResult], old: Sequence[PerfResult]) -> list[list[str]]:
    """Return rows in the order of COMPARED: new, old, new/old. Workloads of only one run are left out."""
    before = {result.full_name: result for result in old if not result.error}
    found = []
    for result in new:
        known = before.get(result.full_name)
        if known is None or result.error:
            continue
        found.append(
            [
                result.full_name,
                *_ratio(result.throughput.average, known.throughput.average, "{:,.0f}"),
                *_ratio(result.cpu_s_per_1000, known.cpu_s_per_1000, "{:.3f}"),
                *_ratio(result.peak_mib, known.peak_mib, "{:,.0f}"),
            ]
        )
    return found


def _ratio(new: float | None, old: float | None, form: str) -> tuple[str, str, str]:
    shown = ["-" if value is None else form.format(value) for value in (new, old)]
    return shown[0], shown[1], f"{new / old:.2f}×" if new is not None and old else "-"
