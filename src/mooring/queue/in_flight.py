"""What happened while pods were being tried.

A pod that is in the middle of an attempt cannot be woken. So events are kept
while any pod is in flight, and a pod that comes back refused is shown those
that it missed.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple

from mooring.api.meta import Object
from mooring.framework.cluster_event import ClusterEvent
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.queue.recorder import QueueRecorder

POD_POPPED = "PodPopped"


class Happening(NamedTuple):
    """An event with the object before and after."""

    event: ClusterEvent
    old: Object | None
    new: Object | None


class InFlight:
    """Pods that are being tried, each with the place in the list of events where its attempt began."""

    def __init__(self, recorder: QueueRecorder | None = None) -> None:
        self._pods: dict[str, tuple[int, QueuedPodInfo]] = {}  # by uid, oldest attempt first
        self._events: deque[Happening] = deque()
        self._dropped = 0  # events that were pruned: the first one kept has this number
        self._recorder = recorder

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> QueuedPodInfo | None:
        started = self._pods.get(uid)
        return None if started is None else started[1]

    @property
    def event_count(self) -> int:
        return len(self._events)

    def pods(self) -> list[QueuedPodInfo]:
        return [info for _, info in self._pods.values()]

    def start(self, info: QueuedPodInfo) -> bool:
        """Note that an attempt begins; a uid that is in flight already is refused."""
        uid = info.uid
        if uid in self._pods:
            return False
        self._pods[uid] = (self._dropped + len(self._events), info)
        if self._recorder is not None:
            self._recorder.in_flight_events(POD_POPPED, 1)
        return True

    def note(self, event: ClusterEvent, old: Object | None, new: Object | None) -> None:
        """Keep an event if anybody is there who might ask for it."""
        if self._pods:
            self._events.append(Happening(event, old, new))
            if self._recorder is not None:
                self._recorder.in_flight_events(event.label, 1)

    def since(self, uid: str) -> list[Happening] | None:
        """The events since this pod's attempt began, or None if it is not in flight."""
        started = self._pods.get(uid)
        return None if started is None else list(islice(self._events, started[0] - self._dropped, None))

    def done(self, uid: str) -> None:
        """Note that an attempt is over, and forget the events that only it could have asked for."""
        if self._pods.pop(uid, None) is None:
            return
        if self._recorder is not None:
            self._recorder.in_flight_events(POD_POPPED, -1)
        first_needed = next(iter(self._pods.values()))[0] if self._pods else self._dropped + len(self._events)
        while self._dropped < first_needed:
            dropped = self._events.popleft()
            self._dropped += 1
            if self._recorder is not None:
                self._recorder.in_flight_events(dropped.event.label, -1)
