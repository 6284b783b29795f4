"""kube-scheduler's metrics under kube-scheduler's names, so that existing dashboards and alerts keep working.

``SchedulerMetrics`` has one attribute per metric, which takes label values in the order given here.

Missing are kube-scheduler's ``workqueue_*``, because there are no work queues, and metrics of the Go runtime.
"""

from __future__ import annotations

import platform
from collections.abc import Callable

from mooring.core.config.features import DEFAULT_FEATURES, Features
from mooring.live.resource_metrics import process_metrics
from mooring.live.versioned_metrics import VersionedMetrics
from mooring.net.prometheus import MetricsRegistry, counter, exponential_buckets, fill, gauge, histogram

_ATTEMPT = exponential_buckets(0.001, 2, 15)
_EXTENSION_POINT = exponential_buckets(0.0001, 2, 12)
_PLUGIN = exponential_buckets(0.00001, 1.5, 20)
_HINT = exponential_buckets(0.00001, 2, 12)
_SLI = exponential_buckets(0.01, 2, 20)
_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
_REQUEST = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
FOLD = 8_000
"""Number of attempts and requests after which observations are folded into histograms: about 40,000 numbers."""


class SchedulerMetrics:
    """All metrics of a scheduler process, one row each. CONTRIBUTING.md says how to add one."""

    # Attempts
    schedule_attempts = counter(
        "scheduler_schedule_attempts_total",
        "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
        "scheduled, while 'error' means an internal scheduler problem.",
        ("result", "profile"),
    )
    scheduling_attempt_duration = histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
        ("result", "profile"),
        buckets=_ATTEMPT,
    )
    scheduling_algorithm_duration = histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        "[ALPHA] Scheduling algorithm latency in seconds",
        buckets=_ATTEMPT,
    )
    pod_scheduling_sli_duration = histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "[BETA] E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and "
        "might involve multiple scheduling attempts.",
        ("attempts",),
        buckets=_SLI,
    )
    pod_scheduling_attempts = histogram(
        "scheduler_pod_scheduling_attempts",
        "[STABLE] Number of attempts to successfully schedule a pod.",
        buckets=exponential_buckets(1, 2, 5),
    )
    pod_scheduled_after_flush = counter(
        "scheduler_pod_scheduled_after_flush_total",
        "[ALPHA] Number of pods that were successfully scheduled after being flushed from unschedulablePods due "
        "to timeout. This metric helps detect potential queueing hint misconfigurations or event "
        "handling issues.",
    )
    permit_wait_duration = histogram(
        "scheduler_permit_wait_duration_seconds",
        "[BETA] Duration of waiting on permit.",
        ("result",),
        buckets=_ATTEMPT,
    )

    # Plugins and extension points
    framework_extension_point_duration = histogram(
        "scheduler_framework_extension_point_duration_seconds",
        "[STABLE] Latency for running all plugins of a specific extension point.",
        ("extension_point", "status", "profile"),
        buckets=_EXTENSION_POINT,
    )
    plugin_execution_duration = histogram(
        "scheduler_plugin_execution_duration_seconds",
        "[ALPHA] Duration for running a plugin at a specific extension point.",
        ("plugin", "extension_point", "status"),
        buckets=_PLUGIN,
    )
    plugin_evaluation = counter(
        "scheduler_plugin_evaluation_total",
        "[BETA] Number of attempts to schedule pods by each plugin and the extension point (available only in "
        "PreFilter, Filter, PreScore, and Score).",
        ("plugin", "extension_point", "profile"),
    )

    # Queue and events
    pending_pods = gauge(
        "scheduler_pending_pods",
        "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' "
        "means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods "
        "that the scheduler attempted to schedule and failed; 'gated' is the number of unschedulable "
        "pods that the scheduler never attempted to schedule because they are gated.",
        ("queue",),
    )
    queue_incoming_pods = counter(
        "scheduler_queue_incoming_pods_total",
        "[STABLE] Number of pods added to scheduling queues by event and queue type.",
        ("queue", "event"),
    )
    unschedulable_pods = gauge(
        "scheduler_unschedulable_pods",
        "[BETA] The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for "
        "all plugins that caused it to not schedule and so this metric have meaning only when broken "
        "down by plugin.",
        ("plugin", "profile"),
    )
    inflight_events = gauge(
        "scheduler_inflight_events",
        "[ALPHA] Number of events currently tracked in the scheduling queue.",
        ("event",),
    )
    event_handling_duration = histogram(
        "scheduler_event_handling_duration_seconds",
        "[ALPHA] Event handling latency in seconds.",
        ("event",),
        buckets=_EXTENSION_POINT,
    )
    queueing_hint_execution_duration = histogram(
        "scheduler_queueing_hint_execution_duration_seconds",
        "[ALPHA] Duration for running a queueing hint function of a plugin.",
        ("plugin", "event", "hint"),
        buckets=_PLUGIN,
    )
    cache_size = gauge(
        "scheduler_cache_size",
        "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
        ("type",),
    )
    goroutines = gauge(
        "scheduler_goroutines",
        "[BETA] Number of running goroutines split by the work they do such as binding.",
        ("operation",),
    )

    # Preemption
    preemption_attempts = counter(
        "scheduler_preemption_attempts_total",
        "[STABLE] Total preemption attempts in the cluster till now",
    )
    preemption_victims = histogram(
        "scheduler_preemption_victims",
        "[STABLE] Number of selected preemption victims",
        buckets=exponential_buckets(1, 2, 7),
    )
    preemption_goroutines_duration = histogram(
        "scheduler_preemption_goroutines_duration_seconds",
        "[ALPHA] Duration in seconds for running goroutines for the preemption.",
        ("result",),
        buckets=_SLI,
    )
    preemption_goroutines_execution = counter(
        "scheduler_preemption_goroutines_execution_total",
        "[ALPHA] Number of preemption goroutines executed.",
        ("result",),
    )

    # Batching
    batch_attempts = counter(
        "scheduler_batch_attempts_total",
        "[ALPHA] Counts of results when we attempt to use batching.",
        ("profile", "result"),
    )
    batch_cache_flushed = counter(
        "scheduler_batch_cache_flushed_total",
        "[ALPHA] Counts of cache flushes by reason.",
        ("profile", "reason"),
    )
    get_node_hint_duration = histogram(
        "scheduler_get_node_hint_duration_seconds",
        "[ALPHA] Latency for getting a node hint.",
        ("hinted", "profile"),
        buckets=_HINT,
    )
    store_schedule_results_duration = histogram(
        "scheduler_store_schedule_results_duration_seconds",
        "[ALPHA] Latency for getting a no.",
        ("profile",),
        buckets=_HINT,
    )

    # Volumes, claims, API calls
    volume_scheduling_stage_error = counter(
        "scheduler_volume_scheduling_stage_error_total",
        "[ALPHA] Volume scheduling stage error count",
        ("operation",),
    )
    dra_bindingconditions_allocations = counter(
        "scheduler_dra_bindingconditions_allocations_total",
        "[ALPHA] Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
        ("profile", "driver", "status"),
    )
    dra_bindingconditions_wait_duration = histogram(
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        "[ALPHA] Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
        ("profile", "driver", "status"),
        buckets=exponential_buckets(0.1, 2, 14),
    )

    # The process
    leader_election_master_status = gauge(
        "leader_election_master_status",
        "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 "
        "indicates master. 'name' is the string used to identify the lease. Please make sure to group by "
        "name.",
        ("name",),
    )
    timeouts = counter(
        "mooring_timeouts_total",
        "[ALPHA] How often an attempt to find a node (what=attempt) or a call of a plugin (what=Plugin.method) "
        "was cut off because it took too long.",
        ("what",),
    )
    hanging_decisions = gauge(
        "mooring_hanging_decisions",
        "[ALPHA] How many decisions hang in threads that were left behind, because a plugin or an extender hangs.",
    )
    watch_failing = gauge(
        "mooring_watch_failing_seconds",
        "[ALPHA] For how long a kind of object could neither be listed nor watched; 0 if all is well.",
        ("resource",),
    )
    extender_calls = counter(
        "mooring_extender_calls_total",
        "[ALPHA] Calls to extenders by verb and result: ok or error.",
        ("extender", "verb", "result"),
    )
    extender_call_duration = histogram(
        "mooring_extender_call_duration_seconds",
        "[ALPHA] How long calls to extenders took.",
        ("extender", "verb"),
        buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    )
    extender_breaker_open = gauge(
        "mooring_extender_breaker_open",
        "[ALPHA] 1 while an extender that does not answer is left alone.",
        ("extender",),
    )
    rest_client_requests = counter(
        "rest_client_requests_total",
        "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
        ("code", "method", "host"),
    )
    rest_client_request_duration = histogram(
        "rest_client_request_duration_seconds",
        "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
        ("verb", "host"),
        buckets=_REQUEST,
    )
    rest_client_rate_limiter_duration = histogram(
        "rest_client_rate_limiter_duration_seconds",
        "[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.",
        ("verb", "host"),
        buckets=_REQUEST,
    )
    rest_client_request_size = histogram(
        "rest_client_request_size_bytes",
        "[ALPHA] Request size in bytes. Broken down by verb and host.",
        ("verb", "host"),
        buckets=_BYTES,
    )
    rest_client_response_size = histogram(
        "rest_client_response_size_bytes",
        "[ALPHA] Response size in bytes. Broken down by verb and host.",
        ("verb", "host"),
        buckets=_BYTES,
    )

    # What never changes
    feature_enabled = gauge(
        "kubernetes_feature_enabled",
        "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
    )
    version_info = gauge(
        "version_info",
        "[ALPHA] Provides the compatibility version info of the component. The component label is the name of the "
        "component, usually kube, but is relevant for aggregated-apiservers.",
        ("binary", "component", "emulation", "min_compat"),
    )
    build_info = gauge(
        "kubernetes_build_info",
        "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, "
        "build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
        (
            "major",
            "minor",
            "git_version",
            "git_commit",
            "git_tree_state",
            "build_date",
            "go_version",
            "compiler",
            "platform",
        ),
    )

    def __init__(
        self,
        *,
        version: str = "",
        features: Features = DEFAULT_FEATURES,
    ) -> None:
        self.registry = MetricsRegistry()
        self._before_render: list[Callable[[], None]] = []
        self._noted = 0
        fill(self, self.registry)
        self.versioned = VersionedMetrics(self.registry, features)
        for name, gate in features.version.gates.items():
            self.feature_enabled.labels(name, gate.stage.value).set(float(features[name]))
        release, before = str(features.version), f"1.{features.version.minor - 1}"
        self.version_info.labels(release, "kube", release, before).set(1)
        self.build_info.labels(
            *release.split("."),
            f"{features.version.tag}+mooring{version}" if version else features.version.tag,
            "",
            "",
            "",
            "",
            platform.python_implementation(),
            f"{platform.system().lower()}/{platform.machine()}",
        ).set(1)

    def on_render(self, callback: Callable[[], None]) -> None:
        """Call back just before rendering, to update gauges."""
        self._before_render.append(callback)

    def requested(self, host: str, method: str, code: str, duration_s: float, sent: int, received: int) -> None:
        """Count a request to the API server, for ``RestClient``."""
        self.rest_client_requests[code, method, host].value += 1
        self.rest_client_request_duration[method, host].later(duration_s)
        self.rest_client_request_size[method, host].later(sent)
        if received:
            self.rest_client_response_size[method, host].later(received)
        self.noted()

    def held_back(self, host: str, method: str, seconds: float) -> None:
        """Observe how long the client's rate limit delayed a request, for ``RestClient``."""
        self.rest_client_rate_limiter_duration[method, host].later(seconds)

    def noted(self) -> None:
        """Count an observation; pending ones are folded before they become many."""
        self._noted += 1
        if self._noted >= FOLD:
            self._noted = 0
            self.registry.fold()

    def observe_leadership(self, name: str, is_leader: bool) -> None:
        """Record whether this process leads, as ``LeaderElector``'s observer."""
        self.leader_election_master_status.labels(name).set(float(is_leader))

    def refresh(self) -> None:
        """Update the gauges, in the thread that owns them."""
        for callback in self._before_render:
            callback()

    def exposition(self) -> bytes:
        """Render all metrics in Prometheus' text form; callable in any thread."""
        return (self.registry.render() + process_metrics()).encode()

    def render(self) -> bytes:
        """Update the gauges and render all metrics."""
        self.refresh()
        return self.exposition()

    def reset(self) -> None:
        """Reset the scheduler's own counts, as DELETE /metrics does upstream."""
        self.registry.reset(name for name in self.registry.names() if name.startswith("scheduler_"))
