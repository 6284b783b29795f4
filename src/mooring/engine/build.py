"""From a configuration to profiles that decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mooring.api.core import Pod
from mooring.clock import Clock, SystemClock
from mooring.config.features import DEFAULT_FEATURES, Features
from mooring.config.profile import effective_args, expand_all, with_ignored_resources
from mooring.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from mooring.engine.cycle import Engine
from mooring.engine.decision import Decision, Outcome
from mooring.engine.extenders import Extenders
from mooring.engine.groups.cycle import GroupCycle
from mooring.engine.groups.preemption import GroupPreemption
from mooring.engine.in_tree import in_tree_registry
from mooring.engine.preemption.evaluator import Evaluator
from mooring.errors import ConfigError, InputError, MooringError
from mooring.framework.devices import Devices, NoDevices
from mooring.framework.extender import AskAll, Extender, ask_in_turn
from mooring.framework.handle import Handle
from mooring.framework.nominator import Nominator, NoNominations
from mooring.framework.registry import Registry
from mooring.framework.resolved import ResolvedPlugin
from mooring.framework.runtime import Profile, run_pre_enqueue
from mooring.state.cluster import Cluster


def decide(engine: Engine, profile: Profile, pod: Pod, *, detail: bool = True) -> Decision:
    """Decide about a pod that is new. One that a PreEnqueue plugin holds back is gated: it is not tried."""
    info = engine.cluster.info(pod)
    held = run_pre_enqueue(profile.pre_enqueue, pod)
    if held.is_success:
        return engine.decide(info, profile, detail=detail)
    return Decision(info, Outcome.GATED, status=held, num_nodes=len(engine.cluster.nodes()))


@dataclass(slots=True)
class Built:
    """An engine with its profiles by scheduler name."""

    engine: Engine
    profiles: dict[str, Profile]
    handle: Handle
    features: Features
    _on: Callable[[Cluster, Nominator, Devices], Built]

    def on(self, cluster: Cluster, nominator: Nominator | None = None) -> Built:
        """Build the same for another cluster, such as a fork: plugins belong to the cluster they are made for."""
        return self._on(cluster, nominator or self.handle.nominator, self.handle.devices)

    def groups(self, profile: Profile) -> GroupCycle:
        """Decides about pod groups with this profile."""
        return GroupCycle(
            self.engine, profile, self.handle, by_placement=self.features["TopologyAwareWorkloadScheduling"]
        )

    def decide(self, pod: Pod, *, detail: bool = True) -> Decision:
        """Decide about a pod that is new, with the profile that it asks for."""
        return decide(self.engine, self.profile_of(pod), pod, detail=detail)

    def profile_of(self, pod: Pod) -> Profile:
        """The profile that the pod asks for, or InputError where there is none."""
        profile = self.profiles.get(pod.spec.scheduler_name)
        if profile is None:
            raise InputError(
                f"Pod {pod.key}: spec.schedulerName: no profile for {pod.spec.scheduler_name!r}; "
                f"the configuration has {', '.join(self.profiles)}"
            )
        return profile


def build(
    config: KubeSchedulerConfiguration,
    cluster: Cluster,
    *,
    clock: Clock | None = None,
    nominator: Nominator | None = None,
    registry: Registry | None = None,
    features: Features = DEFAULT_FEATURES,
    prepare: Callable[[Handle], None] | None = None,
    extenders: Sequence[Extender] = (),
    ask_all: AskAll = ask_in_turn,
) -> Built:
    """Build every profile, or raise ConfigError with upstream's words for what is wrong.

    ``extenders`` are what the configuration's entries stand for, made by the caller; without them
    only ``ignoredByScheduler`` is heeded.
    """
    registry = registry or in_tree_registry()
    clock = clock or SystemClock()
    config = with_ignored_resources(config)
    expanded = expand_all(config, registry.points(), version=features.version)

    cluster.count_resizes(whole=features["ResizesCountWholePods"])

    def on(cluster: Cluster, nominator: Nominator, devices: Devices) -> Built:
        handle = Handle(cluster, clock, nominator, features, devices=devices)
        handle.extenders = tuple(extenders)
        if prepare is not None:
            prepare(handle)
        registry.prepare(handle)
        engine = Engine(
            cluster,
            nominator,
            clock=clock,
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            extenders=_extenders(handle, ask_all),
            batches=features["OpportunisticBatching"],
            rescores=features["BatchingRescoresTheLastNode"],
        )

        def again(fork: Cluster) -> Built:
            return on(fork, nominator, handle.devices)

        profiles = {
            profile.scheduler_name: build_profile(
                profile, expanded[profile.scheduler_name], registry, handle, engine, features, again
            )
            for profile in config.profiles
        }
        return Built(engine, profiles, handle, features, on)

    return on(cluster, nominator or NoNominations(), NoDevices())


def _extenders(handle: Handle, ask_all: AskAll) -> Extenders | None:
    if not handle.extenders:
        return None
    return Extenders(handle.extenders, pick=handle.pick, ask_all=ask_all)


def build_profile(
    profile: KubeSchedulerProfile,
    points: Mapping[str, list[tuple[str, int]]],
    registry: Registry,
    handle: Handle,
    engine: Engine,
    features: Features,
    on: Callable[[Cluster], Built],
) -> Profile:
    handle = replace(handle)  # each profile's plugins share one; preemption needs its own profile's filters
    handle.points = {point: frozenset(name for name, _ in enabled) for point, enabled in points.items()}
    names = dict.fromkeys(name for enabled in points.values() for name, _ in enabled)
    plugins = {name: _make(profile, name, registry, handle, features) for name in names}
    built = Profile(profile.scheduler_name, profile.percentage_of_nodes_to_score, plugins, points)
    by_placement = features["TopologyAwareWorkloadScheduling"]

    def on_fork(cluster: Cluster) -> GroupCycle:
        made = on(cluster)
        return GroupCycle(made.engine, made.profiles[profile.scheduler_name], handle, by_placement=by_placement)

    handle.preemption = Evaluator(built, engine, handle, GroupPreemption(handle, on_fork))
    return built


def _make(
    profile: KubeSchedulerProfile, name: str, registry: Registry, handle: Handle, features: Features
) -> ResolvedPlugin:
    try:
        return registry.make(name, effective_args(profile, name, features), handle)
    except MooringError as error:
        problems = error.problems if isinstance(error, ConfigError) else (str(error),)
        prefix = f"initializing profiles: creating profile for scheduler name {profile.scheduler_name}: "
        raise ConfigError(*(f'{prefix}initializing plugin "{name}": {problem}' for problem in problems)) from None
