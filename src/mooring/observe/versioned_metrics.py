"""Metrics that kube-scheduler does not have, or words otherwise, in every version."""

from __future__ import annotations

from mooring.config.features import Features
from mooring.metrics import Registry, exponential_buckets
from mooring.observe.metric_table import counter, fill, gauge, histogram

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

    def __init__(self, registry: Registry, features: Features) -> None:
        self._former, nowhere = _Former(), Registry()
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

    def event(self, label: str) -> str:
        """What the version calls an event."""
        if not self._tells_target_pods or not label.startswith("UnschedulablePod"):
            return label
        what = label.removeprefix("UnschedulablePod")
        return ("TargetPod" if what.startswith("UpdatePod") else "UnscheduledPod") + what

    def claim_created(self, *, is_created: bool) -> None:
        """A claim for an extended resource was written, or could not be."""
        status = "success" if is_created else "failure"
        self._former.claims_created.labels(status).inc()
        self.claims_created.labels(status, "false", "", "Pod").inc()
