"""Execution of preemptions: victims are evicted in the background while their preemptor waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mooring.api.core import Pod
from mooring.api.errors import ApiError
from mooring.api.pod_groups import PodGroup
from mooring.core.state.pod_info import PodInfo
from mooring.live.context import SchedulerContext
from mooring.live.logs import get_logger
from mooring.live.observer import Room
from mooring.live.status_patch import disruption_target, status_patch
from mooring.live.writer import reference_to

log = get_logger("mooring.live.preemption")
PARALLEL = 16
BEHIND_S = 2.0
"""How long a preemptor waits for a watch that is behind the answer to an eviction. An earlier attempt would fail again,
or choose other victims.
"""

Gate = tuple[str, str]
"""A plugin that holds a preemptor back, and the preemptor's key."""


@dataclass(frozen=True, slots=True)
class RunningPreemption:
    """A preemptor and its target: a pod on a node, or a group in the whole cluster."""

    plugin: str  # the PostFilter plugin that chose the victims
    preemptor: Pod  # for a group its first pod
    node_name: str
    group: PodGroup | None = None
    pdb_violations: int = 0
    disruptions: int = 0

    @property
    def gate(self) -> Gate:
        return (self.plugin, self.preemptor.key)

    @property
    def kind(self) -> str:
        return "pod" if self.group is None else "podgroup"

    @property
    def uid(self) -> str:
        return self.preemptor.uid if self.group is None else self.group.uid

    @property
    def priority(self) -> int:
        return self.preemptor.priority if self.group is None else self.group.priority


class _Evicted(NamedTuple):
    """Outcome of one eviction, with the API server's error if it failed."""

    problem: ApiError | None = None
    was_waiting: bool = False  # was waiting to be bound: there was nothing to delete


class PreemptionExecutor:
    """Carries out preemptions that PostFilter plugins decided, and tracks which preemptors wait for victims.

    The plugin's ``pre_enqueue`` and the queue both ask it (the framework's ``Preemptions``); no other place tracks
    this.

    Of several victims one is evicted after all others. The preemptor may be retried as soon as the watch shows that
    victim gone or terminating, so that no event that should wake it comes too early. A victim without a grace period is
    waited for until it is gone.
    """

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._wakes_after_waiting = context.options.features["WaitingVictimsWake"]
        # By uid of the pod or group: the key of its last victim, or "" while others are still being evicted.
        self._running: dict[str, str] = {}
        self._held_back: set[Gate] = set()
        self._last_victims: dict[str, set[Gate]] = {}  # by the victim's key: the gates that open when it is gone

    # ---- questions of the plugin and the queue ------------------------------------------------------------------

    def is_running(self, uid: str) -> bool:
        """Report whether victims of the pod or group are still being evicted, so that an attempt would be futile."""
        last = self._running.get(uid)
        if last is None:
            return False
        if not last:
            return True
        victim = self._context.pods.get(last)
        return victim is not None and not victim.is_terminating

    def holds_back(self, plugin: str, key: str) -> bool:
        """Report whether the pod of this key waits at the plugin's gate for its last victim, so that no event can help
        it.

        This lasts longer than ``is_running`` where the watch is behind the answer to the eviction.
        """
        return (plugin, key) in self._held_back

    def victim_goes(self, key: str) -> None:
        """Open the gates that wait for this pod, which is terminating, gone, or could not be bound."""
        for gate in self._last_victims.pop(key, ()):
            self._open(gate)

    def _stop_waiting_for(self, victim: str, gate: Gate) -> None:
        """Open a gate without waiting for the watch."""
        waiting = self._last_victims.get(victim, set())
        waiting.discard(gate)
        if not waiting:
            self._last_victims.pop(victim, None)
        self._open(gate)

    def _open(self, gate: Gate) -> None:
        self._held_back.discard(gate)
        self._context.changes(self._context.queue.opened, *gate)

    # ---- evictions -----------------------------------------------------------------------------------------------

    def start(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> None:
        """Evict the victims in the background; those already terminating are skipped."""
        alive = [victim for victim in victims if not victim.pod.is_terminating]
        if not alive:
            return
        room = self._begin(preemption, victims)
        self._running[preemption.uid] = ""
        if preemption.group is None:
            self._held_back.add(preemption.gate)
        self._context.tasks.spawn(self._run(preemption, alive, room))

    async def evict_now(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> ApiError | None:
        """Evict the victims before the attempt ends, as without the gate SchedulerAsyncPreemption; return an error, if
        any.

        All victims are deleted concurrently: the preemptor is still being tried, and events in that time wake it
        afterwards.
        """
        room, started = self._begin(preemption, victims), self._context.clock.monotonic()
        alive = [victim for victim in victims if not victim.pod.is_terminating]
        problem = await self._evict_together(preemption, alive)
        if problem is None:
            await self._clear_nominations(preemption)
        self._end(room, started, problem is None, in_background=False)
        return problem

    def _begin(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> Room:
        room = Room(
            preemption.preemptor,
            preemption.kind,
            preemption.node_name,
            len(victims),
            preemption.pdb_violations,
            preemption.disruptions,
        )
        for tell in self._context.observers.preempting:
            tell(room)
        return room

    def _end(self, room: Room, started: float, is_done: bool, *, in_background: bool = True) -> None:
        for tell in self._context.observers.preempted:
            tell(room, self._context.clock.monotonic() - started, is_done, in_background)

    async def _run(self, preemption: RunningPreemption, victims: Sequence[PodInfo], room: Room) -> None:
        started = self._context.clock.monotonic()
        log.v(2).info(
            "Start the preemption asynchronously",
            preemptor=preemption.preemptor.key,
            node=preemption.node_name,
            numVictims=len(victims),
        )
        is_done = is_broken = False
        last = _Evicted()
        try:
            cleared = await self._clear_nominations(preemption)
            last = await self._evict_all(preemption, victims)
            is_done = last.problem is None and cleared
        except Exception as error:  # a bug in mooring: an immediate retry would fail again
            log.error(error, "Unexpected error in an eviction", preemptor=preemption.preemptor.key)
            is_broken = True
        finally:
            self._running.pop(preemption.uid, None)
            gate, victim = preemption.gate, victims[-1].pod.key
            if is_done and not last.was_waiting and gate in self._last_victims.get(victim, ()):
                asyncio.get_running_loop().call_later(BEHIND_S, self._stop_waiting_for, victim, gate)
            else:
                self._stop_waiting_for(victim, gate)
            self._end(room, started, is_done)
            no_event = last.was_waiting and self._wakes_after_waiting  # nothing was deleted that would wake a pod
            if is_broken:
                self._context.changes(self._context.queue.set_back, preemption.preemptor)
            elif not is_done or no_event or self._came_too_late(preemption, victims):
                self._context.changes(self._context.queue.activate, [preemption.preemptor])
        log.v(2).info(
            "Async Preemption finished completely", preemptor=preemption.preemptor.key, node=preemption.node_name
        )

    def _came_too_late(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> bool:
        """Report whether all victims were gone while the preemptor was still held back, so that no event will wake it.

        Upstream leaves it to the five-minute sweep. It happens if another client deletes a victim at the same time, or
        if a victim could not be bound.
        """
        preemptor = preemption.preemptor
        info = self._context.queue.get(preemptor.key)
        if info is None or info.uid != preemptor.uid or info.gating_plugin != preemption.plugin:
            return False
        return not any(self._context.session.state.pod(victim.uid) is not None for victim in victims)

    async def _clear_nominations(self, preemption: RunningPreemption) -> bool:
        """Clear the nominations of lower-priority pods to this node."""
        is_done = True
        for other in list(self._context.session.nominations.nominated_pods(preemption.node_name)):
            if other.priority >= preemption.priority:
                continue
            patch = status_patch(other.pod, self._context.clock.now(), nominated_node="")
            if patch is None:
                continue
            try:
                await self._context.writer.patch_pod_status(other.pod.namespace, other.pod.name, patch)
            except ApiError as error:
                log.error(
                    error, "Cannot clear 'NominatedNodeName' field from lower priority pods", node=preemption.node_name
                )
                is_done = False
        return is_done

    async def _evict_all(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> _Evicted:
        """Evict all victims; return the outcome of the last one, or the error that prevented it."""
        *first, last = victims
        problem = await self._evict_together(preemption, first)
        if problem is not None:
            return _Evicted(problem)
        self._running[preemption.uid] = last.pod.key
        self._last_victims.setdefault(last.pod.key, set()).add(preemption.gate)
        if not self.is_running(preemption.uid):
            self.victim_goes(last.pod.key)
        return await self._evict(preemption, last)

    async def _evict_together(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> ApiError | None:
        limit = asyncio.Semaphore(PARALLEL)

        async def evict(victim: PodInfo) -> ApiError | None:
            async with limit:
                return (await self._evict(preemption, victim)).problem

        problems = await asyncio.gather(*(evict(victim) for victim in victims))
        return next((problem for problem in problems if problem is not None), None)

    async def _evict(self, preemption: RunningPreemption, victim: PodInfo) -> _Evicted:
        """Evict one victim."""
        preemptor, node_name = preemption.preemptor, preemption.node_name
        note = f"Preempted by {preemption.kind} {preemption.uid} on node {node_name}"
        pod, known = victim.pod, self._context.pods.get(victim.pod.key)
        if known is not None and known.uid != victim.uid:  # another pod of the same name, which must stay
            log.v(2).info("Victim Pod is already deleted", preemptor=preemptor.key, victim=pod.key)
            return _Evicted()
        was_waiting = self._context.waiting_pods.stop(victim.uid, preemption.plugin)
        if was_waiting:
            log.v(2).info("Preemptor preempted a waiting pod", preemptor=preemptor.key, waitingPod=pod.key)
            note += " (in kube-scheduler memory)."
        else:
            try:
                condition = disruption_target(pod, preemptor.spec.scheduler_name, preemption.kind)
                patch = status_patch(pod, self._context.clock.now(), condition=condition)
                if patch is not None:
                    await self._context.writer.patch_pod_status(pod.namespace, pod.name, patch)
                await self._context.writer.delete_pod(pod)
            except ApiError as error:
                if error.code == 404:
                    log.v(2).info("Victim Pod is already deleted", preemptor=preemptor.key, victim=pod.key)
                    return _Evicted()
                log.error(error, "Tried to preempted pod", pod=pod.key, preemptor=preemptor.key)
                return _Evicted(error)
            log.v(2).info("Preemptor Pod preempted victim Pod", preemptor=preemptor.key, victim=pod.key, node=node_name)
        for tell in self._context.observers.evicted:
            tell(preemptor, pod, node_name)
        self._context.recorder.record(
            reference_to(pod),
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
            controller=preemptor.spec.scheduler_name,
        )
        return _Evicted(was_waiting=was_waiting)
