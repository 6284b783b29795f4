"""A waiting pod with its history: attempts, rejections, backoff."""

from __future__ import annotations

from mooring.state.pod_info import PodInfo

NO_PLUGINS: frozenset[str] = frozenset()


class QueuedPodInfo:
    """What the queue remembers of a pod from the first time it sees it until it is done with it.

    Times are monotonic seconds: a clock that is set must neither free a pod nor keep it.
    """

    __slots__ = (
        "added_timestamp",
        "attempts",
        "backoff_expiration",
        "consecutive_errors_count",
        "flush_timestamp",
        "gating_plugin",
        "initial_attempt_timestamp",
        "key",
        "message",
        "pending_plugins",
        "pod_info",
        "sequence",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, pod_info: PodInfo, timestamp: float, sequence: int) -> None:
        self.pod_info = pod_info
        self.key = pod_info.pod.key
        self.added_timestamp = timestamp
        self.timestamp = timestamp  # of the last entry as a new or a failed pod
        self.sequence = sequence  # orders pods with equal timestamps: first come, first served
        self.attempts = 0
        self.unschedulable_count = 0
        self.consecutive_errors_count = 0
        self.backoff_expiration: float | None = None  # computed when first asked for
        self.initial_attempt_timestamp: float | None = None  # the first entry into the active queue
        self.unschedulable_plugins = NO_PLUGINS
        self.pending_plugins = NO_PLUGINS
        self.gating_plugin = ""
        self.was_flushed = False
        self.flush_timestamp = float("-inf")
        self.message = ""  # why it waits, for people

    @property
    def uid(self) -> str:
        return self.pod_info.pod.metadata.uid

    @property
    def priority(self) -> int:
        return self.pod_info.pod.spec.priority or 0

    @property
    def scheduler_name(self) -> str:
        return self.pod_info.pod.spec.scheduler_name

    @property
    def is_gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> frozenset[str]:
        """Plugins that refused the pod, at its last attempt or before one."""
        if not self.pending_plugins:
            return self.unschedulable_plugins
        return self.unschedulable_plugins | self.pending_plugins

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.key}, attempts {self.attempts})"
