"""The scheduling queue where pods may belong to groups (the gate GenericWorkload): a group is tried as one.

A pod that names a group is in exactly one of these places:

| place | when |
|---|---|
| incomplete | its PodGroup is not known |
| a :class:`QueuedPodGroupInfo` in the active, backoff or unschedulable part | its group is known, and not being tried |
| pending | its group is being tried right now; it joins the group when that is over |
| in flight | it is being tried |

Pods without a group are handled as in :class:`SchedulingQueue`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.api.pod_groups import PodGroup
from mooring.core.framework.cluster_event import ClusterEvent
from mooring.core.framework.status import Status
from mooring.core.queue import events
from mooring.core.queue.nominator import QueueNominator
from mooring.core.queue.profile import MoveStrategy, QueueProfile, QueueRecorder
from mooring.core.queue.queued_pod import QueuedEntity, QueuedPodGroupInfo, QueuedPodInfo, entity_key
from mooring.core.queue.scheduling_queue import (
    ACTIVE,
    BACKOFF,
    GATED,
    UNSCHEDULABLE,
    PreCheck,
    QueueOptions,
    SchedulingQueue,
)
from mooring.core.state.cluster import group_of
from mooring.core.state.pod_info import PodInfo

INCOMPLETE, PENDING = "incomplete", "pending"
GANG_SCHEDULING = "GangScheduling"

Members = dict[str, dict[str, QueuedPodInfo]]  # group -> the keys of its pods -> pods


class PodGroupQueue(SchedulingQueue):
    """A queue with pod groups. It has its own view of PodGroups, so that it is consistent in itself."""

    def __init__(
        self,
        profiles: Sequence[QueueProfile],
        clock: Clock,
        *,
        options: QueueOptions | None = None,
        recorder: QueueRecorder | None = None,
        nominator: QueueNominator | None = None,
    ) -> None:
        super().__init__(profiles, clock, options=options, recorder=recorder, nominator=nominator)
        self._groups: dict[str, PodGroup] = {}
        self._waiting: dict[str, QueuedPodInfo] = {}  # all pods with a group that are not in flight, by key
        self._incomplete: Members = {}
        self._pending: Members = {}
        self._trying = ""  # the group that was popped last, until ``finish_group``
        self._changes = 0  # number of changes that may matter to groups
        self._told: dict[str, tuple[str, str]] = {}  # by uid, the last reported place, and the event

    # ---- changes of groups ----------------------------------------------------------------------------------------

    def put_group(self, group: PodGroup) -> None:
        """Add a group, or its new version; pods that waited for it may be tried now."""
        self._groups[group.key] = group
        entity = self._entity(group.key)
        if entity is not None:
            entity.group = group
        for info in self._incomplete.pop(group.key, {}).values():
            self._add_member(info)

    def delete_group(self, group: PodGroup) -> None:
        """Remove a group: its pods wait until it exists again."""
        if self._groups.pop(group.key, None) is None:
            return
        entity, _ = self._take(entity_key(group.key))
        left = [*(entity.members if entity is not None else ()), *self._pending.pop(group.key, {}).values()]
        for info in left:
            _file(self._incomplete, info)

    # ---- changes of pods ------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo) -> None:
        if not group_of(pod.pod):
            super().add(pod)
        elif self.get(pod.pod.key) is not None or pod.uid in self._in_flight:
            self.update(None, pod)
        else:
            self._add_member(self._new(pod))

    def update(self, old: Pod | None, new: PodInfo) -> None:
        """Update a pod. Its group never changes."""
        is_new = new.uid not in self._in_flight and self.get(new.pod.key) is None
        if group_of(new.pod) and is_new:
            self._add_member(self._new(new))
        else:
            super().update(old, new)

    def _update_waiting(self, info: QueuedPodInfo, old: Pod, new: Pod) -> None:
        entity = self._entity(group_of(new))
        if entity is None and not group_of(new):
            super()._update_waiting(info, old, new)
        elif entity is not None and entity.key in self._unschedulable:
            for event in self.pod_changes(old, new):
                if self._requeue(entity, self._worth(entity, event, old, new), event.label) != UNSCHEDULABLE:
                    break

    def delete(self, pod: Pod) -> None:
        self._told.pop(pod.metadata.uid, None)
        group = group_of(pod)
        if not group:
            super().delete(pod)
            return
        self.nominator.withdraw(pod.metadata.uid)
        self.nominator.touch(pod.key)
        self._waiting.pop(pod.key, None)
        if (info := _take_out(self._incomplete, pod) or _take_out(self._pending, pod)) is not None:
            self._count_rejectors(info, -1)
            return
        entity, strategy = self._take(entity_key(group))
        if not isinstance(entity, QueuedPodGroupInfo):
            return
        info = entity.remove(pod.key)
        if info is not None:
            self._count_rejectors(info, -1)
        if entity.members:
            self._requeue(entity, strategy, events.UNSCHEDULED_POD_ADD.label)

    def _add_member(self, info: QueuedPodInfo) -> None:
        """Put a pod into the place of its group."""
        name = group_of(info.pod_info.pod)
        group, label = self._groups.get(name), events.UNSCHEDULED_POD_ADD.label
        self._waiting[info.key] = info
        if group is None:
            _file(self._incomplete, info)
            info.message = f'waiting for pod group "{name.partition("/")[2]}" to appear'
            if self.on_move is not None:
                self.on_move(info, INCOMPLETE, label, None)
            return
        entity, strategy = self._take(entity_key(name))
        if isinstance(entity, QueuedPodGroupInfo):
            entity.add(info)
            info.message = info.message or entity.message
            self._requeue(entity, strategy, label)
        elif self._trying == name:
            _file(self._pending, info)
        else:
            self._to_active(QueuedPodGroupInfo(group, info), label)

    # ---- attempts ----------------------------------------------------------------------------------------------

    def _begin(self, info: QueuedEntity) -> bool:
        for member in info.members:
            self._told.pop(member.uid, None)
        if not isinstance(info, QueuedPodGroupInfo):
            self._trying = ""
            return super()._begin(info)
        info.attempts += 1
        info.seen = self._changes
        self._trying = info.group.key
        for member in [*info.members]:
            self._waiting.pop(member.key, None)
            if not super()._begin(member):
                info.remove(member.key)
        return bool(info.members)

    def pop_if(self, is_wanted: Callable[[QueuedEntity], bool]) -> QueuedPodInfo | None:
        info = super().pop_if(is_wanted)
        if info is not None:
            self._told.pop(info.uid, None)
            self._trying = ""
        return info

    def _come_back(self, info: QueuedPodInfo) -> None:
        if not group_of(info.pod_info.pod):
            super()._come_back(info)
            return
        self.done(info.uid)  # before its group can be popped again
        self._add_member(info)

    def finish_group(self, tried: QueuedPodGroupInfo, status: Status) -> None:
        """End the attempt at a group, after its pods without a node were requeued: the group waits as one again.

        After a success the remaining pods are tried immediately, and rejected pods keep the group's place. After a
        failure the group backs off; unlike a pod it does not wait for an event.
        """
        self._trying = ""
        left = [*self._pending.pop(tried.group.key, {}).values()]
        group = self._groups.get(tried.group.key)
        if not left or group is None:
            for info in left:
                _file(self._incomplete, info)
            return
        entity = QueuedPodGroupInfo(group, left[0])
        for info in left[1:]:
            entity.add(info)
        _copy_history(tried, entity)
        was_tried = {member.uid for member in tried.members}
        keeps_place = False
        if status.is_success:
            keeps_place = any(info.uid in was_tried for info in left)
            entity.unschedulable_count = entity.consecutive_errors_count = 0
        elif status.is_rejected:
            entity.seen = tried.seen
            entity.unschedulable_count += 1
            entity.consecutive_errors_count = 0
            entity.backoff_expiration = None
        else:
            entity.consecutive_errors_count += 1
            entity.backoff_expiration = None
        if not keeps_place:
            self._sequence += 1
            entity.timestamp, entity.sequence = self._clock.monotonic(), self._sequence
        entity.was_flushed, entity.flush_timestamp = False, float("-inf")
        strategy = MoveStrategy.IMMEDIATELY if status.is_success else MoveStrategy.AFTER_BACKOFF
        self._requeue(entity, strategy, events.SCHEDULE_ATTEMPT_FAILURE)

    @property
    def is_quiet(self) -> bool:
        """Report whether retries would only repeat rejections, because nothing has changed since."""
        tried_in_vain = (
            isinstance(info, QueuedPodGroupInfo) and info.seen == self._changes for info in self._backoff.pods()
        )
        return not len(self._active) and all(tried_in_vain)

    def move_all(
        self,
        event: ClusterEvent,
        old: Object | None = None,
        new: Object | None = None,
        pre_check: PreCheck | None = None,
    ) -> None:
        self._changes += 1
        super().move_all(event, old, new, pre_check)

    # ---- what wakes groups -------------------------------------------------------------------------------------

    def _worth(self, info: QueuedEntity, event: ClusterEvent, old: Object | None, new: Object | None) -> MoveStrategy:
        """Return the most urgent strategy for any of the pods."""
        is_urgent = any(member.pending_plugins for member in info.members)
        enough, found = MoveStrategy.IMMEDIATELY if is_urgent else MoveStrategy.AFTER_BACKOFF, MoveStrategy.SKIP
        for member in info.members:
            found = max(found, self._hints.decide(member, event, old, new))
            if found >= enough:
                break
        return found

    def activate(self, pods: Iterable[Pod]) -> None:
        """Activate the whole group of a member."""
        for pod in pods:
            name = group_of(pod)
            if not name:
                super().activate((pod,))
                continue
            key = entity_key(name)
            if (entity := self._unschedulable.get(key)) is not None:
                self._to_active(entity, events.FORCE_ACTIVATE.label)
            elif (entity := self._backoff.remove(key)) is not None:
                self._to_active(entity, events.FORCE_ACTIVATE.label, from_backoff=True)
            elif pod.metadata.uid in self._in_flight:
                self._in_flight.note(events.FORCE_ACTIVATE, None, pod)

    def _key_of(self, pod: Pod) -> str:
        group = group_of(pod)
        return entity_key(group) if group else pod.key

    def _passes_gates(self, info: QueuedEntity) -> bool:
        """Report whether all pods of a group pass their gates. All are asked, so that the gates can be shown."""
        if not isinstance(info, QueuedPodGroupInfo):
            return super()._passes_gates(info)
        held: list[QueuedPodInfo] = []
        same = ""  # what GangScheduling says of all pods of the group: those that it holds back need not be asked again
        for member in info.members:
            is_same = member.gating_plugin == GANG_SCHEDULING and member.message == same
            if is_same or not super()._passes_gates(member):
                held.append(member)
                same = same or (member.message if member.gating_plugin == GANG_SCHEDULING else "")
        info.gating_plugin = held[-1].gating_plugin if held else ""
        info.message = held[-1].message if held else ""
        return not held

    def _is_still_gated(self, info: QueuedEntity) -> bool:
        """A group's gates are evaluated only when it moves to another part of the queue."""
        return isinstance(info, QueuedPodInfo) and super()._is_still_gated(info)

    def _entered(self, info: QueuedEntity, queue: str, place: str, label: str) -> None:
        """Report a pod only if it moved: requeueing a group moves no pod."""
        if isinstance(info, QueuedPodGroupInfo):
            is_new = label != events.UNSCHEDULED_POD_ADD.label or len(info.members) == 1
            self._recorder.incoming_group(queue, label, len(info.members), is_new=is_new)
        else:
            self._recorder.incoming_pod(queue, label)
        if self.on_move is None:
            return
        for member in info.members:
            if self._told.get(member.uid) != (place, member.message):
                self._told[member.uid] = (place, member.message)
                self.on_move(member, place, label, self._cause)

    # ---- queries --------------------------------------------------------------------------------------------------

    def _entity(self, group: str) -> QueuedPodGroupInfo | None:
        key = entity_key(group)
        found = self._active.get(key) or self._backoff.get(key) or self._unschedulable.get(key)
        return found if isinstance(found, QueuedPodGroupInfo) else None

    def get(self, key: str) -> QueuedPodInfo | None:
        return super().get(key) or self._waiting.get(key)

    def _holds(self, key: str) -> bool:
        return self.get(key) is not None

    def places(self) -> list[tuple[QueuedPodInfo, str]]:
        apart = ((self._pending, PENDING), (self._incomplete, INCOMPLETE))
        members = [(info, place) for part, place in apart for group in part.values() for info in group.values()]
        return [*super().places(), *members]

    def counts(self) -> dict[str, int]:
        counts = dict.fromkeys((ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, PENDING, INCOMPLETE), 0)
        for _, place in self.places():
            if place in counts:
                counts[place] += 1
        return counts

    def entity_counts(self) -> dict[str, dict[str, int]]:
        found = {place: {"pod": 0, "podgroup": 0} for place in (ACTIVE, BACKOFF, UNSCHEDULABLE, GATED)}
        for entity in (*self._active.in_order(), *self._backoff.pods(), *self._unschedulable):
            place = ACTIVE if entity.key in self._active else BACKOFF if entity.key in self._backoff else UNSCHEDULABLE
            kind = "podgroup" if isinstance(entity, QueuedPodGroupInfo) else "pod"
            found[GATED if entity.is_gated and place is UNSCHEDULABLE else place][kind] += 1
        return found


def _file(part: Members, info: QueuedPodInfo) -> None:
    part.setdefault(group_of(info.pod_info.pod), {})[info.key] = info


def _take_out(part: Members, pod: Pod) -> QueuedPodInfo | None:
    name = group_of(pod)
    info = part.get(name, {}).pop(pod.key, None)
    if name in part and not part[name]:
        del part[name]
    return info


def _copy_history(old: QueuedPodGroupInfo, new: QueuedPodGroupInfo) -> None:
    for name in (
        "added_timestamp",
        "attempts",
        "backoff_expiration",
        "consecutive_errors_count",
        "initial_attempt_timestamp",
        "sequence",
        "timestamp",
        "unschedulable_count",
    ):
        setattr(new, name, getattr(old, name))
