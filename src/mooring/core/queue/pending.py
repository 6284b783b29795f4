"""A pending pod in the form that is shown to users."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from mooring.core.framework.cluster_event import ActionType, ClusterEvent
from mooring.core.queue.profile import HintTable
from mooring.core.queue.queued_pod import QueuedPodInfo
from mooring.core.state.cluster import group_of


class PendingPod(msgspec.Struct, frozen=True):
    """A pending pod: since when it waits, why, and which events would wake it."""

    namespace: str
    name: str
    uid: str
    scheduler_name: str
    queue: str  # active, backoff, unschedulable, gated or in-flight; of groups also pending and incomplete
    priority: int
    attempts: int
    added: float  # seconds since the epoch
    since: float  # seconds since the epoch: when it last (re)entered the queue
    backoff_left_s: float  # 0 unless it is in backoff
    plugins: tuple[str, ...]  # plugins that rejected it
    message: str
    wakes: tuple[str, ...]  # labels of events, such as NodeAdd
    group: str = ""  # namespace/name of the pod group that it belongs to


def describe(info: QueuedPodInfo, queue: str, hints: HintTable, now: float, wall: float) -> PendingPod:
    """Describe a pod; ``now`` is the monotonic time that corresponds to ``wall`` since the epoch."""
    meta = info.pod_info.pod.metadata
    waits = queue in ("unschedulable", "gated")
    plugins = frozenset((info.gating_plugin,)) if info.is_gated else info.rejectors
    left = 0.0
    if queue == "backoff" and info.backoff_expiration is not None:
        left = max(0.0, info.backoff_expiration - now)
    return PendingPod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        scheduler_name=info.scheduler_name,
        queue=queue,
        priority=info.priority,
        attempts=info.attempts,
        added=wall - (now - info.added_timestamp),
        since=wall - (now - info.timestamp),
        backoff_left_s=left,
        plugins=tuple(sorted(info.rejectors)),
        message=info.message,
        wakes=wake_labels(hints.events_of(info.scheduler_name, plugins)) if waits else (),
        group=group_of(info.pod_info.pod),
    )


_SINGLE_ACTIONS = [action for action in ActionType if action not in (ActionType.UPDATE, ActionType.ALL)]


def wake_labels(registered: Iterable[ClusterEvent]) -> tuple[str, ...]:
    """Return a label per registered kind of change, so ``Node``/Add|Delete is NodeAdd and NodeDelete."""
    return _wake_labels(tuple(registered))


@lru_cache(maxsize=1024)
def _wake_labels(registered: tuple[ClusterEvent, ...]) -> tuple[str, ...]:
    spelt_out = (ClusterEvent(event.resource, action) for event in registered for action in _spelt_out(event.action))
    return tuple(dict.fromkeys(event.label for event in spelt_out))


def _spelt_out(action: ActionType) -> list[ActionType]:
    if action == ActionType.ALL:
        return [action]
    rest = action
    found = []
    if ActionType.UPDATE in action:
        rest &= ~ActionType.UPDATE
        found = [ActionType.UPDATE]
    return [*(single for single in _SINGLE_ACTIONS if single in rest), *found]
