"""A pod group as one entity of the queue: its pods wait, back off and are tried together."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from mooring.api.pod_groups import PodGroup
from mooring.queue.queued_pod import NO_PLUGINS, QueuedEntity, QueuedPodInfo


def entity_key(group: str) -> str:
    """The key of a group in the queue; no pod has it, because a pod's has one slash only."""
    return f"PodGroup/{group}"


def member_order(info: QueuedPodInfo) -> tuple[int, int, float, int, str]:
    """Who of a group is tried first: the important, then those that were tried more often, then who came first."""
    return (-info.priority, -info.attempts, info.timestamp, info.sequence, info.pod_info.pod.name)


class QueuedPodGroupInfo(QueuedEntity):
    """The waiting pods of a group. It takes the first one's place in the order; its own failures make it back off."""

    __slots__ = ("_members", "group", "seen")

    def __init__(self, group: PodGroup, first: QueuedPodInfo) -> None:
        super().__init__(entity_key(group.key), first.timestamp, first.sequence)
        self.group = group
        self.initial_attempt_timestamp = first.initial_attempt_timestamp
        self._members: list[QueuedPodInfo] = [first]
        self.seen = -1  # the number of changes that the last attempt knew of, if it was refused

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
        """None: plugins refuse the members. So a group that failed waits for its backoff, whatever happens."""
        return NO_PLUGINS

    def add(self, info: QueuedPodInfo) -> None:
        insort(self._members, info, key=member_order)

    def remove(self, key: str) -> QueuedPodInfo | None:
        for i, info in enumerate(self._members):
            if info.key == key:
                return self._members.pop(i)
        return None
