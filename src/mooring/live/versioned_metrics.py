"""Metrics that differ between Kubernetes versions, or belong to features of newer ones."""

from __future__ import annotations

from mooring.core.config.features import Features
from mooring.net.prometheus import MetricsRegistry, counter, exponential_buckets, fill, gauge, histogram

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
    """Labels and metrics until 1.36."""

    claims_created = counter(
        "scheduler_resourceclaim_creates_total",
        "[ALPHA] Number of ResourceClaims creation requests within scheduler",
        ("status",),
    )


class GroupMetrics:
    """Metrics of pod groups, registered where the gate GenericWorkload is on."""

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
    """Metrics of placements for pod groups, registered where the gate TopologyAwareWorkloadScheduling is on."""

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
    """All version-dependent metrics; those of other versions can be updated, but are not exposed."""

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
    # Never counted: it needs the gate SchedulerPreQueueingHints, which only saves time upstream.
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
        """Return the version's label of an event."""
        if not self._tells_target_pods or not label.startswith("UnschedulablePod"):
            return label
        what = label.removeprefix("UnschedulablePod")
        return ("TargetPod" if what.startswith("UpdatePod") else "UnscheduledPod") + what

    def eviction(self, *, is_done: bool) -> str:
        """Return the result of evictions; until 1.36 it was counted before it was known."""
        return "success" if is_done or not self._tells_of_failed_evictions else "error"

    def claim_created(self, *, is_created: bool) -> None:
        """Count a claim for an extended resource that was written, or failed to be."""
        status = "success" if is_created else "failure"
        self._former.claims_created.labels(status).inc()
        self.claims_created.labels(status, "false", "", "Pod").inc()
