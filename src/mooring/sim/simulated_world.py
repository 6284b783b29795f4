"""The cluster of a simulation: the embedded control plane, and beside it the pods of workloads.

The control plane does not see these pods, except those for which its controllers create volumes or claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.api.defaults import Admission
from mooring.api.errors import InputError
from mooring.api.manifests import READ_KINDS
from mooring.api.meta import Object as ApiObject
from mooring.api.well_known import ZONE
from mooring.controlplane.cluster.budgets import DisruptionController
from mooring.controlplane.cluster.cron_jobs import CronJobController
from mooring.controlplane.cluster.job_queues import QueueController
from mooring.controlplane.cluster.kubelet import KubeletOptions
from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.workloads import BUDGETS
from mooring.controlplane.storage import selectors
from mooring.controlplane.types.kind import Kind, Object
from mooring.core.config.types import KubeSchedulerConfiguration
from mooring.core.framework.handle import NOTHING
from mooring.core.state.pod_info import PodInfo
from mooring.live.context import SchedulerOptions
from mooring.live.events import EventRecorder, InvolvedObject
from mooring.live.scheduler import Scheduler
from mooring.live.writer import ApiWriter
from mooring.net.rest import RestClient
from mooring.record.meter import MeasuringObserver
from mooring.sim.autoscaler.cloud import Cloud
from mooring.sim.autoscaler.cluster_autoscaler import ClusterAutoscaler
from mooring.sim.autoscaler.daemons import PlannedDaemons
from mooring.sim.autoscaler.fleet import Fleet
from mooring.sim.autoscaler.node_groups import STEP_FLAGS, ClusterAutoscalerPolicy, NodeGroup
from mooring.sim.autoscaler.policy import Autoscaler, PolicyFile
from mooring.sim.backend import Backend, Ref, kind_named, manifest_of
from mooring.sim.result import GpuAllocation, Simulation, Witness
from mooring.sim.scenario import Scenario
from mooring.sim.streamed_pods import NodeWatch, SimulatedBudgets, StoredPods, StreamedPods, needs_controllers
from mooring.sim.workload import Arrival
from mooring.sim.worlds import EmbeddedWorld, PlaySettings

REST_S, MAX_REST_S = 0.001, 1.0
"""Pauses at the end for effects of the last event, growing while nothing happens."""
CLASSES = ("PriorityClass", "RuntimeClass")
"""Kinds that an API server reads when it admits a pod."""
STALLED_S = 3600.0
"""A simulation ends when pods are only retried without success for this long; immediately in a cluster without nodes.
"""
NO_LEASES = KubeletOptions(lease_interval_s=0)
"""A healthy kubelet needs no lease: a thousand of them would renew sixty million leases in a week."""


class SimulatedWorld(EmbeddedWorld):
    """A cluster in virtual time whose workloads' pods bypass the API server."""

    def __init__(
        self,
        settings: PlaySettings,
        scenario: Scenario | None = None,
        *,
        keeps_placements: bool = False,
        has_end: bool = False,
    ) -> None:
        super().__init__(settings, scenario, kubelets=NO_LEASES)
        self.has_end = has_end  # whether it ends at a given time
        self.witness = Witness(self.clock, keeps_placements=keeps_placements)
        self.gpus = GpuAllocation()
        self._measuring = MeasuringObserver()
        self.streamed = StreamedPods(self.clock)
        self.node_watch = NodeWatch(self.streamed, self.clock)
        self.autoscaler: Autoscaler | None = None
        self.fleet: Fleet | None = None
        self.policy: PolicyFile | None = None

    async def _bring_up(self) -> RestClient:
        client = await super()._bring_up()
        api = self.plane.api
        self.stored = StoredPods(api, self.streamed, self._beside)
        self.budgets = SimulatedBudgets(api, self.controllers.of(DisruptionController), self.streamed)
        listeners = ((NODES, self.node_watch.note), (PODS, self.stored.note), (BUDGETS, self.budgets.note))
        for kind, note in listeners:
            self._stack.callback(api.store.subscribe(kind, note))
        return client

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        self.cluster.beside(work)  # which is made after the API server

    async def _feed(self, scheduler: Scheduler, client: RestClient) -> None:
        await super()._feed(scheduler, client)
        self.streamed.connect(scheduler.put, scheduler.delete)

    def _make_scheduler(
        self, config: KubeSchedulerConfiguration, client: RestClient, events: EventRecorder, options: SchedulerOptions
    ) -> Scheduler:
        retries = options.features["BindingIsRetried"]
        return Scheduler(
            config,
            lambda pods: _SplitWriter(self.streamed, self.node_watch, client, events, pods, retries_binding=retries),
            _SplitRecorder(events, self.streamed),
            # A simulation is deterministic: no attempt is interrupted by a wall clock.
            replace(
                options,
                observers=(self.witness, self.gpus, self._measuring, *options.observers),
                plugin_timeout_s=0,
                attempt_timeout_s=0,
                is_metered=False,
                binds_at_once=self.streamed.pods.__contains__,
            ),
        )

    # ---- interface of the story ------------------------------------------------------------------------------------

    def _backend(self, client: RestClient) -> Backend:
        return _SplitBackend(client, self)

    async def autoscale(self, by: NodeGroup | PolicyFile) -> None:
        """Autoscale by a policy from now on, or scale one more node group."""
        if self.policy is not None or (isinstance(by, PolicyFile) and self.autoscaler is not None):
            raise InputError("a simulation has one autoscaler; leave out the other one, or the node groups")
        if isinstance(by, PolicyFile):
            self.policy = by
            zones = sorted({node.labels.get(ZONE, "") for node in await self.cluster.backend.nodes()})
            self.autoscaler = by.begin(self._new_fleet(by.cloud), zones)
            await self.autoscaler.start()
            return
        if self.autoscaler is None:
            flags = ClusterAutoscalerPolicy(STEP_FLAGS, ())
            self.autoscaler = ClusterAutoscaler(self._new_fleet(Cloud()), flags, is_exact=True)
            await self.autoscaler.start()
        assert isinstance(self.autoscaler, ClusterAutoscaler)
        await self.autoscaler.add(by)

    def _new_fleet(self, cloud: Cloud) -> Fleet:
        daemons = PlannedDaemons(self.plane.api)
        fleet = Fleet(self.scheduler, self.clock, self.cluster, daemons.on, cloud, self.streamed)
        self.fleet = self.witness.fleet = fleet
        return fleet

    def result(self) -> Simulation:
        """Return the result so far."""
        found = Simulation(ended_at_s=self.clock.monotonic(), arrived=self.streamed.arrived, ended=self.streamed.ended)
        self.witness.fill(found)
        found.measures = self._measuring.measures()
        if self.fleet is not None:
            found.autoscaling = self.fleet.outcome.result()
            if self.policy is not None:
                found.autoscaling.policy, found.autoscaling.packing = self.policy.name, self.policy.packing
        found.gpu_allocation, found.gpu_fragmentation = self.gpus.allocation(), self.gpus.fragmentation()
        found.queues = self.controllers.of(QueueController).outcomes()
        queue, table = self.scheduler.queue, self.scheduler.cluster.nodes()
        found.pending = {f"{each.namespace}/{each.name}": each.message for each in queue.pending_pods()}
        found.nodes, found.running = len(table), int(table.pod_count.sum())
        for resource in self.scheduler.cluster.table.resources:
            total = int(table.allocatable(resource).sum())
            if total:
                found.allocated_at_end[resource] = int(table.requested(resource).sum()) / total
        return found

    def is_idle(self, *, retries_count: bool = True) -> bool:
        """Report whether nothing is left to happen by itself.

        If retries count, this includes retries of pods, failed containers and controllers.
        """
        return not (
            self.streamed.ahead
            or self.scheduler.in_flight
            or (retries_count and not self.scheduler.queue.is_quiet)
            or not (self.kubelets.is_idle if retries_count else self.kubelets.only_restarts)
            or not (self.controllers.is_idle if retries_count else self.controllers.only_retries)
            or (self.autoscaler is not None and not self.autoscaler.is_idle)
        )


class _SplitWriter(ApiWriter):
    """Carries out writes about streamed pods immediately, and sends all others to the API server."""

    def __init__(self, streamed: StreamedPods, nodes: NodeWatch, *of: Any, **options: Any) -> None:
        super().__init__(*of, **options)
        self._streamed, self._nodes = streamed, nodes
        self._here = streamed.pods

    async def bind(self, pod: PodInfo, node_name: str, annotations: Mapping[str, str] = NOTHING) -> None:
        if pod.pod.key in self._here:
            self._streamed.bind(pod, node_name, annotations)
            self._nodes.placed(pod.pod, node_name)
        else:
            await super().bind(pod, node_name, annotations)

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        key = f"{namespace}/{name}"
        if key in self._here:
            self._streamed.patch_status(key, patch)
        else:
            await super().patch_pod_status(namespace, name, patch)

    async def delete_pod(self, pod: Pod) -> None:
        if pod.key in self._here:
            self._streamed.delete(pod)
        else:
            await super().delete_pod(pod)


class _SplitRecorder:
    """Drops events about streamed pods, which nothing could read."""

    def __init__(self, recorder: EventRecorder, streamed: StreamedPods) -> None:
        self._recorder, self._pods = recorder, streamed.pods
        self.observers: Sequence[Callable[..., None]] = ()

    def wants(self, key: str) -> bool:
        return bool(self.observers) or key not in self._pods

    def record(self, regarding: InvolvedObject, **event: Any) -> None:
        for tell in self.observers:
            tell(regarding, event["reason"], event["note"])
        if f"{regarding.namespace}/{regarding.name}" not in self._pods:
            self._recorder.record(regarding, **event)


class _SplitBackend(Backend):
    """Reads and writes streamed pods directly, and everything else through the client."""

    def __init__(self, client: RestClient, world: SimulatedWorld) -> None:
        super().__init__(client)
        self._world, self._streamed = world, world.streamed

    async def nodes(self) -> list[Node]:
        infos = self._world.scheduler.cluster.nodes().infos
        return [info.node for info in infos if info.node is not None]

    async def admission(self) -> Callable[[Pod], None]:
        classes: list[ApiObject] = []
        for kind in CLASSES:
            classes += [from_plain(READ_KINDS[kind], each) for each in await self.list(kind_named(kind))]
        return Admission(classes).admit_pod

    def arrive(self, arrival: Arrival) -> Awaitable[None] | None:
        if needs_controllers(arrival.pod):
            return self._world.stored.arrive(arrival, self._create_arrival)
        self._streamed.arrive(arrival.pod, arrival.run_s, recreate=arrival.recreate)
        if arrival.history is not None:
            self._world.scheduler.queue.restore(arrival.pod.key, arrival.history)
        return None

    async def revise(self, pod: Pod) -> None:
        if pod.key in self._streamed.pods:
            self._streamed.revise(pod)
        else:
            await super().revise(pod)

    def tell(self, obj: ApiObject, *, is_gone: bool = False) -> None:
        (self._world.scheduler.delete if is_gone else self._world.scheduler.put)(obj)

    async def quiet(self) -> None:
        if self._world.has_end:
            await self._rest()
            return
        cron_jobs = self._world.controllers.of(CronJobController)
        cron_jobs.pause()  # a schedule has no end
        await self._rest()
        cron_jobs.resume()

    async def _rest(self) -> None:
        rest_s, clock = REST_S, self._world.clock
        placed, since = -1, clock.monotonic()
        while True:
            await asyncio.sleep(rest_s)
            self._world.cluster.check_workloads()
            if self._world.is_idle():
                return
            if self._streamed.ahead:  # pods may run for months: polling every second would cost more than all else
                await self._streamed.run_out()
                rest_s, since = REST_S, clock.monotonic()
            is_empty = not len(self._world.scheduler.cluster.nodes())
            if self._world.witness.placed != placed:
                placed, since = self._world.witness.placed, clock.monotonic()
            elif (is_empty or clock.monotonic() - since > STALLED_S) and self._world.is_idle(retries_count=False):
                return
            rest_s = min(2 * rest_s, MAX_REST_S)

    async def autoscale(self, by: NodeGroup | PolicyFile) -> None:
        await self._world.autoscale(by)

    def measures(self) -> Object:
        return self._world.result().to_dict()

    async def evict(self, pod: Object) -> None:
        found = self._pod(Ref.of(pod))
        if found is None:
            await super().evict(pod)
        else:
            self._world.budgets.allow_eviction(found)
            self._streamed.delete(found)

    async def get(self, ref: Ref) -> Object | None:
        found = self._pod(ref)
        return await super().get(ref) if found is None else manifest_of(found)

    async def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        found = await super().list(kind, namespace, labels=labels, fields=fields)
        if kind is PODS:
            wanted = selectors.parse_labels(labels) if labels else selectors.EVERYTHING
            pods = self._streamed.pods.values()
            found += [
                manifest_of(pod) for pod in pods if namespace in ("", pod.namespace) and wanted.matches(pod.labels)
            ]
        return found

    async def delete(self, ref: Ref, *, grace_period_s: int | None = None, propagation: str = "Background") -> bool:
        found = self._pod(ref)
        if found is None:
            return await super().delete(ref, grace_period_s=grace_period_s, propagation=propagation)
        self._streamed.delete(found, grace_period_s)
        return True

    def _pod(self, ref: Ref) -> Pod | None:
        return self._streamed.pods.get(f"{ref.namespace}/{ref.name}") if ref.kind is PODS else None
