"""A shadow beside a live scheduler in virtual time: a seed decides what happens, and in which order both see it.

Pods and nodes come by separate watches, and each watch of each of the two has a lag of its own.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from typing import Any

import pytest

from mooring.ask.shadow.judge import Judge
from mooring.ask.shadow.scene import Scene
from mooring.ask.shadow.shadow import Shadow
from mooring.core.config.features import DEFAULT_FEATURES
from mooring.core.config.load import config_from_dict
from mooring.live.informers import connect
from mooring.net.credentials import StaticCredentials
from mooring.net.informer import InformerSet
from mooring.net.kubeconfig import ClientConfig
from mooring.net.rest import RestClient
from tests.faults.api_server import TOKEN
from tests.faults.network import VirtualTransport
from tests.faults.plan import Plan, Step
from tests.faults.run import Run
from tests.faults.world import Machine, MachineClock

BEGIN_S = 5.0
BURST = 4  # changes at one instant
LAGS_S = (0.0, 0.001, 0.005, 0.02, 0.1)


class Beside:
    """Bursts of changes on few nodes, so that there are refusals and preemption."""

    def __init__(
        self, seed: int, seconds: float, *, nodes: int = 4, config: Mapping[str, Any] | None = None, burst: int = BURST
    ) -> None:
        self._rng = random.Random(f"{seed} shadow")
        self._seconds = seconds
        steps = self._steps(nodes, burst)
        self.run = run = Run(Plan(seed, seconds, 1, nodes, qps=10_000, steps=steps))
        self.machine = machine = Machine(run.world, "shadow")
        clock = MachineClock(machine)
        scene = Scene()
        judge = Judge(scene, config_from_dict(config, DEFAULT_FEATURES), DEFAULT_FEATURES, clock)
        self.shadow = Shadow(scene, judge, None, ["default-scheduler"], clock.now)
        loop = machine.new_loop()
        loop.connect = run.network.connect
        self._task = loop.create_task(self._watch(clock))
        self._change_lags()

    def _steps(self, nodes: int, burst: int) -> tuple[Step, ...]:
        rng, at_s, number = self._rng, BEGIN_S, 0
        steps: list[Step] = []
        while at_s < self._seconds - 5.0:
            for _ in range(burst):
                number += 1
                node, lasts_s = f"node-{rng.randrange(nodes)}", round(rng.uniform(0.2, 3.0), 3)
                what = rng.choices(("pod", "cordon-node", "lose-node"), (30, 2, 1))[0]
                if what == "pod":
                    how = rng.choice(("", "brief", "high", "spread", "apart"))
                    life_s = round(0.01 + rng.expovariate(1 / 4.0), 3)
                    steps.append(Step(at_s, what, f"pod-{number}", life_s, rng.choice((250, 500, 1000, 2000)), how))
                else:
                    steps.append(Step(at_s, what, node, lasts_s))
            at_s = round(at_s + rng.expovariate(1 / 0.4), 3)
        return tuple(sorted(steps, key=lambda step: step.at_s))

    def _change_lags(self) -> None:
        """Each watch may be behind the others for a while."""
        rng, world, network = self._rng, self.run.world, self.run.network
        for machine in (self.machine, self.run.replicas[0].machine):
            trouble = network.trouble(machine)
            trouble.watch_lag_s, trouble.watch_lag_of = rng.choice(LAGS_S), rng.choice(("", "pods", "nodes"))
        world.after(rng.expovariate(1 / 0.5), self._change_lags)

    async def _watch(self, clock: MachineClock) -> None:
        config = ClientConfig("http://virtual", StaticCredentials(f"Bearer {TOKEN}"))
        transport = VirtualTransport(config, self.run.network, self.machine)
        async with RestClient(config, qps=-1, transport=transport, clock=clock) as client:
            informers = InformerSet(client, clock=clock, rng=self._rng)
            connect(informers, self.shadow)
            self.shadow.is_listing = lambda: informers.is_listing
            informers.start()
            await informers.wait_for_sync(60.0)
            self.shadow.is_synced = True
            await self.machine.loops[0].create_future()

    def play(self) -> Shadow:
        world = self.run.world
        while world.now_s < self._seconds:
            world.run_until(world.now_s + 1.0)
            self.shadow.settle()
        self.shadow.settle(is_over=True)
        self.machine.kill()
        self.run.end()
        return self.shadow


@pytest.mark.parametrize("seed", [7, 16])
def test_every_decision_is_explained_in_any_order_of_watches(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    summary = Beside(seed, 20.0).play().summary
    assert [verdict.to_dict() for verdict in summary.differences if not verdict.is_explained] == []
    found = summary.to_dict()
    assert found["explained"] == found["decisions"] > 100
    assert found["moments"]["later"] and found["moments"]["reordered"]
