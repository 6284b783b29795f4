"""Metrics that kube-scheduler does not have, or words otherwise, in every version."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from typing import Any, Generic, TypeVar, overload

from mooring.api.core import Pod
from mooring.api.errors import ParseError
from mooring.api.quantity import NANO
from mooring.core.config.features import Features
from mooring.core.state.requests import (
    Amounts,
    held_together,
    is_pod_level_name,
    is_sidecar,
    parse_amounts,
    pod_requests,
)
from mooring.net.prometheus import (
    Counter,
    Gauge,
    Histogram,
    MetricsRegistry,
    escape_label,
    exponential_buckets,
    go_float,
)

# --------------------------------------------------------------------------------------------------------------------
# Metrics as a table: a class with one row per metric, and objects of it with one family per row.

F = TypeVar("F", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True)
class MetricRow(Generic[F]):
    """One metric. On an object of the table's class the attribute is the family itself."""

    kind: type[F]
    name: str
    help_text: str
    labels: tuple[str, ...]
    options: dict[str, Any]

    @overload
    def __get__(self, instance: None, owner: type) -> MetricRow[F]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> F: ...

    def __get__(self, instance: object | None, owner: type) -> MetricRow[F] | F:
        return self  # an object's own attribute, which fill() sets, comes first

    def make(self) -> F:
        return self.kind(self.name, self.help_text, self.labels, **self.options)


def counter(name: str, help_text: str, labels: tuple[str, ...] = ()) -> MetricRow[Counter]:
    """A row for a number that grows; ``labels`` gives the order of the values that ``labels()`` takes."""
    return MetricRow(Counter, name, help_text, labels, {})


def gauge(name: str, help_text: str, labels: tuple[str, ...] = ()) -> MetricRow[Gauge]:
    """A row for a number that goes up and down."""
    return MetricRow(Gauge, name, help_text, labels, {})


def histogram(
    name: str, help_text: str, labels: tuple[str, ...] = (), *, buckets: Sequence[float]
) -> MetricRow[Histogram]:
    """A row for how many observations fell into which bucket."""
    return MetricRow(Histogram, name, help_text, labels, {"buckets": buckets})


def fill(table: object, registry: MetricsRegistry) -> None:
    """Give an object a family for each row of its class, and register all of them."""
    for attribute, row in vars(type(table)).items():
        if isinstance(row, MetricRow):
            family = row.make()
            registry.add(family)
            setattr(table, attribute, family)


_TEXTS_OF_ENTITIES = {
    "scheduler_scheduling_algorithm_duration_seconds": "[BETA] Scheduling algorithm latency in seconds",
    "scheduler_plugin_execution_duration_seconds": (
        "[BETA] Duration for running a plugin at a specific extension point."
    ),
    "scheduler_pod_scheduled_after_flush_total": (
        "[ALPHA] Number of pods that were successfully scheduled after being flushed from unschedulableEntities due to "
        "timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues."
    ),
    "scheduler_pending_pods": (
        "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' "
        "means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulableEntities that the "
        "scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the "
        "scheduler never attempted to schedule because they are gated; 'incomplete' means number of pods in "
        "incompletePodGroupPods; 'pending' means number of pods in pendingPodGroupPods."
    ),
    "scheduler_preemption_victims": (
        "[STABLE] Number of selected preemption victims for preemption initiated by a single pod"
    ),
    "scheduler_preemption_goroutines_duration_seconds": (
        "[ALPHA] (Deprecated since 1.37.0) Duration in seconds for running goroutines for the preemption."
    ),
    "scheduler_store_schedule_results_duration_seconds": "[ALPHA] Latency for storing scheduling results.",
}


class _Former:
    """Until 1.36."""

    claims_created = counter(
        "scheduler_resourceclaim_creates_total",
        "[ALPHA] Number of ResourceClaims creation requests within scheduler",
        ("status",),
    )


class GroupMetrics:
    """Those of pod groups: in the registry where the gate GenericWorkload is on."""

    attempts = counter(
        "scheduler_podgroup_schedule_attempts_total",
        "[ALPHA] Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not "
        "be scheduled, while 'error' means an internal scheduler problem.",
        ("result", "profile"),
    )
    attempt_duration = histogram(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "[ALPHA] Pod group scheduling attempt latency in seconds",
        ("result", "profile"),
        buckets=exponential_buckets(0.001, 2, 15),
    )
    algorithm = histogram(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "[ALPHA] Pod group scheduling algorithm latency in seconds",
        buckets=exponential_buckets(0.001, 2, 15),
    )
    preemption_attempts = counter(
        "scheduler_workload_preemption_attempts_total",
        "[ALPHA] Total preemption attempts initiated by workload (including pod groups) in the cluster till now.",
        ("result",),
    )
    preemption_victims = histogram(
        "scheduler_workload_preemption_victims",
        "[ALPHA] Number of pod preemption victims caused by workload preemption.",
        buckets=exponential_buckets(1, 2, 11),
    )
    disruptions = histogram(
        "scheduler_preemption_workload_disruptions",
        "[ALPHA] Number of workload preemption units being preempted. A single preemption unit can be all pods in a "
        "pod group (in case of DisruptionMode=all), or a single pod (in case of DisruptionMode=single).",
        ("preemptor",),
        buckets=exponential_buckets(1, 2, 11),
    )
    preemption_evaluation = histogram(
        "scheduler_preemption_evaluation_duration_seconds",
        "[ALPHA] Duration in seconds for identifying the target preemption victims.",
        ("preemptor", "result"),
        buckets=exponential_buckets(0.001, 2, 16),
    )
    preemption_execution = histogram(
        "scheduler_preemption_execution_duration_seconds",
        "[ALPHA] Duration in seconds for preempting the target preemption victims. With async preemption enabled, "
        "preemption execution does not block the scheduling of other pods.",
        ("preemptor", "result"),
        buckets=exponential_buckets(0.001, 2, 16),
    )
    pdb_violations = counter(
        "scheduler_preemption_pdb_violations_total",
        "[ALPHA] Total number of pod disruption budget violations caused by preemption.",
        ("preemptor",),
    )


class PlacementMetrics:
    """Those of places for pod groups: in the registry where the gate TopologyAwareWorkloadScheduling is on."""

    generated = counter(
        "scheduler_generated_placements_total",
        "[ALPHA] Number of candidate placements generated when scheduling pod groups.",
        ("profile",),
    )
    evaluations = counter(
        "scheduler_placement_evaluations_total",
        "[ALPHA] Number of candidate placements evaluated when scheduling pod groups, by result. 'feasible' means the "
        "pod group fit into the placement, while 'infeasible' means it did not.",
        ("result", "profile"),
    )
    evaluation_duration = histogram(
        "scheduler_placement_evaluation_duration_seconds",
        "[ALPHA] Latency in seconds of evaluating a single candidate placement when scheduling pod groups, by result. "
        "'feasible' means the pod group fit into the placement, while 'infeasible' means it did not.",
        ("result", "profile"),
        buckets=exponential_buckets(0.001, 2, 15),
    )


class VersionedMetrics:
    """Those of the version are in the registry; others can be updated, too, but nobody sees them."""

    queued_entities = gauge(
        "scheduler_queued_entities",
        "[ALPHA] Number of queued scheduling entities ('pod' or 'podgroup'; 'pod' stands for individual pods that "
        "are not members of any podgroup) by the queue type. 'active' means number of entities in activeQ; "
        "'backoff' means number of entities in backoffQ; 'unschedulable' means number of entities in "
        "unschedulableEntities that the scheduler attempted to schedule and failed; 'gated' is the number of "
        "unschedulable entities that the scheduler never attempted to schedule because they are gated.",
        ("queue", "type"),
    )
    queue_incoming_entities = counter(
        "scheduler_queue_incoming_entities_total",
        "[ALPHA] Number of scheduling entities added to scheduling queues by event, queue type, and entity type. "
        "Entity types are either 'pod' (for individual pods that are not members of any podgroup) or 'podgroup'.",
        ("queue", "event", "type"),
    )
    batch_rescore_attempts = counter(
        "scheduler_batch_rescore_attempts_total",
        "[ALPHA] Counts of rescore attempts during opportunistic batching.",
        ("profile",),
    )
    batch_rescore_duration = histogram(
        "scheduler_batch_rescore_duration_seconds",
        "[ALPHA] Latency for rescoring a node during opportunistic batching.",
        ("profile",),
        buckets=exponential_buckets(0.00001, 2, 12),
    )
    # Never counted: it takes the gate SchedulerPreQueueingHints, which only saves time upstream.
    pre_queueing_hint_evaluations = counter(
        "scheduler_pre_queueing_hint_evaluations_total",
        "[ALPHA] Number of PreQueueingHint evaluations, labeled by plugin and result (all_pods or narrowed).",
        ("plugin", "result"),
    )
    claims_created = counter(
        "dynamic_resource_allocation_resourceclaim_creates_total",
        "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status, admin access, and "
        "owning API group and kind (either Pod or scheduling.k8s.io/PodGroup)",
        ("status", "admin_access", "owner_api_group", "owner_api_kind"),
    )

    def __init__(self, registry: MetricsRegistry, features: Features) -> None:
        self._former, nowhere = _Former(), MetricsRegistry()
        self._tells_target_pods = features["EventsTellTargetPods"]
        if features["MetricsCountEntities"]:
            fill(self, registry)
            fill(self._former, nowhere)
            for name, text in _TEXTS_OF_ENTITIES.items():
                registry.describe(name, text)
        else:
            fill(self, nowhere)
            fill(self._former, registry)

        self.groups = GroupMetrics()
        fill(self.groups, registry if features["GenericWorkload"] else nowhere)
        self.placements = PlacementMetrics()
        fill(self.placements, registry if features["TopologyAwareWorkloadScheduling"] else nowhere)
        self._tells_of_failed_evictions = features["MetricsTellOfFailedEvictions"]

    def event(self, label: str) -> str:
        """What the version calls an event."""
        if not self._tells_target_pods or not label.startswith("UnschedulablePod"):
            return label
        what = label.removeprefix("UnschedulablePod")
        return ("TargetPod" if what.startswith("UpdatePod") else "UnscheduledPod") + what

    def eviction(self, *, is_done: bool) -> str:
        """The result of evictions; until 1.36 it was counted before it was known."""
        return "success" if is_done or not self._tells_of_failed_evictions else "error"

    def claim_created(self, *, is_created: bool) -> None:
        """A claim for an extended resource was written, or could not be."""
        status = "success" if is_created else "failure"
        self._former.claims_created.labels(status).inc()
        self.claims_created.labels(status, "false", "", "Pod").inc()


# --------------------------------------------------------------------------------------------------------------------
# /metrics/resources: what each pod requests and is limited to, by resource and unit.

_HELP = (
    "[STABLE] Resources {what} workloads on the cluster, broken down by pod. This shows the resource usage the "
    "scheduler and kubelet expect per pod for resources along with the unit for the resource if any."
)
_BYTES = frozenset(("memory", "storage", "ephemeral-storage"))


def render_pod_resources(pods: Iterable[Pod]) -> bytes:
    """Write both families; zeros are left out, and so are pods that have ended on a node. May run in another thread."""
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
    """The unit a resource is counted in; empty for extended resources."""
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


# --------------------------------------------------------------------------------------------------------------------
# CPU, memory, file descriptors and start time of this process, under the names that Go's client library uses.

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Numbers of fields in /proc/self/stat as proc_pid_stat(5) counts them, less the four that are cut off.
_UTIME, _STIME, _START, _VIRTUAL, _RESIDENT = 10, 11, 18, 19, 20


def process_metrics(proc: Path = _PROC) -> str:
    """Read the figures and write them in Prometheus' text form; without /proc only Python's own."""
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
