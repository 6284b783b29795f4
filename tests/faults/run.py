"""One run of a story: a world is made, the story happens, and then everything has to come to rest."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from msgspec import structs

from mooring.api.memory import seldom_collecting
from mooring.controlplane.registry.catalog import PODS
from mooring.controlplane.storage.store import Event
from mooring.core.config.load import config_from_dict
from mooring.live.flags import parse_flags
from mooring.live.settings import Settings, load_settings
from tests.faults.api_server import ApiServer
from tests.faults.audit import VirtualAudit
from tests.faults.audit_loads import half_bound
from tests.faults.happenings import NAMESPACE, Happenings
from tests.faults.holdings import left_behind
from tests.faults.loads import GANGS_LOAD, controllers
from tests.faults.network import Network
from tests.faults.plan import Plan
from tests.faults.replica import MakeProcess, Replica, a_process
from tests.faults.story import Story, story_of
from tests.faults.unreliable import EXTENDER, KEPT_OFF, Moods, moody, raising_plugin
from tests.faults.world import World

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


OTHER_LEASE = (
    "--leader-elect-lease-duration=10s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1500ms",
)
OTHER_PROFILE = {
    "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
    "percentageOfNodesToScore": 50,
}
OTHER_PLUGINS = {"multiPoint": {"disabled": [{"name": "ImageLocality"}, {"name": "InterPodAffinity"}]}}


def settings_for(story: Story, moods: Moods, *, is_other: bool = False) -> Settings:
    """What the replicas of a story are started with: the defaults, but for what the story wants.

    ``is_other`` is for those that have been upgraded before the others: their version, profile and lease differ.
    """
    flags = [
        "--secure-port=0",
        "--leader-elect-resource-name=" + LEASE,
        f"--kube-api-qps={story.qps}",
        f"--kube-api-burst={story.qps}",
    ]
    if story.load == GANGS_LOAD:
        flags += ["--kubernetes-version=1.37", "--feature-gates=GenericWorkload=true"]
    elif is_other:
        flags.append("--kubernetes-version=1.37")
    if is_other:
        flags += OTHER_LEASE
    if story.decision_log:
        flags.append(f"--decision-log={story.decision_log}")
    settings = load_settings(parse_flags(flags))
    content: dict[str, Any] = {}
    profile: dict[str, Any] = {"schedulerName": "default-scheduler", **OTHER_PROFILE} if is_other else {}
    plugins: dict[str, Any] = OTHER_PLUGINS if is_other else {}
    registry = settings.registry
    if story.extender:
        content["extenders"] = [EXTENDER]
    if story.plugin:
        registry.register(raising_plugin(moods))
        profile.setdefault("schedulerName", "default-scheduler")
        plugins = {"multiPoint": {**plugins.get("multiPoint", {}), "enabled": [{"name": "Raising"}]}}
    if profile:
        content["profiles"] = [{**profile, "plugins": plugins}]
    if not content:
        return settings
    made = config_from_dict(content, settings.features)
    config = structs.replace(settings.config, extenders=made.extenders, profiles=made.profiles)
    return replace(settings, config=config)


class Run:
    """A world with a story. ``play`` plays it to its end."""

    def __init__(self, plan: Plan | Story, make_process: MakeProcess = a_process) -> None:
        self.story = story = story_of(plan) if isinstance(plan, Plan) else plan
        self.world = world = World(random.Random(f"{story.seed} world"))
        self.network = Network(world, random.Random(f"{story.seed} network"), streams_lists=not story.page_size)
        self.audit = VirtualAudit(lambda: world.now_s, LEASE, LEASE_S, KEPT_OFF if story.extender else None)
        created = [moment.value for moment in story.moments if moment.verb == "create" and moment.at_s == 0]
        self.server = ApiServer(
            world,
            self.network,
            story.seed,
            self.audit.follow,
            lambda api, loop: controllers(story.load, api, loop, created),
        )
        self.problems = self.audit.problems
        moods = Moods(random.Random(f"{story.seed} moods"), self.audit.tell)
        settings = [settings_for(story, moods, is_other=story.mixed and i % 2 == 1) for i in range(2)]
        self.replicas: list[Replica] = []
        self.happenings = Happenings(world, self.network, self.server, self.replicas, moods)
        self.happenings.set_up([moment for moment in story.moments if moment.at_s == 0])
        self.replicas += [
            Replica(
                world,
                self.network,
                f"replica-{i}",
                settings[i % 2],
                story.seed,
                self.problems,
                make_far_end=lambda extender, machine: moody(extender, machine, moods),
                make_process=make_process,
                page_size=story.page_size,
            )
            for i in range(story.replicas)
        ]
        for moment in story.moments:
            if moment.at_s > 0:
                world.at(moment.at_s, lambda moment=moment: self.happenings.do(moment))  # type: ignore[misc]

    def play(self, progress: Callable[[Run], None] = lambda run: None, *, stops_early: bool = False) -> Outcome:
        """Play the story, then calm down and look whether anything is missing."""
        with seldom_collecting():
            return self._play(progress, stops_early)

    def _play(self, progress: Callable[[Run], None], stops_early: bool) -> Outcome:
        outcome = Outcome(self.story.seed, self.story.seconds)
        world = self.world
        try:
            while world.now_s < self.story.seconds and not (stops_early and self.problems):
                world.run_until(min(self.story.seconds, world.now_s + 10.0))
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
        """With room for all and no trouble every pod must find a node, and all replicas must know all objects."""
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
        missing += half_bound(plane.store, NAMESPACE)
        for replica in self.replicas:
            held = ["no scheduler"] if replica.live is None else left_behind(plane, replica.live)
            if held:
                missing.append(f"{replica.name} at rest holds {', '.join(held)}")
        return missing
