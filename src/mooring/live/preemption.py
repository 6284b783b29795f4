"""Making room: victims are evicted in the background, and their preemptor waits until they are on their way."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mooring.api.clock import Clock
from mooring.api.core import Pod
from mooring.api.errors import ApiError
from mooring.api.pod_groups import PodGroup
from mooring.core.state.pod_info import PodInfo
from mooring.live.attempt import PreBinding, WaitingPods
from mooring.live.events import Recorder
from mooring.live.logs import get_logger
from mooring.live.observer import Observers, Room
from mooring.live.status_patch import StatusWriter, disruption_target, status_patch
from mooring.live.writer import reference_to

log = get_logger("mooring.live.preemption")
PARALLEL = 16
BEHIND_S = 2.0
"""How long the watch may be behind the answer to an eviction. The preemptor waits so long for it: tried before, it
would be refused, or choose other victims."""


class PodWriter(StatusWriter, Protocol):
    """The part of the writer that evicting needs; a refusal raises ApiError."""

    async def delete_pod(self, pod: Pod) -> None: ...


@dataclass(frozen=True, slots=True)
class RunningPreemption:
    """For whom room is made, and where: for a pod on a node, or for a group in the whole cluster."""

    plugin: str  # the PostFilter plugin that chose the victims
    preemptor: Pod  # of a group its first pod: it stands for all
    node_name: str
    group: PodGroup | None = None
    pdb_violations: int = 0
    disruptions: int = 0

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
    """What came of one victim: a problem if the API server did not play along."""

    problem: ApiError | None = None
    was_waiting: bool = False  # to be bound: there was nothing to delete


class PreemptionExecutor:
    """Carries out what a PostFilter plugin decided. ``pods`` is what the watch last said, by ``namespace/name``.

    Of several victims the last is evicted after all others. The preemptor may be tried again as soon as the watch shows
    that victim gone or terminating, so that no event that should wake it comes too early. A victim that goes at once is
    waited for until it is gone.
    """

    def __init__(
        self,
        writer: PodWriter,
        recorder: Recorder,
        waiting_pods: WaitingPods,
        pre_binding: Mapping[str, PreBinding],
        pods: Mapping[str, Pod],
        observers: Observers,
        clock: Clock,
        *,
        nominated_pods: Callable[[str], Iterable[PodInfo]],
        activate: Callable[[Iterable[Pod]], None],
        set_back: Callable[[Pod], None],
        is_gated: Callable[[Pod, str], bool],  # by this plugin
        has_room: Callable[[str], bool],  # whether the pod of this uid runs or is being bound
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        wakes_after_waiting: bool = False,  # the change WaitingVictimsWake
    ) -> None:
        self._writer = writer
        self._recorder = recorder
        self._waiting_pods = waiting_pods
        self._pre_binding = pre_binding
        self._pods = pods
        self._observers = observers
        self._clock = clock
        self._nominated_pods = nominated_pods
        self._activate = activate
        self._set_back = set_back
        self._is_gated = is_gated
        self._has_room = has_room
        self._spawn = spawn
        self._wakes_after_waiting = wakes_after_waiting
        self._running: dict[
            str, str
        ] = {}  # uid of the pod or group -> key of the last victim once only that one is left
        self.shut_gates: dict[str, set[str]] = defaultdict(set)
        """By plugin, keys of pods whose last victim is not going yet: whatever happens, it is of no use to try them."""
        self.on_open: Callable[[str, str], None] = lambda plugin, preemptor: None
        self._last_victims: dict[str, set[tuple[str, str]]] = {}  # by key: whose gate opens when it goes

    def is_running(self, uid: str) -> bool:
        """Whether victims of the pod or group are still being evicted: it is of no use to try it before that."""
        last = self._running.get(uid)
        if last is None:
            return False
        if not last:
            return True
        victim = self._pods.get(last)
        return victim is not None and not victim.is_terminating

    def victim_goes(self, key: str) -> None:
        """A pod is terminating or gone, or could not be bound: the gate before those opens whose last victim it is."""
        for plugin, preemptor in self._last_victims.pop(key, ()):
            self._open(plugin, preemptor)

    def _open_gate(self, gate: tuple[str, str], victim: str) -> None:
        """Let events wake a preemptor, whatever the watch says of its last victim."""
        waiting = self._last_victims.get(victim, set())
        waiting.discard(gate)
        if not waiting:
            self._last_victims.pop(victim, None)
        self._open(*gate)

    def _open(self, plugin: str, preemptor: str) -> None:
        self.shut_gates[plugin].discard(preemptor)
        self.on_open(plugin, preemptor)

    def start(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> None:
        """Evict the victims in the background; those that are going already are left alone."""
        alive = [victim for victim in victims if not victim.pod.is_terminating]
        if not alive:
            return
        room = self._begin(preemption, victims)
        self._running[preemption.uid] = ""
        if preemption.group is None:
            self.shut_gates[preemption.plugin].add(preemption.preemptor.key)
        self._spawn(self._run(preemption, alive, room))

    async def evict_now(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> ApiError | None:
        """Evict the victims before the attempt ends, as without the gate SchedulerAsyncPreemption; or what went wrong.

        All go at once: the preemptor is still being tried, and what happens meanwhile wakes it when it is not.
        """
        room, started = self._begin(preemption, victims), self._clock.monotonic()
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
        for tell in self._observers.preempting:
            tell(room)
        return room

    def _end(self, room: Room, started: float, is_done: bool, *, in_background: bool = True) -> None:
        for tell in self._observers.preempted:
            tell(room, self._clock.monotonic() - started, is_done, in_background)

    async def _run(self, preemption: RunningPreemption, victims: Sequence[PodInfo], room: Room) -> None:
        started = self._clock.monotonic()
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
        except Exception as error:  # our own mistake: at once, the same would happen again
            log.error(error, "Unexpected error in an eviction", preemptor=preemption.preemptor.key)
            is_broken = True
        finally:
            self._running.pop(preemption.uid, None)
            gate, victim = (preemption.plugin, preemption.preemptor.key), victims[-1].pod.key
            if is_done and not last.was_waiting and gate in self._last_victims.get(victim, ()):
                asyncio.get_running_loop().call_later(BEHIND_S, self._open_gate, gate, victim)
            else:
                self._open_gate(gate, victim)
            self._end(room, started, is_done)
            no_event = last.was_waiting and self._wakes_after_waiting  # nothing was deleted that would wake anybody
            if is_broken:
                self._set_back(preemption.preemptor)
            elif not is_done or no_event or self._came_too_late(preemption, victims):
                self._activate([preemption.preemptor])
        log.v(2).info(
            "Async Preemption finished completely", preemptor=preemption.preemptor.key, node=preemption.node_name
        )

    def _came_too_late(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> bool:
        """Whether no victim has room any more while the preemptor was still held back, so that no event will wake it.

        Upstream leaves it to the five-minute sweep. It happens if another client deletes a victim at the same time, or
        if a victim could not be bound.
        """
        if not self._is_gated(preemption.preemptor, preemption.plugin):
            return False
        return not any(self._has_room(victim.uid) for victim in victims)

    async def _clear_nominations(self, preemption: RunningPreemption) -> bool:
        """Clear the nominations of less important pods to this node."""
        is_done = True
        for other in list(self._nominated_pods(preemption.node_name)):
            if other.priority >= preemption.priority:
                continue
            patch = status_patch(other.pod, self._clock.now(), nominated_node="")
            if patch is None:
                continue
            try:
                await self._writer.patch_pod_status(other.pod.namespace, other.pod.name, patch)
            except ApiError as error:
                log.error(
                    error, "Cannot clear 'NominatedNodeName' field from lower priority pods", node=preemption.node_name
                )
                is_done = False
        return is_done

    async def _evict_all(self, preemption: RunningPreemption, victims: Sequence[PodInfo]) -> _Evicted:
        """What came of the last one, or what kept it from being evicted."""
        *first, last = victims
        problem = await self._evict_together(preemption, first)
        if problem is not None:
            return _Evicted(problem)
        self._running[preemption.uid] = last.pod.key
        self._last_victims.setdefault(last.pod.key, set()).add((preemption.plugin, preemption.preemptor.key))
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
        """Make one victim go."""
        preemptor, node_name = preemption.preemptor, preemption.node_name
        note = f"Preempted by {preemption.kind} {preemption.uid} on node {node_name}"
        pod, known = victim.pod, self._pods.get(victim.pod.key)
        if known is not None and known.uid != victim.uid:  # a namesake, which nobody wants to go
            log.v(2).info("Victim Pod is already deleted", preemptor=preemptor.key, victim=pod.key)
            return _Evicted()
        was_waiting = self._stop_in_memory(preemption.plugin, victim.uid)
        if was_waiting:
            log.v(2).info("Preemptor preempted a waiting pod", preemptor=preemptor.key, waitingPod=pod.key)
            note += " (in kube-scheduler memory)."
        else:
            try:
                condition = disruption_target(pod, preemptor.spec.scheduler_name, preemption.kind)
                patch = status_patch(pod, self._clock.now(), condition=condition)
                if patch is not None:
                    await self._writer.patch_pod_status(pod.namespace, pod.name, patch)
                await self._writer.delete_pod(pod)
            except ApiError as error:
                if error.code == 404:
                    log.v(2).info("Victim Pod is already deleted", preemptor=preemptor.key, victim=pod.key)
                    return _Evicted()
                log.error(error, "Tried to preempted pod", pod=pod.key, preemptor=preemptor.key)
                return _Evicted(error)
            log.v(2).info("Preemptor Pod preempted victim Pod", preemptor=preemptor.key, victim=pod.key, node=node_name)
        for tell in self._observers.evicted:
            tell(preemptor, pod, node_name)
        self._recorder.record(
            reference_to(pod),
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
            controller=preemptor.spec.scheduler_name,
        )
        return _Evicted(was_waiting=was_waiting)

    def _stop_in_memory(self, plugin: str, uid: str) -> bool:
        waiting = self._waiting_pods.get(uid)
        if waiting is not None:
            return waiting.preempt(plugin, "preempted")
        pre_binding = self._pre_binding.get(uid)
        return pre_binding is not None and pre_binding.cancel(f"preempted by {plugin}")
