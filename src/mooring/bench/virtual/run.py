"""One run of a plan: a world is made, the plan's steps happen, and then everything has to come to rest."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from msgspec import structs

from mooring.bench.soak_holdings import left_behind
from mooring.bench.virtual.api_server import ApiServer
from mooring.bench.virtual.audit import VirtualAudit
from mooring.bench.virtual.happenings import NAMESPACE, Happenings
from mooring.bench.virtual.network import Network
from mooring.bench.virtual.plan import Plan
from mooring.bench.virtual.replica import MakeProcess, Replica, a_process
from mooring.bench.virtual.unreliable import Moods, MoodyExtender, raising_plugin
from mooring.bench.virtual.world import World
from mooring.config.load import config_from_dict
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.storage.store import Event
from mooring.scheduler.flags import parse_flags
from mooring.scheduler.settings import Settings, load_settings

LEASE = "soak"
LEASE_S = 15.0
SETTLE_S = 180.0
LOOK_S = 1.0


@dataclass
class Outcome:
    """What a run did and found. The digest is that of every write to the store, in order."""

    seed: int
    seconds: float
    pods_bound: int = 0
    lifetimes: int = 0
    leaders: int = 0
    settled_s: float = 0.0
    digest: str = ""
    done: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def settings_for(plan: Plan, moods: Moods) -> Settings:
    """What the replicas of a plan are started with: the defaults, but for what the plan wants."""
    flags = [
        "--secure-port=0",
        "--leader-elect-resource-name=" + LEASE,
        f"--kube-api-qps={plan.qps}",
        f"--kube-api-burst={plan.qps}",
    ]
    if plan.decision_log:
        flags.append(f"--decision-log={plan.decision_log}")
    settings = load_settings(parse_flags(flags))
    content: dict[str, Any] = {}
    registry = settings.registry
    if plan.extender:
        content["extenders"] = [{"urlPrefix": "http://extender.invalid", "filterVerb": "filter", "weight": 1}]
    if plan.plugin:
        registry.register(raising_plugin(moods))
        plugins = {"multiPoint": {"enabled": [{"name": "Raising"}]}}
        content["profiles"] = [{"schedulerName": "default-scheduler", "plugins": plugins}]
    if not content:
        return settings
    made = config_from_dict(content, settings.features)
    config = structs.replace(settings.config, extenders=made.extenders, profiles=made.profiles)
    return replace(settings, config=config)


class Run:
    """A world with a plan. ``play`` plays it to its end."""

    def __init__(self, plan: Plan, make_process: MakeProcess = a_process) -> None:
        self.plan = plan
        self.world = world = World(random.Random(f"{plan.seed} world"))
        self.network = Network(world, random.Random(f"{plan.seed} network"))
        self.audit = VirtualAudit(lambda: world.now_s, LEASE, LEASE_S)
        self.server = ApiServer(world, self.network, plan.seed, self.audit.follow)
        self.problems = self.audit.problems
        moods = Moods(random.Random(f"{plan.seed} moods"))
        settings = settings_for(plan, moods)
        self.replicas: list[Replica] = []
        self.happenings = Happenings(world, self.network, self.server, self.replicas, moods, plan.nodes)
        self.happenings.set_up()
        self.replicas += [
            Replica(
                world,
                self.network,
                f"replica-{i}",
                settings,
                plan.seed,
                self.problems,
                extenders=lambda machine: (MoodyExtender(machine, moods),),
                make_process=make_process,
            )
            for i in range(plan.replicas)
        ]
        for step in plan.steps:
            world.at(step.at_s, lambda step=step: self.happenings.do(step))  # type: ignore[misc]

    def play(self, progress: Callable[[Run], None] = lambda run: None, *, stops_early: bool = False) -> Outcome:
        """Play the plan, then calm down and look whether anything is missing."""
        outcome = Outcome(self.plan.seed, self.plan.seconds)
        world = self.world
        try:
            while world.now_s < self.plan.seconds and not (stops_early and self.problems):
                world.run_until(min(self.plan.seconds, world.now_s + 10.0))
                progress(self)
            if not (stops_early and self.problems):
                self.happenings.calm()
                outcome.settled_s = self._settle()
        finally:
            self.end()
        outcome.pods_bound, outcome.lifetimes = self.audit.bound, self.audit.lifetimes
        outcome.leaders = self.audit.leases
        outcome.digest = self.server.disk.digest.hexdigest()
        outcome.done = dict(sorted((self.happenings.done | self.network.done).items()))
        outcome.problems = list(self.problems)
        return outcome

    def end(self) -> None:
        """End all processes."""
        for replica in self.replicas:
            replica.end()
        self.server.end()

    def watch_bindings(self) -> list[tuple[str, float]]:
        """The name of each pod that is bound from now on, and when, as it happens."""
        bound: list[tuple[str, float]] = []

        def note(event: Event) -> None:
            is_bound = bool((event.entry.fields or {}).get("spec.nodeName"))
            was_bound = event.previous is not None and bool((event.previous.fields or {}).get("spec.nodeName"))
            if is_bound and not was_bound:
                bound.append((event.entry.name, self.world.now_s))

        assert self.server.plane is not None
        self.server.plane.store.subscribe(PODS, note)
        return bound

    def _settle(self) -> float:
        """With room for all and no trouble every pod must find a node, and all replicas must know what is there."""
        world, started_s = self.world, self.world.now_s
        while True:
            world.run_until(world.now_s + LOOK_S)
            missing = self._missing()
            if not missing or world.now_s - started_s >= SETTLE_S:
                self.problems += missing
                return world.now_s - started_s

    def _missing(self) -> list[str]:
        plane = self.server.plane
        if plane is None:
            return ["the server is down"]
        entries = plane.store.iterate(PODS, NAMESPACE)
        waiting = [entry.key for entry in entries if not (entry.fields or {}).get("spec.nodeName")]
        missing = []
        if waiting:
            missing.append(f"{len(waiting)} pods found no node although there is room: {', '.join(waiting[:5])}")
        for replica in self.replicas:
            held = ["no scheduler"] if replica.live is None else left_behind(plane, replica.live)
            if held:
                missing.append(f"{replica.name} at rest holds {', '.join(held)}")
        return missing
