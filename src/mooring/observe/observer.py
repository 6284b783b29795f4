"""Observers of a scheduler: metrics, the decision log and the narration of scenarios hear what happens and print it.

The scheduler calls them in its own thread, at the moment at which something happens. They change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from mooring.api.core import Pod
from mooring.api.meta import Object
from mooring.clock import Clock
from mooring.config.features import Features
from mooring.config.types import KubeSchedulerConfiguration
from mooring.engine.decision import Decision
from mooring.engine.groups.decision import GroupDecision
from mooring.framework.extender import Answer, Extender
from mooring.framework.runtime import Profile
from mooring.framework.status import Code
from mooring.framework.waiting_pods import WaitingPods
from mooring.observe.events import ObjectReference
from mooring.queue.queued_pod import QueuedPodInfo
from mooring.queue.scheduling_queue import SchedulingQueue
from mooring.state.cluster import Cluster


class Room(msgspec.Struct, frozen=True):
    """Room that is made by evicting pods: for a pod on a node, or for a group (its first pod stands for it)."""

    preemptor: Pod
    kind: str  # pod or podgroup
    node_name: str
    victims: int
    pdb_violations: int = 0
    disruptions: int = 0


class Observed(Protocol):
    """What an observer may read of the scheduler that it observes."""

    config: KubeSchedulerConfiguration
    cluster: Cluster
    queue: SchedulingQueue
    pods: dict[str, Pod]
    heard: list[list[Answer]]  # what extenders answered, for each observer that added a list of its own
    drawn: list[list[int]]  # random numbers, for each observer that added a list of its own, which it empties

    @property
    def waiting_pods(self) -> WaitingPods: ...

    @property
    def extenders(self) -> Sequence[Extender]: ...

    @property
    def profiles(self) -> dict[str, Profile]: ...

    @property
    def features(self) -> Features: ...

    @property
    def clock(self) -> Clock: ...


class SchedulerObserver:
    """Override what you want to hear; the rest costs nothing. A method must be quick and must not raise."""

    def configured(self, scheduler: Observed) -> None:
        """The scheduler is put together, or goes on with another configuration."""

    def put(self, obj: Object) -> None:
        """An object is new or has changed. The scheduler takes it in when the observers have heard of it."""

    def delete(self, obj: Object) -> None:
        """An object is gone. The scheduler forgets it when the observers have heard of it."""

    def wants_detail(self) -> bool:
        """Asked before each decision: whether it should keep its scores by plugin, for ``decided``."""
        return False

    def decided(self, info: QueuedPodInfo, profile: Profile, decision: Decision, seconds: float) -> None:
        """A decision was made. Nothing has followed from it yet."""

    def group_decided(
        self, pods: Sequence[QueuedPodInfo], profile: Profile, decision: GroupDecision, seconds: float
    ) -> None:
        """A decision about a pod group was made, in so many seconds. ``decided`` follows for each of its pods."""

    def waiting(self, info: QueuedPodInfo, node_name: str, plugins: Sequence[str]) -> None:
        """A pod holds its node and waits for these Permit plugins."""

    def waited(self, info: QueuedPodInfo, code: Code, seconds: float) -> None:
        """A pod waits for Permit plugins no more."""

    def binding(self, info: QueuedPodInfo) -> None:
        """A pod's binding cycle begins."""

    def bound(self, info: QueuedPodInfo, profile: Profile, node_name: str, seconds: float) -> None:
        """A pod is bound; ``seconds`` have passed since its attempt began."""

    def binding_failed(self, info: QueuedPodInfo, message: str) -> None:
        """A pod had a node, and could not be bound; ``failed`` follows."""

    def binding_ended(self, info: QueuedPodInfo) -> None:
        """A pod's binding cycle has ended, one way or the other."""

    def failed(self, info: QueuedPodInfo, profile: Profile, reason: str, message: str, seconds: float) -> None:
        """An attempt has failed, as ``Unschedulable`` or as ``SchedulerError``, so many seconds after it began."""

    def preempting(self, room: Room) -> None:
        """Victims are about to be evicted."""

    def evicted(self, preemptor: Pod, victim: Pod, node_name: str) -> None:
        """A victim was deleted, or stopped before it ran."""

    def preempted(self, room: Room, seconds: float, is_done: bool, in_background: bool) -> None:
        """Evictions have ended, so many seconds after they began; ``is_done`` unless something went wrong."""

    def event(self, regarding: ObjectReference, reason: str, note: str) -> None:
        """An Event is being written about an object."""

    def moved(self, info: QueuedPodInfo, place: str, event: str, cause: Object | None) -> None:
        """A pod has entered a part of the queue because of an event; ``cause`` is the object of that event, if any."""


class Observers:
    """Several observers as one: of each event, the methods of those who want to hear it."""

    def __init__(self, observers: Iterable[SchedulerObserver] = ()) -> None:
        each = tuple(observers)

        def hearing(name: str) -> list[SchedulerObserver]:
            return [one for one in each if getattr(type(one), name) is not getattr(SchedulerObserver, name)]

        self.configured = tuple(one.configured for one in hearing("configured"))
        self.put = tuple(one.put for one in hearing("put"))
        self.delete = tuple(one.delete for one in hearing("delete"))
        self._asking: tuple[Callable[[], bool], ...] = tuple(one.wants_detail for one in hearing("wants_detail"))
        self.decided = tuple(one.decided for one in hearing("decided"))
        self.group_decided = tuple(one.group_decided for one in hearing("group_decided"))
        self.waiting = tuple(one.waiting for one in hearing("waiting"))
        self.waited = tuple(one.waited for one in hearing("waited"))
        self.binding = tuple(one.binding for one in hearing("binding"))
        self.bound = tuple(one.bound for one in hearing("bound"))
        self.binding_failed = tuple(one.binding_failed for one in hearing("binding_failed"))
        self.binding_ended = tuple(one.binding_ended for one in hearing("binding_ended"))
        self.failed = tuple(one.failed for one in hearing("failed"))
        self.preempting = tuple(one.preempting for one in hearing("preempting"))
        self.evicted = tuple(one.evicted for one in hearing("evicted"))
        self.preempted = tuple(one.preempted for one in hearing("preempted"))
        self.event = tuple(one.event for one in hearing("event"))
        self.moved = tuple(one.moved for one in hearing("moved"))

    def wants_detail(self) -> bool:
        """Ask all of them, also after the first yes: an observer may remember what it answered."""
        wanted = False
        for ask in self._asking:
            wanted |= ask()
        return wanted
