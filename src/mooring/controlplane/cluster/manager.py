"""All controllers, started and stopped together."""

from __future__ import annotations

from typing import TypeVar

from mooring.controlplane.cluster.base import ClusterApi, Controller, Timers
from mooring.controlplane.cluster.budgets import DisruptionController
from mooring.controlplane.cluster.claims import EphemeralVolumeController, ResourceClaimController, VolumeController
from mooring.controlplane.cluster.cron_jobs import CronJobController
from mooring.controlplane.cluster.deployments import DeploymentController
from mooring.controlplane.cluster.job_queues import QueueController
from mooring.controlplane.cluster.jobs import JobController
from mooring.controlplane.cluster.node_lifecycle import (
    NodeLifecycleController,
    PodGarbageCollector,
    TaintEvictionController,
)
from mooring.controlplane.cluster.pod_sets import (
    DaemonSetController,
    ReplicaSetController,
    ReplicationControllerController,
    StatefulSetController,
)

C = TypeVar("C", bound=Controller)

ALL: tuple[type[Controller], ...] = (
    DeploymentController,
    ReplicaSetController,
    ReplicationControllerController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    QueueController,
    CronJobController,
    NodeLifecycleController,
    TaintEvictionController,
    PodGarbageCollector,
    VolumeController,
    EphemeralVolumeController,
    DisruptionController,
    ResourceClaimController,
)


class ControllerManager:
    """Runs the controllers of a cluster, as kube-controller-manager does."""

    def __init__(self, api: ClusterApi, timers: Timers, kinds: tuple[type[Controller], ...] = ALL) -> None:
        self.controllers = [kind(api, timers) for kind in kinds]

    def start(self) -> None:
        for controller in self.controllers:
            controller.start()

    @property
    def is_idle(self) -> bool:
        """Report whether no controller has work left."""
        return all(controller.is_idle for controller in self.controllers)

    @property
    def only_retries(self) -> bool:
        """Report whether controllers only have retries left."""
        return all(controller.only_retries for controller in self.controllers)

    def of(self, kind: type[C]) -> C:
        """The controller of a kind."""
        return next(controller for controller in self.controllers if isinstance(controller, kind))

    def stop(self) -> None:
        for controller in self.controllers:
            controller.stop()
