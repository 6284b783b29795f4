"""What each step of a story does to a world."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.controlplane.registry.catalog import NODES, PODS
from mooring.controlplane.registry.groups.nodes import LEASES
from mooring.controlplane.registry.groups.scheduling import POD_GROUPS
from mooring.controlplane.registry.verbs import Api
from mooring.controlplane.types.status import StatusError
from mooring.sim.backend import Ref
from mooring.sim.scenario_file import named_nodes
from mooring.sim.step_fields import texts
from tests.faults.api_server import ApiServer
from tests.faults.loads import is_tied
from tests.faults.network import Network, Trouble
from tests.faults.plan import Step
from tests.faults.replica import Replica
from tests.faults.story import Moment, fault_step
from tests.faults.unreliable import Moods
from tests.faults.world import World

NAMESPACE = "default"
AGAIN_S = 0.25
LARGE_CPU = "2"  # as much as the largest pod of a plan wants


class Happenings:
    """Does the steps. ``calm`` ends all trouble, so that everything must come to rest."""

    def __init__(
        self, world: World, network: Network, server: ApiServer, replicas: list[Replica], moods: Moods
    ) -> None:
        self._world, self._network, self._server, self._replicas = world, network, server, replicas
        self._moods = moods
        self._nodes: dict[str, Any] = {}  # every node that there has been, as it was made
        self._pods: dict[str, Any] = {}  # the same for pods
        self._waiting: deque[Callable[[Api], None]] = deque()  # writes for which the server was down
        self._is_calm = False
        self.done: dict[str, int] = {}

    def set_up(self, moments: list[Moment]) -> None:
        """Make the cluster in which everything begins, safely stored."""
        for moment in moments:
            self.do(moment)
        self._server.disk.sync()
        self._server.disk.checkpoint()

    def do(self, moment: Moment) -> None:
        if moment.verb == "fault":
            step = fault_step(moment.at_s, moment.value)
            self._note(step.what)
            act: Callable[[Any], None] = getattr(self, "_" + step.what.replace("-", "_"))
            act(step)
        else:
            self._note(moment.verb)
            do: dict[str, Callable[[Any], None]] = {
                "nodes": self._make_nodes,
                "create": self._create,
                "delete": self._delete,
                "cordon": self._cordon,
                "uncordon": self._uncordon,
            }
            do[moment.verb](moment.value)

    def _note(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    @property
    def leader(self) -> Replica | None:
        """Who leads; of two, the one that is awake: the other has lost the lease and does not know."""
        leading = [replica for replica in self._replicas if replica.leads and replica.machine.is_alive]
        return min(leading, key=lambda replica: replica.machine.is_asleep, default=None)

    def calm(self) -> None:
        """End everything that is out of order, and leave as many pods as certainly have room."""
        self._is_calm = True
        for trouble in self._network.troubles.values():
            trouble.calm()
        moods = self._moods
        moods.raises = moods.hangs = moods.lies = False
        self._server.disk.is_full = False
        for replica in self._replicas:
            replica.machine.wake()
        self._write(self._repair)

    def _repair(self, api: Api) -> None:
        for name, node in self._nodes.items():
            if api.store.get(NODES, "", name) is None:
                _create(api, node)
        self._set_unschedulable(api, list(self._nodes), False)
        for name in _too_many(api, len(self._nodes)):
            api.delete(PODS, NAMESPACE, name, {"gracePeriodSeconds": 0})

    # ---- replicas and times ------------------------------------------------------------------------------------------

    @property
    def _api(self) -> Api:
        assert self._server.plane is not None
        return self._server.plane.api

    def _write(self, write: Callable[[Api], None]) -> None:
        """Write as a client whose network never fails; while the server is down, later, and in order."""
        self._waiting.append(write)
        if len(self._waiting) == 1:
            self._write_all()

    def _write_all(self) -> None:
        if not self._server.is_up:
            self._world.after(AGAIN_S, self._write_all)
            return
        while self._waiting:
            write = self._waiting.popleft()
            try:
                write(self._api)
            except StatusError as error:
                self._note(f"refused {error.code}")

    def _whom(self, step: Step) -> Replica | None:
        if step.name == "leader":
            return self.leader
        if step.name == "standby":
            return next((replica for replica in self._replicas if not replica.leads), None)
        return next((replica for replica in self._replicas if replica.name == step.name), None)

    def _for(self, step: Step, begin: Callable[[], None], end: Callable[[], None]) -> None:
        if self._is_calm:
            return
        begin()
        self._world.after(step.for_s, end)

    def _trouble(self, step: Step, **changes: Any) -> None:
        replica = self._whom(step)
        if replica is None:
            return
        trouble, usual = self._network.trouble(replica.machine), Trouble()

        def begin() -> None:
            for name, value in changes.items():
                setattr(trouble, name, value)

        def end() -> None:
            for name in changes:
                setattr(trouble, name, getattr(usual, name))

        self._for(step, begin, end)

    # ---- pods and nodes ----------------------------------------------------------------------------------------

    def _make_nodes(self, value: Any) -> None:
        for node in named_nodes(value):
            self._create(node)

    def _create(self, value: Any) -> None:
        if value["kind"] == "Node":
            self._nodes[value["metadata"]["name"]] = value
        elif value["kind"] == "Pod":
            self._pods[value["metadata"]["name"]] = value
        self._write(lambda api: _create(api, value))

    def _replace_pods(self, step: Step) -> None:
        """Pods go, and others come at once that have their names and want more, as from a StatefulSet that was changed.

        ``name`` is one of them; otherwise each goes with the probability ``amount``. ``high`` gives those that come the
        highest priority.
        """

        def replace(api: Api) -> None:
            for entry in list(api.store.iterate(PODS, NAMESPACE)):
                if entry.name == step.name or (not step.name and self._world.rng.random() < step.amount):
                    api.delete(PODS, NAMESPACE, entry.name, {"gracePeriodSeconds": 0})
                    pod = self._pods[entry.name]
                    _create(api, pod if is_tied(pod) else _larger(pod, step.how))

        if not self._is_calm:
            self._write(replace)

    def _delete(self, value: Any) -> None:
        ref = Ref.parse(value)
        self._write(lambda api: api.delete(ref.kind, ref.namespace, ref.name) and None)

    def _cordon(self, value: Any) -> None:
        self._write(lambda api: self._set_unschedulable(api, texts(value, "cordon"), True))

    def _uncordon(self, value: Any) -> None:
        self._write(lambda api: self._set_unschedulable(api, texts(value, "uncordon"), False))

    @staticmethod
    def _set_unschedulable(api: Api, names: list[str], is_unschedulable: bool) -> None:
        for name in names:
            api.modify(NODES, "", name, lambda node: node["spec"].update(unschedulable=is_unschedulable))

    def _lose_node(self, step: Step) -> None:
        def lose(api: Api) -> None:
            api.delete(NODES, "", step.name)
            for entry in list(api.store.pods_on(step.name)):
                api.delete(PODS, entry.namespace, entry.name, {"gracePeriodSeconds": 0})

        def come_back(api: Api) -> None:
            if api.store.get(NODES, "", step.name) is None:
                _create(api, self._nodes[step.name])

        self._for(step, lambda: self._write(lose), lambda: self._write(come_back))

    # ---- the network -------------------------------------------------------------------------------------------

    def _lose_requests(self, step: Step) -> None:
        self._trouble(step, lose_request=step.amount, half=0.7 if step.how == "half" else 0.0)

    def _lose_answers(self, step: Step) -> None:
        """``half``: some are cut in the middle; or the answers to requests with that in their path."""
        is_half = step.how == "half"
        self._trouble(
            step, lose_answer=step.amount, half=0.7 if is_half else 0.0, lose_answer_of="" if is_half else step.how
        )

    def _late_messages(self, step: Step) -> None:
        self._trouble(step, late=0.5, late_answer_s=step.amount, late_of=step.how)

    def _double_requests(self, step: Step) -> None:
        self._trouble(step, double=step.amount)

    def _double_events(self, step: Step) -> None:
        self._trouble(step, double_events=step.amount)

    def _reset_connections(self, step: Step) -> None:
        self._trouble(step, reset=step.amount)

    def _refuse_requests(self, step: Step) -> None:
        """``how`` is the code, or ``half``: any of them, and it breaks off in the middle of its body."""
        is_half = step.how == "half"
        code = 0 if is_half else int(step.how or 0)
        self._trouble(step, refuse=step.amount, refuse_with=code, half_refusal=0.7 if is_half else 0.0)

    def _lists_behind(self, step: Step) -> None:
        self._trouble(step, lists_behind_s=step.amount)

    def _expire_pages(self, step: Step) -> None:
        self._trouble(step, expire_pages=True)

    def _cut_off(self, step: Step) -> None:
        self._trouble(step, is_cut_off=True)

    def _lag_watches(self, step: Step) -> None:
        self._trouble(step, watch_lag_s=step.amount, watch_lag_of=step.how)

    def _expire_watches(self, step: Step) -> None:
        """``resumed``: only those that go on from a version, so that the list which follows comes through."""
        self._trouble(step, expire=True, spare_lists=step.how == "resumed")

    def _cut_watches(self, step: Step) -> None:
        replica = self._whom(step)
        if replica is not None or not step.name:
            self._network.cut_watches(None if replica is None else replica.machine, in_the_middle=bool(step.how))

    # ---- the server --------------------------------------------------------------------------------------------

    def _forget_history(self, step: Step) -> None:
        self._write(lambda api: api.store.forget_history())
        self._network.cut_watches(None, in_the_middle=False)

    def _delete_lease(self, step: Step) -> None:
        """The lease is deleted, which gives no replica the right to lead before it would have expired."""

        def delete(api: Api) -> None:
            for lease in list(api.store.iterate(LEASES)):
                api.delete(LEASES, lease.namespace, lease.name)

        self._write(delete)

    def _empty_lease(self, step: Step) -> None:
        """The holder is removed from the lease, which is still the holder's until it expires."""

        def empty(api: Api) -> None:
            for lease in list(api.store.iterate(LEASES)):
                api.modify(LEASES, lease.namespace, lease.name, lambda found: found["spec"].update(holderIdentity=""))

        self._write(empty)

    def _restart_server(self, step: Step) -> None:
        if not self._is_calm:
            self._server.restart(step.for_s, loses=False)

    def _lose_storage(self, step: Step) -> None:
        if not self._is_calm:
            self._server.restart(step.for_s, loses=True)

    def _fill_disk(self, step: Step) -> None:
        disk = self._server.disk
        self._for(step, lambda: setattr(disk, "is_full", True), lambda: setattr(disk, "is_full", False))

    # ---- replicas ----------------------------------------------------------------------------------------------

    def _sleep(self, step: Step) -> None:
        replica = self._whom(step)
        if replica is not None:
            machine, stops_clock = replica.machine, step.how == "suspend"
            self._for(step, lambda: machine.fall_asleep(stops_clock=stops_clock), machine.wake)

    def _kill(self, step: Step) -> None:
        """Kill a replica; ``elected``: the next one that leads, as soon as it does."""
        if step.how == "elected":
            self._kill_next(step, self._whom(step))
            return
        replica = self._whom(step)
        if replica is not None and not self._is_calm:
            replica.kill(step.for_s)

    def _kill_next(self, step: Step, before: Replica | None) -> None:
        leader = self.leader
        if leader is not None and leader is not before:
            leader.kill(step.for_s)
        elif not self._is_calm:
            self._world.after(0.002, lambda: self._kill_next(step, before))

    def _stop(self, step: Step) -> None:
        replica = self._whom(step)
        if replica is not None:
            replica.stop()

    def _drift(self, step: Step) -> None:
        replica = self._whom(step)
        if replica is not None:
            replica.machine.run_clock_at(step.amount)

    def _jump(self, step: Step) -> None:
        replica = self._whom(step)
        if replica is not None:
            replica.machine.wall_error_s += step.amount

    # ---- plugins and extenders ---------------------------------------------------------------------------------

    def _mood(self, step: Step, name: str) -> None:
        self._for(step, lambda: setattr(self._moods, name, True), lambda: setattr(self._moods, name, False))

    def _hang_extender(self, step: Step) -> None:
        self._mood(step, "hangs")

    def _lie_extender(self, step: Step) -> None:
        self._mood(step, "lies")

    def _raise_plugin(self, step: Step) -> None:
        self._mood(step, "raises")


def _too_many(api: Api, nodes: int) -> list[str]:
    """Names of pods that have to go so that the others certainly have room.

    A pod wants two CPUs at most and a node has four, so one pod for each node can stay. A pod that is tied may have to
    go to one certain node, or needs all of its gang. So of others only one stays with them, and of gangs only one.
    """
    pods = [entry.object() for entry in api.store.iterate(PODS, NAMESPACE)]
    tied = [pod for pod in pods if is_tied(pod)]
    gangs = {pod["metadata"]["name"].rpartition("-")[0] for pod in tied if "schedulingGroup" in pod["spec"]}
    whole = next((gang for gang in sorted(gangs) if _is_whole(api, gang, tied)), None)
    if gangs:
        tied = [pod for pod in tied if pod["spec"].get("schedulingGroup", {}).get("podGroupName") == whole]
    keep = {pod["metadata"]["name"] for pod in tied[:nodes]}
    others = [pod["metadata"]["name"] for pod in pods if not is_tied(pod)]
    keep.update(others[: 1 if tied else nodes])
    return [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"] not in keep]


def _is_whole(api: Api, name: str, pods: list[Any]) -> bool:
    group = api.store.get(POD_GROUPS, NAMESPACE, name)
    if group is None:
        return False
    members = [pod for pod in pods if pod["spec"].get("schedulingGroup", {}).get("podGroupName") == name]
    staying = [pod for pod in members if not pod["metadata"].get("deletionTimestamp")]
    return len(staying) >= int(group.object()["spec"]["schedulingPolicy"]["gang"]["minCount"])


def _larger(pod: Any, priority_class: str) -> Any:
    wants = {"requests": {"cpu": LARGE_CPU, "memory": "64Mi"}}
    containers = [{**container, "resources": wants} for container in pod["spec"]["containers"]]
    priority = {"priorityClassName": priority_class} if priority_class else {}
    return {**pod, "spec": {**pod["spec"], **priority, "containers": containers}}


def _create(api: Api, value: Any) -> None:
    """Create a copy: the server changes what it is given."""
    made = msgspec.json.decode(msgspec.json.encode(value))
    ref = Ref.of(made)
    api.create(ref.kind, ref.namespace, made)
