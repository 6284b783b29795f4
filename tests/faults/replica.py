"""A replica in a virtual world: one scheduler process after another, on a machine that can be stopped and killed."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from mooring.core.framework.extender import ExtenderClient
from mooring.live.live_scheduler import HostEnvironment, LiveScheduler
from mooring.live.process import SchedulerProcess
from mooring.live.settings import Settings
from mooring.live.time_limits import TimeLimits
from mooring.net.credentials import StaticCredentials
from mooring.net.extender.client import HttpExtender, build_extenders
from mooring.net.kubeconfig import ClientConfig
from tests.faults.api_server import TOKEN
from tests.faults.network import Network, VirtualTransport
from tests.faults.world import Machine, MachineClock, VirtualLifeline, VirtualLoop, World, tear_down

RESTART_S = 2.0
MakeProcess = Callable[[Settings, Callable[[], ClientConfig], HostEnvironment], SchedulerProcess]


class VirtualLimits(TimeLimits):
    """A decision takes no time here, so no watchdog is needed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class _Around(HostEnvironment):
    """Lists in small pages, so that a small cluster has several."""

    page_size: int = 0

    def reflector(self) -> dict[str, Any]:
        given = super().reflector()
        return given | {"page_size": self.page_size} if self.page_size else given


def a_process(
    settings: Settings, client_config: Callable[[], ClientConfig], environment: HostEnvironment
) -> SchedulerProcess:
    return SchedulerProcess(settings, client_config, environment=environment)


class Replica:
    """``machine`` is a new one after each kill; its name and the errors of its clocks stay."""

    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        settings: Settings,
        seed: int,
        problems: list[str],
        *,
        make_far_end: Callable[[HttpExtender, Machine], ExtenderClient] = lambda extender, machine: extender,
        make_process: MakeProcess = a_process,
        page_size: int = 0,
    ) -> None:
        self._page_size = page_size
        self._world, self._network, self.name = world, network, name
        self._settings, self._seed, self._problems = settings, seed, problems
        self._make_far_end = make_far_end
        self._make_process = make_process
        self._starts = itertools.count(1)
        self._task: asyncio.Task[int] | None = None
        self.machine = Machine(world, name)
        self.process: SchedulerProcess | None = None
        self.terms = 0
        self.identity = ""
        self.start()

    @property
    def leads(self) -> bool:
        return self.process is not None and self.process.ready.is_set()

    @property
    def live(self) -> LiveScheduler | None:
        return None if self.process is None else self.process.live

    def start(self) -> None:
        """Start a process on the machine."""
        number = next(self._starts)
        machine, network = self.machine, self._network
        loop = machine.new_loop()
        loop.connect = network.connect
        self.identity = f"{self.name}_{number}"
        chances = random.Random(f"{self._seed} {self.identity}")
        config = ClientConfig("http://virtual", StaticCredentials(f"Bearer {TOKEN}"))
        clock = MachineClock(machine)
        around = _Around(
            page_size=self._page_size,
            clock=clock,
            lease_clock=MachineClock(machine, is_unstoppable=True),
            make_rng=lambda: random.Random(chances.getrandbits(64)),
            hostname=self.name,
            identity=self.identity,
            make_transport=lambda config: VirtualTransport(config, network, machine),
            make_control_thread=lambda: VirtualLifeline(machine, network.connect),
            make_limits=lambda: VirtualLimits(clock),
            make_extenders=lambda configs, raw=None, observer=None: [
                self._make_far_end(extender, machine)
                for extender in build_extenders(configs, raw, observer=observer, now=clock.monotonic)
            ],
            tunes_gc=False,
        )
        self.process = process = self._make_process(self._settings, lambda: config, around)
        self._task = task = loop.create_task(process.run(signals=False))
        task.add_done_callback(lambda task: self._world.after(0.0, lambda: self._ended(task, loop)))

    def _ended(self, task: asyncio.Task[int], loop: VirtualLoop) -> None:
        if task is not self._task or not loop.machine.is_alive:
            return
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            self._problems.append(f"{self.identity} ended with {type(error).__name__}: {error}")
        self._count_term()
        self.process = None
        tear_down(*(each for each in loop.machine.loops))
        machine = self.machine
        self._world.after(RESTART_S, lambda: self.start() if machine is self.machine and machine.is_alive else None)

    def _count_term(self) -> None:
        self.terms += self.process is not None and self.process.ready.is_set()

    def stop(self) -> None:
        """Ask the process to end, as SIGTERM does; it is started again."""
        if self.process is not None and self._task is not None and not self.machine.is_asleep:
            loop = self._task.get_loop()
            loop.call_soon(self.process.stop)

    def kill(self, down_s: float) -> None:
        """End the process as ``kill -9`` does, and start another one after a while."""
        if not self.machine.is_alive:
            return
        old = self.machine
        self._count_term()
        self._end_process(old)
        self.machine = Machine(self._world, self.name)
        self.machine.run_clock_at(old.rate)
        self.machine.wall_error_s = old.wall_error_s
        self._world.machines.remove(old)
        new = self.machine
        self._world.after(down_s, lambda: self.start() if new is self.machine else None)

    def end(self) -> None:
        """Tear everything down at the end of a run."""
        self._task = None
        self._end_process(self.machine)

    def _end_process(self, machine: Machine) -> None:
        process, self.process = self.process, None
        machine.kill()
        if process is not None and process.decision_log is not None:
            process.decision_log.abandon()  # the kernel closes what a process had open
