"""CPU, memory, file descriptors and start time of this process, under the names that Go's client library uses."""

from __future__ import annotations

import gc
import os
import resource
from pathlib import Path

from mooring.metrics import Registry

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Numbers of fields in /proc/self/stat as proc_pid_stat(5) counts them, less the four that are cut off.
_UTIME, _STIME, _START, _VIRTUAL, _RESIDENT = 10, 11, 18, 19, 20


def process_metrics(proc: Path = _PROC) -> str:
    """Read the figures and write them in Prometheus' text form; without /proc only Python's own."""
    registry = Registry()
    gauge = registry.gauge
    gauge("python_gc_objects_frozen", "Objects out of the garbage collector's sight.").set(gc.get_freeze_count())
    max_fds, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    gauge("process_max_fds", "Maximum number of open file descriptors.").set(max_fds)
    try:
        stat = (proc / "self/stat").read_text()
        boot_lines = (proc / "stat").read_text().splitlines()
        open_fds = len(os.listdir(proc / "self/fd"))
    except OSError:
        return registry.render()
    fields = [int(field) for field in stat.rpartition(")")[2].split()[1:]]  # the command may contain anything
    booted_at = next(int(line.split()[1]) for line in boot_lines if line.startswith("btime "))
    cpu_s = (fields[_UTIME] + fields[_STIME]) / _TICKS
    registry.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.").inc(cpu_s)
    gauge("process_open_fds", "Number of open file descriptors.").set(open_fds)
    gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.").set(fields[_VIRTUAL])
    gauge("process_resident_memory_bytes", "Resident memory size in bytes.").set(fields[_RESIDENT] * _PAGE_BYTES)
    started_at = booted_at + fields[_START] / _TICKS
    help_text = "Start time of the process since unix epoch in seconds."
    gauge("process_start_time_seconds", help_text).set(started_at)
    return registry.render()
