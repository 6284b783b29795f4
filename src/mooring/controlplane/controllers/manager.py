"""All controllers, started and stopped together."""

from __future__ import annotations

from mooring.controlplane.controllers.base import Controller
from mooring.controlplane.controllers.budgets import DisruptionController
from mooring.controlplane.controllers.daemon_sets import DaemonSetController
from mooring.controlplane.controllers.deployments import DeploymentController
from mooring.controlplane.controllers.jobs import JobController
from mooring.controlplane.controllers.node_lifecycle import NodeLifecycleController
from mooring.controlplane.controllers.replicas import ReplicaSetController, ReplicationControllerController
from mooring.controlplane.controllers.resource_claims import ResourceClaimController
from mooring.controlplane.controllers.stateful_sets import StatefulSetController
from mooring.controlplane.controllers.taint_eviction import TaintEvictionController
from mooring.controlplane.controllers.volumes import EphemeralVolumeController, VolumeController
from mooring.controlplane.rest import Api
from mooring.controlplane.timers import Timers

ALL: tuple[type[Controller], ...] = (
    DeploymentController,
    ReplicaSetController,
    ReplicationControllerController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    NodeLifecycleController,
    TaintEvictionController,
    VolumeController,
    EphemeralVolumeController,
    DisruptionController,
    ResourceClaimController,
)


class ControllerManager:
    """Runs the controllers of a cluster, as kube-controller-manager does."""

    def __init__(self, api: Api, timers: Timers, kinds: tuple[type[Controller], ...] = ALL) -> None:
        self.controllers = [kind(api, timers) for kind in kinds]

    def start(self) -> None:
        for controller in self.controllers:
            controller.start()

    def stop(self) -> None:
        for controller in self.controllers:
            controller.stop()
