"""The API server of a virtual world: the embedded control plane with a disk that can be full, and restarts."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Iterable

from mooring.controlplane.cluster.base import Controller
from mooring.controlplane.cluster.garbage import GarbageCollector, expire_events
from mooring.controlplane.cluster.kubelet import KubeletOptions, Kubelets
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.server import ControlPlane
from mooring.controlplane.serving.access import MASTERS, ApiUser
from mooring.controlplane.storage.persistence import RESTART_GAP, not_kept
from mooring.controlplane.storage.store import Store
from mooring.controlplane.types.kind import Kind
from tests.faults.network import Network, Server
from tests.faults.stale import BehindHub
from tests.faults.world import Machine, MachineClock, VirtualLoop, World, tear_down

TOKEN = "virtual"
SYNC_S = 0.0005
CHECKPOINT_S = 5.0
HISTORY = 200
"""How many changes of each kind a watch can resume from: few, so that watches expire."""
EVENT_TTL_S = 60.0


class MemoryDisk:
    """Keeps what a control plane writes. ``checkpoint`` is what is left when more than the process is lost."""

    def __init__(self) -> None:
        self.rv = 0
        self.is_full = False
        self.digest = hashlib.blake2b(digest_size=16)
        self._kept: dict[tuple[str, str], bytes] = {}
        self._checkpoint: dict[tuple[str, str], bytes] = {}
        self._pending: list[tuple[str, str, bytes | None]] = []

    def record(self, rv: int, resource: str, key: str, raw: bytes | None) -> None:
        self.rv = rv
        self._pending.append((resource, key, raw))
        self.digest.update(b"%d %b %b %b\n" % (rv, resource.encode(), key.encode(), raw or b""))

    async def durable(self) -> None:
        await asyncio.sleep(SYNC_S)
        if self.is_full:
            raise not_kept()
        self.sync()

    def sync(self) -> None:
        for resource, key, raw in self._pending:
            if raw is None:
                self._kept.pop((resource, key), None)
            else:
                self._kept[resource, key] = raw
        self._pending.clear()

    async def close(self) -> None: ...

    def checkpoint(self) -> None:
        self._checkpoint = dict(self._kept)

    def lose(self) -> None:
        """Go back to the last checkpoint: the machine lost its power, and its disk had not told the truth."""
        self._kept = dict(self._checkpoint)
        self._pending.clear()

    def open_store(self, kinds: Iterable[Kind], *, history: int = 10_000) -> Store:
        store = Store(history=history, journal=self, start_rv=self.rv + RESTART_GAP if self.rv else 1)
        by_resource = {kind.resource: kind for kind in kinds}
        for (resource, _), raw in sorted(self._kept.items()):
            if resource in by_resource:
                store.load(by_resource[resource], raw)
        return store


class ApiServer:
    """Serves the network, with fake kubelets beside it. ``on_start`` is called with each new control plane."""

    def __init__(
        self,
        world: World,
        network: Network,
        seed: int,
        on_start: Callable[[ControlPlane, bool], None],
        make_controllers: Callable[[Api, VirtualLoop], list[Controller]] = lambda api, loop: [],
    ) -> None:
        self.world, self.network = world, network
        self._make_controllers = make_controllers
        self._controllers: list[Controller] = []
        self.machine = Machine(world, "api-server")
        self.disk = MemoryDisk()
        self._rng = random.Random(f"{seed} server")
        self._on_start = on_start
        self._loop: VirtualLoop | None = None
        self._server: Server | None = None
        self._kubelets: Kubelets | None = None
        self.plane: ControlPlane | None = None
        self._up(has_lost=False)
        self._every(CHECKPOINT_S, self.disk.checkpoint)
        self._every(EVENT_TTL_S, self._expire)

    @property
    def is_up(self) -> bool:
        return self.plane is not None

    def restart(self, down_s: float, *, loses: bool) -> None:
        """End the process and start it again after a while, with everything that was written or only an older part."""
        if self.plane is None:
            return
        assert self._server is not None and self._kubelets is not None and self._loop is not None
        self.plane = None
        self.network.hang_up()
        self._server.stop()
        self._kubelets.stop()
        for controller in self._controllers:
            controller.stop()
        tear_down(self._loop)
        if loses:
            self.disk.lose()
        else:
            self.disk.sync()
        self.world.after(down_s, lambda: self._up(has_lost=loses))

    def end(self) -> None:
        """End everything at the end of a run."""
        self.network.hang_up()
        tear_down(*self.machine.loops)

    def _up(self, *, has_lost: bool) -> None:
        self._loop = loop = self.machine.new_loop()
        self.plane = plane = ControlPlane(
            use_tls=False,
            clock=MachineClock(self.machine),
            history=HISTORY,
            garbage_collection=False,
            new_uid=self._uid,
            rng=self._rng,
            disk=self.disk,
        )
        plane.hub = plane.handlers.hub = BehindHub(plane.store, loop)
        plane.access.add({TOKEN: ApiUser("scheduler", groups=(MASTERS,))})
        self._kubelets = Kubelets(plane.api, loop, KubeletOptions(lease_interval_s=0))
        self._on_start(plane, has_lost)
        self._kubelets.start()
        self._controllers = self._make_controllers(plane.api, loop)
        for controller in self._controllers:
            controller.start()
        if self._controllers:  # what they make for pods goes with these pods
            garbage = GarbageCollector(plane.api)
            garbage.start()
            loop.create_task(garbage.run())
        self._server = Server(self.machine, loop, plane.handlers)
        self.network.server = self._server

    def _uid(self) -> str:
        digits = f"{self._rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def _every(self, seconds: float, act: Callable[[], None]) -> None:
        def again() -> None:
            act()
            self.world.after(seconds, again)

        self.world.after(seconds, again)

    def _expire(self) -> None:
        if self.plane is not None:
            expire_events(self.plane.api, EVENT_TTL_S)
