"""The pods of workloads in a simulation: they bypass the API server, which never stores them.

:class:`StreamedPods` acts as the API server and all kubelets for these pods. It carries out a write of the scheduler
immediately, and calls the scheduler as a watch would. A bound pod starts immediately, and ends after its run time if it
has one. An evicted pod is gone after its grace period. Nothing is kept about a finished pod, so memory depends on the
existing pods, not on their total number.

The other classes do for streamed pods what controllers do for stored ones: :class:`NodeWatch` handles failed and
deleted nodes and NoExecute taints, :class:`SimulatedBudgets` disruption budgets. :class:`StoredPods` are the exception:
pods for which controllers must create volumes or claims, and which the API server therefore stores.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from msgspec.structs import replace

from mooring.api.clock import Clock
from mooring.api.codec import KINDS, decode
from mooring.api.core import Node, Pod, PodStatus, Taint, recreated_pod
from mooring.api.errors import ApiError, InputError
from mooring.api.meta import Condition, Object, ObjectMeta
from mooring.api.selectors import Selector
from mooring.api.times import format_time, parse_time
from mooring.controlplane.cluster.budgets import DisruptionController
from mooring.controlplane.cluster.kubelet import KUBELET
from mooring.controlplane.cluster.node_lifecycle import QUARANTINE_S, tolerated_for
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.subresources import allow
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.storage import selectors
from mooring.controlplane.storage.store import DELETED, Event, StoredEntry
from mooring.controlplane.types.status import StatusError
from mooring.core.framework.handle import NOTHING
from mooring.core.state.pod_info import PodInfo
from mooring.sim.workload import Arrival

DEFAULT_GRACE_S = 30

Put = Callable[[Object], None]


class StreamedPods:
    """Pods by ``namespace/name``, and their life cycle; implements the scheduler's writer for them."""

    def __init__(self, clock: Clock) -> None:
        self.pods: dict[str, Pod] = {}
        self.arrived = 0
        self.ended = 0  # finished after their run time
        self._ahead = 0
        self._out: asyncio.Future[None] | None = None  # done when nothing is ahead any more
        self._clock = clock
        self._timers = asyncio.get_running_loop()
        self._put: Put = _nobody
        self._delete: Put = _nobody
        self.budgets: SimulatedBudgets | None = None  # receive every change after the scheduler, if there are any
        self._run_s: dict[str, float] = {}  # by uid, of pods with a run time
        self._recreated: dict[str, int] = {}  # by uid, of pods that are recreated when lost: how often
        self._timers_of: dict[str, asyncio.TimerHandle] = {}  # by uid: its end or its removal
        self._silent: set[str] = set()  # nodes with a silent kubelet
        self._version = 0

    @property
    def ahead(self) -> int:
        """Number of pending ends and deletions."""
        return self._ahead

    @ahead.setter
    def ahead(self, value: int) -> None:
        self._ahead = value
        if not value and self._out is not None:
            if not self._out.done():
                self._out.set_result(None)
            self._out = None

    async def run_out(self) -> None:
        """Wait until no end and no deletion is pending."""
        if self._ahead:
            self._out = self._out or self._timers.create_future()
            await asyncio.shield(self._out)

    def connect(self, put: Put, delete: Put) -> None:
        """Deliver events to this scheduler from now on, like a watch."""
        self._put, self._delete = put, delete

    # ---- pods ------------------------------------------------------------------------------------------------------

    def arrive(self, pod: Pod, run_s: float | None = None, *, recreate: bool = False) -> None:
        """Create a pod; once bound it runs for ``run_s`` seconds, or for ever.

        With ``recreate`` a pod of the same name is created whenever it is evicted or its node is lost, as by the
        controller of a Deployment or a Job. The new one runs for the whole time again.
        """
        key = pod.key
        if key in self.pods:
            raise InputError(f"pod {key} already exists; pod names must be unique")
        self.arrived += 1
        created = pod.__copy__()
        created.metadata = pod.metadata.__copy__()
        self._come(key, created, run_s, 0 if recreate else None)

    def _come(self, key: str, pod: Pod, run_s: float | None, lost: int | None) -> None:
        """Add a pod that we own, with its metadata. ``lost`` counts its predecessors; None: it has no successor."""
        if run_s is not None:
            self._run_s[pod.metadata.uid] = run_s
        if lost is not None:
            self._recreated[pod.metadata.uid] = lost
        self._tell(key, pod)
        if pod.spec.node_name and pod.spec.node_name not in self._silent:
            self._go_on(pod)

    def _go_on(self, pod: Pod) -> None:
        """Start a pod that is on its node already."""
        deleted = pod.metadata.deletion_timestamp
        if deleted is None:
            self._start(pod)
        else:
            self._later(max(0.0, (parse_time(deleted) or 0.0) - self._clock.now()), pod)

    def revise(self, pod: Pod) -> None:
        """Update labels and spec of a pod; its node and status stay. It may be gone."""
        known = self._current(pod)
        if known is None:
            return
        changed, metadata = known.__copy__(), known.metadata.__copy__()
        changed.spec, metadata.labels = pod.spec.__copy__(), pod.labels
        changed.spec.node_name = known.spec.node_name
        self._store(changed, metadata)

    def remove(self, pod: Pod, *, is_end: bool = False) -> bool:
        """Remove a pod immediately; false if it was gone before. Unless it has finished, it may be recreated."""
        known = self._current(pod)
        if known is None:
            return False
        del self.pods[known.key]
        self._cancel(known.uid)
        run_s = self._run_s.pop(known.uid, None)
        lost = self._recreated.pop(known.uid, None)
        self._delete(known)
        if self.budgets is not None:
            self.budgets.delete(known)
        if lost is not None and not is_end:
            # In the next round of the loop: a controller sees the deletion before it creates the successor, and the
            # scheduler must have finished with the old pod. The name stays, the uid is new.
            self._timers.call_soon(self._come, known.key, _anew(known, lost + 1), run_s, lost + 1)
        return True

    def comes_again(self, pod: Pod) -> bool:
        """Report whether a pod is created again when it is evicted or its node is lost."""
        return pod.metadata.uid in self._recreated

    def ends_by_itself(self, pod: Pod) -> bool:
        """Report whether a pod runs for a time, and begins again from the start if it is evicted."""
        return pod.metadata.uid in self._run_s

    # ---- nodes -----------------------------------------------------------------------------------------------------

    def on(self, node: str) -> list[Pod]:
        """The pods of a node."""
        return [pod for pod in self.pods.values() if pod.spec.node_name == node]

    def silence(self, node: str) -> None:
        """Silence a kubelet: its pods do not start, end or terminate any more."""
        self._silent.add(node)
        for pod in self.on(node):
            self._cancel(pod.uid)

    def hear(self, node: str) -> None:
        """Resume a kubelet: missed work is done, and run times begin again."""
        if node not in self._silent:
            return
        self._silent.discard(node)
        for pod in self.on(node):
            self._go_on(pod)

    def _current(self, pod: Pod) -> Pod | None:
        """Return the current version of the pod; None if it is gone, even if another has its name."""
        known = self.pods.get(pod.key)
        return known if known is not None and known.uid == pod.uid else None

    def _store(self, pod: Pod, metadata: Any) -> None:
        """Store a changed pod. ``metadata`` is a copy that we own."""
        stored = pod.__copy__()
        stored.metadata = metadata
        self._tell(stored.key, stored)

    def _tell(self, key: str, stored: Pod) -> None:
        """Store a pod that we own, with its metadata, under a new resource version, and notify the scheduler."""
        self._version += 1
        stored.metadata.resource_version = str(self._version)
        self.pods[key] = stored
        self._put(stored)
        if self.budgets is not None:
            self.budgets.put(stored)

    def _start(self, pod: Pod) -> None:
        """Run a bound pod as its kubelet would."""
        if pod.status.phase != "Running":
            running = pod.__copy__()
            running.status = pod.status.__copy__()
            running.status.phase, running.status.start_time = "Running", format_time(self._clock.now())
            self._store(running, pod.metadata.__copy__())
        run_s = self._run_s.get(pod.metadata.uid)
        if run_s is not None:
            self._later(run_s, pod, is_end=True)

    def _later(self, seconds: float, pod: Pod, *, is_end: bool = False) -> None:
        """Remove the pod after some seconds. A pod has one timer at most: an earlier one is cancelled."""
        self._cancel(pod.uid)
        self.ahead += 1
        self._timers_of[pod.uid] = self._timers.call_later(seconds, self._due, pod, is_end)

    def _due(self, pod: Pod, is_end: bool) -> None:
        self.ahead -= 1
        del self._timers_of[pod.uid]
        if self.remove(pod, is_end=is_end) and is_end:
            self.ended += 1

    def _cancel(self, uid: str) -> None:
        timer = self._timers_of.pop(uid, None)
        if timer is not None:
            self.ahead -= 1
            timer.cancel()

    # ---- writes of the scheduler -----------------------------------------------------------------------------------

    def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str] = NOTHING) -> None:
        key = pod.pod.key
        known = self.pods.get(key)
        if known is None or known.metadata.uid != pod.uid:
            raise ApiError(f'pods "{pod.pod.name}" not found', code=404)
        if known.spec.node_name:
            raise ApiError(f'pod {known.name} is already assigned to node "{known.spec.node_name}"', code=409)
        bound = known.__copy__()
        bound.spec, bound.status = spec, status = known.spec.__copy__(), known.status.__copy__()
        spec.node_name = node_name
        status.nominated_node_name = ""
        is_heard = node_name not in self._silent
        if is_heard:
            status.phase, status.start_time = "Running", format_time(self._clock.now())
        bound.metadata = known.metadata.__copy__()
        if annotations:
            bound.metadata.annotations = {**bound.metadata.annotations, **annotations}
        self._tell(key, bound)
        if is_heard and self._run_s:
            self._start(bound)

    def patch_status(self, key: str, patch: Mapping[str, Any]) -> None:
        known = self.pods[key]
        changed, status = known.__copy__(), patch["status"]
        changed.status = known.status.__copy__()
        if "nominatedNodeName" in status:
            changed.status.nominated_node_name = status["nominatedNodeName"] or ""
        for condition in status.get("conditions", ()):
            changed.status.conditions = _with_condition(changed.status.conditions, condition)
        self._store(changed, known.metadata.__copy__())

    def delete(self, pod: Pod, grace_s: float | None = None) -> None:
        """Begin to delete a pod, by default with its own grace period."""
        known = self._current(pod)
        if known is None:
            raise ApiError(f'pods "{pod.name}" not found', code=404)
        if known.metadata.deletion_timestamp is not None:
            return
        if grace_s is None:
            grace_s = known.spec.termination_grace_period_seconds
        seconds = DEFAULT_GRACE_S if grace_s is None else grace_s
        if not seconds or not known.spec.node_name:
            self.remove(known)
            return
        metadata = known.metadata.__copy__()
        metadata.deletion_timestamp = format_time(self._clock.now() + seconds)
        self._store(known, metadata)
        if known.spec.node_name in self._silent:
            self._cancel(known.uid)  # its kubelet does not act on the deletion
        else:
            self._later(seconds, known)


def _anew(pod: Pod, number: int) -> Pod:
    """Return the pod as its controller would recreate it: the same name, another uid, no node and no status."""
    meta = pod.metadata
    made = recreated_pod(pod, f"{meta.uid.partition('#')[0]}#{number}")
    made.status = PodStatus()
    made.metadata = ObjectMeta(
        name=meta.name, namespace=meta.namespace, uid=made.uid, labels=meta.labels, annotations=meta.annotations
    )
    return made


def _with_condition(known: list[Condition], changed: Mapping[str, Any]) -> list[Condition]:
    """Return the conditions with one of them changed or added."""
    kept = [condition for condition in known if condition.type != changed["type"]]
    before = next((condition for condition in known if condition.type == changed["type"]), None)
    fresh = Condition(type=changed["type"]) if before is None else before.__copy__()  # a patch contains only changes
    fresh.status = changed.get("status", fresh.status)
    fresh.reason = changed.get("reason", fresh.reason)
    fresh.message = changed.get("message", fresh.message)
    return [*kept, fresh]


def _nobody(obj: Object) -> None:
    raise AssertionError("connect a scheduler first")


Create = Callable[[Arrival], Awaitable[None]]


def needs_controllers(pod: Pod) -> bool:
    """Report whether a pod needs controllers for volumes or claims of devices."""
    spec = pod.spec
    if not spec.volumes:
        return bool(spec.resource_claims)
    return bool(spec.resource_claims) or any(volume.ephemeral is not None for volume in spec.volumes)


class StoredPods:
    """Pods of workloads that the API server stores. They arrive, end and are recreated as streamed pods do."""

    def __init__(self, api: Api, streamed: StreamedPods, begin: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """``begin`` runs something in parallel to the story, which ends if that fails."""
        self._api, self._streamed, self._begin = api, streamed, begin
        self._pods: dict[str, tuple[Arrival, Create]] = {}
        self._loop = asyncio.get_running_loop()

    async def arrive(self, arrival: Arrival, create: Create) -> None:
        """Create a pod."""
        self._pods[arrival.pod.key] = arrival, create
        await create(replace(arrival, recreate=False))
        self._streamed.arrived += 1

    def note(self, event: Event) -> None:
        """Process a pod. Its consequences follow after the write that reports it."""
        entry = event.entry
        known = self._pods.get(entry.key)
        if known is None:
            return
        if event.type == DELETED:
            arrival, create = known
            if arrival.recreate:
                self._loop.call_soon(lambda: self._begin(self._come_again(arrival, create)))
            else:
                del self._pods[entry.key]
        elif (entry.fields or {}).get("status.phase") in ("Succeeded", "Failed"):
            del self._pods[entry.key]
            self._streamed.ended += 1
            self._loop.call_soon(self._forget, entry)

    async def _come_again(self, arrival: Arrival, create: Create) -> None:
        try:
            await create(replace(arrival, recreate=False))
        except ApiError as error:
            raise ApiError(f"pod {arrival.pod.key} cannot be recreated: {error}", code=error.code) from error

    def _forget(self, entry: StoredEntry) -> None:
        """Remove a finished pod and its dependents."""
        with contextlib.suppress(StatusError):
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": entry.uid}}
            self._api.delete(PODS, entry.namespace, entry.name, options)


class NodeWatch:
    """Silences streamed pods of a stopped kubelet, evicts them by taints, and removes them when their node is deleted.

    Node controllers do the same for stored pods. Every timer is counted in ``StreamedPods.ahead``: a simulation is not
    over while an eviction or a removal is still to come.
    """

    def __init__(self, streamed: StreamedPods, clock: Clock) -> None:
        self._streamed, self._clock = streamed, clock
        self._loop = asyncio.get_running_loop()
        self._since: dict[str, dict[str, float]] = {}  # node -> key of a NoExecute taint -> when it was added
        self._nodes: dict[str, Node] = {}  # those with such taints
        self._stopped: set[str] = set()
        self._gone: set[str] = set()

    def note(self, event: Event) -> None:
        """Process a change. Its consequences follow after the write that reports it."""
        self._loop.call_soon(self._look_at, event)

    def placed(self, pod: Pod, node: str) -> None:
        """Process a bound pod; its node may have taints already."""
        if node in self._nodes:
            self._evict(pod.key, pod.uid, node)

    def _look_at(self, event: Event) -> None:
        name = event.entry.name
        if event.type == DELETED:
            self._forget(name)
            self._gone.add(name)
            self._streamed.ahead += 1
            self._loop.call_later(QUARANTINE_S, self._collect, name)
            return
        self._gone.discard(name)
        raw = event.entry.raw
        if not (name in self._stopped or name in self._nodes or b'"NoExecute"' in raw or KUBELET.encode() in raw):
            return
        node: Node = decode(KINDS["Node"], raw)
        is_stopped = node.metadata.annotations.get(KUBELET) == "stopped"
        if is_stopped and name not in self._stopped:
            self._stopped.add(name)
            self._streamed.silence(name)
        elif not is_stopped and name in self._stopped:
            self._stopped.discard(name)
            self._streamed.hear(name)
        self._note_taints(name, node)

    def _forget(self, name: str) -> None:
        self._since.pop(name, None)
        self._nodes.pop(name, None)
        if name in self._stopped:
            self._stopped.discard(name)

    def _collect(self, name: str) -> None:
        """Remove the pods of a deleted node."""
        self._streamed.ahead -= 1
        if name in self._gone:
            self._gone.discard(name)
            for pod in self._streamed.on(name):
                self._streamed.remove(pod)

    def _note_taints(self, name: str, node: Node) -> None:
        taints = [taint for taint in node.spec.taints if taint.effect == "NoExecute"]
        before = self._since.pop(name, {})
        if not taints:
            self._nodes.pop(name, None)
            return
        now = self._clock.now()
        self._since[name] = {taint.key: before.get(taint.key, now) for taint in taints}
        self._nodes[name] = node
        if self._since[name].keys() - before.keys():
            for pod in self._streamed.on(name):
                self._evict(pod.key, pod.uid, name)

    def _evict(self, key: str, uid: str, node: str) -> None:
        """Delete a pod whose toleration of its node's taints has expired, or check again when it will."""
        pod = self._streamed.pods.get(key)
        known = self._nodes.get(node)
        if pod is None or pod.uid != uid or pod.spec.node_name != node or known is None or pod.is_terminating:
            return
        left_s = self._patience(pod, known.spec.taints, self._since[node])
        if left_s is None:
            return
        if left_s <= 0:
            self._streamed.delete(pod)
            return
        self._streamed.ahead += 1
        self._loop.call_later(left_s, self._evict_later, key, uid, node)

    def _evict_later(self, key: str, uid: str, node: str) -> None:
        self._streamed.ahead -= 1
        self._evict(key, uid, node)

    def _patience(self, pod: Pod, taints: list[Taint], since: dict[str, float]) -> float | None:
        """Return seconds until the pod is evicted; None if it may stay for ever."""
        now = self._clock.now()
        limits = [
            since[taint.key] + patience_s - now
            for taint in taints
            if taint.effect == "NoExecute" and (patience_s := tolerated_for(pod, taint)) is not None
        ]
        return min(limits, default=None)


class _StreamedBudget:
    """The streamed pods that a budget selects, counted incrementally.

    Counting all of them at each change would make a simulation quadratic.
    """

    def __init__(self, namespace: str, written: Any, selector: Selector) -> None:
        self.namespace, self.written, self.selector = namespace, written, selector
        self.healthy: dict[str, bool] = {}  # by uid
        self.num_healthy = 0

    def covers(self, pod: Pod) -> bool:
        return pod.namespace == self.namespace and self.selector.matches(pod.labels)

    def put(self, uid: str, is_healthy: bool) -> bool:
        """Count a pod; report whether that changes a number."""
        before = self.healthy.get(uid)
        if before is is_healthy:
            return False
        self.healthy[uid] = is_healthy
        self.num_healthy += is_healthy - bool(before)
        return True

    def drop(self, uid: str) -> bool:
        before = self.healthy.pop(uid, None)
        self.num_healthy -= bool(before)
        return before is not None


class SimulatedBudgets:
    """Counts streamed pods for the disruption controller, and asks budgets before a streamed pod is evicted."""

    def __init__(self, api: Api, controller: DisruptionController, streamed: StreamedPods) -> None:
        self._api, self._controller, self._streamed = api, controller, streamed
        self._budgets: dict[str, _StreamedBudget] = {}
        controller.elsewhere = self._counts

    def note(self, event: Event) -> None:
        """Process a budget that was added, changed or removed."""
        key = event.entry.key
        known = self._budgets.get(key)
        if event.type == DELETED:
            self._budgets.pop(key, None)
        else:
            written = (event.entry.object().get("spec") or {}).get("selector")
            if known is None or known.written != written:
                self._begin(key, event.entry.namespace, written)
        self._streamed.budgets = self if self._budgets else None

    def _begin(self, key: str, namespace: str, written: Any) -> None:
        selector = selectors.from_object(written)
        if selector is None:
            self._budgets.pop(key, None)
            return
        budget = self._budgets[key] = _StreamedBudget(namespace, written, selector)
        for pod in self._streamed.pods.values():
            if budget.covers(pod):
                budget.put(pod.uid, _is_healthy(pod))

    # ---- pods --------------------------------------------------------------------------------------------------------

    def put(self, pod: Pod) -> None:
        """Add or update a streamed pod."""
        for key, budget in self._budgets.items():
            if budget.covers(pod) and budget.put(pod.uid, _is_healthy(pod)):
                self._controller.enqueue(key)

    def delete(self, pod: Pod) -> None:
        """Remove a streamed pod."""
        for key, budget in self._budgets.items():
            if budget.drop(pod.uid):
                self._controller.enqueue(key)

    def _counts(self, key: str) -> tuple[int, int]:
        budget = self._budgets.get(key)
        return (0, 0) if budget is None else (len(budget.healthy), budget.num_healthy)

    def allow_eviction(self, pod: Pod) -> None:
        """Count a disruption of the pod's budget, or raise an ApiError with code 429."""
        conditions = [{"type": "Ready", "status": "True"}] if _is_healthy(pod) else []
        metadata = {"name": pod.name, "namespace": pod.namespace, "labels": pod.labels}
        try:
            allow(self._api, {"metadata": metadata, "status": {"conditions": conditions}}, dry_run=False)
        except StatusError as error:
            raise ApiError(str(error), code=error.code) from None


def _is_healthy(pod: Pod) -> bool:
    return pod.status.phase == "Running" and not pod.is_terminating
