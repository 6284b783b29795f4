"""All controllers, started and stopped together."""

from __future__ import annotations

from mooring.controlplane.controllers.base import Controller
from mooring.controlplane.rest import Api
from mooring.controlplane.timers import Timers

ALL: tuple[type[Controller], ...] = ()


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
