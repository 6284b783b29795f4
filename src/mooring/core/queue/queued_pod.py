"""Entries of the queue with their history: attempts, rejections, backoff."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

import msgspec

from mooring.api.pod_groups import PodGroup
from mooring.core.state.pod_info import PodInfo

NO_PLUGINS: frozenset[str] = frozenset()


class QueuedEntity:
    """A pod, or a group of pods that is tried as one. The parts of the queue treat both alike.

    Not an ABC: isinstance checks of one take several times as long, and loops check every pod.

    Times are monotonic seconds: setting the clock must neither release a pod nor keep it.
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
        "sequence",
        "timestamp",
        "unschedulable_count",
        "was_flushed",
    )

    def __init__(self, key: str, timestamp: float, sequence: int) -> None:
        self.key = key
        self.added_timestamp = timestamp
        self.timestamp = timestamp  # of the last entry as a new or a failed pod
        self.sequence = sequence  # orders pods with equal timestamps by arrival
        self.attempts = 0
        self.unschedulable_count = 0
        self.consecutive_errors_count = 0
        self.backoff_expiration: float | None = None  # computed on first use
        self.initial_attempt_timestamp: float | None = None  # the first entry into the active queue
        self.gating_plugin = ""
        self.was_flushed = False
        self.flush_timestamp = float("-inf")
        self.message = ""  # why it waits, for users

    @property
    def members(self) -> Sequence[QueuedPodInfo]:
        """The pods that it consists of, in the order in which they are tried."""
        raise NotImplementedError

    @property
    def priority(self) -> int:
        raise NotImplementedError

    @property
    def scheduler_name(self) -> str:
        raise NotImplementedError

    @property
    def rejectors(self) -> frozenset[str]:
        """Plugins that rejected it, in its last attempt or before one."""
        raise NotImplementedError

    @property
    def is_gated(self) -> bool:
        return bool(self.gating_plugin)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key}, attempts {self.attempts})"


class QueuedPodInfo(QueuedEntity):
    """A pod in the queue, from its first appearance until it is done."""

    __slots__ = ("pending_plugins", "pod_info", "unschedulable_plugins")

    def __init__(self, pod_info: PodInfo, timestamp: float, sequence: int) -> None:
        super().__init__(pod_info.pod.key, timestamp, sequence)
        self.pod_info = pod_info
        self.unschedulable_plugins = NO_PLUGINS
        self.pending_plugins = NO_PLUGINS

    @property
    def uid(self) -> str:
        return self.pod_info.pod.metadata.uid

    @property
    def members(self) -> Sequence[QueuedPodInfo]:
        return (self,)

    @property
    def priority(self) -> int:
        return self.pod_info.pod.spec.priority or 0

    @property
    def scheduler_name(self) -> str:
        return self.pod_info.pod.spec.scheduler_name

    @property
    def rejectors(self) -> frozenset[str]:
        if not self.pending_plugins:
            return self.unschedulable_plugins
        return self.unschedulable_plugins | self.pending_plugins


# ---- a pod group as one entity of the queue: its pods wait, back off and are tried together
# ----------------------------


def entity_key(group: str) -> str:
    """Return the key of a group in the queue, distinct from pods' keys, which have one slash."""
    return f"PodGroup/{group}"


def member_order(info: QueuedPodInfo) -> tuple[int, int, float, int, str]:
    """The order within a group: by priority, then the pods with more attempts, then the oldest."""
    return (-info.priority, -info.attempts, info.timestamp, info.sequence, info.pod_info.pod.name)


class QueuedPodGroupInfo(QueuedEntity):
    """The pending pods of a group. It is ordered by its first pod; its own failures determine its backoff."""

    __slots__ = ("_members", "group", "seen")

    def __init__(self, group: PodGroup, first: QueuedPodInfo) -> None:
        super().__init__(entity_key(group.key), first.timestamp, first.sequence)
        self.group = group
        self.initial_attempt_timestamp = first.initial_attempt_timestamp
        self._members: list[QueuedPodInfo] = [first]
        self.seen = -1  # number of changes at the last attempt, if it was rejected

    @property
    def members(self) -> Sequence[QueuedPodInfo]:
        return self._members

    @property
    def priority(self) -> int:
        return self.group.priority

    @property
    def scheduler_name(self) -> str:
        return self._members[0].scheduler_name if self._members else ""

    @property
    def rejectors(self) -> frozenset[str]:
        """Return nothing: plugins reject the members. So a failed group waits for its backoff, whatever happens."""
        return NO_PLUGINS

    def add(self, info: QueuedPodInfo) -> None:
        insort(self._members, info, key=member_order)

    def remove(self, key: str) -> QueuedPodInfo | None:
        for i, info in enumerate(self._members):
            if info.key == key:
                return self._members.pop(i)
        return None


# ---- a pod's state in another queue, from which a simulation continues -----------------------------------------------


class History(msgspec.Struct, frozen=True):
    """A pod's place in the queue and its history. Times are seconds before now."""

    place: str  # active, backoff or unschedulable
    attempts: int
    added_s_ago: float  # first entry into the queue
    entered_s_ago: float  # last entry as a new or a failed pod
    plugins: tuple[str, ...] = ()  # that rejected it
    message: str = ""
