"""Metrics that are computed per request: resources of pods (/metrics/resources) and of this process."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit

from mooring.api.core import Pod
from mooring.api.errors import ParseError
from mooring.api.quantity import NANO
from mooring.core.state.requests import (
    Amounts,
    held_together,
    is_pod_level_name,
    is_sidecar,
    parse_amounts,
    pod_requests,
)
from mooring.net.prometheus import MetricsRegistry, escape_label, go_float

_HELP = (
    "[STABLE] Resources {what} workloads on the cluster, broken down by pod. This shows the resource usage the "
    "scheduler and kubelet expect per pod for resources along with the unit for the resource if any."
)
_BYTES = frozenset(("memory", "storage", "ephemeral-storage"))


def render_pod_resources(pods: Iterable[Pod]) -> bytes:
    """Render both families without zeros and without finished pods. May run in another thread."""
    requests: list[str] = []
    limits: list[str] = []
    for pod in pods:
        if pod.spec.node_name and pod.status.phase in ("Succeeded", "Failed"):
            continue
        try:
            wanted, bounds = pod_requests(pod, use_status=False), pod_limits(pod)
        except ParseError:
            # The scheduler reports a quantity that cannot be read; there is nothing to count.
            continue
        _lines(requests, "kube_pod_resource_request", pod, wanted)
        _lines(limits, "kube_pod_resource_limit", pod, bounds)
    out: list[str] = []
    for name, what, lines in (
        ("kube_pod_resource_limit", "limit for", limits),
        ("kube_pod_resource_request", "requested by", requests),
    ):
        if lines:
            out.append(f"# HELP {name} {_HELP.format(what=what)}\n# TYPE {name} gauge\n")
            out.extend(sorted(lines))
    return "".join(out).encode()


def pod_limits(pod: Pod) -> Amounts:
    """The pod's total limit: containers and sidecars summed, init containers as a floor, pod-level limits instead."""
    spec = pod.spec
    total = held_together(
        (
            parse_amounts(container.resources.limits, f"spec.containers[{i}].resources.limits")
            for i, container in enumerate(spec.containers)
        ),
        (
            (
                is_sidecar(container),
                parse_amounts(container.resources.limits, f"spec.initContainers[{i}].resources.limits"),
            )
            for i, container in enumerate(spec.init_containers)
        ),
    )
    resources = pod.spec.resources
    if resources is not None:
        whole = parse_amounts(resources.limits, "spec.resources.limits")
        total.update((name, amount) for name, amount in whole.items() if is_pod_level_name(name))
    for name, amount in parse_amounts(pod.spec.overhead, "spec.overhead").items():
        # Overhead raises a limit; it does not make one.
        if total.get(name):
            total[name] += amount
    return total


def unit_of(resource: str) -> str:
    """Return the unit of a resource; empty for extended resources."""
    if resource == "cpu":
        return "cores"
    if resource in _BYTES or resource.startswith("hugepages-"):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""


def _lines(out: list[str], name: str, pod: Pod, amounts: Amounts) -> None:
    meta, spec = pod.metadata, pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    head = (
        f'{name}{{namespace="{escape_label(meta.namespace)}",node="{escape_label(spec.node_name)}",'
        f'pod="{escape_label(meta.name)}",priority="{priority}",resource="'
    )
    scheduler = escape_label(spec.scheduler_name)
    for resource, amount in amounts.items():
        if amount:
            value = go_float(amount / NANO)
            unit = unit_of(resource)
            out.append(f'{head}{escape_label(resource)}",scheduler="{scheduler}",unit="{unit}"}} {value}\n')


# ---- this process, under the names that Go's client library uses -----------------------------------------------------

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Numbers of fields in /proc/self/stat as proc_pid_stat(5) counts them, less the four that are cut off.
_UTIME, _STIME, _START, _VIRTUAL, _RESIDENT = 10, 11, 18, 19, 20


def process_metrics(proc: Path = _PROC) -> str:
    """Render the process's figures in Prometheus' text form; without /proc only Python's own."""
    registry = MetricsRegistry()
    gauge = registry.gauge
    gauge("python_gc_objects_frozen", "Objects out of the garbage collector's sight.").set(gc.get_freeze_count())
    max_fds, _ = getrlimit(RLIMIT_NOFILE)
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
