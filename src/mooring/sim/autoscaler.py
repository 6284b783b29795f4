"""Autoscaled node groups: they grow when pending pods would fit on a new node, and shrink when nodes stay empty.

Like the cluster autoscaler, it checks every ten seconds, tries pending pods on hypothetical nodes, and creates as many
as they need. A fork of the cluster with the scheduler's own plugins decides whether a pod would fit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec

from mooring.api.clock import Clock
from mooring.api.codec import from_plain
from mooring.api.core import Node, Pod
from mooring.api.errors import ApiError, InputError
from mooring.controlplane.cluster.pod_sets import made_for, nodes_for
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.registry.groups.workloads import DAEMON_SETS
from mooring.controlplane.registry.verbs import Api, Options
from mooring.controlplane.storage.store import StoredEntry
from mooring.controlplane.types.kind import Object
from mooring.controlplane.types.status import StatusError
from mooring.core.framework.handle import Nominations
from mooring.core.session import Session
from mooring.core.state.cluster import ClusterState
from mooring.core.state.pod_info import PodClass, PodShape
from mooring.live.scheduler import Scheduler
from mooring.sim.objects import node
from mooring.sim.step_fields import described, fields_of, mapping, seconds, texts, whole_number

if TYPE_CHECKING:
    from mooring.sim.scenario import ScenarioCluster

PRICE = "mooring/price-per-hour"
_FIELDS = {"name", "min", "max", "delay", "idle", "price", "cpu", "memory", "pods", "capacity", "labels", "taints",
           "zones"}  # fmt: skip
MAX_PRICE = 10**9
DEFAULT_DELAY_S, DEFAULT_IDLE_S = 120.0, 600.0


class NodeGroup(msgspec.Struct, frozen=True):
    """Nodes of one kind. One is added ``delay_s`` after pending pods were seen, and removed after ``idle_s`` empty."""

    name: str
    least: int
    most: int
    delay_s: float
    idle_s: float
    price: float  # per node and hour
    shape: dict[str, Any]
    zones: tuple[str, ...]

    @staticmethod
    def read(value: Any) -> NodeGroup:
        """Read the step of a scenario file."""
        fields = fields_of(value, _FIELDS, required=("name", "max"))
        least = whole_number(fields.get("min", 0), "min", most=100_000)
        most = whole_number(fields["max"], "max", most=100_000)
        if most < least:
            raise InputError(f"max: expected at least min, which is {least}, found {most}")
        price = fields.get("price", 0)
        if not isinstance(price, int | float) or isinstance(price, bool) or not 0 <= price < MAX_PRICE:
            raise InputError(
                f"price: expected what a node costs in an hour, below {MAX_PRICE:,}, found {described(price)}"
            )
        shape: dict[str, Any] = {name: str(fields[name]) for name in ("cpu", "memory", "pods") if name in fields}
        for name in ("capacity", "labels"):
            shape[name] = {key: str(each) for key, each in mapping(fields.get(name), name).items()}
        shape["taints"] = texts(fields.get("taints", []), "taints")
        group = NodeGroup(
            str(fields["name"]),
            least,
            most,
            seconds(fields.get("delay", DEFAULT_DELAY_S)),
            seconds(fields.get("idle", DEFAULT_IDLE_S)),
            float(price),
            shape,
            tuple(texts(fields.get("zones", []), "zones")),
        )
        group.node(1)  # an invalid taint is found now
        return group

    def node(self, number: int) -> Object:
        """The manifest of a node of the group."""
        zone = self.zones[(number - 1) % len(self.zones)] if self.zones else ""
        made = node(f"{self.name}-{number}", zone=zone, **self.shape)
        if self.price:
            labels = made["metadata"].setdefault("labels", {})  # records keep labels, and not every annotation
            labels[PRICE] = f"{self.price:.6f}".rstrip("0").rstrip(".")
        return made


SCAN_S = 10.0
MOST_TRIED = 200
"""Pending pods tried per check; the others wait for the next one.

Of equal pods that no node helps, one is tried.
"""
MOST_ROUNDS = 100
"""Rounds of the event loop until the scheduler sees a new node."""


class _Members:
    """The nodes of a group: existing ones, and those being created."""

    def __init__(self, group: NodeGroup) -> None:
        self.group = group
        self.there: dict[str, float | None] = {}  # since when it is empty
        self.coming = 0
        self.numbered = 0

    @property
    def room(self) -> int:
        """Number of further nodes allowed."""
        return self.group.most - len(self.there) - self.coming


class Autoscaler:
    """Scales all groups of a simulation.

    ``daemons`` returns the DaemonSet pods of a new node: they are placed before any pod is tried on it.
    """

    def __init__(
        self, scheduler: Scheduler, clock: Clock, cluster: ScenarioCluster, daemons: Callable[[Node], list[Pod]]
    ) -> None:
        self._scheduler, self._clock, self._daemons = scheduler, clock, daemons
        self._cluster = cluster
        self._groups: list[_Members] = []
        self._is_running = False
        self._tried = -1  # attempts of the scheduler at the last check

    async def add(self, group: NodeGroup) -> None:
        """Start scaling a group; its minimum number of nodes is created immediately."""
        if any(known.group.name == group.name for known in self._groups):
            raise InputError(f"name: there is a group {group.name!r} already; give each one its own")
        members = _Members(group)
        self._groups.append(members)
        self._groups.sort(key=lambda each: each.group.price)  # the cheapest is tried first
        for _ in range(group.least):
            await self._add_node(members)
        if not self._is_running:
            self._is_running = True
            self._cluster.beside(self._run())

    @property
    def is_idle(self) -> bool:
        """Report whether no node is being created, and the last check covered all attempts of the scheduler."""
        if not self._groups:
            return True
        counts = self._scheduler.queue.counts()
        is_seen = not sum(counts.values()) or self._tried == self._scheduler.decisions
        return is_seen and not any(members.coming for members in self._groups)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(SCAN_S)
            self._grow()
            await self._shrink()

    # ---- growing -------------------------------------------------------------------------------------------------

    def _grow(self) -> None:
        self._tried = self._scheduler.decisions
        if not any(members.room for members in self._groups):
            return
        waiting = [each for each in self._scheduler.queue.pending_pods() if each.queue in ("unschedulable", "backoff")]
        known = self._scheduler.pods
        pods = [pod for each in waiting if (pod := known.get(f"{each.namespace}/{each.name}")) is not None]
        if not pods:
            return
        fork = self._scheduler.cluster.fork()
        for members in self._groups:
            for number in range(members.numbered - members.coming + 1, members.numbered + 1):
                self._plan(fork, _node_of(members.group, number))
        session = self._scheduler.session.on(fork, Nominations())
        wanted: dict[str, int] = {}
        helpless: set[tuple[PodShape, PodClass]] = set()
        num_tried = 0
        for pod in pods:
            like = (fork.interner.shape(pod), fork.interner.pod_class(pod))
            if like in helpless:
                continue
            if num_tried == MOST_TRIED:
                break
            num_tried += 1
            node = session.decide(pod, detail=False).node or self._on_a_new_node(pod, fork, session, wanted)
            if node:
                session.assume(session.info(pod), node)
            else:
                helpless.add(like)
        for members in self._groups:
            for _ in range(wanted.get(members.group.name, 0)):
                self._order(members)

    def _on_a_new_node(self, pod: Pod, fork: ClusterState, session: Session, wanted: dict[str, int]) -> str | None:
        """The new node that the pod would be placed on, which is added to the fork; None if there is none."""
        for members in self._groups:
            name, new = members.group.name, wanted.get(members.group.name, 0)
            if new >= members.room:
                continue
            node = _node_of(members.group, members.numbered + new + 1)
            if node.name in fork.table.nodes:  # the API server would say the same
                raise ApiError(f'node group {name}: node {node.name}: nodes "{node.name}" already exists', code=409)
            self._plan(fork, node)
            if session.decide(pod, detail=False).node == node.name:
                wanted[name] = new + 1
                return node.name
            for daemon in self._daemons(node):
                fork.remove_pod(daemon.uid)
            fork.remove_node(node.name)
        return None

    def _plan(self, fork: ClusterState, node: Node) -> None:
        """Add a hypothetical node with its daemons to the fork."""
        fork.set_node(node)
        for daemon in self._daemons(node):
            fork.set_pod(daemon)

    def _order(self, members: _Members) -> None:
        members.coming += 1
        members.numbered += 1
        self._cluster.beside(self._arrive(members, members.numbered))

    async def _arrive(self, members: _Members, number: int) -> None:
        await asyncio.sleep(members.group.delay_s)
        name = await self._create(members, number)
        for _ in range(MOST_ROUNDS):  # it counts as being created until the scheduler sees it
            if name in self._scheduler.cluster.table.nodes:
                break
            await asyncio.sleep(0)
        members.coming -= 1
        members.there[name] = None

    async def _add_node(self, members: _Members) -> None:
        members.numbered += 1
        members.there[await self._create(members, members.numbered)] = None

    async def _create(self, members: _Members, number: int) -> str:
        name = f"{members.group.name}-{number}"
        try:
            await self._cluster.create(members.group.node(number))
        except ApiError as error:
            raise ApiError(f"node group {members.group.name}: node {name}: {error}", code=error.code) from error
        return name

    # ---- shrinking -----------------------------------------------------------------------------------------------

    async def _shrink(self) -> None:
        now, nodes = self._clock.monotonic(), self._scheduler.cluster.table.nodes
        for members in self._groups:
            for name, since in list(members.there.items()):
                info = nodes.get(name)
                if info is None or info.node is None:
                    del members.there[name]  # it was deleted by another step
                elif any(not _is_daemon(pod.pod) for pod in info.pods.values()):
                    members.there[name] = None
                elif since is None:
                    members.there[name] = now
                elif now - since >= members.group.idle_s and len(members.there) > members.group.least:
                    del members.there[name]
                    await self._cluster.delete(f"node/{name}")


def _node_of(group: NodeGroup, number: int) -> Node:
    node: Node = from_plain(Node, group.node(number))
    node.status.allocatable = dict(node.status.capacity)
    return node


def _is_daemon(pod: Pod) -> bool:
    owner = pod.metadata.controller()
    return owner is not None and owner.kind == "DaemonSet"


class PlannedDaemons:
    """The pods that DaemonSets would create on a hypothetical node, which reduce its room.

    The API server completes the pod of each DaemonSet in a dry run: defaults, priority class and overhead.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: dict[str, tuple[int, Pod | None]] = {}  # by the DaemonSet's uid, of one version

    def on(self, node: Node) -> list[Pod]:
        """Return those that would run there."""
        found: list[Pod] = []
        for entry in self._api.store.iterate(DAEMON_SETS):
            like = self._pod_of(entry)
            if like is not None and nodes_for(like)(node):
                pod = copy(like)
                pod.metadata, pod.spec = copy(like.metadata), copy(like.spec)
                pod.metadata.name = f"{entry.name}-{node.name}"
                pod.metadata.uid = f"{entry.uid}/{node.name}"
                pod.spec.node_name = node.name
                found.append(pod)
        return found

    def _pod_of(self, entry: StoredEntry) -> Pod | None:
        """The pod before it has a node; None if the API server refuses it."""
        version, pod = self._made.get(entry.uid, (-1, None))
        if version != entry.rv:
            try:
                wanted = made_for(entry.object())
                # a random name would change those of the next pods
                wanted["metadata"]["name"] = f"{entry.name}-planned"
                pod = from_plain(Pod, self._api.create(PODS, entry.namespace, wanted, Options(dry_run=True)).object())
            except StatusError:
                pod = None
            self._made[entry.uid] = entry.rv, pod
        return pod
